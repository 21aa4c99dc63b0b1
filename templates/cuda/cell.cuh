// The cell as tables: what the RNN_* numbers of a stub say, in a form that templates can ask at
// compile time, and one function that calls the pointwise part of a phase by its number.
#ifndef RNN_CELL_CUH
#define RNN_CELL_CUH

#ifndef RNN_UNITS
#include "cuda/default_cell.cuh"
#endif
#include "cuda/prelude.cuh"
#include "cuda/prim/operand.cuh"

enum { RNN_MATRIX_R, RNN_MATRIX_P };

/// One phase: rows of R or P times an operand, then `size` pointwise units. Bit i of
/// `states` and `carries`: the phase computes state or carry i.
struct RnnPhase {
    int matrix, row_count, rows[RNN_GATES_MAX];
    int operand_is_state, operand;
    int operand_size, size;
    unsigned states, carries;
    int heads;                ///< diagonal blocks of the matrix
    int norms[RNN_NORMS + 1]; ///< members of each norm; 0 ends them
};
__device__ constexpr RnnPhase rnn_phases[] = {RNN_PHASE_ROWS};
__device__ constexpr int rnn_state_sizes[] = {RNN_STATE_SIZES};
__device__ constexpr int rnn_carry_sizes[] = {RNN_CARRY_SIZES};

/// Array lengths that are never 0.
#define RNN_SOME(count) ((count) > 0 ? (count) : 1)

/// Whether phase `writer` computes the operand of phase `reader`.
constexpr __device__ bool rnn_feeds(int writer, int reader)
{
    const RnnPhase &r = rnn_phases[reader], &w = rnn_phases[writer];
    return r.row_count > 0 && ((r.operand_is_state ? w.states : w.carries) >> r.operand & 1);
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

template <int Phase>
RNN_INLINE void rnn_pointwise(const rnn_f *input, const rnn_f *product, const rnn_f *bias,
                              const rnn_f *recurrent_bias, const rnn_f *parameter,
                              const rnn_f *state, const rnn_f *carry_in, const rnn_f *statistic,
                              rnn_f *carry_out, rnn_f *state_out)
{
#define RNN_CALL(number)                                                                           \
    if constexpr (Phase == number)                                                                 \
        rnn_phase##number(input, product, bias, recurrent_bias, parameter, state, carry_in,        \
                          statistic, carry_out, state_out);
    RNN_PHASES(RNN_CALL)
#undef RNN_CALL
}

#if RNN_NORMS > 0
// Phases without norms have no function of that name but this; a generated one is the better match.
#define RNN_NO_MEMBERS(number)                                                                     \
    template <class... Any> RNN_INLINE void rnn_members##number(Any...)                            \
    {                                                                                              \
    }
RNN_PHASES(RNN_NO_MEMBERS)
#undef RNN_NO_MEMBERS

/// What the norms of a phase are taken of, for one unit.
template <int Phase>
RNN_INLINE void rnn_members(const rnn_f *input, const rnn_f *product, const rnn_f *bias,
                            const rnn_f *recurrent_bias, const rnn_f *parameter, const rnn_f *state,
                            const rnn_f *carry_in, rnn_f *member)
{
#define RNN_CALL(number)                                                                           \
    if constexpr (Phase == number)                                                                 \
        rnn_members##number(input, product, bias, recurrent_bias, parameter, state, carry_in,      \
                            member);
    RNN_PHASES(RNN_CALL)
#undef RNN_CALL
}
#endif

/// The fields of rnnc_row (rnnc/module.h).
struct RnnRow {
    int steps, last;
};

/// The states' memory, [B, size] each: read as initial values, written with the final ones.
struct RnnStates {
    float *at[RNN_STATES_MAX];
};

#endif
