// Reverse-mode derivative: adjoints flow from the outputs to the leaves, from the last node to the
// first, each node adding its share to its operands. New nodes go behind the old ones, so one pass
// over the old indices sees every adjoint complete. At a kink the derivative is that of the branch
// which the equation takes; |x| and comparisons have 0 there. A mean or variance over units is a
// leaf that is no constant, so it is differentiated by or refused.
#include "cell/graph.h"

#include <math.h>

typedef struct {
    Graph *graph;
    int *adjoints;        ///< of each old node; -1: none so far
    const bool *relevant; ///< old nodes that depend on an input; others need no adjoint
} Reverse;

static void add_to(Reverse *reverse, int node, int share)
{
    if (!reverse->relevant[node])
        return;
    int *adjoint = &reverse->adjoints[node];
    *adjoint = *adjoint < 0 ? share : graph_op(reverse->graph, OP_ADD, *adjoint, share, 0);
}

static int choose(Graph *graph, int condition, int yes, int no)
{
    return graph_op(graph, OP_SELECT, condition, yes, no);
}

/// Shares of + - * / and the choices.
static bool spread_binary(Reverse *reverse, const Node *node, int y, int s)
{
    Graph *graph = reverse->graph;
    int a = node->args[0], b = node->args[1], zero = graph_constant(graph, 0);
    switch (node->op) {
    case OP_ADD:
        add_to(reverse, a, s);
        add_to(reverse, b, s);
        return true;
    case OP_SUB:
        add_to(reverse, a, s);
        add_to(reverse, b, graph_op(graph, OP_NEG, s, 0, 0));
        return true;
    case OP_MUL:
        add_to(reverse, a, graph_op(graph, OP_MUL, s, b, 0));
        add_to(reverse, b, graph_op(graph, OP_MUL, s, a, 0));
        return true;
    case OP_DIV: {
        int share = graph_op(graph, OP_DIV, s, b, 0);
        add_to(reverse, a, share);
        share = graph_op(graph, OP_MUL, share, y, 0);
        add_to(reverse, b, graph_op(graph, OP_NEG, share, 0, 0));
        return true;
    }
    case OP_MIN:
    case OP_MAX: {
        int first = graph_op(graph, node->op == OP_MIN ? OP_LT : OP_GT, a, b, 0);
        add_to(reverse, a, choose(graph, first, s, zero));
        add_to(reverse, b, choose(graph, first, zero, s));
        return true;
    }
    case OP_SELECT:
        add_to(reverse, b, choose(graph, a, s, zero));
        add_to(reverse, node->args[2], choose(graph, a, zero, s));
        return true;
    default:
        return false;
    }
}

/// The derivative of a function of one operand `a` with value `y`, times the adjoint `s`.
static int unary_share(Graph *graph, Op op, int a, int y, int s)
{
    int one = graph_constant(graph, 1), zero = graph_constant(graph, 0), slope;
    int minus = graph_op(graph, OP_NEG, op == OP_NEG || op == OP_ABS ? s : a, 0, 0);
    switch (op) {
    case OP_NEG:
        return minus;
    case OP_EXP:
        return graph_op(graph, OP_MUL, s, y, 0);
    case OP_EXPM1:
        return graph_op(graph, OP_MUL, s, graph_op(graph, OP_ADD, y, one, 0), 0);
    case OP_LOG:
        return graph_op(graph, OP_DIV, s, a, 0);
    case OP_SQRT:
        slope = graph_op(graph, OP_DIV, graph_constant(graph, 0.5), y, 0);
        return graph_op(graph, OP_MUL, s, slope, 0);
    case OP_ABS:
        s = choose(graph, graph_op(graph, OP_EQ, a, zero, 0), zero, s);
        return choose(graph, graph_op(graph, OP_LT, a, zero, 0), minus, s);
    case OP_TANH:
        slope = graph_op(graph, OP_SUB, one, graph_op(graph, OP_MUL, y, y, 0), 0);
        return graph_op(graph, OP_MUL, s, slope, 0);
    case OP_SIGMOID:
        slope = graph_op(graph, OP_MUL, y, graph_op(graph, OP_SUB, one, y, 0), 0);
        return graph_op(graph, OP_MUL, s, slope, 0);
    case OP_LOG_SIGMOID:
        return graph_op(graph, OP_MUL, s, graph_op(graph, OP_SIGMOID, minus, 0, 0), 0);
    case OP_ERF:
        slope = graph_op(graph, OP_EXP, graph_op(graph, OP_MUL, minus, a, 0), 0, 0);
        slope = graph_op(graph, OP_MUL, graph_constant(graph, 2 / sqrt(acos(-1.0))), slope, 0);
        return graph_op(graph, OP_MUL, s, slope, 0);
    default:
        return zero;
    }
}

static const bool *depends_on(Graph *graph, const int *inputs, int input_count)
{
    bool *relevant = ARENA_ARRAY(graph->arena, bool, graph->count + 1);
    for (int i = 0; i < input_count; i++)
        relevant[inputs[i]] = true;
    for (int i = 0; i < graph->count; i++)
        for (int k = 0; k < op_arity(graph->nodes[i].op); k++)
            relevant[i] |= relevant[graph->nodes[i].args[k]];
    return relevant;
}

/// Whether all statistics that the outputs depend on are among the inputs.
static bool takes_statistics(const Graph *graph, const int *outputs, int output_count,
                             const int *inputs, int input_count)
{
    bool *needed = ARENA_ARRAY(graph->arena, bool, graph->count + 1);
    bool *given = ARENA_ARRAY(graph->arena, bool, graph->count + 1);
    for (int i = 0; i < output_count; i++)
        needed[outputs[i]] = true;
    for (int i = 0; i < input_count; i++)
        given[inputs[i]] = true;
    for (int i = graph->count - 1; i >= 0; i--) {
        const Node *node = &graph->nodes[i];
        if (needed[i] && node->op == OP_STATISTIC && !given[i])
            return false;
        for (int k = 0; needed[i] && k < op_arity(node->op); k++)
            needed[node->args[k]] = true;
    }
    return true;
}

bool graph_differentiate(Graph *graph, const int *outputs, const int *seeds, int output_count,
                         const int *inputs, int input_count, int *out_adjoints)
{
    if (!takes_statistics(graph, outputs, output_count, inputs, input_count))
        return false;
    int count = graph->count;
    Reverse reverse = {graph, ARENA_ARRAY(graph->arena, int, count + 1),
                       depends_on(graph, inputs, input_count)};
    for (int i = 0; i < count; i++)
        reverse.adjoints[i] = -1;
    for (int i = 0; i < output_count; i++)
        add_to(&reverse, outputs[i], seeds[i]);
    for (int i = count - 1; i >= 0; i--) {
        Node node = graph->nodes[i];
        int share = reverse.adjoints[i];
        if (share < 0 || op_arity(node.op) == 0 || spread_binary(&reverse, &node, i, share))
            continue;
        if (op_arity(node.op) == 1)
            add_to(&reverse, node.args[0], unary_share(graph, node.op, node.args[0], i, share));
    }
    for (int i = 0; i < input_count; i++) {
        int adjoint = reverse.adjoints[inputs[i]];
        out_adjoints[i] = adjoint < 0 ? graph_constant(graph, 0) : adjoint;
    }
    return true;
}
