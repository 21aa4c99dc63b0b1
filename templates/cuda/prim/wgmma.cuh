// PTX wrappers: tensor-core products of one warpgroup, both operands in shared memory (sm_90a).
//
//     rnn_wgmma: c[64 columns x N rows] += a[64 x 32 bytes of K] * b[N x 32 bytes of K]^T
//
// Operands lie in blocks of 128 bytes of K: row r at r*128 bytes, its 16-byte chunk c at place
// c ^ r % 8; the block starts at a multiple of 1024 bytes. Lane l of warp w of the group holds of
// c, for each 8 rows in turn: column 16*w + l/4 of rows 2*(l%4) and 2*(l%4) + 1, then column 16*w +
// l/4 + 8 of the same.
#ifndef RNN_PRIM_WGMMA_CUH
#define RNN_PRIM_WGMMA_CUH

#include "cuda/prim/halves.cuh"

/// Where an operand lies, from the address of a block: 1024 bytes from 8 rows to the next, the
/// pattern of 128 bytes. The K of the next instruction is RNN_WGMMA_NEXT further.
static __device__ __forceinline__ unsigned long long rnn_wgmma_operand(unsigned shared)
{
    return (unsigned long long)((shared & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
enum { RNN_WGMMA_NEXT = 32 >> 4 };

/// The same of an operand that lies in chunks of 16 bytes of K: all its `rows` rows of one chunk,
/// 16 bytes apart, then those of the next chunk. Starts at a multiple of 16 bytes. The K of the
/// next instruction is 2*rows further. What would be rows beyond `rows` is whatever lies there.
static __device__ __forceinline__ unsigned long long rnn_wgmma_chunks(unsigned shared, int rows)
{
    return (unsigned long long)((shared & 0x3ffff) >> 4) | (unsigned long long)rows << 16 |
           8ull << 32;
}

/// Orders what the warpgroup's registers held before with the products that follow.
static __device__ __forceinline__ void rnn_wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Closes the group of products that were started.
static __device__ __forceinline__ void rnn_wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until all but the newest `Pending` groups are done.
template <int Pending> static __device__ __forceinline__ void rnn_wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// After the wait: sums are read from here on, not before.
template <int Count> static __device__ __forceinline__ void rnn_wgmma_take(float (&c)[Count])
{
#pragma unroll
    for (int i = 0; i < Count; i++)
        asm volatile("" : "+f"(c[i])::"memory");
}

/// Registers of each thread of the warpgroup from here on, of those that the CTA began with.
template <int Count> static __device__ __forceinline__ void rnn_registers_more()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count> static __device__ __forceinline__ void rnn_registers_less()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

#if RNN_PRECISION == 2
#define RNN_WGMMA_TYPES "bf16.bf16"
#else
#define RNN_WGMMA_TYPES "f16.f16"
#endif
#define RNN_SUMS_4(i) "+f"(c[i]), "+f"(c[(i) + 1]), "+f"(c[(i) + 2]), "+f"(c[(i) + 3])
#define RNN_SUMS_8(i) RNN_SUMS_4(i), RNN_SUMS_4((i) + 4)
#define RNN_SUMS_32(i) RNN_SUMS_16(i), RNN_SUMS_16((i) + 16)
#define RNN_SUMS_16(i) RNN_SUMS_4(i), RNN_SUMS_4((i) + 4), RNN_SUMS_4((i) + 8), RNN_SUMS_4((i) + 12)

/// `add` false: c = instead of c +=.
static __device__ __forceinline__ void rnn_wgmma(float (&c)[16], unsigned long long a,
                                                 unsigned long long b, bool add)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32." RNN_WGMMA_TYPES "\n"
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15},\n"
                 "%16, %17, p, 1, 1, 0, 0;\n"
                 "}"
                 : RNN_SUMS_16(0)
                 : "l"(a), "l"(b), "r"((int)add));
}
static __device__ __forceinline__ void rnn_wgmma(float (&c)[64], unsigned long long a,
                                                 unsigned long long b, bool add)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." RNN_WGMMA_TYPES "\n"
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,\n"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,\n"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,\n"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63},\n"
        "%64, %65, p, 1, 1, 0, 0;\n"
        "}"
        : RNN_SUMS_16(0), RNN_SUMS_16(16), RNN_SUMS_16(32), RNN_SUMS_16(48)
        : "l"(a), "l"(b), "r"((int)add));
}

// c += a * b of N rows for operands that lie as rnn_wgmma_chunks says, `a` in shared memory or as
// the fragment of mma (prim/mma.cuh) of each warp's 16 columns in registers, which stay as they are
// until the product is done.
#define RNN_WGMMA_ADD(N, COUNT, D, SUMS, A0, A1, A2, A3, B)                                        \
    static __device__ __forceinline__ void rnn_wgmma_add(float(&c)[COUNT], unsigned long long a,   \
                                                         unsigned long long b)                     \
    {                                                                                              \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." RNN_WGMMA_TYPES " {" D      \
                     "}, " A0 ", " A1 ", 1, 1, 1, 0, 0;"                                           \
                     : SUMS                                                                        \
                     : "l"(a), "l"(b));                                                            \
    }                                                                                              \
    static __device__ __forceinline__ void rnn_wgmma_add(float(&c)[COUNT], const uint4 &a,         \
                                                         unsigned long long b)                     \
    {                                                                                              \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." RNN_WGMMA_TYPES " {" D      \
                     "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " B ", 1, 1, 1, 0;"                     \
                     : SUMS                                                                        \
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));                            \
    }
#define RNN_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define RNN_NAMES_16 RNN_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define RNN_NAMES_32                                                                               \
    RNN_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "   \
                 "%31"
RNN_WGMMA_ADD(8, 4, "%0, %1, %2, %3", RNN_SUMS_4(0), "%4", "%5", "%6", "%7", "%8")
RNN_WGMMA_ADD(16, 8, RNN_NAMES_8, RNN_SUMS_8(0), "%8", "%9", "%10", "%11", "%12")
RNN_WGMMA_ADD(32, 16, RNN_NAMES_16, RNN_SUMS_16(0), "%16", "%17", "%18", "%19", "%20")
RNN_WGMMA_ADD(64, 32, RNN_NAMES_32, RNN_SUMS_32(0), "%32", "%33", "%34", "%35", "%36")

#endif
