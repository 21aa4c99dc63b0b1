/* Variant stepwise, host side. A run is
 *
 *     W*x of all steps    rnn_input
 *     for s, for phase p: rnn_step<p>, product and pointwise part (templates/cuda/stepwise.cu);
 *                         rnn_norm<p> after it in a phase with norms
 *
 * issued plainly, or as one CUDA graph (replay.h). States are updated in place where the cell has
 * one phase; else they alternate between the caller's memory (even steps) and `alternates`. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../memory.h"
#include "launch.h"
#include "layer_weights.h"
#include "replay.h"

enum { THREADS = 256, TILE_ROWS = 64, CHUNK_BYTES = 256 };

/// What a graph has baked in.
typedef struct {
    const void *x;
    float *y;
    const int32_t *order;
    const rnnc_row *rows;
    const float *recurrent_scale;
    float *states[RNNC_STATES_MAX];
    int64_t batch, timesteps, x_row_stride, x_step_stride, y_row_stride, y_step_stride;
} GraphKey;

/// RnnShape of templates/cuda/stepwise.cu: of the tile for few rows, which R is packed for, and of
/// that for many.
typedef struct {
    int tiles, shared_bytes, tiles_many, shared_bytes_many, columns;
} Shape;

typedef struct {
    rnnc_layer_weights weights;
    CUfunction few[RNNC_PHASES_MAX], many[RNNC_PHASES_MAX], norms[RNNC_PHASES_MAX];
    Shape shapes[RNNC_PHASES_MAX];
    int sm_count;
    bool waits;                            ///< the kernels may begin while the one before them runs
    CUdeviceptr matrices[RNNC_PHASES_MAX]; ///< rows of R or P as operands; 0: no product
    CUdeviceptr operands[RNNC_PHASES_MAX][2]; ///< narrowed operands by parity; carries have one
    CUdeviceptr alternates[RNNC_STATES_MAX], carries[RNNC_GATES_MAX];
    CUdeviceptr product; ///< of a phase with norms
    rnnc_cuda_replay replay;
} StepwiseState;

/// RnnStep of templates/cuda/stepwise.cu.
typedef struct {
    CUdeviceptr input, matrix, operand, bias, recurrent_bias, parameter;
    CUdeviceptr state_in[RNNC_STATES_MAX], state_out[RNNC_STATES_MAX];
    CUdeviceptr carries[RNNC_GATES_MAX], operands[RNNC_PHASES_MAX];
    CUdeviceptr product;
    float *y;
    const int32_t *order;
    const rnnc_row *rows;
    const float *scale;
    long long batch, timesteps, step, y_row_stride, y_step_stride;
} StepArguments;

static void destroy(void *memory)
{
    StepwiseState *state = memory;
    if (!state)
        return;
    const rnnc_cuda_driver *cuda = state->weights.options.cuda;
    rnnc_cuda_replay_close(&state->replay, cuda);
    for (int p = 0; p < RNNC_PHASES_MAX; p++) {
        const CUdeviceptr memories[] = {state->matrices[p], state->operands[p][0],
                                        state->operands[p][1], state->alternates[p]};
        for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
            if (memories[i])
                cuda->cuMemFree(memories[i]);
    }
    for (int i = 0; i < RNNC_GATES_MAX; i++)
        if (state->carries[i])
            cuda->cuMemFree(state->carries[i]);
    if (state->product)
        cuda->cuMemFree(state->product);
    rnnc_layer_weights_close(&state->weights);
    rnnc_memory_free(state);
}

/// Values of a head of a phase's operand: the K of its product.
static int64_t head_depth(const rnnc_phase_desc *phase)
{
    return phase->operand_size / phase->heads;
}

/// Operands of K in a chunk, and chunks of a phase's product.
static int64_t chunk_depth(const StepwiseState *state)
{
    return CHUNK_BYTES / rnnc_layer_weights_operand_bytes(&state->weights);
}
static int64_t chunk_count(const StepwiseState *state, const rnnc_phase_desc *phase)
{
    return (head_depth(phase) + chunk_depth(state) - 1) / chunk_depth(state);
}

/// Rows of CHUNK_BYTES of a phase's packed matrix.
static int64_t packed_rows(const StepwiseState *state, int index)
{
    const Shape *shape = &state->shapes[index];
    return shape->tiles * shape->columns *
           chunk_count(state, &state->weights.options.layer->phases[index]);
}

/// A phase's matrix and operand buffers. The padding of both stays 0.
static rnnc_status allocate_phase(StepwiseState *state, int index)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_phase_desc *phase = &options->layer->phases[index];
    if (phase->row_count == 0)
        return RNNC_OK;
    const int64_t padded_bytes = rnnc_layer_weights_padded(&state->weights, head_depth(phase)) *
                                 rnnc_layer_weights_operand_bytes(&state->weights);
    rnnc_status status = rnnc_layer_weights_alloc(
        &state->weights, packed_rows(state, index) * CHUNK_BYTES, &state->matrices[index]);
    for (int i = 0; i < (phase->operand_is_state ? 2 : 1) && status == RNNC_OK; i++)
        status = rnnc_layer_weights_alloc(&state->weights,
                                          options->max_batch * phase->heads * padded_bytes,
                                          &state->operands[index][i]);
    return status;
}

static rnnc_status allocate(StepwiseState *state)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_layer_desc *layer = options->layer;
    const int64_t row_bytes = options->max_batch * (int64_t)sizeof(float);
    int64_t widest = 0;
    rnnc_status status = RNNC_OK;
    for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++) {
        const int64_t columns = layer->phases[p].statistic_count
                                    ? layer->phases[p].row_count * layer->phases[p].size
                                    : 0;
        widest = columns > widest ? columns : widest;
        status = allocate_phase(state, p);
    }
    if (status == RNNC_OK)
        status = rnnc_layer_weights_alloc(&state->weights, widest * row_bytes, &state->product);
    for (int i = 0; i < layer->state_count && status == RNNC_OK && layer->phase_count > 1; i++)
        status = rnnc_layer_weights_alloc(&state->weights, layer->state_sizes[i] * row_bytes,
                                          &state->alternates[i]);
    for (int i = 0; i < layer->carry_count && status == RNNC_OK; i++)
        status = rnnc_layer_weights_alloc(&state->weights, layer->carry_sizes[i] * row_bytes,
                                          &state->carries[i]);
    return status;
}

static CUresult find_kernel(const rnnc_cuda_layer_options *options, const char *prefix, int phase,
                            int shared_bytes, CUfunction *out)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", prefix, phase);
    CUresult result = options->cuda->cuModuleGetFunction(out, options->image, name);
    if (!result && shared_bytes > 0)
        result = options->cuda->cuFuncSetAttribute(
            *out, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes);
    return result;
}

static rnnc_status find_kernels(StepwiseState *state, const rnnc_cuda_layer_options *options)
{
    const rnnc_cuda_driver *cuda = options->cuda;
    CUdeviceptr shapes = 0;
    CUdevice device = 0;
    size_t bytes = 0;
    CUresult result = cuda->cuModuleGetGlobal(&shapes, &bytes, options->image, "rnn_shapes");
    if (!result && bytes <= sizeof state->shapes)
        result = cuda->cuMemcpyDtoH(state->shapes, shapes, bytes);
    if (!result)
        result = cuda->cuCtxGetDevice(&device);
    if (!result)
        result = cuda->cuDeviceGetAttribute(&state->sm_count,
                                            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    for (int p = 0; p < options->layer->phase_count && !result; p++) {
        const Shape *shape = &state->shapes[p];
        result = find_kernel(options, "rnn_step", p, shape->shared_bytes, &state->few[p]);
        if (!result)
            result =
                find_kernel(options, "rnn_steps", p, shape->shared_bytes_many, &state->many[p]);
        if (!result && options->layer->phases[p].statistic_count > 0)
            result = find_kernel(options, "rnn_norm", p, 0, &state->norms[p]);
    }
    state->waits = !result && rnnc_cuda_waits(cuda, state->few[0]);
    return rnnc_layer_weights_check(&state->weights, result,
                                    "looking for the kernels of its steps");
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    StepwiseState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    rnnc_status status = rnnc_layer_weights_open(options, &state->weights);
    if (status == RNNC_OK)
        status = find_kernels(state, options);
    if (status == RNNC_OK)
        status = allocate(state);
    if (status == RNNC_OK)
        *out_state = state;
    else
        destroy(state);
    return status;
}

/// One gate of one unit, chunk by chunk; `to` is its row in the tile's first chunk.
static void pack_row(const float *from, int64_t depth, int64_t chunk, int64_t apart, float *to)
{
    for (int64_t k = 0; k < depth; k += chunk, to += apart)
        memcpy(to, from + k, (size_t)(depth - k < chunk ? depth - k : chunk) * sizeof *to);
}

/// The rows that a phase multiplies, as the kernels' packed tiles (templates/cuda/stepwise.cu).
static void pack_matrix(const StepwiseState *state, int index, const float *matrix, float *packed)
{
    const rnnc_phase_desc *phase = &state->weights.options.layer->phases[index];
    const Shape *shape = &state->shapes[index];
    const int64_t depth = head_depth(phase), chunk = chunk_depth(state);
    const int64_t units = shape->columns / phase->row_count, apart = shape->columns * chunk;
    const int64_t head_units = phase->size / phase->heads;
    const int64_t head_tiles = shape->tiles / phase->heads;
    for (int64_t u = 0; u < phase->size; u++) {
        const int64_t within = u % head_units;
        const int64_t tile = u / head_units * head_tiles + within / units;
        float *to = packed + tile * chunk_count(state, phase) * apart + within % units * chunk;
        for (int g = 0; g < phase->row_count; g++)
            pack_row(matrix + (phase->rows[g] * phase->size + u) * depth, depth, chunk, apart,
                     to + g * units * chunk);
    }
}

static rnnc_status set_matrix(StepwiseState *state, int index,
                              const float *const weights[RNNC_WEIGHT_COUNT])
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_phase_desc *phase = &options->layer->phases[index];
    const int64_t rows = packed_rows(state, index), chunk = chunk_depth(state);
    CUdeviceptr wide = 0;
    float *packed = rnnc_memory_alloc((size_t)(rows * chunk) * sizeof *packed);
    if (!packed)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for weights");
    pack_matrix(state, index, weights[phase->matrix], packed);
    rnnc_status status = rnnc_layer_weights_upload(&state->weights, packed, rows * chunk, &wide);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_convert(&state->weights, wide, 0, state->matrices[index], rows,
                                            chunk, chunk);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_check(&state->weights,
                                          options->cuda->cuStreamSynchronize(options->stream),
                                          "converting weights");
    if (wide)
        options->cuda->cuMemFree(wide);
    rnnc_memory_free(packed);
    return status;
}

static rnnc_status set_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    StepwiseState *state = memory;
    const rnnc_layer_desc *layer = state->weights.options.layer;
    rnnc_status status = rnnc_layer_weights_set(&state->weights, weights);
    for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++)
        if (layer->phases[p].row_count > 0)
            status = set_matrix(state, p, weights);
    return status;
}

static StepArguments first_arguments(const StepwiseState *state, const rnnc_layer_call *call)
{
    const rnnc_layer_weights *weights = &state->weights;
    StepArguments step = {.input = weights->input,
                          .bias = weights->bias,
                          .recurrent_bias = weights->recurrent_bias,
                          .parameter = weights->parameter,
                          .product = state->product,
                          .y = call->y,
                          .order = call->order,
                          .rows = call->rows,
                          .scale = call->recurrent_scale,
                          .batch = call->batch,
                          .timesteps = call->timesteps,
                          .y_row_stride = call->y_row_stride,
                          .y_step_stride = call->y_step_stride};
    for (int i = 0; i < weights->options.layer->carry_count; i++)
        step.carries[i] = state->carries[i];
    return step;
}

/// Points the arguments at step s.
static void set_step(const StepwiseState *state, const rnnc_layer_call *call, int64_t s,
                     StepArguments *step)
{
    const rnnc_layer_desc *layer = state->weights.options.layer;
    const int parity = (int)(s & 1);
    step->step = s;
    for (int i = 0; i < layer->state_count; i++) {
        const CUdeviceptr own = (CUdeviceptr)call->states[i];
        const CUdeviceptr other = layer->phase_count > 1 ? state->alternates[i] : own;
        step->state_in[i] = parity ? other : own;
        step->state_out[i] = parity ? own : other;
    }
    for (int p = 0; p < layer->phase_count; p++)
        step->operands[p] = state->operands[p][layer->phases[p].operand_is_state ? parity ^ 1 : 0];
}

/// One launch of a step. All but a run's first may begin before the launch in front of them ends:
/// they wait for it before they touch what a run writes.
static CUresult launch(const StepwiseState *state, CUfunction kernel, unsigned across,
                       unsigned down, int shared_bytes, bool first, StepArguments *step)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    void *arguments[] = {step};
    CUlaunchAttribute early = rnnc_cuda_early();
    const CUlaunchConfig config = {.gridDimX = across,
                                   .gridDimY = down,
                                   .gridDimZ = 1,
                                   .blockDimX = THREADS,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = (unsigned)shared_bytes,
                                   .hStream = options->stream,
                                   .attrs = &early,
                                   .numAttrs = state->waits && !first};
    return options->cuda->cuLaunchKernelEx(&config, kernel, arguments, NULL);
}

static rnnc_status run_phase(StepwiseState *state, int index, StepArguments *step)
{
    const rnnc_phase_desc *phase = &state->weights.options.layer->phases[index];
    const Shape *shape = &state->shapes[index];
    const int64_t row_tiles = (step->batch + TILE_ROWS - 1) / TILE_ROWS;
    const bool many =
        shape->tiles_many < shape->tiles && row_tiles * shape->tiles_many >= state->sm_count;
    const bool first = step->step == 0 && index == 0;
    const bool multiplies = phase->row_count > 0 || phase->statistic_count == 0;
    CUresult result = 0;
    step->matrix = state->matrices[index];
    step->operand = state->operands[index][phase->operand_is_state ? step->step & 1 : 0];
    if (multiplies && many)
        result = launch(state, state->many[index], (unsigned)shape->tiles_many, (unsigned)row_tiles,
                        shape->shared_bytes_many, first, step);
    else if (multiplies)
        result = launch(state, state->few[index], (unsigned)shape->tiles, (unsigned)row_tiles,
                        shape->shared_bytes, first, step);
    if (!result && phase->statistic_count > 0)
        result = launch(state, state->norms[index], (unsigned)step->batch, 1, 0,
                        first && !multiplies, step);
    return rnnc_layer_weights_check(&state->weights, result, "starting a step");
}

/// Narrows the initial states for the products that read them.
static rnnc_status narrow_states(const StepwiseState *state, const rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = state->weights.options.layer;
    rnnc_status status = RNNC_OK;
    for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++) {
        const rnnc_phase_desc *phase = &layer->phases[p];
        const CUdeviceptr scale =
            phase->matrix == RNNC_WEIGHT_R ? (CUdeviceptr)call->recurrent_scale : 0;
        if (phase->row_count > 0 && phase->operand_is_state)
            status = rnnc_layer_weights_convert(
                &state->weights, (CUdeviceptr)call->states[phase->operand], scale,
                state->operands[p][0], call->batch, phase->operand_size, head_depth(phase));
    }
    return status;
}

/// All launches of a run, one after the other on the stream.
static rnnc_status issue(StepwiseState *state, const rnnc_layer_call *call)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_layer_desc *layer = options->layer;
    rnnc_status status = rnnc_layer_weights_multiply(&state->weights, call);
    if (status == RNNC_OK)
        status = narrow_states(state, call);
    StepArguments step = first_arguments(state, call);
    for (int64_t s = 0; s < call->timesteps && status == RNNC_OK; s++) {
        set_step(state, call, s, &step);
        for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++)
            status = run_phase(state, p, &step);
    }
    const bool elsewhere = layer->phase_count > 1 && (call->timesteps & 1);
    for (int i = 0; i < layer->state_count && status == RNNC_OK && elsewhere; i++)
        status = rnnc_layer_weights_check(
            &state->weights,
            options->cuda->cuMemcpyDtoDAsync(
                (CUdeviceptr)call->states[i], state->alternates[i],
                (size_t)(call->batch * layer->state_sizes[i]) * sizeof(float), options->stream),
            "copying the final states");
    return status;
}

static GraphKey key_of(const StepwiseState *state, const rnnc_layer_call *call)
{
    GraphKey key;
    memset(&key, 0, sizeof key);
    key.x = call->x;
    key.y = call->y;
    key.order = call->order;
    key.rows = call->rows;
    key.recurrent_scale = call->recurrent_scale;
    key.batch = call->batch;
    key.timesteps = call->timesteps;
    key.x_row_stride = call->x_row_stride;
    key.x_step_stride = call->x_step_stride;
    key.y_row_stride = call->y_row_stride;
    key.y_step_stride = call->y_step_stride;
    for (int i = 0; i < state->weights.options.layer->state_count; i++)
        key.states[i] = call->states[i];
    return key;
}

/// What a replay issues.
typedef struct {
    StepwiseState *state;
    const rnnc_layer_call *call;
} Issue;

static rnnc_status issue_run(void *context)
{
    const Issue *run = context;
    return issue(run->state, run->call);
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    StepwiseState *state = memory;
    const rnnc_cuda_layer_options *options = &state->weights.options;
    if (call->batch == 0 || call->timesteps == 0)
        return RNNC_OK;
    const GraphKey key = key_of(state, call);
    Issue of_run = {state, call};
    CUgraphExec graph =
        rnnc_cuda_replay_find(&state->replay, options->cuda, options->stream, &key, sizeof key,
                              call->timesteps * options->layer->phase_count, issue_run, &of_run);
    if (!graph)
        return issue(state, call);
    return rnnc_layer_weights_check(&state->weights,
                                    options->cuda->cuGraphLaunch(graph, options->stream),
                                    "starting the graph of its steps");
}

const rnnc_cuda_variant rnnc_cuda_stepwise = {
    .kind = RNNC_VARIANT_STEPWISE,
    .masks = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .destroy = destroy,
};
