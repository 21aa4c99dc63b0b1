// Backward pass of a dense layer on the CPU, behind dense.c: RNN_CHUNK steps of rows at a time.
// What the activation's derivative is taken at, W*x + b, is computed again where the derivative
// needs it.
#include "cpu/gradient.h"

#define RNN_DENSE_DEPTH RNN_PADDED((int64_t)RNN_OUTPUTS)
#define RNN_DENSE_WIDTH (RNN_PANELS((int64_t)RNN_INPUTS) * RNN_WIDTH)

static size_t rnn_tape_bytes(int64_t batch, int64_t timesteps)
{
    (void)batch, (void)timesteps;
    return 0;
}

static size_t rnn_backward_bytes(int64_t batch, int64_t timesteps)
{
    (void)batch, (void)timesteps;
    return sizeof(float) *
           (size_t)(RNN_BIAS_AT + RNN_OUTPUT_WIDTH +
                    RNN_MATRIX_FLOATS((int64_t)RNN_INPUTS, RNN_DENSE_DEPTH) +
                    RNN_CHUNK * (RNN_DENSE_DEPTH + RNN_OUTPUT_WIDTH + RNN_DENSE_WIDTH) +
                    RNN_CHUNK_PANELS((int64_t)RNN_INPUTS) + RNN_CHUNK_ROOM((int64_t)RNN_INPUTS));
}

typedef struct {
    float *packed, *transposed, *deltas, *products, *sums, *panels, *room;
    int64_t count;
    const float *x[RNN_CHUNK], *delta[RNN_CHUNK];
    float *dx[RNN_CHUNK];
} rnn_back;

/// What the chunk's steps give to all gradients.
static void rnn_back_chunk(const rnnc_cpu_backward_args *args, const rnn_back *back)
{
    if (args->weights[RNNC_WEIGHT_W]) {
        for (int64_t n = 0; n < back->count; n++)
            rnn_pack_entry(back->x[n], 0, RNN_INPUTS, n, back->count, back->panels);
        rnn_gradient(back->delta, 0, RNN_OUTPUTS, back->panels, RNN_INPUTS, back->count, back->room,
                     args->weights[RNNC_WEIGHT_W]);
    }
    if (RNN_BIASES && args->weights[RNNC_WEIGHT_B])
        rnn_gradient_sum(back->delta, 0, RNN_OUTPUTS, back->count, args->weights[RNNC_WEIGHT_B]);
    if (!args->dx)
        return;
    rnn_product(back->transposed, RNN_PANELS((int64_t)RNN_INPUTS), RNN_DENSE_DEPTH, back->deltas,
                RNN_DENSE_DEPTH, back->sums, RNN_DENSE_WIDTH, back->count, 0);
    for (int64_t n = 0; n < back->count; n++)
        for (int64_t i = 0; i < RNN_INPUTS; i++)
            back->dx[n][i] += back->sums[n * RNN_DENSE_WIDTH + i];
}

/// The delta of one step: dy times the activation's slope at W*x + b.
static void rnn_back_entry(rnnc_cpu_backward_args *args, rnn_back *back, int64_t row, int64_t step)
{
    const rnnc_cpu_args *forward = &args->forward;
    const int64_t n = back->count++;
    const float *dy = args->dy + row * args->dy_row_stride + step * args->dy_step_stride;
    float *delta = back->deltas + n * RNN_DENSE_DEPTH;
    back->x[n] =
        (const float *)forward->x + row * forward->x_row_stride + step * forward->x_step_stride;
    back->dx[n] = args->dx ? args->dx + row * args->dx_row_stride + step * args->dx_step_stride : 0;
    back->delta[n] = delta;
    memset(delta, 0, sizeof(float) * (size_t)RNN_DENSE_DEPTH);
    memcpy(delta, dy, sizeof(float) * RNN_OUTPUTS);
    if (!RNN_LINEAR) {
        rnn_product(back->packed, RNN_PANELS(RNN_OUTPUTS), RNN_INPUTS, back->x[n], 0,
                    back->products, RNN_OUTPUT_WIDTH, 1, 0);
        for (int64_t i = 0; i < RNN_OUTPUTS; i += RNN_LANES)
            rnn_store(delta + i, rnn_slope(rnn_load(back->products + i) +
                                               rnn_load(back->packed + RNN_BIAS_AT + i),
                                           rnn_load(delta + i)));
        for (int64_t i = RNN_OUTPUTS; i < RNN_DENSE_DEPTH; i++)
            delta[i] = 0;
    }
    rnn_find_nan(args, delta, RNN_OUTPUTS, step, row);
    if (back->count == RNN_CHUNK) {
        rnn_back_chunk(args, back);
        back->count = 0;
    }
}

static void rnn_backward(rnnc_cpu_backward_args *args)
{
    float *at = args->forward.scratch;
    rnn_back back = {.packed = at};
    at += RNN_BIAS_AT + RNN_OUTPUT_WIDTH;
    back.transposed = at;
    at += RNN_MATRIX_FLOATS((int64_t)RNN_INPUTS, RNN_DENSE_DEPTH);
    back.deltas = at;
    at += RNN_CHUNK * RNN_DENSE_DEPTH;
    back.products = at;
    at += RNN_CHUNK * RNN_OUTPUT_WIDTH;
    back.sums = at;
    at += RNN_CHUNK * RNN_DENSE_WIDTH;
    back.panels = at;
    at += RNN_CHUNK_PANELS((int64_t)RNN_INPUTS);
    back.room = at;
    if (!RNN_LINEAR)
        rnn_pack_weights(args->canonical, back.packed);
    rnn_pack_transposed(args->canonical[RNNC_WEIGHT_W], (const int[]){0}, 1, RNN_OUTPUTS, 0,
                        RNN_OUTPUTS, RNN_INPUTS, back.transposed);
    if (!args->adds_dx)
        rnn_clear_dx(args, args->dx, RNN_INPUTS);
    for (int64_t row = 0; row < args->forward.batch; row++)
        for (int64_t step = args->forward.timesteps - 1; step >= 0; step--)
            rnn_back_entry(args, &back, row, step);
    if (back.count)
        rnn_back_chunk(args, &back);
}

static const rnnc_cpu_training rnn_training = {rnn_tape_bytes, rnn_backward_bytes, rnn_backward};
