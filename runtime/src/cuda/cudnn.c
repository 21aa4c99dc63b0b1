/* Variant cudnn, host side: one layer through cuDNN's RNN. At preparation every algorithm is tried
 * at the session's largest B and T and timed, directly and in a CUDA graph; the fastest stays, and
 * beside it the standard one where the fastest serves one shape only. A run is
 *
 *     x [B, T, I] float32 --narrow--> [T, B, I] --cudnnRNNForward--> [T, B, O] --widen--> y
 *     states              --narrow--> state_in                state_out --widen--> states
 *
 * where the copies take the steps in reverse for a layer that goes backwards, and x or y that
 * already lies as cuDNN wants it (float32, [T, B, features]) is used in place. Takes no order of
 * steps. Knows no other variant. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../memory.h"
#include "cudnn_algorithm.h"
#include "variant.h"

enum { TIMESTEPS_END = 65536, COPY_THREADS = 256, COPY_BLOCKS_MAX = 2048 };

typedef struct {
    const rnnc_layer_desc *desc;
    CudnnLayer layer;
    CudnnAlgorithm best, standard; /* standard.rnn NULL: best is the standard one, or was named */
    CUfunction narrow, widen;
    char reason[384];
    rnnc_error *error;
} CudnnState;

static rnnc_status fail(CudnnState *state, int status, const char *doing)
{
    char words[256];
    cudnn_status_text(state->layer.dnn, status, words, sizeof words);
    return rnnc_error_set(state->error, RNNC_DEVICE_ERROR, "layer %s: cuDNN, %s: %s",
                          state->desc->name, doing, words);
}

/// Tries all algorithms, or the one of number `only`, and keeps the fastest; false where none runs.
/// `reason` gets the outcome.
static bool choose_algorithm(CudnnState *state, int only)
{
    CudnnLayer *layer = &state->layer;
    char *at = state->reason, *const end = at + sizeof state->reason;
    for (int i = 0; i < DNN_ALGORITHMS; i++) {
        CudnnAlgorithm tried;
        if (only >= 0 && i != only)
            continue;
        const bool runs = cudnn_algorithm_try(layer, i, &tried);
        if (at < end && runs)
            at += snprintf(at, (size_t)(end - at), "%s%s %.1f us%s", at > state->reason ? "; " : "",
                           cudnn_algorithm_names[i], tried.us, tried.graph ? " in a graph" : "");
        else if (at < end)
            at += snprintf(at, (size_t)(end - at), "%s%s refused: %s",
                           at > state->reason ? "; " : "", cudnn_algorithm_names[i], tried.refusal);
        if (!runs)
            continue;
        CudnnAlgorithm slower = tried;
        if (!state->best.rnn || tried.us < state->best.us) {
            slower = state->best;
            state->best = tried;
        }
        if (slower.rnn && slower.algorithm == DNN_STANDARD)
            state->standard = slower;
        else if (slower.rnn)
            cudnn_algorithm_close(layer, &slower);
    }
    return state->best.rnn != NULL;
}

static void destroy(void *memory)
{
    CudnnState *state = memory;
    if (!state)
        return;
    cudnn_algorithm_close(&state->layer, &state->best);
    cudnn_algorithm_close(&state->layer, &state->standard);
    cudnn_layer_close(&state->layer);
    rnnc_memory_free(state);
}

/// RnnTensor of templates/cuda/cudnn_copy.cu.
typedef struct {
    long long row_stride, step_stride, rows, steps, n;
    int reversed;
} Tensor;

/// A state [B, n], or an output without steps.
static Tensor tensor_of_rows(int64_t row_stride, int64_t rows, int64_t n)
{
    return (Tensor){.row_stride = row_stride, .rows = rows, .steps = 1, .n = n};
}

/// Between the module's tensor and [T, B, n] in the layer's type, by `function` narrow or widen.
static int copy(CudnnState *state, CUfunction function, const void *from, void *to, Tensor of)
{
    const int64_t wanted = (of.steps * of.rows * of.n + COPY_THREADS - 1) / COPY_THREADS;
    const unsigned blocks = (unsigned)(wanted < COPY_BLOCKS_MAX ? wanted : COPY_BLOCKS_MAX);
    void *arguments[] = {&from, &to, &of};
    return state->layer.cuda->cuLaunchKernel(function, blocks, 1, 1, COPY_THREADS, 1, 1, 0,
                                             state->layer.stream, arguments, NULL);
}

/// Whether a tensor of the module's is [T, B, n] in the layer's type as it lies, and as aligned as
/// memory of our own is to a vector load.
static bool fits(const CudnnState *state, const void *at, const Tensor *of)
{
    return state->layer.element_bytes == sizeof(float) && (uintptr_t)at % 16 == 0 &&
           (of->steps == 1 || (of->step_stride == of->rows * of->n && !of->reversed)) &&
           (of->rows == 1 || of->row_stride == of->n);
}

/// The forward pass by the best algorithm in this shape; the standard one serves what it refuses.
static int forward(CudnnState *state, const void *x, void *y)
{
    CudnnLayer *layer = &state->layer;
    int capturing = 0; // the caller's graph cannot take a launch of ours
    layer->cuda->cuStreamIsCapturing(layer->stream, &capturing);
    const bool largest =
        layer->batch == layer->max_batch && layer->timesteps == layer->max_timesteps;
    if (!capturing && largest && state->best.graph && x == layer->x && y == layer->y)
        return layer->cuda->cuGraphLaunch(state->best.graph, layer->stream) ? DNN_EXECUTION_FAILED
                                                                            : DNN_SUCCESS;
    const bool built_for_batch =
        state->best.algorithm != DNN_PERSIST_DYNAMIC || layer->batch == layer->max_batch;
    int status = DNN_NOT_SUPPORTED;
    if (built_for_batch)
        status = cudnn_algorithm_forward(layer, &state->best, x, y);
    if (status && state->standard.rnn)
        status = cudnn_algorithm_forward(layer, &state->standard, x, y);
    return status;
}

/// Copies x and the states in, runs, copies y and the states out. A CUDA status; a failure of cuDNN
/// in `*out_status`.
static int run_copies(CudnnState *state, const rnnc_layer_call *call, int *out_status)
{
    const rnnc_layer_desc *desc = state->desc;
    CudnnLayer *layer = &state->layer;
    const int64_t B = call->batch, T = call->timesteps;
    const bool sequence = desc->sequence_out || !desc->sequence_in;
    const Tensor of_x = {call->x_row_stride, call->x_step_stride, B, T,
                         desc->inputs,       desc->reversed != 0};
    const Tensor of_y = {call->y_row_stride,
                         call->y_step_stride,
                         B,
                         T,
                         desc->outputs,
                         desc->reversed && !desc->go_backwards};
    const bool in_place = !state->best.graph; // a graph has the layer's own x and y in it
    const void *x = in_place && fits(state, call->x, &of_x) ? call->x : layer->x;
    void *y = in_place && sequence && fits(state, call->y, &of_y) ? (void *)call->y : layer->y;
    int failed = 0;
    if (x != call->x)
        failed = copy(state, state->narrow, call->x, layer->x, of_x);
    for (int i = 0; i < desc->state_count && !failed; i++)
        failed = copy(state, state->narrow, call->states[i], layer->state_in[i],
                      tensor_of_rows(desc->state_sizes[i], B, desc->state_sizes[i]));
    *out_status = failed ? DNN_SUCCESS : forward(state, x, y);
    if (failed || *out_status)
        return failed;
    if (!sequence)
        failed = copy(state, state->widen, layer->state_out[0], call->y,
                      tensor_of_rows(call->y_row_stride, B, desc->outputs));
    else if (y != call->y)
        failed = copy(state, state->widen, layer->y, call->y, of_y);
    for (int i = 0; i < desc->state_count && !failed; i++)
        failed = copy(state, state->widen, layer->state_out[i], call->states[i],
                      tensor_of_rows(desc->state_sizes[i], B, desc->state_sizes[i]));
    return failed;
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    CudnnState *state = memory;
    if (call->batch == 0 || call->timesteps == 0)
        return RNNC_OK;
    int status = call->timesteps < TIMESTEPS_END
                     ? cudnn_layer_shape(&state->layer, (int)call->batch, (int)call->timesteps)
                     : DNN_NOT_SUPPORTED;
    int failed = 0;
    if (!status)
        failed = run_copies(state, call, &status);
    if (failed)
        return rnnc_error_set(state->error, RNNC_DEVICE_ERROR,
                              "layer %s: a copy kernel failed (%d)", state->desc->name, failed);
    return status ? fail(state, status, "forward pass") : RNNC_OK;
}

static rnnc_status set_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    CudnnState *state = memory;
    int status = cudnn_algorithm_pack(&state->layer, &state->best, weights);
    if (!status && state->standard.rnn)
        status = cudnn_algorithm_pack(&state->layer, &state->standard, weights);
    return status ? fail(state, status, "packing weights") : RNNC_OK;
}

/// Sizes that cuDNN's 32-bit interface cannot take.
static rnnc_status check_sizes(const rnnc_cuda_layer_options *options)
{
    const rnnc_layer_desc *desc = options->layer;
    if (!desc->cudnn)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                              "layer %s: outside cuDNN's criteria", desc->name);
    if (options->max_timesteps >= TIMESTEPS_END)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                              "layer %s: cuDNN takes fewer than %d timesteps", desc->name,
                              TIMESTEPS_END);
    const int64_t widest = desc->units > desc->inputs ? desc->units : desc->inputs;
    if (options->max_batch > INT32_MAX / widest)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                              "layer %s: a batch of %lld is more than cuDNN takes", desc->name,
                              (long long)options->max_batch);
    return RNNC_OK;
}

static void fill_layer(const rnnc_cuda_layer_options *options, const CudnnLibrary *dnn,
                       CudnnLayer *layer)
{
    const rnnc_layer_desc *desc = options->layer;
    *layer = (CudnnLayer){
        .dnn = dnn,
        .cuda = options->cuda,
        .stream = options->stream,
        .mode = desc->cudnn->mode,
        .bias_mode = desc->cudnn->bias,
        .projection = desc->cudnn->projection,
        .layers = 1,
        .directions = 1,
        .inputs = (int)desc->inputs,
        .units = (int)desc->units,
        .max_batch = (int)options->max_batch,
        .max_timesteps = (int)options->max_timesteps,
    };
    cudnn_layer_set_precision(layer, (rnnc_precision)options->module->precision);
}

/// The number of the algorithm that the session names; -1: it names none.
static rnnc_status find_algorithm(const rnnc_cuda_layer_options *options, int *out_algorithm)
{
    *out_algorithm = -1;
    if (!options->detail)
        return RNNC_OK;
    for (int i = 0; i < DNN_ALGORITHMS; i++)
        if (strcmp(options->detail, cudnn_algorithm_names[i]) == 0)
            *out_algorithm = i;
    return *out_algorithm >= 0
               ? RNNC_OK
               : rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                                "layer %s: cuDNN has no algorithm '%s'; it has %s, %s, %s and %s",
                                options->layer->name, options->detail, cudnn_algorithm_names[0],
                                cudnn_algorithm_names[1], cudnn_algorithm_names[2],
                                cudnn_algorithm_names[3]);
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    int only;
    rnnc_status result = check_sizes(options);
    if (result == RNNC_OK)
        result = find_algorithm(options, &only);
    if (result)
        return result;
    const char *missing;
    const CudnnLibrary *dnn = cudnn_library_open(&missing);
    if (!dnn)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE, "layer %s: %s",
                              options->layer->name, missing);
    CudnnState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "out of host memory");
    state->desc = options->layer;
    state->error = options->error;
    fill_layer(options, dnn, &state->layer);
    int status = cudnn_layer_open(&state->layer);
    if (options->cuda->cuModuleGetFunction(&state->narrow, options->image, "rnn_cudnn_narrow") ||
        options->cuda->cuModuleGetFunction(&state->widen, options->image, "rnn_cudnn_widen"))
        result =
            rnnc_error_set(options->error, RNNC_DEVICE_ERROR,
                           "layer %s: the image of cudnn lacks its kernels", options->layer->name);
    else if (status == DNN_ALLOC_FAILED)
        result = rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY,
                                "layer %s: no memory for cuDNN's tensors", options->layer->name);
    else if (status)
        result = fail(state, status, "setting up");
    else if (!choose_algorithm(state, only))
        result = rnnc_error_set(options->error, RNNC_UNAVAILABLE, "layer %s: cuDNN: %s",
                                options->layer->name, state->reason);
    if (result)
        destroy(state);
    else
        *out_state = state;
    return result;
}

static const char *reason(const void *state)
{
    return ((const CudnnState *)state)->reason;
}

const rnnc_cuda_variant rnnc_cuda_cudnn = {
    .kind = RNNC_VARIANT_CUDNN,
    .takes_detail = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .reason = reason,
    .destroy = destroy,
};
