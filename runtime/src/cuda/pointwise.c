/* Layers without a recurrence, host side: an embedding is one lookup kernel; a dense layer converts
 * its input to operands, multiplies by cuBLAS and finishes with bias and activation; an activation
 * is the finishing alone. Kernels: templates/cuda/pointwise.cu. */
#include <stdbool.h>

#include "../memory.h"
#include "cublas.h"
#include "variant.h"

enum { THREADS = 256, BLOCKS_MAX = 4096 };

typedef struct {
    rnnc_cuda_layer_options options;
    rnnc_cublas *blas;
    CUfunction embed, finish, convert;
    CUdeviceptr table;    ///< embedding: E, float32
    CUdeviceptr matrix;   ///< dense: W as operands
    CUdeviceptr bias;     ///< dense: b, 0: none
    CUdeviceptr operands; ///< dense in 16 bits: x as operands
} PointwiseState;

static rnnc_precision precision_of(const PointwiseState *state)
{
    return (rnnc_precision)state->options.module->precision;
}

/// Whether operands are of 16 bits.
static bool is_narrow(const PointwiseState *state)
{
    return precision_of(state) == RNNC_BFLOAT16 || precision_of(state) == RNNC_FLOAT16;
}

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

static int convert(const PointwiseState *state, CUdeviceptr from, CUdeviceptr to, int64_t count)
{
    long long elements = count;
    void *arguments[] = {&from, &to, &elements};
    return launch(state, state->convert, count, arguments);
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
    const CUdeviceptr memories[] = {state->table, state->matrix, state->bias, state->operands};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            state->options.cuda->cuMemFree(memories[i]);
    rnnc_cublas_close(state->blas);
    rnnc_memory_free(state);
}

static rnnc_status allocate(PointwiseState *state)
{
    const rnnc_cuda_layer_options *options = &state->options;
    const rnnc_layer_desc *layer = options->layer;
    const size_t matrix = (size_t)layer->inputs * (size_t)layer->outputs;
    const size_t operand = is_narrow(state) ? 2 : 4;
    const size_t rows = (size_t)options->max_batch * (size_t)options->max_timesteps;
    CUresult result = 0;
    if (layer->kind == RNNC_LAYER_EMBEDDING)
        result = options->cuda->cuMemAlloc(&state->table, matrix * sizeof(float));
    if (layer->kind != RNNC_LAYER_DENSE)
        return result ? fail(state, RNNC_OUT_OF_MEMORY, "no device memory") : RNNC_OK;
    rnnc_status status =
        rnnc_cublas_open(options->cuda, options->stream, options->error, &state->blas);
    if (status != RNNC_OK)
        return status;
    result = options->cuda->cuMemAlloc(&state->matrix, matrix * operand);
    if (!result)
        result = options->cuda->cuMemAlloc(&state->bias, (size_t)layer->outputs * sizeof(float));
    if (!result && is_narrow(state))
        result =
            options->cuda->cuMemAlloc(&state->operands, rows * (size_t)layer->inputs * operand);
    return result ? fail(state, RNNC_OUT_OF_MEMORY, "no device memory") : RNNC_OK;
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    PointwiseState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    state->options = *options;
    rnnc_status status = RNNC_OK;
    if (options->cuda->cuModuleGetFunction(&state->embed, options->image, "rnn_embed") ||
        options->cuda->cuModuleGetFunction(&state->finish, options->image, "rnn_finish") ||
        options->cuda->cuModuleGetFunction(&state->convert, options->image, "rnn_convert"))
        status = fail(state, RNNC_DEVICE_ERROR, "its image lacks the pointwise kernels");
    if (status == RNNC_OK)
        status = allocate(state);
    if (status == RNNC_OK)
        *out_state = state;
    else
        destroy(state);
    return status;
}

/// W as operands: through a float32 copy where the precision is narrower.
static CUresult set_matrix(PointwiseState *state, const float *W)
{
    const rnnc_cuda_driver *cuda = state->options.cuda;
    const rnnc_layer_desc *layer = state->options.layer;
    const int64_t count = layer->inputs * layer->outputs;
    const size_t bytes = (size_t)count * sizeof(float);
    if (!is_narrow(state))
        return cuda->cuMemcpyHtoD(state->matrix, W, bytes);
    CUdeviceptr wide = 0;
    CUresult result = cuda->cuMemAlloc(&wide, bytes);
    if (!result)
        result = cuda->cuMemcpyHtoD(wide, W, bytes);
    if (!result)
        result = convert(state, wide, state->matrix, count);
    if (!result)
        result = cuda->cuStreamSynchronize(state->options.stream);
    if (wide)
        cuda->cuMemFree(wide);
    return result;
}

static rnnc_status set_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    PointwiseState *state = memory;
    const rnnc_cuda_driver *cuda = state->options.cuda;
    const rnnc_layer_desc *layer = state->options.layer;
    const size_t outputs = (size_t)layer->outputs * sizeof(float);
    CUresult result = cuda->cuStreamSynchronize(state->options.stream);
    if (!result && layer->kind == RNNC_LAYER_EMBEDDING)
        result = cuda->cuMemcpyHtoD(state->table, weights[RNNC_WEIGHT_E],
                                    (size_t)layer->inputs * outputs);
    if (!result && layer->kind == RNNC_LAYER_DENSE)
        result = set_matrix(state, weights[RNNC_WEIGHT_W]);
    if (!result && layer->kind == RNNC_LAYER_DENSE && weights[RNNC_WEIGHT_B])
        result = cuda->cuMemcpyHtoD(state->bias, weights[RNNC_WEIGHT_B], outputs);
    else if (!result && state->bias)
        result = cuda->cuMemsetD8Async(state->bias, 0, outputs, state->options.stream);
    return result ? fail(state, RNNC_DEVICE_ERROR, "copying weights failed") : RNNC_OK;
}

static rnnc_status run_dense(const PointwiseState *state, const void *x, float *y, int64_t rows)
{
    const rnnc_layer_desc *layer = state->options.layer;
    CUdeviceptr from = (CUdeviceptr)x;
    if (is_narrow(state)) {
        if (convert(state, from, state->operands, rows * layer->inputs))
            return fail(state, RNNC_DEVICE_ERROR, "a kernel failed to start");
        from = state->operands;
    }
    return rnnc_cublas_multiply(state->blas, precision_of(state), from, layer->inputs,
                                state->matrix, layer->inputs, 0.0f, (CUdeviceptr)y, layer->outputs,
                                rows, layer->outputs, layer->inputs);
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    PointwiseState *state = memory;
    const rnnc_layer_desc *layer = state->options.layer;
    long long rows = call->batch * call->timesteps;
    const void *x = call->x;
    float *y = call->y;
    int failed = 0;
    if (layer->kind == RNNC_LAYER_EMBEDDING) {
        void *arguments[] = {&x, &state->table, &y, &rows};
        failed = launch(state, state->embed, rows * layer->outputs, arguments);
    } else {
        const void *from = layer->kind == RNNC_LAYER_DENSE ? y : x;
        rnnc_status status =
            layer->kind == RNNC_LAYER_DENSE ? run_dense(state, x, y, rows) : RNNC_OK;
        if (status != RNNC_OK)
            return status;
        void *arguments[] = {&from, &state->bias, &y, &rows};
        failed = launch(state, state->finish, rows * layer->outputs, arguments);
    }
    return failed ? fail(state, RNNC_DEVICE_ERROR, "a kernel failed to start") : RNNC_OK;
}

const rnnc_cuda_variant rnnc_cuda_pointwise = {
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .destroy = destroy,
};
