/* Variant train_stepwise, host side. A run and its backward pass are
 *
 *     x by steps, W*x       for s, for phase p: product of its rows with their operand |
 * rnn_save<p> for s from the last,  for stage i: rnn_back<i> | returned = deltas * the rows of its
 * phase dW, dR, db, dx        from the deltas of all steps (train_cell.h)
 *
 * products by cuBLAS, kernels of templates/cuda/training.cu; each issued plainly or as one CUDA
 * graph (replay.h). What a product returns for a state is read one step further back, while that of
 * its own step is made: there are two of it, by the step's parity, and so with the adjoints. */
#include <stdio.h>
#include <string.h>

#include "../memory.h"
#include "replay.h"
#include "train_cell.h"

enum { THREADS = 256 };

/// What a graph of a run has baked in, and what one of a backward pass has besides.
typedef struct {
    const void *x;
    float *y;
    const int32_t *order;
    const rnnc_row *rows;
    const float *recurrent_scale;
    const float *weights[RNNC_WEIGHT_COUNT];
    float *states[RNNC_STATES_MAX];
    int64_t batch, timesteps, x_row_stride, x_step_stride, y_row_stride, y_step_stride, saves;
} RunKey;
typedef struct {
    const int32_t *order;
    const rnnc_row *rows;
    const float *recurrent_scale, *dy;
    float *dx;
    const float *weights[RNNC_WEIGHT_COUNT];
    float *gradients[RNNC_WEIGHT_COUNT], *states[RNNC_STATES_MAX];
    int64_t batch, timesteps, dy_row_stride, dy_step_stride, dx_row_stride, dx_step_stride;
    int32_t adds_dx, finds_nan;
} BackKey;
_Static_assert(sizeof(RunKey) <= RNNC_REPLAY_KEY_BYTES && sizeof(BackKey) <= RNNC_REPLAY_KEY_BYTES,
               "a replay's key has room for all that its graph bakes in");

typedef struct {
    rnnc_train_cell cell;
    CUfunction save[RNNC_PHASES_MAX], back[RNNC_STAGES_MAX], end;
    float *carries[RNNC_GATES_MAX], *product; ///< [B, size]; [B, of the widest phase]
    float *returned[RNNC_PHASES_MAX][2];      ///< [B, operand]; carries have one
    float *adjoints[RNNC_STATES_MAX][2];      ///< [B, size]
    float *sums;                              ///< [B, 2 * norms]
    rnnc_cuda_replay runs, backs;
} TrainState;

/// RnnSave and RnnBack of templates/cuda/training.cu.
typedef struct {
    rnnc_train_step at;
    const float *input, *product, *state_in[RNNC_STATES_MAX];
    float *state_out[RNNC_STATES_MAX], *carries[RNNC_GATES_MAX], *operands[RNNC_PHASES_MAX];
    float *saved, *statistics, *y;
    long long y_row_stride, y_step_stride;
} Save;
typedef struct {
    rnnc_train_step at;
    const float *state[RNNC_STATES_MAX], *next[RNNC_STATES_MAX], *saved, *statistics;
    const float *adjoint_in[RNNC_STATES_MAX];
    float *adjoint_out[RNNC_STATES_MAX];
    const float *returned[RNNC_PHASES_MAX];
    float *sums, *deltas;
    const float *dy;
    long long dy_row_stride, dy_step_stride;
} Back;

static void destroy(void *memory)
{
    TrainState *state = memory;
    if (!state)
        return;
    rnnc_cuda_replay_close(&state->runs, state->cell.options.cuda);
    rnnc_cuda_replay_close(&state->backs, state->cell.options.cuda);
    rnnc_train_cell_close(&state->cell);
    rnnc_memory_free(state);
}

static CUresult find_kernel(const rnnc_cuda_layer_options *options, const char *prefix, int number,
                            CUfunction *out)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", prefix, number);
    return options->cuda->cuModuleGetFunction(out, options->image, name);
}

static rnnc_status find_kernels(TrainState *state)
{
    const rnnc_cuda_layer_options *options = &state->cell.options;
    CUresult result =
        options->cuda->cuModuleGetFunction(&state->end, options->image, "rnn_back_end");
    for (int p = 0; p < options->layer->phase_count && !result; p++)
        result = find_kernel(options, "rnn_save", p, &state->save[p]);
    for (int i = 0; i < state->cell.training->stage_count && !result; i++)
        result = find_kernel(options, "rnn_back", i, &state->back[i]);
    return rnnc_train_cell_check(&state->cell, result, "looking for the kernels of its steps");
}

/// What the steps of a run hand on.
static rnnc_status open_run(TrainState *state)
{
    const rnnc_layer_desc *layer = state->cell.options.layer;
    const int64_t B = state->cell.options.max_batch;
    int64_t widest = 0;
    for (int p = 0; p < layer->phase_count; p++) {
        const int64_t columns = layer->phases[p].row_count * layer->phases[p].size;
        widest = columns > widest ? columns : widest;
    }
    rnnc_status status = rnnc_train_cell_alloc(&state->cell, B * widest, &state->product);
    for (int i = 0; i < layer->carry_count && status == RNNC_OK; i++)
        status = rnnc_train_cell_alloc(&state->cell, B * layer->carry_sizes[i], &state->carries[i]);
    return status;
}

/// What the steps of a backward pass hand on.
static rnnc_status open_back(TrainState *state)
{
    const rnnc_layer_desc *layer = state->cell.options.layer;
    const int64_t B = state->cell.options.max_batch;
    rnnc_status status =
        rnnc_train_cell_alloc(&state->cell, B * 2 * state->cell.training->norm_count, &state->sums);
    for (int parity = 0; parity < 2; parity++) {
        for (int i = 0; i < layer->state_count && status == RNNC_OK; i++)
            status = rnnc_train_cell_alloc(&state->cell, B * layer->state_sizes[i],
                                           &state->adjoints[i][parity]);
        for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++)
            if (layer->phases[p].row_count > 0 && (layer->phases[p].operand_is_state || !parity))
                status = rnnc_train_cell_alloc(&state->cell, B * layer->phases[p].operand_size,
                                               &state->returned[p][parity]);
    }
    return status;
}

static rnnc_status prepare(const rnnc_cuda_layer_options *options, void **out_state)
{
    *out_state = NULL;
    TrainState *state = rnnc_memory_alloc(sizeof *state);
    if (!state)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a layer");
    rnnc_status status = rnnc_train_cell_open(options, &state->cell);
    if (status == RNNC_OK)
        status = find_kernels(state);
    if (status == RNNC_OK)
        status = open_run(state);
    if (status == RNNC_OK && options->training)
        status = open_back(state);
    if (status == RNNC_OK)
        *out_state = state;
    else
        destroy(state);
    return status;
}

static rnnc_status set_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    TrainState *state = memory;
    return rnnc_train_cell_set_weights(&state->cell, weights);
}

static rnnc_status load_weights(void *memory, const float *const weights[RNNC_WEIGHT_COUNT])
{
    TrainState *state = memory;
    memcpy(state->cell.weights, weights, sizeof state->cell.weights);
    return RNNC_OK;
}

/// One element a thread, or with `norms` a CTA a row.
static rnnc_status launch(const TrainState *state, CUfunction kernel, int64_t batch, int64_t size,
                          bool norms, void *step)
{
    const rnnc_cuda_layer_options *options = &state->cell.options;
    const int64_t ctas = norms ? batch : (batch * size + THREADS - 1) / THREADS;
    void *arguments[] = {step};
    return rnnc_train_cell_check(&state->cell,
                                 options->cuda->cuLaunchKernel(kernel, (unsigned)ctas, 1, 1,
                                                               THREADS, 1, 1, 0, options->stream,
                                                               arguments, NULL),
                                 "starting a step");
}

/// What phase `index` multiplies at step s.
static const float *operand_of(const TrainState *state, int index, int64_t s, int64_t batch)
{
    const rnnc_phase_desc *phase = &state->cell.options.layer->phases[index];
    const float *scaled = rnnc_train_scaled(&state->cell, index, s, batch);
    if (scaled)
        return scaled;
    return phase->operand_is_state ? rnnc_train_state(&state->cell, phase->operand, s, batch)
                                   : state->carries[phase->operand];
}

/// product = the rows of a phase's matrix times its operand, gates side by side.
static rnnc_status multiply(const TrainState *state, int index, int64_t s, int64_t batch)
{
    const rnnc_phase_desc *phase = &state->cell.options.layer->phases[index];
    const int64_t units = phase->size / phase->heads, depth = phase->operand_size / phase->heads;
    rnnc_cuda_gemm gemm = {.a = operand_of(state, index, s, batch),
                           .turns_b = true,
                           .m = batch,
                           .k = depth,
                           .a_stride = phase->operand_size,
                           .b_stride = depth,
                           .c_stride = phase->row_count * phase->size,
                           .heads = phase->heads,
                           .a_apart = depth,
                           .b_apart = units * depth,
                           .c_apart = units};
    rnnc_status status = RNNC_OK;
    for (int32_t g = 0, length; g < phase->row_count && status == RNNC_OK; g += length) {
        length = rnnc_train_rows_together(phase, g);
        gemm.b = state->cell.weights[phase->matrix] + phase->rows[g] * phase->size * depth;
        gemm.c = state->product + g * phase->size;
        gemm.n = length * units;
        status = rnnc_cuda_blas_multiply(state->cell.options.blas, &gemm);
    }
    return status;
}

/// Points the arguments at step s of a run.
static void set_save(const TrainState *state, int64_t s, Save *save)
{
    const rnnc_train_cell *cell = &state->cell;
    const rnnc_layer_desc *layer = cell->options.layer;
    const int64_t B = save->at.batch;
    save->at.step = s;
    save->input = cell->rows + s * B * cell->input_stride;
    for (int i = 0; i < layer->state_count; i++) {
        save->state_in[i] = rnnc_train_state(cell, i, s, B);
        save->state_out[i] = rnnc_train_state(cell, i, s + 1, B);
    }
    for (int p = 0; p < layer->phase_count; p++)
        save->operands[p] =
            rnnc_train_scaled(cell, p, s + (layer->phases[p].operand_is_state != 0), B);
}

static rnnc_status issue_run(const TrainState *state, const rnnc_layer_call *call)
{
    const rnnc_train_cell *cell = &state->cell;
    const rnnc_layer_desc *layer = cell->options.layer;
    const int64_t B = call->batch;
    const bool saves = call->saves && cell->saved;
    Save save = {.at = rnnc_train_step_of(&state->cell, call),
                 .product = state->product,
                 .y = call->y,
                 .y_row_stride = call->y_row_stride,
                 .y_step_stride = call->y_step_stride};
    memcpy(save.carries, state->carries, sizeof save.carries);
    rnnc_status status = rnnc_train_cell_begin(cell, call);
    for (int64_t s = 0; s < call->timesteps && status == RNNC_OK; s++) {
        set_save(state, s, &save);
        save.saved = saves ? cell->saved + s * B * cell->saved_at.stride : NULL;
        save.statistics = saves && cell->statistics
                              ? cell->statistics + s * B * 2 * cell->training->norm_count
                              : NULL;
        for (int p = 0; p < layer->phase_count && status == RNNC_OK; p++) {
            const rnnc_phase_desc *phase = &layer->phases[p];
            status = multiply(state, p, s, B);
            if (status == RNNC_OK)
                status = launch(state, state->save[p], B, phase->size, phase->statistic_count > 0,
                                &save);
        }
    }
    return status == RNNC_OK ? rnnc_train_cell_end(cell, call) : status;
}

/// returned = the deltas of a stage's phase times the rows of its matrix, gates added up.
static rnnc_status return_to(const TrainState *state, const rnnc_stage_desc *stage,
                             const float *deltas, int64_t s, int64_t batch)
{
    const rnnc_train_cell *cell = &state->cell;
    const rnnc_phase_desc *phase = &cell->options.layer->phases[stage->phase];
    const int64_t units = phase->size / phase->heads, depth = phase->operand_size / phase->heads;
    rnnc_cuda_gemm gemm = {.c = state->returned[stage->phase][phase->operand_is_state ? s & 1 : 0],
                           .m = batch,
                           .n = depth,
                           .a_stride = cell->delta_at.stride,
                           .b_stride = depth,
                           .c_stride = phase->operand_size,
                           .heads = phase->heads,
                           .a_apart = units,
                           .b_apart = units * depth,
                           .c_apart = depth};
    rnnc_status status = RNNC_OK;
    for (int32_t g = 0, length; g < phase->row_count && status == RNNC_OK; g += length) {
        length = rnnc_train_rows_together(phase, g);
        gemm.a = deltas + cell->delta_at.at[stage->first_delta + g];
        gemm.b = cell->weights[phase->matrix] + phase->rows[g] * phase->size * depth;
        gemm.k = length * units;
        gemm.adds = g > 0;
        status = rnnc_cuda_blas_multiply(cell->options.blas, &gemm);
    }
    return status;
}

/// Points the arguments at step s of a backward pass; at -1, behind all of them, `call`'s states
/// are what the adjoints go to.
static void set_back(const TrainState *state, const rnnc_backward_call *call, int64_t s, Back *back)
{
    const rnnc_train_cell *cell = &state->cell;
    const rnnc_layer_desc *layer = cell->options.layer;
    const int64_t B = call->forward.batch, at = s * B;
    const int here = (int)(s & 1), behind = here ^ 1;
    const bool is_last = s + 1 == call->forward.timesteps;
    back->at.step = s;
    for (int i = 0; i < layer->state_count; i++) {
        back->adjoint_in[i] = is_last ? call->states[i] : state->adjoints[i][behind];
        back->adjoint_out[i] = s < 0 ? call->states[i] : state->adjoints[i][here];
        back->state[i] = s < 0 ? NULL : rnnc_train_state(cell, i, s, B);
        back->next[i] = s < 0 ? NULL : rnnc_train_state(cell, i, s + 1, B);
    }
    for (int p = 0; p < layer->phase_count; p++)
        back->returned[p] = state->returned[p][layer->phases[p].operand_is_state ? behind : 0];
    if (s < 0)
        return;
    back->saved = cell->saved + at * cell->saved_at.stride;
    back->statistics = cell->statistics + at * 2 * cell->training->norm_count;
    back->deltas = cell->rows + at * cell->delta_at.stride;
}

/// Behind the last step no product has returned anything.
static rnnc_status clear_returned(const TrainState *state, int64_t batch, int64_t timesteps)
{
    const rnnc_cuda_layer_options *options = &state->cell.options;
    CUresult result = 0;
    for (int p = 0; p < options->layer->phase_count && !result; p++) {
        float *first =
            state->returned[p][options->layer->phases[p].operand_is_state ? timesteps & 1 : 0];
        if (first)
            result = options->cuda->cuMemsetD8Async(
                (CUdeviceptr)first, 0,
                (size_t)(batch * options->layer->phases[p].operand_size) * sizeof(float),
                options->stream);
    }
    return rnnc_train_cell_check(&state->cell, result, "clearing adjoints");
}

static int64_t widest_state(const rnnc_layer_desc *layer)
{
    int64_t widest = 0;
    for (int i = 0; i < layer->state_count; i++)
        widest = layer->state_sizes[i] > widest ? layer->state_sizes[i] : widest;
    return widest;
}

static rnnc_status issue_back(const TrainState *state, const rnnc_backward_call *call)
{
    const rnnc_train_cell *cell = &state->cell;
    const int64_t B = call->forward.batch, T = call->forward.timesteps;
    Back back = {.at = rnnc_train_step_of(&state->cell, &call->forward),
                 .sums = state->sums,
                 .dy = call->dy,
                 .dy_row_stride = call->dy_row_stride,
                 .dy_step_stride = call->dy_step_stride};
    rnnc_status status = clear_returned(state, B, T);
    for (int64_t s = T - 1; s >= 0 && status == RNNC_OK; s--) {
        set_back(state, call, s, &back);
        for (int i = 0; i < cell->training->stage_count && status == RNNC_OK; i++) {
            const rnnc_stage_desc *stage = &cell->training->stages[i];
            status = launch(state, state->back[i], B, stage->size, stage->sum_count > 0, &back);
            if (status == RNNC_OK && stage->phase >= 0)
                status = return_to(state, stage, back.deltas, s, B);
        }
    }
    set_back(state, call, -1, &back);
    if (status == RNNC_OK)
        status = launch(state, state->end, B, widest_state(cell->options.layer), false, &back);
    return status == RNNC_OK ? rnnc_train_cell_sums(cell, call) : status;
}

/// What a replay issues.
typedef struct {
    const TrainState *state;
    const rnnc_layer_call *run;
    const rnnc_backward_call *back;
} Issue;

static rnnc_status issue(void *context)
{
    const Issue *of = context;
    return of->run ? issue_run(of->state, of->run) : issue_back(of->state, of->back);
}

/// As a graph, or plainly where there is none.
static rnnc_status replay(TrainState *state, rnnc_cuda_replay *graphs, const void *key,
                          size_t key_bytes, int64_t launches, Issue *what)
{
    const rnnc_cuda_layer_options *options = &state->cell.options;
    CUgraphExec graph = rnnc_cuda_replay_find(graphs, options->cuda, options->stream, key,
                                              key_bytes, launches, issue, what);
    if (!graph)
        return issue(what);
    return rnnc_train_cell_check(&state->cell, options->cuda->cuGraphLaunch(graph, options->stream),
                                 "starting the graph of its steps");
}

static rnnc_status run(void *memory, const rnnc_layer_call *call)
{
    TrainState *state = memory;
    const rnnc_layer_desc *layer = state->cell.options.layer;
    RunKey key;
    if (call->batch == 0 || call->timesteps == 0)
        return RNNC_OK;
    memset(&key, 0, sizeof key);
    key.x = call->x, key.y = call->y;
    key.order = call->order, key.rows = call->rows;
    key.recurrent_scale = call->recurrent_scale;
    memcpy(key.weights, state->cell.weights, sizeof key.weights);
    for (int i = 0; i < layer->state_count; i++)
        key.states[i] = call->states[i];
    key.batch = call->batch, key.timesteps = call->timesteps;
    key.x_row_stride = call->x_row_stride, key.x_step_stride = call->x_step_stride;
    key.y_row_stride = call->y_row_stride, key.y_step_stride = call->y_step_stride;
    key.saves = call->saves;
    const rnnc_status status = rnnc_train_cell_write_seed(&state->cell, call);
    Issue what = {.state = state, .run = call};
    return status == RNNC_OK ? replay(state, &state->runs, &key, sizeof key,
                                      call->timesteps * 2 * layer->phase_count, &what)
                             : status;
}

static rnnc_status backward(void *memory, const rnnc_backward_call *call)
{
    TrainState *state = memory;
    const rnnc_layer_desc *layer = state->cell.options.layer;
    const rnnc_layer_call *forward = &call->forward;
    BackKey key;
    if (forward->batch == 0 || forward->timesteps == 0)
        return RNNC_OK;
    memset(&key, 0, sizeof key);
    key.order = forward->order, key.rows = forward->rows;
    key.recurrent_scale = forward->recurrent_scale;
    key.dy = call->dy, key.dx = call->dx;
    memcpy(key.weights, state->cell.weights, sizeof key.weights);
    memcpy(key.gradients, call->weights, sizeof key.gradients);
    for (int i = 0; i < layer->state_count; i++)
        key.states[i] = call->states[i];
    key.batch = forward->batch, key.timesteps = forward->timesteps;
    key.dy_row_stride = call->dy_row_stride, key.dy_step_stride = call->dy_step_stride;
    key.dx_row_stride = call->dx_row_stride, key.dx_step_stride = call->dx_step_stride;
    key.adds_dx = call->adds_dx, key.finds_nan = call->finds_nan;
    Issue what = {.state = state, .back = call};
    return replay(state, &state->backs, &key, sizeof key,
                  forward->timesteps * 2 * state->cell.training->stage_count, &what);
}

const rnnc_cuda_variant rnnc_cuda_train_stepwise = {
    .kind = RNNC_VARIANT_TRAIN_STEPWISE,
    .masks = true,
    .prepare = prepare,
    .set_weights = set_weights,
    .load_weights = load_weights,
    .run = run,
    .backward = backward,
    .destroy = destroy,
};
