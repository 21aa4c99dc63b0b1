// Model: walks the spec's layers in order with the value that flows between them: its shape, and
// the number that model_place_slots turns into a buffer.
#include "model/model.h"

#include "model/model_cell.h"
#include "model/model_slots.h"
#include "model/model_weights.h"

static const int64_t ELEMENTS_MAX = (int64_t)1 << 40;

/// What flows from layer to layer.
typedef struct {
    Arena *arena;
    Diags *diags;
    Model *model;
    int64_t features;
    bool sequence;
    View at; ///< the value; after `merge: none` that of the forward direction
    int value_count, draw_count;
    int backward;                       ///< the value of `merge: none`'s backward direction, or -1
    const SpecLayer *unmerged;          ///< the layer with `merge: none`
    const SpecLayer *sequence_ended_by; ///< the layer that returned its last output only
} Builder;

int64_t layer_domain_size(const Layer *layer, Domain domain)
{
    return domain == DOMAIN_PROJECTION ? layer->projection : layer->units;
}

static void refuse_missing_sequence(Builder *builder, const SpecLayer *spec)
{
    const SpecLayer *earlier = builder->sequence_ended_by;
    Diag *diag =
        diag_add(builder->diags, DIAG_E0501, spec->cell.span,
                 "a recurrent layer needs a sequence, and '%s' returns its last output only",
                 earlier->name.text);
    diag_note(diag,
              earlier->return_sequences.span.source ? earlier->return_sequences.span
                                                    : earlier->span,
              "'%s' is this layer", earlier->name.text);
    diag_help(diag, "add return_sequences: true to '%s'", earlier->name.text);
}

int64_t layer_phase_heads(const Layer *layer, const CellPhase *phase)
{
    return phase->matrix == MATRIX_R && phase->row_count > 0 ? layer->heads : 1;
}

int64_t layer_phase_columns(const Layer *layer, const CellPhase *phase)
{
    return layer_domain_size(layer, phase->operand_domain) / layer_phase_heads(layer, phase);
}

static View new_value(Builder *builder, int64_t width)
{
    return (View){builder->value_count++, 0, width};
}

/// Adds a layer that reads `in` and writes `out`.
static void push_layer(Builder *builder, Layer layer, View in, View out)
{
    Model *model = builder->model;
    layer.in = in;
    layer.out = out;
    layer.trains = model->trains;
    if (layer.kind != LAYER_MERGE)
        layer.in2 = (View){SLOT_NONE, 0, 0};
    ARENA_PUSH(builder->arena, model->layers, model->layer_count, layer);
}

/// Adds a layer to the end of the chain.
static void add_layer(Builder *builder, const Layer *layer)
{
    View out = new_value(builder, layer->outputs);
    push_layer(builder, *layer, builder->at, out);
    builder->at = out;
    builder->features = layer->outputs;
}

static bool draws(const Builder *builder, const SpecLayer *spec)
{
    const bool zones_out = builder->model->trains && spec->zoneout_count > 0;
    return (builder->model->trains || builder->model->spec->dropout_at_inference.value) &&
           (spec->dropout.value > 0 || spec->recurrent_dropout.value > 0 || zones_out);
}

static Layer dropout_layer(Builder *builder, const SpecLayer *spec, const char *name)
{
    return (Layer){.kind = LAYER_DROPOUT,
                   .name = name,
                   .spec = spec,
                   .inputs = builder->features,
                   .outputs = builder->features,
                   .units = builder->features,
                   .sequence_in = builder->sequence,
                   .sequence_out = builder->sequence,
                   .rate = spec->dropout.value,
                   .dropout_index = builder->draw_count};
}

/// What a cell layer reads: the current value, or, where its input drops at inference, that of a
/// dropout layer which draws once for all steps, under the number that the cell has too.
static View cell_input(Builder *builder, const SpecLayer *spec, const char *name)
{
    if (!draws(builder, spec) || spec->dropout.value == 0)
        return builder->at;
    Layer layer = dropout_layer(builder, spec, arena_format(builder->arena, "%s/dropout", name));
    layer.per_sequence = true;
    View out = new_value(builder, layer.outputs);
    push_layer(builder, layer, builder->at, out);
    return out;
}

/// Blocks that do not cut units and operand of R evenly are refused.
static void check_heads(Builder *builder, const SpecLayer *spec, const Layer *layer)
{
    const Cell *cell = layer->cell;
    for (int i = 0; i < cell->phase_count; i++) {
        const CellPhase *phase = &cell->phases[i];
        if (phase->row_count == 0 || phase->matrix != MATRIX_R)
            continue;
        const int64_t operand = layer_domain_size(layer, phase->operand_domain);
        const int64_t size = layer_domain_size(layer, phase->domain);
        if (operand % layer->heads == 0 && size % layer->heads == 0)
            continue;
        const bool by_units = size % layer->heads != 0;
        Diag *diag = diag_add(builder->diags, DIAG_E0510, spec->heads.span,
                              "%lld heads do not divide the %lld %s", (long long)layer->heads,
                              (long long)(by_units ? size : operand),
                              by_units ? "units" : "values that R multiplies");
        diag_note(diag, by_units ? spec->units.span : spec->projection.span, "these are here");
        diag_help(diag, "take a number of heads that divides them");
        return;
    }
}

/// Layer `index` of a stack (0 outside one) of a cell, as `name`.
static Layer cell_layer(Builder *builder, const SpecLayer *spec, const Cell *cell, const char *name,
                        int index)
{
    const bool is_last = index + 1 == spec->layers.value;
    Layer layer = {.kind = LAYER_CELL,
                   .name = name,
                   .spec = spec,
                   .inputs = builder->features,
                   .units = spec->units.value,
                   .projection = spec->projection.value,
                   .sequence_in = true,
                   .sequence_out = !is_last || spec->return_sequences.value,
                   .return_state = spec->return_state.value,
                   .stateful = spec->stateful.value,
                   .stack_index = index,
                   .reversed = spec->direction == DIRECTION_REVERSE || spec->go_backwards.value,
                   .go_backwards = spec->go_backwards.value,
                   .zero_output_for_mask = spec->zero_output_for_mask.value,
                   .heads = cell->R.count ? spec->heads.value : 1,
                   .cell = cell};
    if (draws(builder, spec)) {
        layer.recurrent_dropout = cell->R.count ? spec->recurrent_dropout.value : 0;
        layer.dropout_index = builder->draw_count++;
    }
    layer.outputs = layer_domain_size(&layer, cell->states[0].domain);
    if (index == 0)
        check_heads(builder, spec, &layer);
    return layer;
}

static const char *stack_name(Arena *arena, const SpecLayer *spec, int index, const char *suffix)
{
    const char *name = spec->name.text;
    return spec->layers.value > 1 ? arena_format(arena, "%s/%d%s", name, index, suffix)
                                  : arena_format(arena, "%s%s", name, suffix);
}

static const Cell *load_cell(Builder *builder, const SpecLayer *spec)
{
    return model_load_cell(builder->arena, builder->diags, builder->model->spec, spec);
}

static void end_sequence(Builder *builder, const SpecLayer *spec)
{
    builder->sequence = spec->return_sequences.value;
    builder->sequence_ended_by = spec;
}

static void add_cells(Builder *builder, const SpecLayer *spec)
{
    const Cell *cell = load_cell(builder, spec);
    if (!builder->sequence)
        refuse_missing_sequence(builder, spec);
    if (!cell || !builder->sequence)
        return;
    for (int i = 0; i < spec->layers.value; i++) {
        const char *name = stack_name(builder->arena, spec, i, "");
        builder->at = cell_input(builder, spec, name);
        const Layer layer = cell_layer(builder, spec, cell, name, i);
        add_layer(builder, &layer);
    }
    end_sequence(builder, spec);
}

/// Both directions of one layer of a stack, and how each is called.
typedef struct {
    Layer forward, backward;
    View forward_in, backward_in;
    Merge merge;
} Pair;

static void add_merge(Builder *builder, const SpecLayer *whole, const Pair *pair, const char *name,
                      View forward, View backward)
{
    Layer layer = {.kind = LAYER_MERGE,
                   .name = name,
                   .spec = whole,
                   .inputs = pair->forward.outputs,
                   .outputs = pair->forward.outputs,
                   .units = pair->forward.outputs,
                   .sequence_in = pair->forward.sequence_out,
                   .sequence_out = pair->forward.sequence_out,
                   .in2 = backward,
                   .merge = pair->merge};
    builder->at = forward;
    add_layer(builder, &layer);
}

static void add_pair(Builder *builder, const SpecLayer *whole, const Pair *pair, const char *name)
{
    const int64_t first = pair->forward.outputs, second = pair->backward.outputs;
    const bool is_joint = pair->merge == MERGE_CONCAT;
    View forward = new_value(builder, is_joint ? first + second : first);
    View backward =
        is_joint ? (View){forward.slot, first, forward.width} : new_value(builder, second);
    push_layer(builder, pair->forward, pair->forward_in, forward);
    push_layer(builder, pair->backward, pair->backward_in, backward);
    builder->features = forward.width;
    builder->at = forward;
    if (pair->merge == MERGE_NONE) {
        builder->backward = backward.slot;
        builder->unmerged = whole;
    } else if (!is_joint) {
        add_merge(builder, whole, pair, name, forward, backward);
    }
}

/// Outputs that are added or multiplied have one size.
static bool check_sizes(Builder *builder, const SpecLayer *whole, const Pair *pair)
{
    static const char *const words[] = {
        [MERGE_CONCAT] = "concat", [MERGE_SUM] = "sum", [MERGE_MUL] = "mul", [MERGE_AVE] = "ave"};
    const int64_t first = pair->forward.outputs, second = pair->backward.outputs;
    if (whole->merge == MERGE_CONCAT || whole->merge == MERGE_NONE || first == second)
        return true;
    const SpecLayer *forward = whole->forward, *backward = whole->backward;
    Diag *diag =
        diag_add(builder->diags, DIAG_E0509,
                 backward->projection.value ? backward->projection.span : backward->units.span,
                 "`merge: %s` of %lld and %lld outputs", words[whole->merge], (long long)first,
                 (long long)second);
    diag_note(diag, forward->projection.value ? forward->projection.span : forward->units.span,
              "the forward layer's are here");
    diag_note(diag, whole->merge_span, "'merge' is here");
    diag_help(diag, "give both the same units, or take `merge: concat` or `none`");
    return false;
}

/// Keras zeroes the masked outputs of a bidirectional layer's sequences unless told otherwise.
static void set_direction(Layer *layer, bool is_backward)
{
    layer->reversed = layer->beside = is_backward;
    if (!layer->spec->zero_output_for_mask.span.source)
        layer->zero_output_for_mask = layer->sequence_out;
}

static void add_bidirectional(Builder *builder, const SpecLayer *whole)
{
    const SpecLayer *forward = whole->forward;
    const SpecLayer *backward = whole->backward ? whole->backward : forward;
    const Cell *cell = load_cell(builder, forward);
    const Cell *backward_cell = whole->backward ? load_cell(builder, backward) : cell;
    if (!builder->sequence)
        refuse_missing_sequence(builder, forward);
    if (!cell || !backward_cell || !builder->sequence)
        return;
    for (int i = 0; i < forward->layers.value; i++) {
        const char *names[] = {stack_name(builder->arena, forward, i, "/fw"),
                               stack_name(builder->arena, forward, i, "/bw")};
        Pair pair = {.merge = whole->merge};
        pair.forward_in = cell_input(builder, forward, names[0]);
        pair.forward = cell_layer(builder, forward, cell, names[0], i);
        pair.backward_in = cell_input(builder, backward, names[1]);
        pair.backward = cell_layer(builder, backward, backward_cell, names[1], i);
        set_direction(&pair.forward, false);
        set_direction(&pair.backward, true);
        if (!check_sizes(builder, whole, &pair))
            return;
        add_pair(builder, whole, &pair, stack_name(builder->arena, forward, i, ""));
    }
    end_sequence(builder, forward);
}

static void add_masking(Builder *builder, const SpecLayer *spec)
{
    if (!builder->sequence) {
        const SpecLayer *earlier = builder->sequence_ended_by;
        Diag *diag = diag_add(builder->diags, DIAG_E0511, spec->span,
                              "masking needs a sequence, and '%s' returns its last output only",
                              earlier->name.text);
        diag_note(diag, earlier->span, "'%s' is this layer", earlier->name.text);
        diag_help(diag, "put it before '%s'", earlier->name.text);
        return;
    }
    add_layer(builder, &(Layer){.kind = LAYER_MASKING,
                                .name = spec->name.text,
                                .spec = spec,
                                .inputs = builder->features,
                                .outputs = builder->features,
                                .units = builder->features,
                                .sequence_in = true,
                                .sequence_out = true,
                                .mask_value = spec->mask_value.value});
}

static void add_dropout(Builder *builder, const SpecLayer *spec)
{
    if (!draws(builder, spec))
        return; // identity
    const Layer layer = dropout_layer(builder, spec, spec->name.text);
    builder->draw_count++;
    add_layer(builder, &layer);
}

static void add_embedding(Builder *builder, const SpecLayer *spec)
{
    Model *model = builder->model;
    if (!model->tokens || model->layer_count > 0) {
        Diag *diag = diag_add(builder->diags, DIAG_E0504, spec->span,
                              "an embedding must be the first layer and needs token input");
        diag_help(diag, "write input: {tokens: 66, ...} and put the embedding first");
    }
    add_layer(builder, &(Layer){.kind = LAYER_EMBEDDING,
                                .name = spec->name.text,
                                .spec = spec,
                                .inputs = builder->features,
                                .outputs = spec->units.value,
                                .units = spec->units.value,
                                .sequence_in = true,
                                .sequence_out = true,
                                .mask_zero = spec->mask_zero.value});
}

static void add_pointwise(Builder *builder, const SpecLayer *spec, LayerKind kind)
{
    Layer layer = {.kind = kind,
                   .name = spec->name.text,
                   .spec = spec,
                   .inputs = builder->features,
                   .outputs = kind == LAYER_DENSE ? spec->units.value : builder->features,
                   .sequence_in = builder->sequence,
                   .sequence_out = builder->sequence};
    layer.units = layer.outputs;
    if (model_bind_activation(builder->arena, builder->diags, &spec->activation, "linear",
                              &layer.activation))
        add_layer(builder, &layer);
}

static void refuse_unmerged(Builder *builder, const SpecLayer *spec)
{
    Diag *diag = diag_add(builder->diags, DIAG_E0218, builder->unmerged->merge_span,
                          "`merge: none` must be in the last layer, and '%s' comes after it",
                          spec->name.text);
    diag_note(diag, spec->span, "'%s' is here", spec->name.text);
    diag_help(diag, "merge the two outputs, or end the model with this layer");
    builder->unmerged = NULL;
}

static void add_spec_layer(Builder *builder, const SpecLayer *spec)
{
    const bool is_nothing = spec->kind == SPEC_DROPOUT && !draws(builder, spec);
    if (builder->model->tokens && builder->model->layer_count == 0 &&
        spec->kind != SPEC_EMBEDDING && !is_nothing) {
        Diag *diag = diag_add(builder->diags, DIAG_E0503, spec->span,
                              "token input must go into an embedding first");
        diag_help(diag, "put {embedding: 64} before this layer, or give input: {features: N}");
    }
    if (builder->unmerged) {
        refuse_unmerged(builder, spec);
        return;
    }
    switch (spec->kind) {
    case SPEC_CELL:
        add_cells(builder, spec);
        break;
    case SPEC_EMBEDDING:
        add_embedding(builder, spec);
        break;
    case SPEC_DENSE:
        add_pointwise(builder, spec, LAYER_DENSE);
        break;
    case SPEC_ACTIVATION:
        add_pointwise(builder, spec, LAYER_ACTIVATION);
        break;
    case SPEC_BIDIRECTIONAL:
        add_bidirectional(builder, spec);
        break;
    case SPEC_MASKING:
        add_masking(builder, spec);
        break;
    case SPEC_DROPOUT:
        add_dropout(builder, spec);
        break;
    }
}

static void check_layer_size(Builder *builder, const Layer *layer)
{
    for (int i = 0; i < WEIGHT_COUNT; i++) {
        const Weight *weight = &layer->weights[i];
        if (weight->columns > 0 && weight->rows > ELEMENTS_MAX / weight->columns) {
            Diag *diag = diag_add(builder->diags, DIAG_E0507, layer->spec->units.span,
                                  "'%s' would have more than 2^40 elements", weight->name);
            diag_help(diag, "this layer has %lld inputs; make units or features smaller",
                      (long long)layer->inputs);
        }
    }
    const Model *model = builder->model;
    int64_t rows = (model->batch ? model->batch : 1) * (model->timesteps ? model->timesteps : 1);
    if (layer->out.width > ELEMENTS_MAX / rows)
        diag_add(builder->diags, DIAG_E0507, layer->spec->span,
                 "the output of '%s' would have more than 2^40 elements", layer->name);
}

static bool check_input(Builder *builder)
{
    const Spec *spec = builder->model->spec;
    if (!spec->timesteps.any && !spec->batch.any &&
        spec->batch.value > ELEMENTS_MAX / spec->timesteps.value) {
        diag_add(builder->diags, DIAG_E0507, spec->timesteps.span,
                 "batch times timesteps is more than 2^40");
        return false;
    }
    return true;
}

/// A mask that no recurrent layer comes to see does nothing.
static void warn_of_masks(Builder *builder)
{
    const Model *model = builder->model;
    bool is_seen = false;
    for (int i = model->layer_count - 1; i >= 0; i--) {
        const Layer *layer = &model->layers[i];
        is_seen |= layer->kind == LAYER_CELL;
        if (is_seen || (layer->kind != LAYER_MASKING && !layer->mask_zero))
            continue;
        Span span = layer->mask_zero ? layer->spec->mask_zero.span : layer->spec->span;
        Diag *diag = diag_add(builder->diags, DIAG_W0502, span,
                              "no recurrent layer comes after the mask of '%s'", layer->name);
        diag_help(diag, "a mask holds for recurrent layers alone; remove it, or put it before one");
    }
}

const Model *model_build_shapes(Arena *arena, Diags *diags, const Spec *spec)
{
    size_t errors = diags_error_count(diags);
    Model *model = ARENA_NEW(arena, Model);
    *model = (Model){.spec = spec,
                     .name = spec->name,
                     .tokens = spec->tokens.value > 0,
                     .features = spec->tokens.value > 0 ? spec->tokens.value : spec->features.value,
                     .batch = spec->batch.value,
                     .timesteps = spec->timesteps.value,
                     .time_major = spec->layout == LAYOUT_TIME_MAJOR,
                     .trains = spec->mode == MODE_TRAINING};
    Builder builder = {.arena = arena,
                       .diags = diags,
                       .model = model,
                       .features = model->features,
                       .sequence = true,
                       .at = {SLOT_X, 0, model->tokens ? 1 : model->features},
                       .backward = -1};
    if (!check_input(&builder))
        return NULL;
    for (int i = 0; i < spec->layer_count; i++)
        add_spec_layer(&builder, &spec->layers[i]);
    if (diags_error_count(diags) == errors && model->layer_count == 0)
        diag_add(diags, DIAG_E0502, (Span){.source = spec->source},
                 "the model has no layer that computes anything");
    for (int i = 0; i < model->layer_count; i++) {
        model_name_weights(arena, &model->layers[i]);
        check_layer_size(&builder, &model->layers[i]);
    }
    if (diags_error_count(diags) != errors)
        return NULL;
    warn_of_masks(&builder);
    model_place_slots(arena, model, builder.value_count, builder.at.slot, builder.backward);
    return model;
}

const Model *model_build(Arena *arena, Diags *diags, const Spec *spec)
{
    Model *model = (Model *)model_build_shapes(arena, diags, spec);
    return model && model_fill_weights(arena, diags, model) ? model : NULL;
}
