// Gradients of matrices on the CPU: gradient[r][c] += sum over n of left[n][r] * right[n][c], for n
// some steps of some rows. RNN_CHUNK of them are taken together: `right` is packed into panels as a
// matrix is (product.h), `left` is transposed, a few of its columns at a time, so that this is a
// product like any other. Sums go over a chunk, then over the chunks in their order.
#ifndef RNN_GRADIENT_H
#define RNN_GRADIENT_H

#include "cpu/code.h"
#include "cpu/product.h"

enum { RNN_CHUNK = 128 };

/// Floats of a packed chunk of `columns`, and of the room that rnn_gradient needs for it.
#define RNN_CHUNK_PANELS(columns) (RNN_PANELS(columns) * RNN_WIDTH * RNN_CHUNK)
#define RNN_CHUNK_ROOM(columns) (RNN_TILE * (RNN_CHUNK + RNN_PANELS(columns) * RNN_WIDTH))

/// Packs entry n of `count`: `columns` values, each times its scale where there are scales.
RNN_INLINE void rnn_pack_entry(const float *values, const float *scales, int64_t columns, int64_t n,
                               int64_t count, float *panels)
{
    for (int64_t c = 0; c < columns; c += RNN_WIDTH) {
        float *to = panels + c * count + n * RNN_WIDTH;
        const int64_t width = columns - c < RNN_WIDTH ? columns - c : RNN_WIDTH;
        for (int64_t i = 0; i < width; i++)
            to[i] = scales ? values[c + i] * scales[c + i] : values[c + i];
        for (int64_t i = width; i < RNN_WIDTH; i++)
            to[i] = 0;
    }
}

/// Adds to `rows` rows of a gradient, `columns` wide. left[n] is the row of entry n, read from
/// `at`.
static __attribute__((unused)) void rnn_gradient(const float *const *left, int64_t at, int64_t rows,
                                                 const float *panels, int64_t columns,
                                                 int64_t count, float *room, float *gradient)
{
    const int64_t width = RNN_PANELS(columns) * RNN_WIDTH;
    float *transposed = room, *sums = room + RNN_TILE * RNN_CHUNK;
    for (int64_t first = 0; first < rows; first += RNN_TILE) {
        const int64_t taken = rows - first < RNN_TILE ? rows - first : RNN_TILE;
        for (int64_t n = 0; n < count; n++)
            for (int64_t r = 0; r < taken; r++)
                transposed[r * RNN_CHUNK + n] = left[n][at + first + r];
        rnn_product(panels, RNN_PANELS(columns), count, transposed, RNN_CHUNK, sums, width, taken,
                    0);
        for (int64_t r = 0; r < taken; r++)
            for (int64_t c = 0; c < columns; c++)
                gradient[(first + r) * columns + c] += sums[r * width + c];
    }
}

/// The same of a vector: gradient[r] += sum over n of left[n][r].
static __attribute__((unused)) void rnn_gradient_sum(const float *const *left, int64_t at,
                                                     int64_t rows, int64_t count, float *gradient)
{
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0;
        for (int64_t n = 0; n < count; n++)
            sum += left[n][at + r];
        gradient[r] += sum;
    }
}

/// Packs the transposed of `gates` blocks of `units` rows: outputs are the `columns`, and each
/// block is padded to whole vectors of the depth. Block g is taken from row gate_rows[g]*gate_units
/// + first of the matrix; none where gate_rows[g] is negative.
static __attribute__((unused)) void rnn_pack_transposed(const float *matrix, const int *gate_rows,
                                                        int gates, int64_t gate_units,
                                                        int64_t first, int64_t units,
                                                        int64_t columns, float *packed)
{
    const int64_t depth = gates * RNN_PADDED(units);
    memset(packed, 0, sizeof(float) * (size_t)RNN_MATRIX_FLOATS(columns, depth));
    for (int gate = 0; gate < gates; gate++)
        for (int64_t unit = 0; unit < units && gate_rows[gate] >= 0; unit++) {
            const float *from = matrix + (gate_rows[gate] * gate_units + first + unit) * columns;
            const int64_t k = gate * RNN_PADDED(units) + unit;
            for (int64_t c = 0; c < columns; c++)
                packed[c / RNN_WIDTH * RNN_WIDTH * depth + k * RNN_WIDTH + c % RNN_WIDTH] = from[c];
        }
}

/// Writes 0 to all steps of dx, or of dx2.
static __attribute__((unused)) void rnn_clear_dx(const rnnc_cpu_backward_args *args, float *dx,
                                                 int64_t width)
{
    for (int64_t row = 0; row < args->forward.batch && dx; row++)
        for (int64_t step = 0; step < args->forward.timesteps; step++)
            memset(dx + row * args->dx_row_stride + step * args->dx_step_stride, 0,
                   sizeof(float) * (size_t)width);
}

/// Notes a value that is no number, unless one was met before.
static __attribute__((unused)) void rnn_find_nan(rnnc_cpu_backward_args *args, const float *values,
                                                 int64_t count, int64_t step, int64_t row)
{
    for (int64_t i = 0; i < count && args->finds_nan && args->nan_step < 0; i++)
        if (!(values[i] - values[i] == 0)) {
            args->nan_step = step;
            args->nan_row = row;
        }
}

#endif
