// Schedule: from a parsed cell's graph to its phases and carries.
#ifndef RNNC_CELL_SCHEDULE_H
#define RNNC_CELL_SCHEDULE_H

#include "cell/cell.h"

/// Fills domains, phases and carries. Adds E0310 and E0312 and returns false on a conflict.
bool cell_schedule(Diags *diags, Cell *cell);

/// For each node of the cell's graph the phase that computes it, or -1 where it depends on no
/// product and is computed wherever it is read.
const int *cell_node_phases(Arena *arena, const Cell *cell);

/// Marks in `needed[node]` what the pointwise function of `phase` computes or reads: everything
/// under its outputs, down to leaves and to carries of earlier phases.
void cell_phase_nodes(const Cell *cell, const int *node_phases, int phase, bool *needed);

/// The carry that holds a node, or -1.
int cell_find_carry(const Cell *cell, int node);

#endif
