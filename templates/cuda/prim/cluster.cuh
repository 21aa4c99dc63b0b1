// PTX wrappers: thread-block clusters (sm_90 on). Stores into the shared memory of another CTA that
// count themselves on a barrier beside them, and the waits for those barriers. One instruction
// each, but for the wait; nothing here knows what is sent.
#ifndef RNN_PRIM_CLUSTER_CUH
#define RNN_PRIM_CLUSTER_CUH

#include "cuda/prim/shared.cuh"

/// This CTA's place in its cluster.
static __device__ __forceinline__ int rnn_cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}

/// All threads of the cluster; what they have written before is seen after.
static __device__ __forceinline__ void rnn_cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/// Where CTA `rank` of the cluster has what lies at `shared` here. Stays where it is written.
static __device__ __forceinline__ unsigned rnn_cluster_address(unsigned shared, int rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
    return there;
}

/// Stores into a CTA of the cluster, and counts the bytes on the barrier there once they lie there.
static __device__ __forceinline__ void rnn_cluster_store(unsigned to, unsigned word,
                                                         unsigned barrier)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(to),
        "r"(word), "r"(barrier)
        : "memory");
}
static __device__ __forceinline__ void rnn_cluster_store(unsigned to, uint2 words, unsigned barrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, "
                 "[%3];" ::"r"(to),
                 "r"(words.x), "r"(words.y), "r"(barrier)
                 : "memory");
}

/// Stores into a CTA of the cluster, which sees it after a barrier of the cluster.
static __device__ __forceinline__ void rnn_cluster_put(unsigned to, int word)
{
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

/// A barrier that one thread of this CTA arms; rnn_barriers_ready once all are made.
static __device__ __forceinline__ void rnn_barrier_init(unsigned barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
static __device__ __forceinline__ void rnn_barriers_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// The barrier's phase ends when so many bytes have come, before or after.
static __device__ __forceinline__ void rnn_barrier_expect(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/// Whether the phase of that parity has ended; the device may wait some time for it.
static __device__ __forceinline__ bool rnn_barrier_try(unsigned barrier, unsigned parity)
{
    unsigned ended;
    asm volatile("{\n\t"
                 ".reg .pred ended;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, ended;\n\t"
                 "}"
                 : "=r"(ended)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return ended;
}

/// Waits for that; false where some seconds have passed in vain.
static __device__ __forceinline__ bool rnn_barrier_wait(unsigned barrier, unsigned parity)
{
    const long long clocks_max = 1ll << 33;
    if (rnn_barrier_try(barrier, parity))
        return true;
    const long long start = clock64();
    while (!rnn_barrier_try(barrier, parity))
        if (clock64() - start > clocks_max)
            return false;
    return true;
}

/// A barrier of `threads` threads of the CTA, one of 16; 0 is that of __syncthreads.
static __device__ __forceinline__ void rnn_named_barrier(int name, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

#endif
