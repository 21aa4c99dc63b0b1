// W*x of all steps, [rows, RNN_INPUT_STRIDE] = x [rows, RNN_INPUTS] * W^T: one launch before the
// recurrence. Every sum runs over k in order, whatever the number of rows, so that a batch row has
// the bits of its own run; that, and one launch for conversion and product, is why this is not
// cuBLAS. A CTA makes 64 rows by 64 columns, a thread 4 by 4, from k-slices of 16 in shared memory:
//
//      x slice [k][row] 16 x 64      W slice [k][column] 16 x 64      next slice: in registers
//
// Floor: rows*columns*I / (128 lanes * SMs) cycles; it reaches about half of that.
#ifndef RNN_INPUT_PRODUCT_CUH
#define RNN_INPUT_PRODUCT_CUH

#include "cuda/prim/operand.cuh"

enum { RNN_TILE = 64, RNN_SLICE = 16, RNN_TILE_STRIDE = 68 };

/// Four values of row `row` from k on; zeros beyond the ends.
template <class Element>
RNN_INLINE float4 rnn_load_slice(const Element *from, long long row, long long rows, int k)
{
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
        v[e] = row < rows && k + e < RNN_INPUTS ? rnn_operand_value(from[row * RNN_INPUTS + k + e])
                                                : 0.0f;
    return make_float4(v[0], v[1], v[2], v[3]);
}

RNN_INLINE void rnn_store_slice(float (*slice)[RNN_TILE_STRIDE], int row, int k, float4 v)
{
    slice[k][row] = v.x;
    slice[k + 1][row] = v.y;
    slice[k + 2][row] = v.z;
    slice[k + 3][row] = v.w;
}

extern "C" __global__ void __launch_bounds__(256)
    rnn_input(const float *x, const rnn_operand *W, float *out, long long rows)
{
    __shared__ __align__(16) float x_slice[RNN_SLICE][RNN_TILE_STRIDE];
    __shared__ __align__(16) float w_slice[RNN_SLICE][RNN_TILE_STRIDE];
    const int columns = RNN_GATES * RNN_UNITS;
    const long long first_row = (long long)blockIdx.x * RNN_TILE;
    const int first_column = blockIdx.y * RNN_TILE;
    const int load_row = threadIdx.x / 4, load_k = threadIdx.x % 4 * 4;
    const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    float sums[4][4] = {};
    float4 next_x = rnn_load_slice(x, first_row + load_row, rows, load_k);
    float4 next_w = rnn_load_slice(W, first_column + load_row, columns, load_k);
    for (int k = 0; k < RNN_INPUTS; k += RNN_SLICE) {
        __syncthreads();
        rnn_store_slice(x_slice, load_row, load_k, next_x);
        rnn_store_slice(w_slice, load_row, load_k, next_w);
        __syncthreads();
        next_x = rnn_load_slice(x, first_row + load_row, rows, k + RNN_SLICE + load_k);
        next_w = rnn_load_slice(W, first_column + load_row, columns, k + RNN_SLICE + load_k);
#pragma unroll
        for (int s = 0; s < RNN_SLICE; s++) {
            const float4 a = *(const float4 *)&x_slice[s][row];
            const float4 b = *(const float4 *)&w_slice[s][column];
            const float rows4[4] = {a.x, a.y, a.z, a.w}, columns4[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sums[i][j] = fmaf(rows4[i], columns4[j], sums[i][j]);
        }
    }
    if (first_column + column >= RNN_INPUT_STRIDE)
        return;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (first_row + row + i < rows)
            *(float4 *)&out[(first_row + row + i) * RNN_INPUT_STRIDE + first_column + column] =
                make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

#endif
