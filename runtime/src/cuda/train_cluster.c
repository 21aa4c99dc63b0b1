/* Variant train_cluster, host side: W*x by cuBLAS and one launch for all steps
 * (templates/cuda/persistent_cluster.cu with its tape); back one launch for all steps
 * (templates/cuda/cluster_gradient.cuh), and the products over all steps. Each pass is issued
 * plainly: there are some ten launches in it. */
#include <string.h>

#include "../memory.h"
#include "packing.h"
#include "sequence.h"
#include "train_cell.h"

/// One of the two kernels and how it is launched.
typedef struct {
    CUfunction run, pack;
    float *packed;
    int64_t ctas, threads, rows, shared_bytes;
    int64_t clusters; ///< that run at once
} Kernel;

typedef struct {
    rnnc_train_cell cell;
    Kernel forward, back;
} ClusterState;

/// RnnRun of templates/cuda/persistent_cluster.cu in training.
typedef struct {
    const float *input, *weights, *bias, *recurrent_bias, *parameter;
    float *y;
    float *states[RNNC_STATES_MAX];
    long long batch, timesteps, y_row_stride, y_step_stride;
    const int32_t *order;
    const rnnc_row *rows;
    const float *recurrent_scale;
    CUdeviceptr fault;
    int fault_kind, layer;
    float *saved, *kept[RNNC_STATES_MAX], *operands[RNNC_PHASES_MAX];
    CUdeviceptr seed;
} RunArguments;

/// RnnBackRun of templates/cuda/back_product.cuh.
typedef struct {
    rnnc_train_step at;
    const float *weights;
    const float *states[RNNC_STATES_MAX], *saved;
    float *adjoints[RNNC_STATES_MAX], *deltas;
    const float *dy;
    long long dy_row_stride, dy_step_stride;
    CUdeviceptr fault;
    int fault_kind, layer;
} BackArguments;

static void destroy(void *memory)
{
    ClusterState *state = memory;
    if (!state)
        return;
    rnnc_train_cell_close(&state->cell);
    rnnc_memory_free(state);
}

static CUlaunchConfig launch_of(const ClusterState *state, const Kernel *kernel, int64_t clusters,
                                CUlaunchAttribute *attribute)
{
    *attribute =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                            .value.clusterDim = {.x = (unsigned)kernel->ctas, .y = 1, .z = 1}};
    return (CUlaunchConfig){.gridDimX = (unsigned)(clusters * kernel->ctas),
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = (unsigned)kernel->threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .sharedMemBytes = (unsigned)kernel->shared_bytes,
                            .hStream = state->cell.options.stream,
                            .attrs = attribute,
                            .numAttrs = 1};
}

/// Asks the device how many clusters of a kernel it runs at once.
static rnnc_status count_clusters(const ClusterState *state, Kernel *kernel)
{
    enum { PORTABLE_CTAS = 8 };
    const rnnc_cuda_layer_options *options = &state->cell.options;
    const rnnc_cuda_driver *cuda = options->cuda;
    int clusters = 0;
    CUlaunchAttribute attribute;
    const CUlaunchConfig launch = launch_of(state, kernel, 1, &attribute);
    CUresult result = cuda->cuFuncSetAttribute(
        kernel->run, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)kernel->shared_bytes);
    if (!result && kernel->ctas > PORTABLE_CTAS)
        result = cuda->cuFuncSetAttribute(kernel->run,
                                          CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    if (!result)
        result = cuda->cuOccupancyMaxActiveClusters(&clusters, kernel->run, &launch);
    kernel->clusters = clusters;
    if (!result && clusters > 0)
        return RNNC_OK;
    return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                          "layer %s: a cluster of %lld CTAs of %lld threads and %lld bytes of "
                          "shared memory does not fit this GPU",
                          options->layer->name, (long long)kernel->ctas, (long long)kernel->threads,
                          (long long)kernel->shared_bytes);
}

/// Finds the kernels, and in rnn_back_numbers how the second is launched.
static rnnc_status find_kernels(ClusterState *state, int32_t numbers[5])
{
    const rnnc_cuda_layer_options *options = &state->cell.options;
    const rnnc_cuda_driver *cuda = options->cuda;
    CUdeviceptr memory = 0;
    size_t bytes = 0;
    CUresult result = cuda->cuModuleGetFunction(&state->forward.run, options->image, "rnn_run");
    if (!result)
        result = cuda->cuModuleGetFunction(&state->forward.pack, options->image, "rnn_pack");
    if (!result)
        result = cuda->cuModuleGetFunction(&state->back.run, options->image, "rnn_back_run");
    if (!result)
        result = cuda->cuModuleGetFunction(&state->back.pack, options->image, "rnn_back_pack");
    if (!result)
        result = cuda->cuModuleGetGlobal(&memory, &bytes, options->image, "rnn_back_numbers");
    if (!result)
        result = cuda->cuMemcpyDtoH(numbers, memory, 5 * sizeof *numbers);
    return rnnc_train_cell_check(&state->cell, result, "looking for the kernels of its steps");
}

static rnnc_status open_kernels(ClusterState *state)
{
    const rnnc_variant_desc *variant = state->cell.options.variant;
    int32_t numbers[5] = {0};
    rnnc_status status = find_kernels(state, numbers);
    if (status != RNNC_OK)
        return status;
    state->forward.ctas = variant->ctas, state->forward.threads = variant->threads;
    state->forward.rows = variant->rows_per_cta;
    state->forward.shared_bytes = variant->shared_bytes;
    state->back.ctas = numbers[0], state->back.threads = numbers[1];
    state->back.rows = numbers[2], state->back.shared_bytes = numbers[3];
    status = count_clusters(state, &state->forward);
    if (status == RNNC_OK)
        status = count_clusters(state, &state->back);
    if (status == RNNC_OK)
        status =
            rnnc_train_cell_alloc(&state->cell, variant->packed_bytes / 4, &state->forward.packed);
    return status == RNNC_OK
               ? rnnc_train_cell_alloc(&state->cell, numbers[4] / 4, &state->back.packed)
               : status;
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    ClusterState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    state->cell.options = *options;
    rnnc_status status = rnnc_train_cell_open(options, &state->cell);
    if (status == RNNC_OK)
        status = open_kernels(state);
    if (status == RNNC_OK)
        *out_state = state;
    else
        destroy(state);
    return status;
}

static rnnc_status load_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    ClusterState *state = memory;
    const rnnc_cuda_layer_options *options = &state->cell.options;
    const CUdeviceptr R = (CUdeviceptr)weights[RNNC_WEIGHT_R];
    const CUdeviceptr P = (CUdeviceptr)weights[RNNC_WEIGHT_P];
    memcpy(state->cell.weights, weights, sizeof state->cell.weights);
    CUresult result = rnnc_pack_launch(options, "rnn_measure", state->forward.pack, R, P,
                                       (CUdeviceptr)state->forward.packed);
    if (!result && options->training)
        result = rnnc_pack_launch(options, "rnn_back_measure", state->back.pack, R, P,
                                  (CUdeviceptr)state->back.packed);
    return rnnc_train_cell_check(&state->cell, result, "packing weights");
}

static rnnc_status set_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    ClusterState *state = memory;
    const float *loaded[RNNC_WEIGHT_COUNT];
    rnnc_status status = rnnc_train_cell_set_weights(&state->cell, weights);
    memcpy(loaded, state->cell.weights, sizeof loaded);
    return status == RNNC_OK ? load_weights(state, loaded) : status;
}

/// As many clusters as the rows need, or as there are at once.
static rnnc_status launch(const ClusterState *state, const Kernel *kernel, int64_t batch,
                          void *arguments)
{
    const int64_t needed = (batch + kernel->rows - 1) / kernel->rows;
    void *pointers[] = {arguments};
    CUlaunchAttribute attribute;
    const CUlaunchConfig config =
        launch_of(state, kernel, needed < kernel->clusters ? needed : kernel->clusters, &attribute);
    return rnnc_train_cell_check(
        &state->cell,
        state->cell.options.cuda->cuLaunchKernelEx(&config, kernel->run, pointers, NULL),
        "starting the recurrence");
}

static rnnc_status clear(const ClusterState *state, float *from, int64_t floats)
{
    const rnnc_cuda_layer_options *options = &state->cell.options;
    return rnnc_train_cell_check(
        &state->cell,
        from && floats ? options->cuda->cuMemsetD8Async(
                             (CUdeviceptr)from, 0, (size_t)floats * sizeof(float), options->stream)
                       : 0,
        "clearing what training saves");
}

/// What no step of a run writes that goes through its rows by an order, and products read.
static rnnc_status clear_saved(const ClusterState *state, const rnnc_layer_call *call)
{
    const rnnc_train_cell *cell = &state->cell;
    const rnnc_layer_desc *layer = cell->options.layer;
    const int64_t B = call->batch, N = B * call->timesteps;
    rnnc_status status = clear(state, cell->saved, N * cell->saved_at.stride);
    for (int i = 0; i < layer->state_count && status == RNNC_OK; i++)
        if (cell->training->states >> i & 1)
            status = clear(state, rnnc_train_state(cell, i, 1, B), N * layer->state_sizes[i]);
    for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++)
        status =
            clear(state, rnnc_train_scaled(cell, p, 0, B), (N + B) * layer->phases[p].operand_size);
    return status;
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    ClusterState *state = memory;
    const rnnc_train_cell *cell = &state->cell;
    const rnnc_cuda_layer_options *options = &cell->options;
    if (call->batch == 0 || call->timesteps == 0)
        return RNNC_OK;
    const bool saves = call->saves && cell->saved;
    rnnc_status status = rnnc_train_cell_write_seed(cell, call);
    if (status == RNNC_OK && saves && call->order)
        status = clear_saved(state, call);
    if (status == RNNC_OK)
        status = rnnc_train_cell_begin(cell, call);
    if (status != RNNC_OK)
        return status;
    RunArguments arguments = {.input = cell->rows,
                              .weights = state->forward.packed,
                              .bias = cell->weights[RNNC_WEIGHT_B],
                              .recurrent_bias = cell->weights[RNNC_WEIGHT_RB],
                              .parameter = cell->weights[RNNC_WEIGHT_PEEPHOLE],
                              .y = call->y,
                              .batch = call->batch,
                              .timesteps = call->timesteps,
                              .y_row_stride = call->y_row_stride,
                              .y_step_stride = call->y_step_stride,
                              .order = call->order,
                              .rows = call->rows,
                              .recurrent_scale = call->recurrent_scale,
                              .fault = options->fault,
                              .fault_kind = RNNC_CUDA_FAULT_STUCK,
                              .layer = (int)(options->layer - options->module->layers),
                              .saved = saves ? cell->saved : NULL,
                              .seed = cell->seed};
    for (int32_t i = 0; i < options->layer->state_count; i++) {
        arguments.states[i] = call->states[i];
        arguments.kept[i] = cell->states[i];
    }
    for (int32_t p = 0; p < options->layer->phase_count; p++)
        arguments.operands[p] = cell->scaled[p];
    return launch(state, &state->forward, call->batch, &arguments);
}

static rnnc_status backward(void *memory, const rnnc_backward_call *call)
{
    ClusterState *state = memory;
    const rnnc_train_cell *cell = &state->cell;
    const rnnc_cuda_layer_options *options = &cell->options;
    const rnnc_layer_call *forward = &call->forward;
    if (forward->batch == 0 || forward->timesteps == 0)
        return RNNC_OK;
    BackArguments arguments = {.at = rnnc_train_step_of(cell, forward),
                               .weights = state->back.packed,
                               .saved = cell->saved,
                               .deltas = cell->rows,
                               .dy = call->dy,
                               .dy_row_stride = call->dy_row_stride,
                               .dy_step_stride = call->dy_step_stride,
                               .fault = options->fault,
                               .fault_kind = RNNC_CUDA_FAULT_STUCK,
                               .layer = (int)(options->layer - options->module->layers)};
    for (int32_t i = 0; i < options->layer->state_count; i++) {
        arguments.states[i] = cell->states[i];
        arguments.adjoints[i] = call->states[i];
    }
    rnnc_status status = RNNC_OK;
    if (forward->order)
        status =
            clear(state, cell->rows, forward->batch * forward->timesteps * cell->delta_at.stride);
    if (status == RNNC_OK)
        status = launch(state, &state->back, forward->batch, &arguments);
    return status == RNNC_OK ? rnnc_train_cell_sums(cell, call) : status;
}

const rnnc_cuda_variant rnnc_cuda_train_cluster = {
    .kind = RNNC_VARIANT_TRAIN_CLUSTER,
    .masks = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .load_weights = load_weights,
    .run = run,
    .backward = backward,
    .destroy = destroy,
};
