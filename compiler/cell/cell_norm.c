// Norms: see cell_norm.h. The mean and 1/sqrt(variance + 1e-5) of norm n are leaves, for they are
// taken over units, which the graph knows nothing of; the scheduler says in which phase.
#include "cell/cell_norm.h"

/// Whether both are products of one matrix with one vector.
static bool are_stacked(const Cell *cell, const Node *a, const Node *b)
{
    if (a->op != b->op || a->op == OP_INPUT)
        return a->op == b->op;
    const bool same_matrix = (a->index == CELL_GATES_MAX) == (b->index == CELL_GATES_MAX);
    return same_matrix && cell->product_operands[a->index] == cell->product_operands[b->index];
}

static CellNorm *find_norm(Cell *cell, int node, bool is_product)
{
    const Node *nodes = cell->graph.nodes;
    for (int i = 0; i < cell->norm_count; i++) {
        CellNorm *norm = &cell->norms[i];
        const int first = norm->members[0];
        if (norm->is_stack == is_product &&
            (is_product ? are_stacked(cell, &nodes[first], &nodes[node]) : first == node))
            return norm;
    }
    CellNorm norm = {.number = cell->norm_count, .is_stack = is_product};
    ARENA_PUSH(cell->graph.arena, cell->norms, cell->norm_count, norm);
    return &cell->norms[cell->norm_count - 1];
}

static void enter_member(CellNorm *norm, int node)
{
    for (int i = 0; i < norm->member_count; i++)
        if (norm->members[i] == node)
            return;
    norm->members[norm->member_count++] = node; // no more than the gates of a matrix
}

int cell_layer_norm(Cell *cell, int node, bool is_product)
{
    Graph *graph = &cell->graph;
    if (graph->nodes[node].op == OP_CONST) // the same for all units: it is its mean
        return graph_constant(graph, 0);
    CellNorm *norm = find_norm(cell, node, is_product);
    enter_member(norm, node);
    int mean = graph_add(graph, (Node){.op = OP_STATISTIC, .index = 2 * norm->number});
    int scale = graph_add(graph, (Node){.op = OP_STATISTIC, .index = 2 * norm->number + 1});
    return graph_op(graph, OP_MUL, graph_op(graph, OP_SUB, node, mean, 0), scale, 0);
}

/// Whether the node is what cell_layer_norm returns.
static bool is_layer_norm(const Graph *graph, int node)
{
    const Node *at = &graph->nodes[node];
    if (at->op != OP_MUL)
        return false;
    const Node *scale = &graph->nodes[at->args[1]];
    return scale->op == OP_STATISTIC && scale->index % 2 == 1;
}

void cell_find_gains(Cell *cell)
{
    const Graph *graph = &cell->graph;
    for (int i = 0; i < graph->count; i++)
        for (int k = 0; k < 2 && graph->nodes[i].op == OP_MUL; k++) {
            const Node *factor = &graph->nodes[graph->nodes[i].args[k]];
            if (factor->op == OP_PARAMETER && is_layer_norm(graph, graph->nodes[i].args[1 - k]))
                cell->is_gain[factor->index] = true;
        }
}
