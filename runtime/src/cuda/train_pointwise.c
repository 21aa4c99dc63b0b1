/* Layers without a recurrence in training, host side:
 *
 *     dense       x and z = W*x by steps are kept; y = activation(z + b). Back: z becomes dz, dW +=
 *                 dz^T * x, db += the sums of dz, dx = dz * W
 *     embedding   y = rows of E; dE of a token += dy of its steps
 *     activation  y = activation(x); dx = dy times the slope at x
 *
 * Products by cuBLAS; kernels: templates/cuda/pointwise.cu and moves.cuh. */
#include <string.h>

#include "../memory.h"
#include "variant.h"

enum { THREADS = 256, BLOCKS_MAX = 4096, OUT_OF_MEMORY = 2 };

typedef struct {
    rnnc_cuda_layer_options options;
    CUfunction run, back; ///< back NULL: an embedding, whose is of moves.h
    const float *weights[RNNC_WEIGHT_COUNT];
    CUdeviceptr x, z; ///< dense: [T, B, inputs], which is dx in the end, and [T, B, outputs]
} PointwiseState;

/// RnnFinish and RnnPlaces of templates/cuda/pointwise.cu.
typedef struct {
    CUdeviceptr z;
    float *y;
    const float *bias;
    long long batch, timesteps, row_stride, step_stride;
} Finish;
typedef struct {
    long long batch, timesteps, x_row_stride, x_step_stride, y_row_stride, y_step_stride;
} Places;

static rnnc_status check(const PointwiseState *state, CUresult result, const char *doing)
{
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    state->options.cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(
        state->options.error, result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
        "layer %s, %s: %s", state->options.layer->name, doing, words ? words : "unknown error");
}

static void destroy(void *memory)
{
    PointwiseState *state = memory;
    if (!state)
        return;
    if (state->x)
        state->options.cuda->cuMemFree(state->x);
    if (state->z)
        state->options.cuda->cuMemFree(state->z);
    rnnc_memory_free(state);
}

static CUresult find_kernels(PointwiseState *state)
{
    static const struct {
        const char *run, *back;
    } names[] = {[RNNC_LAYER_DENSE] = {"rnn_finish", "rnn_finish_back"},
                 [RNNC_LAYER_EMBEDDING] = {"rnn_embed", NULL},
                 [RNNC_LAYER_ACTIVATION] = {"rnn_activate", "rnn_activate_back"}};
    const rnnc_cuda_driver *cuda = state->options.cuda;
    const CUmodule image = state->options.layer_image;
    const rnnc_layer_kind kind = state->options.layer->kind;
    CUresult result = cuda->cuModuleGetFunction(&state->run, image, names[kind].run);
    if (!result && names[kind].back)
        result = cuda->cuModuleGetFunction(&state->back, image, names[kind].back);
    return result;
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    PointwiseState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    state->options = *options;
    const int64_t B = options->max_batch, T = options->max_timesteps;
    CUresult result = find_kernels(state);
    if (!result && options->layer->kind == RNNC_LAYER_DENSE)
        result = options->cuda->cuMemAlloc(&state->x,
                                           rnnc_memory_float_bytes(options->layer->inputs, B, T));
    if (!result && options->layer->kind == RNNC_LAYER_DENSE)
        result = options->cuda->cuMemAlloc(&state->z,
                                           rnnc_memory_float_bytes(options->layer->outputs, B, T));
    const rnnc_status status = check(state, result, "preparing its training");
    if (status == RNNC_OK)
        *out_state = state;
    else
        destroy(state);
    return status;
}

static rnnc_status load_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    PointwiseState *state = memory;
    memcpy(state->weights, weights, sizeof state->weights);
    return RNNC_OK;
}

/// A thread for each element, or as many as the grid has.
static rnnc_status start(const PointwiseState *state, CUfunction kernel, int64_t elements,
                         void **arguments)
{
    const int64_t wanted = (elements + THREADS - 1) / THREADS;
    const unsigned blocks = (unsigned)(wanted < BLOCKS_MAX ? wanted : BLOCKS_MAX);
    if (elements == 0)
        return RNNC_OK;
    return check(state,
                 state->options.cuda->cuLaunchKernel(kernel, blocks, 1, 1, THREADS, 1, 1, 0,
                                                     state->options.stream, arguments, NULL),
                 "starting a kernel");
}

static Finish finish_of(const PointwiseState *state, const rnnc_layer_call *call, float *y,
                        int64_t row_stride, int64_t step_stride)
{
    return (Finish){.z = state->z,
                    .y = y,
                    .bias = state->weights[RNNC_WEIGHT_B],
                    .batch = call->batch,
                    .timesteps = call->timesteps,
                    .row_stride = row_stride,
                    .step_stride = step_stride};
}

static rnnc_status run_dense(const PointwiseState *state, const rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = state->options.layer;
    const rnnc_cuda_moves *moves = state->options.moves;
    const int64_t rows = call->batch * call->timesteps;
    const rnnc_cuda_gemm product = {.a = (const float *)state->x,
                                    .b = state->weights[RNNC_WEIGHT_W],
                                    .c = (float *)state->z,
                                    .turns_b = true,
                                    .m = rows,
                                    .n = layer->outputs,
                                    .k = layer->inputs,
                                    .a_stride = layer->inputs,
                                    .b_stride = layer->inputs,
                                    .c_stride = layer->outputs};
    Finish finish = finish_of(state, call, call->y, call->y_row_stride, call->y_step_stride);
    void *arguments[] = {&finish};
    rnnc_status status = rnnc_cuda_gather(moves, rnnc_cuda_steps_of(moves, call, layer->inputs),
                                          rnnc_cuda_x_of(call), (float *)state->x);
    if (status == RNNC_OK)
        status = rnnc_cuda_blas_multiply(state->options.blas, &product);
    return status == RNNC_OK ? start(state, state->run, rows * layer->outputs, arguments) : status;
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    PointwiseState *state = memory;
    const rnnc_layer_desc *layer = state->options.layer;
    const int64_t values = call->batch * call->timesteps * layer->outputs;
    Places at = {call->batch,         call->timesteps,    call->x_row_stride,
                 call->x_step_stride, call->y_row_stride, call->y_step_stride};
    const void *x = call->x;
    const float *table = state->weights[RNNC_WEIGHT_E];
    float *y = call->y;
    void *embed[] = {&x, &table, &y, &at}, *activate[] = {&x, &y, &at};
    if (values == 0)
        return RNNC_OK;
    if (layer->kind == RNNC_LAYER_DENSE)
        return run_dense(state, call);
    return start(state, state->run, values, layer->kind == RNNC_LAYER_EMBEDDING ? embed : activate);
}

/// The gradients of W, b and x from dz.
static rnnc_status sum_dense(const PointwiseState *state, const rnnc_backward_call *call)
{
    const rnnc_layer_desc *layer = state->options.layer;
    const rnnc_cuda_blas *blas = state->options.blas;
    const rnnc_cuda_moves *moves = state->options.moves;
    float *const x = (float *)state->x, *const z = (float *)state->z;
    float *dW = call->weights[RNNC_WEIGHT_W], *db = call->weights[RNNC_WEIGHT_B];
    const int64_t rows = call->forward.batch * call->forward.timesteps;
    const int64_t I = layer->inputs, O = layer->outputs;
    const rnnc_cuda_gemm to_weights = {.a = z,
                                       .b = x,
                                       .c = dW,
                                       .turns_a = true,
                                       .adds = true,
                                       .m = O,
                                       .n = I,
                                       .k = rows,
                                       .a_stride = O,
                                       .b_stride = I,
                                       .c_stride = I};
    const rnnc_cuda_gemm to_x = {.a = z,
                                 .b = state->weights[RNNC_WEIGHT_W],
                                 .c = x,
                                 .m = rows,
                                 .n = I,
                                 .k = O,
                                 .a_stride = O,
                                 .b_stride = I,
                                 .c_stride = I};
    rnnc_status status = dW ? rnnc_cuda_blas_multiply(blas, &to_weights) : RNNC_OK;
    if (status == RNNC_OK && db)
        status = rnnc_cuda_blas_sum(blas, z, rows, O, O, db);
    if (status == RNNC_OK && call->dx)
        status = rnnc_cuda_blas_multiply(blas, &to_x);
    if (status == RNNC_OK && call->dx)
        status = rnnc_cuda_scatter(moves, rnnc_cuda_steps_of(moves, &call->forward, I), x,
                                   rnnc_cuda_dx_of(call), call->adds_dx);
    return status;
}

static rnnc_status back_dense(const PointwiseState *state, const rnnc_backward_call *call)
{
    const int64_t rows = call->forward.batch * call->forward.timesteps;
    const int64_t outputs = state->options.layer->outputs;
    Finish finish = finish_of(state, &call->forward, (float *)(uintptr_t)call->dy,
                              call->dy_row_stride, call->dy_step_stride);
    void *arguments[] = {&finish};
    rnnc_status status = start(state, state->back, rows * outputs, arguments);
    if (status == RNNC_OK && call->finds_nan) {
        const rnnc_cuda_array dz = {(float *)state->z, outputs, call->forward.batch * outputs};
        status = rnnc_cuda_find_nan(
            state->options.moves, rnnc_cuda_steps_of(state->options.moves, &call->forward, outputs),
            call->forward.layer, dz);
    }
    return status == RNNC_OK ? sum_dense(state, call) : status;
}

static rnnc_status back_activation(const PointwiseState *state, const rnnc_backward_call *call)
{
    const rnnc_layer_call *forward = &call->forward;
    const rnnc_cuda_moves *moves = state->options.moves;
    const int64_t outputs = state->options.layer->outputs;
    Places at = {forward->batch,         forward->timesteps,  forward->x_row_stride,
                 forward->x_step_stride, call->dy_row_stride, call->dy_step_stride};
    const void *x = forward->x;
    const float *dy = call->dy;
    float *dx = call->dx;
    long long row_stride = call->dx_row_stride, step_stride = call->dx_step_stride;
    int adds = call->adds_dx;
    void *arguments[] = {&x, &dy, &dx, &at, &row_stride, &step_stride, &adds};
    if (!dx)
        return RNNC_OK;
    const rnnc_status status =
        start(state, state->back, forward->batch * forward->timesteps * outputs, arguments);
    return status == RNNC_OK && call->finds_nan
               ? rnnc_cuda_find_nan(moves, rnnc_cuda_steps_of(moves, forward, outputs),
                                    forward->layer, rnnc_cuda_dx_of(call))
               : status;
}

static rnnc_status backward(void *memory, const rnnc_backward_call *call)
{
    PointwiseState *state = memory;
    float *table = call->weights[RNNC_WEIGHT_E];
    if (call->forward.batch == 0 || call->forward.timesteps == 0)
        return RNNC_OK;
    if (state->options.layer->kind == RNNC_LAYER_DENSE)
        return back_dense(state, call);
    if (state->options.layer->kind == RNNC_LAYER_ACTIVATION)
        return back_activation(state, call);
    return table ? rnnc_cuda_add_tokens(state->options.moves, call, table) : RNNC_OK;
}

const rnnc_cuda_variant rnnc_cuda_train_pointwise = {
    .prepare = prepare,
    .load_weights = load_weights,
    .run = run,
    .backward = backward,
    .destroy = destroy,
};
