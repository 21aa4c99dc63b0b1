// PTX wrappers: tensor-core products of one warp (sm_80 on) on operands of 16 bits or tf32, sums in
// float32. Both read the same bytes: a fragment of 16 rows (or 8) covers 32 bytes of K, 16 operands
// of 16 bits or 8 of tf32, and lies in memory with K contiguous.
//
//     rnn_mma: c[16 weights x 8 rows] += a[16 x 32 bytes of K] * b[8 x 32 bytes of K]^T
//
// Lane l holds of c: weights l/4 and l/4 + 8 of rows 2*(l%4) and 2*(l%4) + 1, in the order
// (l/4, even), (l/4, odd), (l/4 + 8, even), (l/4 + 8, odd).
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

#if RNN_PRECISION == 1
#define RNN_MMA_TYPES "m16n8k8.row.col.f32.tf32.tf32.f32"
#elif RNN_PRECISION == 2
#define RNN_MMA_TYPES "m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define RNN_MMA_TYPES "m16n8k16.row.col.f32.f16.f16.f32"
#endif

static __device__ __forceinline__ void rnn_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                               unsigned b1)
{
    asm volatile("mma.sync.aligned." RNN_MMA_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
