// Zoneout (Krueger et al. 2017) as a rewriting of a parsed cell.
#ifndef RNNC_CELL_CELL_ZONEOUT_H
#define RNNC_CELL_CELL_ZONEOUT_H

#include "cell/cell.h"

/// Makes the next value of each state that the binding names rate*s + (1 - rate)*s_new, and in
/// training s or s_new by a draw. What other equations read of s_new stays as it is. Adds E0318 and
/// returns false for an unknown state.
bool cell_zone_out(Diags *diags, Cell *cell, const CellBinding *binding);

#endif
