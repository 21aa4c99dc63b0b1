// Sums over a CTA in an order that its thread count fixes.
#ifndef RNN_PRIM_SUM_CUH
#define RNN_PRIM_SUM_CUH

#include "cuda/prelude.cuh"

/// The sum of `value` over the CTA of `Warps` whole warps; to all threads.
template <int Warps> RNN_INLINE float rnn_sum_cta(float value)
{
    __shared__ float of_warp[Warps];
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        value += __shfl_xor_sync(0xffffffff, value, mask);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
#pragma unroll
    for (int warp = 1; warp < Warps; warp++)
        value += of_warp[warp];
    return value;
}

#endif
