// PTX wrappers: tensor-core products of one warp (sm_80 on), sums in float32. All precisions read
// the same bytes: a fragment of 16 rows (or 8) covers 32 bytes of K, 16 operands of 16 bits or 8 of
// 32, and lies in memory with K contiguous.
//
//     rnn_mma: c[16 weights x 8 rows] += a[16 x 32 bytes of K] * b[8 x 32 bytes of K]^T
//
// Lane l holds of c: weights l/4 and l/4 + 8 of rows 2*(l%4) and 2*(l%4) + 1, in the order
// (l/4, even), (l/4, odd), (l/4 + 8, even), (l/4 + 8, odd).
//
// float32 is split in two: x = high + low, high the tf32 number next to x and low = x - high, of
// which the tensor core takes 11 bits. x*y = low*high + high*low + high*high leaves out low*low and
// the end of low, 2^-22 of the product each at most. An infinity has low 0 and stays one.
#ifndef RNN_PRIM_MMA_CUH
#define RNN_PRIM_MMA_CUH

#include "cuda/prim/operand.cuh"

/// Four 8 x 16-byte matrices; lane l gives the address of row l%8 of matrix l/8, and gets word l%4
/// of row l/4 of each.
static __device__ __forceinline__ void rnn_load_matrices(unsigned (&m)[4], const void *shared)
{
    const unsigned from = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(from)
                 : "memory");
}

#if RNN_PRECISION <= 1
#define RNN_MMA_TYPES "m16n8k8.row.col.f32.tf32.tf32.f32"
#elif RNN_PRECISION == 2
#define RNN_MMA_TYPES "m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define RNN_MMA_TYPES "m16n8k16.row.col.f32.f16.f16.f32"
#endif

static __device__ __forceinline__ void rnn_mma_once(float (&c)[4], const unsigned (&a)[4],
                                                    unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned." RNN_MMA_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#if RNN_PRECISION <= 1
/// The same with 16 values of float16 in K.
static __device__ __forceinline__ void rnn_mma_halves(float (&c)[4], const unsigned (&a)[4],
                                                      unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

#if RNN_PRECISION == 0
/// The two parts of a float32 operand, in plain arithmetic: so the compiler makes them once of a
/// fragment that several products take. A NaN is one in `low`, whatever `high` becomes.
static __device__ __forceinline__ unsigned rnn_high(unsigned x)
{
    return (x + 0x1000) & 0xffffe000;
}
static __device__ __forceinline__ unsigned rnn_low(unsigned x)
{
    const float high = __uint_as_float(rnn_high(x));
    return fabsf(high) == __int_as_float(0x7f800000)
               ? 0
               : __float_as_uint(__fsub_rn(__uint_as_float(x), high));
}

/// The bits of a tf32 number where that is finite, else 0: what multiplies the low part of the
/// other operand, so that an infinity counts once and is no NaN times 0.
static __device__ __forceinline__ unsigned rnn_finite(unsigned high)
{
    return (high & 0x7f800000) == 0x7f800000 ? 0 : high;
}

static __device__ __forceinline__ void rnn_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                               unsigned b1)
{
    const unsigned high[4] = {rnn_high(a[0]), rnn_high(a[1]), rnn_high(a[2]), rnn_high(a[3])};
    const unsigned low[4] = {rnn_low(a[0]), rnn_low(a[1]), rnn_low(a[2]), rnn_low(a[3])};
    const unsigned finite[4] = {rnn_finite(high[0]), rnn_finite(high[1]), rnn_finite(high[2]),
                                rnn_finite(high[3])};
    rnn_mma_once(c, low, rnn_finite(rnn_high(b0)), rnn_finite(rnn_high(b1)));
    rnn_mma_once(c, finite, rnn_low(b0), rnn_low(b1));
    rnn_mma_once(c, high, rnn_high(b0), rnn_high(b1));
}
#else
static __device__ __forceinline__ void rnn_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                               unsigned b1)
{
    rnn_mma_once(c, a, b0, b1);
}
#endif

#endif
