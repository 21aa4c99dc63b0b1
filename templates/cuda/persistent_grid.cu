// Variant persistent_grid: one launch for all steps; the CTAs of a group share R and RNN_ROWS rows
// of the batch, each CTA owning RNN_SHARE units of every gate, and the operands of products travel
// through L2 in packets that carry their epoch (prim/packet.cuh). Groups are independent; a group
// takes row group after row group.
//
//     CTA c of a group: rows g*S + u of R, u < S units of gate g     K ->  warp 0 | warp 1 | ... 7
//                                                                  M  v   fragments: the first
//     step:  poll own K slice of the operand, straight into          RNN_HELD in registers, the
//            fragments | mma | partial sums to shared memory |       rest in shared memory
//            barrier | a thread sums 8 partials of its (unit, row),
//            pointwise, sends its operand values | y, W*x of later steps by cp.async
//
// There is one barrier a product: partial sums have two buffers, and a slot of the ring that was
// read in one step is filled again after the barrier of the next.
//
// K is cut into 8 slices, one a warp, and a sum is that of the slices in order: the bits of a row
// do not depend on its place or company. Element k of an operand belongs to slice k / slice, lane
// group q within it, tile j and word, so that the two packets of one mma fragment lie side by side:
//
//     buffer [parity][replica][slice][tile][8 rows][row, q: 32 lanes] of 16 bytes
//
// A buffer is written again two epochs later. By then every CTA has read it: it published the epoch
// between only after its barrier, and that is what the writer has waited for (rnn_is_ordered says
// for which cells). Epochs go on from launch to launch (`epochs`, one a group), so buffers are
// never cleared. A wait that lasts some seconds ends with a fault for the host and states of NaN.
//
// With an order (masks, lengths), times go through a ring of their own, twice as far ahead: a copy
// of W*x finds its time in shared memory. A row that is through sends the state that it keeps.
//
// In float32 each product is three of tf32 (high*high + high*rest + rest*high), with an error of
// about 2^-21 of the largest term: within float32's bound, at the tensor cores' speed.
//
// Floor of a step: one trip through L2 (0.6 us with 16 CTAs) and RNN_ROWS*K packets of 8 bytes a
// CTA; mma: M/16 * K/k * RNN_ROWS/8 tiles on four tensor cores, 6.2 cycles each. Limits: every CTA
// of the grid is resident (cooperative launch), cells without norms and with full matrices.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/persistent_grid.cu
#include "cuda/cell.cuh"
#include "cuda/input_product.cuh"
#include "cuda/prim/async.cuh"
#include "cuda/prim/mma.cuh"
#include "cuda/prim/packet.cuh"

#ifndef RNN_CTAS
#define RNN_CTAS 4     // of a group
#define RNN_SHARE 16   // units of a CTA
#define RNN_ROWS 8     // of the batch, of a group
#define RNN_RING 4     // steps of W*x ahead
#define RNN_HELD 32    // fragments of a thread in registers
#define RNN_REPLICAS 1 // of each operand buffer
#endif

enum {
    RNN_WARPS = 8,
    RNN_THREADS = 32 * RNN_WARPS,
    RNN_WORD = RNN_PRECISION >= 2 ? 2 : 1, // elements of a word
    RNN_TILE_K = 8 * RNN_WORD,
    RNN_ROW_TILES = RNN_ROWS / 8,
    RNN_TIMES = 2 * RNN_RING, // steps whose times are in shared memory
    RNN_POLLS_MAX = 1 << 22   // some seconds
};

/// Units of one CTA in a phase: of H, or in proportion of P.
constexpr __device__ int rnn_share(int size)
{
    return size == RNN_UNITS ? RNN_SHARE : ((size + RNN_CTAS - 1) / RNN_CTAS + 3) / 4 * 4;
}
constexpr __device__ int rnn_row_tiles(int phase) // of 16 rows of R
{
    return (rnn_phases[phase].row_count * rnn_share(rnn_phases[phase].size) + 15) / 16;
}
constexpr __device__ int rnn_k_tiles(int phase) // of one warp
{
    return rnn_phases[phase].row_count > 0
               ? (rnn_phases[phase].operand_size + RNN_WARPS * RNN_TILE_K - 1) /
                     (RNN_WARPS * RNN_TILE_K)
               : 0;
}
constexpr __device__ int rnn_first_fragment(int phase)
{
    int first = 0;
    for (int p = 0; p < phase; p++)
        first += rnn_row_tiles(p) * rnn_k_tiles(p);
    return first;
}
/// Where the buffers of a phase's operand begin, in pairs of packets; of the phase count: the end.
constexpr __device__ long long rnn_buffer_at(int phase)
{
    long long at = 0;
    for (int p = 0; p < phase; p++)
        at += 2ll * RNN_REPLICAS * RNN_WARPS * rnn_k_tiles(p) * RNN_ROW_TILES * 32;
    return at;
}
/// Floats of the partial sums, the largest of all phases, twice.
constexpr __device__ int rnn_partial_floats()
{
    int most = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_phases[p].row_count > 0 && rnn_row_tiles(p) * 16 > most)
            most = rnn_row_tiles(p) * 16;
    return 2 * RNN_WARPS * most * RNN_ROWS;
}
/// (unit, row) pairs of one thread.
constexpr __device__ int rnn_items()
{
    int most = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_share(rnn_phases[p].size) > most)
            most = rnn_share(rnn_phases[p].size);
    return (most * RNN_ROWS + RNN_THREADS - 1) / RNN_THREADS;
}

/// Length of R's operands, the same in all its phases; 0: no product with R.
constexpr __device__ int rnn_scaled_size()
{
    int size = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_phases[p].row_count > 0 && rnn_phases[p].matrix == RNN_MATRIX_R)
            size = rnn_phases[p].operand_size;
    return size;
}
/// The phase that makes the operand of `reader`, and whether every CTA sends a part of it.
constexpr __device__ int rnn_sender(int reader)
{
    int sender = 0;
    while (sender + 1 < RNN_PHASE_COUNT && !rnn_feeds(sender, reader))
        sender++;
    return sender;
}
constexpr __device__ bool rnn_all_send(int reader)
{
    const int size = rnn_phases[reader].operand_size;
    return rnn_phases[reader].row_count > 0 && (RNN_CTAS - 1) * rnn_share(size) < size;
}
/// Whether all CTAs have multiplied a buffer when any fills it again, two epochs later: it has
/// received something that each of them sent after that product.
constexpr __device__ bool rnn_is_ordered()
{
    for (int reader = 0; reader < RNN_PHASE_COUNT; reader++) {
        bool waits = rnn_phases[reader].row_count == 0;
        for (int p = 0; p < RNN_PHASE_COUNT; p++) {
            const bool sent_after = !rnn_phases[p].operand_is_state || rnn_sender(p) >= reader;
            const bool received = p <= rnn_sender(reader);
            if (rnn_all_send(p))
                waits = waits || (rnn_phases[reader].operand_is_state ? received && sent_after
                                                                      : received || sent_after);
        }
        if (!waits)
            return false;
    }
    return true;
}

constexpr int rnn_fragment_count = rnn_first_fragment(RNN_PHASE_COUNT);
constexpr int rnn_held = RNN_HELD < rnn_fragment_count ? RNN_HELD : rnn_fragment_count;
constexpr int rnn_item_count = rnn_items();
constexpr int rnn_ring_floats = RNN_ROWS * RNN_GATES * RNN_SHARE; // of one step
static_assert(RNN_ROWS % 8 == 0 && RNN_SHARE % 4 == 0, "tiles of rows and units");
static_assert(RNN_NORMS == 0, "a mean needs all units of a row");
static_assert(rnn_is_ordered(), "a buffer may be written before all have read it");

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

/// What one thread keeps over all steps of a row group.
struct RnnThread {
    uint4 weights[RNN_SOME(rnn_held)];
    const uint4 *rest; ///< its further fragments in shared memory, RNN_THREADS apart
    float *partials, *ring;
    int *times; ///< [RNN_TIMES][RNN_ROWS], with an order
    uint4 *buffers;
    long long first_row;
    int rows; ///< of this row group that the batch has
    int cta, warp, lane;
    unsigned epoch; ///< of the operands that step 0 reads
    int turn;       ///< buffer of partial sums that the next product takes
    bool stuck;
    float bias[rnn_item_count][RNN_SOME(RNN_BIASES)];
    float recurrent_bias[rnn_item_count][RNN_SOME(RNN_RECURRENT_BIASES)];
    float parameter[rnn_item_count][RNN_SOME(RNN_PARAMETERS)];
    float state[rnn_item_count][RNN_SOME(RNN_STATES)];
    float scale[rnn_item_count]; ///< of the item's value in R's operands
    int steps, last;             ///< of the items' row
};

/// The item's unit within the CTA, and its row within the group.
RNN_INLINE int rnn_item_unit(int item)
{
    return (item * RNN_THREADS + (int)threadIdx.x) / RNN_ROWS;
}
RNN_INLINE int rnn_item_row()
{
    return (int)threadIdx.x % RNN_ROWS;
}

/// Where the pair of packets of slice, tile, row tile and lane lies in the buffers of a phase.
template <int Phase>
RNN_INLINE long long rnn_pair_at(int parity, int replica, int slice, int tile, int row_tile)
{
    return rnn_buffer_at(Phase) +
           ((((long long)parity * RNN_REPLICAS + replica) * RNN_WARPS + slice) *
                rnn_k_tiles(Phase) +
            tile) *
               RNN_ROW_TILES * 32 +
           row_tile * 32;
}

/// Polls this warp's slice of the operand of `Phase` until all of it has arrived.
template <int Phase>
RNN_INLINE void rnn_receive(RnnThread &self, unsigned epoch,
                            uint4 (&operand)[RNN_SOME(rnn_k_tiles(Phase))][RNN_ROW_TILES])
{
    constexpr int tiles = rnn_k_tiles(Phase), size = rnn_phases[Phase].operand_size;
    constexpr bool full = size == tiles * RNN_WARPS * RNN_TILE_K;
    const uint4 *from = self.buffers + self.lane +
                        rnn_pair_at<Phase>(epoch & 1, self.cta % RNN_REPLICAS, self.warp, 0, 0);
    const int first = self.warp * tiles * RNN_TILE_K + self.lane % 4 * tiles * 2 * RNN_WORD;
#pragma unroll
    for (int j = 0; j < tiles; j++)
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++) {
            // What never comes is there already, as zeros: rows beyond the batch, elements beyond
            // K.
            const int k = first + j * 2 * RNN_WORD;
            const bool no_row = n * 8 + self.lane / 4 >= self.rows;
            operand[j][n] =
                make_uint4(0, no_row || (!full && k >= size) ? epoch : epoch - 1, 0,
                           no_row || (!full && k + RNN_WORD >= size) ? epoch : epoch - 1);
        }
    bool waiting = !self.stuck;
    for (int polls = 0; waiting; polls++) {
        waiting = false;
#pragma unroll
        for (int j = 0; j < tiles; j++)
#pragma unroll
            for (int n = 0; n < RNN_ROW_TILES; n++) {
                uint4 &pair = operand[j][n];
                if (pair.y != epoch || pair.w != epoch) {
                    const bool first_only = !full && pair.w == epoch && pair.z == 0;
                    pair = rnn_packet_load2(from + (j * RNN_ROW_TILES + n) * 32);
                    if (first_only)
                        pair.z = 0, pair.w = epoch;
                }
            }
#pragma unroll
        for (int j = 0; j < tiles; j++)
#pragma unroll
            for (int n = 0; n < RNN_ROW_TILES; n++)
                waiting |= operand[j][n].y != epoch || operand[j][n].w != epoch;
        if (polls == RNN_POLLS_MAX)
            waiting = false, self.stuck = true;
    }
}

/// An operand of float32 as two of tf32. `finite` is `high` where that is finite, else 0, and so is
/// `rest`: an infinity counts once and is no NaN.
struct RnnSplit {
    unsigned high, finite, rest;
};
RNN_INLINE RnnSplit rnn_split(unsigned x)
{
    RnnSplit split = {rnn_tf32_high(x)};
    const bool is_finite = (split.high & 0x7f800000) != 0x7f800000;
    split.finite = is_finite ? split.high : 0;
    split.rest = is_finite ? rnn_tf32_rest(x, split.high) : 0;
    return split;
}

/// sums += a * b for all row tiles of R and of the batch at one tile of K.
template <int Tiles>
RNN_INLINE void rnn_multiply_tiles(float (&sums)[Tiles][RNN_ROW_TILES][4], const uint4 (&a)[Tiles],
                                   const uint4 (&b)[RNN_ROW_TILES])
{
#if RNN_PRECISION == 0
    unsigned high[Tiles][4], rest[Tiles][4];
#pragma unroll
    for (int m = 0; m < Tiles; m++) {
        const unsigned words[4] = {a[m].x, a[m].y, a[m].z, a[m].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            high[m][i] = rnn_tf32_high(words[i]);
            rest[m][i] = rnn_tf32_rest(words[i], high[m][i]);
        }
    }
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES; n++) {
        const RnnSplit x = rnn_split(b[n].x), z = rnn_split(b[n].z);
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma(sums[m][n], rest[m], x.finite, z.finite);
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma(sums[m][n], high[m], x.rest, z.rest);
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma(sums[m][n], high[m], x.high, z.high);
    }
#else
#pragma unroll
    for (int m = 0; m < Tiles; m++) {
        const unsigned words[4] = {a[m].x, a[m].y, a[m].z, a[m].w};
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++)
            rnn_mma(sums[m][n], words, b[n].x, b[n].z);
    }
#endif
}

RNN_INLINE float *rnn_partials(const RnnThread &self)
{
    return self.partials + self.turn * (rnn_partial_floats() / 2);
}

/// This warp's part of the product of `Phase`, to the partial sums [warp][16 * tiles][RNN_ROWS].
template <int Phase> RNN_INLINE void rnn_multiply(RnnThread &self, unsigned epoch)
{
    constexpr int row_tiles = rnn_row_tiles(Phase), tiles = rnn_k_tiles(Phase);
    constexpr int first = rnn_first_fragment(Phase);
    uint4 operand[RNN_SOME(tiles)][RNN_ROW_TILES];
    float sums[row_tiles][RNN_ROW_TILES][4] = {};
    rnn_receive<Phase>(self, epoch, operand);
#pragma unroll
    for (int j = 0; j < tiles; j++) {
        uint4 a[row_tiles];
#pragma unroll
        for (int m = 0; m < row_tiles; m++) {
            const int i = first + j * row_tiles + m;
            a[m] = i < rnn_held ? self.weights[i < rnn_held ? i : 0]
                                : self.rest[(i - rnn_held) * RNN_THREADS];
        }
        rnn_multiply_tiles<row_tiles>(sums, a, operand[j]);
    }
    float *to = rnn_partials(self) + (self.warp * row_tiles * 16 + self.lane / 4) * RNN_ROWS +
                self.lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < row_tiles; m++)
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++) {
            *(float2 *)(to + m * 16 * RNN_ROWS + n * 8) = make_float2(sums[m][n][0], sums[m][n][1]);
            *(float2 *)(to + (m * 16 + 8) * RNN_ROWS + n * 8) =
                make_float2(sums[m][n][2], sums[m][n][3]);
        }
}

/// Sends `value` of the item's unit, an operand of `Reader`, to all CTAs of the group. All threads
/// of a warp call it: words of 16-bit values are put together by neighbours.
template <int Reader>
RNN_INLINE void rnn_send(const RnnThread &self, int item, float value, unsigned epoch)
{
    constexpr RnnPhase reader = rnn_phases[Reader];
    constexpr int tiles = rnn_k_tiles(Reader), share = rnn_share(reader.operand_size);
    const int unit = rnn_item_unit(item), row = rnn_item_row();
    const int k = self.cta * share + unit;
    const bool owned = unit < share && k < reader.operand_size && row < self.rows;
#if RNN_RECURRENT_DROPOUT
    if (reader.matrix == RNN_MATRIX_R)
        value *= self.scale[item];
#endif
#if RNN_PRECISION >= 2
    const unsigned mine = owned ? rnn_narrow(value) : 0;
    const unsigned other = __shfl_xor_sync(0xffffffff, mine, RNN_ROWS);
    const unsigned word = mine | other << 16;
    if (!owned || unit % 2 != 0)
        return;
#else
    const unsigned word = __float_as_uint(rnn_round(value));
    if (!owned)
        return;
#endif
    const int slice = k / (tiles * RNN_TILE_K), within = k % (tiles * RNN_TILE_K);
    const int q = within / (tiles * 2 * RNN_WORD), at = within % (tiles * 2 * RNN_WORD);
    const long long pair =
        rnn_pair_at<Reader>(epoch & 1, 0, slice, at / (2 * RNN_WORD), row / 8) + row % 8 * 4 + q;
    char *to = (char *)(self.buffers + pair) + at % (2 * RNN_WORD) / RNN_WORD * 8;
    constexpr long long replica_bytes = 16ll * RNN_WARPS * tiles * RNN_ROW_TILES * 32;
#pragma unroll
    for (int replica = 0; replica < RNN_REPLICAS; replica++)
        rnn_packet_store(to + replica * replica_bytes, word, epoch);
}

/// Sends what phase Phase has made and phase Reader multiplies, for all Readers from this one on.
/// A state is for the next epoch, a carry for this one.
template <int Phase, int Reader>
RNN_INLINE void rnn_publish(const RnnThread &self, int item, const float *states,
                            const float *carries, unsigned epoch, bool last)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        if constexpr (rnn_feeds(Phase, Reader)) {
            constexpr RnnPhase reader = rnn_phases[Reader];
            if (!reader.operand_is_state)
                rnn_send<Reader>(self, item, carries[reader.operand], epoch);
            else if (!last)
                rnn_send<Reader>(self, item, states[reader.operand], epoch + 1);
        }
        rnn_publish<Phase, Reader + 1>(self, item, states, carries, epoch, last);
    }
}

/// Sends the initial operands.
template <int Reader> RNN_INLINE void rnn_publish_initial(const RnnThread &self)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        constexpr RnnPhase reader = rnn_phases[Reader];
        if constexpr (reader.row_count > 0 && reader.operand_is_state)
#pragma unroll
            for (int i = 0; i < rnn_item_count; i++)
                rnn_send<Reader>(self, i, self.state[i][reader.operand], self.epoch);
        rnn_publish_initial<Reader + 1>(self);
    }
}

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
            rnn_load_input(self, step, input);
        const float *partials = rnn_partials(self) + rnn_item_row();
        if constexpr (phase.row_count > 0)
            self.turn ^= 1;
#pragma unroll
        for (int i = 0; i < rnn_item_count; i++) {
            const int unit = rnn_item_unit(i);
            float product[RNN_GATES_MAX] = {};
            if constexpr (phase.row_count > 0)
                if (unit < share)
#pragma unroll
                    for (int w = 0; w < RNN_WARPS; w++)
#pragma unroll
                        for (int g = 0; g < phase.row_count; g++)
                            product[g] +=
                                partials[(w * rnn_row_tiles(Phase) * 16 + g * share + unit) *
                                         RNN_ROWS];
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

/// Starts the copy of the rows' times of `step` into their slot; 0 for rows that are through.
RNN_INLINE void rnn_fetch_times(const RnnRun &run, const RnnThread &self, long long step,
                                long long steps)
{
    const int row = threadIdx.x;
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
        for (int i = threadIdx.x; i < RNN_ROWS * RNN_GATES * copies; i += RNN_THREADS) {
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
        const int thread = at % RNN_THREADS, warp = thread / 32, lane = thread % 32;
        const int fragment = at / RNN_THREADS % rnn_fragment_count;
        const int cta = at / RNN_THREADS / rnn_fragment_count;
        int phase = 0;
        while (fragment >= rnn_first_fragment(phase + 1))
            phase++;
        const RnnPhase &of = rnn_phases[phase];
        const int within = fragment - rnn_first_fragment(phase);
        const int tile = within / rnn_row_tiles(phase), m = within % rnn_row_tiles(phase);
        const int tiles = rnn_k_tiles(phase), share = rnn_share(of.size);
        unsigned words[4];
        for (int i = 0; i < 4; i++) { // row of the tile: + 8 where i is odd; second word from 2 on
            const int row = m * 16 + lane / 4 + i % 2 * 8;
            const int gate = row / share, unit = cta * share + row % share;
            const int k = warp * tiles * RNN_TILE_K + lane % 4 * tiles * 2 * RNN_WORD +
                          tile * 2 * RNN_WORD + i / 2 * RNN_WORD;
            float w[2] = {};
            for (int e = 0; e < RNN_WORD; e++)
                if (gate < of.row_count && unit < of.size && k + e < of.operand_size)
                    w[e] = (of.matrix == RNN_MATRIX_P
                                ? P
                                : R)[((long long)of.rows[gate] * of.size + unit) * of.operand_size +
                                     k + e];
#if RNN_PRECISION >= 2
            words[i] = rnn_narrow(w[0]) | (unsigned)rnn_narrow(w[1]) << 16;
#else
            words[i] = __float_as_uint(rnn_round(w[0]));
#endif
        }
        packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
