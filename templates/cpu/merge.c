// Merge on the CPU: the two directions of a bidirectional layer become one, by RNN_MERGED(a, b).
#include "cpu/weightless.h"

#ifndef RNN_MERGED
#define RNN_OUTPUTS 64
#define RNN_MERGED(a, b) ((a) + (b))
#define RNN_MERGE_SLOPE(other) 1
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

#if RNN_TRAINING
#include "cpu/gradient.h"

/// RNN_MERGE_SLOPE(other): how y changes with one input, given the other one.
static void rnn_backward(rnnc_cpu_backward_args *args)
{
    if (!args->adds_dx) {
        rnn_clear_dx(args, args->dx, RNN_OUTPUTS);
        rnn_clear_dx(args, args->dx2, RNN_OUTPUTS);
    }
    for (int64_t row = 0; row < args->forward.batch; row++)
        for (int64_t step = args->forward.timesteps - 1; step >= 0; step--) {
            const int64_t from =
                row * args->forward.x_row_stride + step * args->forward.x_step_stride;
            const int64_t to = row * args->dx_row_stride + step * args->dx_step_stride;
            const float *dy = args->dy + row * args->dy_row_stride + step * args->dy_step_stride;
            for (int64_t i = 0; i < RNN_OUTPUTS; i++) {
                args->dx[to + i] += dy[i] * RNN_MERGE_SLOPE(args->forward.x2[from + i]);
                args->dx2[to + i] +=
                    dy[i] * RNN_MERGE_SLOPE(((const float *)args->forward.x)[from + i]);
            }
            rnn_find_nan(args, args->dx + to, RNN_OUTPUTS, step, row);
        }
}

#include "cpu/weightless_backward.h"
#endif

RNN_DEFINE_CODE(0)
