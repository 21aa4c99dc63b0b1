/* Layers without a recurrence, host side: an embedding is one lookup kernel, a dense layer one
 * product that finishes with bias and activation, an activation is the finishing alone. Kernels:
 * templates/cuda/pointwise.cu. */
#include <stdbool.h>

#include "../memory.h"
#include "product.h"
#include "variant.h"

enum { THREADS = 256, BLOCKS_MAX = 4096, OUT_OF_MEMORY = 2 };

typedef struct {
    rnnc_cuda_layer_options options;
    CUfunction embed, activate;
    rnnc_cuda_product product; ///< dense
    CUdeviceptr table;         ///< embedding: E, float32
    CUdeviceptr bias;          ///< dense: b, 0: none
} PointwiseState;

static int launch(const PointwiseState *state, CUfunction function, int64_t elements,
                  void **arguments)
{
    const int64_t wanted = (elements + THREADS - 1) / THREADS;
    const unsigned blocks = (unsigned)(wanted < BLOCKS_MAX ? wanted : BLOCKS_MAX);
    if (elements == 0)
        return 0;
    return state->options.cuda->cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0,
                                               state->options.stream, arguments, NULL);
}

static rnnc_status fail(const PointwiseState *state, rnnc_status status, const char *what)
{
    return rnnc_error_set(state->options.error, status, "layer %s: %s", state->options.layer->name,
                          what);
}

static void destroy(void *memory)
{
    PointwiseState *state = memory;
    if (!state)
        return;
    const CUdeviceptr memories[] = {state->table, state->bias};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            state->options.cuda->cuMemFree(memories[i]);
    if (state->product.cuda)
        rnnc_cuda_product_close(&state->product);
    rnnc_memory_free(state);
}

static CUresult open_product(PointwiseState *state)
{
    const rnnc_cuda_layer_options *options = &state->options;
    state->product = (rnnc_cuda_product){.cuda = options->cuda,
                                         .stream = options->stream,
                                         .precision = (rnnc_precision)options->module->precision,
                                         .depth = options->layer->inputs,
                                         .columns = options->layer->outputs};
    return rnnc_cuda_product_open(&state->product, options->layer_image, "rnn_dense",
                                  "rnn_dense_few", options->max_batch * options->max_timesteps);
}

static rnnc_status allocate(PointwiseState *state)
{
    const rnnc_cuda_layer_options *options = &state->options;
    const rnnc_layer_desc *layer = options->layer;
    const size_t outputs = (size_t)layer->outputs;
    CUresult result = 0;
    if (layer->kind == RNNC_LAYER_EMBEDDING)
        result = options->cuda->cuMemAlloc(&state->table,
                                           (size_t)layer->inputs * outputs * sizeof(float));
    if (layer->kind == RNNC_LAYER_DENSE)
        result = open_product(state);
    if (!result && layer->kind == RNNC_LAYER_DENSE)
        result = options->cuda->cuMemAlloc(&state->bias, outputs * sizeof(float));
    if (result == OUT_OF_MEMORY)
        return fail(state, RNNC_OUT_OF_MEMORY, "no device memory");
    return result ? fail(state, RNNC_DEVICE_ERROR, "its product cannot be prepared") : RNNC_OK;
}

/// The kernels of the layer's kind.
static CUresult find_kernels(PointwiseState *state)
{
    const rnnc_cuda_driver *cuda = state->options.cuda;
    const CUmodule image = state->options.layer_image;
    if (state->options.layer->kind == RNNC_LAYER_EMBEDDING)
        return cuda->cuModuleGetFunction(&state->embed, image, "rnn_embed");
    if (state->options.layer->kind == RNNC_LAYER_ACTIVATION)
        return cuda->cuModuleGetFunction(&state->activate, image, "rnn_activate");
    return 0; // a dense layer's are its product's
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    PointwiseState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    state->options = *options;
    rnnc_status status = RNNC_OK;
    if (find_kernels(state))
        status = fail(state, RNNC_DEVICE_ERROR, "its image lacks the pointwise kernels");
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
    PointwiseState *state = memory;
    const rnnc_cuda_driver *cuda = state->options.cuda;
    const rnnc_layer_desc *layer = state->options.layer;
    const size_t outputs = (size_t)layer->outputs * sizeof(float);
    CUresult result = cuda->cuStreamSynchronize(state->options.stream);
    if (!result && layer->kind == RNNC_LAYER_EMBEDDING)
        result = rnnc_cuda_write(cuda, state->options.stream, state->table, weights[RNNC_WEIGHT_E],
                                 (size_t)layer->inputs * outputs);
    if (!result && layer->kind == RNNC_LAYER_DENSE)
        result = rnnc_cuda_product_set(&state->product, weights[RNNC_WEIGHT_W]);
    if (!result && layer->kind == RNNC_LAYER_DENSE && weights[RNNC_WEIGHT_B])
        result = rnnc_cuda_write(cuda, state->options.stream, state->bias, weights[RNNC_WEIGHT_B],
                                 outputs);
    else if (!result && state->bias)
        result = cuda->cuMemsetD8Async(state->bias, 0, outputs, state->options.stream);
    return result ? fail(state, RNNC_DEVICE_ERROR, "copying weights failed") : RNNC_OK;
}

/// The product finishes with bias and activation.
static int run_dense(const PointwiseState *state, const rnnc_layer_call *call)
{
    const rnnc_cuda_rows rows = {.x = call->x,
                                 .bias = state->bias,
                                 .out = (CUdeviceptr)call->y,
                                 .rows = call->batch * call->timesteps,
                                 .timesteps = call->timesteps,
                                 .x_row_stride = call->x_row_stride,
                                 .x_step_stride = call->x_step_stride,
                                 .out_row_stride = call->y_row_stride,
                                 .out_step_stride = call->y_step_stride};
    return rnnc_cuda_product_run(&state->product, state->options.stream, &rows,
                                 state->options.layer->outputs);
}

/// RnnPlaces of templates/cuda/pointwise.cu.
typedef struct {
    long long batch, timesteps, x_row_stride, x_step_stride, y_row_stride, y_step_stride;
} Places;

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    PointwiseState *state = memory;
    const rnnc_layer_desc *layer = state->options.layer;
    const int64_t values = call->batch * call->timesteps * layer->outputs;
    Places at = {call->batch,         call->timesteps,    call->x_row_stride,
                 call->x_step_stride, call->y_row_stride, call->y_step_stride};
    const void *x = call->x;
    float *y = call->y;
    int failed = 0;
    if (layer->kind == RNNC_LAYER_EMBEDDING) {
        void *arguments[] = {&x, &state->table, &y, &at};
        failed = launch(state, state->embed, values, arguments);
    } else if (layer->kind == RNNC_LAYER_DENSE) {
        failed = run_dense(state, call);
    } else {
        void *arguments[] = {&x, &y, &at};
        failed = launch(state, state->activate, values, arguments);
    }
    return failed ? fail(state, RNNC_DEVICE_ERROR, "a kernel failed to start") : RNNC_OK;
}

const rnnc_cuda_variant rnnc_cuda_pointwise = {
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .destroy = destroy,
};
