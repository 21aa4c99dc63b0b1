// Dropout on the CPU: y = x / (1 - rate) for what is kept, else 0. A module for training copies x
// in runs that do not drop. Element (row, step, feature) is kept where the first word of
// Philox-4x32-10 under the run's seed, counter (feature, row, 2 * RNN_DROPOUT_INDEX, step), is at
// least rate * 2^32; with RNN_PER_SEQUENCE the step is 0 in the counter: one draw for all steps, as
// in Keras' layers.
#include "cpu/weightless.h"
#include "prim/philox.h"

#ifndef RNN_RATE
#define RNN_INPUTS 64
#define RNN_RATE 0.5f
#define RNN_PER_SEQUENCE 0
#define RNN_DROPOUT_INDEX 0
#endif

static void rnn_run(const rnnc_cpu_args *args)
{
    const int drops = !RNN_TRAINING || args->drops;
    const rnn_dropout draw = rnn_dropout_make(args->seed, 2 * RNN_DROPOUT_INDEX, RNN_RATE);
    for (int64_t row = 0; row < args->batch; row++)
        for (int64_t step = 0; step < args->timesteps; step++) {
            const float *x =
                (const float *)args->x + row * args->x_row_stride + step * args->x_step_stride;
            float *y = args->y + row * args->y_row_stride + step * args->y_step_stride;
            for (int64_t i = 0; i < RNN_INPUTS; i++)
                y[i] = !drops ? x[i]
                              : x[i] * rnn_dropout_scale(&draw, (unsigned)i, (unsigned)row,
                                                         RNN_PER_SEQUENCE ? 0 : (unsigned)step);
        }
}

#if RNN_TRAINING
#include "cpu/gradient.h"

/// The draws of the forward pass, drawn again.
static void rnn_backward(rnnc_cpu_backward_args *args)
{
    const rnn_dropout draw = rnn_dropout_make(args->forward.seed, 2 * RNN_DROPOUT_INDEX, RNN_RATE);
    if (!args->dx)
        return;
    if (!args->adds_dx)
        rnn_clear_dx(args, args->dx, RNN_INPUTS);
    for (int64_t row = 0; row < args->forward.batch; row++)
        for (int64_t step = args->forward.timesteps - 1; step >= 0; step--) {
            const float *dy = args->dy + row * args->dy_row_stride + step * args->dy_step_stride;
            float *dx = args->dx + row * args->dx_row_stride + step * args->dx_step_stride;
            for (int64_t i = 0; i < RNN_INPUTS; i++)
                dx[i] += dy[i] * rnn_dropout_scale(&draw, (unsigned)i, (unsigned)row,
                                                   RNN_PER_SEQUENCE ? 0 : (unsigned)step);
            rnn_find_nan(args, dx, RNN_INPUTS, step, row);
        }
}

#include "cpu/weightless_backward.h"
#endif

RNN_DEFINE_CODE(0)
