// Products that the CTAs of a group share, for persistent_grid.cu: where fragments, packets and
// partial sums lie, and how operands are sent, received and multiplied.
//
// K is cut into 8 slices, one a warp, and a sum is that of the slices in order: the bits of a row
// do not depend on its place or company. Element k of an operand belongs to slice k / slice, lane
// group q within it, tile j and word, so that the two packets of one mma fragment lie side by side:
//
//     buffer [parity][replica][slice][tile][8 rows][row, q: 32 lanes] of 16 bytes
//     fragments of a CTA [phase][tile of K][tile of 16 rows of R][thread] of 16 bytes
//     partial sums [2][warp][16 * tiles][RNN_ROWS]
//
// A buffer is written again two epochs later. By then every CTA has read it: it published the epoch
// between only after its barrier, and that is what the writer has waited for.
//
// In float32 each product is three of tf32 (prim/mma.cuh).
#ifndef RNN_GRID_PRODUCT_CUH
#define RNN_GRID_PRODUCT_CUH

#include "cuda/cell.cuh"
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
    RNN_POLLS_MAX = 1 << 22 // some seconds
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
static_assert(RNN_ROWS % 8 == 0 && RNN_SHARE % 4 == 0, "tiles of rows and units");
static_assert(RNN_NORMS == 0, "a mean needs all units of a row");
static_assert(rnn_is_ordered(), "a buffer may be written before all have read it");

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

/// The bits of a tf32 number where that is finite, else 0: what multiplies the rest of a weight, so
/// that an infinite operand counts once.
RNN_INLINE unsigned rnn_finite(unsigned high)
{
    return (high & 0x7f800000) == 0x7f800000 ? 0 : high;
}

/// sums += a * b for all row tiles of R and of the batch at one tile of K. In float32 the three
/// products of a pair of tiles stand apart, so that none waits for the one before.
template <int Tiles>
RNN_INLINE void rnn_multiply_tiles(float (&sums)[Tiles][RNN_ROW_TILES][4],
                                   const unsigned (&a)[Tiles][4], const uint4 (&b)[RNN_ROW_TILES])
{
#if RNN_PRECISION == 0
    unsigned high[Tiles][4], low[Tiles][4];
#pragma unroll
    for (int m = 0; m < Tiles; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            high[m][i] = rnn_high(a[m][i]);
            low[m][i] = rnn_low(a[m][i]);
        }
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES; n++) {
        const unsigned x = rnn_high(b[n].x), z = rnn_high(b[n].z);
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma_once(sums[m][n], low[m], rnn_finite(x), rnn_finite(z));
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma_once(sums[m][n], high[m], rnn_low(b[n].x), rnn_low(b[n].z));
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma_once(sums[m][n], high[m], x, z);
    }
#else
#pragma unroll
    for (int m = 0; m < Tiles; m++)
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++)
            rnn_mma(sums[m][n], a[m], b[n].x, b[n].z);
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
        unsigned a[row_tiles][4];
#pragma unroll
        for (int m = 0; m < row_tiles; m++) {
            const int i = first + j * row_tiles + m;
            const uint4 w = i < rnn_held ? self.weights[i < rnn_held ? i : 0]
                                         : self.rest[(i - rnn_held) * RNN_THREADS];
            a[m][0] = w.x, a[m][1] = w.y, a[m][2] = w.z, a[m][3] = w.w;
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

#endif
