// PTX wrappers: bulk copies from global to shared memory, the barriers in shared memory that they
// complete, and the order of kernels (sm_90 on). One instruction each; nothing here knows what is
// copied.
//
// A barrier counts arrivals and bytes. Its phase ends when both are complete; phases alternate
// between parity 0, the first, and 1.
#ifndef RNN_PRIM_BULK_CUH
#define RNN_PRIM_BULK_CUH

#include "cuda/prim/shared.cuh"

/// A barrier of `arrivals` a phase; one thread, before rnn_barriers_ready and __syncthreads.
static __device__ __forceinline__ void rnn_barrier_init(unsigned barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Makes initialised barriers visible to copies.
static __device__ __forceinline__ void rnn_barriers_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void rnn_barrier_arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives, and makes the phase wait for `bytes` of copies.
static __device__ __forceinline__ void rnn_barrier_expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/// Waits until the phase of this parity has ended.
static __device__ __forceinline__ void rnn_barrier_wait(unsigned barrier, unsigned parity)
{
    unsigned ended;
    do {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(ended)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!ended);
}

/// Starts a copy of `bytes`, a multiple of 16 as both addresses are, that counts on `barrier`.
static __device__ __forceinline__ void rnn_copy_bulk(unsigned shared, const void *global,
                                                     unsigned bytes, unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared),
                 "l"(global), "r"(bytes), "r"(barrier)
                 : "memory");
}

/// What this thread has seen written, its bulk copies see.
static __device__ __forceinline__ void rnn_fence_bulk()
{
    asm volatile("fence.proxy.async;" ::: "memory");
}

/// The same of global memory alone: without the fence of the GPU that the other one costs.
static __device__ __forceinline__ void rnn_fence_bulk_global()
{
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// A barrier of `threads` threads of the CTA; __syncthreads is number 0.
static __device__ __forceinline__ void rnn_sync_some(int number, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
/// The same without waiting.
static __device__ __forceinline__ void rnn_arrive_some(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

#endif
