// Graph: nodes are kept once each (hash-consing by search: a step has tens of nodes), constants
// fold, and float64 evaluation is one loop over the rows of ops.def.
#include "cell/graph.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    int arity;
    const char *format;
    int strength;
} facts[] = {
#define OPERATION(name, arity, format, strength, ...) {#name, arity, format, strength},
#include "cell/ops.def"
#undef OPERATION
};

/// Operations that cells call by name; the rest are leaves or written as operators.
static const char *const function_names[] = {"exp", "expm1", "log",     "sqrt",        "abs", "min",
                                             "max", "tanh",  "sigmoid", "log_sigmoid", "erf"};
static const Op function_ops[] = {OP_EXP, OP_EXPM1, OP_LOG,     OP_SQRT,        OP_ABS, OP_MIN,
                                  OP_MAX, OP_TANH,  OP_SIGMOID, OP_LOG_SIGMOID, OP_ERF};
enum { FUNCTION_COUNT = sizeof function_ops / sizeof *function_ops };

int op_arity(Op op)
{
    return facts[op].arity;
}

const char *op_format(Op op)
{
    return facts[op].format;
}

int op_strength(Op op)
{
    return facts[op].strength;
}

const char *op_name(Op op)
{
    return facts[op].name;
}

Op op_function(const char *name)
{
    for (int i = 0; i < FUNCTION_COUNT; i++)
        if (text_equal(function_names[i], name))
            return function_ops[i];
    return OP_COUNT;
}

const char *const *op_function_names(size_t *out_count)
{
    *out_count = FUNCTION_COUNT;
    return function_names;
}

static double evaluate(Op op, double a, double b, double c)
{
    switch (op) {
#define OPERATION(name, arity, format, strength, ...)                                              \
    case OP_##name:                                                                                \
        (void)a, (void)b, (void)c;                                                                 \
        return __VA_ARGS__;
#include "cell/ops.def"
#undef OPERATION
    case OP_COUNT:
        break;
    }
    return 0;
}

static bool is_constant(const Graph *graph, int node)
{
    return graph->nodes[node].op == OP_CONST;
}

static bool is_value(const Graph *graph, int node, double value)
{
    return is_constant(graph, node) && graph->nodes[node].value == value;
}

/// The node that `node` amounts to without computing anything, or -1. x + 0 = x also for x = -0,
/// whose sign no equation sees; 0*x stays, for x may be infinite or NaN.
static int simplified(const Graph *graph, const Node *node)
{
    int a = node->args[0], b = node->args[1], c = node->args[2];
    switch (node->op) {
    case OP_ADD:
        return is_value(graph, a, 0) ? b : is_value(graph, b, 0) ? a : -1;
    case OP_SUB:
        return is_value(graph, b, 0) ? a : -1;
    case OP_MUL:
        return is_value(graph, a, 1) ? b : is_value(graph, b, 1) ? a : -1;
    case OP_DIV:
        return is_value(graph, b, 1) ? a : -1;
    case OP_SELECT:
        return b == c ? b : is_value(graph, a, 0) ? c : is_constant(graph, a) ? b : -1;
    default:
        return -1;
    }
}

static bool all_constant(const Graph *graph, const Node *node)
{
    int arity = op_arity(node->op);
    for (int i = 0; i < arity; i++)
        if (!is_constant(graph, node->args[i]))
            return false;
    return arity > 0;
}

static bool same(const Node *a, const Node *b)
{
    if (a->op != b->op)
        return false;
    if (a->op == OP_CONST)
        return memcmp(&a->value, &b->value, sizeof a->value) == 0;
    if (op_arity(a->op) == 0)
        return a->index == b->index;
    return memcmp(a->args, b->args, sizeof *a->args * (size_t)op_arity(a->op)) == 0;
}

int graph_add(Graph *graph, Node node)
{
    if (all_constant(graph, &node)) {
        double value[3] = {0};
        for (int i = 0; i < op_arity(node.op); i++)
            value[i] = graph->nodes[node.args[i]].value;
        node.value = evaluate(node.op, value[0], value[1], value[2]);
        node.op = OP_CONST;
    }
    int shorter = op_arity(node.op) ? simplified(graph, &node) : -1;
    if (shorter >= 0)
        return shorter;
    for (int i = 0; i < graph->count; i++)
        if (same(&graph->nodes[i], &node)) {
            if (!graph->nodes[i].name)
                graph->nodes[i].name = node.name;
            return i;
        }
    ARENA_PUSH(graph->arena, graph->nodes, graph->count, node);
    return graph->count - 1;
}

int graph_op(Graph *graph, Op op, int a, int b, int c)
{
    return graph_add(graph, (Node){.op = op, .args = {a, b, c}});
}

int graph_constant(Graph *graph, double value)
{
    return graph_add(graph, (Node){.op = OP_CONST, .value = value});
}

void graph_evaluate(const Graph *graph, double (*leaf)(const void *context, const Node *node),
                    const void *context, double *out_values)
{
    for (int i = 0; i < graph->count; i++) {
        const Node *node = &graph->nodes[i];
        double value[3] = {0};
        for (int k = 0; k < op_arity(node->op); k++)
            value[k] = out_values[node->args[k]];
        if (node->op == OP_CONST)
            out_values[i] = node->value;
        else if (op_arity(node->op) == 0)
            out_values[i] = leaf(context, node);
        else
            out_values[i] = evaluate(node->op, value[0], value[1], value[2]);
    }
}

void graph_print(const Graph *graph, Text *out)
{
    for (int i = 0; i < graph->count; i++) {
        const Node *node = &graph->nodes[i];
        text_addf(out, "%%%d = %s", i, op_name(node->op));
        if (node->op == OP_CONST)
            text_addf(out, " %.17g", node->value);
        else if (op_arity(node->op) == 0)
            text_addf(out, " %d", node->index);
        for (int k = 0; k < op_arity(node->op); k++)
            text_addf(out, " %%%d", node->args[k]);
        if (node->name)
            text_addf(out, " '%s'", node->name);
        text_add(out, "\n");
    }
}
