/* Variant persistent_cluster, host side: W*x, then one launch for all steps, in as many
 * thread-block clusters as the batch needs and the GPU runs at once
 * (templates/cuda/persistent_cluster.cu). */
#include "../memory.h"
#include "launch.h"
#include "layer_weights.h"
#include "packing.h"
#include "sequence.h"

typedef struct {
    rnnc_layer_weights weights;
    CUfunction run, pack;
    CUdeviceptr packed;
    int64_t clusters; ///< that run at once
} ClusterState;

/// RnnRun of templates/cuda/persistent_cluster.cu.
typedef struct {
    CUdeviceptr input, weights, bias, recurrent_bias, parameter;
    float *y;
    float *states[RNNC_STATES_MAX];
    long long batch, timesteps, y_row_stride, y_step_stride;
    const int32_t *order;
    const rnnc_row *rows;
    const float *recurrent_scale;
    CUdeviceptr fault;
    int fault_kind, layer;
} RunArguments;

static void destroy(void *memory)
{
    ClusterState *state = memory;
    if (!state)
        return;
    if (state->packed)
        state->weights.options.cuda->cuMemFree(state->packed);
    rnnc_layer_weights_close(&state->weights);
    rnnc_memory_free(state);
}

/// A launch of `clusters`; the result points to `attributes`, of which it has the first.
static CUlaunchConfig launch_of(const rnnc_cuda_layer_options *options, CUstream stream,
                                int64_t clusters, CUlaunchAttribute attributes[2])
{
    const rnnc_variant_desc *variant = options->variant;
    attributes[0] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                            .value.clusterDim = {.x = (unsigned)variant->ctas, .y = 1, .z = 1}};
    return (CUlaunchConfig){.gridDimX = (unsigned)(clusters * variant->ctas),
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = (unsigned)variant->threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .sharedMemBytes = (unsigned)variant->shared_bytes,
                            .hStream = stream,
                            .attrs = attributes,
                            .numAttrs = 1};
}

/// Finds the kernels and asks the device how many clusters it runs at once.
static rnnc_status find_kernels(ClusterState *state, const rnnc_cuda_layer_options *options)
{
    const rnnc_cuda_driver *cuda = options->cuda;
    const rnnc_variant_desc *variant = options->variant;
    int clusters = 0;
    if (cuda->cuModuleGetFunction(&state->run, options->image, "rnn_run") ||
        cuda->cuModuleGetFunction(&state->pack, options->image, "rnn_pack"))
        return rnnc_error_set(options->error, RNNC_DEVICE_ERROR,
                              "layer %s: the image of %s lacks its kernels", options->layer->name,
                              variant->name);
    CUlaunchAttribute attributes[2];
    const CUlaunchConfig launch = launch_of(options, options->stream, 1, attributes);
    CUresult result = cuda->cuFuncSetAttribute(
        state->run, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)variant->shared_bytes);
    if (!result)
        result = cuda->cuOccupancyMaxActiveClusters(&clusters, state->run, &launch);
    if (result || clusters < 1)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                              "layer %s: a cluster of %d CTAs of %d threads and %lld bytes of "
                              "shared memory does not fit this GPU",
                              options->layer->name, variant->ctas, variant->threads,
                              (long long)variant->shared_bytes);
    state->clusters = clusters;
    return RNNC_OK;
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    ClusterState *state = rnnc_memory_alloc(sizeof *state);
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
    ClusterState *state = memory;
    rnnc_status status = rnnc_layer_weights_set(&state->weights, weights);
    return status == RNNC_OK
               ? rnnc_pack_recurrent(&state->weights, state->pack, weights, state->packed)
               : status;
}

/// Of a run: as many as its rows need, or as there are at once.
static int64_t clusters_of(const ClusterState *state, int64_t batch)
{
    const int64_t rows = state->weights.options.variant->rows_per_cta;
    const int64_t needed = (batch + rows - 1) / rows;
    return needed < state->clusters ? needed : state->clusters;
}

static double share(const void *memory, int64_t batch)
{
    const ClusterState *state = memory;
    return (double)clusters_of(state, batch) / (double)state->clusters;
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    ClusterState *state = memory;
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
                                  .batch = call->batch,
                                  .timesteps = call->timesteps,
                                  .y_row_stride = call->y_row_stride,
                                  .y_step_stride = call->y_step_stride,
                                  .order = call->order,
                                  .rows = call->rows,
                                  .recurrent_scale = call->recurrent_scale,
                                  .fault = options->fault,
                                  .fault_kind = RNNC_CUDA_FAULT_STUCK,
                                  .layer = (int)(options->layer - options->module->layers)};
    for (int32_t i = 0; i < options->layer->state_count; i++)
        run_arguments.states[i] = call->states[i];
    void *arguments[] = {&run_arguments};
    CUlaunchAttribute attributes[2] = {{0}, rnnc_cuda_early()};
    CUlaunchConfig launch =
        launch_of(options, (CUstream)call->stream, clusters_of(state, call->batch), attributes);
    launch.numAttrs += weights->begins_early;
    return rnnc_layer_weights_check(
        weights, options->cuda->cuLaunchKernelEx(&launch, state->run, arguments, NULL),
        "starting the recurrence");
}

const rnnc_cuda_variant rnnc_cuda_persistent_cluster = {
    .kind = RNNC_VARIANT_PERSISTENT_CLUSTER,
    .masks = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .share = share,
    .destroy = destroy,
};
