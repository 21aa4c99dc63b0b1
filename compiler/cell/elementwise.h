// Elementwise: which functions the language knows by name, and why others cannot be had.
#ifndef RNNC_CELL_ELEMENTWISE_H
#define RNNC_CELL_ELEMENTWISE_H

#include <stdbool.h>

#include "base/arena.h"

/// Why the well-known function `name` is refused ("its result for a unit depends on the other
/// units"), or NULL where it is not one of them.
const char *elementwise_refusal(const char *name);

/// The function or activation nearest to `name`, `more` names of the scope included, or NULL.
const char *elementwise_nearest(Arena *arena, const char *name, const char *const *more, int count);

/// Whether activations.def has `name`, aliases included.
bool activation_is_name(const char *name);

#endif
