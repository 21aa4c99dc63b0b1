// Layers without a recurrence: embedding (rows of E by token) and activation, one element a thread,
// the feature innermost, bound by memory; and dense, the product of layer_product.cuh that finishes
// with bias and activation. Tokens outside the table give rows of NaN; sequence.cu records them.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -cubin templates/cuda/pointwise.cu
#include "cuda/prelude.cuh"
#include "cuda/prim/index.cuh"

#ifndef RNN_OUTPUTS
#define RNN_INPUTS 64
#define RNN_OUTPUTS 64
#define RNN_DENSE 1
#define RNN_BLOCKS 0
#define RNN_TRAINING 1
RNN_INLINE rnn_f rnn_activation(rnn_f x)
{
    return rnn_tanh(x);
}
RNN_INLINE rnn_f rnn_slope(rnn_f x, rnn_f seed)
{
    return seed * (1.0f - rnn_tanh(x) * rnn_tanh(x));
}
#endif

#if RNN_DENSE
#include "cuda/layer_product.cuh"

/// What the product finishes with.
struct RnnDense {
    const float *bias;

    RNN_MEMBER float operator()(int column, float sum) const
    {
        return rnn_activation(bias ? sum + __ldg(bias + column) : sum);
    }
};

extern "C" __global__ void RNN_MANY_BOUNDS rnn_dense(const RnnProduct call)
{
    rnn_multiply_many<RNN_INPUTS, RNN_OUTPUTS, RNN_OUTPUTS>(call, RnnDense{call.bias});
}

extern "C" __global__ void RNN_FEW_BOUNDS rnn_dense_few(const RnnProduct call)
{
    rnn_multiply_few<RNN_INPUTS, RNN_OUTPUTS, RNN_OUTPUTS>(call, RnnDense{call.bias});
}

#if RNN_TRAINING
/// What lies between the products of a dense layer in training, z [T, B, outputs] = W*x by step
/// and row: y = activation(z + b); and back, z = dy times the slope there.
struct RnnFinish {
    float *z, *y;      ///< y and dy [B, T, outputs] by the strides
    const float *bias; ///< NULL: none
    long long batch, timesteps, row_stride, step_stride;
};

RNN_INLINE long long rnn_finish_at(const RnnFinish &call, const RnnIndex &of)
{
    return of.middle * call.row_stride + of.outer * call.step_stride + of.inner;
}

extern "C" __global__ void rnn_finish(const RnnFinish call)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long count = call.batch * call.timesteps * RNN_OUTPUTS;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const RnnIndex of = rnn_index(i, call.batch, RNN_OUTPUTS);
        call.y[rnn_finish_at(call, of)] =
            rnn_activation(call.bias ? call.z[i] + __ldg(call.bias + of.inner) : call.z[i]);
    }
}

extern "C" __global__ void rnn_finish_back(const RnnFinish call)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long count = call.batch * call.timesteps * RNN_OUTPUTS;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const RnnIndex of = rnn_index(i, call.batch, RNN_OUTPUTS);
        call.z[i] = rnn_slope(call.bias ? call.z[i] + __ldg(call.bias + of.inner) : call.z[i],
                              call.y[rnn_finish_at(call, of)]);
    }
}
#endif
#else

/// Where the layer reads and writes: [B, T, features], the features contiguous.
struct RnnPlaces {
    long long batch, timesteps, x_row_stride, x_step_stride, y_row_stride, y_step_stride;
};

/// y[row, step] = E[tokens[row, step]].
extern "C" __global__ void rnn_embed(const int *tokens, const float *table, float *y,
                                     const RnnPlaces at)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long count = at.batch * at.timesteps * RNN_OUTPUTS;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const RnnIndex of = rnn_index(i, at.timesteps, RNN_OUTPUTS);
        const int token = tokens[of.outer * at.x_row_stride + of.middle * at.x_step_stride];
        y[of.outer * at.y_row_stride + of.middle * at.y_step_stride + of.inner] =
            token >= 0 && token < RNN_INPUTS ? table[(long long)token * RNN_OUTPUTS + of.inner]
                                             : __int_as_float(0x7fffffff);
    }
}

/// y = activation(x); x may be y.
extern "C" __global__ void rnn_activate(const float *x, float *y, const RnnPlaces at)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long count = at.batch * at.timesteps * RNN_OUTPUTS;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const RnnIndex of = rnn_index(i, at.timesteps, RNN_OUTPUTS);
        y[of.outer * at.y_row_stride + of.middle * at.y_step_stride + of.inner] =
            rnn_activation(x[of.outer * at.x_row_stride + of.middle * at.x_step_stride + of.inner]);
    }
}

#if RNN_TRAINING
/// dx = dy times the slope at x, or += it; dx lies by strides of its own.
extern "C" __global__ void rnn_activate_back(const float *x, const float *dy, float *dx,
                                             const RnnPlaces at, long long dx_row_stride,
                                             long long dx_step_stride, int adds)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long count = at.batch * at.timesteps * RNN_OUTPUTS;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const RnnIndex of = rnn_index(i, at.timesteps, RNN_OUTPUTS);
        const float slope =
            rnn_slope(x[of.outer * at.x_row_stride + of.middle * at.x_step_stride + of.inner],
                      dy[of.outer * at.y_row_stride + of.middle * at.y_step_stride + of.inner]);
        float *to = dx + of.outer * dx_row_stride + of.middle * dx_step_stride + of.inner;
        *to = adds ? *to + slope : slope;
    }
}
#endif
#endif
