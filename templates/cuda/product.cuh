// out[row, column] = x[row] * W[column]^T for many rows: W*x of all steps (input_product.cu) and
// dense layers (pointwise.cu). x is float32, read where it lies by row and step strides and
// narrowed on the way into shared memory; W holds operands, its rows a whole number of 16 bytes
// apart.
//
// A CTA of 8 warps makes `Rows` rows by `Columns` columns from slices of 64 bytes of K (16 operands
// of 32 bits, 32 of 16 bits), three in shared memory in turn:
//
//     slice:  [Rows][64 bytes] x | [Columns][64 bytes] W     16-byte chunk c of row r lies at place
//                                                            c ^ (r/2 % 4): 8 rows, 8 bank groups
//     slice s + 2: W by cp.async, x through registers, while the products of slice s run
//
// Every sum runs over K from its start to its end in one accumulator, in tensor-core steps of 32
// bytes or float32 multiply-adds, whatever the tile and the place in it: so a row has the bits of
// its own run at any number of rows. A library promises none of that, nor strides and narrowing in
// one pass.
//
// Floor: 2*rows*columns*K FLOP, and (rows*K + rows*columns)*4 + columns*K*operand bytes. On an
// H200: 53 TFLOP/s in float32 (FFMA), some 600 in 16 bits by mma.sync; 4.8 TB/s.
#ifndef RNN_PRODUCT_CUH
#define RNN_PRODUCT_CUH

#include "cuda/prim/async.cuh"
#include "cuda/prim/mma.cuh"

/// Rows of x and of the output: row b*timesteps + t of `rows` lies at b*row_stride + t*step_stride.
struct RnnProduct {
    const float *x;
    const rnn_operand *W; ///< [columns, rnn_padded(K)]
    const float *bias;    ///< [columns] or NULL
    float *out;
    long long rows, timesteps;
    long long x_row_stride, x_step_stride, out_row_stride, out_step_stride;
};

enum {
    RNN_PRODUCT_THREADS = 256,
    RNN_SLICE_BYTES = 64,
    RNN_SLICE = RNN_SLICE_BYTES / sizeof(rnn_operand),
    RNN_SLOTS = 3
};

/// Goes down the rows of a tile: where each lies, in elements. One division for the first; from one
/// to the next it steps over the ends of batch rows, which are none where all rows lie evenly.
struct RnnTileRows {
    long long at, step_stride, over_end;
    unsigned time, timesteps;
    int row;

    RNN_MEMBER RnnTileRows(long long first, long long T, long long row_stride, long long stride)
        : step_stride(stride), over_end(row_stride - T * stride), row(0)
    {
        const long long batch_row = over_end ? first / T : 0;
        time = over_end ? (unsigned)(first - batch_row * T) : 0;
        timesteps = over_end ? (unsigned)T : ~0u;
        at = first * stride + batch_row * over_end;
    }
    /// `next` is not above the row before.
    RNN_MEMBER long long move_to(int next)
    {
        at += (next - row) * step_stride;
        time += next - row;
        row = next;
#pragma unroll 1
        while (time >= timesteps) {
            time -= timesteps;
            at += over_end;
        }
        return at;
    }
};

/// Bytes from the start of a slice to chunk `chunk` of a row.
RNN_INLINE int rnn_chunk_at(int row, int chunk)
{
    return row * RNN_SLICE_BYTES + ((chunk ^ (row >> 1 & 3)) << 4);
}

/// Values k ... k + 3 of a row of x, zeros beyond its end. `from` NULL: a row beyond the last.
template <int K> RNN_INLINE float4 rnn_load_x(const float *from, int k, bool aligned)
{
    if (!from || k >= K)
        return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (aligned && k + 4 <= K)
        return __ldg((const float4 *)(from + k));
    return make_float4(__ldg(from + k), k + 1 < K ? __ldg(from + k + 1) : 0.0f,
                       k + 2 < K ? __ldg(from + k + 2) : 0.0f,
                       k + 3 < K ? __ldg(from + k + 3) : 0.0f);
}

/// What one thread carries of x: `count` groups of four values, one below the other in the tile.
template <int Rows, int K> struct RnnRows {
    enum {
        groups = RNN_SLICE / 4, // in a row of a slice
        count = (Rows * groups + RNN_PRODUCT_THREADS - 1) / RNN_PRODUCT_THREADS
    };
    const float *from[count];
    bool aligned;

    static RNN_MEMBER int row(int i)
    {
        return (i * RNN_PRODUCT_THREADS + (int)threadIdx.x) / groups;
    }
    static RNN_MEMBER int group()
    {
        return (int)threadIdx.x % groups;
    }
    RNN_MEMBER void begin(const RnnProduct &call, long long first)
    {
        aligned = ((unsigned long long)call.x & 15) == 0 &&
                  ((call.x_row_stride | call.x_step_stride) & 3) == 0;
        RnnTileRows rows(first, call.timesteps, call.x_row_stride, call.x_step_stride);
#pragma unroll
        for (int i = 0; i < count; i++)
            from[i] = row(i) < Rows && first + row(i) < call.rows ? call.x + rows.move_to(row(i))
                                                                  : nullptr;
    }
    RNN_MEMBER void load(float4 (&held)[count], int slice) const
    {
#pragma unroll
        for (int i = 0; i < count; i++)
            held[i] = rnn_load_x<K>(from[i], slice * RNN_SLICE + group() * 4, aligned);
    }
    RNN_MEMBER void store(const float4 (&held)[count], unsigned char *slot) const
    {
#pragma unroll
        for (int i = 0; i < count; i++) {
            if (Rows * groups % RNN_PRODUCT_THREADS != 0 && row(i) >= Rows)
                continue;
            const rnn_chunk chunk = rnn_chunk_pack(held[i].x, held[i].y, held[i].z, held[i].w);
            const int in_row = group() * (int)sizeof(rnn_chunk);
            *(rnn_chunk *)(slot + rnn_chunk_at(row(i), in_row / 16) + in_row % 16) = chunk;
        }
    }
};

/// Columns of W on their way into shared memory: start() and finish() of a slice stand before and
/// after the products of another. As W lies by rows of K, cp.async does it all.
template <int Columns, int K, int Width> struct RnnWeightRows {
    const rnn_operand *W; ///< [Width, rnn_padded(K)]
    int first;            ///< column

    /// `to` is where the slot's W begins.
    RNN_MEMBER void start(int slice, unsigned char *to) const
    {
        constexpr int chunks = RNN_SLICE_BYTES / 16;
#pragma unroll
        for (int i = threadIdx.x; i < Columns * chunks; i += RNN_PRODUCT_THREADS) {
            const int row = i / chunks, chunk = i % chunks, column = first + row;
            const int k = slice * RNN_SLICE + chunk * RNN_VECTOR;
            const bool wanted = column < Width && k < K;
            rnn_copy16_or_zero(to + rnn_chunk_at(row, chunk),
                               W + (wanted ? (long long)column * rnn_padded(K) + k : 0), wanted);
        }
    }
    RNN_MEMBER void finish(unsigned char *) const
    {
    }
};

/// Sums of one thread, and which elements of the tile they are: each() goes down the rows, as far
/// as begin(row) is true, and takes every column of each. With tensor cores 2 x 4 warps, the four
/// along the columns; in float32 16 x 16 threads, each with every 16th row and column.
template <int Rows, int Columns> struct RnnSums {
#if RNN_PRECISION == 0
    enum { along_columns = Columns / 16, along_rows = Rows / 16 };
    float sums[along_columns][along_rows];

    static RNN_MEMBER int first_column()
    {
        return threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8;
    }
    static RNN_MEMBER int first_row()
    {
        return threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8;
    }
    RNN_MEMBER void add_slice(const unsigned char *x, const unsigned char *W)
    {
#pragma unroll 1
        for (int half = 0; half < RNN_SLICE_BYTES / 8; half++) { // two values of K: few registers
            const int chunk = half / 2, place = half % 2 * 8;
            float2 b[along_rows];
#pragma unroll
            for (int j = 0; j < along_rows; j++)
                b[j] = *(const float2 *)(x + rnn_chunk_at(first_row() + 16 * j, chunk) + place);
#pragma unroll
            for (int i = 0; i < along_columns; i++) {
                const float2 a =
                    *(const float2 *)(W + rnn_chunk_at(first_column() + 16 * i, chunk) + place);
#pragma unroll
                for (int j = 0; j < along_rows; j++) {
                    sums[i][j] = fmaf(a.x, b[j].x, sums[i][j]);
                    sums[i][j] = fmaf(a.y, b[j].y, sums[i][j]);
                }
            }
        }
    }
    template <class Begin, class Take> RNN_MEMBER void each(Begin begin, Take take) const
    {
#pragma unroll
        for (int j = 0; j < along_rows; j++) {
            if (!begin(first_row() + 16 * j))
                return;
#pragma unroll
            for (int i = 0; i < along_columns; i++)
                take(first_column() + 16 * i, sums[i][j]);
        }
    }
#else
    enum { along_columns = Columns / 64, along_rows = Rows / 16 }; // of 16 and of 8
    float sums[along_columns][along_rows][4];

    static RNN_MEMBER int warp_column()
    {
        return threadIdx.x / 32 % 4 * (Columns / 4);
    }
    static RNN_MEMBER int warp_row()
    {
        return threadIdx.x / 128 * (Rows / 2);
    }
    RNN_MEMBER void add_slice(const unsigned char *x, const unsigned char *W)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int step = 0; step < RNN_SLICE_BYTES / 32; step++) {
            unsigned a[along_columns][4];
#pragma unroll
            for (int i = 0; i < along_columns; i++)
                rnn_load_matrices(a[i], W + rnn_chunk_at(warp_column() + 16 * i + lane % 16,
                                                         2 * step + lane / 16));
#pragma unroll
            for (int j = 0; j < along_rows; j += 2) {
                unsigned b[4];
                rnn_load_matrices(b, x + rnn_chunk_at(warp_row() + 8 * j + lane / 16 * 8 + lane % 8,
                                                      2 * step + lane / 8 % 2));
#pragma unroll
                for (int i = 0; i < along_columns; i++) {
                    rnn_mma(sums[i][j], a[i], b[0], b[1]);
                    rnn_mma(sums[i][j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }
    template <class Begin, class Take> RNN_MEMBER void each(Begin begin, Take take) const
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int j = 0; j < along_rows; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                if (!begin(warp_row() + 8 * j + lane % 4 * 2 + e))
                    return;
#pragma unroll
                for (int i = 0; i < along_columns; i++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        take(warp_column() + 16 * i + half * 8 + lane / 4,
                             sums[i][j][2 * half + e]);
            }
    }
#endif
};

/// A CTA's tile. W has `Width` columns of the product, which `Weights` fetches; columns up to
/// `Written` are written, as finish(column, sum).
template <int Rows, int Columns, int K, int Width, int Written,
          class Weights = RnnWeightRows<Columns, K, Width>, class Finish>
RNN_INLINE void rnn_multiply_rows(const RnnProduct &call, Finish finish)
{
    constexpr int slices = (K + RNN_SLICE - 1) / RNN_SLICE;
    constexpr int x_bytes = Rows * RNN_SLICE_BYTES;
    __shared__ __align__(128) unsigned char slots[RNN_SLOTS][(Rows + Columns) * RNN_SLICE_BYTES];
    const long long first_row = (long long)blockIdx.x * Rows;
    const int first_column = blockIdx.y * Columns;
    RnnRows<Rows, K> rows;
    RnnSums<Rows, Columns> sums = {};
    Weights weights = {call.W, first_column};
    float4 held[rows.count], second[rows.count];

    weights.start(0, slots[0] + x_bytes);
    weights.finish(slots[0] + x_bytes);
    rnn_copy_commit();
    if (slices > 1) {
        weights.start(1, slots[1] + x_bytes);
        weights.finish(slots[1] + x_bytes);
    }
    rnn_copy_commit();
    rows.begin(call, first_row);
    rows.load(held, 0);
    if (slices > 1)
        rows.load(second, 1);
    rows.store(held, slots[0]);
    if (slices > 1)
        rows.store(second, slots[1]);
#pragma unroll 1
    for (int s = 0; s < slices; s++) {
        unsigned char *const next = slots[(s + 2) % RNN_SLOTS];
        unsigned char *const now = slots[s % RNN_SLOTS];
        rnn_copy_wait<1>();
        __syncthreads();
        if (s + 2 < slices) {
            rows.load(held, s + 2);
            weights.start(s + 2, next + x_bytes);
        }
        rnn_copy_commit();
        sums.add_slice(now, now + x_bytes);
        if (s + 2 < slices) {
            rows.store(held, next);
            weights.finish(next + x_bytes);
        }
    }
    RnnTileRows out_rows(first_row, call.timesteps, call.out_row_stride, call.out_step_stride);
    float *out = nullptr;
    sums.each(
        [&](int row) {
            if (first_row + row >= call.rows)
                return false;
            out = call.out + out_rows.move_to(row);
            return true;
        },
        [&](int column, float sum) {
            if (first_column + column < Written)
                out[first_column + column] = finish(first_column + column, sum);
        });
}

/// Rows of `columns` floats as operands. Each block of `block` values starts at a new vector; what
/// lies between is left alone. `scale`, as `from`, multiplies before narrowing; NULL: 1.
extern "C" __global__ void rnn_convert(const float *from, const float *scale, rnn_operand *to,
                                       long long rows, int columns, int block)
{
    const long long stride = (long long)(columns / block) * rnn_padded(block);
    const long long step = (long long)gridDim.x * blockDim.x, count = rows * columns;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int column = (int)(i % columns);
        to[i / columns * stride + column / block * rnn_padded(block) + column % block] =
            rnn_narrow(scale ? from[i] * scale[i] : from[i]);
    }
}

#endif
