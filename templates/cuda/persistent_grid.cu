// Variant persistent_grid: one launch for all steps; the CTAs of a group share R and RNN_ROWS rows
// of the batch, each CTA owning RNN_SHARE units of every gate, and the operands of products travel
// through L2 and say themselves that they have arrived (prim/exchange.cuh). Groups are independent;
// a group takes row group after row group.
//
//     CTA c of a group: rows g*S + u of R, u < S units of gate g     K ->  warp 0 | warp 1 | ... 7
//                                                                  M  v   fragments: the first
//     step:  poll own K slice of the operand, straight into          RNN_HELD in registers, the
//            fragments | mma | partial sums to shared memory |       rest in shared memory
//            barrier | a thread sums 8 partials of its (unit, row),
//            pointwise, sends its operand values | y, W*x of later steps by cp.async
//
// There is one barrier a product: partial sums have two buffers, and a slot of the ring that was
// read in one step is filled again after the barrier of the next. Epochs go on from launch to
// launch
// (`epochs`, one a group), so buffers are never cleared. A wait that lasts some seconds ends with a
// fault for the host and states of NaN.
//
// With an order (masks, lengths), times go through a ring of their own, twice as far ahead: a copy
// of W*x finds its time in shared memory. A row that is through sends the state that it keeps.
//
// Shared memory: W*x [RNN_RING][row][gate][unit] | partial sums | fragments | times.
//
// Floor of a step: one trip through L2 (0.6 us with 16 CTAs) and RNN_ROWS*K packets of 8 bytes a
// CTA; mma: M/16 * K/k * RNN_ROWS/8 tiles on four tensor cores, 6.2 cycles each. Limits: every CTA
// of the grid is resident (cooperative launch), cells without norms and with full matrices.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/persistent_grid.cu
#include "cuda/grid_product.cuh"
#include "cuda/prim/async.cuh"

enum { RNN_TIMES = 2 * RNN_RING }; // steps whose times are in shared memory
constexpr int rnn_ring_floats = RNN_ROWS * RNN_GATES * RNN_SHARE; // of one step

/// What the run kernel is given; all device memory.
struct RnnRun {
    const float *input;                             ///< W*x: [B, T, RNN_INPUT_STRIDE]
    const uint4 *weights;                           ///< by rnn_pack
    const float *bias, *recurrent_bias, *parameter; ///< canonical; NULL: none
    float *y;
    RnnStates states;
    long long batch, timesteps, y_row_stride, y_step_stride;
    const int *order;             ///< [B, T]: time of each step; NULL: all steps
    const RnnRow *rows;           ///< [B]; NULL with order
    const float *recurrent_scale; ///< [B, operand of R]; NULL: none
    uint4 *buffers;               ///< [group][rnn_buffer_at(RNN_PHASE_COUNT)]
    unsigned *epochs;             ///< [group]: the last one used
    int *fault;                   ///< kind and three numbers; memory of the host's
    int fault_kind, layer;        ///< what goes there where a wait has run out
};

/// W*x of the step, from its slot of the ring.
RNN_INLINE void rnn_load_input(const RnnThread &self, long long step,
                               float (&input)[rnn_item_count][RNN_SOME(RNN_GATES)])
{
    const float *slot = self.ring + (int)(step % RNN_RING) * rnn_ring_floats;
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++) {
        const int unit = rnn_item_unit(i) < RNN_SHARE ? rnn_item_unit(i) : 0;
#pragma unroll
        for (int g = 0; g < RNN_GATES; g++)
            input[i][g] = slot[(rnn_item_row() * RNN_GATES + g) * RNN_SHARE + unit];
    }
}

/// Phases Phase, Phase + 1, ... of step `step`.
template <int Phase>
RNN_INLINE void rnn_run_phases(RnnThread &self, float (&input)[rnn_item_count][RNN_SOME(RNN_GATES)],
                               float (&carries)[rnn_item_count][RNN_SOME(RNN_CARRIES)],
                               float (&next)[rnn_item_count][RNN_SOME(RNN_STATES)], long long step,
                               bool last)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        constexpr RnnPhase phase = rnn_phases[Phase];
        constexpr int share = rnn_share(phase.size);
        const unsigned epoch = self.epoch + (unsigned)step;
        if constexpr (phase.row_count > 0)
            rnn_multiply<Phase>(self, epoch);
        if constexpr (Phase == 0)
            rnn_copy_wait<RNN_RING - 2>();
        if constexpr (Phase == 0 || phase.row_count > 0)
            __syncthreads();
        if constexpr (Phase == 0)
            if (rnn_has_units(self))
                rnn_load_input(self, step, input);
        const float *partials = rnn_partials(self);
        if constexpr (phase.row_count > 0)
            self.turn ^= 1;
#pragma unroll
        for (int i = 0; i < rnn_item_count && rnn_has_units(self); i++) {
            const int unit = rnn_item_unit(i);
            float product[RNN_GATES_MAX] = {};
            if constexpr (phase.row_count > 0)
                if (unit < share)
#pragma unroll
                    for (int g = 0; g < phase.row_count; g++)
                        product[g] = rnn_sum<Phase>(partials, g * share + unit, rnn_item_row());
            float carries_out[RNN_SOME(RNN_CARRIES)];
#pragma unroll
            for (int c = 0; c < RNN_SOME(RNN_CARRIES); c++)
                carries_out[c] = carries[i][c];
            rnn_pointwise<Phase>(input[i], product, self.bias[i], self.recurrent_bias[i],
                                 self.parameter[i], self.state[i], carries[i], nullptr, carries_out,
                                 next[i]);
#pragma unroll
            for (int c = 0; c < RNN_SOME(RNN_CARRIES); c++)
                carries[i][c] = carries_out[c];
            if (step >= self.steps)
#pragma unroll
                for (int s = 0; s < RNN_STATES; s++)
                    next[i][s] = self.state[i][s];
            rnn_publish<Phase, 0>(self, i, next[i], carries[i], epoch, last);
        }
        rnn_run_phases<Phase + 1>(self, input, carries, next, step, last);
    }
}

/// The time of step `step` of row `row` of the group, which takes that step.
RNN_INLINE long long rnn_time(const RnnRun &run, const RnnThread &self, int row, long long step)
{
    if (run.order)
        return self.times[(int)(step % RNN_TIMES) * RNN_ROWS + row];
    return RNN_REVERSED ? run.timesteps - 1 - step : step;
}

/// This thread among those that fetch: first those without units, which wait while the others do
/// their pointwise part.
RNN_INLINE int rnn_fetcher()
{
    constexpr int busy = rnn_pairs() < RNN_THREADS ? (rnn_pairs() + 31) / 32 * 32 : 0;
    return ((int)threadIdx.x + RNN_THREADS - busy) % RNN_THREADS;
}

/// Starts the copy of the rows' times of `step` into their slot; 0 for rows that are through.
RNN_INLINE void rnn_fetch_times(const RnnRun &run, const RnnThread &self, long long step,
                                long long steps)
{
    const int row = rnn_fetcher();
    if (run.order && row < self.rows && step < steps)
        rnn_copy4_or_zero(self.times + (int)(step % RNN_TIMES) * RNN_ROWS + row,
                          run.order + (self.first_row + row) * run.timesteps + step,
                          step < self.steps);
}

/// Starts the copy of W*x of `step` for this CTA's units into its slot; any values for rows that
/// are through. An empty group beyond the end.
RNN_INLINE void rnn_fetch(const RnnRun &run, const RnnThread &self, long long step, long long steps)
{
    constexpr int wide = RNN_UNITS % 4 == 0 ? 4 : 1; // floats of a copy
    constexpr int copies = RNN_SHARE / wide;
    float *slot = self.ring + (int)(step % RNN_RING) * rnn_ring_floats;
    if (step < steps)
        for (int i = rnn_fetcher(); i < RNN_ROWS * RNN_GATES * copies; i += RNN_THREADS) {
            const int unit = i % copies * wide, gate = i / copies % RNN_GATES;
            const int row = i / (copies * RNN_GATES);
            const bool wanted = row < self.rows && self.cta * RNN_SHARE + unit < RNN_UNITS;
            const long long line = (self.first_row + row) * run.timesteps +
                                   (wanted ? rnn_time(run, self, row, step) : 0);
            const float *from = wanted ? run.input + line * RNN_INPUT_STRIDE + gate * RNN_UNITS +
                                             self.cta * RNN_SHARE + unit
                                       : run.input;
            float *to = slot + (row * RNN_GATES + gate) * RNN_SHARE + unit;
            if (wide == 4)
                rnn_copy16_or_zero(to, from, wanted);
            else
                rnn_copy4_or_zero(to, from, wanted);
        }
    rnn_fetch_times(run, self, step + RNN_RING, steps);
    rnn_copy_commit();
}

/// One step of a row group.
RNN_INLINE void rnn_step(const RnnRun &run, RnnThread &self, long long step, long long steps)
{
    float input[rnn_item_count][RNN_SOME(RNN_GATES)];
    float carries[rnn_item_count][RNN_SOME(RNN_CARRIES)] = {};
    float next[rnn_item_count][RNN_SOME(RNN_STATES)];
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++)
            next[i][s] = self.state[i][s];
    rnn_run_phases<0>(self, input, carries, next, step, step + 1 == steps);
    const bool writes = step < self.steps && (RNN_SEQUENCE_OUT || step + 1 == self.steps);
    const long long time =
        RNN_SEQUENCE_OUT && writes ? rnn_time(run, self, rnn_item_row(), step) : 0;
    float *y = run.y + (self.first_row + rnn_item_row()) * run.y_row_stride +
               (RNN_SEQUENCE_OUT && RNN_GO_BACKWARDS ? self.last - time : time) * run.y_step_stride;
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++) {
        const int unit = rnn_item_unit(i), share = rnn_share(RNN_OUTPUTS);
        const int output = self.cta * share + unit;
        if (writes && unit < share && output < RNN_OUTPUTS)
            y[output] = next[i][0];
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++)
            self.state[i][s] = next[i][s];
    }
    rnn_fetch(run, self, step + RNN_RING - 1, steps);
}

/// Loads or stores the states of the row group's items.
RNN_INLINE void rnn_exchange_states(const RnnRun &run, RnnThread &self, bool store)
{
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++) {
            const int size = rnn_state_sizes[s], share = rnn_share(size);
            const int unit = rnn_item_unit(i), of_all = self.cta * share + unit;
            const bool owned = unit < share && of_all < size && rnn_item_row() < self.rows;
            float *at = run.states.at[s] + (self.first_row + rnn_item_row()) * size + of_all;
            if (store && owned)
                *at = self.stuck ? __int_as_float(0x7fffffff) : self.state[i][s];
            else if (!store)
                self.state[i][s] = owned ? *at : 0.0f;
        }
}

/// Loads weights and vectors, which hold for every row group.
RNN_INLINE void rnn_begin(const RnnRun &run, RnnThread &self)
{
    extern __shared__ float4 rnn_shared[];
    self.cta = blockIdx.x % RNN_CTAS;
    self.warp = threadIdx.x / 32;
    self.lane = threadIdx.x % 32;
    self.stuck = false;
    self.turn = 0;
    self.ring = (float *)rnn_shared;
    self.partials = self.ring + RNN_RING * rnn_ring_floats;
    uint4 *rest = (uint4 *)(self.partials + rnn_partial_floats()) + threadIdx.x;
    self.times = (int *)(rest - threadIdx.x + (rnn_fragment_count - rnn_held) * RNN_THREADS);
    self.rest = rest;
    self.buffers = run.buffers + blockIdx.x / RNN_CTAS * rnn_buffer_at(RNN_PHASE_COUNT);
    const uint4 *from =
        run.weights + (long long)self.cta * rnn_fragment_count * RNN_THREADS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < rnn_held; i++)
        self.weights[i] = rnn_load_once(from + i * RNN_THREADS);
    for (int i = rnn_held; i < rnn_fragment_count; i++)
        rest[(i - rnn_held) * RNN_THREADS] = from[i * RNN_THREADS];
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++) {
        const int unit = self.cta * RNN_SHARE + rnn_item_unit(i);
        const bool owned = rnn_item_unit(i) < RNN_SHARE && unit < RNN_UNITS;
        for (int g = 0; g < RNN_SOME(RNN_BIASES); g++)
            self.bias[i][g] = owned && run.bias ? run.bias[g * RNN_UNITS + unit] : 0.0f;
        for (int g = 0; g < RNN_SOME(RNN_RECURRENT_BIASES); g++)
            self.recurrent_bias[i][g] =
                owned && run.recurrent_bias ? run.recurrent_bias[g * RNN_UNITS + unit] : 0.0f;
        for (int g = 0; g < RNN_SOME(RNN_PARAMETERS); g++)
            self.parameter[i][g] =
                owned && run.parameter ? run.parameter[g * RNN_UNITS + unit] : 0.0f;
    }
}

/// The most steps of the group's rows; those of the thread's own row, and the factors of what it
/// sends, go to `self`.
RNN_INLINE long long rnn_begin_rows(const RnnRun &run, RnnThread &self)
{
    const bool has_row = rnn_item_row() < self.rows;
    const long long own = self.first_row + rnn_item_row();
    long long most = run.rows ? 0 : run.timesteps;
    for (int row = 0; run.rows && row < self.rows; row++) {
        const int steps = run.rows[self.first_row + row].steps;
        most = steps > most ? steps : most;
    }
    self.steps = has_row ? run.rows ? run.rows[own].steps : (int)run.timesteps : 0;
    self.last = run.rows && has_row ? run.rows[own].last : (int)run.timesteps - 1;
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++) {
        constexpr int size = rnn_scaled_size(), share = rnn_share(size);
        const int unit = self.cta * share + rnn_item_unit(i);
        const bool scaled = RNN_RECURRENT_DROPOUT && run.recurrent_scale && has_row &&
                            rnn_item_unit(i) < share && unit < size;
        self.scale[i] = scaled ? run.recurrent_scale[own * size + unit] : 1.0f;
    }
    return most;
}

RNN_INLINE void rnn_run_rows(const RnnRun &run, RnnThread &self)
{
    const long long steps = rnn_begin_rows(run, self);
    if (steps == 0)
        return;
    rnn_exchange_states(run, self, false);
    __syncthreads(); // the rings' last slots are read
    for (int t = 0; t < RNN_RING && run.order; t++)
        rnn_fetch_times(run, self, t, steps);
    if (run.order) {
        rnn_copy_commit();
        rnn_copy_wait<0>();
        __syncthreads();
    }
    for (int t = 0; t < RNN_RING - 1; t++)
        rnn_fetch(run, self, t, steps);
    rnn_publish_initial<0>(self);
#pragma unroll 1
    for (long long step = 0; step < steps; step++) {
#pragma unroll
        for (int i = 0; i < rnn_held; i++)
            rnn_keep(self.weights[i]);
        rnn_step(run, self, step, steps);
    }
    rnn_copy_wait<0>();
    rnn_exchange_states(run, self, true);
    self.epoch += (unsigned)steps;
}

/// Tells the host that a wait has run out, where it has no fault to read yet.
RNN_INLINE void rnn_report(const RnnRun &run)
{
    if (*(volatile int *)run.fault || atomicCAS(run.fault, 0, run.fault_kind))
        return;
    run.fault[3] = run.layer;
    __threadfence_system();
}

extern "C" __global__ void __launch_bounds__(RNN_THREADS, 1) rnn_run(const RnnRun run)
{
    const int group = blockIdx.x / RNN_CTAS, groups = gridDim.x / RNN_CTAS;
    RnnThread self;
    rnn_begin(run, self);
    self.epoch = *(volatile unsigned *)&run.epochs[group] + 1;
    for (self.first_row = (long long)group * RNN_ROWS; self.first_row < run.batch;
         self.first_row += (long long)groups * RNN_ROWS) {
        const long long left = run.batch - self.first_row;
        self.rows = left < RNN_ROWS ? (int)left : RNN_ROWS;
        rnn_run_rows(run, self);
    }
    // Every CTA of the group has read the epoch: this one has used what they sent.
    if (self.cta == 0 && threadIdx.x == 0)
        run.epochs[group] = self.epoch - 1;
    if (self.stuck)
        rnn_report(run);
}

/// Packs canonical R [gates*H, K] and P [P, H] into [cta][fragment][thread], with zeros beyond the
/// ends: the elements of each mma fragment in the order of their registers.
extern "C" __global__ void rnn_pack(const float *R, const float *P, uint4 *packed)
{
    const long long total = (long long)RNN_CTAS * rnn_fragment_count * RNN_THREADS;
    for (long long at = blockIdx.x * blockDim.x + threadIdx.x; at < total;
         at += (long long)gridDim.x * blockDim.x) {
        const RnnPlace place = rnn_fragment_place(at);
        const RnnPhase &of = rnn_phases[place.phase];
        const int share = rnn_share(of.size);
        unsigned words[4];
        for (int i = 0; i < 4; i++) {
            const RnnPlace at_i = rnn_register_place(place, i);
            const int row = at_i.row, k = at_i.k;
            const int gate = row / share, unit = place.cta * share + row % share;
            float w[2] = {};
            for (int e = 0; e < RNN_WORD; e++)
                if (gate < of.row_count && unit < of.size && k + e < of.operand_size)
                    w[e] = (of.matrix == RNN_MATRIX_P
                                ? P
                                : R)[((long long)of.rows[gate] * of.size + unit) * of.operand_size +
                                     k + e];
            words[i] = rnn_weight_word(w);
        }
        packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
