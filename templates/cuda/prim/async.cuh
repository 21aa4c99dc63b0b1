// PTX wrappers: asynchronous copies from global to shared memory (sm_80 on), and loads that stay
// where they are written. One instruction each; nothing here knows what is copied.
#ifndef RNN_PRIM_ASYNC_CUH
#define RNN_PRIM_ASYNC_CUH

/// Starts a copy of 16 bytes; both addresses are multiples of 16.
static __device__ __forceinline__ void rnn_copy16(void *shared, const void *global)
{
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}

/// Starts a copy of 16 bytes to a shared address where `wanted` is true, without a branch.
static __device__ __forceinline__ void rnn_copy16_if(unsigned to, const void *global, bool wanted)
{
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %2, 0;\n\t"
                 "@p cp.async.cg.shared.global [%0], [%1], 16;\n\t}" ::"r"(to),
                 "l"(global), "r"((int)wanted)
                 : "memory");
}

/// Starts a copy of 16 bytes, or of none where `wanted` is false: zeros arrive then, and `global`
/// is any valid address.
static __device__ __forceinline__ void rnn_copy16_or_zero(void *shared, const void *global,
                                                          bool wanted)
{
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global),
                 "r"(wanted ? 16 : 0)
                 : "memory");
}

/// The same with one float.
static __device__ __forceinline__ void rnn_copy4_or_zero(void *shared, const void *global,
                                                         bool wanted)
{
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global),
                 "r"(wanted ? 4 : 0)
                 : "memory");
}

/// Closes the group of copies that this thread has started.
static __device__ __forceinline__ void rnn_copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until all but the newest `Pending` groups of this thread have arrived.
template <int Pending> static __device__ __forceinline__ void rnn_copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// Loads that the compiler neither repeats nor moves into a loop.
static __device__ __forceinline__ float4 rnn_load_once(const float4 *from)
{
    float4 v;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(from));
    return v;
}
static __device__ __forceinline__ uint2 rnn_load_once(const uint2 *from)
{
    uint2 v;
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
    return v;
}

static __device__ __forceinline__ uint4 rnn_load_once(const uint4 *from)
{
    uint4 v;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

/// Makes a value opaque once a step, so that what is computed from it stays inside the loop.
static __device__ __forceinline__ void rnn_keep(float4 &v)
{
    asm volatile("" : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w));
}
static __device__ __forceinline__ void rnn_keep(uint4 &v)
{
    asm volatile("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w));
}
static __device__ __forceinline__ void rnn_keep(unsigned &v)
{
    asm volatile("" : "+r"(v));
}
static __device__ __forceinline__ void rnn_keep(uint2 &v)
{
    asm volatile("" : "+r"(v.x), "+r"(v.y));
}

#endif
