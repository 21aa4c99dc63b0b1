// The whole recurrence of one batch row in one CTA: what the skeletons unrolled.cu and
// persistent_cta.cu share. Time never leaves the chip: R is read once, h travels through shared
// memory, every state and carry stays in the registers of the thread that owns its unit.
//
// S = RNN_LANES threads a unit (a power of two, neighbours in a warp), unit = thread / S. A thread
// holds all gates of its unit over a slice of K = operand size, in chunks of 4 weights: chunk j of
// lane s covers k = 4*(j*S + s) ... + 3, so that the S lanes read S*16 consecutive bytes of h.
//
//      K ->  lane 0   lane 1   lane 2   lane 3   lane 0  ...         registers: the first
//   gate i  [w w w w][w w w w][w w w w][w w w w][w w w w]            RNN_REGISTER_CHUNKS chunks
//   gate f  [  ...                                                   shared memory: the rest,
//                                                                    [chunk][thread], no conflict
//   step t:  barrier | h, W*x from shared memory | FFMA | xor shuffles over S | pointwise, in all S
//            lanes alike | lane 0 stores h for t+1 (other buffer) and y | next barrier
//
// One barrier a step, one more for each further product whose operand is made in the step, and two
// for the norms of a phase. W*x comes through a ring of RNN_RING steps by cp.async; step t's group
// has arrived before the barrier that opens step t, and slot t-1 is free after it.
//
// A row takes rows[row].steps steps, step s at time order[row*T + s] (all T in turn without an
// order). A time is loaded one step before it is used, so that no step waits for it; the branches
// on `order` are the same for all threads. With heads, a thread's K is the block of its unit.
//
// Shared memory: ring [RNN_RING][RNN_INPUT_STRIDE] | operands [phase][2][head][K padded] | weights.
#ifndef RNN_RECURRENCE_CUH
#define RNN_RECURRENCE_CUH

#include "cuda/cell.cuh"
#include "cuda/prim/async.cuh"
#include "cuda/prim/early.cuh"
#include "cuda/prim/shared.cuh"

#ifndef RNN_THREADS
#define RNN_THREADS 256
#define RNN_LANES 4
#define RNN_RING 8
#define RNN_UNROLL 4
#define RNN_REGISTER_CHUNKS 16
#endif

/// Chunks of one gate in one thread.
constexpr __device__ int rnn_chunks(int phase)
{
    return rnn_phases[phase].row_count > 0
               ? (rnn_phases[phase].operand_size / rnn_phases[phase].heads + 4 * RNN_LANES - 1) /
                     (4 * RNN_LANES)
               : 0;
}
/// Floats from one head's values in an operand buffer to the next's, and of a whole buffer.
constexpr __device__ int rnn_head_stride(int phase)
{
    return rnn_chunks(phase) * 4 * RNN_LANES;
}
constexpr __device__ int rnn_operand_stride(int phase)
{
    return rnn_head_stride(phase) * rnn_phases[phase].heads;
}
/// Index of a phase's first chunk in its thread; of the phase count: all chunks.
constexpr __device__ int rnn_first_chunk(int phase)
{
    int first = 0;
    for (int p = 0; p < phase; p++)
        first += rnn_chunks(p) * rnn_phases[p].row_count;
    return first;
}
/// Where a phase's two operand buffers begin, in floats; of the phase count: the end.
constexpr __device__ int rnn_operand_at(int phase)
{
    int at = RNN_RING * RNN_INPUT_STRIDE;
    for (int p = 0; p < phase; p++)
        at += 2 * rnn_operand_stride(p);
    return at;
}
/// Whether the operand is made in the same step, or was there when the step began.
constexpr __device__ bool rnn_waits(int phase)
{
    return rnn_phases[phase].row_count > 0 && !rnn_phases[phase].operand_is_state;
}

constexpr int rnn_chunk_count = rnn_first_chunk(RNN_PHASE_COUNT);
constexpr int rnn_held =
    RNN_REGISTER_CHUNKS < rnn_chunk_count ? RNN_REGISTER_CHUNKS : rnn_chunk_count;
static_assert(RNN_RING >= 2 && (RNN_RING & (RNN_RING - 1)) == 0, "the ring is a power of two");
static_assert(RNN_THREADS % 32 == 0 && RNN_THREADS >= RNN_UNITS * RNN_LANES, "a thread a slice");

/// What the run kernel is given; all device memory.
struct RnnRun {
    const float *input;                             ///< W*x: [B, T, RNN_INPUT_STRIDE]
    const rnn_chunk *weights;                       ///< by rnn_pack
    const float *bias, *recurrent_bias, *parameter; ///< canonical; NULL: none
    float *y;
    RnnStates states;
    long long timesteps, y_row_stride, y_step_stride;
    const int *order;             ///< [B, T]; NULL: every row takes all steps
    const RnnRow *rows;           ///< [B]; NULL with order
    const float *recurrent_scale; ///< [B, operand of R]; NULL: none
};

/// What one thread keeps over all steps.
struct RnnThread {
    rnn_chunk weights[RNN_SOME(rnn_held)];
    float bias[RNN_SOME(RNN_BIASES)], recurrent_bias[RNN_SOME(RNN_RECURRENT_BIASES)];
    float parameter[RNN_SOME(RNN_PARAMETERS)];
    float state[RNN_SOME(RNN_STATES)];
    unsigned shared; ///< where the CTA's shared memory begins
    float scale;     ///< of this unit's value in R's operands
    int unit, lane, steps, last;
    int time, ahead; ///< with an order: times of this step and of the next to be fetched
    float *y;        ///< where this step's output goes
};

/// Where value `unit` of the operand of phase Reader lies in a buffer of it.
template <int Reader> RNN_INLINE int rnn_operand_index(int unit)
{
    constexpr RnnPhase reader = rnn_phases[Reader];
    if constexpr (reader.heads == 1)
        return unit;
    constexpr int block = reader.operand_size / reader.heads;
    return unit / block * rnn_head_stride(Reader) + unit % block;
}

/// Operand `value` of phase Reader as its product takes it.
template <int Reader> RNN_INLINE float rnn_operand_of(const RnnThread &self, float value)
{
    if constexpr (RNN_RECURRENT_DROPOUT && rnn_phases[Reader].matrix == RNN_MATRIX_R)
        value *= self.scale;
    return rnn_round(value);
}

/// Where chunk i lies, of those that no register holds.
RNN_INLINE unsigned rnn_rest_at(const RnnThread &self, int i)
{
    return self.shared + rnn_operand_at(RNN_PHASE_COUNT) * 4 +
           ((i - rnn_held) * RNN_THREADS + threadIdx.x) * sizeof(rnn_chunk);
}

/// acc[gate] = this phase's rows of the matrix times its operand, summed over the lanes.
template <int Phase>
RNN_INLINE void rnn_multiply(const RnnThread &self, unsigned operand, float *product)
{
    constexpr int gates = rnn_phases[Phase].row_count, chunks = rnn_chunks(Phase);
    constexpr int first = rnn_first_chunk(Phase);
    constexpr int parts = gates >= 4 ? 1 : gates >= 2 ? 2 : 4; // independent sums a gate
    float sums[gates][parts] = {};
    if constexpr (rnn_phases[Phase].heads > 1) {
        constexpr int units = rnn_phases[Phase].size / rnn_phases[Phase].heads;
        const int head = self.unit / units;
        operand += (head < rnn_phases[Phase].heads ? head : 0) * rnn_head_stride(Phase) * 4;
    }
    operand += self.lane * 16;
#pragma unroll
    for (int j = 0; j < chunks; j++) {
        float4 h;
        rnn_shared_load(h, operand + j * RNN_LANES * 16);
#pragma unroll
        for (int g = 0; g < gates; g++) {
            const int i = first + j * gates + g;
            rnn_chunk chunk = self.weights[i < rnn_held ? i : 0];
            if (i >= rnn_held)
                rnn_shared_load(chunk, rnn_rest_at(self, i));
            const float4 w = rnn_chunk_weights(chunk);
            sums[g][0] = fmaf(w.x, h.x, sums[g][0]);
            sums[g][1 % parts] = fmaf(w.y, h.y, sums[g][1 % parts]);
            sums[g][2 % parts] = fmaf(w.z, h.z, sums[g][2 % parts]);
            sums[g][3 % parts] = fmaf(w.w, h.w, sums[g][3 % parts]);
        }
    }
#pragma unroll
    for (int g = 0; g < gates; g++) {
        product[g] = sums[g][0];
#pragma unroll
        for (int part = 1; part < parts; part++)
            product[g] += sums[g][part];
    }
#pragma unroll
    for (int mask = RNN_LANES / 2; mask > 0; mask /= 2)
#pragma unroll
        for (int g = 0; g < gates; g++)
            product[g] += __shfl_xor_sync(0xffffffff, product[g], mask);
}

/// Stores what phase Phase has made and phase Reader multiplies, for all Readers from this one on.
/// `parity` is that of the step; a state is read in the next one.
template <int Phase, int Reader>
RNN_INLINE void rnn_publish(const RnnThread &self, const float *states, const float *carries,
                            int parity)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        if constexpr (rnn_feeds(Phase, Reader)) {
            constexpr RnnPhase reader = rnn_phases[Reader];
            const int buffer = reader.operand_is_state ? parity ^ 1 : parity;
            const float value =
                reader.operand_is_state ? states[reader.operand] : carries[reader.operand];
            if (self.lane == 0 && self.unit < reader.operand_size)
                rnn_shared_store(self.shared +
                                     (rnn_operand_at(Reader) + buffer * rnn_operand_stride(Reader) +
                                      rnn_operand_index<Reader>(self.unit)) *
                                         4,
                                 rnn_operand_of<Reader>(self, value));
        }
        rnn_publish<Phase, Reader + 1>(self, states, carries, parity);
    }
}

#if RNN_NORMS > 0
/// sums[n] over all threads, in one order and to the same bits in all of them. `turn`: which of two
/// buffers; a barrier of the other turn lies between two uses of one.
RNN_INLINE void rnn_sum_threads(float *sums, int turn)
{
    __shared__ float parts[2][RNN_NORMS][32];
    constexpr int warps = RNN_THREADS / 32;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int n = 0; n < RNN_NORMS; n++) {
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2)
            sums[n] += __shfl_xor_sync(0xffffffff, sums[n], mask);
        if (lane == 0)
            parts[turn][n][warp] = sums[n];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < RNN_NORMS; n++) {
        sums[n] = lane < warps ? parts[turn][n][lane] : 0.0f;
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2)
            sums[n] += __shfl_xor_sync(0xffffffff, sums[n], mask);
    }
}

/// Mean and 1/sqrt(variance + 1e-5) of each norm of a phase, over its members and all units: the
/// mean first, then the squares of what is left.
template <int Phase>
RNN_INLINE void rnn_normalise(bool counts, const float *member, float *statistic)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
    float sums[RNN_NORMS];
#pragma unroll
    for (int pass = 0; pass < 2; pass++) {
        int at = 0;
#pragma unroll
        for (int n = 0; n < RNN_NORMS; n++) {
            sums[n] = 0.0f;
#pragma unroll
            for (int m = 0; m < phase.norms[n]; m++, at++) {
                const float value = pass ? member[at] - statistic[2 * n] : member[at];
                sums[n] += pass ? value * value : value;
            }
            sums[n] = counts ? sums[n] : 0.0f;
        }
        rnn_sum_threads(sums, pass);
#pragma unroll
        for (int n = 0; n < RNN_NORMS; n++) {
            const float mean = sums[n] / (float)(RNN_SOME(phase.norms[n]) * phase.size);
            statistic[2 * n + pass] = pass ? 1.0f / sqrtf(mean + 1e-5f) : mean;
        }
    }
}
#endif

/// The time of step s < self.steps of this CTA's row, from the order.
RNN_INLINE int rnn_ordered_time(const RnnRun &run, int s)
{
    return __ldg(run.order + (blockIdx.x * run.timesteps + s));
}

/// The time of step s without an order.
RNN_INLINE int rnn_plain_time(const RnnRun &run, int s)
{
    return RNN_REVERSED ? (int)run.timesteps - 1 - s : s;
}

/// Starts the copy of step s's W*x, at its time, into its slot; an empty group beyond the end.
RNN_INLINE void rnn_fetch(const RnnRun &run, const RnnThread &self, int s, int time)
{
    const float *from = run.input + (blockIdx.x * run.timesteps + time) * RNN_INPUT_STRIDE;
    const unsigned to = self.shared + (s & (RNN_RING - 1)) * RNN_INPUT_STRIDE * 4;
#pragma unroll
    for (int part = 0; part < RNN_INPUT_STRIDE; part += 4 * RNN_THREADS) {
        const int i = part + 4 * (int)threadIdx.x;
        rnn_copy16_if(to + i * 4, from + i, s < self.steps && i < RNN_INPUT_STRIDE);
    }
    rnn_copy_commit();
}

/// What a step does for its output and for later steps, while its product is summed: the place of
/// its output, and the copy into the slot that the step before has left.
RNN_INLINE void rnn_look_ahead(const RnnRun &run, RnnThread &self, int s)
{
    int time = rnn_plain_time(run, s), ahead = rnn_plain_time(run, s + RNN_RING - 1);
    if (run.order) {
        time = self.time;
        ahead = self.ahead;
        self.time = s + 1 < self.steps ? rnn_ordered_time(run, s + 1) : 0;
        self.ahead = s + RNN_RING < self.steps ? rnn_ordered_time(run, s + RNN_RING) : 0;
    }
    rnn_fetch(run, self, s + RNN_RING - 1, ahead);
    if (RNN_SEQUENCE_OUT) {
        const int position = RNN_GO_BACKWARDS ? self.last - time : time;
        self.y = run.y + blockIdx.x * run.y_row_stride + position * run.y_step_stride + self.unit;
        asm volatile("" : "+l"(self.y)); // here, and not where the barrier waits for it
    }
}

/// Phases Phase, Phase + 1, ... of one step.
template <int Phase>
RNN_INLINE void rnn_run_phases(const RnnRun &run, RnnThread &self, int s, const float *input,
                               float *carries, float *next, int parity)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        float product[RNN_GATES_MAX] = {};
        if constexpr (rnn_waits(Phase))
            __syncthreads();
        if constexpr (rnn_phases[Phase].row_count > 0)
            rnn_multiply<Phase>(
                self,
                self.shared + (rnn_operand_at(Phase) + parity * rnn_operand_stride(Phase)) * 4,
                product);
        if constexpr (Phase == 0)
            rnn_look_ahead(run, self, s);
        float carries_out[RNN_SOME(RNN_CARRIES)];
#pragma unroll
        for (int i = 0; i < RNN_SOME(RNN_CARRIES); i++)
            carries_out[i] = carries[i];
        float statistic[2 * RNN_SOME(RNN_NORMS)];
#if RNN_NORMS > 0
        if constexpr (rnn_phases[Phase].norms[0] > 0) {
            float member[RNN_MEMBERS];
            rnn_members<Phase>(input, product, self.bias, self.recurrent_bias, self.parameter,
                               self.state, carries, member);
            rnn_normalise<Phase>(self.lane == 0 && self.unit < rnn_phases[Phase].size, member,
                                 statistic);
        }
#endif
        rnn_pointwise<Phase>(input, product, self.bias, self.recurrent_bias, self.parameter,
                             self.state, carries, statistic, carries_out, next);
#pragma unroll
        for (int i = 0; i < RNN_SOME(RNN_CARRIES); i++)
            carries[i] = carries_out[i];
        rnn_publish<Phase, 0>(self, next, carries, parity);
        rnn_run_phases<Phase + 1>(run, self, s, input, carries, next, parity);
    }
}

/// One step. `slot` is s modulo RNN_RING, a constant where the loop is unrolled by its multiples.
RNN_INLINE void rnn_step(const RnnRun &run, RnnThread &self, int s, int slot)
{
    rnn_copy_wait<RNN_RING - 2>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < rnn_held; i++)
        rnn_keep(self.weights[i]);
    float input[RNN_SOME(RNN_GATES)];
    const int column = self.unit < RNN_UNITS ? self.unit : 0;
#pragma unroll
    for (int g = 0; g < RNN_GATES; g++)
        rnn_shared_load(input[g],
                        self.shared + (slot * RNN_INPUT_STRIDE + g * RNN_UNITS + column) * 4);

    float carries[RNN_SOME(RNN_CARRIES)] = {}, next[RNN_SOME(RNN_STATES)];
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        next[i] = self.state[i];
    rnn_run_phases<0>(run, self, s, input, carries, next, slot & 1);
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        self.state[i] = next[i];
    if (RNN_SEQUENCE_OUT && self.lane == 0 && self.unit < RNN_OUTPUTS)
        __stwb(self.y, self.state[0]);
}

/// Puts the initial operands into the buffers that step 0 reads.
template <int Reader> RNN_INLINE void rnn_publish_initial(const RnnThread &self)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        constexpr RnnPhase reader = rnn_phases[Reader];
        if constexpr (reader.row_count > 0 && reader.operand_is_state)
            if (self.lane == 0 && self.unit < reader.operand_size)
                rnn_shared_store(
                    self.shared +
                        (rnn_operand_at(Reader) + rnn_operand_index<Reader>(self.unit)) * 4,
                    rnn_operand_of<Reader>(self, self.state[reader.operand]));
        rnn_publish_initial<Reader + 1>(self);
    }
}

/// The row's steps, the first times of its order, and the first copies of W*x, once that is there.
RNN_INLINE void rnn_begin_row(const RnnRun &run, RnnThread &self)
{
    self.steps = (int)run.timesteps;
    self.last = self.steps - 1;
    self.time = self.ahead = 0;
    rnn_grid_wait();
    if (run.order) {
        self.steps = run.rows[blockIdx.x].steps;
        self.last = run.rows[blockIdx.x].last;
    }
    for (int s = 0; s < RNN_RING - 1; s++) {
        int time = rnn_plain_time(run, s);
        if (run.order)
            time = s < self.steps ? rnn_ordered_time(run, s) : 0;
        rnn_fetch(run, self, s, time);
    }
    if (run.order && self.steps > 0)
        self.time = rnn_ordered_time(run, 0);
    if (run.order && self.steps > RNN_RING - 1)
        self.ahead = rnn_ordered_time(run, RNN_RING - 1);
    self.scale = 1.0f;
    if (RNN_RECURRENT_DROPOUT && run.recurrent_scale && self.unit < rnn_scaled_size())
        self.scale = run.recurrent_scale[(long long)blockIdx.x * rnn_scaled_size() + self.unit];
}

/// Loads weights, vectors and states, and starts the ring.
RNN_INLINE void rnn_begin(const RnnRun &run, RnnThread &self)
{
    extern __shared__ float4 rnn_shared[];
    self.shared = rnn_shared_address(rnn_shared);
    rnn_keep(self.shared);
    self.unit = threadIdx.x / RNN_LANES;
    self.lane = threadIdx.x % RNN_LANES;
#pragma unroll
    for (int i = 0; i < rnn_held; i++)
        self.weights[i] = rnn_load_once(run.weights + i * RNN_THREADS + threadIdx.x);
    for (int i = rnn_held; i < rnn_chunk_count; i++)
        rnn_shared_store(rnn_rest_at(self, i), run.weights[i * RNN_THREADS + threadIdx.x]);
    const bool owns = self.unit < RNN_UNITS;
    for (int g = 0; g < RNN_SOME(RNN_BIASES); g++)
        self.bias[g] = owns && run.bias ? run.bias[g * RNN_UNITS + self.unit] : 0.0f;
    for (int g = 0; g < RNN_SOME(RNN_RECURRENT_BIASES); g++)
        self.recurrent_bias[g] =
            owns && run.recurrent_bias ? run.recurrent_bias[g * RNN_UNITS + self.unit] : 0.0f;
    for (int g = 0; g < RNN_SOME(RNN_PARAMETERS); g++)
        self.parameter[g] = owns && run.parameter ? run.parameter[g * RNN_UNITS + self.unit] : 0.0f;
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++) {
        const int size = rnn_state_sizes[i];
        self.state[i] =
            self.unit < size ? run.states.at[i][(long long)blockIdx.x * size + self.unit] : 0.0f;
    }
    for (int i = rnn_operand_at(0) + threadIdx.x; i < rnn_operand_at(RNN_PHASE_COUNT);
         i += RNN_THREADS)
        rnn_shared_store(self.shared + i * 4, 0.0f);
    rnn_begin_row(run, self);
    __syncthreads();
    rnn_publish_initial<0>(self);
}

/// Writes the final states, and y where only the last output is asked for.
RNN_INLINE void rnn_end(const RnnRun &run, const RnnThread &self)
{
    if (self.lane != 0)
        return;
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++) {
        const int size = rnn_state_sizes[i];
        if (self.unit < size)
            run.states.at[i][(long long)blockIdx.x * size + self.unit] = self.state[i];
    }
    if (!RNN_SEQUENCE_OUT && self.unit < RNN_OUTPUTS)
        run.y[blockIdx.x * run.y_row_stride + self.unit] = self.state[0];
}

/// Packs canonical R [gates*H, K/heads] and P [P, H] into [chunk][thread], with zeros beyond the
/// ends.
extern "C" __global__ void rnn_pack(const float *R, const float *P, rnn_chunk *packed)
{
    const int total = rnn_chunk_count * RNN_THREADS;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < total; at += gridDim.x * blockDim.x) {
        const int chunk = at / RNN_THREADS, thread = at % RNN_THREADS;
        const int unit = thread / RNN_LANES, lane = thread % RNN_LANES;
        int phase = 0;
        while (chunk >= rnn_first_chunk(phase + 1))
            phase++;
        const RnnPhase &of = rnn_phases[phase];
        const int within = chunk - rnn_first_chunk(phase);
        const int gate = within % of.row_count;
        const int k = 4 * (within / of.row_count * RNN_LANES + lane);
        const long long row = (long long)of.rows[gate] * of.size + unit;
        const int depth = of.operand_size / of.heads;
        const float *from = (of.matrix ? P : R) + row * depth;
        float w[4];
        for (int e = 0; e < 4; e++)
            w[e] = unit < of.size && k + e < depth ? from[k + e] : 0.0f;
        packed[at] = rnn_chunk_pack(w[0], w[1], w[2], w[3]);
    }
}

#endif
