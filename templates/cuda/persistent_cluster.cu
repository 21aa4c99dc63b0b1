// Variant persistent_cluster: one launch for all steps; the CTAs of a thread-block cluster share R
// and RNN_ROWS rows of the batch, and the operands of products travel through distributed shared
// memory. Clusters are independent; a cluster takes row group after row group.
//
// The 8 units of a group and all their gates belong to one warp (or to RNN_SPLIT = 2, which share
// K): half a tile of mma for 8 units of one gate, so that lane l finds all gates of unit l/4, of
// rows 2*(l%4) and 2*(l%4) + 1, in its own registers and goes on to the pointwise part. Of a pair,
// each warp keeps one of the two rows and gives the other one's sums away.
//
//     step:  wait for the operand's barrier | fragments of h from shared memory, mma with R in
//            registers (RNN_HELD fragments) and shared memory | (pairs: sums through shared memory)
//            | pointwise | h to all CTAs | y, W*x of later steps by cp.async
//
// The protocol of the exchange, and why no buffer is written too early: cluster_product.cuh.
//
// Limits: sm_90, a cluster of 2, 4 or 8 CTAs, cells without norms and with full matrices.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin
//     templates/cuda/persistent_cluster.cu
#include "cuda/cluster_product.cuh"
#include "cuda/prim/async.cuh"
#include "cuda/prim/early.cuh"
#ifndef RNN_TRAINING
#define RNN_TRAINING 0 // W*x is [T, B, ...] by steps, and what the derivative needs is kept
#endif
#if RNN_TRAINING
#include "cuda/training.cuh"
#endif

/// What the run kernel is given; all device memory.
struct RnnRun {
    const float *input;   ///< W*x: [B, T, RNN_INPUT_STRIDE], in training [T, B, ...]
    const uint4 *weights; ///< by rnn_pack
    const float *bias, *recurrent_bias, *parameter; ///< canonical; NULL: none
    float *y;
    RnnStates states;
    long long batch, timesteps, y_row_stride, y_step_stride;
    const int *order;             ///< [B, T]: time of each step; NULL: all steps
    const RnnRow *rows;           ///< [B]; NULL with order
    const float *recurrent_scale; ///< [B, operand of R]; NULL: none
    int *fault;                   ///< kind and three numbers; memory of the host's
    int fault_kind, layer;        ///< what goes there where a wait has run out
#if RNN_TRAINING
    float *saved;                    ///< [T, B, RNN_SAVED_STRIDE]; NULL: nothing is saved
    float *kept[RNN_STATES_MAX];     ///< states, [T + 1, B, size]; NULL: not kept
    float *operands[RNN_PHASES_MAX]; ///< what R multiplies, scaled, [T, B, K]; NULL: as it is
    const unsigned long long *seed;  ///< of zoneout's draws
#endif
};

/// The time of step `step` of row `row` of the group, which takes that step.
RNN_INLINE int rnn_time(const RnnRun &run, const RnnThread &self, int row, int step)
{
    if (run.order)
        return self.times[(step & (RNN_TIMES - 1)) * 8 * RNN_ROW_TILES + row];
    return RNN_REVERSED ? (int)run.timesteps - 1 - step : step;
}

/// Starts the copy of the rows' times of `step` into their slot; 0 for rows that are through.
RNN_INLINE void rnn_fetch_times(const RnnRun &run, const RnnThread &self, int step, int steps)
{
    if (run.order && step < steps && self.lane < self.rows)
        rnn_copy4_or_zero(self.times + (step & (RNN_TIMES - 1)) * 8 * RNN_ROW_TILES + self.lane,
                          run.order + (self.first_row + self.lane) * run.timesteps + step,
                          step < self.lane_steps);
}

/// Starts the copy of W*x of `step` for this warp's units and rows into its slot; any values for
/// rows that are through. An empty group beyond the end.
RNN_INLINE void rnn_fetch(const RnnRun &run, const RnnThread &self, int step, int steps)
{
    constexpr int wide = RNN_UNITS % 4 == 0 ? 4 : 1; // floats of a copy
    constexpr int copies = rnn_ring_units / wide;
    const int first = self.cta * rnn_share(RNN_UNITS) + self.owner * rnn_ring_units;
    float *slot = self.ring + (step & (RNN_RING - 1)) * rnn_slot_floats;
    if (step < steps)
#pragma unroll
        for (int i = self.lane; i < rnn_ring_rows * RNN_GATES * copies; i += 32) {
            const int unit = i % copies * wide, gate = i / copies % RNN_GATES;
            const int own = i / (copies * RNN_GATES);
            const int row = RNN_SPLIT == 1 ? own : own * 2 + self.part;
            const bool wanted = row < self.rows && first + unit < RNN_UNITS;
            const long long line = RNN_TRAINING ? step * run.batch + self.first_row + row
                                                : (self.first_row + row) * run.timesteps +
                                                      (wanted ? rnn_time(run, self, row, step) : 0);
            const float *from =
                wanted ? run.input + line * RNN_INPUT_STRIDE + gate * RNN_UNITS + first + unit
                       : run.input;
            float *to = slot + own * rnn_ring_stride + gate * rnn_ring_units + unit;
            if (wide == 4)
                rnn_copy16_or_zero(to, from, wanted);
            else
                rnn_copy4_or_zero(to, from, wanted);
        }
    rnn_fetch_times(run, self, step + RNN_RING, steps);
    rnn_copy_commit();
}

/// W*x of the step, from its slot of the ring.
RNN_INLINE void rnn_load_input(const RnnThread &self, int step,
                               float (&input)[rnn_item_count][RNN_SOME(RNN_GATES)])
{
    const float *slot = self.ring + (step & (RNN_RING - 1)) * rnn_slot_floats + self.lane / 4 +
                        rnn_row_of(self, 0, 0) / RNN_SPLIT * rnn_ring_stride;
#pragma unroll
    for (int g = 0; g < rnn_groups(RNN_UNITS); g++)
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
            for (int e = 0; e < RNN_COLUMNS; e++)
#pragma unroll
                for (int gate = 0; gate < RNN_GATES; gate++)
                    input[rnn_item_of(g, n, e)][gate] =
                        slot[(n * 8 / RNN_SPLIT + e) * rnn_ring_stride + gate * rnn_ring_units +
                             g * 8];
}

#if RNN_TRAINING
#include "cuda/cluster_tape.cuh"
#endif

/// Phases Phase, Phase + 1, ... of step `step`.
template <int Phase>
RNN_INLINE void rnn_run_phases(const RnnRun &run, RnnThread &self, int step,
                               float (&input)[rnn_item_count][RNN_SOME(RNN_GATES)],
                               float (&carries)[rnn_item_count][RNN_SOME(RNN_CARRIES)],
                               float (&next)[rnn_item_count][RNN_SOME(RNN_STATES)], unsigned turn)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        constexpr RnnPhase phase = rnn_phases[Phase];
        constexpr int items = rnn_items(phase.size);
        float product[items][RNN_SOME(phase.row_count)];
        if constexpr (phase.row_count > 0) {
            rnn_receive<Phase>(self, turn);
            rnn_multiply<Phase>(self, turn, product);
        }
#pragma unroll
        for (int i = 0; i < items; i++) {
            float carries_out[RNN_SOME(RNN_CARRIES)];
#pragma unroll
            for (int c = 0; c < RNN_SOME(RNN_CARRIES); c++)
                carries_out[c] = carries[i][c];
#if RNN_TRAINING
            rnn_pointwise_kept<Phase>(run, self, step, i, input[i], product[i], carries[i],
                                      carries_out, next[i]);
#else
            const int group = i / (RNN_ROW_TILES * RNN_COLUMNS);
            rnn_pointwise<Phase>(input[i], product[i], self.bias[group], self.recurrent_bias[group],
                                 self.parameter[group], self.state[i], carries[i], nullptr,
                                 carries_out, next[i]);
#endif
#pragma unroll
            for (int c = 0; c < RNN_SOME(RNN_CARRIES); c++)
                carries[i][c] = carries_out[c];
        }
        rnn_publish<Phase, 0, false>(self, carries, turn);
        rnn_run_phases<Phase + 1>(run, self, step, input, carries, next, turn);
    }
}

/// The outputs of step `step`.
RNN_INLINE void rnn_write(const RnnRun &run, const RnnThread &self, int step)
{
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
        for (int e = 0; e < RNN_COLUMNS; e++) {
            const int row = rnn_row_of(self, n, e);
            if (step >= self.steps[n][e] || !(RNN_SEQUENCE_OUT || step + 1 == self.steps[n][e]))
                continue;
            const int time = RNN_SEQUENCE_OUT ? rnn_time(run, self, row, step) : 0;
            float *y = run.y + (self.first_row + row) * run.y_row_stride +
                       (RNN_SEQUENCE_OUT && RNN_GO_BACKWARDS ? self.last[n][e] - time : time) *
                           run.y_step_stride;
#pragma unroll
            for (int g = 0; g < rnn_groups(RNN_OUTPUTS); g++) {
                const int unit = rnn_unit_of(self, RNN_OUTPUTS, g);
                if (unit < RNN_OUTPUTS)
                    y[unit] = self.state[rnn_item_of(g, n, e)][0];
            }
        }
}

/// One step of a row group.
RNN_INLINE void rnn_step(const RnnRun &run, RnnThread &self, int step, int steps)
{
    float input[rnn_item_count][RNN_SOME(RNN_GATES)];
    float carries[rnn_item_count][RNN_SOME(RNN_CARRIES)] = {};
    float next[rnn_item_count][RNN_SOME(RNN_STATES)];
    const unsigned turn = self.turn + step;
    rnn_copy_wait<RNN_RING - 2>();
    __syncwarp(); // all lanes' copies are here; all have read the slot that is filled below
    rnn_load_input(self, step, input);
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++)
            next[i][s] = self.state[i][s];
    rnn_run_phases<0>(run, self, step, input, carries, next, turn);
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++)
            if (step < self.steps[i / RNN_COLUMNS % RNN_ROW_TILES][i % RNN_COLUMNS])
                self.state[i][s] = next[i][s];
    if (step + 1 < steps)
        rnn_publish<0, 0, true>(self, self.state, turn + 1);
    rnn_write(run, self, step);
#if RNN_TRAINING
    rnn_keep_states(run, self, step);
#endif
    rnn_fetch(run, self, step + RNN_RING - 1, steps);
}

/// Loads or stores the states of the row group's items.
RNN_INLINE void rnn_exchange_states(const RnnRun &run, RnnThread &self, bool store)
{
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++) {
            const int size = rnn_state_sizes[s], group = i / (RNN_ROW_TILES * RNN_COLUMNS);
            const int unit = rnn_unit_of(self, size, group);
            const int row = rnn_row_of(self, i / RNN_COLUMNS % RNN_ROW_TILES, i % RNN_COLUMNS);
            const bool owned = group < rnn_groups(size) && unit < size && row < self.rows;
            float *at = run.states.at[s] + (self.first_row + row) * size + unit;
            if (store && owned)
                *at = self.stuck ? __int_as_float(0x7fffffff) : self.state[i][s];
            else if (!store)
                self.state[i][s] = owned ? *at : 0.0f;
        }
}

/// The most steps of the group's rows; those of the thread's own rows, and the factors of what it
/// sends, go to `self`.
RNN_INLINE int rnn_begin_rows(const RnnRun &run, RnnThread &self)
{
    int most = run.rows ? 0 : (int)run.timesteps;
    for (int row = 0; run.rows && row < self.rows; row++) {
        const int steps = run.rows[self.first_row + row].steps;
        most = steps > most ? steps : most;
    }
    self.lane_steps =
        run.rows && self.lane < self.rows ? run.rows[self.first_row + self.lane].steps : 0;
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
        for (int e = 0; e < RNN_COLUMNS; e++) {
            const int row = rnn_row_of(self, n, e);
            const bool has_row = row < self.rows;
            const long long own = self.first_row + row;
            self.steps[n][e] = !has_row ? 0 : run.rows ? run.rows[own].steps : (int)run.timesteps;
            self.last[n][e] = run.rows && has_row ? run.rows[own].last : (int)run.timesteps - 1;
            constexpr int size = rnn_scaled_size();
#pragma unroll
            for (int g = 0; g < rnn_groups_most; g++) {
                const int unit = rnn_unit_of(self, size, g);
                const bool scaled = RNN_RECURRENT_DROPOUT && run.recurrent_scale && has_row &&
                                    g < rnn_groups(size) && unit < size;
                self.scale[rnn_item_of(g, n, e)] =
                    scaled ? run.recurrent_scale[own * size + unit] : 1.0f;
            }
        }
    return most;
}

/// The largest finite magnitude of `count` numbers from `from`, at least 1, over the warp.
RNN_INLINE float rnn_largest(const float *from, int count, int lane)
{
    unsigned largest = 0x3f800000;
    for (int i = lane; i < count; i += 32) {
        const unsigned bits = __float_as_uint(from[i]) & 0x7fffffff;
        largest = bits > largest && bits < 0x7f800000 ? bits : largest;
    }
    return __uint_as_float(__reduce_max_sync(0xffffffff, largest));
}

/// Of halves: the range of each row. What the row sends is no larger than 1, or than its initial
/// states were (compiler/cell/bounds.h), times its factors of dropout.
RNN_INLINE void rnn_begin_ranges(const RnnRun &run, RnnThread &self)
{
    for (int row = 0; row < RNN_ROWS; row++) {
        float most = 1.0f;
        const long long own = self.first_row + row;
#pragma unroll
        for (int s = 0; s < RNN_STATES && row < self.rows; s++)
            if (rnn_is_sent(s)) {
                const int size = rnn_state_sizes[s];
                most = fmaxf(most, rnn_largest(run.states.at[s] + own * size, size, self.lane));
            }
        constexpr int scaled = rnn_scaled_size();
        if (RNN_RECURRENT_DROPOUT && run.recurrent_scale && row < self.rows)
            most *= rnn_largest(run.recurrent_scale + own * scaled, scaled, self.lane);
        const int exponent = rnn_range_exponent(fminf(most, 0x1p126f));
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
            for (int e = 0; e < RNN_COLUMNS; e++)
                if (rnn_row_of(self, n, e) == row) {
                    self.range[n][e] = rnn_range_factor(exponent);
                    self.range_inverse[n][e] = rnn_range_inverse(exponent);
                }
    }
}

RNN_INLINE void rnn_run_rows(const RnnRun &run, RnnThread &self)
{
    const int steps = rnn_begin_rows(run, self);
    if (steps == 0)
        return;
    if (RNN_HALVES)
        rnn_begin_ranges(run, self);
    rnn_exchange_states(run, self, false);
    __syncwarp(); // the rings' last slots are read
    for (int t = 0; t < RNN_RING && run.order; t++)
        rnn_fetch_times(run, self, t, steps);
    if (run.order) {
        rnn_copy_commit();
        rnn_copy_wait<0>();
        __syncwarp();
    }
    for (int t = 0; t < RNN_RING - 1; t++)
        rnn_fetch(run, self, t, steps);
    rnn_publish<0, 0, true>(self, self.state, self.turn);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int i = 0; i < rnn_held; i++)
            rnn_keep(self.weights[i]);
        rnn_step(run, self, step, steps);
    }
    rnn_copy_wait<0>();
    rnn_exchange_states(run, self, true);
    self.turn += (unsigned)steps;
}

/// Arms both barriers of every operand.
template <int Phase> RNN_INLINE void rnn_arm(const RnnThread &self)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        if constexpr (rnn_phases[Phase].row_count > 0)
            for (unsigned turn = 0; turn < 2; turn++) {
                rnn_barrier_init(rnn_barrier_of<Phase>(self, turn));
                rnn_barrier_expect(rnn_barrier_of<Phase>(self, turn), rnn_operand_bytes_of<Phase>);
            }
        rnn_arm<Phase + 1>(self);
    }
}

/// Loads weights and vectors, which hold for every row group, and makes buffers and barriers.
RNN_INLINE void rnn_begin(const RnnRun &run, RnnThread &self)
{
    extern __shared__ float4 rnn_shared[];
    self.shared = (char *)rnn_shared;
    self.address = rnn_shared_address(rnn_shared);
    self.cta = rnn_cluster_rank();
    self.warp = threadIdx.x / 32;
    self.owner = self.warp % RNN_WARPS;
    self.part = self.warp / RNN_WARPS;
    self.lane = threadIdx.x % 32;
    for (int i = 0; i < RNN_DESTINATIONS; i++) { // each begins with another
        const int odd = RNN_COLUMNS == 2 ? 0 : self.lane / 4 % 2;
        const int rank = (self.cta + i * (3 - RNN_COLUMNS) + odd) % RNN_CTAS;
        self.peers[i] = rnn_cluster_address(self.address, rank);
    }
    for (int n = 0; n < RNN_ROW_TILES; n++) // rows that there are not send zeros
        for (int e = 0; e < RNN_COLUMNS; e++)
            self.range[n][e] = self.range_inverse[n][e] = 1.0f;
    self.stuck = false;
    self.turn = self.product = 0;
    self.ring = (float *)(self.shared + rnn_ring_at) + self.warp * RNN_RING * rnn_slot_floats;
    self.times = (int *)(self.shared + rnn_times_at) + self.warp * RNN_TIMES * 8 * RNN_ROW_TILES;
    uint4 *rest = (uint4 *)(self.shared + rnn_rest_at) + threadIdx.x;
    self.rest = rest;
    for (int i = RNN_BARRIER_BYTES / 16 + threadIdx.x; i < rnn_given_at / 16; i += RNN_THREADS)
        rnn_shared[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (threadIdx.x == 0) {
        rnn_arm<0>(self);
        rnn_barriers_ready();
    }
    const uint4 *from =
        run.weights + (long long)self.cta * rnn_fragment_count * RNN_THREADS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < rnn_held; i++)
        self.weights[i] = rnn_load_once(from + i * RNN_THREADS);
    for (int i = rnn_held; i < rnn_fragment_count; i++)
        rest[(i - rnn_held) * RNN_THREADS] = from[i * RNN_THREADS];
    const float *factors =
        (const float *)(run.weights + (long long)RNN_CTAS * rnn_fragment_count * RNN_THREADS) +
        (self.cta * RNN_THREADS + threadIdx.x) * rnn_groups_most * rnn_factor_count;
#pragma unroll
    for (int i = 0; i < rnn_groups_most * rnn_factor_count; i++)
        self.factor[i / RNN_SOME(rnn_factor_count)][i % RNN_SOME(rnn_factor_count)] = factors[i];
#pragma unroll
    for (int g = 0; g < rnn_groups_most; g++) {
        const int unit = rnn_unit_of(self, RNN_UNITS, g);
        const bool owned = g < rnn_groups(RNN_UNITS) && unit < RNN_UNITS;
        for (int i = 0; i < RNN_SOME(RNN_BIASES); i++)
            self.bias[g][i] = owned && run.bias ? run.bias[i * RNN_UNITS + unit] : 0.0f;
        for (int i = 0; i < RNN_SOME(RNN_RECURRENT_BIASES); i++)
            self.recurrent_bias[g][i] =
                owned && run.recurrent_bias ? run.recurrent_bias[i * RNN_UNITS + unit] : 0.0f;
        for (int i = 0; i < RNN_SOME(RNN_PARAMETERS); i++)
            self.parameter[g][i] =
                owned && run.parameter ? run.parameter[i * RNN_UNITS + unit] : 0.0f;
    }
}

/// Tells the host that a wait has run out, where it has no fault to read yet.
RNN_INLINE void rnn_report(int *fault, int kind, int layer)
{
    if (*(volatile int *)fault || atomicCAS(fault, 0, kind))
        return;
    fault[3] = layer;
    __threadfence_system();
}

extern "C" __global__ void __launch_bounds__(RNN_THREADS, 1) rnn_run(const RnnRun run)
{
#if __CUDA_ARCH__ >= 900 // elsewhere the runtime finds no room for a cluster
    const int cluster = blockIdx.x / RNN_CTAS, clusters = gridDim.x / RNN_CTAS;
    RnnThread self;
    rnn_begin(run, self);
    rnn_grid_wait(); // for W*x
    rnn_cluster_sync();
    for (self.first_row = (long long)cluster * RNN_ROWS; self.first_row < run.batch;
         self.first_row += (long long)clusters * RNN_ROWS) {
        const long long left = run.batch - self.first_row;
        self.rows = left < RNN_ROWS ? (int)left : RNN_ROWS;
        rnn_run_rows(run, self);
    }
    rnn_cluster_sync();
    if (self.stuck)
        rnn_report(run.fault, run.fault_kind, run.layer);
#endif
}

#if RNN_HALVES
/// The inverses of the factors of R's rows, behind the fragments, [cta][thread][group][row of one
/// unit], and their exponents behind those, [row of one unit][unit].
constexpr int rnn_factor_floats = RNN_CTAS * RNN_THREADS * rnn_groups_most * rnn_factor_count;
RNN_INLINE int *rnn_exponents(uint4 *packed)
{
    return (int *)(packed + (long long)RNN_CTAS * rnn_fragment_count * RNN_THREADS) +
           rnn_factor_floats;
}

/// Finds the exponents, before rnn_pack: a warp a row.
extern "C" __global__ void rnn_measure(const float *R, const float *P, uint4 *packed)
{
    const int lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
    for (int at = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
         at < rnn_factor_count * rnn_row_room(); at += warps) {
        const int factor = at / rnn_row_room(), unit = at % rnn_row_room();
        int phase = 0;
        while (factor >= rnn_first_factor(phase + 1))
            phase++;
        const RnnPhase &of = rnn_phases[phase];
        if (unit >= of.size)
            continue;
        const float *row = (of.matrix == RNN_MATRIX_P ? P : R) +
                           ((long long)of.rows[factor - rnn_first_factor(phase)] * of.size + unit) *
                               of.operand_size;
        unsigned largest = 0;
        for (int k = lane; k < of.operand_size; k += 32) {
            const unsigned bits = __float_as_uint(row[k]) & 0x7fffffff;
            largest = bits > largest && bits < 0x7f800000 ? bits : largest;
        }
        largest = __reduce_max_sync(0xffffffff, largest);
        if (lane == 0)
            rnn_exponents(packed)[at] = rnn_range_exponent(__uint_as_float(largest));
    }
}

RNN_INLINE void rnn_pack_factors(uint4 *packed)
{
    const int each = rnn_groups_most * rnn_factor_count;
    const int *exponents = rnn_exponents(packed);
    float *factors = (float *)exponents - rnn_factor_floats;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < rnn_factor_floats;
         at += gridDim.x * blockDim.x) {
        const int thread = at / each % RNN_THREADS, cta = at / each / RNN_THREADS;
        const int group = at % each / rnn_factor_count, factor = at % rnn_factor_count;
        int phase = 0;
        while (factor >= rnn_first_factor(phase + 1))
            phase++;
        const int size = rnn_phases[phase].size, owner = thread / 32 % RNN_WARPS;
        const int groups = rnn_groups(size);
        const int unit = cta * rnn_share(size) + (owner * groups + group) * 8 + thread % 32 / 4;
        factors[at] = group < groups && unit < size
                          ? rnn_range_inverse(exponents[factor * rnn_row_room() + unit])
                          : 0.0f;
    }
}
#endif

/// Packs canonical R [gates*H, K] and P [P, H] into [cta][fragment][thread], with zeros beyond the
/// ends: the elements of each mma fragment in the order of their registers.
extern "C" __global__ void rnn_pack(const float *R, const float *P, uint4 *packed)
{
    const long long total = (long long)RNN_CTAS * rnn_fragment_count * RNN_THREADS;
    for (long long at = blockIdx.x * blockDim.x + threadIdx.x; at < total;
         at += (long long)gridDim.x * blockDim.x) {
        const int thread = at % RNN_THREADS, lane = thread % 32;
        const int owner = thread / 32 % RNN_WARPS, part = thread / 32 / RNN_WARPS;
        const int fragment = at / RNN_THREADS % rnn_fragment_count;
        const int cta = at / RNN_THREADS / rnn_fragment_count;
        int phase = 0;
        while (fragment >= rnn_first_fragment(phase + 1))
            phase++;
        const RnnPhase &of = rnn_phases[phase];
        const int within = (fragment - rnn_first_fragment(phase)) / RNN_PARTS;
        const int tile = part * rnn_k_tiles(phase) + within / rnn_row_tiles(phase);
        const int m = within % rnn_row_tiles(phase), groups = rnn_groups(of.size);
        unsigned words[4];
        for (int i = 0; i < 4; i++) { // half of the tile: i % 2; second word of the operand from 2
            const int half = m * 2 + i % 2, group = half / of.row_count, gate = half % of.row_count;
            const int unit = cta * rnn_share(of.size) + (owner * groups + group) * 8 + lane / 4;
            const int k = RNN_TILE_BLOCKS == 2 ? (tile * 2 + i / 2) * 8 + lane % 4 * 2
                                               : tile * 8 + lane % 4 * 2 + i / 2;
            const bool is_there = group < groups && unit < of.size;
            const float *row =
                (of.matrix == RNN_MATRIX_P ? P : R) +
                (is_there ? ((long long)of.rows[gate] * of.size + unit) * of.operand_size : 0);
            float w[2] = {};
            for (int e = 0; e < RNN_TILE_BLOCKS; e++)
                if (is_there && k + e < of.operand_size)
                    w[e] = row[k + e];
#if RNN_HALVES
            const float factor =
                is_there ? rnn_range_factor(rnn_exponents(
                               packed)[(rnn_first_factor(phase) + gate) * rnn_row_room() + unit])
                         : 0.0f;
            const unsigned high = rnn_pair(w[0] * factor, w[1] * factor);
            words[i] = (fragment - rnn_first_fragment(phase)) % RNN_PARTS == 0
                           ? high
                           : rnn_pair_rest(w[0] * factor, w[1] * factor, high);
#elif RNN_PRECISION >= 2
            words[i] = rnn_narrow(w[0]) | (unsigned)rnn_narrow(w[1]) << 16;
#else
            words[i] = __float_as_uint(rnn_round(w[0]));
#endif
        }
        packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
#if RNN_HALVES
    rnn_pack_factors(packed);
#endif
}
