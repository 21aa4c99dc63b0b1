// Slots of a model: which buffer each layer reads and writes.
#ifndef RNNC_MODEL_MODEL_SLOTS_H
#define RNNC_MODEL_MODEL_SLOTS_H

#include "model/model.h"

/// While a model is built, the slot of a view is the number of a value: what one or two layers
/// write, and later ones read. Turns values into buffers, as few as there are values alive at once,
/// and the values `last` and `last_backward` (-1: none) into y. A layer and the one beside it run
/// at the same time, so neither writes what the other reads.
void model_place_slots(Arena *arena, Model *model, int value_count, int last, int last_backward);

#endif
