// Schedule: a step cut into phases, each one matrix product with one vector and the pointwise
// function behind it.
#ifndef RNNC_CELL_CELL_SCHEDULE_H
#define RNNC_CELL_CELL_SCHEDULE_H

#include "cell/cell.h"
#include "cell/printer.h"

/// Fills `phases` and `carries` of a parsed cell, anew where they are there: what its gradient
/// saves is carried to where it is saved. Adds E0315 and returns false where it needs more than
/// CELL_PHASES_MAX phases.
bool cell_schedule(Arena *arena, Diags *diags, Cell *cell);

/// The carry of `node` that an earlier phase than `phase` wrote, or -1.
int cell_carry_before(const Cell *cell, int node, int phase);

/// The size of each node: a Domain, or -1 for constants. `count` of the graph many.
const int *cell_node_domains(Arena *arena, const Cell *cell);

/// The printer of phase `number`'s functions, in which what earlier phases left is a carry.
Printer printer_of_phase(const Cell *cell, int number, Text *body);

/// The cell's own name of a value, or "%7".
void cell_print_value_name(const Cell *cell, int node, Text *out);

#endif
