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

RNN_DEFINE_CODE(0)
