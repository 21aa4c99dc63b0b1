// Operands of products in each precision: RNN_PRECISION is 0 float32, 1 tf32, 2 bfloat16,
// 3 float16, as in the module's tables. Sums and states are float32 in all of them.
#ifndef RNN_PRIM_OPERAND_CUH
#define RNN_PRIM_OPERAND_CUH

#ifndef RNN_PRECISION
#define RNN_PRECISION 0
#endif

/// tf32: 10 bits of mantissa, ties away from zero, kept in a float.
static __device__ __forceinline__ float rnn_round_tf32(float x)
{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

#if RNN_PRECISION >= 2
typedef unsigned short rnn_operand;
typedef uint2 rnn_chunk; // four weights
#if RNN_PRECISION == 2
static __device__ __forceinline__ rnn_operand rnn_narrow(float x)
{
    rnn_operand bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
static __device__ __forceinline__ float rnn_widen(unsigned bits)
{
    return __uint_as_float(bits << 16);
}
#else
static __device__ __forceinline__ rnn_operand rnn_narrow(float x)
{
    rnn_operand bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
static __device__ __forceinline__ float rnn_widen(unsigned bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)bits));
    return x;
}
#endif
static __device__ __forceinline__ float rnn_round(float x)
{
    return rnn_widen(rnn_narrow(x));
}
static __device__ __forceinline__ rnn_chunk rnn_chunk_pack(float a, float b, float c, float d)
{
    return make_uint2(rnn_narrow(a) | (unsigned)rnn_narrow(b) << 16,
                      rnn_narrow(c) | (unsigned)rnn_narrow(d) << 16);
}
static __device__ __forceinline__ float4 rnn_chunk_weights(rnn_chunk w)
{
    return make_float4(rnn_widen(w.x & 0xffff), rnn_widen(w.x >> 16), rnn_widen(w.y & 0xffff),
                       rnn_widen(w.y >> 16));
}
#else
typedef float rnn_operand;
typedef float4 rnn_chunk;
static __device__ __forceinline__ float rnn_round(float x)
{
    return RNN_PRECISION == 1 ? rnn_round_tf32(x) : x;
}
static __device__ __forceinline__ rnn_operand rnn_narrow(float x)
{
    return rnn_round(x);
}
static __device__ __forceinline__ rnn_chunk rnn_chunk_pack(float a, float b, float c, float d)
{
    return make_float4(rnn_round(a), rnn_round(b), rnn_round(c), rnn_round(d));
}
static __device__ __forceinline__ float4 rnn_chunk_weights(rnn_chunk w)
{
    return w;
}
#endif

/// An element of W or x as the number that a product takes.
static __device__ __forceinline__ float rnn_operand_value(float x)
{
    return rnn_round(x);
}
static __device__ __forceinline__ float rnn_operand_value(unsigned short bits)
{
#if RNN_PRECISION >= 2
    return rnn_widen(bits);
#else
    return bits;
#endif
}

enum { RNN_VECTOR = 16 / sizeof(rnn_operand) }; ///< operands in 16 bytes

/// `count` up to whole vectors: how far apart rows of operands lie.
constexpr __host__ __device__ int rnn_padded(int count)
{
    return (count + RNN_VECTOR - 1) / RNN_VECTOR * RNN_VECTOR;
}

#endif
