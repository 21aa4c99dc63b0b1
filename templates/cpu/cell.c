// Cell on the CPU: a recurrent layer of any cell, specialised by the RNN_* numbers and the
// generated functions rnn_phase0, rnn_phase1, ... that stand before this file.
//
// Rows of the batch are taken RNN_TILE at a time, each tile through all its time steps:
//
//     for tiles of rows                      states -> scratch
//         for chunks of steps                inputs[step][row] = W * x   (one product, many rows)
//             for steps
//                 for phases                 product[row] = R * operand[row]
//                                            mean and variance of the phase's norms
//                                            pointwise over vectors of units
//                 y[row][time] = first state
//                                            scratch -> states of the rows that end here
//
// Where rows have different numbers of steps (masks, lengths), those with the most come first in
// their tile, so that the rows which are still under way are always its beginning.
//
// A single row has too little to multiply for the weights that it streams: its W*x of the next
// steps is computed under R*h (overlap.h) where the registers are enough for both.
//
// States are kept twice, before and after the step, so that a phase may read a state that another
// has already renewed. Padding lanes hold whatever the equations make of zeros; nothing reads them.
#ifndef RNN_UNITS
#include "cpu/default_cell.h"
#endif
#include "cpu/code.h"
#include "cpu/overlap.h"

typedef struct {
    int matrix, gates, rows[RNNC_GATES_MAX]; // product: blocks of rows of R or P; gates 0: none
    int operand_is_state, operand;
    int64_t depth, size;              // of the operand, of the product and the pointwise function
    unsigned states_out, carries_out; // bit masks of what this phase writes
    int64_t heads;                    // diagonal blocks of the matrix
    int norms[RNN_NORMS + 1];         // members of each norm; 0 ends them
} rnn_phase;

enum { RNN_MATRIX_R = RNNC_WEIGHT_R, RNN_MATRIX_P = RNNC_WEIGHT_P };
static const rnn_phase rnn_phases[RNN_PHASE_COUNT] = {RNN_PHASE_ROWS};
static const int64_t rnn_state_sizes[] = {RNN_STATE_SIZES};
static const int64_t rnn_carry_sizes[] = {RNN_CARRY_SIZES};

#define RNN_UNITS_PADDED RNN_PADDED(RNN_UNITS)
#define RNN_INPUT_PANELS RNN_PANELS(RNN_GATES *RNN_UNITS_PADDED)
#define RNN_INPUT_WIDTH (RNN_INPUT_PANELS * RNN_WIDTH)
#define RNN_PRODUCT_WIDTH                                                                          \
    (RNN_PANELS(RNN_PRODUCT_GATES * RNN_PADDED(RNN_PRODUCT_UNITS)) * RNN_WIDTH)

// Packed weights: W, the phases' matrices, b, rb, p.
#define RNN_PHASES_AT RNN_MATRIX_FLOATS(RNN_GATES *RNN_UNITS_PADDED, (int64_t)RNN_INPUTS)
#define RNN_BIAS_AT (RNN_PHASES_AT + RNN_PHASE_FLOATS)
#define RNN_RECURRENT_BIAS_AT (RNN_BIAS_AT + RNN_BIASES * RNN_UNITS_PADDED)
#define RNN_PARAMETER_AT (RNN_RECURRENT_BIAS_AT + RNN_RECURRENT_BIASES * RNN_UNITS_PADDED)
#define RNN_PACKED_FLOATS (RNN_PARAMETER_AT + RNN_PARAMETERS * RNN_UNITS_PADDED)

// Scratch: W*x of a chunk (some 192 KiB, at least one step of a tile), product, states twice,
// carries.
enum { RNN_CHUNK_FLOATS = 48 * 1024 };
#define RNN_CHUNK_ROWS                                                                             \
    (RNN_TILE * RNN_INPUT_WIDTH < RNN_CHUNK_FLOATS ? RNN_CHUNK_FLOATS / (RNN_INPUT_WIDTH + 1)      \
                                                   : RNN_TILE)

/// Scratch that only some layers need: operands scaled by dropout and the scales, the product of
/// one head, the x of one step gathered from rows in their own order.
#define RNN_SCALED_FLOATS (RNN_RECURRENT_DROPOUT ? RNN_TILE * RNN_PADDED(RNN_OPERAND_UNITS) : 0)
#define RNN_HEAD_WIDTH                                                                             \
    (RNN_HEADS > 1                                                                                 \
         ? RNN_PANELS(RNN_PRODUCT_GATES * RNN_PADDED(RNN_PRODUCT_UNITS / RNN_HEADS)) * RNN_WIDTH   \
         : 0)
#define RNN_GATHER_STRIDE RNN_PADDED((int64_t)RNN_INPUTS)
#define RNN_DRAW_FLOATS (RNN_ZONEOUT ? RNN_TILE * (RNN_STATE_FLOATS) : 0)

typedef struct {
    const float *packed;
    float *inputs, *product;
    float *scaled, *scales, *head, *gathered;
    float *draws[RNN_STATES];     // of zoneout in training, laid out as states
    float *states[2][RNN_STATES]; // before and after the step, by turns
    float *carries[RNN_CARRIES + 1];
    rnn_ahead ahead; // W*x of later steps, for a single row
} rnn_frame;

/// The rows of a tile, those with the most steps first.
typedef struct {
    int64_t row[RNN_TILE], steps[RNN_TILE];
    int64_t count; // of the rows that are still under way
} rnn_rows;

typedef struct {
    rnn_f input[RNN_GATES + 1], product[RNNC_GATES_MAX], bias[RNN_BIASES + 1];
    rnn_f recurrent_bias[RNN_RECURRENT_BIASES + 1], parameter[RNN_PARAMETERS + 1];
    rnn_f state[RNN_STATES], carry_in[RNN_CARRIES + 1];
    rnn_f statistic[2 * RNN_NORMS + 1];
    rnn_f state_out[RNN_STATES], carry_out[RNN_CARRIES + 1];
} rnn_point;

RNN_INLINE int64_t rnn_phase_floats(int phase)
{
    const rnn_phase *of = &rnn_phases[phase];
    return of->heads *
           RNN_MATRIX_FLOATS(of->gates * RNN_PADDED(of->size / of->heads), of->depth / of->heads);
}

RNN_INLINE int64_t rnn_phase_at(int phase)
{
    int64_t at = RNN_PHASES_AT;
    for (int i = 0; i < phase; i++)
        at += rnn_phase_floats(i);
    return at;
}

static size_t rnn_scratch_bytes(int64_t batch, int64_t timesteps)
{
    (void)batch, (void)timesteps;
    return sizeof(float) *
           (size_t)((int64_t)RNN_CHUNK_ROWS * RNN_INPUT_WIDTH + 2 * RNN_SCALED_FLOATS +
                    RNN_DRAW_FLOATS +
                    RNN_TILE * (RNN_PRODUCT_WIDTH + 2 * (RNN_STATE_FLOATS) + RNN_CARRY_FLOATS +
                                RNN_HEAD_WIDTH + RNN_GATHER_STRIDE));
}

static void rnn_pack_weights(const float *const weights[RNNC_WEIGHT_COUNT], void *memory)
{
    static const int in_order[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    float *packed = memory;
    memset(packed, 0, sizeof(float) * (size_t)(RNN_PACKED_FLOATS));
    rnn_pack(weights[RNNC_WEIGHT_W], in_order, RNN_GATES, RNN_UNITS, RNN_UNITS, RNN_INPUTS, packed);
    for (int i = 0; i < RNN_PHASE_COUNT; i++) {
        const rnn_phase *phase = &rnn_phases[i];
        const int64_t units = phase->size / phase->heads, depth = phase->depth / phase->heads;
        for (int64_t head = 0; head < phase->heads && phase->gates; head++)
            rnn_pack(weights[phase->matrix] + head * units * depth, phase->rows, phase->gates,
                     phase->size, units, depth,
                     packed + rnn_phase_at(i) + head * (rnn_phase_floats(i) / phase->heads));
    }
    rnn_pack_vectors(weights[RNNC_WEIGHT_B], RNN_BIASES, RNN_UNITS, packed + RNN_BIAS_AT);
    rnn_pack_vectors(weights[RNNC_WEIGHT_RB], RNN_RECURRENT_BIASES, RNN_UNITS,
                     packed + RNN_RECURRENT_BIAS_AT);
    rnn_pack_vectors(weights[RNNC_WEIGHT_PEEPHOLE], RNN_PARAMETERS, RNN_UNITS,
                     packed + RNN_PARAMETER_AT);
}

static void rnn_frame_lay_out(const rnnc_cpu_args *args, rnn_frame *frame)
{
    float *at = args->scratch;
    frame->packed = args->packed;
    frame->ahead =
        (rnn_ahead){.matrix = frame->packed,
                    .depth = RNN_INPUTS,
                    .x_stride = RNN_REVERSED ? -args->x_step_stride : args->x_step_stride,
                    .width = RNN_INPUT_WIDTH};
    frame->inputs = at;
    at += (int64_t)RNN_CHUNK_ROWS * RNN_INPUT_WIDTH;
    frame->product = at;
    at += RNN_TILE * RNN_PRODUCT_WIDTH;
    frame->scaled = at;
    at += RNN_SCALED_FLOATS;
    frame->scales = at;
    at += RNN_SCALED_FLOATS;
    frame->head = at;
    at += RNN_TILE * RNN_HEAD_WIDTH;
    frame->gathered = at;
    at += RNN_TILE * RNN_GATHER_STRIDE;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < RNN_STATES; i++) {
            frame->states[turn][i] = at;
            at += RNN_TILE * RNN_PADDED(rnn_state_sizes[i]);
        }
    for (int i = 0; i < RNN_CARRIES; i++) {
        frame->carries[i] = at;
        at += RNN_TILE * RNN_PADDED(rnn_carry_sizes[i]);
    }
    for (int i = 0; i < RNN_STATES && RNN_ZONEOUT; i++) {
        frame->draws[i] = at;
        at += RNN_TILE * RNN_PADDED(rnn_state_sizes[i]);
    }
}

/// Loads one vector of units of every array; the compiler drops what the phase does not read.
RNN_INLINE void rnn_gather(const rnn_frame *frame, const rnn_phase *phase, const float *input,
                           const float *product, int before, int64_t row, int64_t unit,
                           rnn_point *point)
{
    RNN_UNROLL for (int i = 0; i < RNN_GATES; i++) point->input[i] =
        rnn_load(input + i * RNN_UNITS_PADDED + unit);
    RNN_UNROLL for (int i = 0; i < phase->gates; i++) point->product[i] =
        rnn_load(product + i * RNN_PADDED(phase->size) + unit);
    RNN_UNROLL for (int i = 0; i < RNN_BIASES; i++) point->bias[i] =
        rnn_load(frame->packed + RNN_BIAS_AT + i * RNN_UNITS_PADDED + unit);
    RNN_UNROLL for (int i = 0; i < RNN_RECURRENT_BIASES; i++) point->recurrent_bias[i] =
        rnn_load(frame->packed + RNN_RECURRENT_BIAS_AT + i * RNN_UNITS_PADDED + unit);
    RNN_UNROLL for (int i = 0; i < RNN_PARAMETERS; i++) point->parameter[i] =
        rnn_load(frame->packed + RNN_PARAMETER_AT + i * RNN_UNITS_PADDED + unit);
    RNN_UNROLL for (int i = 0; i < RNN_STATES; i++) point->state[i] =
        rnn_load(frame->states[before][i] + row * RNN_PADDED(rnn_state_sizes[i]) + unit);
    RNN_UNROLL for (int i = 0; i < RNN_CARRIES; i++) point->carry_in[i] =
        rnn_load(frame->carries[i] + row * RNN_PADDED(rnn_carry_sizes[i]) + unit);
}

RNN_INLINE void rnn_scatter(const rnn_frame *frame, const rnn_phase *phase, int before, int64_t row,
                            int64_t unit, const rnn_point *point)
{
    RNN_UNROLL for (int i = 0; i < RNN_STATES; i++) if (phase->states_out >> i & 1)
        rnn_store(frame->states[!before][i] + row * RNN_PADDED(rnn_state_sizes[i]) + unit,
                  point->state_out[i]);
    RNN_UNROLL for (int i = 0; i < RNN_CARRIES; i++) if (phase->carries_out >> i & 1) rnn_store(
        frame->carries[i] + row * RNN_PADDED(rnn_carry_sizes[i]) + unit, point->carry_out[i]);
}

/// What a phase multiplies, rows RNN_PADDED(depth) apart: a state or a carry, scaled where R's
/// operand drops.
RNN_INLINE const float *rnn_operand(const rnn_frame *frame, const rnn_phase *phase, int64_t rows,
                                    int before)
{
    const float *operand = phase->operand_is_state ? frame->states[before][phase->operand]
                                                   : frame->carries[phase->operand];
    if (!RNN_RECURRENT_DROPOUT || phase->matrix != RNN_MATRIX_R)
        return operand;
    for (int64_t i = 0; i < rows * RNN_PADDED(phase->depth); i += RNN_LANES)
        rnn_store(frame->scaled + i, rnn_load(operand + i) * rnn_load(frame->scales + i));
    return frame->scaled;
}

/// A product whose matrix has diagonal blocks, one after the other.
static __attribute__((unused)) void rnn_product_heads(const rnn_frame *frame, int number,
                                                      const float *operand, int64_t rows,
                                                      int before)
{
    const rnn_phase *phase = &rnn_phases[number];
    const int64_t units = phase->size / phase->heads, depth = phase->depth / phase->heads;
    const int64_t panels = RNN_PANELS(phase->gates * RNN_PADDED(units));
    for (int64_t head = 0; head < phase->heads; head++) {
        rnn_product(frame->packed + rnn_phase_at(number) +
                        head * (rnn_phase_floats(number) / phase->heads),
                    panels, depth, operand + head * depth, RNN_PADDED(phase->depth), frame->head,
                    RNN_HEAD_WIDTH, rows, before);
        for (int64_t row = 0; row < rows; row++)
            for (int gate = 0; gate < phase->gates; gate++)
                memcpy(frame->product + row * RNN_PRODUCT_WIDTH + gate * RNN_PADDED(phase->size) +
                           head * units,
                       frame->head + row * RNN_HEAD_WIDTH + gate * RNN_PADDED(units),
                       sizeof(float) * (size_t)units);
    }
}

RNN_INLINE void rnn_phase_product(rnn_frame *frame, int number, int64_t rows, int before)
{
    const rnn_phase *phase = &rnn_phases[number];
    const float *matrix = frame->packed + rnn_phase_at(number);
    const float *operand = rnn_operand(frame, phase, rows, before);
    const int64_t panels = RNN_PANELS(phase->gates * RNN_PADDED(phase->size));
    if (phase->heads > 1)
        rnn_product_heads(frame, number, operand, rows, before);
    else if (rows == 1 && frame->ahead.count)
        rnn_product_row_ahead(matrix, panels, phase->depth, operand, frame->product, before,
                              &frame->ahead);
    else
        rnn_product(matrix, panels, phase->depth, operand, RNN_PADDED(phase->depth), frame->product,
                    RNN_PRODUCT_WIDTH, rows, before);
}

/// The lanes of the vector at `unit` that are units; the others are padding.
RNN_INLINE rnn_f rnn_only_units(rnn_f value, int64_t unit, int64_t size)
{
    float lanes[RNN_LANES];
    if (unit + RNN_LANES <= size)
        return value;
    memcpy(lanes, &value, sizeof lanes);
    for (int64_t i = size - unit; i < RNN_LANES; i++)
        lanes[i] = 0;
    memcpy(&value, lanes, sizeof lanes);
    return value;
}

/// The sum of all lanes, in pairs.
RNN_INLINE float rnn_sum(rnn_f value)
{
    float lanes[RNN_LANES];
    memcpy(lanes, &value, sizeof lanes);
    for (int width = RNN_LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
    return lanes[0];
}

/// One pass over what a phase normalises, for one row: totals[n] += what the members of norm n
/// give, the squares of their distances from means[n] where there are means.
#define RNN_DEFINE_TOTALS(N)                                                                       \
    static void rnn_totals##N(const rnn_frame *frame, const float *input, const float *product,    \
                              int before, int64_t row, const float *means, rnn_f *totals)          \
    {                                                                                              \
        const rnn_phase *phase = &rnn_phases[N];                                                   \
        for (int64_t unit = 0; unit < phase->size; unit += RNN_LANES) {                            \
            rnn_point point;                                                                       \
            rnn_f member[RNN_MEMBERS + 1];                                                         \
            rnn_gather(frame, phase, input, product, before, row, unit, &point);                   \
            rnn_members##N(point.input, point.product, point.bias, point.recurrent_bias,           \
                           point.parameter, point.state, point.carry_in, member);                  \
            for (int n = 0, at = 0; n < RNN_NORMS; at += phase->norms[n++])                        \
                for (int i = at; i < at + phase->norms[n]; i++) {                                  \
                    const rnn_f apart = member[i] - rnn_const(means ? means[n] : 0);               \
                    totals[n] += rnn_only_units(means ? apart * apart : apart, unit, phase->size); \
                }                                                                                  \
        }                                                                                          \
    }

RNN_NORM_PHASES(RNN_DEFINE_TOTALS)

/// The mean and 1 / sqrt(variance + 1e-5) of a phase's norms for one row, in every lane.
static __attribute__((unused)) void rnn_statistics(const rnn_frame *frame, int number,
                                                   const float *input, const float *product,
                                                   int before, int64_t row, rnn_f *statistic)
{
    const rnn_phase *phase = &rnn_phases[number];
    float means[RNN_NORMS + 1] = {0};
    for (int pass = 0; pass < 2; pass++) {
        rnn_f totals[RNN_NORMS + 1] = {{0}};
        switch (number) {
#define RNN_CASE(N)                                                                                \
    case N:                                                                                        \
        rnn_totals##N(frame, input, product, before, row, pass ? means : NULL, totals);            \
        break;
            RNN_NORM_PHASES(RNN_CASE)
        }
        for (int n = 0; n < RNN_NORMS && phase->norms[n]; n++) {
            const float average = rnn_sum(totals[n]) / (float)(phase->norms[n] * phase->size);
            if (pass == 0)
                statistic[2 * n] = rnn_const(means[n] = average);
            else
                statistic[2 * n + 1] = rnn_const(1) / rnn_sqrt(rnn_const(average + 1e-5f));
        }
    }
}

#define RNN_DEFINE_PHASE(N)                                                                        \
    static void rnn_run_phase##N(rnn_frame *frame, const float *inputs, int64_t rows, int before)  \
    {                                                                                              \
        const rnn_phase *phase = &rnn_phases[N];                                                   \
        if (phase->gates > 0)                                                                      \
            rnn_phase_product(frame, N, rows, before);                                             \
        for (int64_t row = 0; row < rows; row++) {                                                 \
            const float *input = inputs + row * RNN_INPUT_WIDTH;                                   \
            const float *product = frame->product + row * RNN_PRODUCT_WIDTH;                       \
            rnn_f statistic[2 * RNN_NORMS + 1] = {{0}};                                            \
            if (RNN_NORMS > 0 && phase->norms[0])                                                  \
                rnn_statistics(frame, N, input, product, before, row, statistic);                  \
            for (int64_t unit = 0; unit < phase->size; unit += RNN_LANES) {                        \
                rnn_point point;                                                                   \
                rnn_gather(frame, phase, input, product, before, row, unit, &point);               \
                rnn_phase##N(point.input, point.product, point.bias, point.recurrent_bias,         \
                             point.parameter, point.state, point.carry_in, statistic,              \
                             point.carry_out, point.state_out);                                    \
                rnn_scatter(frame, phase, before, row, unit, &point);                              \
            }                                                                                      \
        }                                                                                          \
    }

RNN_PHASES(RNN_DEFINE_PHASE)

/// The time of a row's step, and where in y its output goes.
RNN_INLINE int64_t rnn_time(const rnnc_cpu_args *args, int64_t row, int64_t step)
{
    if (args->order)
        return args->order[row * args->timesteps + step];
    return RNN_REVERSED ? args->timesteps - 1 - step : step;
}

RNN_INLINE int64_t rnn_place(const rnnc_cpu_args *args, int64_t row, int64_t step)
{
    const int64_t time = rnn_time(args, row, step);
    const int64_t last = args->rows ? args->rows[row].last : args->timesteps - 1;
    return RNN_GO_BACKWARDS ? last - time : time;
}

/// inputs[step][row] = W * x for `steps` steps from `start` on of the tile's rows, which all take
/// them; the longer side is taken together.
static void rnn_inputs(const rnnc_cpu_args *args, const rnn_frame *frame, const rnn_rows *tile,
                       int64_t start, int64_t steps)
{
    const int64_t rows = tile->count, step_width = rows * RNN_INPUT_WIDTH;
    const float *x = (const float *)args->x + tile->row[0] * args->x_row_stride +
                     rnn_time(args, tile->row[0], start) * args->x_step_stride;
    const int64_t step_stride = frame->ahead.x_stride;
    if (steps >= rows)
        for (int64_t row = 0; row < rows; row++)
            rnn_product(frame->packed, RNN_INPUT_PANELS, RNN_INPUTS, x + row * args->x_row_stride,
                        step_stride, frame->inputs + row * RNN_INPUT_WIDTH, step_width, steps, 0);
    else
        for (int64_t step = 0; step < steps; step++)
            rnn_product(frame->packed, RNN_INPUT_PANELS, RNN_INPUTS, x + step * step_stride,
                        args->x_row_stride, frame->inputs + step * step_width, RNN_INPUT_WIDTH,
                        rows, 0);
}

/// The same where each row has its own order: the x of a step are brought together first.
static void rnn_inputs_in_order(const rnnc_cpu_args *args, const rnn_frame *frame,
                                const rnn_rows *tile, int64_t start, int64_t steps)
{
    for (int64_t step = start; step < start + steps; step++) {
        int64_t rows = 0;
        for (; rows < tile->count && tile->steps[rows] > step; rows++)
            memcpy(frame->gathered + rows * RNN_GATHER_STRIDE,
                   (const float *)args->x + tile->row[rows] * args->x_row_stride +
                       rnn_time(args, tile->row[rows], step) * args->x_step_stride,
                   sizeof(float) * RNN_INPUTS);
        rnn_product(frame->packed, RNN_INPUT_PANELS, RNN_INPUTS, frame->gathered, RNN_GATHER_STRIDE,
                    frame->inputs + (step - start) * tile->count * RNN_INPUT_WIDTH, RNN_INPUT_WIDTH,
                    rows, 0);
    }
}

/// Copies the states of row `at` of the tile in or out.
RNN_INLINE void rnn_copy_states(const rnnc_cpu_args *args, const rnn_frame *frame,
                                const rnn_rows *tile, int64_t at, int turn, int out)
{
    for (int i = 0; i < RNN_STATES; i++) {
        float *theirs = args->states[i] + tile->row[at] * rnn_state_sizes[i];
        float *ours = frame->states[turn][i] + at * RNN_PADDED(rnn_state_sizes[i]);
        memcpy(out ? theirs : ours, out ? ours : theirs, (size_t)rnn_state_sizes[i] * 4);
    }
}

RNN_INLINE void rnn_output(const rnnc_cpu_args *args, const rnn_frame *frame, const rnn_rows *tile,
                           int64_t at, int turn, int64_t place)
{
    memcpy(args->y + tile->row[at] * args->y_row_stride + place * args->y_step_stride,
           frame->states[turn][0] + at * RNN_PADDED(RNN_OUTPUTS), sizeof(float) * RNN_OUTPUTS);
}

#if RNN_TRAINING
#include "cpu/cell_saving.h"
#else
#define RNN_SAVES(args) 0
#define rnn_save_step(args, frame, tile, inputs, step, before) (void)0
#define rnn_save_end(args, frame, tile, at, step, turn) (void)0
#endif

/// One step of the rows under way: the phases, the outputs, and the end of rows that have no more.
/// Returns the turn of the new states.
RNN_INLINE int rnn_step(const rnnc_cpu_args *args, rnn_frame *frame, rnn_rows *tile,
                        const float *inputs, int64_t step, int before)
{
    const int64_t rows = tile->count;
#define RNN_RUN_PHASE(N) rnn_run_phase##N(frame, inputs, rows, before);
    if (RNN_SAVES(args)) {
        rnn_save_step(args, frame, tile, inputs, step, before);
    } else {
        RNN_PHASES(RNN_RUN_PHASE)
    }
    for (int64_t at = 0; at < rows && RNN_SEQUENCE_OUT; at++)
        rnn_output(args, frame, tile, at, !before, rnn_place(args, tile->row[at], step));
    while (tile->count > 0 && tile->steps[tile->count - 1] == step + 1) {
        tile->count--;
        rnn_copy_states(args, frame, tile, tile->count, !before, 1);
        if (RNN_SAVES(args))
            rnn_save_end(args, frame, tile, tile->count, step + 1, !before);
        if (!RNN_SEQUENCE_OUT)
            rnn_output(args, frame, tile, tile->count, !before, 0);
    }
    return !before;
}

/// A tile of rows, W*x of a chunk of steps at a time.
static void rnn_run_rows(const rnnc_cpu_args *args, rnn_frame *frame, rnn_rows *tile)
{
    const int64_t total = tile->steps[0];
    int turn = 0;
    for (int64_t start = 0, chunk; start < total; start += chunk) {
        const int64_t rows = tile->count;
        chunk = RNN_CHUNK_ROWS / rows;
        const int64_t steps = total - start < chunk ? total - start : chunk;
        if (RNN_GATES > 0 && args->order)
            rnn_inputs_in_order(args, frame, tile, start, steps);
        else if (RNN_GATES > 0)
            rnn_inputs(args, frame, tile, start, steps);
        for (int64_t step = 0; step < steps; step++)
            turn = rnn_step(args, frame, tile, frame->inputs + step * rows * RNN_INPUT_WIDTH,
                            start + step, turn);
    }
}

/// One row that takes every step, W*x of RNN_TILE_ROWS steps at a time, in two buffers by turns.
/// The last chunk's tile ends with the last step: where fewer steps are left it takes some again
/// that are done.
static void rnn_run_one(const rnnc_cpu_args *args, rnn_frame *frame, rnn_rows *tile)
{
    const int64_t chunk = RNN_TILE_ROWS, timesteps = args->timesteps;
    const float *x = (const float *)args->x + tile->row[0] * args->x_row_stride +
                     rnn_time(args, tile->row[0], 0) * args->x_step_stride;
    float *inputs[2] = {frame->inputs, frame->inputs + chunk * RNN_INPUT_WIDTH};
    const float *now = frame->inputs;
    int turn = 0;
    rnn_inputs(args, frame, tile, 0, timesteps < chunk ? timesteps : chunk);
    for (int64_t start = 0; start < timesteps; start += chunk) {
        const int64_t left = timesteps - start, after = left - chunk;
        const int64_t again = after < chunk ? chunk - after : 0;
        frame->ahead.x = x + (start + chunk - again) * frame->ahead.x_stride;
        frame->ahead.y = inputs[!(start / chunk % 2)];
        frame->ahead.next = 0;
        frame->ahead.count = after > 0 ? 2 * RNN_INPUT_PANELS : 0;
        for (int64_t step = 0; step < chunk && step < left; step++)
            turn = rnn_step(args, frame, tile, now + step * RNN_INPUT_WIDTH, start + step, turn);
        rnn_ahead_finish(&frame->ahead);
        now = frame->ahead.y + again * RNN_INPUT_WIDTH;
    }
}

/// Rows `first` and on of the batch, those with the most steps first.
RNN_INLINE void rnn_sort_rows(const rnnc_cpu_args *args, int64_t first, int64_t rows,
                              rnn_rows *tile)
{
    tile->count = 0;
    for (int64_t row = first; row < first + rows; row++) {
        const int64_t steps = args->rows ? args->rows[row].steps : args->timesteps;
        int64_t at = tile->count++;
        for (; at > 0 && tile->steps[at - 1] < steps; at--) {
            tile->steps[at] = tile->steps[at - 1];
            tile->row[at] = tile->row[at - 1];
        }
        tile->steps[at] = steps;
        tile->row[at] = row;
    }
    while (tile->count > 0 && tile->steps[tile->count - 1] == 0)
        tile->count--;
}

static void rnn_run_tile(const rnnc_cpu_args *args, int64_t first, int64_t rows)
{
    rnn_frame frame;
    rnn_rows tile;
    rnn_frame_lay_out(args, &frame);
    rnn_sort_rows(args, first, rows, &tile);
    if (tile.count == 0)
        return;
    for (int64_t at = 0; at < tile.count; at++) {
        rnn_copy_states(args, &frame, &tile, at, 0, 0);
        for (int64_t unit = 0; unit < RNN_OPERAND_UNITS && RNN_RECURRENT_DROPOUT; unit++)
            frame.scales[at * RNN_PADDED(RNN_OPERAND_UNITS) + unit] =
                args->recurrent_scale[tile.row[at] * RNN_OPERAND_UNITS + unit];
    }
    if (tile.count == 1 && RNN_GATES > 0 && RNN_PANEL == 4 && !args->order)
        rnn_run_one(args, &frame, &tile);
    else
        rnn_run_rows(args, &frame, &tile);
}

static void rnn_run(const rnnc_cpu_args *args)
{
    for (int64_t first = 0; first < args->batch; first += RNN_TILE)
        rnn_run_tile(args, first, args->batch - first < RNN_TILE ? args->batch - first : RNN_TILE);
}

static void rnn_fold(const void *packed, const float *x, int64_t tokens, float *table)
{
    rnn_product(packed, RNN_INPUT_PANELS, RNN_INPUTS, x, RNN_INPUTS, table, RNN_INPUT_WIDTH, tokens,
                0);
}

/// W*x of a tile's one step: looked up, or as in a run. One row's stays where it is.
static const float *rnn_step_inputs(const rnnc_cpu_args *args, const rnn_frame *frame,
                                    const rnn_rows *tile, const float *table)
{
    const int32_t *tokens = args->x;
    if (table && tile->count == 1)
        return table + tokens[tile->row[0] * args->x_row_stride] * (int64_t)RNN_INPUT_WIDTH;
    for (int64_t at = 0; at < tile->count && table; at++)
        memcpy(frame->inputs + at * RNN_INPUT_WIDTH,
               table + tokens[tile->row[at] * args->x_row_stride] * (int64_t)RNN_INPUT_WIDTH,
               sizeof(float) * RNN_INPUT_WIDTH);
    if (!table && RNN_GATES > 0)
        rnn_inputs(args, frame, tile, 0, 1);
    return frame->inputs;
}

static void rnn_run_step(const rnnc_cpu_args *args, const float *table, int turn)
{
    for (int64_t first = 0; first < args->batch; first += RNN_TILE) {
        rnn_frame frame;
        rnn_rows tile;
        rnn_frame_lay_out(args, &frame);
        rnn_sort_rows(args, first, args->batch - first < RNN_TILE ? args->batch - first : RNN_TILE,
                      &tile);
        for (int64_t at = 0; at < tile.count; at++)
            rnn_copy_states(args, &frame, &tile, at, turn, 0);
        rnn_step(args, &frame, &tile, rnn_step_inputs(args, &frame, &tile, table), 0, turn);
    }
}

#if RNN_TRAINING
#include "cpu/cell_backward.c"
#endif

RNN_DEFINE_CODE_WITH(RNN_PACKED_FLOATS, .table_floats = RNN_GATES > 0 ? RNN_INPUT_WIDTH : 0,
                     .fold = rnn_fold, .step = rnn_run_step)
