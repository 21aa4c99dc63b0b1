// Cell on the CPU: a recurrent layer of any cell, specialised by the RNN_* numbers and the
// generated functions rnn_phase0, rnn_phase1, ... that stand before this file.
//
// Rows of the batch are taken RNN_TILE at a time, each tile through all its time steps:
//
//     for tiles of rows                      states -> scratch
//         for chunks of steps                inputs[step][row] = W * x       (one product, many
//         rows)
//             for steps
//                 for phases                 product[row] = R * operand[row]
//                                            pointwise over vectors of units
//                 y[row][step] = first state
//                                            scratch -> states
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
    int heads;                        // diagonal blocks of the matrix
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

typedef struct {
    const float *packed;
    float *inputs, *product;
    float *states[2][RNN_STATES]; // before and after the step, by turns
    float *carries[RNN_CARRIES + 1];
    rnn_ahead ahead; // W*x of later steps, for a single row
} rnn_frame;

typedef struct {
    rnn_f input[RNN_GATES + 1], product[RNNC_GATES_MAX], bias[RNN_BIASES + 1];
    rnn_f recurrent_bias[RNN_RECURRENT_BIASES + 1], parameter[RNN_PARAMETERS + 1];
    rnn_f state[RNN_STATES], carry_in[RNN_CARRIES + 1];
    rnn_f statistic[2 * RNN_NORMS + 1];
    rnn_f state_out[RNN_STATES], carry_out[RNN_CARRIES + 1];
} rnn_point;

RNN_INLINE int64_t rnn_phase_floats(int phase)
{
    return RNN_MATRIX_FLOATS(rnn_phases[phase].gates * RNN_PADDED(rnn_phases[phase].size),
                             rnn_phases[phase].depth);
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
           (size_t)((int64_t)RNN_CHUNK_ROWS * RNN_INPUT_WIDTH +
                    RNN_TILE * (RNN_PRODUCT_WIDTH + 2 * (RNN_STATE_FLOATS) + RNN_CARRY_FLOATS));
}

static void rnn_pack_weights(const float *const weights[RNNC_WEIGHT_COUNT], void *memory)
{
    static const int in_order[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    float *packed = memory;
    memset(packed, 0, sizeof(float) * (size_t)(RNN_PACKED_FLOATS));
    rnn_pack(weights[RNNC_WEIGHT_W], in_order, RNN_GATES, RNN_UNITS, RNN_INPUTS, packed);
    for (int i = 0; i < RNN_PHASE_COUNT; i++)
        rnn_pack(weights[rnn_phases[i].matrix], rnn_phases[i].rows, rnn_phases[i].gates,
                 rnn_phases[i].size, rnn_phases[i].depth, packed + rnn_phase_at(i));
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
        (rnn_ahead){.matrix = frame->packed, .depth = RNN_INPUTS, .width = RNN_INPUT_WIDTH};
    frame->inputs = at;
    at += (int64_t)RNN_CHUNK_ROWS * RNN_INPUT_WIDTH;
    frame->product = at;
    at += RNN_TILE * RNN_PRODUCT_WIDTH;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < RNN_STATES; i++) {
            frame->states[turn][i] = at;
            at += RNN_TILE * RNN_PADDED(rnn_state_sizes[i]);
        }
    for (int i = 0; i < RNN_CARRIES; i++) {
        frame->carries[i] = at;
        at += RNN_TILE * RNN_PADDED(rnn_carry_sizes[i]);
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

RNN_INLINE void rnn_phase_product(rnn_frame *frame, int number, int64_t rows, int before)
{
    const rnn_phase *phase = &rnn_phases[number];
    const float *matrix = frame->packed + rnn_phase_at(number);
    const float *operand = phase->operand_is_state ? frame->states[before][phase->operand]
                                                   : frame->carries[phase->operand];
    const int64_t panels = RNN_PANELS(phase->gates * RNN_PADDED(phase->size));
    if (rows == 1 && frame->ahead.count)
        rnn_product_row_ahead(matrix, panels, phase->depth, operand, frame->product, before,
                              &frame->ahead);
    else
        rnn_product(matrix, panels, phase->depth, operand, RNN_PADDED(phase->depth), frame->product,
                    RNN_PRODUCT_WIDTH, rows, before);
}

#define RNN_DEFINE_PHASE(N)                                                                        \
    static void rnn_run_phase##N(rnn_frame *frame, const float *inputs, int64_t rows, int before)  \
    {                                                                                              \
        const rnn_phase *phase = &rnn_phases[N];                                                   \
        if (phase->gates > 0)                                                                      \
            rnn_phase_product(frame, N, rows, before);                                             \
        for (int64_t row = 0; row < rows; row++)                                                   \
            for (int64_t unit = 0; unit < phase->size; unit += RNN_LANES) {                        \
                rnn_point point;                                                                   \
                rnn_gather(frame, phase, inputs + row * RNN_INPUT_WIDTH,                           \
                           frame->product + row * RNN_PRODUCT_WIDTH, before, row, unit, &point);   \
                rnn_phase##N(point.input, point.product, point.bias, point.recurrent_bias,         \
                             point.parameter, point.state, point.carry_in, point.statistic,        \
                             point.carry_out, point.state_out);                                    \
                rnn_scatter(frame, phase, before, row, unit, &point);                              \
            }                                                                                      \
    }

RNN_PHASES(RNN_DEFINE_PHASE)

/// inputs[step][row] = W * x for `steps` steps of `rows` rows, the longer side taken together.
static void rnn_inputs(const rnn_frame *frame, const float *x, int64_t rows, int64_t steps,
                       int64_t timesteps)
{
    const int64_t row_stride = timesteps * RNN_INPUTS;
    const int64_t step_width = rows * RNN_INPUT_WIDTH;
    if (steps >= rows)
        for (int64_t row = 0; row < rows; row++)
            rnn_product(frame->packed, RNN_INPUT_PANELS, RNN_INPUTS, x + row * row_stride,
                        RNN_INPUTS, frame->inputs + row * RNN_INPUT_WIDTH, step_width, steps, 0);
    else
        for (int64_t step = 0; step < steps; step++)
            rnn_product(frame->packed, RNN_INPUT_PANELS, RNN_INPUTS, x + step * RNN_INPUTS,
                        row_stride, frame->inputs + step * step_width, RNN_INPUT_WIDTH, rows, 0);
}

static void rnn_states_copy(const rnnc_cpu_args *args, const rnn_frame *frame, int64_t first,
                            int64_t rows, int turn, int out)
{
    for (int i = 0; i < RNN_STATES; i++)
        for (int64_t row = 0; row < rows; row++) {
            float *theirs = args->states[i] + (first + row) * rnn_state_sizes[i];
            float *ours = frame->states[turn][i] + row * RNN_PADDED(rnn_state_sizes[i]);
            memcpy(out ? theirs : ours, out ? ours : theirs, (size_t)rnn_state_sizes[i] * 4);
        }
}

static void rnn_output(const rnn_frame *frame, int turn, int64_t rows, float *y, int64_t stride)
{
    for (int64_t row = 0; row < rows; row++)
        memcpy(y + row * stride, frame->states[turn][0] + row * RNN_PADDED(RNN_OUTPUTS),
               sizeof(float) * RNN_OUTPUTS);
}

/// One step of `rows` rows: the phases, then the output. Returns the turn of the new states.
RNN_INLINE int rnn_step(rnn_frame *frame, const float *inputs, int64_t rows, int before, float *y,
                        int64_t timesteps)
{
#define RNN_RUN_PHASE(N) rnn_run_phase##N(frame, inputs, rows, before);
    RNN_PHASES(RNN_RUN_PHASE)
    if (RNN_SEQUENCE_OUT)
        rnn_output(frame, !before, rows, y, timesteps * RNN_OUTPUTS);
    return !before;
}

/// A tile of rows, W*x of a chunk of steps at a time.
static int rnn_run_rows(rnn_frame *frame, const float *x, float *y, int64_t rows, int64_t timesteps)
{
    const int64_t chunk = RNN_CHUNK_ROWS / rows;
    int turn = 0;
    for (int64_t start = 0; start < timesteps; start += chunk) {
        int64_t steps = timesteps - start < chunk ? timesteps - start : chunk;
        if (RNN_GATES > 0)
            rnn_inputs(frame, x + start * RNN_INPUTS, rows, steps, timesteps);
        for (int64_t step = 0; step < steps; step++)
            turn = rnn_step(frame, frame->inputs + step * rows * RNN_INPUT_WIDTH, rows, turn,
                            y + (start + step) * RNN_OUTPUTS, timesteps);
    }
    return turn;
}

/// One row, W*x of RNN_TILE_ROWS steps at a time, in two buffers by turns. The last chunk's tile
/// ends with the last step: where fewer steps are left it takes some again that are done.
static int rnn_run_one(rnn_frame *frame, const float *x, float *y, int64_t timesteps)
{
    const int64_t chunk = RNN_TILE_ROWS;
    float *inputs[2] = {frame->inputs, frame->inputs + chunk * RNN_INPUT_WIDTH};
    const float *now = frame->inputs;
    int turn = 0;
    rnn_inputs(frame, x, 1, timesteps < chunk ? timesteps : chunk, timesteps);
    for (int64_t start = 0; start < timesteps; start += chunk) {
        const int64_t left = timesteps - start, after = left - chunk;
        const int64_t again = after < chunk ? chunk - after : 0;
        frame->ahead.x = x + (start + chunk - again) * RNN_INPUTS;
        frame->ahead.y = inputs[!(start / chunk % 2)];
        frame->ahead.next = 0;
        frame->ahead.count = after > 0 ? 2 * RNN_INPUT_PANELS : 0;
        for (int64_t step = 0; step < chunk && step < left; step++)
            turn = rnn_step(frame, now + step * RNN_INPUT_WIDTH, 1, turn,
                            y + (start + step) * RNN_OUTPUTS, timesteps);
        rnn_ahead_finish(&frame->ahead);
        now = frame->ahead.y + again * RNN_INPUT_WIDTH;
    }
    return turn;
}

static void rnn_run_tile(const rnnc_cpu_args *args, int64_t first, int64_t rows)
{
    const int64_t timesteps = args->timesteps;
    const float *x = (const float *)args->x + first * timesteps * RNN_INPUTS;
    float *y = args->y + first * (RNN_SEQUENCE_OUT ? timesteps : 1) * RNN_OUTPUTS;
    rnn_frame frame;
    rnn_frame_lay_out(args, &frame);
    rnn_states_copy(args, &frame, first, rows, 0, 0);
    int turn = rows == 1 && RNN_GATES > 0 && RNN_PANEL == 4
                   ? rnn_run_one(&frame, x, y, timesteps)
                   : rnn_run_rows(&frame, x, y, rows, timesteps);
    if (!RNN_SEQUENCE_OUT)
        rnn_output(&frame, turn, rows, y, RNN_OUTPUTS);
    rnn_states_copy(args, &frame, first, rows, turn, 1);
}

static void rnn_run(const rnnc_cpu_args *args)
{
    for (int64_t first = 0; first < args->batch; first += RNN_TILE)
        rnn_run_tile(args, first, args->batch - first < RNN_TILE ? args->batch - first : RNN_TILE);
}

RNN_DEFINE_CODE(RNN_PACKED_FLOATS)
