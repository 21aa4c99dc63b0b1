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

RNN_DEFINE_CODE(0)
