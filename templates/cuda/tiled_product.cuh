// The product of product.cuh where the GPU has wgmma (sm_90a) and K is long enough to pay for a
// launch more: rnn_tile narrows x, as it has narrowed W, into blocks that lie as wgmma reads them,
// and the product is bulk copies and tensor cores and nothing else.
//
//     blocks: [64 rows][64 values of K in 16 bits], 8 KB, chunks of 16 bytes swizzled
//     (prim/wgmma.cuh)
//             of an operand: [rows / 64, up to even][K / 64][plane], then a factor for each row
//     CTA:    warpgroups of 64 columns each | one warp that starts copies, `Slots` slices ahead
//     slot:   [plane][columns] W | [plane][rows] x
//
// float16 and bfloat16 have one plane. tf32 and float32 scale each row of x and each row of W by a
// power of two to a largest value of 2^14, and then float16 has tf32's mantissa: tf32 is one plane.
// float32 is two, x = hi + lo * 2^-11, 22 bits and a sign, and three products:
//
//     sum over slices of hi*hi, each slice's made by itself | hi*lo + lo*hi over all K, * 2^-11
//
// Tensor cores cut what they add instead of rounding it, so chains of hi*hi are short and their
// sums are added in float32. A value has float32's precision down to 2^-26 of the largest of its
// row. Infinity and NaN are in hi alone: where hi*hi is not finite, the rest is left out.
// A value below 2^-39 of the largest of its row is 0, and NaN where it meets an infinity.
//
// Error of float32 on random rows, as a norm, with tensor cores that keep 25 bits: 1.1e-7 at K =
// 64, 1.8e-7 at K = 2816, 3.7e-7 where all products have one sign; multiply-adds in float32
// give 1.3e-7, 8.7e-7 and up to 7.5e-7.
//
// Sums run over K in the order of its slices in every tile, so that a row has the bits of its own
// run at any number of rows. rnn_tile's factors are the row's own.
//
// Floor on an H200: 2*rows*columns*K FLOP, float32 three times that, at some 800 TFLOP/s;
// (rows*K + rows*columns)*4 bytes at 4.8 TB/s, and rnn_tile's own rows*K*2 bytes a plane, there and
// back. Limits: columns and rows of any number; out is written in 16 bytes where it is aligned.
#ifndef RNN_TILED_PRODUCT_CUH
#define RNN_TILED_PRODUCT_CUH

#include "cuda/prim/bulk.cuh"
#include "cuda/prim/early.cuh"
#include "cuda/prim/wgmma.cuh"
#include "cuda/product.cuh"

enum {
    RNN_PLANES = RNN_PRECISION == 0 ? 2 : 1,
    RNN_SCALED = RNN_PRECISION <= 1, // rows have factors
    RNN_BLOCK_ROWS = 64,
    RNN_BLOCK_DEPTH = 64,
    RNN_BLOCK_BYTES = RNN_BLOCK_ROWS * RNN_BLOCK_DEPTH * 2,
    RNN_TILE_WARPS = 8,
    RNN_GROUP_THREADS = 128,
    RNN_STAGED = RNN_BLOCK_ROWS + 4, // floats from a row of finished sums to the next: no conflicts
    RNN_COLUMN_TILES = 8             // that are made together, so that x comes from L2
};

/// Rows of float32 that become blocks: row b*timesteps + t lies at b*row_stride + t*step_stride.
struct RnnTiling {
    const float *from;
    unsigned char *blocks;
    long long rows, timesteps, row_stride, step_stride;
    int depth; ///< K
};

RNN_INLINE int rnn_slices(int depth)
{
    return (depth + RNN_BLOCK_DEPTH - 1) / RNN_BLOCK_DEPTH;
}
/// Bytes from one block of rows to the next, and the factors of an operand of `rows`.
RNN_INLINE long long rnn_block_row_bytes(int slices)
{
    return (long long)slices * RNN_PLANES * RNN_BLOCK_BYTES;
}
RNN_INLINE const float *rnn_factors(const unsigned char *blocks, long long rows, int slices)
{
    const long long pairs = (rows + 2 * RNN_BLOCK_ROWS - 1) / (2 * RNN_BLOCK_ROWS);
    return (const float *)(blocks + pairs * 2 * rnn_block_row_bytes(slices));
}

/// Eight values of a row from k on, zeros beyond its end.
RNN_INLINE void rnn_load_eight(float (&v)[8], const float *row, int k, int depth, bool aligned)
{
    if (aligned && k + 8 <= depth) {
        *(float4 *)v = __ldg((const float4 *)(row + k));
        *(float4 *)(v + 4) = __ldg((const float4 *)(row + k + 4));
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = k + i < depth ? __ldg(row + k + i) : 0.0f;
}

/// The largest finite magnitude of a row as the exponent of its factor: 1 is 2^127.
RNN_INLINE int rnn_row_exponent(const float *row, int depth, bool aligned)
{
    unsigned largest = 0;
#pragma unroll 2
    for (int k = (int)threadIdx.x % 32 * 8; k < depth; k += 256) {
        float v[8];
        rnn_load_eight(v, row, k, depth, aligned);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const unsigned bits = __float_as_uint(v[i]) & 0x7fffffff;
            largest = bits > largest && bits < 0x7f800000 ? bits : largest;
        }
    }
    largest = __reduce_max_sync(~0u, largest);
    return rnn_range_exponent(__uint_as_float(largest));
}

/// A warp a row.
extern "C" __global__ void __launch_bounds__(32 * RNN_TILE_WARPS) rnn_tile(const RnnTiling call)
{
    const long long row = (long long)blockIdx.x * RNN_TILE_WARPS + threadIdx.x / 32;
    const int slices = rnn_slices(call.depth), in_block = (int)(row % RNN_BLOCK_ROWS);
    rnn_grid_launch_next();
    if (row >= call.rows)
        return;
    const float *const from =
        call.from + RnnTileRows(row, call.timesteps, call.row_stride, call.step_stride).at;
    const bool aligned = ((unsigned long long)from & 15) == 0;
    unsigned char *const to = call.blocks + row / RNN_BLOCK_ROWS * rnn_block_row_bytes(slices) +
                              in_block * RNN_BLOCK_DEPTH * 2;
    float factor = 1.0f;
    if (RNN_SCALED) {
        const int exponent = rnn_row_exponent(from, call.depth, aligned);
        factor = rnn_range_factor(exponent);
        if (threadIdx.x % 32 == 0)
            ((float *)rnn_factors(call.blocks, call.rows, slices))[row] =
                rnn_range_inverse(exponent);
    }
#pragma unroll(RNN_SCALED ? 1 : 4) // with factors the values are near already
    for (int chunk = (int)threadIdx.x % 32; chunk < slices * 8; chunk += 32) {
        float v[8];
        rnn_load_eight(v, from, chunk * 8, call.depth, aligned);
        unsigned high[4], low[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float a = v[2 * i] * factor, b = v[2 * i + 1] * factor;
            high[i] = rnn_pair(a, b);
            if (RNN_PLANES == 2)
                low[i] = rnn_pair_rest(a, b, high[i]);
        }
        unsigned char *const at = to + (long long)(chunk / 8) * RNN_PLANES * RNN_BLOCK_BYTES +
                                  ((chunk % 8 ^ in_block % 8) << 4);
        *(uint4 *)at = make_uint4(high[0], high[1], high[2], high[3]);
        if (RNN_PLANES == 2)
            *(uint4 *)(at + RNN_BLOCK_BYTES) = make_uint4(low[0], low[1], low[2], low[3]);
    }
}

/// Sums of one warpgroup: 64 columns x Rows.
template <int Rows> struct RnnGroupSums {
    enum { count = Rows / 2 };
#if RNN_PRECISION == 0
    float sums[count], high[count], low[count];
#else
    float sums[count];
#endif

    /// Four products of 16 values of K.
    static RNN_MEMBER void multiply(float (&c)[count], unsigned W, unsigned x, bool add)
    {
        const unsigned long long a = rnn_wgmma_operand(W), b = rnn_wgmma_operand(x);
#pragma unroll
        for (int k = 0; k < 4; k++)
            rnn_wgmma(c, a + k * RNN_WGMMA_NEXT, b + k * RNN_WGMMA_NEXT, add || k > 0);
    }
    /// Starts the products of a slice; those of the slice before are done when it returns.
    RNN_MEMBER void add_slice(int slice, unsigned W, unsigned W_plane, unsigned x, unsigned x_plane)
    {
        rnn_wgmma_begin();
#if RNN_PRECISION == 0
        multiply(high, W, x, false);
        rnn_wgmma_commit();
        multiply(low, W + W_plane, x, slice > 0);
        multiply(low, W, x + x_plane, true);
        rnn_wgmma_commit();
        rnn_wgmma_wait<1>();
        rnn_wgmma_take(high);
#pragma unroll
        for (int i = 0; i < count; i++)
            sums[i] = slice > 0 ? sums[i] + high[i] : high[i];
#else
        multiply(sums, W, x, slice > 0);
        rnn_wgmma_commit();
        rnn_wgmma_wait<1>();
#endif
    }
    RNN_MEMBER void end()
    {
        rnn_wgmma_wait<0>();
#if RNN_PRECISION == 0
        rnn_wgmma_take(low);
#pragma unroll
        for (int i = 0; i < count; i++)
            if (fabsf(sums[i]) < RNN_INFINITY)
                sums[i] = fmaf(low[i], 1.0f / RNN_REST, sums[i]);
#else
        rnn_wgmma_take(sums);
#endif
    }
    /// To [Rows][RNN_STAGED] of the warpgroup.
    RNN_MEMBER void stage(float *to) const
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
        for (int i = 0; i < count; i++)
            to[(i / 4 * 8 + lane % 4 * 2 + i % 2) * RNN_STAGED + warp * 16 + i / 2 % 2 * 8 +
               lane / 4] = sums[i];
    }
};

/// A CTA's place: the tiles of RNN_COLUMN_TILES columns, row by row, then the next columns.
struct RnnTilePlace {
    long long row;
    int column;

    RNN_MEMBER RnnTilePlace(long long rows, int columns, int tile_rows, int tile_columns)
    {
        const unsigned row_tiles = (unsigned)((rows + tile_rows - 1) / tile_rows);
        const unsigned column_tiles = (unsigned)((columns + tile_columns - 1) / tile_columns);
        const unsigned first = blockIdx.x / (RNN_COLUMN_TILES * row_tiles) * RNN_COLUMN_TILES;
        const unsigned wide =
            column_tiles - first < RNN_COLUMN_TILES ? column_tiles - first : RNN_COLUMN_TILES;
        const unsigned within = blockIdx.x - first * row_tiles;
        row = (long long)(within / wide) * tile_rows;
        column = (int)((first + within % wide) * tile_columns);
    }
};

/// Writes the 64 columns of a warpgroup from `staged`. `W_factors` is at the first of them.
template <int Rows, class Finish>
RNN_INLINE void rnn_write_staged(const RnnProduct &call, const float *staged, long long first_row,
                                 int first_column, int written, const float *x_factors,
                                 const float *W_factors, int width, Finish finish)
{
    const int thread = threadIdx.x % RNN_GROUP_THREADS, column = first_column + thread % 16 * 4;
    const bool aligned =
        (((unsigned long long)call.out >> 2 | call.out_row_stride | call.out_step_stride) & 3) == 0;
    float factors[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        factors[i] = RNN_SCALED && column + i < width ? __ldg(W_factors + column + i) : 1.0f;
    if (column >= written)
        return;
    RnnTileRows out_rows(first_row, call.timesteps, call.out_row_stride, call.out_step_stride);
#pragma unroll 2
    for (int row = thread / 16; row < Rows; row += RNN_GROUP_THREADS / 16) {
        if (first_row + row >= call.rows)
            return;
        float4 v = *(const float4 *)(staged + row * RNN_STAGED + thread % 16 * 4);
        if (RNN_SCALED) {
            const float factor = __ldg(x_factors + first_row + row);
            v = make_float4(v.x * factors[0] * factor, v.y * factors[1] * factor,
                            v.z * factors[2] * factor, v.w * factors[3] * factor);
        }
        float *const out = call.out + column + out_rows.move_to(row);
        if (aligned && column + 4 <= written) {
            *(float4 *)out = make_float4(finish(column, v.x), finish(column + 1, v.y),
                                         finish(column + 2, v.z), finish(column + 3, v.w));
            continue;
        }
        const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (column + i < written)
                out[i] = finish(column + i, values[i]);
    }
}

/// Sizes of a tile of Groups * 64 columns x Rows; the host has the same numbers.
template <int Groups, int Rows, int Slots> struct RnnTileSizes {
    enum {
        moves_registers = RNN_PLANES == 2 && Rows == 128, // its sums take 192
        threads = Groups * RNN_GROUP_THREADS + ((int)moves_registers ? RNN_GROUP_THREADS : 32),
        W_plane = Groups * RNN_BLOCK_BYTES,
        x_plane = Rows * RNN_BLOCK_DEPTH * 2,
        x_at = RNN_PLANES * (int)W_plane, // in a slot
        slot_bytes = RNN_PLANES * ((int)W_plane + (int)x_plane),
        shared_bytes = Slots * (int)slot_bytes + 1024
    };
    static_assert(Groups * Rows * RNN_STAGED * 4 <= Slots * (int)slot_bytes, "sums fit the slots");
};

/// The warp that starts copies.
template <int Groups, int Rows, int Slots>
RNN_INLINE void rnn_copy_slices(const unsigned char *W, const unsigned char *x, int slices,
                                unsigned slots, unsigned full, unsigned empty)
{
    typedef RnnTileSizes<Groups, Rows, Slots> Sizes;
    enum { x_piece = Rows < RNN_BLOCK_ROWS ? Sizes::x_plane : RNN_BLOCK_BYTES };
    const long long block_row = rnn_block_row_bytes(slices);
    rnn_grid_wait(); // for rnn_tile; all that this CTA writes comes after its copies
#pragma unroll 1
    for (int s = 0; s < slices; s++) {
        const int slot = s % Slots;
        const unsigned to = slots + slot * Sizes::slot_bytes, barrier = full + 8 * slot;
        rnn_barrier_wait(empty + 8 * slot, (s / Slots & 1) ^ 1);
        rnn_barrier_expect(barrier, Sizes::slot_bytes);
#pragma unroll
        for (int plane = 0; plane < RNN_PLANES; plane++) {
            const long long from = ((long long)s * RNN_PLANES + plane) * RNN_BLOCK_BYTES;
#pragma unroll
            for (int i = 0; i < Groups; i++)
                rnn_copy_bulk(to + plane * Sizes::W_plane + i * RNN_BLOCK_BYTES,
                              W + from + i * block_row, RNN_BLOCK_BYTES, barrier);
#pragma unroll
            for (int i = 0; i < Sizes::x_plane / x_piece; i++)
                rnn_copy_bulk(to + Sizes::x_at + plane * Sizes::x_plane + i * x_piece,
                              x + from + i * block_row, x_piece, barrier);
        }
    }
}

/// A CTA's tile: call.x and call.W are blocks. W has `width` rows of K = `depth`; columns up to
/// `written` are written, as finish(column, sum).
template <int Groups, int Rows, int Slots, class Finish>
RNN_INLINE void rnn_multiply_tiles(const RnnProduct &call, int depth, int width, int written,
                                   Finish finish)
{
    typedef RnnTileSizes<Groups, Rows, Slots> Sizes;
    extern __shared__ __align__(16) unsigned char rnn_slots[];
    __shared__ __align__(8) unsigned long long barriers[2 * Slots];
    const unsigned pad = -rnn_shared_address(rnn_slots) & 1023;
    const unsigned slots = rnn_shared_address(rnn_slots) + pad;
    const unsigned full = rnn_shared_address(barriers), empty = full + 8 * Slots;
    const int slices = rnn_slices(depth), group = threadIdx.x / RNN_GROUP_THREADS;
    const RnnTilePlace place(call.rows, written, Rows, Groups * RNN_BLOCK_ROWS);
    const unsigned char *const x = (const unsigned char *)call.x;
    const unsigned char *const W = (const unsigned char *)call.W;

    if (threadIdx.x == 0) {
        for (int i = 0; i < Slots; i++) {
            rnn_barrier_init(full + 8 * i, 1);
            rnn_barrier_init(empty + 8 * i, Groups * 4);
        }
        rnn_barriers_ready();
    }
    __syncthreads();
    if (group == Groups) {
        if constexpr (Sizes::moves_registers)
            rnn_registers_less<24>();
        if (threadIdx.x == Groups * RNN_GROUP_THREADS)
            rnn_copy_slices<Groups, Rows, Slots>(
                W + place.column / RNN_BLOCK_ROWS * rnn_block_row_bytes(slices),
                x + place.row / RNN_BLOCK_ROWS * rnn_block_row_bytes(slices) +
                    place.row % RNN_BLOCK_ROWS * RNN_BLOCK_DEPTH * 2,
                slices, slots, full, empty);
        return;
    }
    if constexpr (Sizes::moves_registers)
        rnn_registers_more<240>();
    RnnGroupSums<Rows> sums;
#pragma unroll 1
    for (int s = 0; s < slices; s++) {
        const int slot = s % Slots;
        const unsigned at = slots + slot * Sizes::slot_bytes;
        rnn_barrier_wait(full + 8 * slot, s / Slots & 1);
        sums.add_slice(s, at + group * RNN_BLOCK_BYTES, Sizes::W_plane, at + Sizes::x_at,
                       Sizes::x_plane);
        if (s > 0 && threadIdx.x % 32 == 0)
            rnn_barrier_arrive(empty + 8 * ((s - 1) % Slots));
    }
    sums.end();
    rnn_sync_some(1, Groups * RNN_GROUP_THREADS); // the slots are read
    float *const staged = (float *)(rnn_slots + pad) + group * Rows * RNN_STAGED;
    sums.stage(staged);
    rnn_sync_some(2 + group, RNN_GROUP_THREADS);
    rnn_write_staged<Rows>(call, staged, place.row, place.column + group * RNN_BLOCK_ROWS, written,
                           rnn_factors(x, call.rows, slices), rnn_factors(W, width, slices), width,
                           finish);
}

#endif
