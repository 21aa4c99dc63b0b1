// What layers without weights give code.h for them: nothing to pack and no scratch.
#ifndef RNN_WEIGHTLESS_H
#define RNN_WEIGHTLESS_H

#include "cpu/code.h"

static size_t rnn_scratch_bytes(int64_t batch, int64_t timesteps)
{
    (void)batch, (void)timesteps;
    return 0;
}

static void rnn_pack_weights(const float *const weights[RNNC_WEIGHT_COUNT], void *packed)
{
    (void)weights, (void)packed;
}

#endif
