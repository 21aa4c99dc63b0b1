/* Variants unrolled and persistent_cta, host side: W*x, then one launch for all steps
 * with a CTA a batch row (templates/cuda/recurrence.cuh). */
#include "../memory.h"
#include "launch.h"
#include "layer_weights.h"
#include "packing.h"

typedef struct {
    rnnc_layer_weights weights;
    CUfunction run, pack;
    CUdeviceptr packed;
    int at_once; ///< CTAs that the GPU holds
} ResidentState;

/// RnnRun of templates/cuda/recurrence.cuh.
typedef struct {
    CUdeviceptr input, weights, bias, recurrent_bias, parameter;
    float *y;
    float *states[RNNC_STATES_MAX];
    long long timesteps, y_row_stride, y_step_stride;
    const int32_t *order;
    const rnnc_row *rows;
    const float *recurrent_scale;
} RunArguments;

static void destroy(void *memory)
{
    ResidentState *state = memory;
    if (!state)
        return;
    if (state->packed)
        state->weights.options.cuda->cuMemFree(state->packed);
    rnnc_layer_weights_close(&state->weights);
    rnnc_memory_free(state);
}

/// Finds the kernels and asks the device whether one CTA fits an SM.
static rnnc_status find_kernels(ResidentState *state, const rnnc_cuda_layer_options *options)
{
    const rnnc_cuda_driver *cuda = options->cuda;
    const rnnc_variant_desc *variant = options->variant;
    CUdevice device = 0;
    int ctas = 0, processors = 0;
    if (cuda->cuModuleGetFunction(&state->run, options->image, "rnn_run") ||
        cuda->cuModuleGetFunction(&state->pack, options->image, "rnn_pack"))
        return rnnc_error_set(options->error, RNNC_DEVICE_ERROR,
                              "layer %s: the image of %s lacks its kernels", options->layer->name,
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
    state->at_once = ctas * processors;
    if (result || ctas < 1)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                              "layer %s: a CTA of %d threads and %lld bytes of shared memory does "
                              "not fit an SM of this GPU",
                              options->layer->name, variant->threads,
                              (long long)variant->shared_bytes);
    return RNNC_OK;
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    ResidentState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    state->weights.options = *options;
    rnnc_status status = find_kernels(state, options);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_open(options, &state->weights);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_alloc(&state->weights, options->variant->packed_bytes,
                                          &state->packed);
    if (status == RNNC_OK)
        rnnc_layer_weights_begin_early(&state->weights, state->run);
    if (status == RNNC_OK)
        *out_state = state;
    else
        destroy(state);
    return status;
}

static rnnc_status set_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    ResidentState *state = memory;
    rnnc_status status = rnnc_layer_weights_set(&state->weights, weights);
    if (status != RNNC_OK || !state->packed)
        return status;
    return rnnc_pack_recurrent(&state->weights, state->pack, weights, state->packed);
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    ResidentState *state = memory;
    const rnnc_layer_weights *weights = &state->weights;
    const rnnc_cuda_layer_options *options = &weights->options;
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
                                  .timesteps = call->timesteps,
                                  .y_row_stride = call->y_row_stride,
                                  .y_step_stride = call->y_step_stride,
                                  .order = call->order,
                                  .rows = call->rows,
                                  .recurrent_scale = call->recurrent_scale};
    for (int32_t i = 0; i < options->layer->state_count; i++)
        run_arguments.states[i] = call->states[i];
    void *arguments[] = {&run_arguments};
    CUlaunchAttribute early = rnnc_cuda_early();
    const CUlaunchConfig launch = {.gridDimX = (unsigned)call->batch,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = (unsigned)options->variant->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = (unsigned)options->variant->shared_bytes,
                                   .hStream = (CUstream)call->stream,
                                   .attrs = &early,
                                   .numAttrs = weights->begins_early};
    return rnnc_layer_weights_check(
        weights, options->cuda->cuLaunchKernelEx(&launch, state->run, arguments, NULL),
        "starting the recurrence");
}

static double share(const void *memory, int64_t batch)
{
    const ResidentState *state = memory;
    return (double)batch / (double)state->at_once;
}

const rnnc_cuda_variant rnnc_cuda_unrolled = {
    .kind = RNNC_VARIANT_UNROLLED,
    .masks = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .share = share,
    .destroy = destroy,
};

const rnnc_cuda_variant rnnc_cuda_persistent_cta = {
    .kind = RNNC_VARIANT_PERSISTENT_CTA,
    .masks = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .share = share,
    .destroy = destroy,
};
