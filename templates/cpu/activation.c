// Activation layer on the CPU: y = activation(x), element by element.
#include "cpu/code.h"

#ifndef RNN_OUTPUTS
#define RNN_OUTPUTS 64
RNN_INLINE rnn_f rnn_activation(rnn_f x)
{
    return x;
}
#endif

static size_t rnn_scratch_bytes(int64_t batch, int64_t timesteps)
{
    (void)batch, (void)timesteps;
    return 0;
}

static void rnn_pack_weights(const float *const weights[RNNC_WEIGHT_COUNT], void *packed)
{
    (void)weights, (void)packed;
}

static void rnn_run(const rnnc_cpu_args *args)
{
    const float *x = args->x;
    const int64_t count = args->batch * args->timesteps * RNN_OUTPUTS;
    for (int64_t i = 0; i < count; i += RNN_LANES) {
        rnn_f value = {0};
        size_t bytes = sizeof(float) * (size_t)(count - i < RNN_LANES ? count - i : RNN_LANES);
        memcpy(&value, x + i, bytes);
        value = rnn_activation(value);
        memcpy(args->y + i, &value, bytes);
    }
}

RNN_DEFINE_CODE(0)
