// Dense on the CPU: y = activation(W*x + b) over all steps of all rows, RNN_TILE of them at a time.
// `rnn_activation` and the RNN_* numbers stand before this file.
#include "cpu/code.h"
#include "cpu/product.h"

#ifndef RNN_INPUTS
#define RNN_INPUTS 64
#define RNN_OUTPUTS 64
#define RNN_BIASES 1
RNN_INLINE rnn_f rnn_activation(rnn_f x)
{
    return x;
}
#endif

#define RNN_OUTPUT_WIDTH (RNN_PANELS(RNN_OUTPUTS) * RNN_WIDTH)
#define RNN_BIAS_AT RNN_MATRIX_FLOATS(RNN_OUTPUTS, (int64_t)RNN_INPUTS)

static size_t rnn_scratch_bytes(int64_t batch, int64_t timesteps)
{
    (void)batch, (void)timesteps;
    return sizeof(float) * RNN_TILE * RNN_OUTPUT_WIDTH;
}

static void rnn_pack_weights(const float *const weights[RNNC_WEIGHT_COUNT], void *memory)
{
    float *packed = memory;
    memset(packed, 0, sizeof(float) * (size_t)(RNN_BIAS_AT + RNN_OUTPUT_WIDTH));
    rnn_pack(weights[RNNC_WEIGHT_W], (const int[]){0}, 1, RNN_OUTPUTS, RNN_INPUTS, packed);
    rnn_pack_vectors(weights[RNNC_WEIGHT_B], RNN_BIASES, RNN_OUTPUTS, packed + RNN_BIAS_AT);
}

static void rnn_run(const rnnc_cpu_args *args)
{
    const float *x = args->x, *packed = args->packed, *bias = packed + RNN_BIAS_AT;
    float *product = args->scratch;
    const int64_t count = args->batch * args->timesteps;
    for (int64_t first = 0; first < count; first += RNN_TILE) {
        int64_t rows = count - first < RNN_TILE ? count - first : RNN_TILE;
        rnn_product(packed, RNN_PANELS(RNN_OUTPUTS), RNN_INPUTS, x + first * RNN_INPUTS, RNN_INPUTS,
                    product, RNN_OUTPUT_WIDTH, rows, 0);
        for (int64_t row = 0; row < rows; row++) {
            float *outputs = product + row * RNN_OUTPUT_WIDTH;
            for (int64_t i = 0; i < RNN_OUTPUTS; i += RNN_LANES)
                rnn_store(outputs + i, rnn_activation(rnn_load(outputs + i) + rnn_load(bias + i)));
            memcpy(args->y + (first + row) * RNN_OUTPUTS, outputs, sizeof(float) * RNN_OUTPUTS);
        }
    }
}

RNN_DEFINE_CODE(RNN_BIAS_AT + RNN_OUTPUT_WIDTH)
