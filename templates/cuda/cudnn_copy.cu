// What stands between a module's tensors (float32, rows and steps any strides apart) and cuDNN's
// (the precision's type, [T, B, N]): copies that convert, and that take the steps in reverse for a
// layer that goes backwards. T = 1 converts states. One element a thread; the innermost dimension
// is contiguous, so reads and writes are whole lines from N of some 8 on. Nothing here is on the
// recurrent path.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -cubin templates/cuda/cudnn_copy.cu
#include "cuda/prim/index.cuh"

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

/// A module's tensor [B, T, n]; `reversed`: its steps are taken from the last on.
struct RnnTensor {
    long long row_stride, step_stride, rows, steps, n;
    int reversed;
};

/// Where element `i` of [T, B, n] lies in the module's tensor.
static __device__ __forceinline__ long long rnn_place(const RnnTensor &of, long long i)
{
    const RnnIndex at = rnn_index(i, of.rows, of.n);
    const long long step = of.reversed ? of.steps - 1 - at.outer : at.outer;
    return at.middle * of.row_stride + step * of.step_stride + at.inner;
}

/// to[T, B, n] = from, in the precision's type.
extern "C" __global__ void rnn_cudnn_narrow(const float *from, rnn_element *to, const RnnTensor of)
{
    const long long stride = (long long)gridDim.x * blockDim.x, count = of.steps * of.rows * of.n;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = rnn_narrow(from[rnn_place(of, i)]);
}

/// to = from[T, B, n], in float32.
extern "C" __global__ void rnn_cudnn_widen(const rnn_element *from, float *to, const RnnTensor of)
{
    const long long stride = (long long)gridDim.x * blockDim.x, count = of.steps * of.rows * of.n;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[rnn_place(of, i)] = rnn_widen(from[i]);
}
