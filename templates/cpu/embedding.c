// Embedding on the CPU: y[row] = E[token]. The runtime has checked that every token is a row of E.
#include "cpu/code.h"

#ifndef RNN_INPUTS
#define RNN_INPUTS 64
#define RNN_OUTPUTS 64
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
    for (int64_t i = 0; i < args->batch * args->timesteps; i++)
        memcpy(args->y + i * RNN_OUTPUTS, table + (int64_t)tokens[i] * RNN_OUTPUTS,
               sizeof(float) * RNN_OUTPUTS);
}

RNN_DEFINE_CODE((int64_t)RNN_INPUTS *RNN_OUTPUTS)
