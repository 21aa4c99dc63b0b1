/* Variant loop, host side: the launches of a step one by one, as far up the ladder of cuDNN 5's
 * optimisations as the session asks ("loop:fused"); all the way without a name. A rung has what the
 * rungs before it have:
 *
 *     naive        s times:  W*x gate by gate | R*h gate by gate | each operation | the states
 *     grouped                W*x of all gates | R*h of all gates | ...
 *     streamed     second    W*x, W*x, ...          each step waits for its own
 *                  stream              R*h | ...
 *     fused        one pointwise kernel in place of the operations and the states
 *     transposed   both matrices turned when they are set, no more in each product
 *     batched      W*x of STEPS steps in one product
 *     wavefront    layers of a stack at the same time, by the device (wavefront.h)
 *
 * The kernels are those of templates/cuda/loop.cu. No rung makes a CUDA graph by itself. */
#include <math.h>
#include <string.h>

#include "../memory.h"
#include "layer_weights.h"

enum { THREADS = 256, TILE_ROWS = 32, TILE_COLUMNS = 64, STEPS = 8 };

typedef enum { NAIVE, GROUPED, STREAMED, FUSED, TRANSPOSED, BATCHED, WAVEFRONT, RUNGS } Rung;

static const struct {
    const char *name, *what;
} rungs[RUNGS] = {
    [NAIVE] = {"naive", "a product a gate and step, a kernel an operation, one stream"},
    [GROUPED] = {"grouped", "one product for all gates, a kernel an operation, one stream"},
    [STREAMED] = {"streamed", "a kernel an operation, W*x on a stream of its own"},
    [FUSED] = {"fused", "one pointwise kernel a step"},
    [TRANSPOSED] = {"transposed", "weights turned when they are set"},
    [BATCHED] = {"batched", "W*x of 8 steps at once"},
    [WAVEFRONT] = {"wavefront", "W*x of 8 steps at once, a stream a layer"},
};

/* A matrix of the layer as operands, and the kernel that multiplies it. */
typedef struct {
    CUfunction multiply;
    CUdeviceptr operands; /* [depth, padded columns], or turned [columns, padded depth] */
    int64_t depth, gates;
} Matrix;

typedef struct {
    rnnc_layer_weights weights;
    Rung rung;
    int operation_count;
    CUfunction operation, store, fused;
    Matrix W, R;
    CUdeviceptr product, values; /* R*h: [B, gates*H]; values: [operation, B, H] */
    CUstream second;             /* of W*x; NULL: the call's */
    CUevent fork, ready;
} LoopState;

/* RnnProduct of templates/cuda/product.cuh is rnnc_cuda_rows. RnnLoopStep of loop.cu: */
typedef struct {
    CUdeviceptr input, product, bias, recurrent_bias, parameter;
    float *states[RNNC_STATES_MAX];
    CUdeviceptr values;
    float *y;
    long long batch, timesteps, step, y_row_stride, y_step_stride;
} StepArguments;

static void destroy(void *memory)
{
    LoopState *state = memory;
    if (!state)
        return;
    const rnnc_cuda_driver *cuda = state->weights.options.cuda;
    const CUdeviceptr memories[] = {state->W.operands, state->R.operands, state->product,
                                    state->values};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            cuda->cuMemFree(memories[i]);
    if (state->fork)
        cuda->cuEventDestroy(state->fork);
    if (state->ready)
        cuda->cuEventDestroy(state->ready);
    if (state->second)
        cuda->cuStreamDestroy(state->second);
    rnnc_layer_weights_close(&state->weights);
    rnnc_memory_free(state);
}

static rnnc_status choose_rung(const rnnc_cuda_layer_options *options, Rung *out)
{
    for (*out = NAIVE; *out < RUNGS; (*out)++)
        if (options->detail && strcmp(options->detail, rungs[*out].name) == 0)
            return RNNC_OK;
    *out = WAVEFRONT;
    return options->detail
               ? rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                                "loop has no '%s', but naive, grouped, streamed, fused, "
                                "transposed, batched and wavefront",
                                options->detail)
               : RNNC_OK;
}

static rnnc_status find_kernels(LoopState *state)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_cuda_driver *cuda = options->cuda;
    const int form = state->rung >= TRANSPOSED ? 2 : state->rung >= GROUPED ? 1 : 0;
    static const char *const inputs[] = {"rnn_input_gate", "rnn_input_gates", "rnn_input_rows"};
    static const char *const recurrents[] = {"rnn_recurrent_gate", "rnn_recurrent_gates",
                                             "rnn_recurrent_rows"};
    const struct {
        const char *name;
        CUfunction *to;
    } kernels[] = {{inputs[form], &state->W.multiply},
                   {recurrents[form], &state->R.multiply},
                   {"rnn_operation", &state->operation},
                   {"rnn_store", &state->store},
                   {"rnn_fused", &state->fused}};
    CUdeviceptr count = 0;
    size_t bytes = 0;
    CUresult result =
        cuda->cuModuleGetGlobal(&count, &bytes, options->image, "rnn_operation_count");
    if (!result)
        result = cuda->cuMemcpyDtoH(&state->operation_count, count, sizeof(int));
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0] && !result; i++)
        result = cuda->cuModuleGetFunction(kernels[i].to, options->image, kernels[i].name);
    return rnnc_layer_weights_check(&state->weights, result, "looking for the kernels of its loop");
}

static rnnc_status open_second(LoopState *state)
{
    const rnnc_cuda_driver *cuda = state->weights.options.cuda;
    if (state->rung < STREAMED)
        return RNNC_OK;
    CUresult result = cuda->cuStreamCreate(&state->second, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = cuda->cuEventCreate(&state->fork, CU_EVENT_DISABLE_TIMING);
    if (!result)
        result = cuda->cuEventCreate(&state->ready, CU_EVENT_DISABLE_TIMING);
    return rnnc_layer_weights_check(&state->weights, result, "making the stream of W*x");
}

static int64_t units(const LoopState *state)
{
    return state->weights.options.layer->units;
}

static rnnc_status allocate_matrix(const LoopState *state, Matrix *matrix)
{
    const rnnc_layer_weights *weights = &state->weights;
    const int64_t columns = matrix->gates * units(state);
    const int64_t elems = state->rung >= TRANSPOSED
                              ? columns * rnnc_layer_weights_padded(weights, matrix->depth)
                              : matrix->depth * rnnc_layer_weights_padded(weights, columns);
    return rnnc_layer_weights_alloc(weights, elems * rnnc_layer_weights_operand_bytes(weights),
                                    &matrix->operands);
}

static rnnc_status allocate(LoopState *state)
{
    const rnnc_cuda_layer_options *options = &state->weights.options;
    const rnnc_phase_desc *phase = &options->layer->phases[0];
    const int64_t unit_bytes = options->max_batch * units(state) * (int64_t)sizeof(float);
    state->W.depth = options->layer->inputs;
    state->W.gates = options->layer->input_gates;
    state->R.depth = phase->operand_size;
    state->R.gates = phase->row_count;
    rnnc_status status = allocate_matrix(state, &state->W);
    if (status == RNNC_OK)
        status = allocate_matrix(state, &state->R);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_alloc(&state->weights, phase->row_count * unit_bytes,
                                          &state->product);
    if (status == RNNC_OK && state->rung < FUSED)
        status = rnnc_layer_weights_alloc(&state->weights, state->operation_count * unit_bytes,
                                          &state->values);
    return status;
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    LoopState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    rnnc_status status = rnnc_layer_weights_open(options, &state->weights);
    if (status == RNNC_OK)
        status = choose_rung(options, &state->rung);
    if (status == RNNC_OK)
        status = find_kernels(state);
    if (status == RNNC_OK)
        status = open_second(state);
    if (status == RNNC_OK)
        status = allocate(state);
    if (status == RNNC_OK)
        *out_state = state;
    else
        destroy(state);
    return status;
}

/* Gate g of the product is gate rows[g] (NULL: g) of `from`, [gates*H, depth]. */
static void order_matrix(const LoopState *state, const Matrix *matrix, const float *from,
                         const int32_t *rows, float *to)
{
    const int64_t columns = matrix->gates * units(state), depth = matrix->depth;
    const bool turned = state->rung >= TRANSPOSED;
    for (int64_t column = 0; column < columns; column++) {
        const int64_t gate = column / units(state), unit = column % units(state);
        const float *row = from + ((rows ? rows[gate] : gate) * units(state) + unit) * depth;
        for (int64_t k = 0; k < depth; k++)
            to[turned ? column * depth + k : k * columns + column] = row[k];
    }
}

static rnnc_status set_matrix(const LoopState *state, const Matrix *matrix, const float *from,
                              const int32_t *rows)
{
    const rnnc_layer_weights *weights = &state->weights;
    const rnnc_cuda_layer_options *options = &weights->options;
    const int64_t columns = matrix->gates * units(state);
    const bool turned = state->rung >= TRANSPOSED;
    CUdeviceptr wide = 0;
    float *ordered = rnnc_memory_alloc((size_t)(columns * matrix->depth) * sizeof *ordered);
    if (!ordered)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for weights");
    order_matrix(state, matrix, from, rows, ordered);
    rnnc_status status =
        rnnc_layer_weights_upload(weights, ordered, columns * matrix->depth, &wide);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_convert(
            weights, wide, 0, matrix->operands, turned ? columns : matrix->depth,
            turned ? matrix->depth : columns, turned ? matrix->depth : columns);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_check(
            weights, options->cuda->cuStreamSynchronize(options->stream), "converting weights");
    if (wide)
        options->cuda->cuMemFree(wide);
    rnnc_memory_free(ordered);
    return status;
}

static rnnc_status set_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    LoopState *state = memory;
    const rnnc_phase_desc *phase = &state->weights.options.layer->phases[0];
    rnnc_status status = rnnc_layer_weights_set(&state->weights, weights);
    if (status == RNNC_OK)
        status = set_matrix(state, &state->W, weights[RNNC_WEIGHT_W], NULL);
    if (status == RNNC_OK)
        status = set_matrix(state, &state->R, weights[phase->matrix], phase->rows);
    return status;
}

static CUresult launch(const LoopState *state, CUfunction function, int64_t across, int64_t down,
                       CUstream stream, void **arguments)
{
    return state->weights.options.cuda->cuLaunchKernel(
        function, (unsigned)across, (unsigned)down, 1, THREADS, 1, 1, 0, stream, arguments, NULL);
}

static int64_t tiles(int64_t size, int64_t tile)
{
    return (size + tile - 1) / tile;
}

/* rows * matrix, gate by gate or all gates at once; `rows` but for its W. */
static CUresult multiply(const LoopState *state, const Matrix *matrix, rnnc_cuda_rows rows,
                         CUstream stream)
{
    const bool grouped = state->rung >= GROUPED;
    const int64_t columns = grouped ? matrix->gates * units(state) : units(state);
    const int64_t gate_bytes = units(state) * rnnc_layer_weights_operand_bytes(&state->weights);
    void *arguments[] = {&rows};
    CUresult result = 0;
    rows.W = matrix->operands;
    for (int64_t gate = 0; gate < (grouped ? 1 : matrix->gates) && !result; gate++) {
        result = launch(state, matrix->multiply, tiles(rows.rows, TILE_ROWS),
                        tiles(columns, TILE_COLUMNS), stream, arguments);
        rows.W += (CUdeviceptr)gate_bytes;
        rows.out += (CUdeviceptr)(units(state) * (int64_t)sizeof(float));
    }
    return result;
}

/* W*x of `count` steps from step `first` on. */
static CUresult multiply_inputs(const LoopState *state, const rnnc_layer_call *call, int64_t first,
                                int64_t count, CUstream stream)
{
    const int64_t stride = state->weights.input_stride;
    const int64_t time =
        state->weights.options.layer->reversed ? call->timesteps - first - count : first;
    const rnnc_cuda_rows rows = {.x = (const float *)call->x + time * call->x_step_stride,
                                 .out = state->weights.input +
                                        (CUdeviceptr)(time * stride * (int64_t)sizeof(float)),
                                 .rows = call->batch * count,
                                 .timesteps = count,
                                 .x_row_stride = call->x_row_stride,
                                 .x_step_stride = call->x_step_stride,
                                 .out_row_stride = call->timesteps * stride,
                                 .out_step_stride = stride};
    return multiply(state, &state->W, rows, stream);
}

static CUresult multiply_states(const LoopState *state, const rnnc_layer_call *call,
                                CUstream stream)
{
    const int operand = state->weights.options.layer->phases[0].operand;
    const int64_t columns = state->R.gates * units(state);
    const rnnc_cuda_rows rows = {.x = call->states[operand],
                                 .out = state->product,
                                 .rows = call->batch,
                                 .timesteps = 1,
                                 .x_row_stride = state->R.depth,
                                 .x_step_stride = state->R.depth,
                                 .out_row_stride = columns,
                                 .out_step_stride = columns};
    return multiply(state, &state->R, rows, stream);
}

static CUresult take_units(const LoopState *state, StepArguments *step, CUstream stream)
{
    const int64_t blocks = tiles(step->batch * units(state), THREADS);
    int number = 0;
    void *arguments[] = {step, &number};
    CUresult result = 0;
    if (state->rung >= FUSED)
        return launch(state, state->fused, blocks, 1, stream, arguments);
    for (; number < state->operation_count && !result; number++)
        result = launch(state, state->operation, blocks, 1, stream, arguments);
    return result ? result : launch(state, state->store, blocks, 1, stream, arguments);
}

/* Work on `to` from here on comes after what `from` has been given so far. */
static CUresult follow(const LoopState *state, CUevent event, CUstream from, CUstream to)
{
    const rnnc_cuda_driver *cuda = state->weights.options.cuda;
    const CUresult result = cuda->cuEventRecord(event, from);
    return result ? result : cuda->cuStreamWaitEvent(to, event, 0);
}

/* Step s; W*x of its batch is started first, and waited for only where it is added. */
static CUresult run_step(const LoopState *state, const rnnc_layer_call *call, StepArguments *step)
{
    const rnnc_cuda_driver *cuda = state->weights.options.cuda;
    const CUstream stream = call->stream, inputs = state->second ? state->second : stream;
    const int64_t most = state->rung >= BATCHED ? STEPS : 1, left = call->timesteps - step->step;
    const bool first = step->step % most == 0;
    CUresult result = 0;
    if (first)
        result = multiply_inputs(state, call, step->step, left < most ? left : most, inputs);
    if (first && state->second && !result)
        result = cuda->cuEventRecord(state->ready, state->second);
    if (!result)
        result = multiply_states(state, call, stream);
    if (first && state->second && !result)
        result = cuda->cuStreamWaitEvent(stream, state->ready, 0);
    return result ? result : take_units(state, step, stream);
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    const LoopState *state = memory;
    const rnnc_layer_weights *weights = &state->weights;
    StepArguments step = {.input = weights->input,
                          .product = state->product,
                          .bias = weights->bias,
                          .recurrent_bias = weights->recurrent_bias,
                          .parameter = weights->parameter,
                          .values = state->values,
                          .y = call->y,
                          .batch = call->batch,
                          .timesteps = call->timesteps,
                          .y_row_stride = call->y_row_stride,
                          .y_step_stride = call->y_step_stride};
    CUresult result = 0;
    memcpy(step.states, call->states, sizeof step.states);
    if (call->batch == 0 || call->timesteps == 0)
        return RNNC_OK;
    if (state->second)
        result = follow(state, state->fork, call->stream, state->second);
    for (; step.step < call->timesteps && !result; step.step++)
        result = run_step(state, call, &step);
    if (state->second) { /* after a failure too, so that a capture stays whole */
        const CUresult joined = follow(state, state->ready, state->second, call->stream);
        result = result ? result : joined;
    }
    return rnnc_layer_weights_check(weights, result, "starting a step");
}

static double share(const void *memory, int64_t batch)
{
    (void)batch;
    return ((const LoopState *)memory)->rung >= WAVEFRONT ? 0.0 : INFINITY;
}

static const char *reason(const void *memory)
{
    return rungs[((const LoopState *)memory)->rung].what;
}

const rnnc_cuda_variant rnnc_cuda_loop = {
    .kind = RNNC_VARIANT_LOOP,
    .takes_detail = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .run = run,
    .share = share,
    .reason = reason,
    .destroy = destroy,
};
