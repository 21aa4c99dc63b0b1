/* Variant stepwise, host side. A run is
 *
 *     W*x of all steps    cuBLAS
 *     for t, for phase p: product = operand * R_p^T (cuBLAS); rnn_step<p> (templates/cuda)
 *
 * issued plainly, or as one CUDA graph: a run whose sizes and pointers are those of the run before
 * is captured, and replayed from then on. States are updated in place where the cell has one phase;
 * else they alternate between the caller's memory (even steps) and `alternates`. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../memory.h"
#include "layer_weights.h"

enum { THREADS = 128, WARP = 32, ROWS_MAX = 65535, GRAPHS = 4, GRAPH_LAUNCHES_MAX = 1 << 14 };

/// What a graph has baked in.
typedef struct {
    const void *x;
    float *y;
    float *states[RNNC_STATES_MAX];
    int64_t batch, timesteps;
} GraphKey;

typedef struct {
    GraphKey key;
    CUgraphExec executable; ///< NULL: free
    uint64_t used;          ///< of the run that used it last
} CachedGraph;

typedef struct {
    rnnc_layer_weights weights;
    CUfunction steps[RNNC_PHASES_MAX];
    CUdeviceptr matrices[RNNC_PHASES_MAX];    ///< rows of R or P as operands; 0: no product
    CUdeviceptr operands[RNNC_PHASES_MAX][2]; ///< narrowed operands by parity; 0: float32 is read
    CUdeviceptr alternates[RNNC_STATES_MAX], carries[RNNC_GATES_MAX], product;
    CachedGraph graphs[GRAPHS];
    GraphKey last;
    uint64_t runs;
    bool no_graphs; ///< this stream cannot be captured
} StepwiseState;

/// RnnStep of templates/cuda/stepwise.cu.
typedef struct {
    CUdeviceptr input, product, bias, recurrent_bias, parameter;
    CUdeviceptr state_in[RNNC_STATES_MAX], state_out[RNNC_STATES_MAX];
    CUdeviceptr carries[RNNC_GATES_MAX], operands[RNNC_PHASES_MAX];
    CUdeviceptr y;
    long long batch, input_stride, y_stride;
} StepArguments;

static void destroy(void *memory)
{
    StepwiseState *state = memory;
    if (!state)
        return;
    const rnnc_cuda_driver *cuda = state->weights.options.cuda;
    for (int i = 0; i < GRAPHS; i++)
        if (state->graphs[i].executable)
            cuda->cuGraphExecDestroy(state->graphs[i].executable);
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

/// A phase's matrix and, in 16 bits, its operand buffers.
static rnnc_status allocate_phase(StepwiseState *state, int index)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_phase_desc *phase = &options->layer->phases[index];
    const int64_t bytes = rnnc_layer_weights_operand_bytes(&state->weights);
    if (phase->row_count == 0)
        return RNNC_OK;
    rnnc_status status = rnnc_layer_weights_alloc(
        &state->weights, phase->row_count * phase->size * phase->operand_size * bytes,
        &state->matrices[index]);
    for (int i = 0; i < 2 && status == RNNC_OK && rnnc_layer_weights_narrow(&state->weights); i++)
        status = rnnc_layer_weights_alloc(&state->weights,
                                          options->max_batch * phase->operand_size * bytes,
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
        const int64_t columns = layer->phases[p].row_count * layer->phases[p].size;
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

static rnnc_status find_kernels(StepwiseState *state, const rnnc_cuda_layer_options *options)
{
    for (int p = 0; p < options->layer->phase_count; p++) {
        char name[32];
        snprintf(name, sizeof name, "rnn_step%d", p);
        if (options->cuda->cuModuleGetFunction(&state->steps[p], options->image, name))
            return rnnc_error_set(options->error, RNNC_DEVICE_ERROR,
                                  "layer %s: the image of stepwise lacks %s", options->layer->name,
                                  name);
    }
    return RNNC_OK;
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    StepwiseState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    rnnc_status status = rnnc_layer_weights_open(options, NULL, &state->weights);
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

/// The rows that a phase multiplies, one below the other, as operands.
static rnnc_status set_matrix(StepwiseState *state, int index,
                              const float *const weights[RNNC_WEIGHT_COUNT])
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_phase_desc *phase = &options->layer->phases[index];
    const int64_t block = phase->size * phase->operand_size, count = block * phase->row_count;
    const float *from = weights[phase->matrix];
    CUdeviceptr wide = 0;
    float *rows = rnnc_memory_alloc((size_t)count * sizeof *rows);
    if (!rows)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for weights");
    for (int r = 0; r < phase->row_count; r++)
        memcpy(rows + r * block, from + phase->rows[r] * block, (size_t)block * sizeof *rows);
    rnnc_status status = rnnc_layer_weights_upload(&state->weights, rows, count, &wide);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_convert(&state->weights, wide, state->matrices[index], count);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_check(&state->weights,
                                          options->cuda->cuStreamSynchronize(options->stream),
                                          "converting weights");
    if (wide)
        options->cuda->cuMemFree(wide);
    rnnc_memory_free(rows);
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
    const rnnc_layer_desc *layer = weights->options.layer;
    StepArguments step = {.product = state->product,
                          .bias = weights->bias,
                          .recurrent_bias = weights->recurrent_bias,
                          .parameter = weights->parameter,
                          .batch = call->batch,
                          .input_stride = call->timesteps * weights->input_stride,
                          .y_stride = layer->sequence_out ? call->timesteps * layer->outputs
                                                          : layer->outputs};
    for (int i = 0; i < layer->carry_count; i++)
        step.carries[i] = state->carries[i];
    return step;
}

/// Points the arguments at step t.
static void set_step(const StepwiseState *state, const rnnc_layer_call *call, int64_t t,
                     StepArguments *step)
{
    const rnnc_layer_desc *layer = state->weights.options.layer;
    const int parity = (int)(t & 1);
    step->input =
        state->weights.input + (CUdeviceptr)(t * state->weights.input_stride) * sizeof(float);
    for (int i = 0; i < layer->state_count; i++) {
        const CUdeviceptr own = (CUdeviceptr)call->states[i];
        const CUdeviceptr other = layer->phase_count > 1 ? state->alternates[i] : own;
        step->state_in[i] = parity ? other : own;
        step->state_out[i] = parity ? own : other;
    }
    for (int p = 0; p < layer->phase_count; p++)
        step->operands[p] = state->operands[p][layer->phases[p].operand_is_state ? parity ^ 1 : 0];
    const bool writes = layer->sequence_out || t == call->timesteps - 1;
    const CUdeviceptr y = (CUdeviceptr)call->y;
    step->y = !writes               ? 0
              : layer->sequence_out ? y + (CUdeviceptr)(t * layer->outputs) * sizeof(float)
                                    : y;
}

static rnnc_status run_phase(StepwiseState *state, int index, int parity, StepArguments *step)
{
    const rnnc_layer_weights *weights = &state->weights;
    const rnnc_phase_desc *phase = &weights->options.layer->phases[index];
    if (phase->row_count > 0) {
        CUdeviceptr operand = phase->operand_is_state ? step->state_in[phase->operand]
                                                      : step->carries[phase->operand];
        if (rnnc_layer_weights_narrow(weights))
            operand = state->operands[index][phase->operand_is_state ? parity : 0];
        const int64_t columns = phase->row_count * phase->size;
        rnnc_status status = rnnc_cublas_multiply(
            weights->blas, (rnnc_precision)weights->options.module->precision, operand,
            phase->operand_size, state->matrices[index], phase->operand_size, 0.0f, state->product,
            columns, step->batch, columns, phase->operand_size);
        if (status != RNNC_OK)
            return status;
    }
    const int64_t threads =
        phase->size < THREADS ? (phase->size + WARP - 1) / WARP * WARP : THREADS;
    void *arguments[] = {step};
    return rnnc_layer_weights_check(
        weights,
        weights->options.cuda->cuLaunchKernel(
            state->steps[index], (unsigned)((phase->size + threads - 1) / threads),
            (unsigned)(step->batch < ROWS_MAX ? step->batch : ROWS_MAX), 1, (unsigned)threads, 1, 1,
            0, weights->options.stream, arguments, NULL),
        "starting a step");
}

/// Narrows the initial states for the products that read them.
static rnnc_status narrow_states(const StepwiseState *state, const rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = state->weights.options.layer;
    rnnc_status status = RNNC_OK;
    for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++) {
        const rnnc_phase_desc *phase = &layer->phases[p];
        if (phase->row_count > 0 && phase->operand_is_state &&
            rnnc_layer_weights_narrow(&state->weights))
            status = rnnc_layer_weights_convert(
                &state->weights, (CUdeviceptr)call->states[phase->operand], state->operands[p][0],
                call->batch * phase->operand_size);
    }
    return status;
}

/// All launches of a run, one after the other on the stream.
static rnnc_status issue(StepwiseState *state, const rnnc_layer_call *call)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_layer_desc *layer = options->layer;
    rnnc_status status =
        rnnc_layer_weights_multiply(&state->weights, call->x, call->batch * call->timesteps);
    if (status == RNNC_OK)
        status = narrow_states(state, call);
    StepArguments step = first_arguments(state, call);
    for (int64_t t = 0; t < call->timesteps && status == RNNC_OK; t++) {
        set_step(state, call, t, &step);
        for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++)
            status = run_phase(state, p, (int)(t & 1), &step);
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
    key.batch = call->batch;
    key.timesteps = call->timesteps;
    for (int i = 0; i < state->weights.options.layer->state_count; i++)
        key.states[i] = call->states[i];
    return key;
}

/// Records a run into an executable graph; NULL where that is impossible here.
static CUgraphExec capture(StepwiseState *state, const rnnc_layer_call *call)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_cuda_driver *cuda = options->cuda;
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    if (cuda->cuStreamBeginCapture(options->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        return NULL;
    const rnnc_status status = issue(state, call);
    const CUresult ended = cuda->cuStreamEndCapture(options->stream, &graph);
    if (status != RNNC_OK || ended || cuda->cuGraphInstantiateWithFlags(&executable, graph, 0))
        executable = NULL;
    if (graph)
        cuda->cuGraphDestroy(graph);
    return executable;
}

/// The graph of this run, or NULL: made in the second run with the same key, where all that cuBLAS
/// loads at its first call is there.
static CUgraphExec find_graph(StepwiseState *state, const rnnc_layer_call *call)
{
    const GraphKey key = key_of(state, call);
    const bool again = memcmp(&key, &state->last, sizeof key) == 0;
    CachedGraph *oldest = &state->graphs[0];
    state->last = key;
    for (int i = 0; i < GRAPHS; i++) {
        CachedGraph *graph = &state->graphs[i];
        if (graph->executable && memcmp(&key, &graph->key, sizeof key) == 0) {
            graph->used = state->runs;
            return graph->executable;
        }
        if (graph->used < oldest->used)
            oldest = graph;
    }
    if (!again || state->no_graphs ||
        call->timesteps * state->weights.options.layer->phase_count > GRAPH_LAUNCHES_MAX)
        return NULL;
    CUgraphExec made = capture(state, call);
    state->no_graphs = !made;
    if (!made)
        return NULL;
    if (oldest->executable)
        state->weights.options.cuda->cuGraphExecDestroy(oldest->executable);
    *oldest = (CachedGraph){.key = key, .executable = made, .used = state->runs};
    return made;
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    StepwiseState *state = memory;
    const rnnc_cuda_layer_options *options = &state->weights.options;
    int capturing = 0;
    if (call->batch == 0 || call->timesteps == 0)
        return RNNC_OK;
    state->runs++;
    if (options->cuda->cuStreamIsCapturing(options->stream, &capturing))
        capturing = 0;
    CUgraphExec graph = capturing ? NULL : find_graph(state, call);
    if (!graph)
        return issue(state, call);
    return rnnc_layer_weights_check(&state->weights,
                                    options->cuda->cuGraphLaunch(graph, options->stream),
                                    "starting the graph of its steps");
}

const rnnc_cuda_variant rnnc_cuda_stepwise = {
    .kind = RNNC_VARIANT_STEPWISE,
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .destroy = destroy,
};
