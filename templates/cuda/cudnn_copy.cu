// What stands between a module's tensors (float32, batch-major) and cuDNN's (the precision's type,
// time-major): copies that convert and swap the two outer dimensions, [A, B, N] -> [B, A, N].
// A = 1 is a plain conversion. One element a thread; the innermost dimension stays contiguous, so
// reads and writes are whole lines from N of some 8 on. Nothing here is on the recurrent path.
//
//     nvcc -arch=sm_90 -cubin templates/cuda/cudnn_copy.cu
#ifndef RNN_BITS
#define RNN_BITS 32 // 32: float32 and tf32; 16: float16; 17: bfloat16
#endif

#if RNN_BITS == 32
typedef float rnn_element;
static __device__ __forceinline__ rnn_element rnn_narrow(float x)
{
    return x;
}
static __device__ __forceinline__ float rnn_widen(rnn_element x)
{
    return x;
}
#elif RNN_BITS == 16
typedef unsigned short rnn_element;
static __device__ __forceinline__ rnn_element rnn_narrow(float x)
{
    rnn_element bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
static __device__ __forceinline__ float rnn_widen(rnn_element bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
#else
typedef unsigned short rnn_element;
static __device__ __forceinline__ rnn_element rnn_narrow(float x)
{
    rnn_element bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
static __device__ __forceinline__ float rnn_widen(rnn_element bits)
{
    return __uint_as_float((unsigned)bits << 16);
}
#endif

/// Index in [A, B, N] of element `i` of [B, A, N].
static __device__ __forceinline__ long long rnn_swapped(long long i, long long a, long long b,
                                                        long long n)
{
    const long long row = i / n;
    return ((row % a) * b + row / a) * n + i % n;
}

/// to[B, A, N] = from[A, B, N] in the precision's type.
extern "C" __global__ void rnn_cudnn_narrow(const float *from, rnn_element *to, long long a,
                                            long long b, long long n)
{
    const long long step = (long long)gridDim.x * blockDim.x, count = a * b * n;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = rnn_narrow(from[rnn_swapped(i, a, b, n)]);
}

/// to[B, A, N] = from[A, B, N] in float32.
extern "C" __global__ void rnn_cudnn_widen(const rnn_element *from, float *to, long long a,
                                           long long b, long long n)
{
    const long long step = (long long)gridDim.x * blockDim.x, count = a * b * n;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = rnn_widen(from[rnn_swapped(i, a, b, n)]);
}
