// Products that the CTAs of a cluster share, for persistent_cluster.cu: where fragments, operands
// and sums lie, and how operands are sent, received and multiplied.
//
// An operand lies in blocks of 8 units, in the order that mma wants (K is permuted when R is
// packed), so that a warp reads 32 neighbouring words:
//
//     buffer [parity][block][8 rows][row r, units 2q and 2q + 1: lane 4*r + q]
//
// No step has a barrier of the CTA or the cluster. Each buffer has a barrier (mbarrier) that counts
// bytes. Operand n (n counts the steps of the launch) goes to buffer n % 2:
//
// - Every warp of the cluster sends a part of every operand, zeros and finished rows included, so
//   that the bytes of an operand are always the same, and waits for all of it.
// - A warp sends states after all its products of the step. So whoever sends operand n + 2 has
//   waited for all of n + 1 (of the same reader), which each warp sent after it had multiplied n:
//   nobody still reads buffer n % 2. Stores are never ahead by more than that.
// - Thread 0 arms the barrier for n + 2 when it has seen n complete. Bytes that come before count
//   too: the phase cannot end without that arrival, and n + 2 is sent only after n is complete.
// - A warp cannot miss a phase: n + 2 cannot complete without what this warp sends after n.
// - A CTA that is through has waited for all that was sent to it. One whose wait has run out goes
//   through its steps without waiting or sending, and the cluster's barrier at the end keeps its
//   memory until all peers have ended alike.
#ifndef RNN_CLUSTER_PRODUCT_CUH
#define RNN_CLUSTER_PRODUCT_CUH

#include "cuda/cell.cuh"
#include "cuda/prim/cluster.cuh"
#include "cuda/prim/halves.cuh"
#include "cuda/prim/mma.cuh"

#ifndef RNN_CTAS
#define RNN_CTAS 2  // of a cluster
#define RNN_ROWS 8  // of the batch, of a cluster
#define RNN_WARPS 4 // of a CTA that own different units
#define RNN_SPLIT 1 // warps that share the K of the same units
#define RNN_RING 4  // steps of W*x ahead
#define RNN_HELD 32 // fragments of a thread in registers
#define RNN_HALVES 0
#endif

enum {
    RNN_THREADS = 32 * RNN_WARPS * RNN_SPLIT,
    RNN_TILE_BLOCKS = RNN_PRECISION >= 2 || RNN_HALVES ? 2 : 1, // of 8 units in the K of one mma
    RNN_PARTS = RNN_HALVES ? 2 : 1,                             // fragments of a tile of R
    RNN_ROW_TILES = (RNN_ROWS + 7) / 8,
    RNN_COLUMNS = RNN_SPLIT == 1 && RNN_ROWS > 4 ? 2 : 1, // rows of a thread in a tile
    RNN_PAIRED = RNN_PRECISION == 0 && RNN_ROWS <= 4,     // see rnn_multiply_tiles
    RNN_TIMES = 2 * RNN_RING,                             // steps whose times are in shared memory
    RNN_OPERAND_BYTES = RNN_PRECISION >= 2 ? 2 : 4,
    RNN_DESTINATIONS = RNN_CTAS / (3 - RNN_COLUMNS), // CTAs that a lane sends to
    RNN_CHAINS = 2                                   // independent sums of a tile
};

/// Two units of one row, as they are sent and multiplied; of halves both high parts, then both
/// rests.
#if RNN_PRECISION >= 2
typedef unsigned RnnPair;
#else
typedef uint2 RnnPair;
#endif

/// Groups of 8 units of one warp, and units of one CTA, where a vector has `size` units.
constexpr __device__ int rnn_groups(int size)
{
    return (size + 8 * RNN_CTAS * RNN_WARPS - 1) / (8 * RNN_CTAS * RNN_WARPS);
}
constexpr __device__ int rnn_share(int size)
{
    return 8 * RNN_WARPS * rnn_groups(size);
}
/// Items, which are pairs of unit and row, of one thread.
constexpr __device__ int rnn_items(int size)
{
    return rnn_groups(size) * RNN_ROW_TILES * RNN_COLUMNS;
}
constexpr __device__ int rnn_most_groups()
{
    int most = rnn_groups(RNN_UNITS);
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_groups(rnn_phases[p].size) > most)
            most = rnn_groups(rnn_phases[p].size);
    return most;
}
constexpr __device__ int rnn_row_tiles(int phase) // of 16 rows of R, of one warp
{
    return (rnn_phases[phase].row_count * rnn_groups(rnn_phases[phase].size) + 1) / 2;
}
constexpr __device__ int rnn_k_tiles(int phase) // of one warp
{
    constexpr int tile_blocks = RNN_TILE_BLOCKS * RNN_SPLIT;
    return rnn_phases[phase].row_count > 0
               ? (RNN_CTAS * rnn_share(rnn_phases[phase].operand_size) / 8 + tile_blocks - 1) /
                     tile_blocks
               : 0;
}
constexpr __device__ int rnn_first_fragment(int phase)
{
    int first = 0;
    for (int p = 0; p < phase; p++)
        first += rnn_row_tiles(p) * rnn_k_tiles(p) * RNN_PARTS;
    return first;
}
/// Rows of R and P of one unit, in the phases before `phase`.
constexpr __device__ int rnn_first_factor(int phase)
{
    int first = 0;
    for (int p = 0; p < phase; p++)
        first += rnn_phases[p].row_count;
    return first;
}
/// Units of the widest phase.
constexpr __device__ int rnn_row_room()
{
    int most = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        most = rnn_phases[p].size > most ? rnn_phases[p].size : most;
    return most;
}
/// Pairs of one buffer of a phase's operand, and where its two buffers begin.
constexpr __device__ int rnn_buffer_pairs(int phase)
{
    return RNN_SPLIT * rnn_k_tiles(phase) * RNN_TILE_BLOCKS * RNN_ROW_TILES * 32;
}
constexpr __device__ int rnn_buffer_at(int phase)
{
    int at = 0;
    for (int p = 0; p < phase; p++)
        at += 2 * rnn_buffer_pairs(p);
    return at;
}
/// Floats that one warp of a pair gives away for a product.
constexpr __device__ int rnn_given_floats()
{
    int most = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_phases[p].row_count * rnn_groups(rnn_phases[p].size) > most)
            most = rnn_phases[p].row_count * rnn_groups(rnn_phases[p].size);
    return RNN_SPLIT == 1 ? 0 : most * RNN_ROW_TILES * 32;
}
/// Whether state s is an operand.
constexpr __device__ bool rnn_is_sent(int s)
{
    bool sent = false;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        sent |= rnn_phases[p].row_count > 0 && rnn_phases[p].operand_is_state &&
                rnn_phases[p].operand == s;
    return sent;
}
constexpr int rnn_fragment_count = rnn_first_fragment(RNN_PHASE_COUNT);
constexpr int rnn_held = RNN_HELD < rnn_fragment_count ? RNN_HELD : rnn_fragment_count;
constexpr int rnn_groups_most = rnn_most_groups();
constexpr int rnn_factor_count = RNN_HALVES ? rnn_first_factor(RNN_PHASE_COUNT) : 0;
constexpr int rnn_item_count = rnn_groups_most * RNN_ROW_TILES * RNN_COLUMNS;

// The ring of W*x of one warp: [step][row of the warp][gate][its units], with rows so far apart
// that the lanes of a warp read 32 banks.
constexpr int rnn_ring_units = 8 * rnn_groups(RNN_UNITS);
constexpr int rnn_ring_stride =
    RNN_GATES * rnn_ring_units + (RNN_COLUMNS == 2                            ? 4
                                  : (RNN_GATES * rnn_ring_units / 8) % 2 == 0 ? 8
                                                                              : 0);
constexpr int rnn_ring_rows = 4 * RNN_ROW_TILES * RNN_COLUMNS;
constexpr int rnn_slot_floats = rnn_ring_rows * rnn_ring_stride;

// Shared memory, in bytes.
enum { RNN_BARRIER_BYTES = 128 }; // [phase][parity]
constexpr int rnn_given_at =
    RNN_BARRIER_BYTES + rnn_buffer_at(RNN_PHASE_COUNT) * (int)sizeof(RnnPair);
constexpr int rnn_ring_at = rnn_given_at + 2 * RNN_WARPS * RNN_SPLIT * rnn_given_floats() * 4;
constexpr int rnn_times_at = rnn_ring_at + RNN_WARPS * RNN_SPLIT * RNN_RING * rnn_slot_floats * 4;
constexpr int rnn_rest_at =
    rnn_times_at + RNN_WARPS * RNN_SPLIT * RNN_TIMES * 8 * RNN_ROW_TILES * 4;
constexpr int rnn_shared_bytes =
    rnn_rest_at + (rnn_fragment_count - rnn_held) * RNN_THREADS * (int)sizeof(uint4);

static_assert(RNN_SPLIT == 1 || (RNN_SPLIT == 2 && RNN_ROWS >= 2), "every warp sends some row");
static_assert((RNN_CTAS & (RNN_CTAS - 1)) == 0 && RNN_CTAS >= RNN_SPLIT, "CTAs of a cluster");
static_assert((RNN_RING & (RNN_RING - 1)) == 0 && RNN_RING >= 2, "the ring is a power of two");
static_assert(RNN_ROWS <= 32, "a lane fetches the times of one row");
static_assert(RNN_PHASE_COUNT * 16 <= RNN_BARRIER_BYTES, "two barriers a phase");
static_assert(RNN_NORMS == 0, "a mean needs all units of a row");
#ifdef RNN_SHARED_BYTES
static_assert(rnn_shared_bytes == RNN_SHARED_BYTES, "the plan's bytes of shared memory");
#endif

/// What one thread keeps over all steps of a row group.
struct RnnThread {
    uint4 weights[RNN_SOME(rnn_held)];
    const uint4 *rest; ///< its further fragments in shared memory, RNN_THREADS apart
    char *shared;
    unsigned address;                 ///< of shared
    unsigned peers[RNN_DESTINATIONS]; ///< the same in the CTAs that this lane sends to
    float *ring;                      ///< of its warp
    int *times;                       ///< of its warp: [RNN_TIMES][rows], with an order
    long long first_row;
    int rows; ///< of this row group that the batch has
    int cta, owner, part, lane, warp;
    unsigned turn;    ///< operands of each phase before this row group
    unsigned product; ///< products so far
    bool stuck;
    float bias[rnn_groups_most][RNN_SOME(RNN_BIASES)];
    float recurrent_bias[rnn_groups_most][RNN_SOME(RNN_RECURRENT_BIASES)];
    float parameter[rnn_groups_most][RNN_SOME(RNN_PARAMETERS)];
    float state[rnn_item_count][RNN_SOME(RNN_STATES)];
    float scale[rnn_item_count]; ///< of the item's value in R's operands
    float factor[rnn_groups_most][RNN_SOME(rnn_factor_count)]; ///< of halves: of a sum of R's row
    float range[RNN_ROW_TILES][RNN_COLUMNS]; ///< of halves: of what the item's row sends
    float range_inverse[RNN_ROW_TILES][RNN_COLUMNS];
    int lane_steps;                                                          ///< of row `lane`
    int steps[RNN_ROW_TILES][RNN_COLUMNS], last[RNN_ROW_TILES][RNN_COLUMNS]; ///< of the items' rows
};

RNN_INLINE int rnn_item_of(int group, int row_tile, int column)
{
    return (group * RNN_ROW_TILES + row_tile) * RNN_COLUMNS + column;
}
/// The row, within the group, of a thread's column of a tile. Where there are 4 rows at most, lanes
/// that mma gives nothing to do take over the odd ones.
RNN_INLINE int rnn_row_of(const RnnThread &self, int row_tile, int column)
{
    const int q = self.lane % 4;
    if (RNN_SPLIT == 1 && RNN_COLUMNS == 1)
        return q % 2 * 2 + q / 2;
    return row_tile * 8 + q * 2 + (RNN_SPLIT == 1 ? column : self.part);
}
/// The unit of a vector of `size` that belongs to the thread's group.
RNN_INLINE int rnn_unit_of(const RnnThread &self, int size, int group)
{
    return self.cta * rnn_share(size) + (self.owner * rnn_groups(size) + group) * 8 + self.lane / 4;
}

template <int Phase> RNN_INLINE unsigned rnn_barrier_of(const RnnThread &self, unsigned turn)
{
    return self.address + (Phase * 2 + (turn & 1)) * 8;
}

template <int Phase>
constexpr int rnn_operand_bytes_of =
    RNN_ROWS *RNN_CTAS *rnn_share(rnn_phases[Phase].operand_size) * RNN_OPERAND_BYTES;

/// Waits until operand `turn` of `Phase` has come.
template <int Phase> RNN_INLINE void rnn_receive(RnnThread &self, unsigned turn)
{
    const unsigned barrier = rnn_barrier_of<Phase>(self, turn);
    if (!self.stuck)
        self.stuck = !rnn_barrier_wait(barrier, turn >> 1 & 1);
    if (threadIdx.x == 0 && !self.stuck)
        rnn_barrier_expect(barrier, rnn_operand_bytes_of<Phase>);
}

/// Sends the warp's units of `group`, of one row tile, to all CTAs of the cluster as operand `turn`
/// of Reader. Lanes of neighbouring units put their values together: an even one takes the first
/// row, an odd one the second. Where both have the same row, each serves half of the CTAs.
template <int Reader>
RNN_INLINE void rnn_send(const RnnThread &self, int group, int row_tile,
                         const float (&values)[RNN_COLUMNS], unsigned turn)
{
    constexpr int size = rnn_phases[Reader].operand_size;
    const int odd = self.lane / 4 % 2;
    const float mine = values[odd && RNN_COLUMNS == 2 ? RNN_COLUMNS - 1 : 0];
    const float given = values[odd || RNN_COLUMNS == 1 ? 0 : RNN_COLUMNS - 1];
    const float taken = __shfl_xor_sync(0xffffffff, given, 4);
    const float first = odd ? taken : mine, second = odd ? mine : taken;
#if RNN_PRECISION >= 2
    const RnnPair pair = rnn_narrow(first) | (unsigned)rnn_narrow(second) << 16;
#elif RNN_HALVES
    const unsigned high = rnn_pair(first, second);
    const RnnPair pair = make_uint2(high, rnn_pair_rest(first, second, high));
#else
    const RnnPair pair =
        make_uint2(__float_as_uint(rnn_round(first)), __float_as_uint(rnn_round(second)));
#endif
    const int row = rnn_row_of(self, 0, odd);
    const int block = (self.cta * RNN_WARPS + self.owner) * rnn_groups(size) + group;
    const int at = rnn_buffer_at(Reader) + (turn & 1) * rnn_buffer_pairs(Reader) +
                   (block * RNN_ROW_TILES + row_tile) * 32 + row * 4 + self.lane / 8;
    const unsigned to = RNN_BARRIER_BYTES + at * (int)sizeof(RnnPair);
    const unsigned barrier = rnn_barrier_of<Reader>(self, turn) - self.address;
    if (row_tile * 8 + row < RNN_ROWS && !self.stuck)
#pragma unroll
        for (int i = 0; i < RNN_DESTINATIONS; i++)
            rnn_cluster_store(self.peers[i] + to, pair, self.peers[i] + barrier);
}

/// Sends a carry (in its phase) or a state (at the end of the step) to its readers, from Reader on.
template <int Phase, int Reader, bool States, int Vectors>
RNN_INLINE void rnn_publish(const RnnThread &self, const float (&vectors)[rnn_item_count][Vectors],
                            unsigned turn)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        constexpr RnnPhase reader = rnn_phases[Reader];
        constexpr bool padded = rnn_share(reader.operand_size) * RNN_CTAS > reader.operand_size;
        if constexpr (reader.row_count > 0 && States == (reader.operand_is_state != 0) &&
                      (States || rnn_feeds(Phase, Reader)))
#pragma unroll
            for (int g = 0; g < rnn_groups(reader.operand_size); g++)
#pragma unroll
                for (int n = 0; n < RNN_ROW_TILES; n++) {
                    float values[RNN_COLUMNS];
#pragma unroll
                    for (int e = 0; e < RNN_COLUMNS; e++) {
                        values[e] = vectors[rnn_item_of(g, n, e)][reader.operand];
                        // What lies beyond the ends meets weights of 0, and must be finite.
                        if (padded &&
                            rnn_unit_of(self, reader.operand_size, g) >= reader.operand_size)
                            values[e] = 0.0f;
                        if (RNN_RECURRENT_DROPOUT && reader.matrix == RNN_MATRIX_R)
                            values[e] *= self.scale[rnn_item_of(g, n, e)];
                        if (RNN_HALVES)
                            values[e] *= self.range[n][e];
                    }
                    rnn_send<Reader>(self, g, n, values, turn);
                }
        rnn_publish<Phase, Reader + 1, States>(self, vectors, turn);
    }
}

/// The words of one tile of K that mma takes of an operand: two, or of halves two of each part.
#if RNN_HALVES
typedef uint4 RnnOperand;
#else
typedef uint2 RnnOperand;
#endif
RNN_INLINE RnnOperand rnn_operand_at(const RnnPair *from)
{
#if RNN_HALVES
    const uint2 first = from[0], second = from[RNN_ROW_TILES * 32];
    return make_uint4(first.x, second.x, first.y, second.y);
#elif RNN_PRECISION >= 2
    return make_uint2(from[0], from[RNN_ROW_TILES * 32]);
#else
    return from[0];
#endif
}

/// sums += R * operand, of all tiles of R at one tile of K and of the batch. In float32 each
/// product is three of tf32 (prim/mma.cuh), R's part being cut off, which is less work than to
/// round it; the three stand apart, so that none waits for the one before. Where there are 4 rows
/// at most, two do: columns 4 to 7 of the operand have the low parts of rows 0 to 3.
#if !RNN_HALVES
template <int Tiles>
RNN_INLINE void rnn_multiply_tiles(float (&sums)[Tiles][RNN_ROW_TILES][RNN_CHAINS][4],
                                   const unsigned (&a)[Tiles][1][4], uint2 b, int lane, int n,
                                   int chain)
{
    (void)lane;
#if RNN_PRECISION == 0
    unsigned high[Tiles][4], low[Tiles][4];
#pragma unroll
    for (int m = 0; m < Tiles; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            high[m][i] = a[m][0][i] & 0xffffe000;
            low[m][i] = __float_as_uint(__uint_as_float(a[m][0][i]) - __uint_as_float(high[m][i]));
        }
    const bool is_low = RNN_PAIRED && lane >= 16;
    const unsigned x = is_low ? rnn_low(b.x) : rnn_high(b.x);
    const unsigned y = is_low ? rnn_low(b.y) : rnn_high(b.y);
#pragma unroll
    for (int m = 0; m < Tiles; m++)
        rnn_mma_once(sums[m][n][chain], low[m], rnn_finite(x), rnn_finite(y));
    if (!RNN_PAIRED)
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma_once(sums[m][n][chain], high[m], rnn_low(b.x), rnn_low(b.y));
#pragma unroll
    for (int m = 0; m < Tiles; m++)
        rnn_mma_once(sums[m][n][chain], high[m], x, y);
#else
#pragma unroll
    for (int m = 0; m < Tiles; m++)
        rnn_mma(sums[m][n][chain], a[m][0], b.x, b.y);
#endif
}
#else
/// The same with both parts of R and of the operand as float16: the first sums are of high parts,
/// the second of what is RNN_REST times too large. Where there are 4 rows at most, columns 4 to 7
/// are the rests of rows 0 to 3.
template <int Tiles>
RNN_INLINE void rnn_multiply_halves(float (&sums)[Tiles][RNN_ROW_TILES][RNN_CHAINS][4],
                                    const unsigned (&a)[Tiles][2][4], uint4 b, int lane, int n)
{
    const bool is_rest = RNN_PAIRED && lane >= 16;
    const unsigned x = is_rest ? b.z : b.x, y = is_rest ? b.w : b.y;
#pragma unroll
    for (int m = 0; m < Tiles; m++)
        rnn_mma_halves(sums[m][n][0], a[m][0], x, y);
#pragma unroll
    for (int m = 0; m < Tiles; m++)
        rnn_mma_halves(sums[m][n][1], a[m][1], x, y);
    if (!RNN_PAIRED)
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma_halves(sums[m][n][1], a[m][0], b.z, b.w);
}
#endif

/// A sum and what is to be added to it, RNN_REST times too large; nothing where it is not finite.
RNN_INLINE float rnn_with_rest(float sum, float rest)
{
    return fabsf(sum) < RNN_INFINITY ? fmaf(rest, 1.0f / RNN_REST, sum) : sum;
}

/// The sums of one row of R, of both columns of the thread's mma tile, before those of the other
/// lanes and warps.
RNN_INLINE float rnn_own_sum(const float (&sums)[RNN_CHAINS][4], int word)
{
    if (RNN_HALVES)
        return rnn_with_rest(sums[0][word], sums[1][word]);
    float sum = sums[0][word];
#pragma unroll
    for (int chain = 1; chain < RNN_CHAINS; chain++)
        sum += sums[chain][word];
    return sum;
}

/// Both columns of a tile, `of` its words 0 and 1 or 2 and 3, as the lane's rows take them: where
/// there are 4 rows at most, the lanes of columns 4 to 7 hold parts of, or take over, columns 0
/// to 3.
RNN_INLINE void rnn_both_sums(const RnnThread &self, const float (&sums)[RNN_CHAINS][4], int word,
                              float (&both)[2])
{
    const bool upper = self.lane % 4 >= 2;
    both[0] = rnn_own_sum(sums, word);
    both[1] = rnn_own_sum(sums, word + 1);
    if (RNN_HALVES && RNN_PAIRED && RNN_SPLIT == 1) { // each gets the one row that it takes
        const float own = upper ? sums[0][word + 1] : both[0];
        const float other = __shfl_xor_sync(0xffffffff, upper ? sums[0][word] : both[1], 2);
        both[0] = both[1] = upper ? rnn_with_rest(other, own) : rnn_with_rest(own, other);
    } else if (RNN_HALVES && RNN_PAIRED) {
#pragma unroll
        for (int e = 0; e < 2; e++)
            both[e] = rnn_with_rest(both[e], __shfl_xor_sync(0xffffffff, sums[0][word + e], 2));
    } else if (RNN_PAIRED) {
        both[0] += __shfl_xor_sync(0xffffffff, both[0], 2);
        both[1] += __shfl_xor_sync(0xffffffff, both[1], 2);
    } else if (RNN_SPLIT == 1 && RNN_COLUMNS == 1) {
        both[1] = __shfl_xor_sync(0xffffffff, both[1], 2);
    }
}

/// Sums of scaled halves as they would be without.
template <int Phase, int Items, int Gates>
RNN_INLINE void rnn_undo_ranges(const RnnThread &self, float (&product)[Items][Gates])
{
#pragma unroll
    for (int g = 0; g < rnn_groups(rnn_phases[Phase].size); g++)
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
            for (int e = 0; e < RNN_COLUMNS; e++)
#pragma unroll
                for (int gate = 0; gate < Gates; gate++)
                    product[rnn_item_of(g, n, e)][gate] *=
                        self.factor[g][rnn_first_factor(Phase) + gate] * self.range_inverse[n][e];
}

/// sums += the fragments from `First` on, which are `Tiles` tiles of rows at each tile of K, times
/// operand `turn` of `Phase`. Those that are not held lie `Threads` apart.
template <int Phase, int Tiles, int First, int Threads>
RNN_INLINE void rnn_sum(const RnnThread &self, unsigned turn,
                        float (&sums)[Tiles][RNN_ROW_TILES][RNN_CHAINS][4])
{
    constexpr int tiles = rnn_k_tiles(Phase);
    const RnnPair *from = (const RnnPair *)(self.shared + RNN_BARRIER_BYTES) +
                          rnn_buffer_at(Phase) + (turn & 1) * rnn_buffer_pairs(Phase) +
                          (RNN_PAIRED ? self.lane % 16 : self.lane) +
                          self.part * tiles * RNN_TILE_BLOCKS * RNN_ROW_TILES * 32;
#pragma unroll
    for (int j = 0; j < tiles; j++) {
        unsigned a[Tiles][RNN_PARTS][4];
#pragma unroll
        for (int m = 0; m < Tiles * RNN_PARTS; m++) {
            const int i = First + j * Tiles * RNN_PARTS + m;
            const uint4 w = i < rnn_held ? self.weights[i < rnn_held ? i : 0]
                                         : self.rest[(i - rnn_held) * Threads];
            unsigned(&to)[4] = a[m / RNN_PARTS][m % RNN_PARTS];
            to[0] = w.x, to[1] = w.y, to[2] = w.z, to[3] = w.w;
        }
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++) {
            const RnnOperand b =
                rnn_operand_at(from + (j * RNN_TILE_BLOCKS * RNN_ROW_TILES + n) * 32);
#if RNN_HALVES
            rnn_multiply_halves<Tiles>(sums, a, b, self.lane, n);
#else
            rnn_multiply_tiles<Tiles>(sums, a, b, self.lane, n, j % RNN_CHAINS);
#endif
        }
    }
}

/// product[item][row of R] of all items of `Phase`, from operand `turn`.
template <int Phase, int Items, int Gates>
RNN_INLINE void rnn_multiply(RnnThread &self, unsigned turn, float (&product)[Items][Gates])
{
    constexpr int row_tiles = rnn_row_tiles(Phase);
    constexpr int groups = rnn_groups(rnn_phases[Phase].size);
    float sums[row_tiles][RNN_ROW_TILES][RNN_CHAINS][4] = {};
    rnn_sum<Phase, row_tiles, rnn_first_fragment(Phase), RNN_THREADS>(self, turn, sums);
    float *given = (float *)(self.shared + rnn_given_at) + self.lane +
                   (self.product & 1) * RNN_WARPS * RNN_SPLIT * rnn_given_floats();
#pragma unroll
    for (int g = 0; g < groups; g++)
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
            for (int gate = 0; gate < Gates; gate++) {
                float both[2];
                const int half = g * Gates + gate;
                rnn_both_sums(self, sums[half / 2][n], half % 2 * 2, both);
                const bool takes_odd = RNN_SPLIT == 2     ? self.part != 0
                                       : RNN_COLUMNS == 1 ? self.lane % 4 >= 2
                                                          : false;
                product[rnn_item_of(g, n, 0)][gate] = takes_odd ? both[1] : both[0];
                if (RNN_COLUMNS == 2)
                    product[rnn_item_of(g, n, RNN_COLUMNS - 1)][gate] = both[1];
                if (RNN_SPLIT == 2)
                    given[self.warp * rnn_given_floats() +
                          ((g * RNN_ROW_TILES + n) * Gates + gate) * 32] =
                        self.part ? both[0] : both[1];
            }
    if (RNN_SPLIT == 2) {
        // The partner has read what was given two products ago: it has passed the barrier since.
        rnn_named_barrier(1 + self.owner, 64);
        self.product++;
        given += ((1 - self.part) * RNN_WARPS + self.owner) * rnn_given_floats();
#pragma unroll
        for (int i = 0; i < groups * RNN_ROW_TILES; i++)
#pragma unroll
            for (int gate = 0; gate < Gates; gate++)
                product[i * RNN_COLUMNS][gate] += given[(i * Gates + gate) * 32];
    }
    if (RNN_HALVES)
        rnn_undo_ranges<Phase>(self, product);
}

#endif
