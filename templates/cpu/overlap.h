// Overlap: one row's product with R and, under it, part of W*x of later steps. R of one row is
// bound by the cache that it streams from, W*x of many steps by the multipliers; taken together
// they cost little more than the slower of the two. The sums are the same chains as in product.h,
// so the bits are too.
//
//     R panels  p  p+1  p+2  p+3      one row of h, four sums each
//     half a W panel, a quarter of k under each      eight rows of x, sixteen sums all along
#ifndef RNN_OVERLAP_H
#define RNN_OVERLAP_H

#include "cpu/product.h"

/// Panels of R above one tile of W*x; the tile's rows and vectors.
enum { RNN_OVERLAP = 4, RNN_TILE_ROWS = 8, RNN_TILE_VECTORS = RNN_PANEL / 2 };

/// W*x: half a panel of W for RNN_TILE_ROWS rows.
typedef struct {
    const float *panel, *x;
    float *y;
    int64_t depth, x_stride, y_stride;
} rnn_tile;

RNN_INLINE void rnn_row_step(const float *panel, const float *x, int64_t k, rnn_f *sums)
{
    RNN_UNROLL for (int i = 0; i < RNN_PANEL; i++) sums[i] +=
        rnn_load(panel + k * RNN_WIDTH + i * RNN_LANES) * x[k];
}

RNN_INLINE void rnn_tile_step(const rnn_tile *tile, int64_t k, rnn_f *sums)
{
    const float *weights = tile->panel + k * RNN_WIDTH;
    RNN_UNROLL for (int i = 0; i < RNN_TILE_ROWS * RNN_TILE_VECTORS; i++) sums[i] +=
        rnn_load(weights + i % RNN_TILE_VECTORS * RNN_LANES) *
        tile->x[i / RNN_TILE_VECTORS * tile->x_stride + k];
}

static __attribute__((noinline, unused)) void rnn_overlap(const rnn_tile *tile, const float *panels,
                                                          int64_t depth, const float *x, float *y,
                                                          int backwards)
{
    const rnn_tile own = *tile;
    rnn_f tile_sums[RNN_TILE_ROWS * RNN_TILE_VECTORS], sums[RNN_PANEL];
    RNN_UNROLL for (int i = 0; i < RNN_TILE_ROWS * RNN_TILE_VECTORS; i++) tile_sums[i] =
        rnn_const(0);
    int64_t tile_k = 0;
    for (int part = 0; part < RNN_OVERLAP; part++) {
        const int place = backwards ? RNN_OVERLAP - 1 - part : part;
        const float *panel = panels + place * RNN_WIDTH * depth;
        const int64_t tile_end = own.depth * (part + 1) / RNN_OVERLAP;
        int64_t k = 0;
        RNN_UNROLL for (int i = 0; i < RNN_PANEL; i++) sums[i] = rnn_const(0);
        for (; tile_k < tile_end && k + 4 <= depth; tile_k++, k += 4) {
            rnn_tile_step(&own, tile_k, tile_sums);
            rnn_row_step(panel, x, k, sums);
            rnn_row_step(panel, x, k + 1, sums);
            rnn_row_step(panel, x, k + 2, sums);
            rnn_row_step(panel, x, k + 3, sums);
        }
        for (; k < depth; k++)
            rnn_row_step(panel, x, k, sums);
        for (; tile_k < tile_end; tile_k++)
            rnn_tile_step(&own, tile_k, tile_sums);
        RNN_UNROLL for (int i = 0; i < RNN_PANEL; i++)
            rnn_store(y + place * RNN_WIDTH + i * RNN_LANES, sums[i]);
    }
    RNN_UNROLL for (int i = 0; i < RNN_TILE_ROWS * RNN_TILE_VECTORS; i++)
        rnn_store(own.y + i / RNN_TILE_VECTORS * own.y_stride + i % RNN_TILE_VECTORS * RNN_LANES,
                  tile_sums[i]);
}

/// The tile alone.
static __attribute__((noinline, unused)) void rnn_tile_run(const rnn_tile *tile)
{
    const rnn_tile own = *tile;
    rnn_f sums[RNN_TILE_ROWS * RNN_TILE_VECTORS];
    RNN_UNROLL for (int i = 0; i < RNN_TILE_ROWS * RNN_TILE_VECTORS; i++) sums[i] = rnn_const(0);
    for (int64_t k = 0; k < own.depth; k++)
        rnn_tile_step(&own, k, sums);
    RNN_UNROLL for (int i = 0; i < RNN_TILE_ROWS * RNN_TILE_VECTORS; i++) rnn_store(
        own.y + i / RNN_TILE_VECTORS * own.y_stride + i % RNN_TILE_VECTORS * RNN_LANES, sums[i]);
}

/// W*x of the next RNN_TILE_ROWS steps as a queue of tiles; `count` 0: nothing to do.
typedef struct {
    const float *matrix, *x;
    float *y;
    int64_t depth, x_stride, width, next, count;
} rnn_ahead;

RNN_INLINE rnn_tile rnn_ahead_take(rnn_ahead *ahead)
{
    const int64_t number = ahead->next++;
    const int64_t half = number % 2 * RNN_TILE_VECTORS * RNN_LANES;
    return (rnn_tile){.panel = ahead->matrix + number / 2 * RNN_WIDTH * ahead->depth + half,
                      .x = ahead->x,
                      .y = ahead->y + number / 2 * RNN_WIDTH + half,
                      .depth = ahead->depth,
                      .x_stride = ahead->x_stride,
                      .y_stride = ahead->width};
}

RNN_INLINE void rnn_ahead_finish(rnn_ahead *ahead)
{
    while (ahead->next < ahead->count) {
        const rnn_tile tile = rnn_ahead_take(ahead);
        rnn_tile_run(&tile);
    }
}

/// rnn_product_row with tiles under it as long as there are any.
RNN_INLINE void rnn_product_row_ahead(const float *matrix, int64_t panels, int64_t depth,
                                      const float *x, float *y, int backwards, rnn_ahead *ahead)
{
    const int64_t groups = panels / RNN_OVERLAP, stride = RNN_OVERLAP * RNN_WIDTH;
    int64_t done = 0;
    for (; done < groups && ahead->next < ahead->count; done++) {
        const int64_t group = backwards ? groups - 1 - done : done;
        const rnn_tile tile = rnn_ahead_take(ahead);
        rnn_overlap(&tile, matrix + group * stride * depth, depth, x, y + group * stride,
                    backwards);
    }
    const int64_t first = backwards ? 0 : done * RNN_OVERLAP;
    const int64_t whole = (groups - done) * RNN_OVERLAP, rest = groups * RNN_OVERLAP;
    rnn_product_row(matrix + first * RNN_WIDTH * depth, whole, depth, x, y + first * RNN_WIDTH,
                    backwards);
    rnn_product_row(matrix + rest * RNN_WIDTH * depth, panels - rest, depth, x,
                    y + rest * RNN_WIDTH, 0);
}

#endif
