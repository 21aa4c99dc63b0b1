// Variant stepwise: one launch a phase and step that multiplies R*h and does the pointwise part of
// its units in the same CTA. All launches of a run are one CUDA graph.
//
// Data placement: a CTA of 8 warps makes `units` units of 64 batch rows. Its product tile has
// `Columns` rows of the matrix, gate-major, so that all gates of a unit lie in it:
//
//     Columns = 16, LSTM:   i0 i1 i2 i3 | f0 .. f3 | g0 .. g3 | o0 .. o3      units = 4
//
//     chunk of 256 bytes of K:  [Columns] matrix | [64] operand rows (cp.async, 4 or 6 in flight),
//                               16 bytes at a time as rnn_vector_at says; warp w takes bytes
//                               64*(w % 4) ... of the matrix and of rows 32*(w / 4) ...
//     matrix in memory          [tile][chunk][Columns][256 bytes], zeros where there is no unit
//                               or K, so that a chunk of a tile is one stretch of memory
//     partial sums [4][64][Columns], over the chunks' memory, as rnn_sum_at says
//     W*x, old states of the thread's own units, bias vectors: cp.async before the product
//
// A sum runs over K in an order that K and the unit alone fix: 4 sums, each over its pieces of 64
// bytes in turn, then added from first to last. Parts of K cost after the product, where nothing
// hides it: 4 write and read half of what 8 would, and the matrix is read twice while copies run.
// CTAs begin at different chunks, so that they do not all want the same rows of the operand at
// once. Two tiles (columns by what the CTAs of an SM copy at small B; 64 where that is few and B is
// large) give the same bits.
//
// A launch begins while the one before it runs: it copies its first chunks of the matrix, its W*x
// and vectors, which no launch writes, and then waits for that one. Operands are narrowed copies of
// states and carries that the phases which make them write, with two buffers for states: phase p of
// step s reads buffer s % 2, its writer fills the other.
//
// A phase with norms is two launches: the product to memory, then a CTA a row for mean, variance
// and the pointwise part. Barriers: one a chunk, two around the partial sums.
//
// Floor of a launch: 1.2 us or so in a graph, and the CTA's bytes from L2, (Columns + 64)*K at
// 64 bytes a cycle: LSTM H = 512, B = 64, 16 bits: 80 KB, 0.75 us; or 2*B*G*H*K FLOP: float32
// there 2.3 us. Memory: H = 2048 float32 reads 67 MB a step, 14 us. Limits: none; any H, B and T.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/stepwise.cu
#include "cuda/cell.cuh"
#include "cuda/prim/async.cuh"
#include "cuda/prim/early.cuh"
#include "cuda/prim/mma.cuh"
#include "cuda/prim/sum.cuh"
#include "cuda/stepwise_tile.cuh"
#include "cuda/when.cuh"

/// What a phase's kernel is given for one step; all device memory.
struct RnnStep {
    const float *input;                             ///< W*x: [B, T, RNN_INPUT_STRIDE]
    const rnn_operand *matrix;                      ///< packed tiles; NULL: none
    const rnn_operand *operand;                     ///< [B, heads * K padded]
    const float *bias, *recurrent_bias, *parameter; ///< canonical; NULL: none
    const float *state_in[RNN_STATES_MAX];          ///< [B, size]
    float *state_out[RNN_STATES_MAX];      ///< may be state_in where there is one phase only
    float *carries[RNN_GATES_MAX];         ///< [B, size]
    rnn_operand *operands[RNN_PHASES_MAX]; ///< for each reading phase, as `operand`
    float *product;                        ///< phases with norms: [B, row_count*size]
    float *y;
    const int *order;   ///< [B, T], see rnnc_row; NULL: every row takes all steps
    const RnnRow *rows; ///< [B]
    const float *scale; ///< [B, operand of R]: factors of what R multiplies; NULL: none
    long long batch, timesteps, step, y_row_stride, y_step_stride;
};

/// What the pointwise function of one unit reads.
struct RnnUnit {
    float input[RNN_SOME(RNN_GATES)], product[RNN_GATES_MAX], bias[RNN_SOME(RNN_BIASES)];
    float recurrent_bias[RNN_SOME(RNN_RECURRENT_BIASES)], parameter[RNN_SOME(RNN_PARAMETERS)];
    float state[RNN_SOME(RNN_STATES)], carry[RNN_SOME(RNN_CARRIES)];
};

RNN_INLINE const float *rnn_input_at(const RnnStep &step, long long row, long long time, int gate,
                                     int unit)
{
    return step.input + (row * step.timesteps + time) * RNN_INPUT_STRIDE + gate * RNN_UNITS + unit;
}

template <int Phase>
RNN_INLINE void rnn_load_carries(const RnnStep &step, long long row, int unit, RnnUnit &of)
{
#pragma unroll
    for (int i = 0; i < RNN_CARRIES; i++)
        of.carry[i] = unit < rnn_carry_sizes[i] && !(rnn_phases[Phase].carries >> i & 1)
                          ? step.carries[i][row * rnn_carry_sizes[i] + unit]
                          : 0.0f;
}

/// Narrows what phase Phase has made for the products that read it: states of every row, as their
/// buffers alternate, carries where the row takes the step.
template <int Phase, int Reader>
RNN_INLINE void rnn_publish(const RnnStep &step, const float *states, const float *carries,
                            bool takes, long long row, int unit)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        if constexpr (rnn_feeds(Phase, Reader)) {
            constexpr RnnPhase reader = rnn_phases[Reader];
            constexpr int depth = rnn_head_depth(Reader);
            if (unit < reader.operand_size && (reader.operand_is_state || takes)) {
                float value =
                    reader.operand_is_state ? states[reader.operand] : carries[reader.operand];
                if (RNN_RECURRENT_DROPOUT && reader.matrix == RNN_MATRIX_R && step.scale)
                    value *= __ldg(step.scale + row * reader.operand_size + unit);
                step.operands[Reader][row * reader.heads * rnn_padded(depth) +
                                      unit / depth * rnn_padded(depth) + unit % depth] =
                    rnn_narrow(value);
            }
        }
        rnn_publish<Phase, Reader + 1>(step, states, carries, takes, row, unit);
    }
}

/// The pointwise part of one unit, and its stores.
template <int Phase>
RNN_INLINE void rnn_finish_unit(const RnnStep &step, long long row, int unit, const RnnWhen &when,
                                const RnnUnit &of, const float *statistic)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
    float next[RNN_SOME(RNN_STATES)], carry[RNN_SOME(RNN_CARRIES)];
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        next[i] = of.state[i];
    if (when.takes)
        rnn_pointwise<Phase>(of.input, of.product, of.bias, of.recurrent_bias, of.parameter,
                             of.state, of.carry, statistic, carry, next);
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        if (phase.states >> i & 1)
            step.state_out[i][row * rnn_state_sizes[i] + unit] = next[i];
#pragma unroll
    for (int i = 0; i < RNN_CARRIES; i++)
        if ((phase.carries >> i & 1) && when.takes)
            step.carries[i][row * rnn_carry_sizes[i] + unit] = carry[i];
    if ((phase.states & 1) && when.takes && (RNN_SEQUENCE_OUT || when.last))
        step.y[row * step.y_row_stride +
               (RNN_SEQUENCE_OUT ? when.position * step.y_step_stride : 0) + unit] = next[0];
    rnn_publish<Phase, 0>(step, next, carry, when.takes, row, unit);
}

/// A CTA's place: units first ... of the phase, as far as `units_end`, and batch rows.
struct RnnPlace {
    int head, first, units_end, rows;
    long long first_row;
};

template <class Tile> RNN_INLINE RnnPlace rnn_place(const RnnStep &step)
{
    RnnPlace place;
    place.head = blockIdx.x / Tile::tiles;
    const int within = (int)blockIdx.x % Tile::tiles * Tile::units;
    place.first = place.head * Tile::head_units + within;
    place.units_end =
        Tile::units < Tile::head_units - within ? Tile::units : Tile::head_units - within;
    place.first_row = (long long)blockIdx.y * RNN_TILE_ROWS;
    const long long left = step.batch - place.first_row;
    place.rows = left < RNN_TILE_ROWS ? (int)left : RNN_TILE_ROWS;
    return place;
}

/// What one thread copies of each chunk: one vector of 16 bytes of every 16th row.
template <int Phase, int Columns> struct RnnCopies {
    using Tile = RnnTile<Phase, Columns>;
    enum {
        vectors = RNN_PIECE_BYTES / 16,
        apart = RNN_STEP_THREADS / vectors,
        columns = rnn_columns_few(Phase), // of a packed tile
        units = rnn_tile_units(Phase, columns),
        tiles = (Tile::head_units + units - 1) / units
    };
    const rnn_operand *matrix[Columns / apart], *operand;
    int rows;  ///< of the batch, from the thread's first on
    int first; ///< the chunk of K that the CTA begins with

    /// Columns beyond the gates and units beyond the last copy some other: their sums are unused.
    RNN_MEMBER void begin(const RnnStep &step, const RnnPlace &place)
    {
        const int within = place.first - place.head * Tile::head_units;
        first = within / rnn_whole_units(Phase, rnn_columns_many(Phase)) % Tile::pieces;
#pragma unroll
        for (int i = 0; i < Columns / apart; i++) {
            const int column = (int)threadIdx.x / vectors + i * apart;
            const int gate = min(column / Tile::units, Tile::gates - 1);
            const int unit = min(within + column % Tile::units, Tile::head_units - 1);
            const long long tile = place.head * tiles + unit / units;
            const long long row = tile * Tile::pieces * columns + gate * units + unit % units;
            matrix[i] = step.matrix + row * RNN_PIECE + threadIdx.x % vectors * RNN_VECTOR;
        }
        operand = step.operand + (place.first_row + threadIdx.x / vectors) * Tile::operand_stride +
                  place.head * rnn_padded(Tile::depth) + threadIdx.x % vectors * RNN_VECTOR;
        rows = place.rows - (int)threadIdx.x / vectors;
    }
    /// Where the thread's first vector of a chunk goes; the chunk of K that is the CTA's number
    /// `piece`.
    static RNN_MEMBER unsigned char *place_in(unsigned char *slot)
    {
        return slot + rnn_vector_at((int)threadIdx.x / vectors, (int)threadIdx.x % vectors);
    }
    RNN_MEMBER int chunk(int piece) const
    {
        return piece + first < Tile::pieces ? piece + first : piece + first - Tile::pieces;
    }
    /// Starts the copies of the CTA's chunk number `piece`: of the matrix, which no kernel writes,
    /// and of the operand, which the kernel before has written.
    RNN_MEMBER void start_matrix(int piece, unsigned char *slot) const
    {
        unsigned char *const to = place_in(slot);
#pragma unroll
        for (int i = 0; i < Columns / apart; i++)
            rnn_copy16(to + i * apart * RNN_PIECE_BYTES,
                       matrix[i] + (long long)chunk(piece) * columns * RNN_PIECE);
    }
    RNN_MEMBER void start_operand(int piece, unsigned char *slot) const
    {
        unsigned char *const to = place_in(slot);
        piece = chunk(piece);
        const bool wanted =
            piece * RNN_PIECE + (int)threadIdx.x % vectors * RNN_VECTOR < Tile::depth;
        const rnn_operand *const from = operand + (wanted ? piece * RNN_PIECE : 0);
#pragma unroll
        for (int j = 0; j < RNN_TILE_ROWS; j += apart)
            if (j < rows)
                rnn_copy16_or_zero(to + (Columns + j) * RNN_PIECE_BYTES,
                                   from + (wanted ? j * Tile::operand_stride : 0), wanted);
    }
};

/// The sums of one warp over its part of K for its rows of the tile.
template <int Columns> struct RnnTileSums {
    enum { along_columns = Columns / 16, along_rows = RNN_GROUP_ROWS / 8 };
    float sums[along_columns][along_rows][4];

    /// Which part of K, and the warp's first row.
    static RNN_MEMBER int part()
    {
        return (int)threadIdx.x / 32 % RNN_K_GROUPS;
    }
    static RNN_MEMBER int first_row()
    {
        return (int)threadIdx.x / 32 / RNN_K_GROUPS * RNN_GROUP_ROWS;
    }
    RNN_MEMBER void add(const unsigned char *slot, int rows)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int k = 0; k < RNN_GROUP_BYTES; k += 32) {
            const int vector = (part() * RNN_GROUP_BYTES + k) / 16;
            const int of_matrix = rnn_vector_at(lane % 16, vector + lane / 16);
            const int of_operand = rnn_vector_at(Columns + first_row() + lane / 16 * 8 + lane % 8,
                                                 vector + lane / 8 % 2);
            unsigned a[along_columns][4];
#pragma unroll
            for (int i = 0; i < along_columns; i++)
                rnn_load_matrices(a[i], slot + of_matrix + 16 * i * RNN_PIECE_BYTES);
#pragma unroll
            for (int j = 0; j < along_rows; j += 2) {
                if (first_row() + 8 * j >= rows)
                    break;
                unsigned b[4];
                rnn_load_matrices(b, slot + of_operand + 8 * j * RNN_PIECE_BYTES);
#pragma unroll
                for (int i = 0; i < along_columns; i++) {
                    rnn_mma(sums[i][j], a[i], b[0], b[1]);
                    rnn_mma(sums[i][j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }
    template <class Take> RNN_MEMBER void each(Take take) const
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int j = 0; j < along_rows; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
#pragma unroll
                for (int i = 0; i < along_columns; i++)
                    take(first_row() + 8 * j + lane % 4 * 2 + e % 2, 16 * i + e / 2 * 8 + lane / 4,
                         sums[i][j][e]);
    }
};

/// The product of a CTA's tile: leaves the partial sums in shared memory, [part of K][row][column]
/// as rnn_sum_at says, with a barrier after them. The first `ahead` chunks are on their way.
template <int Phase, int Columns>
RNN_INLINE void rnn_multiply_tile(const RnnCopies<Phase, Columns> &copies, const RnnPlace &place,
                                  unsigned char *slots)
{
    using Tile = RnnTile<Phase, Columns>;
    RnnTileSums<Columns> sums = {};
#pragma unroll 1
    for (int piece = 0; piece < Tile::pieces; piece++) {
        rnn_copy_wait<Tile::ahead - 1>();
        __syncthreads();
        if (Tile::ahead < Tile::pieces && piece + Tile::ahead < Tile::pieces) {
            unsigned char *slot = slots + (piece + Tile::ahead) % Tile::slots * Tile::piece_bytes;
            copies.start_matrix(piece + Tile::ahead, slot);
            copies.start_operand(piece + Tile::ahead, slot);
        }
        rnn_copy_commit();
        if (RnnTileSums<Columns>::first_row() < place.rows)
            sums.add(slots + piece % Tile::slots * Tile::piece_bytes, place.rows);
    }
    rnn_copy_wait<0>();
    __syncthreads();
    float *partial =
        (float *)slots + RnnTileSums<Columns>::part() * RNN_TILE_ROWS * Tile::sum_stride;
    sums.each([&](int row, int column, float sum) {
        if (row < place.rows)
            partial[rnn_sum_at(row, column, Tile::sum_stride)] = sum;
    });
    __syncthreads();
}

/// Starts the copies of the vectors of the CTA's units, [vector][unit].
template <class Tile>
RNN_INLINE void rnn_copy_vectors(const RnnStep &step, const RnnPlace &place, float *to)
{
    for (int i = threadIdx.x; i < Tile::vectors * Tile::units; i += RNN_STEP_THREADS) {
        const int vector = i / Tile::units, unit = place.first + i % Tile::units;
        const float *from = vector < RNN_BIASES                          ? step.bias
                            : vector < RNN_BIASES + RNN_RECURRENT_BIASES ? step.recurrent_bias
                                                                         : step.parameter;
        const int gate = vector < RNN_BIASES ? vector
                         : vector < RNN_BIASES + RNN_RECURRENT_BIASES
                             ? vector - RNN_BIASES
                             : vector - RNN_BIASES - RNN_RECURRENT_BIASES;
        const bool wanted = from && i % Tile::units < place.units_end && unit < RNN_UNITS;
        rnn_copy4_or_zero(to + i, wanted ? from + gate * RNN_UNITS + unit : step.state_in[0],
                          wanted);
    }
}

/// Starts the copies of W*x (Inputs) or the states of a thread's own units, [value][item][thread].
template <class Tile, bool Inputs>
RNN_INLINE void rnn_copy_values(const RnnStep &step, const RnnPlace &place, float *to)
{
    to += threadIdx.x;
#pragma unroll
    for (int item = 0; item < Tile::items; item++) {
        const int at = item * RNN_STEP_THREADS + (int)threadIdx.x;
        const int row = at / Tile::units, unit = place.first + at % Tile::units;
        if (row >= place.rows || at % Tile::units >= place.units_end)
            continue;
        const long long batch_row = place.first_row + row;
        float *const mine = to + item * RNN_STEP_THREADS;
        if constexpr (Inputs) {
            const RnnWhen when = rnn_when(step, batch_row);
#pragma unroll
            for (int g = 0; g < RNN_GATES; g++)
                rnn_copy4_or_zero(
                    mine + g * Tile::items * RNN_STEP_THREADS,
                    rnn_input_at(step, batch_row, when.time, g, unit < RNN_UNITS ? unit : 0),
                    unit < RNN_UNITS);
        } else {
#pragma unroll
            for (int i = 0; i < RNN_STATES; i++) {
                const bool wanted = unit < rnn_state_sizes[i];
                rnn_copy4_or_zero(mine + (RNN_GATES + i) * Tile::items * RNN_STEP_THREADS,
                                  step.state_in[i] +
                                      (wanted ? batch_row * rnn_state_sizes[i] + unit : 0),
                                  wanted);
            }
        }
    }
}

/// One unit of a CTA's tile from what lies in shared memory.
template <int Phase, class Tile>
RNN_INLINE void rnn_take_unit(const RnnStep &step, const RnnPlace &place, int item,
                              const float *partial, const float *values, const float *vectors)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
    const int at = item * RNN_STEP_THREADS + (int)threadIdx.x;
    const int row = at / Tile::units, within = at % Tile::units;
    if (row >= place.rows || within >= place.units_end)
        return;
    const int unit = place.first + within;
    const long long batch_row = place.first_row + row;
    RnnUnit of;
#pragma unroll
    for (int g = 0; g < phase.row_count; g++) {
        const float *from = partial + rnn_sum_at(row, g * Tile::units + within, Tile::sum_stride);
        of.product[g] = from[0];
#pragma unroll
        for (int part = 1; part < RNN_K_GROUPS; part++)
            of.product[g] += from[part * RNN_TILE_ROWS * Tile::sum_stride];
    }
    if constexpr (phase.norms[0] > 0) {
#pragma unroll
        for (int g = 0; g < phase.row_count; g++)
            step.product[(batch_row * phase.row_count + g) * phase.size + unit] = of.product[g];
        return;
    }
    values += item * RNN_STEP_THREADS + threadIdx.x;
#pragma unroll
    for (int g = 0; g < RNN_GATES; g++)
        of.input[g] = values[g * Tile::items * RNN_STEP_THREADS];
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        of.state[i] = values[(RNN_GATES + i) * Tile::items * RNN_STEP_THREADS];
#pragma unroll
    for (int g = 0; g < RNN_BIASES; g++)
        of.bias[g] = vectors[g * Tile::units + within];
#pragma unroll
    for (int g = 0; g < RNN_RECURRENT_BIASES; g++)
        of.recurrent_bias[g] = vectors[(RNN_BIASES + g) * Tile::units + within];
#pragma unroll
    for (int g = 0; g < RNN_PARAMETERS; g++)
        of.parameter[g] = vectors[(RNN_BIASES + RNN_RECURRENT_BIASES + g) * Tile::units + within];
    rnn_load_carries<Phase>(step, batch_row, unit, of);
    rnn_finish_unit<Phase>(step, batch_row, unit, rnn_when(step, batch_row), of, nullptr);
}

/// One CTA: product and pointwise part, or, in a phase with norms, the product alone.
template <int Phase, int Columns> RNN_INLINE void rnn_step_tile(const RnnStep &step)
{
    using Tile = RnnTile<Phase, Columns>;
    constexpr bool finishes = rnn_phases[Phase].norms[0] == 0;
    extern __shared__ float4 rnn_shared[];
    unsigned char *const slots = (unsigned char *)rnn_shared;
    float *const values = (float *)(slots + Tile::product_bytes);
    float *const vectors = values + Tile::items * Tile::values * RNN_STEP_THREADS;
    const RnnPlace place = rnn_place<Tile>(step);
    RnnCopies<Phase, Columns> copies;
    bool multiplies = Tile::gates > 0;
    if (multiplies && step.order) // rows that are all through only keep their states
        multiplies = __syncthreads_or((int)threadIdx.x < place.rows &&
                                      rnn_when(step, place.first_row + threadIdx.x).takes);
    if constexpr (Tile::gates > 0)
        if (multiplies) {
            copies.begin(step, place);
#pragma unroll 1
            for (int piece = 0; piece < Tile::ahead; piece++)
                copies.start_matrix(piece, slots + piece * Tile::piece_bytes);
        }
    if (finishes) {
        rnn_copy_vectors<Tile>(step, place, vectors);
        rnn_copy_values<Tile, true>(step, place, values);
    }
    rnn_grid_wait();
    rnn_grid_launch_next();
    if constexpr (Tile::gates > 0)
        if (multiplies)
#pragma unroll 1
            for (int piece = 0; piece < Tile::ahead; piece++) {
                rnn_copy_commit();
                copies.start_operand(piece, slots + piece * Tile::piece_bytes);
            }
    if (finishes) // with the last chunk's: what the product needs first is on its way before them
        rnn_copy_values<Tile, false>(step, place, values);
    rnn_copy_commit();
    if constexpr (Tile::gates > 0)
        if (multiplies)
            rnn_multiply_tile<Phase, Columns>(copies, place, slots);
    if (!multiplies) {
        rnn_copy_wait<0>();
        __syncthreads();
    }
    if (!finishes && !multiplies)
        return;
#pragma unroll 1
    for (int item = 0; item < Tile::items; item++)
        rnn_take_unit<Phase, Tile>(step, place, item, (const float *)slots, values, vectors);
}

#if RNN_NORMS > 0
/// All that the pointwise function reads, from memory.
template <int Phase>
RNN_INLINE void rnn_load_unit(const RnnStep &step, long long row, int unit, const RnnWhen &when,
                              RnnUnit &of)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
    const bool canonical = unit < RNN_UNITS;
#pragma unroll
    for (int g = 0; g < phase.row_count; g++)
        of.product[g] =
            when.takes ? step.product[(row * phase.row_count + g) * phase.size + unit] : 0.0f;
#pragma unroll
    for (int g = 0; g < RNN_GATES; g++)
        of.input[g] = canonical ? *rnn_input_at(step, row, when.time, g, unit) : 0.0f;
#pragma unroll
    for (int g = 0; g < RNN_BIASES; g++)
        of.bias[g] = step.bias && canonical ? step.bias[g * RNN_UNITS + unit] : 0.0f;
#pragma unroll
    for (int g = 0; g < RNN_RECURRENT_BIASES; g++)
        of.recurrent_bias[g] =
            step.recurrent_bias && canonical ? step.recurrent_bias[g * RNN_UNITS + unit] : 0.0f;
#pragma unroll
    for (int g = 0; g < RNN_PARAMETERS; g++)
        of.parameter[g] = step.parameter && canonical ? step.parameter[g * RNN_UNITS + unit] : 0.0f;
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        of.state[i] =
            unit < rnn_state_sizes[i] ? step.state_in[i][row * rnn_state_sizes[i] + unit] : 0.0f;
    rnn_load_carries<Phase>(step, row, unit, of);
}

/// Mean and 1 / sqrt(variance + 1e-5) of each norm of a row: two passes.
template <int Phase>
RNN_INLINE void rnn_take_statistics(const RnnStep &step, long long row, const RnnWhen &when,
                                    float *statistic)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        float sums[RNN_NORMS] = {};
#pragma unroll 1
        for (int unit = threadIdx.x; unit < phase.size; unit += RNN_STEP_THREADS) {
            RnnUnit of;
            float member[RNN_MEMBERS];
            rnn_load_unit<Phase>(step, row, unit, when, of);
            rnn_members<Phase>(of.input, of.product, of.bias, of.recurrent_bias, of.parameter,
                               of.state, of.carry, member);
            int at = 0;
#pragma unroll
            for (int n = 0; n < RNN_NORMS && phase.norms[n] > 0; n++)
#pragma unroll
                for (int m = 0; m < phase.norms[n]; m++, at++) {
                    const float off = pass ? member[at] - statistic[2 * n] : 0.0f;
                    sums[n] += pass ? off * off : member[at];
                }
        }
#pragma unroll
        for (int n = 0; n < RNN_NORMS && phase.norms[n] > 0; n++) {
            const float mean =
                rnn_sum_cta<RNN_WARPS>(sums[n]) / ((float)phase.norms[n] * (float)phase.size);
            statistic[2 * n + pass] = pass ? 1.0f / sqrtf(mean + 1e-5f) : mean;
        }
    }
}

/// The second launch of a phase with norms: a CTA a row.
template <int Phase> RNN_INLINE void rnn_norm_row(const RnnStep &step)
{
    if constexpr (rnn_phases[Phase].norms[0] > 0) {
        const long long row = blockIdx.x;
        const RnnWhen when = rnn_when(step, row);
        rnn_grid_wait();
        rnn_grid_launch_next();
        float statistic[2 * RNN_NORMS] = {};
        if (when.takes)
            rnn_take_statistics<Phase>(step, row, when, statistic);
#pragma unroll 1
        for (int unit = threadIdx.x; unit < rnn_phases[Phase].size; unit += RNN_STEP_THREADS) {
            RnnUnit of;
            rnn_load_unit<Phase>(step, row, unit, when, of);
            rnn_finish_unit<Phase>(step, row, unit, when, of, statistic);
        }
    }
}

#define RNN_NORM_KERNEL(number)                                                                    \
    extern "C" __global__ void __launch_bounds__(RNN_STEP_THREADS)                                 \
        rnn_norm##number(const RnnStep step)                                                       \
    {                                                                                              \
        rnn_norm_row<number>(step);                                                                \
    }
RNN_PHASES(RNN_NORM_KERNEL)
#endif

#define RNN_KERNEL(number)                                                                         \
    extern "C" __global__ void __launch_bounds__(RNN_STEP_THREADS, 1)                              \
        rnn_step##number(const RnnStep step)                                                       \
    {                                                                                              \
        rnn_step_tile<number, rnn_columns_few(number)>(step);                                      \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(RNN_STEP_THREADS, 1)                              \
        rnn_steps##number(const RnnStep step)                                                      \
    {                                                                                              \
        if constexpr (rnn_columns_few(number) != rnn_columns_many(number))                         \
            rnn_step_tile<number, rnn_columns_many(number)>(step);                                 \
    }
RNN_PHASES(RNN_KERNEL)

/// For the host: CTAs along x and dynamic shared memory of each phase's two kernels, and columns of
/// a packed tile.
struct RnnShape {
    int tiles, shared_bytes, tiles_many, shared_bytes_many, columns;
};
#define RNN_SHAPE(number)                                                                          \
    {rnn_tiles(number, rnn_columns_few(number)),                                                   \
     RnnTile<number, rnn_columns_few(number)>::shared_bytes,                                       \
     RnnTile<number, rnn_columns_many(number)>::tiles * rnn_phases[number].heads,                  \
     RnnTile<number, rnn_columns_many(number)>::shared_bytes, rnn_columns_few(number)},
extern "C" __device__ RnnShape rnn_shapes[RNN_PHASE_COUNT] = {RNN_PHASES(RNN_SHAPE)};
