// Norms of a cell: what layer_norm(...) becomes in the graph.
#ifndef RNNC_CELL_CELL_NORM_H
#define RNNC_CELL_CELL_NORM_H

#include "cell/cell.h"

/// The node of layer_norm(node): (node - mean)*rstd. With `is_product` the node, an OP_INPUT or
/// OP_PRODUCT whose operand is entered, joins the norm of all such products of its matrix and
/// operand; else it has a norm of its own, the same wherever the node is normalised again.
int cell_layer_norm(Cell *cell, int node, bool is_product);

/// Fills `is_gain`: which gates of p multiply a layer_norm.
void cell_find_gains(Cell *cell);

#endif
