// Products that the CTAs of a group share, for persistent_grid.cu: where fragments, packets and
// partial sums lie, and how operands are sent, received and multiplied.
//
// K is cut into 8 slices, one a warp, and a sum is that of the slices in order: the bits of a row
// do not depend on its place or company. Four elements in turn are one load of 16 bytes of a lane,
// in the order in which mma fragments take them: two packets of 16-bit operands (one fragment), or
// four words (two). The loads that a warp does at once are 16 elements in turn of eight rows, four
// lanes a row:
//
//     buffer [parity][replica][16 elements][tile of rows][row of 8][lane of 4] of 16 bytes
//     fragments of a CTA [phase][tile of K][tile of 16 rows of R][thread] of 16 bytes
//     partial sums [2][warp][16 * tiles][RNN_ROWS], rows of the batch swapped (rnn_swap) so that
//         the eight rows of R that a warp stores at once lie in different banks; of one row alone
//         [2][rows of R][warp], which one thread loads four at a time
//
// A buffer is written again two epochs later. By then every CTA has read it: it published the epoch
// between only after its barrier, and that is what the writer has waited for. A word of 32 bits
// needs no packet: its last bit, which no product keeps, turns each time its place is written, for
// which places of rows beyond the batch are written too.
//
// In float32 a product is three of tf32 (prim/mma.cuh); one row alone is multiplied without tensor
// cores, which would spend seven eighths of their work on rows that are not there. A warp then
// loads 32 elements in turn, eight lanes the same, and has tiles of 4 rows of R, each a row of the
// four lanes that hold one element.
#ifndef RNN_GRID_PRODUCT_CUH
#define RNN_GRID_PRODUCT_CUH

#include "cuda/cell.cuh"
#include "cuda/exchange_order.cuh"
#include "cuda/prim/exchange.cuh"
#include "cuda/prim/mma.cuh"

#ifndef RNN_CTAS
#define RNN_CTAS 4     // of a group
#define RNN_SHARE 16   // units of a CTA
#define RNN_ROWS 8     // of the batch, of a group: a power of 2
#define RNN_RING 4     // steps of W*x ahead
#define RNN_HELD 32    // fragments of a thread in registers
#define RNN_REPLICAS 1 // of each operand buffer
#endif
#ifndef RNN_MORE_ROWS
#define RNN_MORE_ROWS 0 // of a CTA, behind those that the last phase has for its units
#endif

enum {
    RNN_WARPS = 8,
    RNN_THREADS = 32 * RNN_WARPS,
    RNN_WORD = RNN_PRECISION >= 2 ? 2 : 1, // elements of a word
    RNN_ROW_TILES = (RNN_ROWS + 7) / 8,
    RNN_LOAD = 4,           // elements of a load of 16 bytes, of one lane
    RNN_LOADS_MAX = 12,     // of a thread at once
    RNN_POLLS_MAX = 1 << 22 // some seconds
};
constexpr bool rnn_on_cores = RNN_ROWS > 1 || RNN_PRECISION >= 2;
constexpr int rnn_load_lanes = rnn_on_cores ? 4 : 8; // that a row's elements of a load lie in
constexpr int rnn_load_elements = rnn_load_lanes * RNN_LOAD;   // elements that a warp loads at once
constexpr int rnn_tile_rows = rnn_on_cores ? 16 : 4;           // of R, of a fragment of all lanes
constexpr int rnn_tile_load = rnn_on_cores ? 2 / RNN_WORD : 1; // fragments of a load
constexpr int rnn_loads_apart =
    rnn_load_lanes * (RNN_ROWS < 8 ? RNN_ROWS : 8); // of one tile of rows

/// Units of one CTA in a phase: of H, or in proportion of P.
constexpr __device__ int rnn_share(int size)
{
    return size == RNN_UNITS ? RNN_SHARE : ((size + RNN_CTAS - 1) / RNN_CTAS + 3) / 4 * 4;
}
constexpr __device__ int rnn_row_tiles(int phase) // of rows of R
{
    const int more = phase + 1 == RNN_PHASE_COUNT ? RNN_MORE_ROWS : 0;
    return (rnn_phases[phase].row_count * rnn_share(rnn_phases[phase].size) + more + rnn_tile_rows -
            1) /
           rnn_tile_rows;
}
constexpr __device__ int rnn_sum_rows(int phase) // of a warp's partial sums
{
    return rnn_row_tiles(phase) * rnn_tile_rows;
}
constexpr __device__ int rnn_loads(int phase) // of one lane and tile of rows
{
    return rnn_phases[phase].row_count > 0
               ? (rnn_phases[phase].operand_size + RNN_WARPS * rnn_load_elements - 1) /
                     (RNN_WARPS * rnn_load_elements)
               : 0;
}
constexpr __device__ int rnn_k_tiles(int phase) // of one warp
{
    return rnn_loads(phase) * rnn_tile_load;
}
/// Sums of one tile that are added up apart, so that few tiles do not wait for one another.
constexpr __device__ int rnn_chains(int phase)
{
    return rnn_on_cores && rnn_row_tiles(phase) * RNN_ROW_TILES <= 2 ? 2 : 1;
}
/// Cycles that a warp lets pass before it first asks for an operand. Loads that come too early
/// keep from L2 the stores that they wait for: those of a warp without units, whose wait begins
/// while the others do their pointwise part, and those of many rows. Measured on an H200: a step
/// of H = 768 with 8 rows takes 1.80 us for 2.24, of H = 512 with 16 rows 2.36 us for 2.66; one
/// row of 16 bits gains nothing.
constexpr __device__ int rnn_patience(bool has_units)
{
    if (RNN_ROWS < 4 && RNN_PRECISION >= 2)
        return 0;
    return !has_units ? 500 : RNN_ROWS >= 16 ? 400 - 100 * RNN_WORD : 0;
}
/// Loads that are under way at once: all, or so many that two lots fit the registers.
constexpr __device__ int rnn_lot(int phase)
{
    const int loads = rnn_loads(phase), half = RNN_LOADS_MAX / 2 / RNN_ROW_TILES;
    return loads * RNN_ROW_TILES <= RNN_LOADS_MAX ? loads : half > 1 ? half : 1;
}
constexpr __device__ int rnn_first_fragment(int phase)
{
    int first = 0;
    for (int p = 0; p < phase; p++)
        first += rnn_row_tiles(p) * rnn_k_tiles(p);
    return first;
}
/// Loads of 16 bytes, of all lanes, that a warp's slice of an operand is.
constexpr __device__ int rnn_slice_loads(int phase)
{
    return rnn_loads(phase) * RNN_ROW_TILES * rnn_loads_apart;
}
/// Where the buffers of a phase's operand begin, in loads; of the phase count: the end.
constexpr __device__ long long rnn_buffer_at(int phase)
{
    long long at = 0;
    for (int p = 0; p < phase; p++)
        at += 2ll * RNN_REPLICAS * RNN_WARPS * rnn_slice_loads(p);
    return at;
}
/// Floats of the partial sums, the largest of all phases, twice.
constexpr __device__ int rnn_partial_floats()
{
    int most = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_phases[p].row_count > 0 && rnn_sum_rows(p) > most)
            most = rnn_sum_rows(p);
    return 2 * RNN_WARPS * most * RNN_ROWS;
}
/// (unit, row) pairs of a CTA.
constexpr __device__ int rnn_pairs()
{
    int most = 0;
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_share(rnn_phases[p].size) > most)
            most = rnn_share(rnn_phases[p].size);
    return most * RNN_ROWS;
}

/// Whether every CTA sends a part of the operand of `reader`.
constexpr __device__ bool rnn_all_send(int reader)
{
    const int size = rnn_phases[reader].operand_size;
    return rnn_phases[reader].row_count > 0 && (RNN_CTAS - 1) * rnn_share(size) < size;
}

constexpr int rnn_fragment_count = rnn_first_fragment(RNN_PHASE_COUNT);
constexpr int rnn_held = RNN_HELD < rnn_fragment_count ? RNN_HELD : rnn_fragment_count;
constexpr int rnn_item_count = (rnn_pairs() + RNN_THREADS - 1) / RNN_THREADS; // of a thread
static_assert((RNN_ROWS & (RNN_ROWS - 1)) == 0 && RNN_SHARE % 4 == 0, "tiles of rows and units");
static_assert(RNN_WORD == 1 || RNN_ROWS <= 16, "a warp holds both units of a word");
static_assert(RNN_NORMS == 0, "a mean needs all units of a row");
static_assert(rnn_is_ordered(rnn_all_send), "a buffer may be written before all have read it");

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

/// Whether this thread's warp has units of its own.
RNN_INLINE bool rnn_has_units(const RnnThread &self)
{
    return rnn_pairs() > RNN_THREADS - 32 || self.warp * 32 < rnn_pairs();
}

/// Where a warp's slice of the operand begins in the buffers of a phase, in loads.
template <int Phase> RNN_INLINE long long rnn_slice_at(int parity, int replica, int slice)
{
    return rnn_buffer_at(Phase) +
           (((long long)parity * RNN_REPLICAS + replica) * RNN_WARPS + slice) *
               rnn_slice_loads(Phase);
}

/// What comes with a value of an epoch: the epoch, or its turn as the last bit of a word.
RNN_INLINE unsigned rnn_mark(unsigned epoch)
{
    return RNN_PRECISION >= 2 ? epoch : (epoch + 1) / 2 & 1;
}

/// 0 where all of a load is of the epoch with this mark.
RNN_INLINE unsigned rnn_missing(const uint4 &load, unsigned mark)
{
#if RNN_PRECISION >= 2
    return rnn_differ(load.y, load.w, mark);
#else
    return (rnn_differ(load.x, load.y, mark) | rnn_differ(load.z, load.w, mark)) & 1;
#endif
}

/// Zeros, with that mark, for the elements of a load from number `present` on.
RNN_INLINE void rnn_clear(uint4 &load, int present, unsigned mark)
{
#if RNN_PRECISION >= 2
    if (present <= 0)
        load.x = 0, load.y = mark;
    if (present <= 2)
        load.z = 0, load.w = mark;
#else
    load.x = present <= 0 ? mark : load.x;
    load.y = present <= 1 ? mark : load.y;
    load.z = present <= 2 ? mark : load.z;
    load.w = present <= 3 ? mark : load.w;
#endif
}

/// This warp's slice of the operand of `Phase`, received lot by lot.
template <int Phase> struct RnnOperand {
    static constexpr int loads = rnn_loads(Phase), lot = rnn_lot(Phase);
    static constexpr bool full =
        rnn_phases[Phase].operand_size == loads * RNN_WARPS * rnn_load_elements;
    const uint4 *from;
    int first; ///< element of this lane's first load
    unsigned mark;
    uint4 at[lot < loads ? 2 : 1][lot][RNN_ROW_TILES];

    /// Loads `to`, load `number` of row tile `n`, where `wanted`. Rows that are not there and
    /// elements beyond K have arrived, as zeros.
    RNN_MEMBER void load(uint4 &to, int number, int n, bool wanted)
    {
        rnn_exchange_load(to, from + (number * RNN_ROW_TILES + n) * rnn_loads_apart, wanted);
        if (!full)
            rnn_clear(to, rnn_phases[Phase].operand_size - first - number * rnn_load_elements,
                      mark);
    }

    /// Asks for the lot that begins at load `Begin`.
    template <int Begin> RNN_MEMBER void begin(const RnnThread &self)
    {
#pragma unroll
        for (int j = 0; j < lot && Begin + j < loads; j++)
#pragma unroll
            for (int n = 0; n < RNN_ROW_TILES; n++) {
                uint4 &to = at[Begin / lot % 2][j][n];
                const bool no_row = rnn_on_cores && n * 8 + self.lane / 4 >= self.rows;
                const unsigned other = RNN_PRECISION >= 2 ? mark - 1 : mark ^ 1;
                to = RNN_PRECISION >= 2 ? make_uint4(0, other, 0, other)
                                        : make_uint4(other, other, other, other);
                if (no_row)
                    rnn_clear(to, 0, mark);
                load(to, Begin + j, n, !no_row);
            }
    }

    /// Waits until the lot has arrived, all lanes alike.
    template <int Begin> RNN_MEMBER void wait(RnnThread &self)
    {
        for (int polls = 0; !self.stuck; polls++) {
            unsigned missing[lot][RNN_ROW_TILES] = {}, any = 0;
#pragma unroll
            for (int j = 0; j < lot && Begin + j < loads; j++)
#pragma unroll
                for (int n = 0; n < RNN_ROW_TILES; n++) {
                    missing[j][n] = rnn_missing(at[Begin / lot % 2][j][n], mark);
                    any |= missing[j][n];
                }
            if (!__any_sync(0xffffffff, any))
                break;
            self.stuck = polls == RNN_POLLS_MAX;
#pragma unroll
            for (int j = 0; j < lot && Begin + j < loads; j++)
#pragma unroll
                for (int n = 0; n < RNN_ROW_TILES; n++)
                    load(at[Begin / lot % 2][j][n], Begin + j, n, missing[j][n]);
        }
    }
};

#if RNN_PRECISION == 0
/// An operand of float32 as two of tf32. `finite` is `high` where that is finite, else 0: what
/// multiplies the rest of a weight, so that an infinity counts once.
struct RnnSplit {
    unsigned high, finite, low;
};
RNN_INLINE RnnSplit rnn_split(unsigned x)
{
    RnnSplit split = {rnn_high(x), 0, rnn_low(x)};
    split.finite = (split.high & 0x7f800000) == 0x7f800000 ? 0 : split.high;
    return split;
}

/// The rest of a weight, of which the tensor core reads the first 19 bits. Packed weights have 22
/// significant bits, so that the rest has 11 and is a number of tf32.
RNN_INLINE unsigned rnn_weight_rest(unsigned weight)
{
    return __float_as_uint(
        __fsub_rn(__uint_as_float(weight), __uint_as_float(weight & 0xffffe000)));
}
#endif

/// sums += a * b for all row tiles of R and of the batch at one tile of K; b0 and b1 are the words
/// of the fragment, without their marks. In float32 the three products of a pair of tiles stand
/// apart, so that none waits for the one before.
template <int Tiles>
RNN_INLINE void
rnn_multiply_tiles(float (&sums)[Tiles][RNN_ROW_TILES][4], const unsigned (&a)[Tiles][4],
                   const unsigned (&b0)[RNN_ROW_TILES], const unsigned (&b1)[RNN_ROW_TILES])
{
#if RNN_PRECISION == 0
    unsigned rest[Tiles][4];
#pragma unroll
    for (int m = 0; m < Tiles; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            rest[m][i] = rnn_weight_rest(a[m][i]);
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES; n++) {
        const RnnSplit x = rnn_split(b0[n]), z = rnn_split(b1[n]);
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma_once(sums[m][n], rest[m], x.finite, z.finite);
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma_once(sums[m][n], a[m], x.low, z.low);
#pragma unroll
        for (int m = 0; m < Tiles; m++)
            rnn_mma_once(sums[m][n], a[m], x.high, z.high);
    }
#else
#pragma unroll
    for (int m = 0; m < Tiles; m++)
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++)
            rnn_mma(sums[m][n], a[m], b0[n], b1[n]);
#endif
}

/// What is added bitwise to a row of the batch where partial sums of a row of R lie: rows of R 4
/// apart and more have the same.
RNN_INLINE int rnn_swap(int row_of_R)
{
    return RNN_ROWS == 32 ? row_of_R % 4 * 8 : RNN_ROWS == 16 ? row_of_R / 2 % 2 * 8 : 0;
}

RNN_INLINE float *rnn_partials(const RnnThread &self)
{
    return self.partials + self.turn * (rnn_partial_floats() / 2);
}

/// Where a warp's partial sum of a row of R and of the batch lies.
template <int Phase> RNN_INLINE int rnn_partial_at(int warp, int row_of_R, int row)
{
    return RNN_ROWS == 1
               ? row_of_R * RNN_WARPS + warp
               : (warp * rnn_sum_rows(Phase) + row_of_R) * RNN_ROWS + (row ^ rnn_swap(row_of_R));
}

/// The product's value of row `row_of_R` of this CTA's matrix: the sum of the warps' partials.
template <int Phase> RNN_INLINE float rnn_sum(const float *partials, int row_of_R, int row)
{
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < RNN_WARPS; w += 4) {
        float part[4];
        if constexpr (RNN_ROWS == 1)
            *(float4 *)part = *(const float4 *)(partials + rnn_partial_at<Phase>(w, row_of_R, 0));
        else
#pragma unroll
            for (int i = 0; i < 4; i++)
                part[i] = partials[rnn_partial_at<Phase>(w + i, row_of_R, row)];
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum += part[i];
    }
    return sum;
}

/// A warp's sums of a product: [chain][tile of R][tile of rows][value of a fragment].
template <int Phase> struct RnnSums {
    float at[rnn_chains(Phase)][rnn_row_tiles(Phase)][RNN_ROW_TILES][4];
};

/// Fragment `number` of this thread.
RNN_INLINE uint4 rnn_weights_of(const RnnThread &self, int number)
{
    return number < rnn_held ? self.weights[number < rnn_held ? number : 0]
                             : self.rest[(number - rnn_held) * RNN_THREADS];
}

/// Multiplies load `load` of the operand on tensor cores.
template <int Phase>
RNN_INLINE void rnn_multiply_load(const RnnThread &self, int load,
                                  const uint4 (&operand)[RNN_ROW_TILES], RnnSums<Phase> &sums)
{
    constexpr int row_tiles = rnn_row_tiles(Phase);
#pragma unroll
    for (int half = 0; half < rnn_tile_load; half++) {
        const int tile = load * rnn_tile_load + half;
        unsigned a[row_tiles][4], b0[RNN_ROW_TILES], b1[RNN_ROW_TILES];
#pragma unroll
        for (int m = 0; m < row_tiles; m++) {
            const uint4 w = rnn_weights_of(self, rnn_first_fragment(Phase) + tile * row_tiles + m);
            a[m][0] = w.x, a[m][1] = w.y, a[m][2] = w.z, a[m][3] = w.w;
        }
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++) {
            const uint4 &from = operand[n];
            b0[n] = RNN_PRECISION >= 2 ? from.x : (half ? from.z : from.x) & ~1u;
            b1[n] = RNN_PRECISION >= 2 ? from.z : (half ? from.w : from.y) & ~1u;
        }
        rnn_multiply_tiles<row_tiles>(sums.at[tile % rnn_chains(Phase)], a, b0, b1);
    }
}

/// The same of one row: this lane's four elements, for a row of R of each tile.
template <int Phase>
RNN_INLINE void rnn_multiply_row(const RnnThread &self, int load, const uint4 &operand,
                                 RnnSums<Phase> &sums)
{
    constexpr int row_tiles = rnn_row_tiles(Phase);
    const float x = __uint_as_float(operand.x & ~1u), y = __uint_as_float(operand.y & ~1u);
    const float z = __uint_as_float(operand.z & ~1u), w = __uint_as_float(operand.w & ~1u);
#pragma unroll
    for (int m = 0; m < row_tiles; m++) {
        const uint4 a = rnn_weights_of(self, rnn_first_fragment(Phase) + load * row_tiles + m);
        float &sum = sums.at[0][m][0][0];
        sum = fmaf(__uint_as_float(a.x), x, sum);
        sum = fmaf(__uint_as_float(a.y), y, sum);
        sum = fmaf(__uint_as_float(a.z), z, sum);
        sum = fmaf(__uint_as_float(a.w), w, sum);
    }
}

/// Lots from load `Begin` on: the next is under way while one is multiplied.
template <int Phase, int Begin>
RNN_INLINE void rnn_multiply_lots(RnnThread &self, RnnOperand<Phase> &operand, RnnSums<Phase> &sums)
{
    constexpr int lot = RnnOperand<Phase>::lot, loads = RnnOperand<Phase>::loads;
    if constexpr (Begin < loads) {
        operand.template wait<Begin>(self);
        if constexpr (Begin + lot < loads)
            operand.template begin<Begin + lot>(self);
#pragma unroll
        for (int j = 0; j < lot && Begin + j < loads; j++)
            if constexpr (rnn_on_cores)
                rnn_multiply_load<Phase>(self, Begin + j, operand.at[Begin / lot % 2][j], sums);
            else
                rnn_multiply_row<Phase>(self, Begin + j, operand.at[Begin / lot % 2][j][0], sums);
        rnn_multiply_lots<Phase, Begin + lot>(self, operand, sums);
    }
}

/// Stores a warp's sums of one tile of 16 rows of R and of one of the batch.
template <int Phase>
RNN_INLINE void rnn_store_sums(const RnnThread &self, float *to, int tile, int row_tile,
                               const float (&sums)[4])
{
    const int column = row_tile * 8 + self.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 && column < RNN_ROWS; i++) {
        const int row_of_R = tile * 16 + i * 8 + self.lane / 4;
        float *at = to + rnn_partial_at<Phase>(self.warp, row_of_R, column);
        if constexpr (RNN_ROWS == 1)
            *at = sums[2 * i];
        else
            *(float2 *)at = make_float2(sums[2 * i], sums[2 * i + 1]);
    }
}

/// Adds up the tiles over the lanes that differ in `Bit` and lower bits: each half of them goes on
/// with half of the tiles, so that there are about as many shuffles as tiles.
template <int Bit, int Tiles> RNN_INLINE void rnn_add_lanes(const RnnThread &self, float *sums)
{
    if constexpr (Bit > 0) {
        constexpr int half = (Tiles + 1) / 2;
        const bool upper = self.lane & Bit;
#pragma unroll
        for (int i = 0; i < half; i++) {
            const float high = i + half < Tiles ? sums[i + half] : 0.0f;
            const float sent = upper ? sums[i] : high;
            sums[i] = (upper ? high : sums[i]) + __shfl_xor_sync(0xffffffff, sent, Bit);
        }
        rnn_add_lanes<Bit / 2, half>(self, sums);
    }
}
/// The tile whose sum this lane then has as number `i`; the last ones may be beyond the end.
template <int Bit, int Tiles> RNN_INLINE int rnn_tile_added(const RnnThread &self, int i)
{
    if constexpr (Bit > 0) {
        constexpr int half = (Tiles + 1) / 2;
        const bool upper = self.lane & Bit;
        const int tile = rnn_tile_added<Bit / 2, half>(self, i);
        return upper ? tile < Tiles - half ? tile + half : Tiles : tile < half ? tile : Tiles;
    }
    return i;
}

/// Stores the sums of one row.
template <int Phase>
RNN_INLINE void rnn_store_row(const RnnThread &self, float *to, RnnSums<Phase> &sums)
{
    constexpr int row_tiles = rnn_row_tiles(Phase);
    float of[row_tiles];
#pragma unroll
    for (int m = 0; m < row_tiles; m++)
        of[m] = sums.at[0][m][0][0];
    rnn_add_lanes<rnn_load_lanes / 2, row_tiles>(self, of);
#pragma unroll
    for (int i = 0; i < (row_tiles + rnn_load_lanes - 1) / rnn_load_lanes; i++) {
        const int tile = rnn_tile_added<rnn_load_lanes / 2, row_tiles>(self, i);
        if (tile < row_tiles)
            to[rnn_partial_at<Phase>(self.warp, tile * rnn_tile_rows + self.lane / rnn_load_lanes,
                                     0)] = of[i];
    }
}

/// This warp's part of the product of `Phase`, to the partial sums.
template <int Phase> RNN_INLINE void rnn_multiply(RnnThread &self, unsigned epoch)
{
    RnnOperand<Phase> operand;
    RnnSums<Phase> sums = {};
    operand.mark = rnn_mark(epoch);
    operand.first =
        self.warp * operand.loads * rnn_load_elements + self.lane % rnn_load_lanes * RNN_LOAD;
    operand.from = self.buffers + (rnn_on_cores ? self.lane : self.lane % rnn_load_lanes) +
                   rnn_slice_at<Phase>(epoch & 1, self.cta % RNN_REPLICAS, self.warp);
    rnn_pass(rnn_patience(rnn_has_units(self)));
    operand.template begin<0>(self);
    rnn_multiply_lots<Phase, 0>(self, operand, sums);
    float *to = rnn_partials(self);
    if constexpr (!rnn_on_cores)
        rnn_store_row<Phase>(self, to, sums);
    else
#pragma unroll
        for (int m = 0; m < rnn_row_tiles(Phase); m++)
#pragma unroll
            for (int n = 0; n < RNN_ROW_TILES; n++) {
#pragma unroll
                for (int i = 0; rnn_chains(Phase) > 1 && i < 4; i++)
                    sums.at[0][m][n][i] += sums.at[rnn_chains(Phase) - 1][m][n][i];
                rnn_store_sums<Phase>(self, to, m, n, sums.at[0][m][n]);
            }
}

/// Where the first element of the packed fragment `at` of [cta][fragment][thread] comes from.
struct RnnPlace {
    int cta, phase, row, k;
};
RNN_INLINE RnnPlace rnn_fragment_place(long long at)
{
    const int thread = at % RNN_THREADS, warp = thread / 32, lane = thread % 32;
    const int fragment = at / RNN_THREADS % rnn_fragment_count;
    RnnPlace place = {(int)(at / RNN_THREADS / rnn_fragment_count), 0, 0, 0};
    while (fragment >= rnn_first_fragment(place.phase + 1))
        place.phase++;
    const int within = fragment - rnn_first_fragment(place.phase);
    const int row_tiles = rnn_row_tiles(place.phase), tile = within / row_tiles;
    place.row =
        within % row_tiles * rnn_tile_rows + (rnn_on_cores ? lane / 4 : lane / rnn_load_lanes);
    place.k = (warp * rnn_loads(place.phase) + tile / rnn_tile_load) * rnn_load_elements +
              lane % rnn_load_lanes * RNN_LOAD + tile % rnn_tile_load * 2;
    return place;
}
/// The row and element that register `i` of 4 begins with.
RNN_INLINE RnnPlace rnn_register_place(const RnnPlace &first, int i)
{
    RnnPlace place = first;
    place.row += rnn_on_cores ? i % 2 * 8 : 0;
    place.k += rnn_on_cores ? i / 2 * RNN_WORD : i;
    return place;
}

/// A register of a packed fragment, of the RNN_WORD weights `w`.
RNN_INLINE unsigned rnn_weight_word(const float (&w)[2])
{
#if RNN_PRECISION >= 2
    return rnn_narrow(w[0]) | (unsigned)rnn_narrow(w[1]) << 16;
#else
    const unsigned word = __float_as_uint(rnn_round(w[0]));
    const bool splits = RNN_PRECISION == 0 && rnn_on_cores && fabsf(w[0]) < RNN_INFINITY;
    return splits ? (word + 2) & ~3u : word; // 22 bits, as rnn_weight_rest wants them
#endif
}

/// Sends `value` of the item's unit, an operand of `Reader`, to all CTAs of the group. All threads
/// of a warp call it: words of 16-bit values are put together by neighbours.
template <int Reader>
RNN_INLINE void rnn_send(const RnnThread &self, int item, float value, unsigned epoch)
{
    constexpr RnnPhase reader = rnn_phases[Reader];
    constexpr int share = rnn_share(reader.operand_size);
    const int unit = rnn_item_unit(item), row = rnn_item_row();
    const unsigned k = self.cta * share + unit;
    bool owned = unit < share && k < reader.operand_size;
#if RNN_RECURRENT_DROPOUT
    if (reader.matrix == RNN_MATRIX_R)
        value *= self.scale[item];
#endif
#if RNN_PRECISION >= 2
    owned = owned && row < self.rows;
    const unsigned mine = owned ? rnn_narrow(value) : 0;
    const unsigned other = __shfl_xor_sync(0xffffffff, mine, RNN_ROWS);
    const unsigned word = mine | other << 16;
    owned = owned && unit % 2 == 0;
#else
    const unsigned bits = __float_as_uint(rnn_round(value));
    const unsigned word = ((value == value ? bits + 1 : bits) & ~1u) | rnn_mark(epoch);
#endif
    if (!owned)
        return;
    const unsigned load = (k / rnn_load_elements * RNN_ROW_TILES + row / 8) * rnn_loads_apart +
                          row % 8 * rnn_load_lanes + k % rnn_load_elements / RNN_LOAD;
    char *to =
        (char *)(self.buffers + rnn_slice_at<Reader>(epoch & 1, 0, 0) + load) + k % RNN_LOAD * 4;
    constexpr long long replica_bytes = 16ll * RNN_WARPS * rnn_slice_loads(Reader);
#pragma unroll
    for (int replica = 0; replica < RNN_REPLICAS; replica++)
#if RNN_PRECISION >= 2
        rnn_packet_store(to + replica * replica_bytes, word, epoch);
#else
        rnn_word_store(to + replica * replica_bytes, word);
#endif
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
