/* A cell layer in training: see train_cell.h. */
#include "train_cell.h"

#include <string.h>

#include "../layer.h"

enum { OUT_OF_MEMORY = 2, VECTOR_FLOATS = 4 };

rnnc_status rnnc_train_cell_check(const rnnc_train_cell *cell, CUresult result, const char *doing)
{
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    cell->options.cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(
        cell->options.error, result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
        "layer %s, %s: %s", cell->options.layer->name, doing, words ? words : "unknown error");
}

rnnc_status rnnc_train_cell_alloc(rnnc_train_cell *cell, int64_t floats, float **out)
{
    const rnnc_cuda_driver *cuda = cell->options.cuda;
    CUdeviceptr memory = 0;
    *out = NULL;
    if (floats == 0)
        return RNNC_OK;
    if (cell->memory_count == RNNC_TRAIN_MEMORIES)
        return rnnc_train_cell_check(cell, OUT_OF_MEMORY, "counting its memories");
    CUresult result = cuda->cuMemAlloc(&memory, (size_t)floats * sizeof(float));
    if (!result) {
        cell->memories[cell->memory_count++] = memory;
        result =
            cuda->cuMemsetD8Async(memory, 0, (size_t)floats * sizeof(float), cell->options.stream);
    }
    *out = (float *)memory;
    return rnnc_train_cell_check(cell, result, "allocating what training saves");
}

static rnnc_train_vectors place_vectors(const int64_t *sizes, int32_t count)
{
    rnnc_train_vectors placed = {0};
    int64_t at = 0;
    for (int32_t i = 0; i < count; i++) {
        placed.at[i] = at;
        at += sizes[i];
    }
    placed.stride = (at + VECTOR_FLOATS - 1) / VECTOR_FLOATS * VECTOR_FLOATS;
    return placed;
}

static bool is_saved(const rnnc_train_cell *cell, int state)
{
    return cell->options.training && (cell->training->states >> state & 1);
}

static rnnc_status open_states(rnnc_train_cell *cell)
{
    const rnnc_cuda_layer_options *options = &cell->options;
    const rnnc_layer_desc *layer = options->layer;
    const int64_t B = options->max_batch, T = options->max_timesteps;
    rnnc_status status = RNNC_OK;
    for (int i = 0; i < layer->state_count && status == RNNC_OK; i++)
        status = rnnc_train_cell_alloc(
            cell, (is_saved(cell, i) ? T + 1 : 2) * B * layer->state_sizes[i], &cell->states[i]);
    for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++) {
        const rnnc_phase_desc *phase = &layer->phases[p];
        if (layer->recurrent_dropout > 0 && phase->row_count > 0 && phase->matrix == RNNC_WEIGHT_R)
            status = rnnc_train_cell_alloc(
                cell, (options->training ? T + 1 : 2) * B * phase->operand_size, &cell->scaled[p]);
    }
    return status;
}

static rnnc_status open_seed(rnnc_train_cell *cell)
{
    bool draws = false;
    for (int i = 0; i < cell->options.layer->state_count; i++)
        draws |= cell->training->zoneout[i] > 0;
    if (!draws)
        return RNNC_OK;
    return rnnc_train_cell_check(
        cell, cell->options.cuda->cuMemAlloc(&cell->seed, sizeof(uint64_t)), "allocating a seed");
}

rnnc_status rnnc_train_cell_open(const rnnc_cuda_layer_options *options, rnnc_train_cell *cell)
{
    const rnnc_layer_desc *layer = options->layer;
    const rnnc_layer_training *training =
        &rnnc_module_training(options->module)->layers[layer - options->module->layers];
    const int64_t B = options->max_batch, T = options->max_timesteps, N = B * T;
    memset(cell, 0, sizeof *cell);
    cell->options = *options;
    cell->training = training;
    cell->saved_at = place_vectors(training->saved_sizes, training->saved_count);
    cell->delta_at = place_vectors(training->delta_sizes, training->delta_count);
    cell->input_stride =
        (layer->input_gates * layer->units + VECTOR_FLOATS - 1) / VECTOR_FLOATS * VECTOR_FLOATS;
    const int64_t deltas = options->training ? cell->delta_at.stride : 0;
    const int64_t widest = deltas > cell->input_stride ? deltas : cell->input_stride;
    rnnc_status status =
        rnnc_train_cell_alloc(cell, layer->input_gates ? N * layer->inputs : 0, &cell->x);
    if (status == RNNC_OK)
        status = rnnc_train_cell_alloc(cell, N * widest, &cell->rows);
    if (status == RNNC_OK)
        status = open_states(cell);
    if (status != RNNC_OK || !options->training)
        return status;
    // At least something, for its address tells that the run saves.
    status = rnnc_train_cell_alloc(cell, N * cell->saved_at.stride + 4, &cell->saved);
    if (status == RNNC_OK)
        status = rnnc_train_cell_alloc(cell, N * 2 * training->norm_count, &cell->statistics);
    return status == RNNC_OK ? open_seed(cell) : status;
}

void rnnc_train_cell_close(rnnc_train_cell *cell)
{
    for (int i = 0; i < cell->memory_count; i++)
        cell->options.cuda->cuMemFree(cell->memories[i]);
    for (int i = 0; i < RNNC_WEIGHT_COUNT; i++)
        if (cell->own[i])
            cell->options.cuda->cuMemFree(cell->own[i]);
    if (cell->seed)
        cell->options.cuda->cuMemFree(cell->seed);
    memset(cell, 0, sizeof *cell);
}

rnnc_status rnnc_train_cell_set_weights(rnnc_train_cell *cell,
                                        const float *const weights[RNNC_WEIGHT_COUNT])
{
    const rnnc_cuda_layer_options *options = &cell->options;
    CUresult result = options->cuda->cuStreamSynchronize(options->stream);
    for (int kind = 0; kind < RNNC_WEIGHT_COUNT && !result; kind++) {
        const int32_t tensor = options->layer->weights[kind];
        if (tensor < 0 || !weights[kind])
            continue;
        const rnnc_tensor_info *info = &options->module->tensors[tensor].info;
        size_t bytes = sizeof(float);
        for (int32_t i = 0; i < info->ndim; i++)
            bytes *= (size_t)info->dims[i];
        if (!cell->own[kind])
            result = options->cuda->cuMemAlloc(&cell->own[kind], bytes);
        if (!result)
            result = rnnc_cuda_write(options->cuda, options->stream, cell->own[kind], weights[kind],
                                     bytes);
        cell->weights[kind] = (const float *)cell->own[kind];
    }
    return rnnc_train_cell_check(cell, result, "copying weights");
}

float *rnnc_train_state(const rnnc_train_cell *cell, int index, int64_t step, int64_t batch)
{
    const int64_t slot = is_saved(cell, index) ? step : step & 1;
    return cell->states[index] + slot * batch * cell->options.layer->state_sizes[index];
}

float *rnnc_train_scaled(const rnnc_train_cell *cell, int index, int64_t step, int64_t batch)
{
    const int64_t slot = cell->options.training ? step : step & 1;
    return cell->scaled[index] ? cell->scaled[index] +
                                     slot * batch * cell->options.layer->phases[index].operand_size
                               : NULL;
}

int32_t rnnc_train_rows_together(const rnnc_phase_desc *phase, int32_t first)
{
    int32_t length = 1;
    while (phase->heads == 1 && first + length < phase->row_count &&
           phase->rows[first + length] == phase->rows[first] + length)
        length++;
    return length;
}

rnnc_train_step rnnc_train_step_of(const rnnc_train_cell *cell, const rnnc_layer_call *call)
{
    return (rnnc_train_step){.bias = cell->weights[RNNC_WEIGHT_B],
                             .recurrent_bias = cell->weights[RNNC_WEIGHT_RB],
                             .parameter = cell->weights[RNNC_WEIGHT_PEEPHOLE],
                             .order = call->order,
                             .rows = call->rows,
                             .scale = call->recurrent_scale,
                             .seed = cell->seed,
                             .batch = call->batch,
                             .timesteps = call->timesteps};
}

rnnc_status rnnc_train_cell_write_seed(const rnnc_train_cell *cell, const rnnc_layer_call *call)
{
    const rnnc_cuda_layer_options *options = &cell->options;
    const unsigned low = (unsigned)call->seed, high = (unsigned)(call->seed >> 32);
    if (!cell->seed)
        return RNNC_OK;
    CUresult result = options->cuda->cuMemsetD32Async(cell->seed, low, 1, options->stream);
    if (!result)
        result = options->cuda->cuMemsetD32Async(cell->seed + 4, high, 1, options->stream);
    return rnnc_train_cell_check(cell, result, "writing a seed");
}

static rnnc_status copy(const rnnc_train_cell *cell, const float *from, float *to, int64_t floats)
{
    return rnnc_train_cell_check(
        cell,
        cell->options.cuda->cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from,
                                              (size_t)floats * sizeof(float), cell->options.stream),
        "copying states");
}

rnnc_status rnnc_train_cell_begin(const rnnc_train_cell *cell, const rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = cell->options.layer;
    const int64_t B = call->batch, columns = layer->input_gates * layer->units;
    rnnc_status status = RNNC_OK;
    for (int i = 0; i < layer->state_count && status == RNNC_OK; i++)
        status =
            copy(cell, call->states[i], rnnc_train_state(cell, i, 0, B), B * layer->state_sizes[i]);
    for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++) {
        const rnnc_phase_desc *phase = &layer->phases[p];
        if (cell->scaled[p] && phase->operand_is_state)
            status = rnnc_cuda_scale(cell->options.moves, call->states[phase->operand],
                                     call->recurrent_scale, rnnc_train_scaled(cell, p, 0, B),
                                     B * phase->operand_size);
    }
    if (columns == 0 || status != RNNC_OK)
        return status;
    status = rnnc_cuda_gather(cell->options.moves,
                              rnnc_cuda_steps_of(cell->options.moves, call, layer->inputs),
                              rnnc_cuda_x_of(call), cell->x);
    const rnnc_cuda_gemm product = {.a = cell->x,
                                    .b = cell->weights[RNNC_WEIGHT_W],
                                    .c = cell->rows,
                                    .turns_b = true,
                                    .m = B * call->timesteps,
                                    .n = columns,
                                    .k = layer->inputs,
                                    .a_stride = layer->inputs,
                                    .b_stride = layer->inputs,
                                    .c_stride = cell->input_stride};
    return status == RNNC_OK ? rnnc_cuda_blas_multiply(cell->options.blas, &product) : status;
}

rnnc_status rnnc_train_cell_end(const rnnc_train_cell *cell, const rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = cell->options.layer;
    rnnc_status status = RNNC_OK;
    for (int i = 0; i < layer->state_count && status == RNNC_OK; i++)
        status = copy(cell, rnnc_train_state(cell, i, call->timesteps, call->batch),
                      call->states[i], call->batch * layer->state_sizes[i]);
    return status;
}
