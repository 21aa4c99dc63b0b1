// Softmax cross-entropy of the logits of all steps and its gradient, in the image of sequence.cu. A
// CTA a step, which reads the logits twice and writes the gradient once, perhaps in their place;
// before it one CTA counts the targets that count, and after it one adds the steps' losses up in
// one order. A target outside of the classes is recorded, and its step gives NaN.
#ifndef RNN_CROSS_ENTROPY_CUH
#define RNN_CROSS_ENTROPY_CUH

#include "cuda/prim/sum.cuh"

enum { RNN_FAULT_TARGET = 6, RNN_LOSS_THREADS = 256 };

struct RnnLoss {
    long long batch, timesteps, classes;
    RnnArray logits, gradient; ///< gradient.at NULL: not wanted
    const int *targets;        ///< -1: left out
    long long target_row_stride, target_step_stride;
    float *losses, *counted; ///< [B * T]; [1]: how many targets count
    float *loss;             ///< [1]: the mean; NULL: not wanted
};

RNN_INLINE int rnn_target(const RnnLoss &call, long long i)
{
    const long long row = i / call.timesteps, step = i - row * call.timesteps;
    return call.targets[row * call.target_row_stride + step * call.target_step_stride];
}

/// One CTA.
extern "C" __global__ void __launch_bounds__(RNN_LOSS_THREADS)
    rnn_count_targets(const RnnLoss call, RnnFault *fault)
{
    float count = 0.0f; // whole numbers, exact up to 2^24 a thread
#pragma unroll 1
    for (long long i = threadIdx.x; i < call.batch * call.timesteps; i += RNN_LOSS_THREADS) {
        const int target = rnn_target(call, i);
        if (target < -1 || target >= call.classes)
            rnn_report(fault, RNN_FAULT_TARGET, i / call.timesteps, i % call.timesteps, target);
        count += target >= 0 ? 1.0f : 0.0f;
    }
    count = rnn_sum_cta<RNN_LOSS_THREADS / 32>(count);
    if (threadIdx.x == 0)
        *call.counted = count;
}

/// The largest value of the CTA, but for NaN; to all threads.
RNN_INLINE float rnn_most_cta(float value)
{
    __shared__ float of_warp[RNN_LOSS_THREADS / 32];
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, mask));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
#pragma unroll
    for (int warp = 1; warp < RNN_LOSS_THREADS / 32; warp++)
        value = fmaxf(value, of_warp[warp]);
    return value;
}

/// -log softmax(logits)[target] of each step, and its gradient over the targets that count.
extern "C" __global__ void __launch_bounds__(RNN_LOSS_THREADS) rnn_cross_entropy(const RnnLoss call)
{
    const float scale = 1.0f / *call.counted;
#pragma unroll 1
    for (long long i = blockIdx.x; i < call.batch * call.timesteps; i += gridDim.x) {
        const long long row = i / call.timesteps, step = i - row * call.timesteps;
        const float *logits =
            call.logits.at + row * call.logits.row_stride + step * call.logits.step_stride;
        float *gradient = call.gradient.at ? call.gradient.at + row * call.gradient.row_stride +
                                                 step * call.gradient.step_stride
                                           : nullptr;
        const int target = rnn_target(call, i);
        const bool is_bad = target < -1 || target >= call.classes;
        const float wanted = is_bad ? RNN_NAN : target < 0 ? 0.0f : logits[target];
        float most = __int_as_float(0xff800000), sum = 0.0f;
#pragma unroll 1
        for (long long k = threadIdx.x; k < call.classes && target >= 0; k += RNN_LOSS_THREADS)
            most = fmaxf(most, logits[k]);
        most = rnn_most_cta(most);
#pragma unroll 1
        for (long long k = threadIdx.x; k < call.classes && target >= 0; k += RNN_LOSS_THREADS)
            sum += expf(logits[k] - most);
        sum = rnn_sum_cta<RNN_LOSS_THREADS / 32>(sum);
        const float each = is_bad ? RNN_NAN : scale / sum, own = is_bad ? RNN_NAN : scale;
        if (threadIdx.x == 0)
            call.losses[i] = is_bad ? RNN_NAN : target < 0 ? 0.0f : logf(sum) - (wanted - most);
#pragma unroll 1
        for (long long k = threadIdx.x; k < call.classes && gradient; k += RNN_LOSS_THREADS)
            gradient[k] =
                target == -1 ? 0.0f : expf(logits[k] - most) * each - (k == target ? own : 0.0f);
    }
}

/// loss = the mean, 0 where no target counts. One CTA.
extern "C" __global__ void __launch_bounds__(RNN_LOSS_THREADS) rnn_add_losses(const RnnLoss call)
{
    float sum = 0.0f;
#pragma unroll 1
    for (long long i = threadIdx.x; i < call.batch * call.timesteps; i += RNN_LOSS_THREADS)
        sum += call.losses[i];
    sum = rnn_sum_cta<RNN_LOSS_THREADS / 32>(sum);
    if (threadIdx.x == 0)
        *call.loss = *call.counted > 0.0f ? sum / *call.counted : sum;
}

#endif
