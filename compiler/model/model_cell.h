// Cell of a layer: the cell that a spec's layer names, bound with what its keys say.
#ifndef RNNC_MODEL_MODEL_CELL_H
#define RNNC_MODEL_MODEL_CELL_H

#include "cell/cell.h"
#include "spec/spec.h"

/// Binds an activation of the spec; `fallback` where none is given. False with E03xx.
bool model_bind_activation(Arena *arena, Diags *diags, const SpecActivation *given,
                           const char *fallback, Activation *out);

/// The cell of a layer of the spec `whole`, with its gradient where that trains. Adds E03xx, E05xx
/// and returns NULL on a fault; warns of keys that the cell does not use.
const Cell *model_load_cell(Arena *arena, Diags *diags, const Spec *whole, const SpecLayer *spec);

#endif
