// Masking on the CPU: steps whose features all equal RNN_MASK_VALUE are masked for the layers that
// follow, and 0 in y; the others are copied.
#include "cpu/weightless.h"

#ifndef RNN_MASK_VALUE
#define RNN_INPUTS 64
#define RNN_MASK_VALUE 0.0f
#endif

static void rnn_run(const rnnc_cpu_args *args)
{
    for (int64_t row = 0; row < args->batch; row++)
        for (int64_t step = 0; step < args->timesteps; step++) {
            const float *x =
                (const float *)args->x + row * args->x_row_stride + step * args->x_step_stride;
            float *y = args->y + row * args->y_row_stride + step * args->y_step_stride;
            int differs = 0;
            for (int64_t i = 0; i < RNN_INPUTS; i++)
                differs |= x[i] != RNN_MASK_VALUE;
            if (!differs)
                args->mask[row * args->timesteps + step] = 0;
            for (int64_t i = 0; i < RNN_INPUTS; i++)
                y[i] = differs ? x[i] : 0.0f;
        }
}

#if RNN_TRAINING
#include "cpu/gradient.h"

/// What was copied gets its gradient; a masked step has no part in y.
static void rnn_backward(rnnc_cpu_backward_args *args)
{
    if (!args->dx)
        return;
    if (!args->adds_dx)
        rnn_clear_dx(args, args->dx, RNN_INPUTS);
    for (int64_t row = 0; row < args->forward.batch; row++)
        for (int64_t step = args->forward.timesteps - 1; step >= 0; step--) {
            const float *x = (const float *)args->forward.x + row * args->forward.x_row_stride +
                             step * args->forward.x_step_stride;
            const float *dy = args->dy + row * args->dy_row_stride + step * args->dy_step_stride;
            float *dx = args->dx + row * args->dx_row_stride + step * args->dx_step_stride;
            int differs = 0;
            for (int64_t i = 0; i < RNN_INPUTS; i++)
                differs |= x[i] != RNN_MASK_VALUE;
            for (int64_t i = 0; i < RNN_INPUTS && differs; i++)
                dx[i] += dy[i];
            rnn_find_nan(args, dx, RNN_INPUTS, step, row);
        }
}

#include "cpu/weightless_backward.h"
#endif

RNN_DEFINE_CODE(0)
