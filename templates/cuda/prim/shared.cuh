// PTX wrappers: shared memory by 32-bit addresses. What the compiler derives from a pointer it
// derives again after each branch, the CTA's place in its cluster included; an address stays in
// its register. Loads and stores stay between the barriers where they are written.
#ifndef RNN_PRIM_SHARED_CUH
#define RNN_PRIM_SHARED_CUH

/// The address of a variable in this CTA's shared memory.
static __device__ __forceinline__ unsigned rnn_shared_address(const void *shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}

static __device__ __forceinline__ void rnn_shared_load(float &v, unsigned from)
{
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(from) : "memory");
}
static __device__ __forceinline__ void rnn_shared_load(float4 &v, unsigned from)
{
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from)
                 : "memory");
}
static __device__ __forceinline__ void rnn_shared_load(uint2 &v, unsigned from)
{
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
}

static __device__ __forceinline__ void rnn_shared_store(unsigned to, float v)
{
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
}
static __device__ __forceinline__ void rnn_shared_store(unsigned to, float4 v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z),
                 "f"(v.w)
                 : "memory");
}
static __device__ __forceinline__ void rnn_shared_store(unsigned to, uint2 v)
{
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(v.x), "r"(v.y) : "memory");
}

#endif
