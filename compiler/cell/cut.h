// Cut: which values of a graph to keep so that others can be computed from them, at the least cost.
// A minimum vertex cut between the leaves and what is wanted, by maximum flow (Ford and Fulkerson).
#ifndef RNNC_CELL_CUT_H
#define RNNC_CELL_CUT_H

#include "cell/graph.h"

typedef struct {
    const Graph *graph;
    const bool *is_wanted; ///< by node
    const bool *is_free;   ///< can be had without keeping anything
    const int64_t *costs;  ///< of keeping a node; negative: it cannot be kept
} Cut;

/// Fills `out_kept` by node and returns the cost, or -1 where a wanted value depends on a leaf that
/// is neither free nor kept by anything. Of equal cuts that with the least left to compute.
int64_t graph_cut(const Cut *cut, bool *out_kept);

#endif
