// Layers without a recurrence: embedding (rows of E by token) and activation, one element a thread,
// the feature innermost, bound by memory; and dense, the product of product.cuh that finishes with
// bias and activation.
// Tokens outside the table give rows of NaN: a kernel has no other way to say it.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -cubin templates/cuda/pointwise.cu
#include "cuda/prelude.cuh"
#include "cuda/product.cuh"

#ifndef RNN_OUTPUTS
#define RNN_INPUTS 64
#define RNN_OUTPUTS 64
#define RNN_DENSE 1
RNN_INLINE rnn_f rnn_activation(rnn_f x)
{
    return rnn_tanh(x);
}
#endif

/// y[row] = E[tokens[row]].
extern "C" __global__ void rnn_embed(const int *tokens, const float *table, float *y,
                                     long long rows)
{
    const long long step = (long long)gridDim.x * blockDim.x, count = rows * RNN_OUTPUTS;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int token = tokens[i / RNN_OUTPUTS];
        y[i] = token >= 0 && token < RNN_INPUTS
                   ? table[(long long)token * RNN_OUTPUTS + i % RNN_OUTPUTS]
                   : __int_as_float(0x7fffffff);
    }
}

/// y = activation(x + bias); x may be y. `bias` NULL: none.
extern "C" __global__ void rnn_finish(const float *x, const float *bias, float *y, long long rows)
{
    const long long step = (long long)gridDim.x * blockDim.x, count = rows * RNN_OUTPUTS;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        y[i] = rnn_activation(bias ? x[i] + bias[i % RNN_OUTPUTS] : x[i]);
}

#if RNN_DENSE
template <int Rows, int Columns> RNN_INLINE void rnn_multiply_dense(const RnnProduct &call)
{
    rnn_multiply_rows<Rows, Columns, RNN_INPUTS, RNN_OUTPUTS, RNN_OUTPUTS>(
        call, [&](int column, float sum) {
            return rnn_activation(call.bias ? sum + __ldg(call.bias + column) : sum);
        });
}

extern "C" __global__ void __launch_bounds__(256, 2) rnn_dense(const RnnProduct call)
{
    rnn_multiply_dense<128, 128>(call);
}

extern "C" __global__ void __launch_bounds__(256) rnn_dense_few(const RnnProduct call)
{
    rnn_multiply_dense<32, 64>(call);
}
#endif
