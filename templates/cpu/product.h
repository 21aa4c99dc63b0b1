// Product: y = x * W^T for rows of x, with W packed into panels of RNN_PANEL vectors of outputs:
//
//     panel 0: k=0 [outputs 0 .. RNN_WIDTH-1], k=1 [...], ... k=depth-1
//     panel 1: k=0 [outputs RNN_WIDTH .. ], ...
//
// so that one pass over k streams a panel once, for up to six rows in registers. Every output is a
// single chain of multiply-adds in ascending k from 0, whatever rows are taken together: the bits
// of a row do not depend on the batch.
#ifndef RNN_PRODUCT_H
#define RNN_PRODUCT_H

#include "cpu/prelude.h"

/// Vectors in a panel: 4 where there are 32 registers, 2 where there are 16.
#if RNN_LANES == 16
#define RNN_PANEL 4
#else
#define RNN_PANEL 2
#endif
#define RNN_WIDTH (RNN_PANEL * RNN_LANES)
/// `count` units as lanes of whole vectors, outputs as whole panels, and a matrix's packed size.
#define RNN_PADDED(count) (((count) + RNN_LANES - 1) / RNN_LANES * RNN_LANES)
#define RNN_PANELS(outputs) (((outputs) + RNN_WIDTH - 1) / RNN_WIDTH)
#define RNN_MATRIX_FLOATS(outputs, depth) (RNN_PANELS(outputs) * RNN_WIDTH * (depth))

#define RNN_UNROLL _Pragma("GCC unroll 32")

/// Rows of x taken together, and the panels taken together.
#define RNN_DEFINE_BLOCK(NAME, ROWS, PANELS)                                                       \
    static __attribute__((noinline, unused)) void NAME(const float *panels, int64_t depth,         \
                                                       const float *x, int64_t x_stride, float *y, \
                                                       int64_t y_stride)                           \
    {                                                                                              \
        enum { VECTORS = (PANELS)*RNN_PANEL };                                                     \
        rnn_f sums[(ROWS)*VECTORS];                                                                \
        RNN_UNROLL for (int i = 0; i < (ROWS)*VECTORS; i++) sums[i] = rnn_const(0);                \
        for (int64_t k = 0; k < depth; k++) {                                                      \
            const float *weights = panels + k * RNN_WIDTH;                                         \
            RNN_UNROLL for (int i = 0; i < (ROWS)*VECTORS; i++)                                    \
            {                                                                                      \
                const int row = i / VECTORS, vector = i % VECTORS;                                 \
                const float *at = weights + (vector / RNN_PANEL) * RNN_WIDTH * depth +             \
                                  (vector % RNN_PANEL) * RNN_LANES;                                \
                sums[i] += rnn_load(at) * x[row * x_stride + k];                                   \
            }                                                                                      \
        }                                                                                          \
        RNN_UNROLL for (int i = 0; i < (ROWS)*VECTORS; i++)                                        \
            rnn_store(y + (i / VECTORS) * y_stride + (i % VECTORS) * RNN_LANES, sums[i]);          \
    }

RNN_DEFINE_BLOCK(rnn_block_6x1, 6, 1)
RNN_DEFINE_BLOCK(rnn_block_4x1, 4, 1)
RNN_DEFINE_BLOCK(rnn_block_3x1, 3, 1)
RNN_DEFINE_BLOCK(rnn_block_2x1, 2, 1)
RNN_DEFINE_BLOCK(rnn_block_1x1, 1, 1)
RNN_DEFINE_BLOCK(rnn_block_1x4, 1, 4)

/// Panels that one row takes together: enough sums to hide the latency of a multiply-add.
#if RNN_PANEL == 4
#define RNN_ROW_PANELS 1
#define rnn_block_row rnn_block_1x1
#else
#define RNN_ROW_PANELS 4
#define rnn_block_row rnn_block_1x4
#endif

/// One row. `backwards` takes the panels from the last to the first: alternating, step by step,
/// finds in the first-level cache what the step before has used last.
RNN_INLINE void rnn_product_row(const float *matrix, int64_t panels, int64_t depth, const float *x,
                                float *y, int backwards)
{
    const int64_t groups = panels / RNN_ROW_PANELS, stride = RNN_ROW_PANELS * RNN_WIDTH;
    for (int64_t i = 0; i < groups; i++) {
        int64_t group = backwards ? groups - 1 - i : i;
        rnn_block_row(matrix + group * stride * depth, depth, x, 0, y + group * stride, 0);
    }
    for (int64_t panel = groups * RNN_ROW_PANELS; panel < panels; panel++)
        rnn_block_1x1(matrix + panel * RNN_WIDTH * depth, depth, x, 0, y + panel * RNN_WIDTH, 0);
}

/// Rows to take next of `left`: six where that leaves no thin rest, for every pass over a panel
/// costs at least its way from the cache.
RNN_INLINE int64_t rnn_rows_to_take(int64_t left)
{
    if (left >= 6 && left != 7 && left != 8 && left != 11)
        return 6;
    return left == 5 ? 3 : left >= 4 ? 4 : left;
}

/// `rows` rows of x, `x_stride` floats apart, to rows of y of RNN_PANELS * RNN_WIDTH floats.
RNN_INLINE void rnn_product(const float *matrix, int64_t panels, int64_t depth, const float *x,
                            int64_t x_stride, float *y, int64_t y_stride, int64_t rows,
                            int backwards)
{
    if (rows == 1) {
        rnn_product_row(matrix, panels, depth, x, y, backwards);
        return;
    }
    for (int64_t i = 0; i < panels; i++) {
        const int64_t panel = backwards ? panels - 1 - i : i;
        const float *weights = matrix + panel * RNN_WIDTH * depth, *from = x;
        float *to = y + panel * RNN_WIDTH;
        for (int64_t row = 0, take; row < rows; row += take) {
            take = rnn_rows_to_take(rows - row);
            if (take == 6)
                rnn_block_6x1(weights, depth, from, x_stride, to, y_stride);
            else if (take == 4)
                rnn_block_4x1(weights, depth, from, x_stride, to, y_stride);
            else if (take == 3)
                rnn_block_3x1(weights, depth, from, x_stride, to, y_stride);
            else if (take == 2)
                rnn_block_2x1(weights, depth, from, x_stride, to, y_stride);
            else
                rnn_block_1x1(weights, depth, from, x_stride, to, y_stride);
            from += take * x_stride;
            to += take * y_stride;
        }
    }
}

/// Packs `gates` blocks of `units` rows of a row-major matrix, block g taken from row
/// gate_rows[g] * gate_units, each padded to whole vectors. The packed matrix is zeroed before.
static __attribute__((unused)) void rnn_pack(const float *matrix, const int *gate_rows, int gates,
                                             int64_t gate_units, int64_t units, int64_t depth,
                                             float *packed)
{
    for (int gate = 0; gate < gates; gate++)
        for (int64_t unit = 0; unit < units; unit++) {
            int64_t output = gate * RNN_PADDED(units) + unit;
            float *to = packed + output / RNN_WIDTH * RNN_WIDTH * depth + output % RNN_WIDTH;
            const float *from = matrix + (gate_rows[gate] * gate_units + unit) * depth;
            for (int64_t k = 0; k < depth; k++)
                to[k * RNN_WIDTH] = from[k];
        }
}

/// Packs `gates` vectors of `units` floats, each padded to whole vectors.
static __attribute__((unused)) void rnn_pack_vectors(const float *vectors, int gates, int64_t units,
                                                     float *packed)
{
    for (int gate = 0; gate < gates && vectors; gate++)
        memcpy(packed + gate * RNN_PADDED(units), vectors + gate * units, (size_t)units * 4);
}

#endif
