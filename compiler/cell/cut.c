// Cut: see cut.h. Each node is split into an entry and an exit with an edge of its cost between
// them; edges of the graph and those from the source to the leaves and from what is wanted to the
// sink cannot be cut:
//
//     source -> leaf.in -cost-> leaf.out -> node.in -cost-> node.out -> sink
#include "cell/cut.h"

#include <string.h>

static const int64_t unlimited = INT64_MAX / 4;

typedef struct {
    const Cut *cut;
    int source, sink, count; ///< vertices: 2*node entry, 2*node + 1 exit, source, sink
    int64_t *room;           ///< [from][to] left on an edge
    bool *seen;
} Flow;

static int64_t *edge(const Flow *flow, int from, int to)
{
    return &flow->room[from * flow->count + to];
}

static bool is_leaf(const Node *node)
{
    return op_arity(node->op) == 0;
}

/// Edges of everything that `node` depends on, as far as nothing is free.
static void add_node(Flow *flow, int index)
{
    const Cut *cut = flow->cut;
    const Node *node = &cut->graph->nodes[index];
    if (flow->seen[index] || cut->is_free[index])
        return;
    flow->seen[index] = true;
    *edge(flow, 2 * index, 2 * index + 1) = cut->costs[index] < 0 ? unlimited : cut->costs[index];
    if (is_leaf(node))
        *edge(flow, flow->source, 2 * index) = unlimited;
    for (int k = 0; k < op_arity(node->op); k++)
        if (!cut->is_free[node->args[k]]) {
            add_node(flow, node->args[k]);
            *edge(flow, 2 * node->args[k] + 1, 2 * index) = unlimited;
        }
}

/// Pushes up to `most` from `vertex` to the sink along one path.
static int64_t push(Flow *flow, int vertex, int64_t most)
{
    if (vertex == flow->sink)
        return most;
    flow->seen[vertex] = true;
    for (int next = 0; next < flow->count; next++) {
        int64_t *room = edge(flow, vertex, next);
        if (*room == 0 || flow->seen[next])
            continue;
        const int64_t pushed = push(flow, next, *room < most ? *room : most);
        if (pushed > 0) {
            *room -= pushed;
            *edge(flow, next, vertex) += pushed;
            return pushed;
        }
    }
    return 0;
}

/// Marks the vertices from which the sink can still be reached.
static void mark_sink_side(Flow *flow, int vertex)
{
    flow->seen[vertex] = true;
    for (int from = 0; from < flow->count; from++)
        if (!flow->seen[from] && *edge(flow, from, vertex) > 0)
            mark_sink_side(flow, from);
}

int64_t graph_cut(const Cut *cut, bool *out_kept)
{
    const int nodes = cut->graph->count;
    Flow flow = {.cut = cut, .source = 2 * nodes, .sink = 2 * nodes + 1, .count = 2 * nodes + 2};
    Arena *arena = arena_create();
    flow.room = ARENA_ARRAY(arena, int64_t, flow.count * flow.count);
    flow.seen = ARENA_ARRAY(arena, bool, flow.count);
    for (int i = 0; i < nodes; i++)
        if (cut->is_wanted[i] && !cut->is_free[i]) {
            add_node(&flow, i);
            *edge(&flow, 2 * i + 1, flow.sink) = unlimited;
        }
    int64_t total = 0, pushed = 0;
    do {
        memset(flow.seen, 0, (size_t)flow.count * sizeof *flow.seen);
        pushed = push(&flow, flow.source, unlimited);
        total += pushed;
    } while (pushed > 0 && total < unlimited);
    memset(flow.seen, 0, (size_t)flow.count * sizeof *flow.seen);
    mark_sink_side(&flow, flow.sink);
    for (int i = 0; i < nodes; i++)
        out_kept[i] = flow.seen[2 * i + 1] && !flow.seen[2 * i];
    arena_destroy(arena);
    return total < unlimited ? total : -1;
}
