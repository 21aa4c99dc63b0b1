// Keras' graphs: see keras_graph.h. A layer's call is kept as
//
//     Keras 2   [["lstm", node, tensor, {arguments}]]
//     Keras 3   {"args": [{"config": {"keras_history": ["lstm", node, tensor]}}], "kwargs": {..}}
//
// Keras 3 also makes layers of the operations that compute masks (NotEqual, Any; a legacy file does
// not say that they are none); they are followed back to the Embedding or Masking that they belong
// to and left out, since a spec has that layer's mask anyway.
#include "import/keras_graph.h"

#include <string.h>

/// A layer of the graph and what it reads.
typedef struct {
    KerasLayer layer;
    const char *source;   ///< the layer it reads; NULL: none
    const char *mask;     ///< the layer whose value is its mask; NULL: none
    const json_t *second; ///< a constant argument, as of NotEqual
    bool is_mask;
} Node;

typedef struct {
    const KerasFile *file;
    Node *nodes;
    int count;
} Graph;

static bool bad(const KerasFile *file, const char *what)
{
    keras_report(file, DIAG_E0460, "its model is malformed: %s", what);
    return false;
}

static bool read_layer(const KerasFile *file, const json_t *description, KerasLayer *out)
{
    const json_t *config = json_object_get(description, "config");
    *out = (KerasLayer){.class_name = keras_string(description, "class_name"),
                        .name = keras_string(config, "name"),
                        .config = config,
                        .description = description};
    if (!out->name) // Keras' operations have their name here only
        out->name = keras_string(description, "name");
    return (out->class_name && out->name) || bad(file, "a layer has no class or no name");
}

static void count_classes(KerasLayer *layers, int count)
{
    for (int i = 0; i < count; i++)
        for (int before = 0; before < i; before++)
            layers[i].same_before += text_equal(layers[before].class_name, layers[i].class_name);
}

/// The layer of [name, node, tensor]; NULL, with E0461, where the node is not the first or the
/// value not the layer's first.
static const char *source_of(const KerasFile *file, const KerasLayer *reader, const json_t *place)
{
    const char *name = json_string_value(json_array_get(place, 0));
    if (!name) {
        bad(file, "a layer reads nothing that has a name");
        return NULL;
    }
    if (json_integer_value(json_array_get(place, 1)) == 0 &&
        json_integer_value(json_array_get(place, 2)) == 0)
        return name;
    keras_refuse(file, reader, NULL,
                 "it reads a second call or a second value of '%s', such as a state", name);
    return NULL;
}

/// [name, node, tensor] of a Keras 3 tensor, or NULL.
static const json_t *history_of(const json_t *tensor)
{
    const char *kind = keras_string(tensor, "class_name");
    return kind && text_equal(kind, "__keras_tensor__")
               ? json_object_get(json_object_get(tensor, "config"), "keras_history")
               : NULL;
}

static bool read_mask(const KerasFile *file, Node *node, const json_t *place)
{
    node->mask = source_of(file, &node->layer, place);
    return node->mask != NULL;
}

/// Arguments by name: a mask is followed, `training` does not matter, others must be null.
static bool read_arguments(const KerasFile *file, Node *node, const json_t *arguments)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)arguments, key, value)
    {
        const json_t *place = json_is_array(value) ? value : history_of(value);
        if (text_equal(key, "training") || json_is_null(value) || node->is_mask)
            continue;
        if (!text_equal(key, "mask") || !place)
            return keras_refuse(file, &node->layer, NULL, "it is called with '%s'", key);
        if (!read_mask(file, node, place))
            return false;
    }
    return true;
}

static bool read_call_2(const KerasFile *file, Node *node, const json_t *call)
{
    const json_t *tensor = json_array_get(call, 0);
    if (json_is_string(tensor)) // a single tensor may stand without its list
        tensor = call;
    else if (json_array_size(call) != 1)
        return keras_refuse(file, &node->layer, NULL, "it reads %zu values, not one",
                            json_array_size(call));
    node->source = source_of(file, &node->layer, tensor);
    return node->source && read_arguments(file, node, json_array_get(tensor, 3));
}

static bool read_call_3(const KerasFile *file, Node *node, const json_t *call)
{
    const json_t *arguments = json_object_get(call, "args");
    const json_t *tensor = json_array_get(arguments, 0);
    const json_t *place = history_of(tensor);
    const size_t count = json_array_size(arguments);
    node->second = json_array_get(arguments, 1);
    if (!place || (count > 1 && !node->is_mask) || history_of(node->second))
        return keras_refuse(file, &node->layer, NULL, "it reads other than one value of one layer");
    node->source = source_of(file, &node->layer, place);
    return node->source && read_arguments(file, node, json_object_get(call, "kwargs"));
}

static bool read_node(const KerasFile *file, const json_t *description, Node *node)
{
    const json_t *calls = json_object_get(description, "inbound_nodes");
    if (!read_layer(file, description, &node->layer))
        return false;
    const char *class_name = node->layer.class_name;
    const char *module = keras_string(description, "module");
    node->is_mask = (!module || strstr(module, ".ops")) &&
                    (text_equal(class_name, "NotEqual") || text_equal(class_name, "Any"));
    if (json_array_size(calls) == 0)
        return true;
    if (json_array_size(calls) > 1)
        return keras_refuse(file, &node->layer, NULL, "it is called %zu times, not once",
                            json_array_size(calls));
    const json_t *call = json_array_get(calls, 0);
    return json_is_object(call) ? read_call_3(file, node, call) : read_call_2(file, node, call);
}

static const Node *find(const Graph *graph, const char *name)
{
    for (int i = 0; name && i < graph->count; i++)
        if (text_equal(graph->nodes[i].layer.name, name))
            return &graph->nodes[i];
    return NULL;
}

/// The name in [name, 0, 0], [[name, 0, 0]] or {"x": [name, 0, 0]}; NULL where there are several.
static const char *only_name(const json_t *places)
{
    if (json_is_array(places) && json_is_string(json_array_get(places, 0)))
        return json_string_value(json_array_get(places, 0));
    if (json_array_size(places) == 1)
        return json_string_value(json_array_get(json_array_get(places, 0), 0));
    return NULL;
}

/// The one layer whose values, the first of them first, are the model's outputs; NULL where there
/// are several. A layer alone may stand without the list around it.
static const char *output_name(const json_t *places, int *out_count)
{
    const char *name = only_name(places);
    *out_count = 1;
    for (size_t i = 0; !name && i < json_array_size(places); i++) {
        const json_t *place = json_array_get(places, i), *first = json_array_get(places, 0);
        if (!json_equal(json_array_get(place, 0), json_array_get(first, 0)) ||
            json_integer_value(json_array_get(place, 2)) != (json_int_t)i)
            return NULL;
        *out_count = (int)i + 1;
    }
    return name ? name : json_string_value(json_array_get(json_array_get(places, 0), 0));
}

/// Whether a mask is that of an Embedding or Masking whose input it is computed from.
static bool mask_is_own(const Graph *graph, const Node *reader)
{
    const Node *mask = find(graph, reader->mask);
    if (mask && mask->is_mask && text_equal(mask->layer.class_name, "Any"))
        mask = find(graph, mask->source);
    for (int i = 0; mask && mask->is_mask && mask->source && i < graph->count; i++) {
        const Node *node = &graph->nodes[i];
        if (!node->source || !text_equal(node->source, mask->source))
            continue;
        const json_t *zero = json_object_get(node->layer.config, "mask_zero");
        const json_t *value = json_object_get(node->layer.config, "mask_value");
        const double other = json_number_value(mask->second);
        if (text_equal(node->layer.class_name, "Embedding") && json_is_true(zero) && other == 0)
            return true;
        if (text_equal(node->layer.class_name, "Masking") && json_number_value(value) == other)
            return true;
    }
    // Keras 2 names the layer itself where it passes a mask on.
    return mask && !mask->is_mask && text_equal(mask->layer.class_name, "Masking");
}

/// The one layer that reads `from`; NULL where there is none, and `*good` false, with E0461, where
/// there are several.
static const Node *reader_of(const Graph *graph, const Node *from, bool *good)
{
    const Node *found = NULL;
    *good = true;
    for (int i = 0; i < graph->count; i++) {
        const Node *node = &graph->nodes[i];
        if (node->is_mask || !node->source || !text_equal(node->source, from->layer.name))
            continue;
        if (found)
            *good = keras_refuse(graph->file, &from->layer, NULL,
                                 "both '%s' and '%s' read it: the model branches",
                                 found->layer.name, node->layer.name);
        found = node;
    }
    return found;
}

/// Follows the line from the input to the output.
static bool follow(const Graph *graph, const Node *from, const char *output, KerasModel *out)
{
    int masks = 0;
    for (const Node *node = from; node && out->count <= graph->count;) {
        bool good = true;
        if (node->mask && !mask_is_own(graph, node))
            return keras_refuse(graph->file, &node->layer, NULL,
                                "its mask is of neither an Embedding nor a Masking");
        out->layers[out->count++] = node->layer;
        const Node *next = reader_of(graph, node, &good);
        if (!good)
            return false;
        if (!next && !text_equal(node->layer.name, output))
            return keras_refuse(graph->file, &node->layer, NULL, "nothing reads what it gives");
        if (next && text_equal(node->layer.name, output))
            return keras_refuse(graph->file, &node->layer, NULL,
                                "the model's output is also read by '%s'", next->layer.name);
        node = next;
    }
    for (int i = 0; i < graph->count; i++)
        masks += graph->nodes[i].is_mask;
    if (out->count + masks == graph->count)
        return true;
    keras_report(graph->file, DIAG_E0461,
                 "the model branches: only %d of its %d layers stand between input and output",
                 out->count, graph->count - masks);
    return false;
}

static bool read_functional(const KerasFile *file, const json_t *config, const json_t *list,
                            KerasModel *out)
{
    Graph graph = {.file = file, .count = (int)json_array_size(list)};
    graph.nodes = ARENA_ARRAY(file->arena, Node, graph.count + 1);
    for (int i = 0; i < graph.count; i++) {
        if (!read_node(file, json_array_get(list, (size_t)i), &graph.nodes[i]))
            return false;
        if (find(&graph, graph.nodes[i].layer.name) != &graph.nodes[i])
            return bad(file, "two layers have one name");
    }
    const Node *input = find(&graph, only_name(json_object_get(config, "input_layers")));
    const char *output = output_name(json_object_get(config, "output_layers"), &out->output_count);
    if (!input || !output) {
        keras_report(file, DIAG_E0461,
                     "its model has not one input and the outputs of one layer, in their order");
        return false;
    }
    return follow(&graph, input, output, out);
}

bool keras_read_graph(const KerasFile *file, const json_t *model, KerasModel *out)
{
    const char *class_name = keras_string(model, "class_name");
    const json_t *config = json_object_get(model, "config");
    // Before Keras 2.2.3 a Sequential's configuration was the list itself.
    const json_t *list = json_is_array(config) ? config : json_object_get(config, "layers");
    const bool is_sequential = class_name && text_equal(class_name, "Sequential");
    if (class_name && !is_sequential && !text_equal(class_name, "Functional") &&
        !text_equal(class_name, "Model")) {
        Diag *diag = keras_report(file, DIAG_E0461, "its model is a '%s'", class_name);
        diag_help(diag, "taken are Sequential models, and Functional ones without branches; a "
                        "model class of one's own is code, which is not run");
        return false;
    }
    if (!class_name || !json_is_array(list) || json_array_size(list) == 0)
        return bad(file, "it has no class, or no list of layers");
    if (json_array_size(list) > KERAS_LAYERS_MAX)
        return bad(file, "it has over 1024 layers");
    const int count = (int)json_array_size(list);
    *out = (KerasModel){.layers = ARENA_ARRAY(file->arena, KerasLayer, count + 1),
                        .input_shape = json_object_get(config, "build_input_shape"),
                        .output_count = 1};
    if (!is_sequential && !read_functional(file, config, list, out))
        return false;
    for (; is_sequential && out->count < count; out->count++)
        if (!read_layer(file, json_array_get(list, (size_t)out->count), &out->layers[out->count]))
            return false;
    count_classes(out->layers, out->count);
    return true;
}
