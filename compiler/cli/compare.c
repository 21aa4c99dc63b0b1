// Comparison: see compare.h.
#include "cli/compare.h"

#include <math.h>

/// The difference in units of the tolerance: over 1 is wrong.
static double ratio_of(double found, double expected, double relative, double absolute)
{
    if (isnan(found) || isnan(expected))
        return isnan(found) && isnan(expected) ? 0 : (double)INFINITY;
    if (found == expected)
        return 0;
    if (isinf(found) || isinf(expected))
        return (double)INFINITY;
    double tolerance = absolute + relative * fabs(expected);
    return tolerance > 0 ? fabs(found - expected) / tolerance : (double)INFINITY;
}

Comparison compare_arrays(const NpyArray *found, const NpyArray *expected, double relative,
                          double absolute)
{
    Comparison result = {.worst_ratio = -1};
    for (int64_t i = 0; i < expected->elems; i++) {
        double a = npy_element(found, i), b = npy_element(expected, i);
        double ratio = ratio_of(a, b, relative, absolute);
        result.wrong += ratio > 1;
        if (ratio <= result.worst_ratio)
            continue;
        result.worst = i;
        result.worst_ratio = ratio;
        result.found = a;
        result.expected = b;
    }
    return result;
}

const char *compare_index_text(Arena *arena, const NpyArray *array, int64_t index)
{
    int64_t place[NPY_DIMS_MAX];
    for (int i = array->dim_count - 1; i >= 0; i--) {
        place[i] = index % array->dims[i];
        index /= array->dims[i];
    }
    return npy_shape_text(arena, place, array->dim_count);
}
