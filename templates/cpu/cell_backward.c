// Backward pass of a cell on the CPU, behind cell.c and in its terms: rows of the batch are taken
// RNN_TILE at a time, each tile from the last of its steps to the first. Rows that have fewer steps
// join when theirs begin, so that those under way are always the beginning of the tile.
//
//     for tiles of rows
//         for steps, last first              seeds = adjoints + what products returned + dy
//             for stages                     sums of norms; pointwise: deltas and adjoints
//                                            returned = M^T * deltas
//             deltas -> memory
//     for chunks of all steps and rows       dW += delta^T * x, dR += delta^T * operand, sums
//                                            dx = delta * W
//
// Padding lanes of deltas are 0, for products read them.
#include "cpu/gradient.h"

typedef struct {
    int phase, first_delta;
    int64_t size;
    unsigned states;
    int norms[4],
        members[4]; // in the cell's numbers, and how many vectors each is taken of; 0 ends
} rnn_stage;

static const rnn_stage rnn_stages[RNN_STAGE_COUNT] = {RNN_STAGE_ROWS};
static const int rnn_delta_stages[] = {RNN_DELTA_STAGES};
static const int64_t rnn_delta_sizes[] = {RNN_DELTA_SIZES};
static const int rnn_input_deltas[] = {RNN_INPUT_DELTAS}; // by gate; -1: none
static const int rnn_bias_deltas[] = {RNN_BIAS_DELTAS};
static const int rnn_recurrent_bias_deltas[] = {RNN_RECURRENT_BIAS_DELTAS};
static const int rnn_parameter_deltas[] = {RNN_PARAMETER_DELTAS};
static const int rnn_operands[] = {RNN_SAVED_OPERANDS}; // by phase: the state or saved vector

/// The widest vector that a product returns, and a row of it as the product writes it.
#define RNN_RETURNED_STRIDE (RNN_PANELS(RNN_RETURNED_UNITS) * RNN_WIDTH)
#define RNN_TRANSPOSED_FLOATS (RNN_PHASE_COUNT * RNN_TRANSPOSED_MOST)
#define RNN_INPUT_TRANSPOSED                                                                       \
    RNN_MATRIX_FLOATS((int64_t)RNN_INPUTS, (int64_t)(RNN_GATES)*RNN_UNITS_PADDED)
#define RNN_HEAD_FLOATS ((RNN_GATES + RNN_PRODUCT_GATES) * RNN_WIDEST)
#define RNN_CHUNK_COLUMNS (RNN_INPUTS > RNN_RETURNED_UNITS ? RNN_INPUTS : RNN_RETURNED_UNITS)

typedef struct {
    rnnc_cpu_backward_args *args;
    float *deltas;  // [T, B, RNN_DELTA_FLOATS]
    float *vectors; // b, rb and p, padded
    float *input_transposed, *transposed[RNN_PHASE_COUNT];
    float *delta; // of this step: [RNN_TILE, RNN_DELTA_FLOATS]
    float *seeds[RNN_STATES], *adjoints[RNN_STATES], *draws[RNN_STATES];
    float *returned[RNN_PHASE_COUNT], *head;
    float *panels, *room; // of a chunk
} rnn_back;

RNN_INLINE int64_t rnn_delta_at(int index)
{
    int64_t at = 0;
    for (int i = 0; i < index; i++)
        at += RNN_PADDED(rnn_delta_sizes[i]);
    return at;
}

#define RNN_VECTOR_FLOATS                                                                          \
    ((RNN_BIASES + RNN_RECURRENT_BIASES + RNN_PARAMETERS) * RNN_UNITS_PADDED + RNN_WIDEST)

static size_t rnn_backward_bytes(int64_t batch, int64_t timesteps)
{
    const int64_t rows =
        RNN_TILE * (RNN_DELTA_FLOATS + 3 * (RNN_STATE_FLOATS) +
                    (RNN_PHASE_COUNT + 1) * RNN_RETURNED_STRIDE + RNN_HEAD_FLOATS + 3 * RNN_WIDEST);
    const int64_t chunk =
        RNN_CHUNK_PANELS((int64_t)RNN_CHUNK_COLUMNS) + RNN_CHUNK_ROOM((int64_t)RNN_CHUNK_COLUMNS);
    return sizeof(float) * (size_t)(batch * timesteps * (RNN_DELTA_FLOATS) + RNN_VECTOR_FLOATS +
                                    RNN_INPUT_TRANSPOSED + RNN_TRANSPOSED_FLOATS + rows + chunk);
}

RNN_INLINE float *rnn_take(float **at, int64_t floats)
{
    float *taken = *at;
    *at += floats;
    return taken;
}

static void rnn_back_lay_out(rnnc_cpu_backward_args *args, rnn_back *back)
{
    const rnnc_cpu_args *forward = &args->forward;
    float *at = forward->scratch;
    back->args = args;
    back->deltas = rnn_take(&at, forward->batch * forward->timesteps * (RNN_DELTA_FLOATS));
    back->vectors = rnn_take(&at, RNN_VECTOR_FLOATS);
    back->input_transposed = rnn_take(&at, RNN_INPUT_TRANSPOSED);
    back->delta = rnn_take(&at, RNN_TILE * (RNN_DELTA_FLOATS));
    for (int i = 0; i < RNN_STATES; i++) {
        const int64_t floats = RNN_TILE * RNN_PADDED(rnn_state_sizes[i]);
        back->seeds[i] = rnn_take(&at, floats);
        back->adjoints[i] = rnn_take(&at, floats);
        back->draws[i] = rnn_take(&at, floats);
    }
    for (int i = 0; i < RNN_PHASE_COUNT; i++) {
        back->transposed[i] = rnn_take(&at, RNN_TRANSPOSED_MOST);
        back->returned[i] = rnn_take(&at, RNN_TILE * RNN_RETURNED_STRIDE);
    }
    back->head = rnn_take(&at, RNN_TILE * (RNN_RETURNED_STRIDE + RNN_HEAD_FLOATS));
    back->panels = rnn_take(&at, RNN_CHUNK_PANELS((int64_t)RNN_CHUNK_COLUMNS));
    back->room = rnn_take(&at, RNN_CHUNK_ROOM((int64_t)RNN_CHUNK_COLUMNS));
}

static void rnn_back_pack(rnn_back *back)
{
    const float *const *weights = back->args->canonical;
    int gates[RNN_GATES + 1];
    for (int i = 0; i < RNN_GATES; i++)
        gates[i] = rnn_input_deltas[i] < 0 ? -1 : i;
    memset(back->vectors, 0, sizeof(float) * (size_t)(RNN_VECTOR_FLOATS));
    rnn_pack_vectors(weights[RNNC_WEIGHT_B], RNN_BIASES, RNN_UNITS, back->vectors);
    rnn_pack_vectors(weights[RNNC_WEIGHT_RB], RNN_RECURRENT_BIASES, RNN_UNITS,
                     back->vectors + RNN_BIASES * RNN_UNITS_PADDED);
    rnn_pack_vectors(weights[RNNC_WEIGHT_PEEPHOLE], RNN_PARAMETERS, RNN_UNITS,
                     back->vectors + (RNN_BIASES + RNN_RECURRENT_BIASES) * RNN_UNITS_PADDED);
    if (RNN_GATES > 0 && back->args->dx)
        rnn_pack_transposed(weights[RNNC_WEIGHT_W], gates, RNN_GATES, RNN_UNITS, 0, RNN_UNITS,
                            RNN_INPUTS, back->input_transposed);
    for (int p = 0; p < RNN_PHASE_COUNT; p++) {
        const rnn_phase *phase = &rnn_phases[p];
        const int64_t units = phase->size / phase->heads, depth = phase->depth / phase->heads;
        for (int64_t head = 0; head < phase->heads && phase->gates; head++)
            rnn_pack_transposed(weights[phase->matrix], phase->rows, phase->gates, phase->size,
                                head * units, units, depth,
                                back->transposed[p] +
                                    head *
                                        RNN_MATRIX_FLOATS(depth, phase->gates * RNN_PADDED(units)));
    }
}

/// The vectors that a stage's functions are given for one row and unit.
typedef struct {
    rnn_f bias[RNN_BIASES + 1], recurrent_bias[RNN_RECURRENT_BIASES + 1];
    rnn_f parameter[RNN_PARAMETERS + 1], state[RNN_STATES], next[RNN_STATES];
    rnn_f saved[RNN_SAVED + 1], draw[RNN_STATES], seed[RNN_SEEDS], delta[RNN_DELTAS + 1];
    rnn_f adjoint[RNN_STATES];
} rnn_back_point;

/// One row of the tile at one step.
typedef struct {
    int64_t at, row, step; // in the tile, in the batch, in the row's order
    const float *record;
    rnn_f statistic[2 * RNN_CELL_NORMS + 1], sum[2 * RNN_CELL_NORMS + 1];
} rnn_back_row;

RNN_INLINE void rnn_back_gather(const rnn_back *back, const rnn_back_row *of, int64_t unit,
                                rnn_back_point *point)
{
    const rnnc_cpu_args *forward = &back->args->forward;
    const float *vectors = back->vectors + unit;
    RNN_UNROLL for (int i = 0; i < RNN_BIASES; i++) point->bias[i] =
        rnn_load(vectors + i * RNN_UNITS_PADDED);
    RNN_UNROLL for (int i = 0; i < RNN_RECURRENT_BIASES; i++) point->recurrent_bias[i] =
        rnn_load(vectors + (RNN_BIASES + i) * RNN_UNITS_PADDED);
    RNN_UNROLL for (int i = 0; i < RNN_PARAMETERS; i++) point->parameter[i] =
        rnn_load(vectors + (RNN_BIASES + RNN_RECURRENT_BIASES + i) * RNN_UNITS_PADDED);
    RNN_UNROLL for (int i = 0; i < RNN_STATES; i++)
    {
        const int64_t from = of->at * RNN_PADDED(rnn_state_sizes[i]) + unit;
        if (RNN_STATES_SAVED >> i & 1) {
            point->state[i] = rnn_load(rnn_saved_state(forward, i, of->step, of->row) + unit);
            point->next[i] = rnn_load(rnn_saved_state(forward, i, of->step + 1, of->row) + unit);
        }
        point->seed[i] = rnn_load(back->seeds[i] + from);
        if (RNN_ZONEOUT)
            point->draw[i] = rnn_load(back->draws[i] + from);
    }
    RNN_UNROLL for (int i = 0; i < RNN_SAVED; i++) point->saved[i] =
        rnn_load(of->record + rnn_saved_at(i) + unit);
    RNN_UNROLL for (int i = 0; i < RNN_PHASE_COUNT; i++) point->seed[RNN_STATES + i] =
        rnn_load(back->returned[i] + of->at * RNN_RETURNED_STRIDE + unit);
    RNN_UNROLL for (int i = 0; i < 2 * RNN_CELL_NORMS; i++)
        point->seed[RNN_STATES + RNN_PHASE_COUNT + i] = of->sum[i];
}

/// The sums over units of the adjoints of a stage's statistics, divided by the values of the norm.
#define RNN_DEFINE_SUMS(N)                                                                         \
    static void rnn_run_sums##N(const rnn_back *back, rnn_back_row *of)                            \
    {                                                                                              \
        const rnn_stage *stage = &rnn_stages[N];                                                   \
        rnn_f totals[8] = {{0}};                                                                   \
        for (int64_t unit = 0; unit < stage->size; unit += RNN_LANES) {                            \
            rnn_back_point point;                                                                  \
            rnn_f sum[8];                                                                          \
            rnn_back_gather(back, of, unit, &point);                                               \
            rnn_sums##N(point.bias, point.recurrent_bias, point.parameter, point.state,            \
                        point.next, point.saved, of->statistic, point.draw, point.seed, sum);      \
            for (int i = 0; i < 8 && stage->members[i / 2]; i++)                                   \
                totals[i] += rnn_only_units(sum[i], unit, stage->size);                            \
        }                                                                                          \
        for (int i = 0; i < 8 && stage->members[i / 2]; i++)                                       \
            of->sum[2 * stage->norms[i / 2] + i % 2] =                                             \
                rnn_const(rnn_sum(totals[i]) / (float)(stage->members[i / 2] * stage->size));      \
    }

RNN_SUM_STAGES(RNN_DEFINE_SUMS)

#define RNN_DEFINE_STAGE(N)                                                                        \
    static void rnn_run_stage##N(const rnn_back *back, const rnn_back_row *of)                     \
    {                                                                                              \
        const rnn_stage *stage = &rnn_stages[N];                                                   \
        float *delta = back->delta + of->at * (RNN_DELTA_FLOATS);                                  \
        for (int64_t unit = 0; unit < stage->size; unit += RNN_LANES) {                            \
            rnn_back_point point;                                                                  \
            rnn_back_gather(back, of, unit, &point);                                               \
            rnn_backward##N(point.bias, point.recurrent_bias, point.parameter, point.state,        \
                            point.next, point.saved, of->statistic, point.draw, point.seed,        \
                            point.delta, point.adjoint);                                           \
            RNN_UNROLL for (int i = 0; i < RNN_DELTAS; i++) if (rnn_delta_stages[i] == N)          \
                rnn_store(delta + rnn_delta_at(i) + unit,                                          \
                          rnn_only_units(point.delta[i], unit, stage->size));                      \
            RNN_UNROLL for (int i = 0; i < RNN_STATES; i++) if (stage->states >> i & 1)            \
                rnn_store(back->adjoints[i] + of->at * RNN_PADDED(rnn_state_sizes[i]) + unit,      \
                          point.adjoint[i]);                                                       \
        }                                                                                          \
    }

RNN_STAGES(RNN_DEFINE_STAGE)

/// Head after head: its deltas brought together, then its part of what is returned.
static __attribute__((unused)) void rnn_return_heads(const rnn_back *back, int number, int64_t rows)
{
    const rnn_stage *stage = &rnn_stages[number];
    const rnn_phase *phase = &rnn_phases[stage->phase];
    const int64_t units = phase->size / phase->heads, depth = phase->depth / phase->heads;
    const int64_t stride = phase->gates * RNN_PADDED(units);
    float *deltas = back->head, *sums = back->head + RNN_TILE * RNN_HEAD_FLOATS;
    for (int64_t head = 0; head < phase->heads; head++) {
        memset(deltas, 0, sizeof(float) * (size_t)(rows * stride));
        for (int64_t at = 0; at < rows; at++)
            for (int gate = 0; gate < phase->gates; gate++)
                memcpy(deltas + at * stride + gate * RNN_PADDED(units),
                       back->delta + at * (RNN_DELTA_FLOATS) +
                           rnn_delta_at(stage->first_delta + gate) + head * units,
                       sizeof(float) * (size_t)units);
        rnn_product(back->transposed[stage->phase] + head * RNN_MATRIX_FLOATS(depth, stride),
                    RNN_PANELS(depth), stride, deltas, stride, sums, RNN_RETURNED_STRIDE, rows, 0);
        for (int64_t at = 0; at < rows; at++)
            memcpy(back->returned[stage->phase] + at * RNN_RETURNED_STRIDE + head * depth,
                   sums + at * RNN_RETURNED_STRIDE, sizeof(float) * (size_t)depth);
    }
}

/// returned = M^T * deltas of the stage's phase, times the scale of what R multiplies.
static void rnn_return(const rnn_back *back, int number, const rnn_rows *tile)
{
    const rnn_stage *stage = &rnn_stages[number];
    const rnn_phase *phase = &rnn_phases[stage->phase];
    float *returned = back->returned[stage->phase];
    if (phase->heads > 1)
        rnn_return_heads(back, number, tile->count);
    else
        rnn_product(back->transposed[stage->phase], RNN_PANELS(phase->depth),
                    phase->gates * RNN_PADDED(phase->size),
                    back->delta + rnn_delta_at(stage->first_delta), RNN_DELTA_FLOATS, returned,
                    RNN_RETURNED_STRIDE, tile->count, 0);
    for (int64_t at = 0; at < tile->count && RNN_RECURRENT_DROPOUT && phase->matrix == RNN_MATRIX_R;
         at++)
        for (int64_t i = 0; i < phase->depth; i++)
            returned[at * RNN_RETURNED_STRIDE + i] *=
                back->args->forward.recurrent_scale[tile->row[at] * phase->depth + i];
}

/// The adjoints of a row's states after step `step`.
static void rnn_back_seeds(const rnn_back *back, int64_t at, int64_t row, int64_t step, int is_last)
{
    const rnnc_cpu_backward_args *args = back->args;
    for (int i = 0; i < RNN_STATES; i++) {
        float *seeds = back->seeds[i] + at * RNN_PADDED(rnn_state_sizes[i]);
        const float *adjoints = back->adjoints[i] + at * RNN_PADDED(rnn_state_sizes[i]);
        memcpy(seeds, adjoints, sizeof(float) * (size_t)RNN_PADDED(rnn_state_sizes[i]));
        for (int p = 0; p < RNN_PHASE_COUNT; p++)
            if (rnn_phases[p].gates && rnn_phases[p].operand_is_state && rnn_phases[p].operand == i)
                for (int64_t unit = 0; unit < rnn_state_sizes[i]; unit++)
                    seeds[unit] += back->returned[p][at * RNN_RETURNED_STRIDE + unit];
    }
    if (!RNN_SEQUENCE_OUT && !is_last)
        return;
    const int64_t place = RNN_SEQUENCE_OUT ? rnn_place(&args->forward, row, step) : 0;
    const float *dy = args->dy + row * args->dy_row_stride + place * args->dy_step_stride;
    float *seeds = back->seeds[0] + at * RNN_PADDED(RNN_OUTPUTS);
    for (int64_t unit = 0; unit < RNN_OUTPUTS; unit++)
        seeds[unit] += dy[unit];
}

/// A row begins: its adjoints are those of its final states.
static void rnn_back_begin(const rnn_back *back, int64_t at, int64_t row)
{
    for (int i = 0; i < RNN_STATES; i++) {
        float *adjoints = back->adjoints[i] + at * RNN_PADDED(rnn_state_sizes[i]);
        memset(adjoints, 0, sizeof(float) * (size_t)RNN_PADDED(rnn_state_sizes[i]));
        memcpy(adjoints, back->args->states[i] + row * rnn_state_sizes[i],
               sizeof(float) * (size_t)rnn_state_sizes[i]);
    }
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        memset(back->returned[p] + at * RNN_RETURNED_STRIDE, 0,
               sizeof(float) * (size_t)RNN_RETURNED_STRIDE);
}

/// One step of the rows under way.
static void rnn_back_step(const rnn_back *back, const rnn_rows *tile, int64_t step)
{
    rnn_back_row rows[RNN_TILE];
    const rnnc_cpu_args *forward = &back->args->forward;
    for (int64_t at = 0; at < tile->count; at++) {
        const int64_t row = tile->row[at];
        rows[at].at = at, rows[at].row = row, rows[at].step = step;
        rows[at].record = rnn_record(forward, step, row);
        for (int i = 0; i < 2 * RNN_CELL_NORMS; i++)
            rows[at].statistic[i] = rnn_const(rows[at].record[(RNN_SAVED_FLOATS) + i]);
        rnn_back_seeds(back, at, row, step, step + 1 == tile->steps[at]);
        for (int i = 0; i < RNN_STATES && RNN_ZONEOUT; i++)
            rnn_draw_zoneout(forward, row, rnn_time(forward, row, step), i,
                             back->draws[i] + at * RNN_PADDED(rnn_state_sizes[i]));
    }
#define RNN_RUN_SUMS(N)                                                                            \
    if (number == N)                                                                               \
        for (int64_t at = 0; at < tile->count; at++)                                               \
            rnn_run_sums##N(back, &rows[at]);
#define RNN_RUN_STAGE(N)                                                                           \
    if (number == N)                                                                               \
        for (int64_t at = 0; at < tile->count; at++)                                               \
            rnn_run_stage##N(back, &rows[at]);
    for (int number = 0; number < RNN_STAGE_COUNT; number++) {
        RNN_SUM_STAGES(RNN_RUN_SUMS)
        RNN_STAGES(RNN_RUN_STAGE)
        if (rnn_stages[number].phase >= 0)
            rnn_return(back, number, tile);
    }
    for (int64_t at = 0; at < tile->count; at++) {
        const float *delta = back->delta + at * (RNN_DELTA_FLOATS);
        memcpy(back->deltas + (step * forward->batch + tile->row[at]) * (RNN_DELTA_FLOATS), delta,
               sizeof(float) * (size_t)(RNN_DELTA_FLOATS));
        rnn_find_nan(back->args, delta, RNN_DELTA_FLOATS, rnn_time(forward, tile->row[at], step),
                     tile->row[at]);
    }
}

static void rnn_back_tile(const rnn_back *back, int64_t first, int64_t count)
{
    rnn_rows tile;
    rnn_sort_rows(&back->args->forward, first, count, &tile);
    const int64_t rows = tile.count, total = rows ? tile.steps[0] : 0;
    tile.count = 0;
    for (int64_t step = total - 1; step >= 0; step--) {
        for (; tile.count < rows && tile.steps[tile.count] == step + 1; tile.count++)
            rnn_back_begin(back, tile.count, tile.row[tile.count]);
        rnn_back_step(back, &tile, step);
    }
    for (int64_t at = 0; at < rows; at++)
        for (int i = 0; i < RNN_STATES; i++) {
            float *to = back->args->states[i] + tile.row[at] * rnn_state_sizes[i];
            memcpy(to, back->adjoints[i] + at * RNN_PADDED(rnn_state_sizes[i]),
                   sizeof(float) * (size_t)rnn_state_sizes[i]);
            for (int p = 0; p < RNN_PHASE_COUNT; p++)
                if (rnn_phases[p].gates && rnn_phases[p].operand_is_state &&
                    rnn_phases[p].operand == i)
                    for (int64_t unit = 0; unit < rnn_state_sizes[i]; unit++)
                        to[unit] += back->returned[p][at * RNN_RETURNED_STRIDE + unit];
        }
}

/// Steps of rows that are summed together.
typedef struct {
    int64_t count, row[RNN_CHUNK], step[RNN_CHUNK], time[RNN_CHUNK];
    const float *delta[RNN_CHUNK];
} rnn_chunk;

static void rnn_back_input(const rnn_back *back, const rnn_chunk *chunk)
{
    const rnnc_cpu_backward_args *args = back->args;
    float *gradient = args->weights[RNNC_WEIGHT_W];
    for (int64_t n = 0; n < chunk->count && gradient; n++)
        rnn_pack_entry((const float *)args->forward.x + chunk->row[n] * args->forward.x_row_stride +
                           chunk->time[n] * args->forward.x_step_stride,
                       0, RNN_INPUTS, n, chunk->count, back->panels);
    for (int gate = 0; gate < RNN_GATES && gradient; gate++)
        if (rnn_input_deltas[gate] >= 0)
            rnn_gradient(chunk->delta, rnn_delta_at(rnn_input_deltas[gate]), RNN_UNITS,
                         back->panels, RNN_INPUTS, chunk->count, back->room,
                         gradient + gate * (int64_t)RNN_UNITS * RNN_INPUTS);
}

/// dx += delta * W, a few steps at a time.
static void rnn_back_dx(const rnn_back *back, const rnn_chunk *chunk)
{
    const rnnc_cpu_backward_args *args = back->args;
    const int64_t depth = RNN_GATES * RNN_UNITS_PADDED;
    float *deltas = back->head, *sums = back->room;
    for (int64_t first = 0; first < chunk->count; first += RNN_TILE) {
        const int64_t left = chunk->count - first, rows = left < RNN_TILE ? left : RNN_TILE;
        memset(deltas, 0, sizeof(float) * (size_t)(rows * depth));
        for (int64_t at = 0; at < rows; at++)
            for (int gate = 0; gate < RNN_GATES; gate++)
                if (rnn_input_deltas[gate] >= 0)
                    memcpy(deltas + at * depth + gate * RNN_UNITS_PADDED,
                           chunk->delta[first + at] + rnn_delta_at(rnn_input_deltas[gate]),
                           sizeof(float) * RNN_UNITS);
        rnn_product(back->input_transposed, RNN_PANELS((int64_t)RNN_INPUTS), depth, deltas, depth,
                    sums, RNN_PANELS((int64_t)RNN_INPUTS) * RNN_WIDTH, rows, 0);
        for (int64_t at = 0; at < rows; at++) {
            float *dx = args->dx + chunk->row[first + at] * args->dx_row_stride +
                        chunk->time[first + at] * args->dx_step_stride;
            for (int64_t i = 0; i < RNN_INPUTS; i++)
                dx[i] += sums[at * RNN_PANELS((int64_t)RNN_INPUTS) * RNN_WIDTH + i];
        }
    }
}

/// The gradient of what phase `number` multiplies by, head after head.
static void rnn_back_matrix(const rnn_back *back, const rnn_chunk *chunk, int number)
{
    const rnn_stage *stage = &rnn_stages[number];
    const rnn_phase *phase = &rnn_phases[stage->phase];
    const rnnc_cpu_args *forward = &back->args->forward;
    const int64_t units = phase->size / phase->heads, depth = phase->depth / phase->heads;
    float *gradient = back->args->weights[phase->matrix];
    const int is_scaled = RNN_RECURRENT_DROPOUT && phase->matrix == RNN_MATRIX_R;
    for (int64_t head = 0; head < phase->heads && gradient; head++) {
        for (int64_t n = 0; n < chunk->count; n++) {
            const int index = rnn_operands[stage->phase];
            const float *operand =
                phase->operand_is_state
                    ? rnn_saved_state(forward, index, chunk->step[n], chunk->row[n])
                    : rnn_record(forward, chunk->step[n], chunk->row[n]) + rnn_saved_at(index);
            const float *scales =
                is_scaled ? forward->recurrent_scale + chunk->row[n] * phase->depth + head * depth
                          : 0;
            rnn_pack_entry(operand + head * depth, scales, depth, n, chunk->count, back->panels);
        }
        for (int gate = 0; gate < phase->gates; gate++)
            rnn_gradient(chunk->delta, rnn_delta_at(stage->first_delta + gate) + head * units,
                         units, back->panels, depth, chunk->count, back->room,
                         gradient + (phase->rows[gate] * phase->size + head * units) * depth);
    }
}

static void rnn_back_vectors(const rnn_back *back, const rnn_chunk *chunk, int kind, int count,
                             const int *deltas)
{
    float *gradient = back->args->weights[kind];
    for (int gate = 0; gate < count && gradient; gate++)
        if (deltas[gate] >= 0)
            rnn_gradient_sum(chunk->delta, rnn_delta_at(deltas[gate]), RNN_UNITS, chunk->count,
                             gradient + gate * (int64_t)RNN_UNITS);
}

static void rnn_back_chunk(const rnn_back *back, const rnn_chunk *chunk)
{
    rnn_back_input(back, chunk);
    for (int number = 0; number < RNN_STAGE_COUNT; number++)
        if (rnn_stages[number].phase >= 0)
            rnn_back_matrix(back, chunk, number);
    rnn_back_vectors(back, chunk, RNNC_WEIGHT_B, RNN_BIASES, rnn_bias_deltas);
    rnn_back_vectors(back, chunk, RNNC_WEIGHT_RB, RNN_RECURRENT_BIASES, rnn_recurrent_bias_deltas);
    rnn_back_vectors(back, chunk, RNNC_WEIGHT_PEEPHOLE, RNN_PARAMETERS, rnn_parameter_deltas);
    if (RNN_GATES > 0 && back->args->dx)
        rnn_back_dx(back, chunk);
}

/// All steps that rows have taken, in chunks.
static void rnn_back_weights(const rnn_back *back)
{
    const rnnc_cpu_args *forward = &back->args->forward;
    rnn_chunk chunk = {.count = 0};
    for (int64_t step = 0; step < forward->timesteps; step++)
        for (int64_t row = 0; row < forward->batch; row++) {
            if (forward->rows && step >= forward->rows[row].steps)
                continue;
            chunk.row[chunk.count] = row;
            chunk.step[chunk.count] = step;
            chunk.time[chunk.count] = rnn_time(forward, row, step);
            chunk.delta[chunk.count++] =
                back->deltas + (step * forward->batch + row) * (RNN_DELTA_FLOATS);
            if (chunk.count == RNN_CHUNK) {
                rnn_back_chunk(back, &chunk);
                chunk.count = 0;
            }
        }
    if (chunk.count)
        rnn_back_chunk(back, &chunk);
}

static void rnn_backward(rnnc_cpu_backward_args *args)
{
    rnn_back back;
    rnn_back_lay_out(args, &back);
    rnn_back_pack(&back);
    const int64_t batch = args->forward.batch;
    for (int64_t first = 0; first < batch; first += RNN_TILE)
        rnn_back_tile(&back, first, batch - first < RNN_TILE ? batch - first : RNN_TILE);
    if (!args->adds_dx)
        rnn_clear_dx(args, args->dx, RNN_INPUTS);
    rnn_back_weights(&back);
}

static const rnnc_cpu_training rnn_training = {rnn_tape_bytes, rnn_backward_bytes, rnn_backward};
