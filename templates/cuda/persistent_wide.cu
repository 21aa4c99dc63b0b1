// Variant persistent_wide: one launch for all steps; the CTAs of a group share R and RNN_TURNS
// times RNN_ROWS rows of the batch, each CTA owning RNN_SHARE units of every gate, and products are
// made by wgmma from operands that bulk copies bring (wide_product.cuh): for many rows and large H,
// where reading the operand is what a step costs.
//
//     two warpgroups: R, first blocks in registers | by turns: wgmma slice after slice as it comes,
//                     partial sums to shared memory, barrier, a thread sums the two of its (unit,
//                     row) pairs, pointwise, stores its operand values, arrives
//     a warp:         flags of the CTAs that a slice has units of, bulk copy into the ring
//     a warp:         waits for the workers' stores, fence, flag
//
// While what one turn has published travels, the next turn's rows are multiplied. Epochs go on from
// launch to launch (`epochs`, one a group), so buffers are never cleared. A wait that lasts some
// seconds ends with a fault for the host and states of NaN.
//
// Floor of a step: rows*K*2 bytes of operand a CTA at some 64 bytes a cycle; 64 rows of R by 16 of
// K by RNN_ROWS at 2048 multiply-adds a cycle; one trip through L2, 1.6 us, which turns hide.
// Measured on an H200 (us a step, float16): gru 2048, 32 rows, 128 CTAs of 2 x 16 rows, 5.4; lstm
// 2048, 64 rows, 2 x 32, 10.6; rnn 2560, 64 rows, 2 groups of 64 CTAs, 2 x 16, 8.5. Limits: sm_90a,
// 16-bit operands, every CTA of the grid resident (cooperative launch), cells without norms and
// with full matrices.
//
//     nvcc -std=c++17 -arch=sm_90a -Itemplates -Xptxas -v -cubin templates/cuda/persistent_wide.cu
#ifdef __CUDA_ARCH_FEAT_SM90_ALL // elsewhere there is no wgmma, and no kernel for the host to find
#ifndef RNN_UNITS
#include "cuda/default_cell.cuh"
#undef RNN_PRECISION
#define RNN_PRECISION 3
#endif
#include "cuda/wide_product.cuh"

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
    char *buffers;                ///< [group][rnn_group_bytes]
    unsigned *epochs;             ///< [group]: the last one used
    int *fault;                   ///< kind and three numbers; memory of the host's
    int fault_kind, layer;        ///< what goes there where a wait has run out
};

constexpr long long rnn_group_bytes =
    rnn_buffer_at(RNN_PHASE_COUNT) + 4ll * RNN_PHASE_COUNT * RNN_TURNS * RNN_REPLICAS * RNN_FLAGS;
constexpr int rnn_group_rows = RNN_TURNS * RNN_ROWS;

/// The batch's row of an item.
RNN_INLINE long long rnn_batch_row(const RnnPlace &place, int turn)
{
    return place.first_row + turn * RNN_ROWS + rnn_item_row();
}

/// The time at which the items' row takes step `step`, where it does.
RNN_INLINE long long rnn_time(const RnnRun &run, const RnnPlace &place, int turn, long long step)
{
    if (run.order)
        return run.order[rnn_batch_row(place, turn) * run.timesteps + step];
    return RNN_REVERSED ? run.timesteps - 1 - step : step;
}

/// W*x of the items at one time, zeros where nobody wants it.
RNN_INLINE void rnn_load_input(const RnnRun &run, const RnnPlace &place, int turn, bool wanted,
                               long long time, float (&input)[rnn_item_count][RNN_SOME(RNN_GATES)])
{
    const float *line =
        run.input +
        (wanted ? (rnn_batch_row(place, turn) * run.timesteps + time) : 0) * RNN_INPUT_STRIDE;
#pragma unroll
    for (int i = 0; i < rnn_item_count; i += 2) {
        const int unit = place.cta * RNN_SHARE + rnn_item_unit(i);
        const bool owned = wanted && rnn_item_unit(i) < RNN_SHARE;
#pragma unroll
        for (int g = 0; g < RNN_GATES; g++) {
            const float *from = line + g * RNN_UNITS + unit;
            uint2 pair = make_uint2(0, 0);
            if (RNN_UNITS % 2 == 0 && owned && unit < RNN_UNITS)
                pair = rnn_load_once((const uint2 *)from);
            if (RNN_UNITS % 2 != 0 && owned && unit < RNN_UNITS)
                pair.x = __float_as_uint(from[0]);
            if (RNN_UNITS % 2 != 0 && owned && unit + 1 < RNN_UNITS)
                pair.y = __float_as_uint(from[1]);
            input[i][g] = __uint_as_float(pair.x);
            input[i + 1][g] = __uint_as_float(pair.y);
        }
    }
}

/// Publishes the items' values of one vector as an operand of Reader.
template <int Reader, int Vectors>
RNN_INLINE void rnn_publish_to(const RnnRun &run, const RnnPlace &place, int turn,
                               const float (&vectors)[rnn_item_count][Vectors], unsigned epoch)
{
    constexpr RnnPhase reader = rnn_phases[Reader];
#pragma unroll
    for (int p = 0; p < rnn_item_count / 2; p++) {
        float values[2] = {vectors[2 * p][reader.operand], vectors[2 * p + 1][reader.operand]};
#if RNN_RECURRENT_DROPOUT
        constexpr int size = reader.operand_size;
        const int unit = place.cta * rnn_share(size) + rnn_item_unit(2 * p);
        const bool scaled = reader.matrix == RNN_MATRIX_R && run.recurrent_scale &&
                            turn * RNN_ROWS + rnn_item_row() < place.rows;
        for (int e = 0; e < 2; e++)
            if (scaled && unit + e < size)
                values[e] *= run.recurrent_scale[rnn_batch_row(place, turn) * size + unit + e];
#endif
        rnn_send<Reader>(place, turn, p, values[0], values[1], epoch);
    }
}

/// Publishes what phase Phase has made and Reader multiplies, for all Readers from this one on. A
/// state is for the next epoch, a carry for this one.
template <int Phase, int Reader>
RNN_INLINE void rnn_publish(const RnnRun &run, const RnnPlace &place, int turn,
                            const float (&states)[rnn_item_count][RNN_SOME(RNN_STATES)],
                            const float (&carries)[rnn_item_count][RNN_SOME(RNN_CARRIES)],
                            unsigned epoch, bool last)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        if constexpr (rnn_feeds(Phase, Reader)) {
            if constexpr (!rnn_phases[Reader].operand_is_state)
                rnn_publish_to<Reader>(run, place, turn, carries, epoch);
            else if (!last)
                rnn_publish_to<Reader>(run, place, turn, states, epoch + 1);
        }
        rnn_publish<Phase, Reader + 1>(run, place, turn, states, carries, epoch, last);
    }
}

/// Publishes the initial operands of a turn.
template <int Reader>
RNN_INLINE void rnn_publish_initial(const RnnRun &run, const RnnPlace &place, int turn,
                                    const float (&states)[rnn_item_count][RNN_SOME(RNN_STATES)])
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        if constexpr (rnn_phases[Reader].row_count > 0 && rnn_phases[Reader].operand_is_state)
            rnn_publish_to<Reader>(run, place, turn, states, place.epoch);
        rnn_publish_initial<Reader + 1>(run, place, turn, states);
    }
}

/// The unit's elements of `count` vectors in shared memory, from number `first` on.
template <int Count>
RNN_INLINE void rnn_load_vectors(const RnnPlace &place, int first, int count, int unit,
                                 float (&to)[Count])
{
    const float *vectors = (const float *)(place.shared + rnn_vectors_at);
#pragma unroll
    for (int i = 0; i < count; i++)
        to[i] = vectors[(first + i) * RNN_SHARE + unit];
}

/// Phases Phase, Phase + 1, ... of one step of a turn.
template <int Phase>
RNN_INLINE void rnn_run_phases(const RnnRun &run, const RnnPlace &place, RnnWorker &self, int turn,
                               const float (&input)[rnn_item_count][RNN_SOME(RNN_GATES)],
                               const float (&state)[rnn_item_count][RNN_SOME(RNN_STATES)],
                               float (&carries)[rnn_item_count][RNN_SOME(RNN_CARRIES)],
                               float (&next)[rnn_item_count][RNN_SOME(RNN_STATES)], bool takes,
                               unsigned epoch, bool last)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        constexpr RnnPhase phase = rnn_phases[Phase];
        constexpr int share = rnn_share(phase.size);
        const float *partials = nullptr;
        if constexpr (phase.row_count > 0)
            partials = rnn_multiply<Phase>(place, self);
#pragma unroll
        for (int i = 0; i < rnn_item_count; i++) {
            const int unit = rnn_item_unit(i), own = unit < RNN_SHARE ? unit : 0;
            float product[RNN_GATES_MAX] = {};
            if constexpr (phase.row_count > 0)
#pragma unroll
                for (int g = 0; g < phase.row_count; g++) {
                    const float *sum =
                        partials + (g * share + (unit < share ? unit : 0)) * rnn_partial_stride +
                        rnn_item_row();
                    product[g] = sum[0] + sum[rnn_partial_floats];
                }
            float bias[RNN_SOME(RNN_BIASES)] = {}, parameter[RNN_SOME(RNN_PARAMETERS)] = {};
            float recurrent_bias[RNN_SOME(RNN_RECURRENT_BIASES)] = {};
            rnn_load_vectors(place, 0, RNN_BIASES, own, bias);
            rnn_load_vectors(place, RNN_BIASES, RNN_RECURRENT_BIASES, own, recurrent_bias);
            rnn_load_vectors(place, RNN_BIASES + RNN_RECURRENT_BIASES, RNN_PARAMETERS, own,
                             parameter);
            float carries_out[RNN_SOME(RNN_CARRIES)];
#pragma unroll
            for (int c = 0; c < RNN_SOME(RNN_CARRIES); c++)
                carries_out[c] = carries[i][c];
            rnn_pointwise<Phase>(input[i], product, bias, recurrent_bias, parameter, state[i],
                                 carries[i], nullptr, carries_out, next[i]);
#pragma unroll
            for (int c = 0; c < RNN_SOME(RNN_CARRIES); c++)
                carries[i][c] = carries_out[c];
            if (!takes)
#pragma unroll
                for (int s = 0; s < RNN_STATES; s++)
                    next[i][s] = state[i][s];
        }
        rnn_publish<Phase, 0>(run, place, turn, next, carries, epoch, last);
        if constexpr (rnn_publishes(Phase, false))
            if (rnn_publishes(Phase, last))
                rnn_stored<Phase>(turn);
        rnn_run_phases<Phase + 1>(run, place, self, turn, input, state, carries, next, takes, epoch,
                                  last);
    }
}

/// One step of one turn.
template <int Turn>
RNN_INLINE void rnn_step(const RnnRun &run, const RnnPlace &place, RnnWorker &self, long long step,
                         long long (&times)[RNN_TURNS])
{
    const bool takes = step < self.steps[Turn];
    const bool last = step + 1 == place.steps;
    const long long time = times[Turn];
    float input[rnn_item_count][RNN_SOME(RNN_GATES)];
    float carries[rnn_item_count][RNN_SOME(RNN_CARRIES)] = {};
    float next[rnn_item_count][RNN_SOME(RNN_STATES)];
    rnn_load_input(run, place, Turn, takes, time, input);
    if (step + 1 < self.steps[Turn])
        times[Turn] = rnn_time(run, place, Turn, step + 1);
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++)
            next[i][s] = self.state[Turn][i][s];
    rnn_run_phases<0>(run, place, self, Turn, input, self.state[Turn], carries, next, takes,
                      place.epoch + (unsigned)step, last);
    const bool writes = takes && (RNN_SEQUENCE_OUT || step + 1 == self.steps[Turn]);
    const long long out = !RNN_SEQUENCE_OUT ? 0 : RNN_GO_BACKWARDS ? self.last[Turn] - time : time;
    float *y = run.y + rnn_batch_row(place, Turn) * run.y_row_stride + out * run.y_step_stride;
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++) {
        constexpr int share = rnn_share(RNN_OUTPUTS);
        const int unit = rnn_item_unit(i), output = place.cta * share + unit;
        if (writes && unit < share && output < RNN_OUTPUTS)
            y[output] = next[i][0];
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++)
            self.state[Turn][i][s] = next[i][s];
    }
}

/// Loads or stores the states of a turn's items.
RNN_INLINE void rnn_exchange_states(const RnnRun &run, const RnnPlace &place, int turn,
                                    float (&state)[rnn_item_count][RNN_SOME(RNN_STATES)],
                                    bool store)
{
    const bool has_row = turn * RNN_ROWS + rnn_item_row() < place.rows;
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++) {
            const int size = rnn_state_sizes[s], share = rnn_share(size);
            const int unit = rnn_item_unit(i), of_all = place.cta * share + unit;
            const bool owned = unit < share && of_all < size && has_row;
            float *at = run.states.at[s] + rnn_batch_row(place, turn) * size + of_all;
            if (store && owned)
                *at = *place.stuck ? __int_as_float(0x7fffffff) : state[i][s];
            else if (!store)
                state[i][s] = owned ? *at : 0.0f;
        }
}

/// All steps of a row group, as a worker.
RNN_INLINE void rnn_work(const RnnRun &run, const RnnPlace &place, RnnWorker &self)
{
    long long times[RNN_TURNS] = {};
#pragma unroll
    for (int turn = 0; turn < RNN_TURNS; turn++) {
        const bool has_row = turn * RNN_ROWS + rnn_item_row() < place.rows;
        const RnnRow whole = {(int)run.timesteps, (int)run.timesteps - 1};
        const RnnRow row = has_row && run.rows ? run.rows[rnn_batch_row(place, turn)] : whole;
        self.steps[turn] = has_row ? row.steps : 0;
        self.last[turn] = row.last;
        if (self.steps[turn] > 0)
            times[turn] = rnn_time(run, place, turn, 0);
        rnn_exchange_states(run, place, turn, self.state[turn], false);
        if (turn < place.turns) {
            rnn_publish_initial<0>(run, place, turn, self.state[turn]);
            rnn_sync_some(RNN_PUBLISH_BARRIER + turn, RNN_WORKERS + 32);
        }
    }
#pragma unroll 1
    for (long long step = 0; step < place.steps; step++) {
#pragma unroll
        for (int i = 0; i < rnn_held; i++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                rnn_keep(self.weights[i][k]);
        asm volatile("" : "+r"(self.rest)); // so that addresses are made where they are used
        rnn_step<0>(run, place, self, step, times);
#if RNN_TURNS > 1
        if (place.turns > 1)
            rnn_step<1>(run, place, self, step, times);
#endif
    }
#pragma unroll
    for (int turn = 0; turn < RNN_TURNS; turn++)
        rnn_exchange_states(run, place, turn, self.state[turn], true);
}

/// Loads weights and vectors, which hold for every row group.
RNN_INLINE void rnn_begin_worker(const RnnRun &run, const RnnPlace &place, RnnWorker &self)
{
    self.group = place.warp / 4;
    self.slot.advance(self.group);
    self.partial = 0;
    self.rest = place.address + self.group * rnn_rest_bytes;
    const uint4 *held = run.weights + place.cta * (rnn_packed_bytes / 16) +
                        self.group * rnn_held * 4 * RNN_GROUP_THREADS +
                        threadIdx.x % RNN_GROUP_THREADS;
#pragma unroll
    for (int i = 0; i < rnn_held; i++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            self.weights[i][k] = rnn_load_once(held + (i * 4 + k) * RNN_GROUP_THREADS);
}
RNN_INLINE void rnn_load_shared(const RnnRun &run, const RnnPlace &place)
{
    const uint4 *from =
        run.weights + place.cta * (rnn_packed_bytes / 16) + 2 * rnn_held * 4 * RNN_GROUP_THREADS;
    for (int i = threadIdx.x; i < 2 * rnn_rest_bytes / 16; i += RNN_THREADS)
        ((uint4 *)place.shared)[i] = from[i];
    float *vectors = (float *)(place.shared + rnn_vectors_at);
    for (int i = threadIdx.x; i < rnn_vectors * RNN_SHARE; i += RNN_THREADS) {
        const int unit = place.cta * RNN_SHARE + i % RNN_SHARE;
        int vector = i / RNN_SHARE;
        const float *of = run.bias;
        if (vector >= RNN_BIASES + RNN_RECURRENT_BIASES)
            of = run.parameter, vector -= RNN_BIASES + RNN_RECURRENT_BIASES;
        else if (vector >= RNN_BIASES)
            of = run.recurrent_bias, vector -= RNN_BIASES;
        vectors[i] = of && unit < RNN_UNITS ? of[vector * RNN_UNITS + unit] : 0.0f;
    }
}

/// The place of the CTA in its group; barriers are made.
RNN_INLINE void rnn_begin(const RnnRun &run, RnnPlace &place)
{
    extern __shared__ float4 rnn_shared[];
    place.shared = (char *)rnn_shared;
    place.address = rnn_shared_address(rnn_shared);
    place.full = place.address + rnn_barriers_at;
    place.empty = place.full + RNN_SLOTS * 8;
    place.stuck = (volatile int *)(place.shared + rnn_barriers_at + 2 * RNN_SLOTS * 8);
    place.cta = blockIdx.x % RNN_CTAS;
    place.warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0); // known to be one for a warp
    place.lane = threadIdx.x % 32;
    place.buffers = run.buffers + blockIdx.x / RNN_CTAS * rnn_group_bytes;
    place.epoch = *(volatile unsigned *)&run.epochs[blockIdx.x / RNN_CTAS] + 1;
    if (threadIdx.x == 0) {
        *place.stuck = 0;
        for (int i = 0; i < RNN_SLOTS; i++) {
            rnn_barrier_init(place.full + i * 8, 1);
            rnn_barrier_init(place.empty + i * 8, 4); // warps
        }
        rnn_barriers_ready();
    }
    rnn_load_shared(run, place);
    rnn_fence_bulk(); // wgmma reads weights as bulk copies read memory
    __syncthreads();
}

/// Goes through the row groups of this group of CTAs, each with `of_rows`.
template <class OfRows>
RNN_INLINE void rnn_each_row_group(const RnnRun &run, RnnPlace &place, OfRows of_rows)
{
    const long long groups = gridDim.x / RNN_CTAS;
    for (place.first_row = blockIdx.x / RNN_CTAS * (long long)rnn_group_rows;
         place.first_row < run.batch; place.first_row += groups * rnn_group_rows) {
        const long long left = run.batch - place.first_row;
        place.rows = left < rnn_group_rows ? (int)left : rnn_group_rows;
        place.turns = (place.rows + RNN_ROWS - 1) / RNN_ROWS;
        place.steps = run.rows ? 0 : run.timesteps;
        for (int row = 0; run.rows && row < place.rows; row++) {
            const int steps = run.rows[place.first_row + row].steps;
            place.steps = steps > place.steps ? steps : place.steps;
        }
        place.steps = __shfl_sync(0xffffffff, place.steps, 0);
        if (place.steps == 0)
            continue;
        of_rows();
        place.epoch += (unsigned)place.steps;
    }
}

/// Tells the host that a wait has run out, where it has no fault to read yet.
RNN_INLINE void rnn_report(const RnnRun &run)
{
    if (*(volatile int *)run.fault || atomicCAS(run.fault, 0, run.fault_kind))
        return;
    run.fault[3] = run.layer;
    __threadfence_system();
}

/// The warp that copies operands, for all steps of a row group.
RNN_INLINE void rnn_copy_operands(const RnnPlace &place, RnnSlot &slot)
{
#pragma unroll 1
    for (long long step = 0; step < place.steps; step++)
#pragma unroll 1
        for (int turn = 0; turn < place.turns; turn++)
            rnn_copy_phases<0>(place, slot, turn, place.epoch + (unsigned)step);
}

/// The warp that sets flags, for all steps of a row group.
RNN_INLINE void rnn_announce(const RnnPlace &place)
{
    for (int turn = 0; turn < place.turns; turn++) {
        rnn_sync_some(RNN_PUBLISH_BARRIER + turn, RNN_WORKERS + 32);
        rnn_fence_release();
        rnn_set_initial_flags<0>(place, turn);
    }
#pragma unroll 1
    for (long long step = 0; step < place.steps; step++)
#pragma unroll 1
        for (int turn = 0; turn < place.turns; turn++)
            rnn_set_flags<0>(place, turn, place.epoch + (unsigned)step, step + 1 == place.steps);
}

RNN_INLINE void rnn_run_role(const RnnRun &run, RnnPlace &place)
{
    if (place.warp >= RNN_WORKERS / 32) {
        rnn_registers_less<40>();
        if (place.warp == RNN_WORKERS / 32) {
            RnnSlot slot;
            rnn_each_row_group(run, place, [&] { rnn_copy_operands(place, slot); });
        } else if (place.warp == RNN_WORKERS / 32 + 1)
            rnn_each_row_group(run, place, [&] { rnn_announce(place); });
        return;
    }
    rnn_registers_more<232>();
    RnnWorker self;
    rnn_begin_worker(run, place, self);
    rnn_each_row_group(run, place, [&] { rnn_work(run, place, self); });
    // Every CTA of the group has read the epoch: this one has used what they sent.
    if (place.cta == 0 && threadIdx.x == 0)
        run.epochs[blockIdx.x / RNN_CTAS] = place.epoch - 1;
    if (*place.stuck)
        rnn_report(run);
}

/// Block `index` of all phases' and where it lies in K and among the rows of R.
struct RnnBlockPlace {
    int phase, tile, k;
};
RNN_INLINE RnnBlockPlace rnn_block_place(int index, int group)
{
    RnnBlockPlace at = {};
    while (index >= rnn_first_block(at.phase + 1))
        at.phase++;
    index -= rnn_first_block(at.phase);
    at.tile = index / rnn_blocks(at.phase);
    const int block = index % rnn_blocks(at.phase);
    at.k = (block / RNN_SLICE_BLOCKS * 2 + group) * RNN_SLICE +
           block % RNN_SLICE_BLOCKS * RNN_BLOCK_DEPTH;
    return at;
}

/// Two neighbouring weights of row `m` of a CTA's rows of R, from k on; zeros beyond the ends.
RNN_INLINE unsigned rnn_weight_pair(const float *R, const float *P, int phase, int cta, int m,
                                    int k)
{
    const RnnPhase &of = rnn_phases[phase];
    const int share = rnn_share(of.size), gate = m / share, unit = cta * share + m % share;
    unsigned pair = 0;
    for (int e = 0; e < 2; e++)
        if (gate < of.row_count && unit < of.size && k + e < of.operand_size) {
            const float *matrix = of.matrix == RNN_MATRIX_P ? P : R;
            const long long row = (long long)of.rows[gate] * of.size + unit;
            pair |= (unsigned)rnn_narrow(matrix[row * of.operand_size + k + e]) << 16 * e;
        }
    return pair;
}

extern "C" __global__ void __launch_bounds__(RNN_THREADS, 1) rnn_run(const RnnRun run)
{
    RnnPlace place;
    rnn_begin(run, place);
    rnn_run_role(run, place);
}

/// Packs canonical R [gates*H, K] and P [P, H] for each CTA, with zeros beyond the ends: the
/// fragments in registers, [group][block][16 of K][thread], then each group's blocks in shared
/// memory.
extern "C" __global__ void rnn_pack(const float *R, const float *P, uint4 *packed)
{
    constexpr int of_cta = (int)(rnn_packed_bytes / 16);
    constexpr int held = rnn_held * 4 * RNN_GROUP_THREADS; // of a group
    for (long long at = blockIdx.x * blockDim.x + threadIdx.x; at < (long long)RNN_CTAS * of_cta;
         at += (long long)gridDim.x * blockDim.x) {
        const int cta = (int)(at / of_cta), within = (int)(at % of_cta);
        unsigned words[4];
        if (within < 2 * held) {
            const int thread = within % RNN_GROUP_THREADS, warp = thread / 32, lane = thread % 32;
            const int part = within / RNN_GROUP_THREADS % 4;
            const RnnBlockPlace block = rnn_block_place(
                within % RNN_SOME(held) / (4 * RNN_GROUP_THREADS), within / RNN_SOME(held));
            for (int i = 0; i < 4; i++)
                words[i] = rnn_weight_pair(R, P, block.phase, cta,
                                           block.tile * 64 + warp * 16 + lane / 4 + i % 2 * 8,
                                           block.k + part * 16 + i / 2 * 8 + lane % 4 * 2);
        } else {
            constexpr int rest = RNN_SOME(rnn_rest_bytes / 16);
            const int group = (within - 2 * held) / rest;
            int left = (within - 2 * held) % rest, index = rnn_held;
            RnnBlockPlace block = rnn_block_place(index, group);
            int rows = rnn_tile_rows(block.phase, block.tile);
            while (left >= 8 * rows) {
                left -= 8 * rows;
                block = rnn_block_place(++index, group);
                rows = rnn_tile_rows(block.phase, block.tile);
            }
            for (int i = 0; i < 4; i++)
                words[i] = rnn_weight_pair(R, P, block.phase, cta, block.tile * 64 + left % rows,
                                           block.k + left / rows * 8 + i * 2);
        }
        packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
#endif
