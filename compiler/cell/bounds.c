// Bounds: see bounds.h.
#include "cell/bounds.h"

#include <math.h>

typedef struct {
    double low, high;
} Interval;

enum { EXPONENT_MAX = 126 };

static const Interval anything = {-INFINITY, INFINITY};

/// 0 times anything finite is 0, however large; what is not finite in a cell is NaN, outside of
/// every bound.
static double times(double a, double b)
{
    return a == 0 || b == 0 ? 0 : a * b;
}

static Interval product(Interval a, Interval b)
{
    const double corners[] = {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low),
                              times(a.high, b.high)};
    Interval out = {corners[0], corners[0]};
    for (int i = 1; i < 4; i++) {
        out.low = fmin(out.low, corners[i]);
        out.high = fmax(out.high, corners[i]);
    }
    return out;
}

static Interval around(Interval a, Interval b)
{
    return (Interval){fmin(a.low, b.low), fmax(a.high, b.high)};
}

static bool within(Interval a, double low, double high)
{
    return a.low >= low && a.high <= high;
}

/// The node z where `node` is 1 - z; -1 elsewhere.
static int complement_of(const Graph *graph, int node)
{
    const Node *n = &graph->nodes[node];
    const bool is_one = n->op == OP_SUB && graph->nodes[n->args[0]].op == OP_CONST &&
                        graph->nodes[n->args[0]].value == 1;
    return is_one ? n->args[1] : -1;
}

/// A sum (1 - z)*a + z*b with z in [0, 1], in any order of its parts, lies between a and b.
static bool is_mean(const Graph *graph, const Interval *of, const Node *sum, Interval *out)
{
    const Node *parts[] = {&graph->nodes[sum->args[0]], &graph->nodes[sum->args[1]]};
    if (parts[0]->op != OP_MUL || parts[1]->op != OP_MUL)
        return false;
    for (int order = 0; order < 8; order++) {
        const Node *first = parts[order & 1], *second = parts[1 - (order & 1)];
        const int weight = order >> 1 & 1, other = order >> 2 & 1;
        const int z = complement_of(graph, first->args[weight]);
        if (z < 0 || second->args[other] != z || !within(of[z], 0, 1))
            continue;
        *out = around(of[first->args[1 - weight]], of[second->args[1 - other]]);
        return true;
    }
    return false;
}

static Interval interval_of(const Graph *graph, const Interval *of, const Node *node)
{
    const Interval a = of[node->args[0]], b = of[node->args[1]];
    Interval mean;
    switch (node->op) {
    case OP_CONST:
        return (Interval){node->value, node->value};
    case OP_NEG:
        return (Interval){-a.high, -a.low};
    case OP_ADD:
        return is_mean(graph, of, node, &mean) ? mean : (Interval){a.low + b.low, a.high + b.high};
    case OP_SUB:
        return (Interval){a.low - b.high, a.high - b.low};
    case OP_MUL:
        return product(a, b);
    case OP_SELECT:
        return around(b, of[node->args[2]]);
    case OP_MIN:
        return (Interval){fmin(a.low, b.low), fmin(a.high, b.high)};
    case OP_MAX:
        return (Interval){fmax(a.low, b.low), fmax(a.high, b.high)};
    case OP_TANH:
    case OP_ERF:
        return (Interval){-1, 1};
    case OP_SIGMOID:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_EQ:
    case OP_NE:
        return (Interval){0, 1};
    default:
        return anything;
    }
}

/// Whether the operands stay within [-b, b].
static bool holds(const Cell *cell, Interval *of, double b)
{
    bool is_operand[CELL_STATES_MAX] = {false};
    for (int p = 0; p < cell->phase_count; p++)
        if (cell->phases[p].row_count > 0 && cell->phases[p].operand_is_state)
            is_operand[cell->phases[p].operand] = true;
    for (int i = 0; i < cell->graph.count; i++) {
        const Node *node = &cell->graph.nodes[i];
        of[i] = node->op == OP_STATE && is_operand[node->index]
                    ? (Interval){-b, b}
                    : interval_of(&cell->graph, of, node);
        if (isnan(of[i].low) || isnan(of[i].high))
            of[i] = anything;
    }
    for (int p = 0; p < cell->phase_count; p++) {
        const CellPhase *phase = &cell->phases[p];
        if (phase->row_count == 0)
            continue;
        const int made = phase->operand_is_state ? cell->states[phase->operand].next
                                                 : cell->carries[phase->operand].node;
        if (!within(of[made], -b, b))
            return false;
    }
    return true;
}

bool cell_operands_are_bounded(const Cell *cell)
{
    Interval *of = ARENA_ARRAY(cell->graph.arena, Interval, cell->graph.count + 1);
    for (int exponent = 0; exponent <= EXPONENT_MAX; exponent++)
        if (!holds(cell, of, ldexp(1, exponent)))
            return false;
    return true;
}
