// A float32 as two float16: x = high + rest * 2^-11, 22 bits and a sign, where |x| is at most 65504
// and at least 2^-14; below that x is right to 2^-36. Of bfloat16 there is a pair alone.
#ifndef RNN_PRIM_HALVES_CUH
#define RNN_PRIM_HALVES_CUH

#include "cuda/prim/operand.cuh"

#define RNN_REST 0x1p11f // factor of the rest

/// Two values as float16, or as bfloat16 there.
static __device__ __forceinline__ unsigned rnn_pair(float a, float b)
{
    unsigned pair;
#if RNN_PRECISION == 2
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(b), "f"(a));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(b), "f"(a));
#endif
    return pair;
}
/// What is left of two values after their pair of float16, times RNN_REST.
static __device__ __forceinline__ unsigned rnn_pair_rest(float a, float b, unsigned pair)
{
    float high[2];
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\n"
        "cvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}"
        : "=f"(high[0]), "=f"(high[1])
        : "r"(pair));
    return rnn_pair((a - high[0]) * RNN_REST, (b - high[1]) * RNN_REST);
}

/// The power of two that brings `largest`, a finite magnitude, below 2^15, and its inverse. Both
/// are normal numbers.
static __device__ __forceinline__ int rnn_range_exponent(float largest)
{
    const int exponent = (int)(__float_as_uint(largest) >> 23);
    return exponent > 15 ? exponent : 15; // 1 is 127
}
static __device__ __forceinline__ float rnn_range_factor(int exponent)
{
    return __uint_as_float((254 + 14 - exponent) << 23);
}
static __device__ __forceinline__ float rnn_range_inverse(int exponent)
{
    return __uint_as_float((exponent - 14) << 23);
}

#endif
