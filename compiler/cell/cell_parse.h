// Cell files: the statements around the expressions, and the checks that need the whole file.
#ifndef RNNC_CELL_CELL_PARSE_H
#define RNNC_CELL_CELL_PARSE_H

#include "cell/cell.h"

/// Parses and checks `source` with the activations and biases of `binding`. Returns a cell without
/// phases (see cell_schedule.h), or NULL where it added an E03xx.
Cell *cell_parse(Arena *arena, Diags *diags, const Source *source, const CellBinding *binding);

#endif
