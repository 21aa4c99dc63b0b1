// Activation layer on the CPU: y = activation(x), element by element.
#include "cpu/weightless.h"

#ifndef RNN_OUTPUTS
#define RNN_OUTPUTS 64
RNN_INLINE rnn_f rnn_activation(rnn_f x)
{
    return x;
}
#endif

RNN_INLINE void rnn_apply(const float *x, float *y)
{
    for (int64_t i = 0; i < RNN_OUTPUTS; i += RNN_LANES) {
        rnn_f value = {0};
        const int64_t left = RNN_OUTPUTS - i;
        const size_t bytes = sizeof(float) * (size_t)(left < RNN_LANES ? left : RNN_LANES);
        memcpy(&value, x + i, bytes);
        value = rnn_activation(value);
        memcpy(y + i, &value, bytes);
    }
}

static void rnn_run(const rnnc_cpu_args *args)
{
    for (int64_t row = 0; row < args->batch; row++)
        for (int64_t step = 0; step < args->timesteps; step++)
            rnn_apply((const float *)args->x + row * args->x_row_stride +
                          step * args->x_step_stride,
                      args->y + row * args->y_row_stride + step * args->y_step_stride);
}

#if RNN_TRAINING
#include "cpu/gradient.h"

/// `count` of a vector's lanes: dx += dy times the slope at x.
RNN_INLINE void rnn_back_vector(const float *x, const float *dy, float *dx, int64_t count)
{
    rnn_f at = {0}, seed = {0}, sum = {0};
    const size_t bytes = sizeof(float) * (size_t)(count < RNN_LANES ? count : RNN_LANES);
    memcpy(&at, x, bytes);
    memcpy(&seed, dy, bytes);
    memcpy(&sum, dx, bytes);
    sum += rnn_slope(at, seed);
    memcpy(dx, &sum, bytes);
}

static void rnn_backward(rnnc_cpu_backward_args *args)
{
    if (!args->dx)
        return;
    if (!args->adds_dx)
        rnn_clear_dx(args, args->dx, RNN_OUTPUTS);
    for (int64_t row = 0; row < args->forward.batch; row++)
        for (int64_t step = args->forward.timesteps - 1; step >= 0; step--) {
            const float *x = (const float *)args->forward.x + row * args->forward.x_row_stride +
                             step * args->forward.x_step_stride;
            const float *dy = args->dy + row * args->dy_row_stride + step * args->dy_step_stride;
            float *dx = args->dx + row * args->dx_row_stride + step * args->dx_step_stride;
            for (int64_t i = 0; i < RNN_OUTPUTS; i += RNN_LANES)
                rnn_back_vector(x + i, dy + i, dx + i, RNN_OUTPUTS - i);
            rnn_find_nan(args, dx, RNN_OUTPUTS, step, row);
        }
}

#include "cpu/weightless_backward.h"
#endif

RNN_DEFINE_CODE(0)
