// The chain of layers that an ONNX graph is read into: a spec has one, from one input to one
// output, and each layer reads what the one before gives. Here are the checks that the data of a
// graph flows so, and that time, batch and features are where a layer needs them.
#include <string.h>

#include "base/text.h"
#include "import/onnx_graph.h"

enum { LAYERS_MAX = 1000 };

static bool weighs(const OnnxAtom *atom)
{
    return !onnx_size_equal(atom->size, onnx_number(1));
}

const char *onnx_axes_text(const OnnxReader *reader, const OnnxFlow *flow)
{
    Text text = {.arena = reader->arena};
    text_add(&text, "[");
    for (int i = 0; i < flow->rank; i++) {
        text_add(&text, i ? ", " : "");
        for (int j = 0; j < flow->axes[i].count; j++) {
            const OnnxAtom *atom = &flow->axes[i].atoms[j];
            text_add(&text, j ? "*" : "");
            if (atom->kind != ATOM_AXIS)
                text_add(&text, atom->kind == ATOM_FEATURE ? "features" : "directions");
            else if ((atom->axis == reader->time_axis || atom->axis == reader->batch_axis) &&
                     (flow->source != FLOW_INPUT || flow->input == reader->x_input))
                text_add(&text, atom->axis == reader->time_axis ? "time" : "batch");
            else
                text_addf(&text, "axis %d of the input", atom->axis);
        }
        text_add(&text, flow->axes[i].count ? "" : "1");
    }
    text_add(&text, "]");
    return text_string(&text);
}

bool onnx_take_chain(OnnxReader *reader, const OnnxNode *node, const OnnxFlow *flow)
{
    const char *one_chain = "a spec is one chain of layers from one input to one output";
    if (reader->layer_count == LAYERS_MAX)
        return onnx_refuse(reader, node, NULL, "more than %d layers", LAYERS_MAX);
    if (flow->rows > 0)
        return onnx_refuse(reader, node, one_chain, "reads a part of an input");
    if (flow->source == FLOW_INPUT && reader->x_input < 0 && reader->version == 0) {
        reader->x_input = flow->input;
        return true;
    }
    if (flow->source == FLOW_INPUT)
        return onnx_refuse(reader, node, one_chain,
                           "reads an input of the graph, but the model's layers have begun at "
                           "another place");
    if (flow->version != reader->version)
        return onnx_refuse(reader, node, one_chain,
                           "reads a value that another node has read too: the graph branches");
    if (flow->direction >= 0)
        return onnx_refuse(reader, node, "join both directions before, by Concat, Add or Mul",
                           "reads one of the two directions of layer '%s' alone",
                           flow->layer->name);
    if (flow->source == FLOW_FINAL && flow->state != 'h')
        return onnx_refuse(reader, node, "a layer's output is its state h",
                           "reads the final state %c of layer '%s'", flow->state,
                           flow->layer->name);
    if (flow->layer)
        flow->layer->return_sequences = flow->source == FLOW_SEQUENCE;
    return true;
}

/// The features of one axis: atoms in the order in which a layer lays them out.
static bool is_features(const OnnxReader *reader, const OnnxFlow *flow, const OnnxAxis *axis)
{
    const OnnxAtom *before = NULL;
    for (int i = 0; i < axis->count; i++) {
        const OnnxAtom *atom = &axis->atoms[i];
        if (!weighs(atom))
            continue;
        if (!onnx_is_number(atom->size))
            return false;
        if (atom->kind == ATOM_AXIS && (flow->version > 0 || atom->axis == reader->time_axis ||
                                        atom->axis == reader->batch_axis))
            return false;
        if (before &&
            (atom->kind < before->kind || (atom->kind == ATOM_AXIS && atom->axis < before->axis)))
            return false;
        before = atom;
    }
    return true;
}

bool onnx_take_features(OnnxReader *reader, const OnnxNode *node, const OnnxFlow *flow, int at,
                        int64_t *out_features)
{
    int others = 0;
    bool good = is_features(reader, flow, &flow->axes[at]);
    for (int i = 0; i < flow->rank; i++)
        for (int j = 0; i != at && j < flow->axes[i].count; j++)
            if (weighs(&flow->axes[i].atoms[j])) {
                good &= flow->axes[i].atoms[j].kind == ATOM_AXIS;
                others++;
            }
    OnnxSize size;
    if (!good || others > 2)
        return onnx_refuse(reader, node,
                           "a layer works on the features of each time step and row alone",
                           "reads data of axes %s, not features on axis %d and time and batch on "
                           "the others",
                           onnx_axes_text(reader, flow), at);
    if (!onnx_axis_size(&flow->axes[at], &size) || size.factor < 1 || size.factor > INT32_MAX)
        return onnx_refuse(reader, node, NULL, "reads %lld features", (long long)size.factor);
    *out_features = size.factor;
    return true;
}

/// The input's axis that a recurrent node's time or batch axis is made of: ONNX_AXIS_NONE for one
/// of size 1, ONNX_AXIS_OPEN for what is no axis of the input.
static int input_axis(const OnnxAxis *axis)
{
    int found = axis->count == 1 ? axis->atoms[0].axis : ONNX_AXIS_NONE, weighing = 0;
    for (int i = 0; i < axis->count; i++) {
        if (axis->atoms[i].kind != ATOM_AXIS)
            return weighs(&axis->atoms[i]) ? ONNX_AXIS_OPEN : ONNX_AXIS_NONE;
        if (weighs(&axis->atoms[i])) {
            found = axis->atoms[i].axis;
            weighing++;
        }
    }
    return weighing > 1 ? ONNX_AXIS_OPEN : found;
}

/// Whether an axis is that axis of the input, or both are of size 1.
static bool is_axis(const OnnxAxis *axis, int wanted)
{
    bool found = false;
    for (int i = 0; i < axis->count; i++) {
        if (weighs(&axis->atoms[i]) &&
            (axis->atoms[i].kind != ATOM_AXIS || axis->atoms[i].axis != wanted))
            return false;
        found |= weighs(&axis->atoms[i]);
    }
    return found || wanted == ONNX_AXIS_NONE || axis->count > 0;
}

bool onnx_take_sequence(OnnxReader *reader, const OnnxNode *node, const OnnxFlow *flow, int time_at,
                        int batch_at)
{
    const OnnxAxis *time = &flow->axes[time_at], *batch = &flow->axes[batch_at];
    if (flow->source == FLOW_FINAL)
        return onnx_refuse(reader, node, "let it read the sequence Y of the node before",
                           "reads the last step of layer '%s', which is no sequence",
                           flow->layer->name);
    if (reader->time_axis == ONNX_AXIS_OPEN) {
        reader->time_axis = input_axis(time);
        reader->batch_axis = input_axis(batch);
        if (reader->time_axis != ONNX_AXIS_OPEN && reader->batch_axis != ONNX_AXIS_OPEN)
            return true;
        reader->time_axis = reader->batch_axis = ONNX_AXIS_OPEN;
        return onnx_refuse(reader, node, NULL,
                           "reads data of axes %s, whose time or batch is no "
                           "axis of the graph's input",
                           onnx_axes_text(reader, flow));
    }
    if (is_axis(time, reader->time_axis) && is_axis(batch, reader->batch_axis))
        return true;
    return onnx_refuse(reader, node,
                       "put a Transpose before it, or give it layout=1 where the batch comes first",
                       "reads data of axes %s as [%s, features]: it would run over another axis "
                       "than the layers before",
                       onnx_axes_text(reader, flow), time_at ? "batch, time" : "time, batch");
}

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_taken(const OnnxReader *reader, const char *name)
{
    const OnnxLayer *layer = reader->first;
    while (layer && strcmp(layer->name, name) != 0)
        layer = layer->next;
    return layer != NULL;
}

/// "/enc/lstm/LSTM" gives "enc.lstm": the node's path without the operator, or the operator.
static const char *layer_name(const OnnxReader *reader, const OnnxNode *node)
{
    enum { NAME_MAX_BYTES = 48 };
    const char *op = node->proto->op_type, *from = node->proto->name ? node->proto->name : "";
    const char *slash = strrchr(from, '/');
    Text text = {.arena = reader->arena};
    const size_t length =
        slash && text_equal_ignoring_case(slash + 1, op) ? (size_t)(slash - from) : strlen(from);
    for (size_t i = 0; i < length && text.length < NAME_MAX_BYTES; i++) {
        const char c = from[i] == '/' || from[i] == '.' ? '.' : from[i];
        if (text.length > 0 || (is_name_character(c) && c != '_'))
            text_add_bytes(&text, is_name_character(c) || c == '.' ? &c : "_", 1);
    }
    const char first = *text_string(&text);
    if (!first || (first >= '0' && first <= '9')) {
        text = (Text){.arena = reader->arena};
        for (const char *c = op; *c; c++)
            text_addf(&text, "%c", *c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    }
    const char *name = text_string(&text);
    for (int i = reader->layer_count; is_taken(reader, name); i++)
        name = arena_format(reader->arena, "%s_%d", text_string(&text), i);
    return name;
}

OnnxLayer *onnx_add_layer(OnnxReader *reader, const OnnxNode *node, OnnxLayerKind kind)
{
    OnnxLayer *layer = ARENA_NEW(reader->arena, OnnxLayer);
    *layer = (OnnxLayer){.kind = kind,
                         .name = layer_name(reader, node),
                         .note = node->shown,
                         .direction_count = 1,
                         .merge = "concat",
                         .activation = "linear"};
    *(reader->last ? &reader->last->next : &reader->first) = layer;
    reader->last = layer;
    if (kind == LAYER_RECURRENT)
        reader->recurrent = layer;
    reader->layer_count++;
    layer->version = ++reader->version;
    return layer;
}

void onnx_give_chain(OnnxReader *reader, OnnxValue *out, const OnnxFlow *flow, int at,
                     int64_t units)
{
    out->kind = VALUE_FLOW;
    out->flow = *flow;
    out->flow.version = reader->version;
    out->flow.is_integer = false;
    if (flow->source == FLOW_INPUT)
        out->flow.source = FLOW_SEQUENCE;
    out->flow.axes[at] =
        (OnnxAxis){.count = 1, .atoms = {{.kind = ATOM_FEATURE, .size = onnx_number(units)}}};
}
