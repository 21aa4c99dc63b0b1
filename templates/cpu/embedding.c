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

RNN_DEFINE_CODE((int64_t)RNN_INPUTS *RNN_OUTPUTS)
