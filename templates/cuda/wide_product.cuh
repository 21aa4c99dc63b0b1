// Products of many rows that the CTAs of a group share, for persistent_wide.cu: where weights,
// operands and partial sums lie, and how operands are published, copied and multiplied.
//
// An operand lies in memory as wgmma reads it, so that bulk copies carry it: in chunks of eight
// units of 16 bits,
//
//     buffer [reader][parity][turn][chunk][RNN_ROWS][8 units]
//
// and in shared memory a slice of RNN_SLICE units fills a slot of a ring. Slices go to the two
// warpgroups by turns; each keeps the sums of all rows of R over its slices, and a sum is that of
// the first plus that of the second: the bits of a row do not depend on its place or company. R is
// cut into blocks of 64 units of K by up to 64 rows:
//
//     block b of a warpgroup: slice b / (RNN_SLICE / 64) * 2 + warpgroup, tile of 64 rows of R
//         the first RNN_HELD in registers, as fragments of mma
//         the rest in shared memory, [8 chunks][rows that there are][8 units]: of a tile with fewer
//         than 64 rows, the sums beyond are of whatever lies there, and nobody reads them
//     partial sums [2][warpgroup][rows of R][rnn_partial_stride]
//
// Who publishes stores its units, and a warp of its own stores the epoch to the CTA's flag once the
// stores are released (fence); who reads acquires the flags of all CTAs that a slice has units of,
// passes on to the proxy of bulk copies (fence), and starts the copy. A buffer is written again two
// epochs later. By then every CTA has copied it: it published the epoch between after that, and
// that is what the writer has waited for, since the last slice waits for all CTAs.
//
// Slots are even in number, so that each is of one warpgroup: the other one's phases of its barrier
// would pass unseen, and the parity of a phase says nothing to who has missed the one before. A
// warpgroup frees a slot once its next slice is multiplied, so it needs two.
#ifndef RNN_WIDE_PRODUCT_CUH
#define RNN_WIDE_PRODUCT_CUH

#include "cuda/cell.cuh"
#include "cuda/exchange_order.cuh"
#include "cuda/prim/async.cuh"
#include "cuda/prim/bulk.cuh"
#include "cuda/prim/exchange.cuh"
#include "cuda/prim/wgmma.cuh"

#ifndef RNN_CTAS
#define RNN_CTAS 4   // of a group
#define RNN_SHARE 16 // units of a CTA, even
#define RNN_ROWS 16  // of the batch, of a product: 8, 16, 32 or 64
#define RNN_TURNS 2  // products of other rows that a group makes by turns: 1 or 2
#define RNN_SLICE 64 // units of K of a slot, a multiple of 64
#define RNN_SLOTS 4  // of the ring: 4, 6, ...
#define RNN_HELD 1   // blocks of a warpgroup in registers
#endif

enum {
    RNN_GROUP_THREADS = 128,
    RNN_WORKERS = 2 * RNN_GROUP_THREADS,
    RNN_THREADS = RNN_WORKERS + RNN_GROUP_THREADS, // a warp that copies, one that sets flags
    RNN_BLOCK_DEPTH = 64,
    RNN_SLICE_BLOCKS = RNN_SLICE / RNN_BLOCK_DEPTH,
    RNN_SLOT_BYTES = RNN_SLICE * RNN_ROWS * 2,
    RNN_REPLICAS = 4, // of the flags
    RNN_FLAGS = (RNN_CTAS + 127) / 128 * 128,
    RNN_POLLS_MAX = 1 << 22 // some seconds
};

/// Units of one CTA in a phase: of H, or in proportion of P.
constexpr __device__ int rnn_share(int size)
{
    return size == RNN_UNITS ? RNN_SHARE : ((size + RNN_CTAS - 1) / RNN_CTAS + 1) / 2 * 2;
}
constexpr __device__ int rnn_weight_rows(int phase) // of R, of a CTA
{
    return rnn_phases[phase].row_count * rnn_share(rnn_phases[phase].size);
}
constexpr __device__ int rnn_tiles(int phase) // of 64 rows of R
{
    return (rnn_weight_rows(phase) + 63) / 64;
}
constexpr __device__ int rnn_tile_rows(int phase, int tile)
{
    const int left = rnn_weight_rows(phase) - tile * 64;
    return left < 64 ? left : 64;
}
constexpr __device__ int rnn_slices(int phase) // of both warpgroups, each as many
{
    return rnn_phases[phase].row_count > 0
               ? (rnn_phases[phase].operand_size + 2 * RNN_SLICE - 1) / (2 * RNN_SLICE) * 2
               : 0;
}
constexpr __device__ int rnn_blocks(int phase) // of one warpgroup, of a tile
{
    return rnn_slices(phase) / 2 * RNN_SLICE_BLOCKS;
}
constexpr __device__ int rnn_first_block(int phase)
{
    int first = 0;
    for (int p = 0; p < phase; p++)
        first += rnn_tiles(p) * rnn_blocks(p);
    return first;
}
/// Bytes from the start of a warpgroup's blocks in shared memory to block `block` of those in all
/// phases; of the block count: the end.
constexpr __device__ int rnn_rest_at(int block)
{
    int at = 0, index = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        for (int t = 0; t < rnn_tiles(p) && rnn_phases[p].row_count > 0; t++)
            for (int b = 0; b < rnn_blocks(p); b++, index++)
                if (index >= RNN_HELD && index < block)
                    at += rnn_tile_rows(p, t) * RNN_BLOCK_DEPTH * 2;
    return at;
}
constexpr __device__ int rnn_operand_bytes(int phase) // of one turn
{
    return rnn_slices(phase) * RNN_SLOT_BYTES;
}
/// Where the buffers of a phase's operand begin, in bytes; of the phase count: the flags.
constexpr __device__ long long rnn_buffer_at(int phase)
{
    long long at = 0;
    for (int p = 0; p < phase; p++)
        at += 2ll * RNN_TURNS * rnn_operand_bytes(p);
    return at;
}
constexpr __device__ int rnn_most_weight_rows()
{
    int most = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_weight_rows(p) > most)
            most = rnn_weight_rows(p);
    return most;
}
/// Pairs of units, of one row, of one thread.
constexpr __device__ int rnn_pairs()
{
    int most = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_share(rnn_phases[p].size) > most)
            most = rnn_share(rnn_phases[p].size);
    return (most / 2 * RNN_ROWS + RNN_WORKERS - 1) / RNN_WORKERS;
}
/// Every product waits for all CTAs.
constexpr __device__ bool rnn_all_send(int reader)
{
    return rnn_phases[reader].row_count > 0;
}

constexpr int rnn_block_count = rnn_first_block(RNN_PHASE_COUNT);
constexpr int rnn_held = RNN_HELD < rnn_block_count ? RNN_HELD : rnn_block_count;
constexpr int rnn_rest_bytes = rnn_rest_at(rnn_block_count);
constexpr int rnn_item_count = 2 * rnn_pairs();
constexpr int rnn_partial_stride = RNN_ROWS == 8 ? 8 : RNN_ROWS + 8; // no bank twice in a store
constexpr int rnn_partial_floats = rnn_most_weight_rows() * rnn_partial_stride;
constexpr int rnn_vectors = RNN_BIASES + RNN_RECURRENT_BIASES + RNN_PARAMETERS;
constexpr long long rnn_packed_bytes = 2ll * (rnn_held * 64 * RNN_BLOCK_DEPTH * 2 + rnn_rest_bytes);

// Shared memory, in bytes: weights, slots, partial sums, vectors, barriers. Weights come first:
// what is read beyond a tile's end must lie in the CTA's memory.
constexpr int rnn_slots_at = (2 * rnn_rest_bytes + 127) / 128 * 128;
constexpr int rnn_partials_at = rnn_slots_at + RNN_SLOTS * RNN_SLOT_BYTES;
constexpr int rnn_vectors_at = rnn_partials_at + 4 * rnn_partial_floats * 4;
constexpr int rnn_barriers_at = (rnn_vectors_at + rnn_vectors * RNN_SHARE * 4 + 15) / 16 * 16;
constexpr int rnn_shared_bytes = rnn_barriers_at + 2 * RNN_SLOTS * 8 + 16;

static_assert(RNN_PRECISION >= 2, "operands of 16 bits");
static_assert(RNN_ROWS == 8 || RNN_ROWS == 16 || RNN_ROWS == 32 || RNN_ROWS == 64, "wgmma's rows");
static_assert(RNN_SHARE % 2 == 0 && RNN_SLICE % 64 == 0 && RNN_TURNS <= 2, "layout");
static_assert(RNN_SLOTS >= 4 && RNN_SLOTS % 2 == 0, "two slots or more of each warpgroup");
static_assert(RNN_NORMS == 0, "a mean needs all units of a row");
static_assert(rnn_is_ordered(rnn_all_send), "a buffer may be written before all have read it");
#ifdef RNN_SHARED_BYTES
static_assert(rnn_shared_bytes == RNN_SHARED_BYTES, "the plan's bytes of shared memory");
#endif

/// What all threads know.
struct RnnPlace {
    char *shared, *buffers;
    unsigned address, full, empty; ///< of shared memory and its barriers
    volatile int *stuck;           ///< in shared memory
    int cta, warp, lane;
    unsigned epoch; ///< of the operands that step 0 of the row group reads
    long long first_row, steps;
    int rows, turns; ///< of this row group that the batch has
};

/// A place in the ring of slots.
struct RnnSlot {
    int index = 0;
    unsigned parity = 0;
    RNN_MEMBER void advance(int by)
    {
        index += by;
        if (index >= RNN_SLOTS) {
            index -= RNN_SLOTS;
            parity ^= 1;
        }
    }
};

/// What a worker keeps over all steps of a row group.
struct RnnWorker {
    uint4 weights[RNN_SOME(rnn_held)][4];
    RnnSlot slot;
    int group;     ///< of 128 threads: 0 or 1
    int partial;   ///< buffer of partial sums that the next product takes
    unsigned rest; ///< address of the group's blocks in shared memory
    float state[RNN_TURNS][rnn_item_count][RNN_SOME(RNN_STATES)];
    int steps[RNN_TURNS], last[RNN_TURNS]; ///< of the items' rows
};

/// The item's unit within the CTA, and its row within the turn.
RNN_INLINE int rnn_item_unit(int item)
{
    return (item / 2 * RNN_WORKERS + (int)threadIdx.x) / RNN_ROWS * 2 + item % 2;
}
RNN_INLINE int rnn_item_row()
{
    return (int)threadIdx.x % RNN_ROWS;
}

RNN_INLINE unsigned *rnn_flag_of(const RnnPlace &place, int reader, int turn, int replica)
{
    return (unsigned *)(place.buffers + rnn_buffer_at(RNN_PHASE_COUNT)) +
           ((reader * RNN_TURNS + turn) * RNN_REPLICAS + replica) * RNN_FLAGS;
}

/// Which flags the warp that copies has seen set to the epoch it waits for: lane l has four of
/// every 128, from 4*l on, a bit each.
struct RnnHeard {
    unsigned flags[RNN_FLAGS / 128];
};

/// Whether bit `e` of the lane's in `part` is the flag of a CTA from `first` to `last`.
RNN_INLINE bool rnn_is_flag(const RnnPlace &place, int part, int e, int first, int last)
{
    const int cta = part * 128 + place.lane * 4 + e;
    return cta >= first && cta <= last;
}

/// Waits until the CTAs whose units a slice has have published `epoch`, for the last slice all; the
/// warp that copies. All flags are read at once, as a trip to L2 costs as much for one.
template <int Phase>
RNN_INLINE void rnn_wait_flags(const RnnPlace &place, RnnHeard &heard, int turn, int slice,
                               unsigned epoch)
{
    constexpr int size = rnn_phases[Phase].operand_size, share = rnn_share(size);
    if (slice * RNN_SLICE >= size)
        return;
    const int end = (slice + 1) * RNN_SLICE < size ? (slice + 1) * RNN_SLICE : size;
    const int first = slice * RNN_SLICE / share;
    const int last = end == size ? RNN_CTAS - 1 : (end - 1) / share;
    const unsigned *flags =
        rnn_flag_of(place, Phase, turn, place.cta % RNN_REPLICAS) + place.lane * 4;
    int polls = 0;
    for (;; polls++) {
        bool waiting = false;
#pragma unroll
        for (int part = 0; part < RNN_FLAGS / 128; part++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                waiting |=
                    rnn_is_flag(place, part, e, first, last) && !(heard.flags[part] >> e & 1);
        if (!__any_sync(0xffffffff, waiting) || *place.stuck)
            break;
        if (polls == RNN_POLLS_MAX)
            *place.stuck = 1;
#pragma unroll
        for (int part = 0; part < RNN_FLAGS / 128; part++) {
            const uint4 flag = rnn_flags_load(flags + part * 128);
            heard.flags[part] = ((int)(flag.x - epoch) >= 0) | ((int)(flag.y - epoch) >= 0) << 1 |
                                ((int)(flag.z - epoch) >= 0) << 2 |
                                ((int)(flag.w - epoch) >= 0) << 3;
        }
    }
    __syncwarp();
    if (polls > 0)
        rnn_fence_bulk_global();
}

/// Copies the slices of Phase's operand, and of later phases', of one turn and step.
template <int Phase>
RNN_INLINE void rnn_copy_phases(const RnnPlace &place, RnnSlot &slot, int turn, unsigned epoch)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        const char *from = place.buffers + rnn_buffer_at(Phase) +
                           ((epoch & 1) * RNN_TURNS + turn) * (long long)rnn_operand_bytes(Phase);
        RnnHeard heard = {};
#pragma unroll 1
        for (int slice = 0; slice < rnn_slices(Phase); slice++, slot.advance(1)) {
            const unsigned to = place.address + rnn_slots_at + slot.index * RNN_SLOT_BYTES;
            const unsigned full = place.full + slot.index * 8;
            rnn_barrier_wait(place.empty + slot.index * 8, slot.parity ^ 1);
            rnn_wait_flags<Phase>(place, heard, turn, slice, epoch);
            if (place.lane == 0) {
                rnn_barrier_expect(full, RNN_SLOT_BYTES);
                rnn_copy_bulk(to, from + slice * RNN_SLOT_BYTES, RNN_SLOT_BYTES, full);
            }
            __syncwarp();
        }
        rnn_copy_phases<Phase + 1>(place, slot, turn, epoch);
    }
}

/// Stores the epoch of what the workers have published of one turn; the warp that sets flags.
template <int Reader> RNN_INLINE void rnn_set_flag(const RnnPlace &place, int turn, unsigned epoch)
{
    if (place.lane < RNN_REPLICAS)
        rnn_flag_store(rnn_flag_of(place, Reader, turn, place.lane) + place.cta, epoch);
}

/// Whether phase Phase has made an operand that is published: a state's is for the next step.
constexpr __device__ bool rnn_publishes(int phase, bool last)
{
    for (int reader = 0; reader < RNN_PHASE_COUNT; reader++)
        if (rnn_feeds(phase, reader) && (!rnn_phases[reader].operand_is_state || !last))
            return true;
    return false;
}

/// Workers arrive when they have stored what they publish of a turn; the other warp waits.
enum { RNN_WORKERS_BARRIER = 1, RNN_PUBLISH_BARRIER = 2 };

/// Whether the next that is published after phase `phase` waits for what that has published: then
/// the other warp has left the barrier before workers come to it again.
constexpr __device__ bool rnn_is_awaited(int phase)
{
    int next = (phase + 1) % RNN_PHASE_COUNT;
    while (!rnn_publishes(next, false))
        next = (next + 1) % RNN_PHASE_COUNT;
    return rnn_feeds(phase, next);
}

/// A worker has stored what phase `Phase` publishes.
template <int Phase> RNN_INLINE void rnn_stored(int turn)
{
    if constexpr (rnn_is_awaited(Phase))
        rnn_arrive_some(RNN_PUBLISH_BARRIER + turn, RNN_WORKERS + 32);
    else
        rnn_sync_some(RNN_PUBLISH_BARRIER + turn, RNN_WORKERS + 32);
}

template <int Phase, int Reader>
RNN_INLINE void rnn_set_flags_of(const RnnPlace &place, int turn, unsigned epoch, bool last)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        if constexpr (rnn_feeds(Phase, Reader)) {
            constexpr bool is_state = rnn_phases[Reader].operand_is_state;
            if (!is_state || !last)
                rnn_set_flag<Reader>(place, turn, epoch + is_state);
        }
        rnn_set_flags_of<Phase, Reader + 1>(place, turn, epoch, last);
    }
}
template <int Phase>
RNN_INLINE void rnn_set_flags(const RnnPlace &place, int turn, unsigned epoch, bool last)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        if (rnn_publishes(Phase, last)) {
            rnn_sync_some(RNN_PUBLISH_BARRIER + turn, RNN_WORKERS + 32);
            rnn_fence_release();
            rnn_set_flags_of<Phase, 0>(place, turn, epoch, last);
        }
        rnn_set_flags<Phase + 1>(place, turn, epoch, last);
    }
}
template <int Reader> RNN_INLINE void rnn_set_initial_flags(const RnnPlace &place, int turn)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        if constexpr (rnn_phases[Reader].operand_is_state != 0)
            rnn_set_flag<Reader>(place, turn, place.epoch);
        rnn_set_initial_flags<Reader + 1>(place, turn);
    }
}

/// Stores `values` of a pair of units as an operand of Reader.
template <int Reader>
RNN_INLINE void rnn_send(const RnnPlace &place, int turn, int pair, float first, float second,
                         unsigned epoch)
{
    constexpr int size = rnn_phases[Reader].operand_size, share = rnn_share(size);
    const int unit = rnn_item_unit(2 * pair), k = place.cta * share + unit;
    if (unit >= share || k >= size)
        return;
    const bool has_row = turn * RNN_ROWS + rnn_item_row() < place.rows;
    char *to = place.buffers + rnn_buffer_at(Reader) +
               ((epoch & 1) * RNN_TURNS + turn) * (long long)rnn_operand_bytes(Reader) +
               (k / 8 * RNN_ROWS + rnn_item_row()) * 16 + k % 8 * 2;
    const unsigned low = rnn_narrow(first), high = k + 1 < size ? rnn_narrow(second) : 0;
    *(unsigned *)to = has_row ? low | high << 16 : 0;
}

/// Multiplies block `Block` of a tile of Phase by the block of the slot at `operand`.
template <int Phase, int Tile, int Block>
RNN_INLINE void rnn_multiply_block(const RnnWorker &self, float (&sums)[RNN_ROWS / 2],
                                   unsigned long long operand)
{
    constexpr int index = rnn_first_block(Phase) + Tile * rnn_blocks(Phase) + Block;
    constexpr int rows = rnn_tile_rows(Phase, Tile);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const unsigned long long b = operand + k * 2 * RNN_ROWS;
        if constexpr (index < rnn_held)
            rnn_wgmma_add(sums, self.weights[index][k], b);
        else
            rnn_wgmma_add(sums,
                          rnn_wgmma_chunks(self.rest + rnn_rest_at(index), rows) + k * 2 * rows, b);
    }
}
template <int Phase, int Tile, int Slice, int Block>
RNN_INLINE void rnn_multiply_slice(const RnnWorker &self,
                                   float (&sums)[rnn_tiles(Phase)][RNN_ROWS / 2],
                                   unsigned long long operand)
{
    if constexpr (Block < RNN_SLICE_BLOCKS) {
        rnn_multiply_block<Phase, Tile, Slice * RNN_SLICE_BLOCKS + Block>(
            self, sums[Tile], operand + Block * 8 * RNN_ROWS);
        rnn_multiply_slice<Phase, Tile, Slice, Block + 1>(self, sums, operand);
    } else if constexpr (Tile + 1 < rnn_tiles(Phase))
        rnn_multiply_slice<Phase, Tile + 1, Slice, 0>(self, sums, operand);
}

/// The warp is done with a slot.
RNN_INLINE void rnn_free_slot(const RnnPlace &place, int slot)
{
    if (place.lane == 0)
        rnn_barrier_arrive(place.empty + slot * 8);
}

/// Slices from the group's `Slice` on; the slot of one is free when the products of the next run.
template <int Phase, int Slice>
RNN_INLINE void rnn_multiply_slices(const RnnPlace &place, RnnWorker &self,
                                    float (&sums)[rnn_tiles(Phase)][RNN_ROWS / 2], int before)
{
    if constexpr (Slice < rnn_slices(Phase) / 2) {
        const int slot = self.slot.index;
        rnn_barrier_wait(place.full + slot * 8, self.slot.parity);
        rnn_wgmma_begin();
        rnn_multiply_slice<Phase, 0, Slice, 0>(
            self, sums,
            rnn_wgmma_chunks(place.address + rnn_slots_at + slot * RNN_SLOT_BYTES, RNN_ROWS));
        rnn_wgmma_commit();
        if constexpr (Slice > 0) {
            rnn_wgmma_wait<1>();
            rnn_free_slot(place, before);
        }
        self.slot.advance(2);
        rnn_multiply_slices<Phase, Slice + 1>(place, self, sums, slot);
    } else {
        rnn_wgmma_wait<0>();
        rnn_free_slot(place, before);
    }
}

/// This group's part of the product of `Phase`, to its partial sums. Returns those of both.
template <int Phase> RNN_INLINE const float *rnn_multiply(const RnnPlace &place, RnnWorker &self)
{
    constexpr int tiles = rnn_tiles(Phase), rows = rnn_weight_rows(Phase);
    float sums[tiles][RNN_ROWS / 2] = {};
    rnn_multiply_slices<Phase, 0>(place, self, sums, 0);
    float *partials =
        (float *)(place.shared + rnn_partials_at) + self.partial * 2 * rnn_partial_floats;
    float *to = partials + self.group * rnn_partial_floats + place.lane % 4 * 2;
    self.partial ^= 1;
#pragma unroll
    for (int t = 0; t < tiles; t++) {
        rnn_wgmma_take(sums[t]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int m = t * 64 + place.warp % 4 * 16 + place.lane / 4 + half * 8;
            if (m < rows)
#pragma unroll
                for (int n = 0; n < RNN_ROWS / 8; n++)
                    *(float2 *)(to + m * rnn_partial_stride + n * 8) =
                        make_float2(sums[t][n * 4 + half * 2], sums[t][n * 4 + half * 2 + 1]);
        }
    }
    rnn_sync_some(RNN_WORKERS_BARRIER, RNN_WORKERS);
    return partials;
}

#endif
