// Bounds: what a cell's equations say about the size of what its products multiply.
#ifndef RNNC_CELL_BOUNDS_H
#define RNNC_CELL_BOUNDS_H

#include "cell/cell.h"

/// Whether all that R and P multiply stays within [-b, b] for every power of two b >= 1, if the
/// states among it start there: lstm (|o * tanh(c)| <= 1) and gru ((1 - z)*n + z*h is no larger
/// than n or h), but not with relu. By interval arithmetic over the graph; false where that does
/// not show it. With dropout of the operands it holds before the factor.
bool cell_operands_are_bounded(const Cell *cell);

#endif
