// Reads an ONNX graph into layers: its inputs become flows, the nodes are walked, and its outputs
// are found among the chain's end and the layers' states. See onnx_read.h and onnx_graph.h.
#include "import/onnx_read.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "import/onnx_graph.h"

/// Versions of the operator set "ai.onnx"; those after the newest could change an operator.
enum { OPSET_LEAST = 7, OPSET_MOST = 25 };

static bool take_opset(OnnxReader *reader)
{
    const Onnx__ModelProto *model = reader->file->model;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = model->opset_import[i]->domain;
        if (!domain || !*domain || strcmp(domain, "ai.onnx") == 0)
            reader->opset = model->opset_import[i]->version;
    }
    if (reader->opset >= OPSET_LEAST && reader->opset <= OPSET_MOST)
        return true;
    Diag *diag = diag_add(reader->diags, DIAG_E0451, reader->file->place,
                          "the model is of opset %lld; %d to %d are read", (long long)reader->opset,
                          OPSET_LEAST, OPSET_MOST);
    diag_help(diag, "convert it, as with onnx.version_converter");
    return false;
}

/// Inputs of operators that have to be constant.
static bool is_weight(const char *op, size_t input)
{
    static const struct {
        const char *op, *inputs;
    } weights[] = {{"RNN", "123"},  {"GRU", "123"}, {"LSTM", "1237"},
                   {"MatMul", "1"}, {"Gemm", "12"}, {"Gather", "0"}};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        if (strcmp(weights[i].op, op) == 0)
            return input < 8 && strchr(weights[i].inputs, '0' + (int)input);
    return false;
}

static bool is_read_as_weight(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t j = 0; j < graph->node[i]->n_input; j++)
            if (strcmp(graph->node[i]->input[j], name) == 0 && graph->node[i]->op_type &&
                is_weight(graph->node[i]->op_type, j))
                return true;
    return false;
}

/// The values of a weight that is an input, where the file of a test beside the model has them.
static bool take_test_data(OnnxReader *reader, OnnxValue *value, int index)
{
    const char *path =
        file_beside(reader->arena, reader->file->path,
                    arena_format(reader->arena, "test_data_set_0/input_%d.pb", index));
    OnnxTensor tensor;
    if (access(path, F_OK) != 0 || !onnx_tensor_open(reader->arena, reader->diags, path, &tensor) ||
        !tensor.floats)
        return false;
    value->kind = VALUE_CONSTANT;
    value->dim_count = tensor.dim_count;
    memcpy(value->dims, tensor.dims, sizeof value->dims);
    value->elems = tensor.elems;
    value->floats = tensor.floats;
    reader->file->size_bytes += (size_t)tensor.elems * sizeof(float);
    NpyArray *array = ARENA_NEW(reader->arena, NpyArray);
    *array = (NpyArray){
        NPY_FLOAT32, tensor.dim_count, {0}, tensor.elems, (const unsigned char *)tensor.floats};
    memcpy(array->dims, tensor.dims, sizeof array->dims);
    const OnnxLeftInput weight = {value->name, index, array};
    ARENA_PUSH(reader->arena, reader->left, reader->left_count, weight);
    return true;
}

static bool take_dim(OnnxReader *reader, const Onnx__TensorShapeProto__Dimension *dim,
                     const OnnxNode *input, OnnxSize *out)
{
    *out = onnx_number(dim->dim_value);
    if (dim->has_dim_value && dim->dim_value > 0)
        return dim->dim_value <= INT32_MAX ||
               onnx_refuse(reader, input, NULL, "an axis of size %lld", (long long)dim->dim_value);
    const bool named = dim->dim_param && *dim->dim_param;
    int at = 0;
    while (at < reader->symbol_count && !(named && text_equal(reader->symbols[at], dim->dim_param)))
        at++;
    if (at == ONNX_SYMBOLS_MAX)
        return onnx_refuse(reader, input, "export the model with fixed sizes",
                           "the graph's inputs leave more than %d sizes open", ONNX_SYMBOLS_MAX);
    if (at == reader->symbol_count)
        reader->symbols[reader->symbol_count++] = named ? dim->dim_param : "";
    *out = onnx_number(1);
    out->powers[at] = 1;
    return true;
}

/// An input of the graph as a flow, each of its axes an atom.
static void take_input(OnnxReader *reader, const Onnx__ValueInfoProto *info, OnnxValue *value,
                       int index)
{
    const Onnx__TypeProto__Tensor *type = info->type ? info->type->tensor_type : NULL;
    const OnnxNode input = {
        .shown = arena_format(reader->arena, "input '%s'", onnx_shown(reader->arena, info->name))};
    bool known = false;
    const bool is_float = type && onnx_type_is_float(type->elem_type, &known);
    if (!known || !type->shape || type->shape->n_dim > ONNX_DIMS_MAX) {
        onnx_refuse(reader, &input, NULL,
                    "it is no tensor of numbers of a known rank of at most %d", ONNX_DIMS_MAX);
        return;
    }
    OnnxFlow *flow = &value->flow;
    *flow = (OnnxFlow){.source = FLOW_INPUT,
                       .input = index,
                       .direction = -1,
                       .is_integer = !is_float,
                       .rank = (int)type->shape->n_dim};
    for (int i = 0; i < flow->rank; i++) {
        flow->axes[i].count = 1;
        flow->axes[i].atoms[0] = (OnnxAtom){.kind = ATOM_AXIS, .axis = i};
        if (!take_dim(reader, type->shape->dim[i], &input, &flow->axes[i].atoms[0].size))
            return;
    }
    value->kind = VALUE_FLOW;
}

enum { INPUTS_MAX = 256 };

static bool take_inputs(OnnxReader *reader, const Onnx__GraphProto *graph)
{
    int index = 0;
    if (graph->n_input > INPUTS_MAX) {
        diag_add(reader->diags, DIAG_E0451, reader->file->place, "more than %d inputs", INPUTS_MAX);
        return false;
    }
    for (size_t i = 0; i < graph->n_input; i++) {
        const char *name = graph->input[i]->name ? graph->input[i]->name : "";
        if (onnx_has_initializer(graph, name))
            continue; // up to IR version 3 initializers are inputs too
        OnnxValue *value = onnx_name(reader, name);
        if (value && !(is_read_as_weight(graph, name) && take_test_data(reader, value, index)))
            take_input(reader, graph->input[i], value, index);
        index++;
    }
    return true;
}

void onnx_add_port(OnnxReader *reader, const OnnxPort *port)
{
    ARENA_PUSH(reader->arena, reader->ports, reader->port_count, *port);
}

/// The atoms of a flow in the letters of OnnxPort, and the sizes of F and D.
static const char *order_of(const OnnxReader *reader, const OnnxFlow *flow, OnnxPort *port)
{
    Text order = {.arena = reader->arena};
    port->features = 1;
    port->directions = 1;
    for (int i = 0; i < flow->rank; i++)
        for (int j = 0; j < flow->axes[i].count; j++) {
            const OnnxAtom *atom = &flow->axes[i].atoms[j];
            const bool is_time = atom->kind == ATOM_AXIS && atom->axis == reader->time_axis;
            text_add(&order, atom->kind == ATOM_DIRECTION ? "D"
                             : atom->kind == ATOM_FEATURE ? "F"
                             : is_time                    ? "T"
                                                          : "B");
            if (atom->kind == ATOM_FEATURE)
                port->features *= atom->size.factor;
            else if (atom->kind == ATOM_DIRECTION)
                port->directions = (int)atom->size.factor;
        }
    return text_string(&order);
}

/// A final state as output: each direction of it is a port of its own.
static bool give_state(OnnxReader *reader, const OnnxPort *base, const OnnxFlow *flow,
                       const char *stack_order, int64_t row)
{
    OnnxLayer *layer = flow->layer;
    if (flow->source != FLOW_FINAL || flow->version != layer->version)
        return false;
    const int first = flow->direction < 0 ? 0 : flow->direction;
    const int last = flow->direction < 0 ? layer->direction_count - 1 : first;
    layer->return_state = true;
    for (int d = first; d <= last; d++) {
        OnnxPort port = *base;
        port.order = order_of(reader, flow, &port);
        if (stack_order)
            port.order = stack_order;
        port.row = row + (flow->direction < 0 ? d : 0);
        port.port = arena_format(reader->arena, "%s%s/%c", layer->name,
                                 layer->direction_count == 1 ? ""
                                 : d                         ? "/bw"
                                                             : "/fw",
                                 flow->state);
        onnx_add_port(reader, &port);
    }
    return true;
}

static bool give_stack(OnnxReader *reader, const OnnxPort *base, const OnnxValue *value)
{
    bool good = true;
    int64_t row = 0;
    for (int i = 0; good && i < value->part_count; i++) {
        good = give_state(reader, base, &value->parts[i], "SBF", row);
        row += value->parts[i].direction < 0 ? value->parts[i].layer->direction_count : 1;
    }
    return good;
}

static bool is_end(const OnnxReader *reader, const OnnxValue *value)
{
    return value && value->kind == VALUE_FLOW && value->flow.source != FLOW_INPUT &&
           value->flow.version == reader->version && value->flow.direction < 0 &&
           value->flow.state != 'c';
}

/// The end of the chain as output y: of a recurrent layer the sequence, where an output has it.
static void give_output(OnnxReader *reader, const OnnxPort *base, const OnnxFlow *flow)
{
    OnnxPort port = *base;
    if (flow->layer)
        flow->layer->return_sequences = flow->source == FLOW_SEQUENCE;
    port.port = "y";
    port.order = order_of(reader, flow, &port);
    if (flow->source == FLOW_SEQUENCE && !strchr(port.order, 'T')) // one step, without an axis
        port.order = arena_format(reader->arena, "T%s", port.order);
    onnx_add_port(reader, &port);
}

static void take_output(OnnxReader *reader, const Onnx__ValueInfoProto *info, int index,
                        bool sequence_is_output)
{
    const char *name = info->name ? info->name : "";
    const char *shown = onnx_shown(reader->arena, name);
    const OnnxValue *value = onnx_find(reader, name);
    const OnnxPort base = {.name = name, .is_output = true, .index = index};
    if (value && value->kind == VALUE_BROKEN)
        return;
    if (is_end(reader, value) && (value->flow.source == FLOW_SEQUENCE || !sequence_is_output))
        give_output(reader, &base, &value->flow);
    else if (!(value && value->kind == VALUE_FLOW && value->flow.layer &&
               give_state(reader, &base, &value->flow, NULL, 0)) &&
             !(value && value->kind == VALUE_STACK && give_stack(reader, &base, value))) {
        Diag *diag = diag_add(reader->diags, DIAG_E0451, reader->file->place,
                              "output '%s' is neither the end of the model nor the final state of "
                              "a recurrent layer",
                              shown);
        diag_help(diag, "a module has the output of its last layer, and states: leave the output "
                        "out of the graph");
    }
}

static void take_outputs(OnnxReader *reader, const Onnx__GraphProto *graph)
{
    bool sequence_is_output = false, has_end = false;
    for (size_t i = 0; i < graph->n_output; i++) {
        const OnnxValue *value =
            onnx_find(reader, graph->output[i]->name ? graph->output[i]->name : "");
        has_end |= is_end(reader, value);
        sequence_is_output |= is_end(reader, value) && value->flow.source == FLOW_SEQUENCE;
    }
    for (size_t i = 0; i < graph->n_output; i++)
        take_output(reader, graph->output[i], (int)i, sequence_is_output);
    if (!has_end && reader->last && reader->last->kind != LAYER_RECURRENT)
        diag_add(reader->diags, DIAG_E0451, reader->file->place,
                 "no output of the graph is that of its last layer '%s'", reader->last->name);
}

/// Inputs that no node reads: the module has none of them.
static void leave_unread(OnnxReader *reader, const Onnx__GraphProto *graph)
{
    int index = 0;
    for (size_t i = 0; i < graph->n_input; i++) {
        const char *name = graph->input[i]->name ? graph->input[i]->name : "";
        if (onnx_has_initializer(graph, name))
            continue;
        const OnnxLeftInput unread = {name, index++, NULL};
        if (onnx_find(reader, name)->is_read)
            continue;
        ARENA_PUSH(reader->arena, reader->left, reader->left_count, unread);
        diag_add(reader->diags, DIAG_W0402, reader->file->place,
                 "input '%s' is read by no node: the module has no such input",
                 onnx_shown(reader->arena, name));
    }
}

/// Faults that only the whole graph shows.
static bool check_whole(OnnxReader *reader)
{
    const OnnxLayer *recurrent = reader->recurrent;
    if (diags_error_count(reader->diags) > 0)
        return false;
    if (!recurrent) {
        diag_add(reader->diags, DIAG_E0451, reader->file->place,
                 "the graph has no RNN, LSTM or GRU node");
        return false;
    }
    return true;
}

static const OnnxModel *read_file(OnnxFile *file)
{
    if (!file)
        return NULL;
    OnnxReader *reader = ARENA_NEW(file->arena, OnnxReader);
    *reader = (OnnxReader){.arena = file->arena,
                           .diags = file->diags,
                           .file = file,
                           .x_input = -1,
                           .lengths_input = -1,
                           .time_axis = ONNX_AXIS_OPEN,
                           .batch_axis = ONNX_AXIS_OPEN};
    const Onnx__GraphProto *graph = file->model->graph;
    if (!take_opset(reader) || !take_inputs(reader, graph))
        return NULL;
    onnx_walk(reader, graph);
    if (diags_error_count(reader->diags) == 0)
        take_outputs(reader, graph);
    if (!check_whole(reader))
        return NULL;
    leave_unread(reader, graph);
    return onnx_write(reader);
}

const OnnxModel *onnx_read_bytes(Arena *arena, Diags *diags, const char *path,
                                 const unsigned char *bytes, size_t size_bytes)
{
    return read_file(onnx_parse(arena, diags, path, bytes, size_bytes));
}

const OnnxModel *onnx_read_model(Arena *arena, Diags *diags, const char *path)
{
    return read_file(onnx_open(arena, diags, path));
}

const Imported *onnx_read(Arena *arena, Diags *diags, const char *path)
{
    const OnnxModel *model = onnx_read_model(arena, diags, path);
    return model ? model->model : NULL;
}
