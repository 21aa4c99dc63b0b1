// Embedding on the CPU: y[row] = E[token]. The runtime has checked that every token is a row of E.
// With RNN_MASK_ZERO token 0 is padding: it masks its step for the layers that follow.
#include "cpu/code.h"

#ifndef RNN_INPUTS
#define RNN_INPUTS 64
#define RNN_OUTPUTS 64
#define RNN_MASK_ZERO 0
#endif

static size_t rnn_scratch_bytes(int64_t batch, int64_t timesteps)
{
    (void)batch, (void)timesteps;
    return 0;
}

static void rnn_pack_weights(const float *const weights[RNNC_WEIGHT_COUNT], void *packed)
{
    memcpy(packed, weights[RNNC_WEIGHT_E], sizeof(float) * (size_t)RNN_INPUTS * RNN_OUTPUTS);
}

static void rnn_run(const rnnc_cpu_args *args)
{
    const int32_t *tokens = args->x;
    const float *table = args->packed;
    for (int64_t row = 0; row < args->batch; row++)
        for (int64_t step = 0; step < args->timesteps; step++) {
            const int64_t token = tokens[row * args->x_row_stride + step * args->x_step_stride];
            memcpy(args->y + row * args->y_row_stride + step * args->y_step_stride,
                   table + token * RNN_OUTPUTS, sizeof(float) * RNN_OUTPUTS);
            if (RNN_MASK_ZERO && token == 0)
                args->mask[row * args->timesteps + step] = 0;
        }
}

#if RNN_TRAINING
#include "cpu/gradient.h"

/// The rows of E that tokens took, in the order of rows and steps.
static void rnn_backward(rnnc_cpu_backward_args *args)
{
    const int32_t *tokens = args->forward.x;
    float *gradient = args->weights[RNNC_WEIGHT_E];
    for (int64_t row = 0; row < args->forward.batch; row++)
        for (int64_t step = args->forward.timesteps - 1; step >= 0; step--) {
            const int64_t token =
                tokens[row * args->forward.x_row_stride + step * args->forward.x_step_stride];
            const float *dy = args->dy + row * args->dy_row_stride + step * args->dy_step_stride;
            rnn_find_nan(args, dy, RNN_OUTPUTS, step, row);
            for (int64_t i = 0; i < RNN_OUTPUTS && gradient; i++)
                gradient[token * RNN_OUTPUTS + i] += dy[i];
        }
}

#include "cpu/weightless_backward.h"
#endif

RNN_DEFINE_CODE((int64_t)RNN_INPUTS *RNN_OUTPUTS)
