// Cell parsing: a .cell file's statements into the graph of a Cell, before its phases are made.
#ifndef RNNC_CELL_CELL_PARSE_H
#define RNNC_CELL_CELL_PARSE_H

#include "cell/cell.h"

/// OP_PRODUCT's index for P; those of R are gate indices below it.
enum { PRODUCT_OF_PROJECTION = CELL_GATES_MAX };

/// Parses `source` under a binding. Returns NULL after diagnostics.
Cell *cell_parse(Arena *arena, Diags *diags, const Source *source, const CellBinding *binding);

#endif
