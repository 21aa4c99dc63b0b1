// RNN, LSTM and GRU of ONNX as layers. Weights are [D, G*H, ...] with gates in the order i o f g
// (LSTM) and z r n (GRU), and go to i f g o and r z n; B is the input's bias, then the recurrent
// one, and the two are added except where linear_before_reset keeps that of n apart. Equations:
// github.com/onnx/onnx, docs/Operators.md.
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "import/onnx_activation.h"

enum { X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, P };

typedef struct {
    const char *op, *cell;
    int gates, gate_at[4]; ///< canonical gate k stands at gate_at[k] of the file
    int activations;
    const char *states;
} Kind;

static const Kind kinds[] = {{"RNN", "rnn", 1, {0}, 1, "h"},
                             {"GRU", "gru", 3, {1, 0, 2}, 2, "h"},
                             {"LSTM", "lstm", 4, {0, 2, 3, 1}, 3, "hc"}};

enum { PEEPHOLES = 3 };
/// P is i o f, and goes to i f o.
static const int peephole_at[PEEPHOLES] = {0, 2, 1};

/// A node under reading.
typedef struct {
    OnnxReader *reader;
    const OnnxNode *node;
    const Kind *kind;
    int64_t D, H, I;
    bool batch_first, reset_after;
    const OnnxFlow *x;
    int time_at, batch_at;
} Recurrent;

static const Kind *kind_of(const char *op)
{
    const Kind *kind = kinds;
    while (strcmp(kind->op, op) != 0)
        kind++;
    return kind;
}

/// A constant input of shape [D, rows, columns] ([D, rows] for columns 0); NULL where it is not.
static const float *take_weights(const Recurrent *on, int input, const char *name, int64_t rows,
                                 int64_t columns)
{
    const OnnxValue *value = onnx_input(on->node, input);
    const int dim_count = columns ? 3 : 2;
    const int64_t wanted[3] = {on->D, rows, columns};
    if (value->kind != VALUE_CONSTANT || !value->floats) {
        onnx_refuse(on->reader, on->node,
                    "store it as an initializer, or put the values beside the model as "
                    "test_data_set_0/input_N.pb",
                    "input %s is not a constant of floats", name);
        return NULL;
    }
    if (value->dim_count == dim_count &&
        memcmp(value->dims, wanted, sizeof(int64_t) * (size_t)dim_count) == 0)
        return value->floats;
    Text shape = {.arena = on->reader->arena};
    for (int i = 0; i < value->dim_count; i++)
        text_addf(&shape, "%s%lld", i ? ", " : "", (long long)value->dims[i]);
    const char *last = columns ? arena_format(shape.arena, ", %lld", (long long)columns) : "";
    onnx_refuse(on->reader, on->node, NULL, "input %s has shape [%s], not [%lld, %lld%s]", name,
                text_string(&shape), (long long)on->D, (long long)rows, last);
    return NULL;
}

/// Blocks of `block` numbers, the k-th from place at[k].
static float *reorder(Arena *arena, const float *from, const int *at, int count, int64_t block)
{
    float *to = ARENA_ARRAY(arena, float, count *block);
    for (int k = 0; k < count; k++)
        memcpy(to + k * block, from + at[k] * block, sizeof(float) * (size_t)block);
    return to;
}

/// Canonical b and rb from the 2*G*H numbers of one direction.
static void take_biases(const Recurrent *on, const float *from, OnnxDirection *to)
{
    Arena *arena = on->reader->arena;
    const int64_t H = on->H;
    const int gates = on->kind->gates, summed = on->reset_after ? gates - 1 : gates;
    float *b = reorder(arena, from, on->kind->gate_at, gates, H);
    const float *recurrent = reorder(arena, from + gates * H, on->kind->gate_at, gates, H);
    for (int64_t i = 0; i < summed * H; i++)
        b[i] += recurrent[i];
    to->b = b;
    to->rb = on->reset_after ? recurrent + summed * H : NULL;
}

static bool fill_weights(const Recurrent *on, OnnxLayer *layer)
{
    Arena *arena = on->reader->arena;
    const int gates = on->kind->gates;
    const bool has_bias = onnx_input(on->node, B), has_peepholes = onnx_input(on->node, P);
    const float *w = take_weights(on, W, "W", gates * on->H, on->I);
    const float *r = take_weights(on, R, "R", gates * on->H, on->H);
    const float *b = has_bias ? take_weights(on, B, "B", 2 * gates * on->H, 0) : NULL;
    const float *p = has_peepholes ? take_weights(on, P, "P", PEEPHOLES * on->H, 0) : NULL;
    const int64_t each = gates * on->H * (on->I + on->H + 4) + PEEPHOLES * on->H;
    if (!w || !r || has_bias != (b != NULL) || has_peepholes != (p != NULL) ||
        !onnx_spend(on->reader, on->node, on->D * each))
        return false;
    for (int d = 0; d < on->D; d++) {
        OnnxDirection *to = &layer->directions[d];
        to->W =
            reorder(arena, w + d * gates * on->H * on->I, on->kind->gate_at, gates, on->H * on->I);
        to->R =
            reorder(arena, r + d * gates * on->H * on->H, on->kind->gate_at, gates, on->H * on->H);
        if (b)
            take_biases(on, b + d * 2 * gates * on->H, to);
        if (p)
            to->p = reorder(arena, p + d * PEEPHOLES * on->H, peephole_at, PEEPHOLES, on->H);
    }
    return true;
}

/// W's shape gives I and H; the attributes have to agree.
static bool take_sizes(Recurrent *on)
{
    const OnnxValue *w = onnx_input(on->node, W);
    const char *direction = onnx_string(on->reader, on->node, "direction", "forward");
    on->D = text_equal(direction, "bidirectional") ? 2 : 1;
    if (on->D == 1 && !text_equal(direction, "forward") && !text_equal(direction, "reverse"))
        return onnx_refuse(on->reader, on->node, "it is 'forward', 'reverse' or 'bidirectional'",
                           "attribute 'direction' is '%s'",
                           onnx_shown(on->reader->arena, direction));
    if (w->kind == VALUE_CONSTANT && w->dim_count == 3)
        on->H = w->dims[1] / on->kind->gates;
    on->H = onnx_int(on->node, "hidden_size", on->H);
    if (on->H < 1 || on->H > INT32_MAX / 8)
        return onnx_refuse(on->reader, on->node, NULL, "attribute 'hidden_size' is %lld",
                           (long long)on->H);
    return true;
}

static bool take_input(Recurrent *on)
{
    const OnnxValue *x = onnx_input(on->node, X);
    const int64_t layout = onnx_int(on->node, "layout", 0);
    on->batch_first = layout == 1;
    on->time_at = on->batch_first;
    on->batch_at = !on->batch_first;
    if (layout != 0 && layout != 1)
        return onnx_refuse(on->reader, on->node, NULL, "attribute 'layout' is %lld, not 0 or 1",
                           (long long)layout);
    if (x->kind != VALUE_FLOW || x->flow.is_integer || x->flow.rank != 3)
        return onnx_refuse(on->reader, on->node, NULL,
                           "input X is not data of three axes that flows through the model");
    on->x = &x->flow;
    return onnx_take_chain(on->reader, on->node, on->x) &&
           onnx_take_sequence(on->reader, on->node, on->x, on->time_at, on->batch_at) &&
           onnx_take_features(on->reader, on->node, on->x, 2, &on->I);
}

/// ", activation: relu, clip: 3" of one direction; NULL where something is refused.
static const char *direction_keys(const Recurrent *on, OnnxActivations *activations)
{
    static const char *const defaults[3][3] = {
        {"tanh"}, {"sigmoid", "tanh"}, {"sigmoid", "tanh", "tanh"}};
    const char *found[3] = {NULL};
    Text keys = {.arena = on->reader->arena};
    const int count = on->kind->activations;
    for (int i = 0; i < count; i++)
        if (!(found[i] = onnx_next_activation(on->reader, activations, defaults[count - 1][i])))
            return NULL;
    const char *activation = found[count > 1];
    if (count > 1 && !text_equal(found[0], "sigmoid"))
        text_addf(&keys, ", recurrent_activation: %s", found[0]);
    if (!text_equal(activation, "tanh"))
        text_addf(&keys, ", activation: %s", activation);
    if (count == 3 && !text_equal(found[2], activation))
        text_addf(&keys, ", output_activation: %s", found[2]);
    if (onnx_attribute(on->node, "clip"))
        text_addf(&keys, ", clip: %s",
                  onnx_number_text(keys.arena, onnx_float(on->node, "clip", 0)));
    if (onnx_int(on->node, "input_forget", 0))
        text_add(&keys, ", input_forget: true");
    if (count == 2 && !on->reset_after)
        text_add(&keys, ", reset_after: false");
    if (!onnx_input(on->node, B))
        text_add(&keys, ", use_bias: false");
    return text_string(&keys);
}

static bool take_keys(const Recurrent *on, OnnxLayer *layer)
{
    const Onnx__AttributeProto *names = onnx_attribute(on->node, "activations");
    const size_t wanted = (size_t)(on->kind->activations * on->D);
    const double clip = onnx_float(on->node, "clip", 1);
    OnnxActivations activations = {.node = on->node};
    if (names && names->n_strings != wanted)
        return onnx_refuse(on->reader, on->node, NULL,
                           "attribute 'activations' names %zu functions, not %zu", names->n_strings,
                           wanted);
    if (!(clip > 0) || isinf(clip))
        return onnx_refuse(on->reader, on->node, "leave it out for no clip",
                           "attribute 'clip' is %g", clip);
    for (int d = 0; d < on->D; d++)
        if (!(layer->directions[d].keys = direction_keys(on, &activations)))
            return false;
    return true;
}

/// sequence_lens: an input of the graph becomes the module's lengths; a constant has to be T.
static bool take_lengths(const Recurrent *on, bool *out_has_lengths)
{
    OnnxReader *reader = on->reader;
    const OnnxValue *lengths = onnx_input(on->node, LENGTHS);
    *out_has_lengths = false;
    if (!lengths)
        return true;
    if (lengths->kind == VALUE_CONSTANT && lengths->sizes) {
        OnnxSize steps;
        bool whole = onnx_axis_size(&on->x->axes[on->time_at], &steps);
        for (int64_t i = 0; i < lengths->elems; i++)
            whole &= onnx_size_equal(lengths->sizes[i], steps);
        return whole || onnx_refuse(reader, on->node, "make it an input of the graph",
                                    "input sequence_lens is constant, and not the number of time "
                                    "steps");
    }
    const OnnxFlow *flow = &lengths->flow;
    if (lengths->kind != VALUE_FLOW || flow->source != FLOW_INPUT || !flow->is_integer ||
        flow->rank != 1 || flow->rows > 0 ||
        (reader->lengths_input >= 0 && reader->lengths_input != flow->input))
        return onnx_refuse(reader, on->node, NULL,
                           "input sequence_lens is not one input of the graph, of one axis, that "
                           "all recurrent nodes share");
    *out_has_lengths = true;
    if (reader->lengths_input < 0)
        onnx_add_port(reader, &(OnnxPort){.index = flow->input, .port = "lengths", .order = "B"});
    reader->lengths_input = flow->input;
    return true;
}

static bool is_zero(const OnnxValue *value)
{
    if (value->kind == VALUE_FILL)
        return value->fill == 0;
    if (value->kind != VALUE_CONSTANT || !value->floats)
        return false;
    for (int64_t i = 0; i < value->elems; i++)
        if (value->floats[i] != 0)
            return false;
    return true;
}

/// The axes of a state that is an input of the graph, as in OnnxPort's order; NULL where they are
/// no [D, B, H] ([B, D, H] for layout 1).
static const char *state_order(const Recurrent *on, const OnnxFlow *flow)
{
    const char *roles = on->batch_first ? "BSF" : "SBF";
    char *order = ARENA_ARRAY(on->reader->arena, char, ONNX_DIMS_MAX + 1);
    OnnxSize rows, units;
    if (flow->rank != 3 || !onnx_axis_size(&flow->axes[on->batch_first], &rows) ||
        !onnx_axis_size(&flow->axes[2], &units) || rows.factor != on->D || units.factor != on->H)
        return NULL;
    for (int i = 0; i < 3; i++) {
        const OnnxAxis *axis = &flow->axes[i];
        if (axis->count > 1 || (axis->count == 1 && axis->atoms[0].kind != ATOM_AXIS))
            return NULL;
        if (axis->count == 1)
            order[axis->atoms[0].axis] = roles[i];
    }
    int kept = 0;
    for (int i = 0; i < ONNX_DIMS_MAX; i++)
        if (order[i])
            order[kept++] = order[i];
    order[kept] = 0;
    return order;
}

static bool take_initial(const Recurrent *on, const OnnxLayer *layer, char state)
{
    OnnxReader *reader = on->reader;
    const OnnxValue *value = onnx_input(on->node, state == 'h' ? INITIAL_H : INITIAL_C);
    if (!value || is_zero(value))
        return true;
    const OnnxFlow *flow = &value->flow;
    const char *order = NULL;
    if (value->kind == VALUE_FLOW && flow->source == FLOW_INPUT && flow->version == 0)
        order = state_order(on, flow);
    if (!order)
        return onnx_refuse(reader, on->node,
                           "make it an input of the graph; the module takes it as a state",
                           "input initial_%c is neither zero nor an input of the graph of axes %s",
                           state, on->batch_first ? "[B, D, H]" : "[D, B, H]");
    for (int d = 0; d < on->D; d++)
        onnx_add_port(reader,
                      &(OnnxPort){.index = flow->input,
                                  .port = arena_format(reader->arena, "%s%s/%c", layer->name,
                                                       on->D == 1 ? ""
                                                       : d        ? "/bw"
                                                                  : "/fw",
                                                       state),
                                  .order = order,
                                  .row = flow->row + d,
                                  .features = on->H});
    return true;
}

static OnnxAxis directions_axis(int64_t D)
{
    return D == 1 ? (OnnxAxis){.count = 0}
                  : (OnnxAxis){.count = 1,
                               .atoms = {{.kind = ATOM_DIRECTION, .size = onnx_number(D)}}};
}

static OnnxAxis features_axis(int64_t H)
{
    return (OnnxAxis){.count = 1, .atoms = {{.kind = ATOM_FEATURE, .size = onnx_number(H)}}};
}

/// Y [T, D, B, H] ([B, T, D, H]), Y_h and Y_c [D, B, H] ([B, D, H]).
static void give_outputs(const Recurrent *on, OnnxLayer *layer)
{
    const OnnxAxis *time = &on->x->axes[on->time_at], *batch = &on->x->axes[on->batch_at];
    const OnnxFlow base = {.layer = layer, .version = on->reader->version, .direction = -1};
    const OnnxAxis D = directions_axis(on->D), H = features_axis(on->H);
    OnnxValue *out = onnx_output(on->reader, on->node, 0);
    out->kind = VALUE_FLOW;
    out->flow = base;
    out->flow.source = FLOW_SEQUENCE;
    out->flow.rank = 4;
    out->flow.axes[0] = on->batch_first ? *batch : *time;
    out->flow.axes[1] = on->batch_first ? *time : D;
    out->flow.axes[2] = on->batch_first ? D : *batch;
    out->flow.axes[3] = H;
    for (int i = 0; on->kind->states[i]; i++) {
        out = onnx_output(on->reader, on->node, 1 + i);
        out->kind = VALUE_FLOW;
        out->flow = base;
        out->flow.source = FLOW_FINAL;
        out->flow.state = on->kind->states[i];
        out->flow.rank = 3;
        out->flow.axes[0] = on->batch_first ? *batch : D;
        out->flow.axes[1] = on->batch_first ? D : *batch;
        out->flow.axes[2] = H;
    }
}

void onnx_recurrent(OnnxReader *reader, const OnnxNode *node)
{
    Recurrent on = {.reader = reader, .node = node, .kind = kind_of(node->proto->op_type)};
    if (onnx_attribute(node, "output_sequence")) {
        onnx_refuse(reader, node, "convert the model to a newer opset",
                    "attribute 'output_sequence' is of opset 1");
        return;
    }
    on.reset_after = onnx_int(node, "linear_before_reset", 0) != 0;
    if (!onnx_input(node, X) || !onnx_input(node, W) || !onnx_input(node, R)) {
        onnx_refuse(reader, node, NULL, "input X, W or R is missing");
        return;
    }
    const OnnxLayer *before = reader->recurrent;
    OnnxLayer found = {0};
    if (!take_sizes(&on) || !take_input(&on) || !take_keys(&on, &found) ||
        !fill_weights(&on, &found) || !take_lengths(&on, &found.has_lengths))
        return;
    if (before && before->has_lengths != found.has_lengths) {
        onnx_refuse(reader, node, "give sequence_lens to every recurrent node, or to none",
                    "of this node and the recurrent node '%s' only one has sequence_lens",
                    before->name);
        return;
    }
    OnnxLayer *layer = onnx_add_layer(reader, node, LAYER_RECURRENT);
    layer->cell = onnx_input(node, P) ? "peephole_lstm" : on.kind->cell;
    layer->inputs = on.I;
    layer->units = on.H;
    layer->gates = on.kind->gates;
    layer->direction_count = (int)on.D;
    layer->has_lengths = found.has_lengths;
    layer->reverse = text_equal(onnx_string(reader, node, "direction", "forward"), "reverse");
    memcpy(layer->directions, found.directions, sizeof found.directions);
    for (const char *state = on.kind->states; *state; state++)
        if (!take_initial(&on, layer, *state))
            return;
    give_outputs(&on, layer);
}
