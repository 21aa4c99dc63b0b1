// Comparison of an array with its expected values, element by element.
#ifndef RNNC_CLI_COMPARE_H
#define RNNC_CLI_COMPARE_H

#include "import/npy.h"

typedef struct {
    int64_t wrong;      ///< elements out of tolerance
    int64_t worst;      ///< index of the worst element
    double worst_ratio; ///< its difference over its tolerance; infinite where one of both is NaN
    double found, expected; ///< of the worst element
} Comparison;

/// An element is right where |found - expected| <= absolute + relative * |expected|, where both are
/// NaN, or where both are the same infinity. Both arrays have the same number of elements, at
/// least one.
Comparison compare_arrays(const NpyArray *found, const NpyArray *expected, double relative,
                          double absolute);

/// "[0, 3, 5]": element `index` of a row-major array.
const char *compare_index_text(Arena *arena, const NpyArray *array, int64_t index);

#endif
