/* What the deltas of all steps give, N = T*B rows of them at once: dW, dx, dR, dP and the sums that
 * are the gradients of b, rb and p. Gates whose deltas lie side by side, as their rows in the
 * weight do, go together. */
#include "train_cell.h"

/// Gates from `first` on, of `count`, whose deltas follow one another; 0 where the first has none.
static int32_t run_length(const int32_t *deltas, int32_t first, int32_t count)
{
    int32_t length = 0;
    while (first + length < count && deltas[first] >= 0 &&
           deltas[first + length] == deltas[first] + length)
        length++;
    return length;
}

/// dW += delta^T * x.
static rnnc_status sum_input(const rnnc_train_cell *cell, const rnnc_backward_call *call,
                             int32_t gate, int32_t gates)
{
    const rnnc_layer_desc *layer = cell->options.layer;
    float *gradient = call->weights[RNNC_WEIGHT_W];
    const rnnc_cuda_gemm product = {.a =
                                        cell->rows + cell->delta_at.at[cell->training->input[gate]],
                                    .b = cell->x,
                                    .c = gradient + gate * layer->units * layer->inputs,
                                    .turns_a = true,
                                    .adds = true,
                                    .m = gates * layer->units,
                                    .n = layer->inputs,
                                    .k = call->forward.batch * call->forward.timesteps,
                                    .a_stride = cell->delta_at.stride,
                                    .b_stride = layer->inputs,
                                    .c_stride = layer->inputs};
    return gradient ? rnnc_cuda_blas_multiply(cell->options.blas, &product) : RNNC_OK;
}

/// x, whose memory is free once dW is made, = delta * W, or += it.
static rnnc_status return_input(const rnnc_train_cell *cell, const rnnc_backward_call *call,
                                int32_t gate, int32_t gates, bool adds)
{
    const rnnc_layer_desc *layer = cell->options.layer;
    const rnnc_cuda_gemm product = {
        .a = cell->rows + cell->delta_at.at[cell->training->input[gate]],
        .b = cell->weights[RNNC_WEIGHT_W] + gate * layer->units * layer->inputs,
        .c = cell->x,
        .adds = adds,
        .m = call->forward.batch * call->forward.timesteps,
        .n = layer->inputs,
        .k = gates * layer->units,
        .a_stride = cell->delta_at.stride,
        .b_stride = layer->inputs,
        .c_stride = layer->inputs};
    return rnnc_cuda_blas_multiply(cell->options.blas, &product);
}

static rnnc_status sum_inputs(const rnnc_train_cell *cell, const rnnc_backward_call *call)
{
    const rnnc_layer_desc *layer = cell->options.layer;
    const int32_t *deltas = cell->training->input, count = layer->input_gates;
    const rnnc_cuda_moves *moves = cell->options.moves;
    rnnc_status status = RNNC_OK;
    for (int32_t g = 0, length; g < count && status == RNNC_OK; g += length ? length : 1)
        if ((length = run_length(deltas, g, count)) > 0)
            status = sum_input(cell, call, g, length);
    if (!call->dx || status != RNNC_OK)
        return status;
    bool adds = false;
    for (int32_t g = 0, length; g < count && status == RNNC_OK; g += length ? length : 1)
        if ((length = run_length(deltas, g, count)) > 0) {
            status = return_input(cell, call, g, length, adds);
            adds = true;
        }
    const rnnc_cuda_steps steps = rnnc_cuda_steps_of(moves, &call->forward, layer->inputs);
    const rnnc_cuda_array dx = rnnc_cuda_dx_of(call);
    if (status != RNNC_OK)
        return status;
    if (adds)
        return rnnc_cuda_scatter(moves, steps, cell->x, dx, call->adds_dx);
    return call->adds_dx ? RNNC_OK : rnnc_cuda_clear(moves, steps, dx); // x has no part in y
}

/// The gradient of the matrix of a stage's phase: delta^T * operand, head beside head.
static rnnc_status sum_matrix(const rnnc_train_cell *cell, const rnnc_backward_call *call,
                              const rnnc_stage_desc *stage)
{
    const rnnc_phase_desc *phase = &cell->options.layer->phases[stage->phase];
    const int64_t units = phase->size / phase->heads, depth = phase->operand_size / phase->heads;
    float *gradient = call->weights[phase->matrix];
    rnnc_cuda_gemm product = {.turns_a = true,
                              .adds = true,
                              .n = depth,
                              .k = call->forward.batch * call->forward.timesteps,
                              .a_stride = cell->delta_at.stride,
                              .b_stride = phase->operand_size,
                              .c_stride = depth,
                              .heads = phase->heads,
                              .a_apart = units,
                              .b_apart = depth,
                              .c_apart = units * depth};
    product.b = cell->scaled[stage->phase];
    if (!product.b && phase->operand_is_state) {
        product.b = cell->states[stage->operand];
    } else if (!product.b) {
        product.b = cell->saved + cell->saved_at.at[stage->operand];
        product.b_stride = cell->saved_at.stride;
    }
    rnnc_status status = RNNC_OK;
    for (int32_t g = 0, length; g < phase->row_count && gradient && status == RNNC_OK;
         g += length) {
        length = rnnc_train_rows_together(phase, g);
        product.a = cell->rows + cell->delta_at.at[stage->first_delta + g];
        product.c = gradient + phase->rows[g] * phase->size * depth;
        product.m = length * units;
        status = rnnc_cuda_blas_multiply(cell->options.blas, &product);
    }
    return status;
}

/// The gradient of b, rb or p: sums of deltas.
static rnnc_status sum_vectors(const rnnc_train_cell *cell, const rnnc_backward_call *call,
                               rnnc_weight_kind kind, const int32_t deltas[RNNC_GATES_MAX])
{
    const rnnc_layer_desc *layer = cell->options.layer;
    float *gradient = call->weights[kind];
    if (layer->weights[kind] < 0 || !gradient)
        return RNNC_OK;
    const int64_t floats = cell->options.module->tensors[layer->weights[kind]].info.dims[0];
    const int32_t count = (int32_t)(floats / layer->units);
    rnnc_status status = RNNC_OK;
    for (int32_t g = 0, length; g < count && status == RNNC_OK; g += length ? length : 1)
        if ((length = run_length(deltas, g, count)) > 0)
            status = rnnc_cuda_blas_sum(
                cell->options.blas, cell->rows + cell->delta_at.at[deltas[g]],
                call->forward.batch * call->forward.timesteps, length * layer->units,
                cell->delta_at.stride, gradient + g * layer->units);
    return status;
}

/// The deltas of all steps as an array [B, T, ...].
static rnnc_status find_nan(const rnnc_train_cell *cell, const rnnc_layer_call *call)
{
    const rnnc_layer_training *training = cell->training;
    const int32_t last = training->delta_count - 1;
    const int64_t width = last < 0 ? 0 : cell->delta_at.at[last] + training->delta_sizes[last];
    const rnnc_cuda_array deltas = {cell->rows, cell->delta_at.stride,
                                    call->batch * cell->delta_at.stride};
    return rnnc_cuda_find_nan(cell->options.moves,
                              rnnc_cuda_steps_of(cell->options.moves, call, width), call->layer,
                              deltas);
}

rnnc_status rnnc_train_cell_sums(const rnnc_train_cell *cell, const rnnc_backward_call *call)
{
    const rnnc_layer_training *training = cell->training;
    rnnc_status status = call->finds_nan ? find_nan(cell, &call->forward) : RNNC_OK;
    if (status == RNNC_OK)
        status = sum_inputs(cell, call);
    for (int32_t i = 0; i < training->stage_count && status == RNNC_OK; i++)
        if (training->stages[i].phase >= 0)
            status = sum_matrix(cell, call, &training->stages[i]);
    if (status == RNNC_OK)
        status = sum_vectors(cell, call, RNNC_WEIGHT_B, training->bias);
    if (status == RNNC_OK)
        status = sum_vectors(cell, call, RNNC_WEIGHT_RB, training->recurrent_bias);
    if (status == RNNC_OK)
        status = sum_vectors(cell, call, RNNC_WEIGHT_PEEPHOLE, training->parameter);
    return status;
}
