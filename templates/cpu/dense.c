// Dense on the CPU: y = activation(W*x + b) over all steps, RNN_TILE of them at a time: steps of a
// row, or of all rows where those lie in one line.
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
    rnn_pack(weights[RNNC_WEIGHT_W], (const int[]){0}, 1, RNN_OUTPUTS, RNN_OUTPUTS, RNN_INPUTS,
             packed);
    rnn_pack_vectors(weights[RNNC_WEIGHT_B], RNN_BIASES, RNN_OUTPUTS, packed + RNN_BIAS_AT);
}

/// `count` steps, x_stride and y_stride floats apart.
static void rnn_line(const rnnc_cpu_args *args, const float *x, int64_t x_stride, float *y,
                     int64_t y_stride, int64_t count)
{
    const float *packed = args->packed, *bias = packed + RNN_BIAS_AT;
    float *product = args->scratch;
    for (int64_t first = 0; first < count; first += RNN_TILE) {
        int64_t rows = count - first < RNN_TILE ? count - first : RNN_TILE;
        rnn_product(packed, RNN_PANELS(RNN_OUTPUTS), RNN_INPUTS, x + first * x_stride, x_stride,
                    product, RNN_OUTPUT_WIDTH, rows, 0);
        for (int64_t row = 0; row < rows; row++) {
            float *outputs = product + row * RNN_OUTPUT_WIDTH;
            for (int64_t i = 0; i < RNN_OUTPUTS; i += RNN_LANES)
                rnn_store(outputs + i, rnn_activation(rnn_load(outputs + i) + rnn_load(bias + i)));
            memcpy(y + (first + row) * y_stride, outputs, sizeof(float) * RNN_OUTPUTS);
        }
    }
}

static void rnn_run(const rnnc_cpu_args *args)
{
    const float *x = args->x;
    const int64_t batch = args->batch, timesteps = args->timesteps;
    if (timesteps == 1)
        rnn_line(args, x, args->x_row_stride, args->y, args->y_row_stride, batch);
    else if (args->x_row_stride == timesteps * args->x_step_stride &&
             args->y_row_stride == timesteps * args->y_step_stride)
        rnn_line(args, x, args->x_step_stride, args->y, args->y_step_stride, batch * timesteps);
    else
        for (int64_t row = 0; row < batch; row++)
            rnn_line(args, x + row * args->x_row_stride, args->x_step_stride,
                     args->y + row * args->y_row_stride, args->y_step_stride, timesteps);
}

#if RNN_TRAINING
#include "cpu/dense_backward.c"
#endif

RNN_DEFINE_CODE(RNN_BIAS_AT + RNN_OUTPUT_WIDTH)
