// Products back through the matrices, for cluster_gradient.cuh: what a CTA multiplies and where
// fragments, operands and what products return lie.
//
//     operand [block of 8 units: gate, warp, group][8 rows][row r, units 2q and 2q + 1: 4*r + q]
//     returned [parity][CTA that sent][16 units][row tile][unit][8 rows] float32
//
// Product n (n counts the products of a phase) goes to buffer n % 2, whose barrier (mbarrier)
// counts bytes. Whoever sends product n + 2 has waited for all of n + 1, which each CTA sent after
// a barrier of its threads that comes after all of them have read n. Operands lie in one buffer:
// all of a CTA has multiplied before it has got what all CTAs have sent. Thread 0 arms the barrier
// for n + 2 when it has seen n complete; bytes that come before count too. One whose wait has run
// out goes on without waiting or sending, as in cluster_product.cuh.
#ifndef RNN_BACK_PRODUCT_CUH
#define RNN_BACK_PRODUCT_CUH

#include "cuda/prim/async.cuh"
#include "cuda/prim/cluster.cuh"
#include "cuda/prim/halves.cuh"
#include "cuda/prim/mma.cuh"
#include "cuda/training.cuh"

#ifndef RNN_BACK_CTAS
#define RNN_BACK_CTAS 2  // of a cluster
#define RNN_BACK_WARPS 4 // of a CTA
#define RNN_BACK_ROWS 8  // of the batch, of a cluster
#define RNN_BACK_HELD 32 // fragments of a thread in registers
#endif

enum {
    RNN_BACK_THREADS = 32 * RNN_BACK_WARPS,
    RNN_BACK_TILES = (RNN_BACK_ROWS + 7) / 8,      // of 8 rows
    RNN_BACK_PARTS = RNN_PRECISION == 0 ? 2 : 1,   // of a value: high and rest
    RNN_BACK_CHUNK = 8 / RNN_BACK_PARTS,           // tiles that a warp multiplies at a time
    RNN_BACK_SCALED = RNN_PRECISION != 2,          // float16 has not the range of a delta
    RNN_BACK_BARRIER_BYTES = 128,                  // [phase][parity]
    RNN_BACK_PART_FLOATS = 16 * 8 * RNN_BACK_TILES // returned: 16 units of all rows
};

#if RNN_PRECISION == 0
typedef uint2 RnnBackPair; // of two units: high parts, rests
#else
typedef unsigned RnnBackPair;
#endif

/// Groups of 8 units of one warp, and units of one CTA, where a vector has `size` units.
constexpr __device__ int rnn_back_groups(int size)
{
    return (size + 8 * RNN_BACK_CTAS * RNN_BACK_WARPS - 1) / (8 * RNN_BACK_CTAS * RNN_BACK_WARPS);
}
constexpr __device__ int rnn_back_share(int size)
{
    return 8 * RNN_BACK_WARPS * rnn_back_groups(size);
}
constexpr __device__ int rnn_back_most_groups()
{
    int most = rnn_back_groups(RNN_UNITS);
    for (int p = 0; p < RNN_PHASE_COUNT; p++)
        if (rnn_back_groups(rnn_phases[p].size) > most)
            most = rnn_back_groups(rnn_phases[p].size);
    return most;
}
/// Of the product that goes back through a phase: tiles of K (16 deltas of this CTA), of M (16
/// units of a CTA that it returns to), and those of M that a warp multiplies.
constexpr __device__ int rnn_back_k_tiles(int phase)
{
    return rnn_phases[phase].row_count * rnn_back_share(rnn_phases[phase].size) / 16;
}
constexpr __device__ int rnn_back_parts_of_cta(int phase)
{
    return rnn_back_share(rnn_phases[phase].operand_size) / 16;
}
constexpr __device__ int rnn_back_m_tiles(int phase)
{
    return rnn_phases[phase].row_count == 0
               ? 0
               : (RNN_BACK_CTAS * rnn_back_parts_of_cta(phase) + RNN_BACK_WARPS - 1) /
                     RNN_BACK_WARPS;
}
constexpr __device__ int rnn_back_first_fragment(int phase)
{
    int first = 0;
    for (int p = 0; p < phase; p++)
        first += rnn_back_m_tiles(p) * rnn_back_k_tiles(p) * RNN_BACK_PARTS;
    return first;
}
/// Pairs of a phase's operand, floats of one buffer of what it returns, and where they begin.
constexpr __device__ int rnn_back_operand_pairs(int phase)
{
    return rnn_back_k_tiles(phase) * 2 * RNN_BACK_TILES * 32;
}
constexpr __device__ int rnn_back_returned_floats(int phase)
{
    return rnn_phases[phase].row_count == 0
               ? 0
               : RNN_BACK_CTAS * rnn_back_parts_of_cta(phase) * RNN_BACK_PART_FLOATS;
}
constexpr __device__ int rnn_back_operand_at(int phase) // bytes
{
    int at = RNN_BACK_BARRIER_BYTES;
    for (int p = 0; p < phase; p++)
        at += rnn_back_operand_pairs(p) * (int)sizeof(RnnBackPair);
    return at;
}
constexpr __device__ int rnn_back_returned_at(int phase)
{
    int at = rnn_back_operand_at(RNN_PHASE_COUNT);
    for (int p = 0; p < phase; p++)
        at += 2 * rnn_back_returned_floats(p) * 4;
    return at;
}

constexpr int rnn_back_fragment_count = rnn_back_first_fragment(RNN_PHASE_COUNT);
constexpr int rnn_back_held =
    RNN_BACK_HELD < rnn_back_fragment_count ? RNN_BACK_HELD : rnn_back_fragment_count;
constexpr int rnn_back_groups_most = rnn_back_most_groups();
constexpr int rnn_back_item_count = rnn_back_groups_most * RNN_BACK_TILES * 2;
constexpr int rnn_back_largest_at = rnn_back_returned_at(RNN_PHASE_COUNT); // [row][warp]
constexpr int rnn_back_rest_at =
    rnn_back_largest_at + RNN_BACK_SCALED * 8 * RNN_BACK_TILES * RNN_BACK_WARPS * 4;
constexpr int rnn_back_shared_bytes = rnn_back_rest_at + (rnn_back_fragment_count - rnn_back_held) *
                                                             RNN_BACK_THREADS * (int)sizeof(uint4);

static_assert(RNN_BACK_WARPS % 2 == 0, "tiles of 16 units are whole in a CTA");
static_assert(RNN_BACK_ROWS % 2 == 0 || RNN_BACK_ROWS == 1, "a lane sends two rows");
static_assert((RNN_BACK_CTAS & (RNN_BACK_CTAS - 1)) == 0, "CTAs of a cluster");
static_assert(RNN_PHASE_COUNT * 16 <= RNN_BACK_BARRIER_BYTES, "two barriers a phase");
static_assert(RNN_CELL_NORMS == 0, "a mean needs all units of a row");
#ifdef RNN_BACK_SHARED_BYTES
static_assert(rnn_back_shared_bytes == RNN_BACK_SHARED_BYTES, "the plan's bytes of shared memory");
#endif

/// The exponents of R's columns, behind the fragments: [phase][unit that it returns to].
constexpr __device__ int rnn_back_columns_at(int phase)
{
    int at = 0;
    for (int p = 0; p < phase; p++)
        at += rnn_back_returned_floats(p) / (8 * RNN_BACK_TILES);
    return at;
}
constexpr int rnn_back_column_count = rnn_back_columns_at(RNN_PHASE_COUNT);
RNN_INLINE const int *rnn_back_exponents(const uint4 *weights)
{
    return (const int *)(weights +
                         (long long)RNN_BACK_CTAS * rnn_back_fragment_count * RNN_BACK_THREADS);
}

/// The unit of the first row of tile `tile` of a warp in a phase's product, -1 where there is none.
/// Each CTA begins with what goes to itself.
RNN_INLINE int rnn_back_first_unit(int phase, int tile, int cta, int warp)
{
    const int at = tile * RNN_BACK_WARPS + warp, parts = rnn_back_parts_of_cta(phase);
    return at < RNN_BACK_CTAS * parts
               ? ((at / parts + cta) % RNN_BACK_CTAS * parts + at % parts) * 16
               : -1;
}

/// What the kernel is given; all device memory.
struct RnnBackRun {
    RnnStep at;                          ///< its step is not used
    const uint4 *weights;                ///< by rnn_back_pack
    const float *states[RNN_STATES_MAX]; ///< [T + 1, B, size]; NULL: not kept
    const float *saved;                  ///< [T, B, RNN_SAVED_STRIDE]
    float *adjoints[RNN_STATES_MAX];     ///< [B, size]: of the final states, then of the initial
    float *deltas;                       ///< [T, B, RNN_DELTA_STRIDE]; 0 beyond a group's steps
    const float *dy;
    long long dy_row_stride, dy_step_stride;
    int *fault; ///< kind and three numbers; memory of the host's
    int fault_kind, layer;
};

/// What one step of an item needs from device memory.
struct RnnTape {
    float saved[RNN_SOME(RNN_SAVED)], state[RNN_STATES], dy;
};

/// What one thread keeps over all steps of a row group.
struct RnnBackThread {
    uint4 weights[RNN_SOME(rnn_back_held)];
    const uint4 *rest; ///< its further fragments in shared memory, RNN_BACK_THREADS apart
    char *shared;
    unsigned address; ///< of shared
    long long first_row;
    int rows; ///< of this row group that the batch has
    int cta, warp, lane;
    unsigned turn; ///< products of each phase so far
    bool stuck;
    RnnVectors vectors[rnn_back_groups_most];
    float adjoint[rnn_back_item_count][RNN_STATES]; ///< after the step, products aside
    float next[rnn_back_item_count][RNN_STATES];    ///< states after it
    float scale[rnn_back_item_count];               ///< of what comes back through R
    RnnTape tape[rnn_back_item_count];
    float factor[rnn_back_groups_most][RNN_PHASE_COUNT];   ///< of sums, undoes that of R's column
    int steps[RNN_BACK_TILES][2], last[RNN_BACK_TILES][2]; ///< of the items' rows
    int time[RNN_BACK_TILES][2]; ///< of their steps, one before those on the tape
};

RNN_INLINE int rnn_back_item(int group, int tile, int column)
{
    return (group * RNN_BACK_TILES + tile) * 2 + column;
}
RNN_INLINE int rnn_back_row(const RnnBackThread &self, int tile, int column)
{
    return tile * 8 + self.lane % 4 * 2 + column;
}
/// The unit of a vector of `size` that belongs to the thread's group.
RNN_INLINE int rnn_back_unit(const RnnBackThread &self, int size, int group)
{
    return self.cta * rnn_back_share(size) + (self.warp * rnn_back_groups(size) + group) * 8 +
           self.lane / 4;
}
/// Whether that group, unit and row are there.
RNN_INLINE bool rnn_back_owns(const RnnBackThread &self, int size, int group, int row)
{
    return group < rnn_back_groups(size) && rnn_back_unit(self, size, group) < size &&
           row < self.rows;
}

template <int Phase> RNN_INLINE unsigned rnn_back_barrier(const RnnBackThread &self, unsigned turn)
{
    return self.address + (Phase * 2 + (turn & 1)) * 8;
}
template <int Phase>
constexpr int rnn_back_bytes_of = RNN_BACK_CTAS *rnn_back_parts_of_cta(Phase) * 16 *
                                  ((RNN_BACK_ROWS + 1) / 2 * 2) * 4;

/// Adds to `seeds[item][to]` what product `turn` of a phase has returned.
template <int Phase, int Seeds>
RNN_INLINE void rnn_back_receive(RnnBackThread &self, unsigned turn, int to,
                                 float (&seeds)[rnn_back_item_count][Seeds])
{
    constexpr RnnPhase phase = rnn_phases[Phase];
    constexpr int parts = rnn_back_parts_of_cta(Phase);
    const unsigned barrier = rnn_back_barrier<Phase>(self, turn);
    if (!self.stuck)
        self.stuck = !rnn_barrier_wait(barrier, turn >> 1 & 1);
    if (threadIdx.x == 0 && !self.stuck)
        rnn_barrier_expect(barrier, rnn_back_bytes_of<Phase>);
    const float *from = (const float *)(self.shared + rnn_back_returned_at(Phase)) +
                        (turn & 1) * rnn_back_returned_floats(Phase);
#pragma unroll
    for (int g = 0; g < rnn_back_groups(phase.operand_size); g++) {
        const int block = self.warp * rnn_back_groups(phase.operand_size) + g;
#pragma unroll
        for (int n = 0; n < RNN_BACK_TILES; n++) {
            const float *own = from + block / 2 * RNN_BACK_PART_FLOATS + n * 128 +
                               (block % 2 * 8 + self.lane / 4) * 8 + self.lane % 4 * 2;
            float2 sum = *(const float2 *)own;
#pragma unroll
            for (int cta = 1; cta < RNN_BACK_CTAS; cta++) {
                const float2 more = *(const float2 *)(own + cta * parts * RNN_BACK_PART_FLOATS);
                sum.x += more.x;
                sum.y += more.y;
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int i = rnn_back_item(g, n, e);
                float value = e ? sum.y : sum.x;
                if (RNN_BACK_SCALED)
                    value *= self.factor[g][Phase];
                if (RNN_RECURRENT_DROPOUT && phase.matrix == RNN_MATRIX_R)
                    value *= self.scale[i];
                seeds[i][to] += value;
            }
        }
    }
}

/// The power of two that brings the group's deltas into the range of float16, for each row: the
/// same in all threads of the CTA.
template <int Count>
RNN_INLINE void rnn_back_ranges(const RnnBackThread &self,
                                const float (&values)[Count][RNN_BACK_TILES][2],
                                int (&exponents)[RNN_BACK_TILES][2])
{
    float *largest = (float *)(self.shared + rnn_back_largest_at);
#pragma unroll
    for (int n = 0; n < RNN_BACK_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            unsigned most = 0;
#pragma unroll
            for (int i = 0; i < Count; i++) {
                const unsigned bits = __float_as_uint(values[i][n][e]) & 0x7fffffff;
                most = bits > most && bits < 0x7f800000 ? bits : most;
            }
#pragma unroll
            for (int apart = 4; apart < 32; apart *= 2) {
                const unsigned other = __shfl_xor_sync(0xffffffff, most, apart);
                most = other > most ? other : most;
            }
            if (self.lane < 4)
                largest[rnn_back_row(self, n, e) * RNN_BACK_WARPS + self.warp] =
                    __uint_as_float(most);
        }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < RNN_BACK_TILES; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float most = 0.0f;
#pragma unroll
            for (int w = 0; w < RNN_BACK_WARPS; w++)
                most = fmaxf(most, largest[rnn_back_row(self, n, e) * RNN_BACK_WARPS + w]);
            exponents[n][e] = rnn_range_exponent(most);
        }
}

/// Two deltas of neighbouring units as an operand.
RNN_INLINE RnnBackPair rnn_back_narrow(float first, float second)
{
    const unsigned pair = rnn_pair(first, second);
#if RNN_PRECISION == 0
    return make_uint2(pair, rnn_pair_rest(first, second, pair));
#else
    return pair;
#endif
}

/// Puts the thread's deltas, [gate, group][row tile][column], where the CTA multiplies them. Lanes
/// of neighbouring units put their values together: an even one the first row, an odd one the
/// second.
template <int Phase, int Count>
RNN_INLINE void rnn_back_put(const RnnBackThread &self,
                             const float (&values)[Count][RNN_BACK_TILES][2],
                             const int (&exponents)[RNN_BACK_TILES][2])
{
    constexpr int groups = rnn_back_groups(rnn_phases[Phase].size);
    RnnBackPair *to = (RnnBackPair *)(self.shared + rnn_back_operand_at(Phase));
    const int odd = self.lane / 4 % 2, row = self.lane % 4 * 2 + odd;
#pragma unroll
    for (int i = 0; i < Count; i++) {
        const int block = (i / groups * RNN_BACK_WARPS + self.warp) * groups + i % groups;
#pragma unroll
        for (int n = 0; n < RNN_BACK_TILES; n++) {
            float own[2];
#pragma unroll
            for (int e = 0; e < 2; e++)
                own[e] = RNN_BACK_SCALED ? values[i][n][e] * rnn_range_factor(exponents[n][e])
                                         : values[i][n][e];
            const float taken = __shfl_xor_sync(0xffffffff, odd ? own[0] : own[1], 4);
            to[(block * RNN_BACK_TILES + n) * 32 + row * 4 + self.lane / 8] =
                rnn_back_narrow(odd ? taken : own[0], odd ? own[1] : taken);
        }
    }
}

/// sums += fragment * operand of one tile of K and of the batch.
RNN_INLINE void rnn_back_multiply_tile(float (&sums)[RNN_BACK_PARTS][4],
                                       const uint4 (&w)[RNN_BACK_PARTS], RnnBackPair first,
                                       RnnBackPair second)
{
    unsigned a[RNN_BACK_PARTS][4];
#pragma unroll
    for (int part = 0; part < RNN_BACK_PARTS; part++)
        a[part][0] = w[part].x, a[part][1] = w[part].y, a[part][2] = w[part].z,
        a[part][3] = w[part].w;
#if RNN_PRECISION == 0
    rnn_mma_halves(sums[0], a[0], first.x, second.x);
    rnn_mma_halves(sums[1], a[1], first.x, second.x);
    rnn_mma_halves(sums[1], a[0], first.y, second.y);
#elif RNN_PRECISION == 1
    rnn_mma_halves(sums[0], a[0], first, second);
#else
    rnn_mma_once(sums[0], a[0], first, second);
#endif
}

/// A finished sum: with its rest, if it is finite, and without the row's scale.
RNN_INLINE float rnn_back_sum(const float (&sums)[RNN_BACK_PARTS][4], int word, float inverse)
{
    float sum = sums[0][word];
    if (RNN_BACK_PARTS == 2 && fabsf(sum) < RNN_INFINITY)
        sum = fmaf(sums[RNN_BACK_PARTS - 1][word], 1.0f / RNN_REST, sum);
    return RNN_BACK_SCALED ? sum * inverse : sum;
}

/// Sends the sums of tile `m` to the CTA that owns them, as product `turn`.
template <int Phase>
RNN_INLINE void rnn_back_send(const RnnBackThread &self, int m,
                              const float (&sums)[RNN_BACK_TILES][RNN_BACK_PARTS][4], unsigned turn,
                              const int (&exponents)[RNN_BACK_TILES][2])
{
    constexpr int parts = rnn_back_parts_of_cta(Phase);
    const int unit = rnn_back_first_unit(Phase, m, self.cta, self.warp);
    if (unit < 0 || self.stuck)
        return;
    const unsigned peer = rnn_cluster_address(self.address, unit / (16 * parts));
    const unsigned barrier = peer + (rnn_back_barrier<Phase>(self, turn) - self.address);
#pragma unroll
    for (int n = 0; n < RNN_BACK_TILES; n++) {
        if (n * 8 + self.lane % 4 * 2 >= RNN_BACK_ROWS)
            continue;
        const unsigned to = peer + rnn_back_returned_at(Phase) +
                            ((turn & 1) * rnn_back_returned_floats(Phase) +
                             (self.cta * parts + unit / 16 % parts) * RNN_BACK_PART_FLOATS +
                             n * 128 + self.lane * 2) *
                                4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned words[2];
#pragma unroll
            for (int e = 0; e < 2; e++)
                words[e] = __float_as_uint(
                    rnn_back_sum(sums[n], half * 2 + e, rnn_range_inverse(exponents[n][e])));
            rnn_cluster_store(to + half * 256, make_uint2(words[0], words[1]), barrier);
        }
    }
}

/// Multiplies the CTA's operand with the warp's tiles from First on, some at a time, and sends the
/// sums as product `turn`.
template <int Phase, int First>
RNN_INLINE void rnn_back_multiply(const RnnBackThread &self, unsigned turn,
                                  const int (&exponents)[RNN_BACK_TILES][2])
{
    constexpr int all = rnn_back_m_tiles(Phase), k_tiles = rnn_back_k_tiles(Phase);
    constexpr int first = rnn_back_first_fragment(Phase);
    if constexpr (First < all) {
        constexpr int tiles = all - First < RNN_BACK_CHUNK ? all - First : RNN_BACK_CHUNK;
        float sums[tiles][RNN_BACK_TILES][RNN_BACK_PARTS][4] = {};
        const RnnBackPair *from =
            (const RnnBackPair *)(self.shared + rnn_back_operand_at(Phase)) + self.lane;
#pragma unroll
        for (int j = 0; j < k_tiles; j++) {
            RnnBackPair b[RNN_BACK_TILES][2];
#pragma unroll
            for (int n = 0; n < RNN_BACK_TILES; n++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    b[n][half] = from[((j * 2 + half) * RNN_BACK_TILES + n) * 32];
#pragma unroll
            for (int m = 0; m < tiles; m++) {
                uint4 w[RNN_BACK_PARTS];
#pragma unroll
                for (int part = 0; part < RNN_BACK_PARTS; part++) {
                    const int i = first + (j * all + First + m) * RNN_BACK_PARTS + part;
                    w[part] = i < rnn_back_held ? self.weights[i < rnn_back_held ? i : 0]
                                                : self.rest[(i - rnn_back_held) * RNN_BACK_THREADS];
                }
#pragma unroll
                for (int n = 0; n < RNN_BACK_TILES; n++)
                    rnn_back_multiply_tile(sums[m][n], w, b[n][0], b[n][1]);
            }
        }
#pragma unroll
        for (int m = 0; m < tiles; m++)
            rnn_back_send<Phase>(self, First + m, sums[m], turn, exponents);
        rnn_back_multiply<Phase, First + RNN_BACK_CHUNK>(self, turn, exponents);
    }
}

#endif
