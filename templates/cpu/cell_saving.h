// Saving: the step of a cell in training, which leaves on the tape what the backward step needs.
// The tape of a layer:
//
//     states   [T + 1, B, size]   each saved state, before every step and after a row's last one
//     records  [T, B, RNN_RECORD_FLOATS]   saved vectors, then mean and rstd of every norm
//
// by the number of the step in the row's own order, each vector padded to whole lanes.
#ifndef RNN_CELL_SAVING_H
#define RNN_CELL_SAVING_H

#include "prim/philox.h"

static const int64_t rnn_saved_sizes[] = {RNN_SAVED_SIZES};
static const int rnn_saved_phases[] = {RNN_SAVED_PHASES};
static const int rnn_phase_norms[][4] = {RNN_PHASE_NORMS}; // numbers in the cell, by phase

/// Vectors are read as wide as the widest, whatever their size.
#define RNN_WIDEST RNN_PADDED(RNN_UNITS > RNN_OPERAND_UNITS ? RNN_UNITS : RNN_OPERAND_UNITS)
#define RNN_STATISTIC_FLOATS RNN_PADDED(2 * RNN_CELL_NORMS)
#define RNN_RECORD_FLOATS ((RNN_SAVED_FLOATS) + RNN_STATISTIC_FLOATS)
#define RNN_SAVES(args) ((args)->tape != 0)

static size_t rnn_tape_bytes(int64_t batch, int64_t timesteps)
{
    int64_t floats = timesteps * RNN_RECORD_FLOATS;
    for (int i = 0; i < RNN_STATES; i++)
        if (RNN_STATES_SAVED >> i & 1)
            floats += (timesteps + 1) * RNN_PADDED(rnn_state_sizes[i]);
    return sizeof(float) * (size_t)(batch * floats + RNN_WIDEST);
}

RNN_INLINE float *rnn_record(const rnnc_cpu_args *args, int64_t step, int64_t row)
{
    return (float *)args->tape + (step * args->batch + row) * RNN_RECORD_FLOATS;
}

/// State `index` of a row before step `step`.
RNN_INLINE float *rnn_saved_state(const rnnc_cpu_args *args, int index, int64_t step, int64_t row)
{
    float *at = (float *)args->tape + args->timesteps * args->batch * RNN_RECORD_FLOATS;
    for (int i = 0; i < index; i++)
        if (RNN_STATES_SAVED >> i & 1)
            at += (args->timesteps + 1) * args->batch * RNN_PADDED(rnn_state_sizes[i]);
    return at + (step * args->batch + row) * RNN_PADDED(rnn_state_sizes[index]);
}

/// Where vector `index` of a record starts.
RNN_INLINE int64_t rnn_saved_at(int index)
{
    int64_t at = 0;
    for (int i = 0; i < index; i++)
        at += RNN_PADDED(rnn_saved_sizes[i]);
    return at;
}

/// Draws for one row and step which units keep their values: 1 for those that do.
static __attribute__((unused)) void rnn_draw_zoneout(const rnnc_cpu_args *args, int64_t row,
                                                     int64_t time, int state, float *draws)
{
    static const float rates[] = {RNN_ZONEOUT_RATES};
    const rnn_dropout draw = rnn_dropout_make(
        args->seed, rnn_zoneout_stream(RNN_DROPOUT_INDEX, (unsigned)state), rates[state]);
    for (int64_t unit = 0; unit < rnn_state_sizes[state]; unit++)
        draws[unit] = rnn_dropout_scale(&draw, (unsigned)unit, (unsigned)row, (unsigned)time) == 0;
}

#define RNN_DEFINE_SAVING(N)                                                                       \
    static void rnn_run_saving##N(const rnnc_cpu_args *args, rnn_frame *frame,                     \
                                  const rnn_rows *tile, const float *inputs, int64_t step,         \
                                  int before)                                                      \
    {                                                                                              \
        const rnn_phase *phase = &rnn_phases[N];                                                   \
        if (phase->gates > 0)                                                                      \
            rnn_phase_product(frame, N, tile->count, before);                                      \
        for (int64_t row = 0; row < tile->count; row++) {                                          \
            const float *input = inputs + row * RNN_INPUT_WIDTH;                                   \
            const float *product = frame->product + row * RNN_PRODUCT_WIDTH;                       \
            float *record = rnn_record(args, step, tile->row[row]);                                \
            rnn_f statistic[2 * RNN_NORMS + 1] = {{0}};                                            \
            if (RNN_NORMS > 0 && phase->norms[0])                                                  \
                rnn_statistics(frame, N, input, product, before, row, statistic);                  \
            for (int i = 0; i < RNN_NORMS && phase->norms[i]; i++)                                 \
                for (int k = 0; k < 2; k++)                                                        \
                    record[(RNN_SAVED_FLOATS) + 2 * rnn_phase_norms[N][i] + k] =                   \
                        statistic[2 * i + k][0];                                                   \
            for (int64_t unit = 0; unit < phase->size; unit += RNN_LANES) {                        \
                rnn_point point;                                                                   \
                rnn_f draw[RNN_STATES], saved[RNN_SAVED + 1];                                      \
                rnn_gather(frame, phase, input, product, before, row, unit, &point);               \
                RNN_UNROLL for (int i = 0; i < RNN_STATES && RNN_ZONEOUT; i++) draw[i] =           \
                    rnn_load(frame->draws[i] + row * RNN_PADDED(rnn_state_sizes[i]) + unit);       \
                rnn_saving##N(point.input, point.product, point.bias, point.recurrent_bias,        \
                              point.parameter, point.state, point.carry_in, statistic, draw,       \
                              point.carry_out, point.state_out, saved);                            \
                rnn_scatter(frame, phase, before, row, unit, &point);                              \
                RNN_UNROLL for (int i = 0; i < RNN_SAVED; i++) if (rnn_saved_phases[i] == N)       \
                    rnn_store(record + rnn_saved_at(i) + unit, saved[i]);                          \
            }                                                                                      \
        }                                                                                          \
    }

RNN_PHASES(RNN_DEFINE_SAVING)

RNN_INLINE void rnn_save_states(const rnnc_cpu_args *args, const rnn_frame *frame,
                                const rnn_rows *tile, int64_t at, int64_t step, int turn)
{
    for (int i = 0; i < RNN_STATES; i++)
        if (RNN_STATES_SAVED >> i & 1)
            memcpy(rnn_saved_state(args, i, step, tile->row[at]),
                   frame->states[turn][i] + at * RNN_PADDED(rnn_state_sizes[i]),
                   sizeof(float) * (size_t)RNN_PADDED(rnn_state_sizes[i]));
}

/// The phases of one step of the rows under way.
static void rnn_save_step(const rnnc_cpu_args *args, rnn_frame *frame, const rnn_rows *tile,
                          const float *inputs, int64_t step, int before)
{
    for (int64_t at = 0; at < tile->count; at++) {
        rnn_save_states(args, frame, tile, at, step, before);
        for (int i = 0; i < RNN_STATES && RNN_ZONEOUT; i++)
            rnn_draw_zoneout(args, tile->row[at], rnn_time(args, tile->row[at], step), i,
                             frame->draws[i] + at * RNN_PADDED(rnn_state_sizes[i]));
    }
#define RNN_RUN_SAVING(N) rnn_run_saving##N(args, frame, tile, inputs, step, before);
    RNN_PHASES(RNN_RUN_SAVING)
}

/// The states of a row after its last step.
#define rnn_save_end rnn_save_states

#endif
