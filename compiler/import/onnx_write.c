// Writes the layers that a graph was read into down as an Imported, with comments on where each
// comes from. See onnx_graph.h.
#include <string.h>

#include "base/text.h"
#include "import/onnx_activation.h"

bool onnx_has_initializer(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (graph->initializer[i]->name && strcmp(graph->initializer[i]->name, name) == 0)
            return true;
    return false;
}

/// The name of input_`index`.pb.
const char *onnx_input_name(const OnnxReader *reader, int index)
{
    const Onnx__GraphProto *graph = reader->file->model->graph;
    for (size_t i = 0;; i++) {
        const char *name = graph->input[i]->name ? graph->input[i]->name : "";
        if (!onnx_has_initializer(graph, name) && index-- == 0)
            return name;
    }
}

/// The keys of one direction, as YAML flow text or as settings.
static const char *cell_text(const OnnxReader *reader, const OnnxLayer *layer, int direction)
{
    Text text = {.arena = reader->arena};
    text_addf(&text, "{cell: %s, units: %lld", layer->cell, (long long)layer->units);
    if (layer->return_sequences)
        text_add(&text, ", return_sequences: true");
    if (layer->return_state)
        text_add(&text, ", return_state: true");
    text_addf(&text, "%s}", layer->directions[direction].keys);
    return text_string(&text);
}

static void write_weights(const OnnxReader *reader, ImportedLayer *to, const OnnxLayer *layer,
                          int direction)
{
    static const char *const sides[] = {"fw/", "bw/"};
    const OnnxDirection *from = &layer->directions[direction];
    const int64_t H = layer->units, GH = H * layer->gates;
    const struct {
        const char *kind;
        int64_t rows, columns;
        const float *data;
    } tensors[] = {{"W", GH, layer->inputs, from->W},
                   {"R", GH, H, from->R},
                   {"b", GH, 1, from->b},
                   {"rb", H, 1, from->rb},
                   {"p", 3 * H, 1, from->p}};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        if (tensors[i].data)
            imported_weight(to,
                            arena_format(reader->arena, "%s%s",
                                         layer->direction_count == 1 ? "" : sides[direction],
                                         tensors[i].kind),
                            tensors[i].rows, tensors[i].columns, tensors[i].data);
}

/// Settings from ", key: value, key: value" with braces within values.
static void set_keys(const OnnxReader *reader, ImportedLayer *to, const char *keys)
{
    while (*keys) {
        keys += strspn(keys, ", ");
        const char *colon = strstr(keys, ": ");
        const char *end = colon + 2;
        for (int depth = 0; *end && (depth > 0 || *end != ','); end++)
            depth += *end == '{' ? 1 : *end == '}' ? -1 : 0;
        imported_set(to, arena_copy(reader->arena, keys, (size_t)(colon - keys)),
                     arena_copy(reader->arena, colon + 2, (size_t)(end - colon - 2)), NULL);
        keys = end;
    }
}

static ImportedLayer *write_recurrent(const OnnxReader *reader, Imported *model,
                                      const OnnxLayer *layer)
{
    ImportedLayer *to = NULL;
    if (layer->direction_count == 2) {
        const char *forward = cell_text(reader, layer, 0), *backward = cell_text(reader, layer, 1);
        const bool same = text_equal(forward, backward);
        to = imported_add(model, "bidirectional",
                          arena_format(reader->arena, "{merge: %s, layer: %s%s%s}", layer->merge,
                                       forward, same ? "" : ", backward: ", same ? "" : backward),
                          layer->name);
        write_weights(reader, to, layer, 0);
        write_weights(reader, to, layer, 1);
        return to;
    }
    to = imported_add(model, "cell", layer->cell, layer->name);
    imported_set(to, "units", arena_format(reader->arena, "%lld", (long long)layer->units), NULL);
    if (layer->return_sequences)
        imported_set(to, "return_sequences", "true", NULL);
    if (layer->return_state)
        imported_set(to, "return_state", "true", NULL);
    if (layer->reverse)
        imported_set(to, "direction", "reverse", NULL);
    set_keys(reader, to, layer->directions[0].keys);
    write_weights(reader, to, layer, 0);
    return to;
}

static ImportedLayer *write_dense(const OnnxReader *reader, Imported *model, const OnnxLayer *layer)
{
    const OnnxDirection *from = &layer->directions[0];
    ImportedLayer *to = imported_add(model, "dense",
                                     arena_format(reader->arena, "{units: %lld, activation: %s%s}",
                                                  (long long)layer->units, layer->activation,
                                                  from->b ? "" : ", use_bias: false"),
                                     layer->name);
    imported_weight(to, "W", layer->units, layer->inputs, from->W);
    if (from->b)
        imported_weight(to, "b", layer->units, 1, from->b);
    return to;
}

/// What the graph calls a layer's states, and the last layer's output, a line each.
static const char *note_of(const OnnxReader *reader, const OnnxLayer *layer)
{
    Text note = {.arena = reader->arena};
    const size_t length = strlen(layer->name);
    text_add(&note, layer->note);
    for (int i = 0; i < reader->port_count; i++) {
        const OnnxPort *port = &reader->ports[i];
        const bool is_state =
            strncmp(port->port, layer->name, length) == 0 && port->port[length] == '/';
        if (is_state || (!layer->next && strcmp(port->port, "y") == 0))
            text_addf(&note, "\n%s '%s' is %s%s", port->is_output ? "output" : "input",
                      onnx_shown(reader->arena, port->is_output
                                                    ? port->name
                                                    : onnx_input_name(reader, port->index)),
                      is_state && !port->is_output ? "the initial " : "", port->port);
    }
    return text_string(&note);
}

static void write_layer(const OnnxReader *reader, Imported *model, const OnnxLayer *layer)
{
    ImportedLayer *to = NULL;
    switch (layer->kind) {
    case LAYER_RECURRENT:
        to = write_recurrent(reader, model, layer);
        break;
    case LAYER_DENSE:
        to = write_dense(reader, model, layer);
        break;
    case LAYER_EMBEDDING:
        to =
            imported_add(model, "embedding",
                         arena_format(reader->arena, "%lld", (long long)layer->units), layer->name);
        imported_weight(to, "E", layer->inputs, layer->units, layer->directions[0].W);
        break;
    case LAYER_ACTIVATION:
        to = imported_add(model, "activation", layer->activation, layer->name);
        break;
    case LAYER_DROPOUT:
        to = imported_add(model, "dropout", onnx_number_text(reader->arena, layer->rate),
                          layer->name);
        break;
    }
    imported_note(to, note_of(reader, layer));
}

/// "[T, B, 3]" of the model's input as the file has it; `letters` without sizes.
static const char *x_text(const OnnxReader *reader, bool letters)
{
    Text text = {.arena = reader->arena};
    for (int i = 0; i < reader->x.rank; i++)
        for (int j = 0; j < reader->x.axes[i].count; j++) {
            const OnnxAtom *atom = &reader->x.axes[i].atoms[j];
            const char letter = atom->axis == reader->time_axis    ? 'T'
                                : atom->axis == reader->batch_axis ? 'B'
                                                                   : 'F';
            if (letters)
                text_addf(&text, "%c", letter);
            else if (letter == 'F')
                text_addf(&text, "%s%lld", text.length ? ", " : "[", (long long)atom->size.factor);
            else
                text_addf(&text, "%s%c", text.length ? ", " : "[", letter);
        }
    text_add(&text, letters ? "" : "]");
    return text_string(&text);
}

/// The number of one axis of the input, "any" where the file leaves it open.
static const char *size_text(const OnnxReader *reader, int axis)
{
    for (int i = 0; i < reader->x.rank; i++)
        for (int j = 0; j < reader->x.axes[i].count; j++) {
            const OnnxAtom *atom = &reader->x.axes[i].atoms[j];
            if (atom->axis == axis)
                return onnx_is_number(atom->size)
                           ? arena_format(reader->arena, "%lld", (long long)atom->size.factor)
                           : "any";
        }
    return "1";
}

static void write_input(const OnnxReader *reader, Imported *model, bool time_major)
{
    const OnnxLayer *first = reader->first;
    const bool tokens = first->kind == LAYER_EMBEDDING;
    int64_t features = 1;
    for (int i = 0; i < reader->x.rank; i++)
        for (int j = 0; j < reader->x.axes[i].count; j++)
            if (reader->x.axes[i].atoms[j].axis != reader->time_axis &&
                reader->x.axes[i].atoms[j].axis != reader->batch_axis)
                features *= reader->x.axes[i].atoms[j].size.factor;
    imported_input(
        model, tokens ? "tokens" : "features",
        arena_format(reader->arena, "%lld", (long long)(tokens ? first->inputs : features)),
        arena_format(reader->arena, "input '%s', %s",
                     onnx_shown(reader->arena, onnx_input_name(reader, reader->x_input)),
                     x_text(reader, false)));
    const char *lengths = NULL;
    if (reader->lengths_input >= 0)
        lengths =
            arena_format(reader->arena, "lengths of the rows: input '%s'",
                         onnx_shown(reader->arena, onnx_input_name(reader, reader->lengths_input)));
    imported_input(model, "batch", size_text(reader, reader->batch_axis), lengths);
    imported_input(model, "timesteps", size_text(reader, reader->time_axis), NULL);
    if (time_major)
        imported_input(model, "layout", "time_major", NULL);
}

/// Names of the weights whose values are of test_data_set_0, with commas.
static const char *from_test_data(const OnnxReader *reader)
{
    Text text = {.arena = reader->arena};
    for (int i = 0; i < reader->left_count; i++)
        if (reader->left[i].array)
            text_addf(&text, "%s%s", text.length ? ", " : "",
                      onnx_shown(reader->arena, reader->left[i].name));
    return text_string(&text);
}

const OnnxModel *onnx_write(OnnxReader *reader)
{
    OnnxModel *result = ARENA_NEW(reader->arena, OnnxModel);
    const Onnx__ModelProto *proto = reader->file->model;
    const char *weights = from_test_data(reader);
    const char *found =
        arena_format(reader->arena, "an ONNX model of opset %lld%s%s%s%s", (long long)reader->opset,
                     proto->producer_name && *proto->producer_name ? " by " : "",
                     onnx_shown(reader->arena, proto->producer_name),
                     *weights ? ", with the values of test_data_set_0 for " : "", weights);
    Imported *model = imported_create(reader->arena, reader->file->path, found);
    reader->x = onnx_find(reader, onnx_input_name(reader, reader->x_input))->flow;
    *result = (OnnxModel){.model = model, .x_order = x_text(reader, true)};
    const char *time = strchr(result->x_order, 'T'), *batch = strchr(result->x_order, 'B');
    result->time_major = time && batch && time < batch;
    write_input(reader, model, result->time_major);
    for (const OnnxLayer *layer = reader->first; layer; layer = layer->next)
        write_layer(reader, model, layer);
    onnx_add_port(reader, &(OnnxPort){.index = reader->x_input, .port = "x"});
    result->ports = reader->ports;
    result->port_count = reader->port_count;
    result->left = reader->left;
    result->left_count = reader->left_count;
    return result;
}
