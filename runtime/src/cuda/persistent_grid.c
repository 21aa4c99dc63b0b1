/* Variants persistent_grid and persistent_wide, host side: W*x, then one cooperative launch for all
 * steps, in as many groups of CTAs as the batch needs and the GPU holds at once
 * (templates/cuda/persistent_grid.cu and persistent_wide.cu). The groups' operand buffers and
 * epochs stay from launch to launch. */
#include "../memory.h"
#include "layer_weights.h"
#include "packing.h"
#include "sequence.h"

typedef struct {
    rnnc_layer_weights weights;
    CUfunction run, pack;
    CUdeviceptr packed, buffers, epochs;
    int64_t groups; ///< that are resident at once
    int processors; ///< SMs of the GPU
} GridState;

/// RnnRun of both templates.
typedef struct {
    CUdeviceptr input, weights, bias, recurrent_bias, parameter;
    float *y;
    float *states[RNNC_STATES_MAX];
    long long batch, timesteps, y_row_stride, y_step_stride;
    const int32_t *order;
    const rnnc_row *rows;
    const float *recurrent_scale;
    CUdeviceptr buffers, epochs, fault;
    int fault_kind, layer;
} RunArguments;

static void destroy(void *memory)
{
    GridState *state = memory;
    if (!state)
        return;
    const CUdeviceptr memories[] = {state->packed, state->buffers, state->epochs};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            state->weights.options.cuda->cuMemFree(memories[i]);
    rnnc_layer_weights_close(&state->weights);
    rnnc_memory_free(state);
}

/// Whether the layer runs at the same time as another.
static bool has_neighbour(const rnnc_cuda_layer_options *options)
{
    const rnnc_module_desc *module = options->module;
    return options->layer->beside ||
           (options->layer + 1 < module->layers + module->layer_count && options->layer[1].beside);
}

/// Finds the kernels and asks the device how many groups it holds at once.
static rnnc_status find_kernels(GridState *state, const rnnc_cuda_layer_options *options)
{
    const rnnc_cuda_driver *cuda = options->cuda;
    const rnnc_variant_desc *variant = options->variant;
    CUdevice device = 0;
    int ctas = 0, processors = 0;
    if (cuda->cuModuleGetFunction(&state->run, options->image, "rnn_run") ||
        cuda->cuModuleGetFunction(&state->pack, options->image, "rnn_pack"))
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                              "layer %s: %s has no kernels for this GPU", options->layer->name,
                              variant->name);
    CUresult result = cuda->cuFuncSetAttribute(
        state->run, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)variant->shared_bytes);
    if (!result)
        result = cuda->cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &ctas, state->run, variant->threads, (size_t)variant->shared_bytes);
    if (!result)
        result = cuda->cuCtxGetDevice(&device);
    if (!result)
        result = cuda->cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                            device);
    // More than one CTA an SM would share its tensor cores and gain nothing. A layer that runs
    // beside another leaves it half of the GPU, where half holds a group.
    state->processors = processors;
    state->groups = ctas > 0 ? processors / variant->ctas : 0;
    if (has_neighbour(options) && state->groups > 1)
        state->groups /= 2;
    if (result || state->groups < 1)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                              "layer %s: %d CTAs of %lld bytes of shared memory are not resident "
                              "at once on the %d SMs of this GPU",
                              options->layer->name, variant->ctas, (long long)variant->shared_bytes,
                              processors);
    return RNNC_OK;
}

/// Buffers and epochs begin as zeros: no packet of epoch 1 has arrived.
static rnnc_status allocate(GridState *state)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_variant_desc *variant = options->variant;
    const int64_t needed = (options->max_batch + variant->rows_per_cta - 1) / variant->rows_per_cta;
    if (state->groups > needed)
        state->groups = needed > 0 ? needed : 1;
    rnnc_status status =
        rnnc_layer_weights_alloc(&state->weights, variant->packed_bytes, &state->packed);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_alloc(&state->weights, state->groups * variant->buffer_bytes,
                                          &state->buffers);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_alloc(
            &state->weights, state->groups * (int64_t)sizeof(unsigned), &state->epochs);
    return status;
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    GridState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    state->weights.options = *options;
    rnnc_status status = find_kernels(state, options);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_open(options, &state->weights);
    if (status == RNNC_OK)
        status = allocate(state);
    if (status == RNNC_OK)
        *out_state = state;
    else
        destroy(state);
    return status;
}

static rnnc_status set_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    GridState *state = memory;
    rnnc_status status = rnnc_layer_weights_set(&state->weights, weights);
    return status == RNNC_OK
               ? rnnc_pack_recurrent(&state->weights, state->pack, weights, state->packed)
               : status;
}

/// Of a run: as many groups as its rows need, or as there are at once.
static int64_t ctas(const GridState *state, int64_t batch)
{
    const rnnc_variant_desc *variant = state->weights.options.variant;
    const int64_t needed = (batch + variant->rows_per_cta - 1) / variant->rows_per_cta;
    return (needed < state->groups ? needed : state->groups) * variant->ctas;
}

static double share(const void *memory, int64_t batch)
{
    const GridState *state = memory;
    return (double)ctas(state, batch) / state->processors;
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    GridState *state = memory;
    const rnnc_layer_weights *weights = &state->weights;
    const rnnc_cuda_layer_options *options = &weights->options;
    const rnnc_variant_desc *variant = options->variant;
    if (call->batch == 0 || call->timesteps == 0)
        return RNNC_OK;
    rnnc_status status = rnnc_layer_weights_multiply(weights, call);
    if (status != RNNC_OK)
        return status;
    RunArguments run_arguments = {.input = weights->input,
                                  .weights = state->packed,
                                  .bias = weights->bias,
                                  .recurrent_bias = weights->recurrent_bias,
                                  .parameter = weights->parameter,
                                  .y = call->y,
                                  .batch = call->batch,
                                  .timesteps = call->timesteps,
                                  .y_row_stride = call->y_row_stride,
                                  .y_step_stride = call->y_step_stride,
                                  .order = call->order,
                                  .rows = call->rows,
                                  .recurrent_scale = call->recurrent_scale,
                                  .buffers = state->buffers,
                                  .epochs = state->epochs,
                                  .fault = options->fault,
                                  .fault_kind = RNNC_CUDA_FAULT_STUCK,
                                  .layer = (int)(options->layer - options->module->layers)};
    for (int32_t i = 0; i < options->layer->state_count; i++)
        run_arguments.states[i] = call->states[i];
    void *arguments[] = {&run_arguments};
    return rnnc_layer_weights_check(
        weights,
        options->cuda->cuLaunchCooperativeKernel(
            state->run, (unsigned)ctas(state, call->batch), 1, 1, (unsigned)variant->threads, 1, 1,
            (unsigned)variant->shared_bytes, (CUstream)call->stream, arguments),
        "starting the recurrence");
}

const rnnc_cuda_variant rnnc_cuda_persistent_grid = {
    .kind = RNNC_VARIANT_PERSISTENT_GRID,
    .masks = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .share = share,
    .destroy = destroy,
};

const rnnc_cuda_variant rnnc_cuda_persistent_wide = {
    .kind = RNNC_VARIANT_PERSISTENT_WIDE,
    .masks = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .share = share,
    .destroy = destroy,
};
