// Walks the nodes of a graph: finds each node's row in onnx_ops.def, checks its attributes and
// inputs against it, and lets the operator fill in the outputs.
#include <string.h>

#include "import/onnx_graph.h"

enum { DEPTH_MAX = 16 };

static const struct Operator {
    const char *name;
    void (*handler)(OnnxReader *reader, const OnnxNode *node);
    const char *attributes;
    int inputs_least, inputs_most, outputs_most;
} operators[] = {
#define ONNX_OP(name, handler, attributes, inputs_least, inputs_most, outputs_most)                \
    {#name, handler, attributes, inputs_least, inputs_most, outputs_most},
#include "import/onnx_ops.def"
#undef ONNX_OP
};

static const struct Operator *operator_of(const Onnx__NodeProto *proto)
{
    const size_t count = sizeof operators / sizeof operators[0];
    for (size_t i = 0; i < count && proto->op_type; i++)
        if (strcmp(operators[i].name, proto->op_type) == 0)
            return &operators[i];
    return NULL;
}

/// Letter and AttributeProto.AttributeType of each kind, with its word.
static const struct {
    char letter;
    int type;
    const char *word;
} kinds[] = {{'f', 1, "a number"}, {'i', 2, "an integer"}, {'s', 3, "a text"},
             {'t', 4, "a tensor"}, {'g', 5, "a graph"},    {'F', 6, "numbers"},
             {'I', 7, "integers"}, {'S', 8, "texts"}};

/// The letter of attribute `name` in a row's list, or 0.
static char letter_of(const char *attributes, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = attributes; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, length) == 0 && at[length] == ':')
            return at[length + 1];
    }
    return 0;
}

static bool check_attribute(OnnxReader *reader, const OnnxNode *node, const char *attributes,
                            const Onnx__AttributeProto *attribute)
{
    const char *name = attribute->name ? attribute->name : "";
    const char letter = letter_of(attributes, name);
    const char *shown = onnx_shown(reader->arena, name);
    if (!letter)
        return onnx_refuse(reader, node, NULL, "attribute '%s' is not known", shown);
    if (onnx_attribute(node, name) != attribute)
        return onnx_refuse(reader, node, NULL, "attribute '%s' is given twice", shown);
    if (attribute->ref_attr_name && *attribute->ref_attr_name)
        return onnx_refuse(reader, node, NULL, "attribute '%s' refers to one of a function", shown);
    size_t row = 0;
    while (kinds[row].letter != letter)
        row++;
    const bool there = (letter != 't' || attribute->t) && (letter != 'g' || attribute->g);
    return (attribute->type == kinds[row].type && there) ||
           onnx_refuse(reader, node, NULL, "attribute '%s' is not %s", shown, kinds[row].word);
}

static bool check_node(OnnxReader *reader, const OnnxNode *node, const struct Operator *operator)
{
    const char *domain = node->proto->domain;
    if (domain && *domain && strcmp(domain, "ai.onnx") != 0)
        return onnx_refuse(reader, node, "export the model with operators of ONNX alone",
                           "its operator is of the domain '%s'", onnx_shown(reader->arena, domain));
    if (!operator)
        return onnx_refuse(reader, node,
                           "a spec is a chain of recurrent, dense, embedding, dropout and "
                           "activation layers: cut the graph before or behind them",
                           "the operator cannot be taken");
    if (node->input_count < operator->inputs_least || node->input_count>
                            operator->inputs_most || node->output_count>
                            operator->outputs_most)
        return onnx_refuse(reader, node, NULL, "%d inputs and %d outputs", node->input_count,
                           node->output_count);
    for (size_t i = 0; i < node->proto->n_attribute; i++)
        if (!check_attribute(reader, node, operator->attributes, node->proto->attribute[i]))
            return false;
    return true;
}

/// Looks the inputs up. False without a word where one of them is broken.
static bool find_inputs(OnnxReader *reader, OnnxNode *node)
{
    node->inputs = ARENA_ARRAY(reader->arena, OnnxValue *, node->input_count + 1);
    for (int i = 0; i < node->input_count; i++) {
        const char *name = node->proto->input[i];
        if (!*name)
            continue;
        node->inputs[i] = onnx_find(reader, name);
        if (!node->inputs[i])
            return onnx_refuse(reader, node, NULL, "reads '%s', which nothing before it gives",
                               onnx_shown(reader->arena, name));
        node->inputs[i]->is_read = true;
        if (node->inputs[i]->kind == VALUE_BROKEN)
            return false;
    }
    return true;
}

static bool name_outputs(OnnxReader *reader, const OnnxNode *node)
{
    for (int i = 0; i < node->output_count; i++)
        if (*node->proto->output[i] && !onnx_name(reader, node->proto->output[i]))
            return false;
    return true;
}

static const char *shown_name(Arena *arena, const Onnx__NodeProto *proto, size_t position)
{
    const char *op = onnx_shown(arena, proto->op_type);
    return proto->name && *proto->name
               ? arena_format(arena, "node '%s' (%s)", onnx_shown(arena, proto->name), op)
               : arena_format(arena, "node %zu (%s)", position, op);
}

static void walk_node(OnnxReader *reader, const Onnx__NodeProto *proto, size_t position)
{
    const struct Operator *operator= operator_of(proto);
    const size_t most = ONNX_DIMS_MAX + ONNX_STACK_MAX;
    OnnxNode node = {.proto = proto,
                     .shown = shown_name(reader->arena, proto, position),
                     .input_count = (int)(proto->n_input < most ? proto->n_input : most),
                     .output_count = (int)(proto->n_output < most ? proto->n_output : most)};
    while (node.input_count > 0 && !*proto->input[node.input_count - 1])
        node.input_count--;
    if (name_outputs(reader, &node) && check_node(reader, &node, operator) &&
        find_inputs(reader, &node))
        operator->handler(reader, &node);
}

void onnx_walk(OnnxReader *reader, const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *tensor = graph->initializer[i];
        const char *name = tensor->name ? tensor->name : "";
        const OnnxNode node = {.shown = arena_format(reader->arena, "initializer '%s'",
                                                     onnx_shown(reader->arena, name))};
        OnnxValue *value = onnx_name(reader, name);
        if (value)
            onnx_make_tensor(reader, &node, value, tensor);
    }
    for (size_t i = 0; i < graph->n_node; i++)
        walk_node(reader, graph->node[i], i);
}

void onnx_if(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *condition = onnx_input(node, 0);
    int64_t holds = 0;
    if (!condition || !onnx_integer(reader, node, condition, "its condition", &holds))
        return;
    const Onnx__AttributeProto *taken = onnx_attribute(node, holds ? "then_branch" : "else_branch");
    if (!taken || reader->depth == DEPTH_MAX || taken->g->n_input > 0 ||
        taken->g->n_output != node->proto->n_output) {
        onnx_refuse(reader, node, NULL,
                    "its branch is missing, has inputs, other outputs, or is the %dth within "
                    "another",
                    DEPTH_MAX);
        return;
    }
    reader->depth++;
    onnx_walk(reader, taken->g);
    reader->depth--;
    for (int i = 0; i < node->output_count; i++) {
        const char *name = taken->g->output[i]->name;
        const OnnxValue *value = name ? onnx_find(reader, name) : NULL;
        if (!value)
            onnx_refuse(reader, node, NULL, "its branch does not give its output %d", i);
        else if (value->kind != VALUE_BROKEN)
            onnx_give(onnx_output(reader, node, i), value);
    }
}
