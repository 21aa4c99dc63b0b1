// Tiles of variant stepwise (stepwise.cu): what a CTA makes of a phase's units, by columns of the
// matrix and what they take of shared memory. Both are chosen here, for a GPU of RNN_SM_COUNT SMs.
#ifndef RNN_STEPWISE_TILE_CUH
#define RNN_STEPWISE_TILE_CUH

#include "cuda/cell.cuh"

#ifndef RNN_SM_COUNT
#define RNN_SM_COUNT 132        // of the GPU that tiles are chosen for
#define RNN_SHARED_BYTES 232448 // of a CTA
#endif

enum {
    RNN_WARPS = 8,
    RNN_STEP_THREADS = 32 * RNN_WARPS,
    RNN_TILE_ROWS = 64,
    RNN_K_GROUPS = 4, ///< of warps that share a chunk's K: each makes sums of its own
    RNN_GROUP_BYTES = 64,
    RNN_GROUP_ROWS = RNN_TILE_ROWS / (RNN_WARPS / RNN_K_GROUPS), ///< of a warp
    RNN_PIECE_BYTES = 256,                                       ///< of K in a chunk
    RNN_PIECE = RNN_PIECE_BYTES / sizeof(rnn_operand),
    RNN_COLUMNS_MAX = 80 ///< a thread's sums are registers
};

/// Units of a head, and the K of its product.
constexpr __device__ int rnn_head_units(int phase)
{
    return rnn_phases[phase].size / rnn_phases[phase].heads;
}
constexpr __device__ int rnn_head_depth(int phase)
{
    return rnn_phases[phase].operand_size / rnn_phases[phase].heads;
}
constexpr __device__ int rnn_tile_units(int phase, int columns)
{
    return rnn_phases[phase].row_count > 0 ? columns / rnn_phases[phase].row_count : columns;
}
constexpr __device__ int rnn_tiles(int phase, int columns)
{
    const int units = rnn_tile_units(phase, columns);
    return (rnn_head_units(phase) + units - 1) / units * rnn_phases[phase].heads;
}

/// Where 16 bytes of K of a chunk's row lie: rows do not start in the same bank.
RNN_INLINE int rnn_vector_at(int row, int vector)
{
    return row * RNN_PIECE_BYTES + (vector ^ row % 8) * 16;
}
/// Partial sums: floats from a row to the next, and where one lies. Lanes write 8 columns of every
/// other row of 8, and read a row's units and then the next row's: all in banks of their own where
/// units are 4, 8, 16 or more.
constexpr __device__ int rnn_sum_stride(int columns)
{
    return (columns + 31) / 32 * 32;
}
RNN_INLINE int rnn_sum_at(int row, int column, int stride)
{
    const int turn = (row / 2 % 4 ^ row % 2 * 2) * 8 + row / 4 % 2 * 4;
    return row * stride + (column ^ turn);
}
/// Bytes of the partial sums of a tile, of a chunk, and of what the tile's units read.
constexpr __device__ int rnn_sum_bytes(int phase, int columns)
{
    return rnn_phases[phase].row_count > 0
               ? RNN_K_GROUPS * RNN_TILE_ROWS * rnn_sum_stride(columns) * 4
               : 0;
}
constexpr __device__ int rnn_piece_bytes(int columns)
{
    return (columns + RNN_TILE_ROWS) * RNN_PIECE_BYTES;
}
constexpr __device__ int rnn_unit_bytes(int phase, int columns)
{
    const int units = rnn_tile_units(phase, columns);
    const int items = (units * RNN_TILE_ROWS + RNN_STEP_THREADS - 1) / RNN_STEP_THREADS;
    const int vectors = RNN_BIASES + RNN_RECURRENT_BIASES + RNN_PARAMETERS;
    return (items * (RNN_GATES + RNN_STATES) * RNN_STEP_THREADS + RNN_SOME(vectors) * units) * 4;
}

/// Whether a tile fits a CTA, with three chunks; its sums lie over their memory.
constexpr __device__ bool rnn_columns_fit(int phase, int columns)
{
    const int sums = rnn_sum_bytes(phase, columns), chunks = 3 * rnn_piece_bytes(columns);
    return (sums > chunks ? sums : chunks) + rnn_unit_bytes(phase, columns) <= RNN_SHARED_BYTES;
}
/// Columns of the tile where there are few rows: those with which the CTAs of an SM, one after the
/// other, copy least.
constexpr __device__ int rnn_columns_few(int phase)
{
    int best = 16, least = 0;
    for (int columns = 16; columns <= RNN_COLUMNS_MAX; columns += 16) {
        const int turns = (rnn_tiles(phase, columns) + RNN_SM_COUNT - 1) / RNN_SM_COUNT;
        const int copied = turns * (columns + RNN_TILE_ROWS / 2);
        if (columns > 16 && (!rnn_columns_fit(phase, columns) || copied >= least))
            continue;
        best = columns;
        least = copied;
    }
    return best;
}
/// Where there are rows for all SMs: the widest that fits, if it holds two of those tiles.
constexpr __device__ int rnn_columns_many(int phase)
{
    int columns = RNN_SHARED_BYTES >= 200 * 1024 ? 64 : 32;
    while (columns > 16 && !rnn_columns_fit(phase, columns))
        columns /= 2;
    const int few = rnn_columns_few(phase);
    return rnn_tile_units(phase, columns) >= 2 * rnn_tile_units(phase, few) ? columns : few;
}

/// Units of a tile: a whole number of those of the tile for few rows.
constexpr __device__ int rnn_whole_units(int phase, int columns)
{
    const int few = rnn_tile_units(phase, rnn_columns_few(phase));
    return rnn_tile_units(phase, columns) / few * few;
}

/// Sizes of one tile.
template <int Phase, int Columns> struct RnnTile {
    enum {
        gates = rnn_phases[Phase].row_count,
        units = rnn_whole_units(Phase, Columns),
        head_units = rnn_head_units(Phase),
        tiles = (head_units + units - 1) / units, // of a head
        depth = gates ? rnn_head_depth(Phase) : 0,
        operand_stride = gates ? rnn_phases[Phase].heads * rnn_padded(depth) : 0,
        pieces = (depth + RNN_PIECE - 1) / RNN_PIECE,
        piece_bytes = rnn_piece_bytes(Columns),
        unit_bytes = rnn_unit_bytes(Phase, Columns),
        fitting = (RNN_SHARED_BYTES - unit_bytes) / piece_bytes,
        wanted = Columns > 32 ? 6 : 4, // few columns: CTAs of two launches share an SM
        limit = fitting < (int)wanted ? (int)fitting : (int)wanted,
        slots = pieces < limit ? pieces : limit,
        ahead = pieces <= limit ? pieces : limit - 1, // chunks whose copies run
        sum_stride = rnn_sum_stride(Columns),
        sum_bytes = rnn_sum_bytes(Phase, Columns),
        product_bytes =
            (int)slots * piece_bytes > (int)sum_bytes ? (int)slots *piece_bytes : (int)sum_bytes,
        items = (units * RNN_TILE_ROWS + RNN_STEP_THREADS - 1) / RNN_STEP_THREADS, // of a thread
        values = RNN_GATES + RNN_STATES,
        vectors = RNN_BIASES + RNN_RECURRENT_BIASES + RNN_PARAMETERS,
        shared_bytes = product_bytes + unit_bytes
    };
    static_assert((int)shared_bytes <= RNN_SHARED_BYTES, "a tile does not fit a CTA");
};

#endif
