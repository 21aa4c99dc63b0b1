// Merge on the CPU: the two directions of a bidirectional layer become one, by RNN_MERGED(a, b).
#include "cpu/weightless.h"

#ifndef RNN_MERGED
#define RNN_OUTPUTS 64
#define RNN_MERGED(a, b) ((a) + (b))
#endif

static void rnn_run(const rnnc_cpu_args *args)
{
    for (int64_t row = 0; row < args->batch; row++)
        for (int64_t step = 0; step < args->timesteps; step++) {
            const int64_t at = row * args->x_row_stride + step * args->x_step_stride;
            const float *a = (const float *)args->x + at, *b = args->x2 + at;
            float *y = args->y + row * args->y_row_stride + step * args->y_step_stride;
            for (int64_t i = 0; i < RNN_OUTPUTS; i++)
                y[i] = RNN_MERGED(a[i], b[i]);
        }
}

RNN_DEFINE_CODE(0)
