// The backward pass of a layer in one launch, for train_cluster.cu: the CTAs of a thread-block
// cluster share the transposed matrices and RNN_BACK_ROWS rows of the batch, and go through the
// steps from the last to the first.
//
// A CTA owns units of every vector, as in cluster_product.cuh: those of a warp's groups of 8, lane
// l unit l/4 of the group and rows 2*(l%4) and 2*(l%4) + 1. What it multiplies are the deltas of
// its own units, its part of K, with all that they return to: a CTA's product has parts for all
// CTAs, which go there by distributed shared memory and are added up in the order of the CTAs.
//
//     step:  wait for what products return | stage: pointwise | deltas to operands in shared memory
//            (16-bit, scaled by a power of two for each row) | mma with R^T, in registers
//            (RNN_BACK_HELD fragments) and shared memory | sums to the CTAs that own them
//            | deltas to device memory, what the step before needs from there to registers
//
// float16 and tf32 multiply float16, float32 both parts of it (prim/halves.cuh), bfloat16 itself.
//
// How operands and what products return are laid out and exchanged: back_product.cuh.
#ifndef RNN_CLUSTER_GRADIENT_CUH
#define RNN_CLUSTER_GRADIENT_CUH

#include "cuda/back_product.cuh"

/// Starts the loads of what step `step` needs; times of the step before it.
RNN_INLINE void rnn_back_load(const RnnBackRun &run, RnnBackThread &self, int step)
{
    if (step < 0)
        return;
#pragma unroll
    for (int n = 0; n < RNN_BACK_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int in_group = rnn_back_row(self, n, e), steps = self.steps[n][e];
            const long long row = self.first_row + in_group, line = step * run.at.batch + row;
            const int time = run.at.order   ? self.time[n][e]
                             : RNN_REVERSED ? self.last[n][e] - step
                                            : step;
            const float *dy =
                run.dy + row * run.dy_row_stride +
                (RNN_SEQUENCE_OUT
                     ? (RNN_GO_BACKWARDS ? self.last[n][e] - time : time) * run.dy_step_stride
                     : 0);
            const bool has_dy = RNN_SEQUENCE_OUT ? step < steps : step + 1 == steps;
#pragma unroll
            for (int g = 0; g < rnn_back_groups_most; g++) {
                RnnTape &tape = self.tape[rnn_back_item(g, n, e)];
#pragma unroll
                for (int i = 0; i < RNN_SAVED; i++) {
                    const int size = rnn_saved_sizes[i];
                    const bool owned = step < steps && rnn_back_owns(self, size, g, in_group);
                    tape.saved[i] = owned ? run.saved[line * RNN_SAVED_STRIDE +
                                                      rnn_sum_sizes(rnn_saved_sizes, i) +
                                                      rnn_back_unit(self, size, g)]
                                          : 0.0f;
                }
#pragma unroll
                for (int s = 0; s < RNN_STATES; s++) {
                    const int size = rnn_state_sizes[s];
                    const bool owned =
                        (RNN_STATES_SAVED >> s & 1) && rnn_back_owns(self, size, g, in_group);
                    tape.state[s] =
                        owned ? run.states[s][line * size + rnn_back_unit(self, size, g)] : 0.0f;
                }
                tape.dy = has_dy && rnn_back_owns(self, RNN_OUTPUTS, g, in_group)
                              ? dy[rnn_back_unit(self, RNN_OUTPUTS, g)]
                              : 0.0f;
            }
            if (run.at.order && step > 0 && step <= steps)
                self.time[n][e] = __ldg(run.at.order + row * run.at.timesteps + step - 1);
        }
}

/// The pointwise part of a stage for all items: deltas, and adjoints before the step.
template <int Stage>
RNN_INLINE void rnn_back_pointwise(const RnnBackRun &run, const RnnBackThread &self, int step,
                                   const float (&seeds)[rnn_back_item_count][RNN_SEEDS],
                                   float (&deltas)[rnn_back_item_count][RNN_SOME(RNN_DELTAS)],
                                   float (&adjoints)[rnn_back_item_count][RNN_STATES])
{
    constexpr RnnStage stage = rnn_stages[Stage];
#pragma unroll
    for (int i = 0; i < rnn_back_groups(stage.size) * RNN_BACK_TILES * 2; i++) {
        const int group = i / (2 * RNN_BACK_TILES), n = i / 2 % RNN_BACK_TILES;
        const bool takes = step < self.steps[n][i % 2];
        float draw[RNN_STATES] = {}, delta[RNN_SOME(RNN_DELTAS)] = {}, adjoint[RNN_STATES] = {};
        if (RNN_ZONEOUT && takes) {
            const long long row = self.first_row + rnn_back_row(self, n, i % 2);
            const int last = self.last[n][i % 2];
            const long long time = run.at.order
                                       ? __ldg(run.at.order + row * run.at.timesteps + step)
                                       : (RNN_REVERSED ? last - step : step);
            rnn_draw_zoneout(run.at.seed, row, time, rnn_back_unit(self, stage.size, group), draw);
        }
        const RnnTape &tape = self.tape[i];
        rnn_backward<Stage>(self.vectors[group], tape.state, self.next[i], tape.saved, nullptr,
                            draw, seeds[i], delta, adjoint);
#pragma unroll
        for (int d = 0; d < RNN_DELTAS; d++)
            if (rnn_delta_stages[d] == Stage)
                deltas[i][d] = takes ? delta[d] : 0.0f;
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++)
            if (stage.states >> s & 1)
                adjoints[i][s] = takes ? adjoint[s] : seeds[i][s];
    }
}

/// The product that goes back through the phase of a stage.
template <int Stage>
RNN_INLINE void rnn_back_return(const RnnBackThread &self, unsigned turn,
                                const float (&deltas)[rnn_back_item_count][RNN_SOME(RNN_DELTAS)])
{
    constexpr RnnStage stage = rnn_stages[Stage];
    constexpr RnnPhase phase = rnn_phases[stage.phase];
    constexpr int groups = rnn_back_groups(phase.size), count = phase.row_count * groups;
    float values[count][RNN_BACK_TILES][2];
    int exponents[RNN_BACK_TILES][2] = {};
#pragma unroll
    for (int i = 0; i < count * RNN_BACK_TILES * 2; i++) {
        const int gate = i / (2 * RNN_BACK_TILES) / groups;
        const int group = i / (2 * RNN_BACK_TILES) % groups, n = i / 2 % RNN_BACK_TILES;
        // What lies beyond the ends meets weights of 0, and must be finite.
        values[i / (2 * RNN_BACK_TILES)][n][i % 2] =
            rnn_back_unit(self, phase.size, group) < phase.size
                ? deltas[rnn_back_item(group, n, i % 2)][stage.first_delta + gate]
                : 0.0f;
    }
    if (RNN_BACK_SCALED)
        rnn_back_ranges(self, values, exponents);
    rnn_back_put<stage.phase>(self, values, exponents);
    __syncthreads();
    rnn_back_multiply<stage.phase, 0>(self, turn, exponents);
}

/// Stages Stage, Stage + 1, ... of a step.
template <int Stage>
RNN_INLINE void rnn_back_stages(const RnnBackRun &run, RnnBackThread &self, int step, unsigned turn,
                                float (&seeds)[rnn_back_item_count][RNN_SEEDS],
                                float (&deltas)[rnn_back_item_count][RNN_SOME(RNN_DELTAS)],
                                float (&adjoints)[rnn_back_item_count][RNN_STATES])
{
    if constexpr (Stage < RNN_STAGE_COUNT) {
        constexpr int phase = rnn_stages[Stage].phase;
        rnn_back_pointwise<Stage>(run, self, step, seeds, deltas, adjoints);
        if constexpr (phase >= 0) {
            rnn_back_return<Stage>(self, turn, deltas);
            if constexpr (!rnn_phases[phase].operand_is_state)
                rnn_back_receive<phase>(self, turn, RNN_STATES + phase, seeds);
        }
        rnn_back_stages<Stage + 1>(run, self, step, turn, seeds, deltas, adjoints);
    }
}

/// Adds to the adjoints of states what product `turn` of the phases that multiply them has
/// returned.
template <int Phase, int Seeds>
RNN_INLINE void rnn_back_receive_states(RnnBackThread &self, unsigned turn,
                                        float (&seeds)[rnn_back_item_count][Seeds])
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        constexpr RnnPhase phase = rnn_phases[Phase];
        if constexpr (phase.row_count > 0 && phase.operand_is_state)
            rnn_back_receive<Phase>(self, turn, phase.operand, seeds);
        rnn_back_receive_states<Phase + 1>(self, turn, seeds);
    }
}

RNN_INLINE void rnn_back_store(const RnnBackRun &run, const RnnBackThread &self, int step,
                               const float (&deltas)[rnn_back_item_count][RNN_SOME(RNN_DELTAS)])
{
#pragma unroll
    for (int i = 0; i < rnn_back_item_count; i++) {
        const int group = i / (2 * RNN_BACK_TILES);
        const int row = rnn_back_row(self, i / 2 % RNN_BACK_TILES, i % 2);
        float *to = run.deltas + (step * run.at.batch + self.first_row + row) * RNN_DELTA_STRIDE;
#pragma unroll
        for (int d = 0; d < RNN_DELTAS; d++)
            if (rnn_back_owns(self, rnn_delta_sizes[d], group, row))
                to[rnn_sum_sizes(rnn_delta_sizes, d) +
                   rnn_back_unit(self, rnn_delta_sizes[d], group)] = deltas[i][d];
    }
}

/// One step of a row group; `turn` is that of its products.
RNN_INLINE void rnn_back_step(const RnnBackRun &run, RnnBackThread &self, int step, int steps,
                              unsigned turn)
{
    float seeds[rnn_back_item_count][RNN_SEEDS] = {}, adjoints[rnn_back_item_count][RNN_STATES];
    float deltas[rnn_back_item_count][RNN_SOME(RNN_DELTAS)] = {};
#pragma unroll
    for (int i = 0; i < rnn_back_item_count; i++) {
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++)
            seeds[i][s] = adjoints[i][s] = self.adjoint[i][s];
        seeds[i][0] += self.tape[i].dy;
    }
    if (step + 1 < steps)
        rnn_back_receive_states<0>(self, turn - 1, seeds);
    rnn_back_stages<0>(run, self, step, turn, seeds, deltas, adjoints);
#pragma unroll
    for (int i = 0; i < rnn_back_item_count; i++)
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++) {
            self.adjoint[i][s] = adjoints[i][s];
            self.next[i][s] = self.tape[i].state[s];
        }
    rnn_back_load(run, self, step - 1);
    rnn_back_store(run, self, step, deltas);
}

/// The most steps of the group's rows; those of the thread's own go to `self`.
RNN_INLINE int rnn_back_begin_rows(const RnnBackRun &run, RnnBackThread &self)
{
    int most = run.at.order ? 0 : (int)run.at.timesteps;
    for (int row = 0; run.at.order && row < self.rows; row++) {
        const int steps = run.at.rows[self.first_row + row].steps;
        most = steps > most ? steps : most;
    }
#pragma unroll
    for (int n = 0; n < RNN_BACK_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int row = rnn_back_row(self, n, e);
            const bool has_row = row < self.rows;
            const long long own = self.first_row + row;
            self.steps[n][e] =
                has_row ? run.at.order ? run.at.rows[own].steps : (int)run.at.timesteps : 0;
            self.last[n][e] =
                run.at.order && has_row ? run.at.rows[own].last : (int)run.at.timesteps - 1;
            self.time[n][e] = run.at.order && most > 0 && self.steps[n][e] == most
                                  ? __ldg(run.at.order + own * run.at.timesteps + most - 1)
                                  : 0;
        }
    return most;
}

/// Loads the adjoints of the final states, with the states and factors, or stores those of the
/// initial ones.
RNN_INLINE void rnn_back_exchange(const RnnBackRun &run, RnnBackThread &self, int steps, bool store)
{
#pragma unroll
    for (int i = 0; i < rnn_back_item_count; i++) {
        const int group = i / (2 * RNN_BACK_TILES);
        const int in_group = rnn_back_row(self, i / 2 % RNN_BACK_TILES, i % 2);
        const long long row = self.first_row + in_group;
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++) {
            const int size = rnn_state_sizes[s], unit = rnn_back_unit(self, size, group);
            const bool owned = rnn_back_owns(self, size, group, in_group);
            float *at = run.adjoints[s] + row * size + unit;
            if (store && owned)
                *at = self.stuck ? __int_as_float(0x7fffffff) : self.adjoint[i][s];
            if (store)
                continue;
            self.adjoint[i][s] = owned ? *at : 0.0f;
            self.next[i][s] = owned && (RNN_STATES_SAVED >> s & 1)
                                  ? run.states[s][(steps * run.at.batch + row) * size + unit]
                                  : 0.0f;
        }
        self.scale[i] = 1.0f;
        constexpr int scaled = rnn_scaled_size();
        if (RNN_RECURRENT_DROPOUT && run.at.scale && !store &&
            rnn_back_owns(self, scaled, group, in_group))
            self.scale[i] = __ldg(run.at.scale + row * scaled + rnn_back_unit(self, scaled, group));
    }
}

RNN_INLINE void rnn_back_rows(const RnnBackRun &run, RnnBackThread &self)
{
    const int steps = rnn_back_begin_rows(run, self);
    if (steps == 0)
        return;
    rnn_back_exchange(run, self, steps, false);
    rnn_back_load(run, self, steps - 1);
#pragma unroll 1
    for (int step = steps - 1; step >= 0; step--) {
#pragma unroll
        for (int i = 0; i < rnn_back_held; i++)
            rnn_keep(self.weights[i]);
        rnn_back_step(run, self, step, steps, self.turn + (steps - 1 - step));
    }
    self.turn += (unsigned)steps;
    rnn_back_receive_states<0>(self, self.turn - 1, self.adjoint);
    rnn_back_exchange(run, self, steps, true);
}

/// Arms both barriers of every phase.
template <int Phase> RNN_INLINE void rnn_back_arm(const RnnBackThread &self)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        if constexpr (rnn_phases[Phase].row_count > 0)
            for (unsigned turn = 0; turn < 2; turn++) {
                rnn_barrier_init(rnn_back_barrier<Phase>(self, turn));
                rnn_barrier_expect(rnn_back_barrier<Phase>(self, turn), rnn_back_bytes_of<Phase>);
            }
        rnn_back_arm<Phase + 1>(self);
    }
}

/// What undoes the scales of R's columns, of the thread's units.
template <int Phase>
RNN_INLINE void rnn_back_load_factors(const RnnBackRun &run, RnnBackThread &self)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        constexpr int size = rnn_phases[Phase].operand_size;
        const int *exponents = rnn_back_exponents(run.weights) + rnn_back_columns_at(Phase);
        if constexpr (rnn_phases[Phase].row_count > 0)
#pragma unroll
            for (int g = 0; g < rnn_back_groups(size); g++)
                self.factor[g][Phase] = rnn_range_inverse(exponents[rnn_back_unit(self, size, g)]);
        rnn_back_load_factors<Phase + 1>(run, self);
    }
}

/// Loads weights and vectors, which hold for every row group, and makes the barriers.
RNN_INLINE void rnn_back_begin(const RnnBackRun &run, RnnBackThread &self)
{
    extern __shared__ float4 rnn_shared[];
    self.shared = (char *)rnn_shared;
    self.address = rnn_shared_address(rnn_shared);
    self.cta = rnn_cluster_rank();
    self.warp = threadIdx.x / 32;
    self.lane = threadIdx.x % 32;
    self.stuck = false;
    self.turn = 0;
    uint4 *rest = (uint4 *)(self.shared + rnn_back_rest_at) + threadIdx.x;
    self.rest = rest;
    if (threadIdx.x == 0) {
        rnn_back_arm<0>(self);
        rnn_barriers_ready();
    }
    // Rows beyond RNN_BACK_ROWS are never sent, and read.
    for (int i = RNN_BACK_BARRIER_BYTES / 16 + threadIdx.x; i < rnn_back_largest_at / 16;
         i += RNN_BACK_THREADS)
        rnn_shared[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const uint4 *from = run.weights +
                        (long long)self.cta * rnn_back_fragment_count * RNN_BACK_THREADS +
                        threadIdx.x;
#pragma unroll
    for (int i = 0; i < rnn_back_held; i++)
        self.weights[i] = rnn_load_once(from + i * RNN_BACK_THREADS);
    for (int i = rnn_back_held; i < rnn_back_fragment_count; i++)
        rest[(i - rnn_back_held) * RNN_BACK_THREADS] = from[i * RNN_BACK_THREADS];
    if (RNN_BACK_SCALED)
        rnn_back_load_factors<0>(run, self);
#pragma unroll
    for (int g = 0; g < rnn_back_groups_most; g++)
        self.vectors[g].load(
            run.at, g < rnn_back_groups(RNN_UNITS) ? rnn_back_unit(self, RNN_UNITS, g) : RNN_UNITS);
}
#endif
