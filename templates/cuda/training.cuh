// What kernels of training know of the cell's derivative: stages and what lies where in a step's
// saved vectors and deltas, the vectors of a unit, and one function each
// that calls the pointwise parts by their number.
#ifndef RNN_TRAINING_CUH
#define RNN_TRAINING_CUH

#include "cuda/cell.cuh"
#include "cuda/when.cuh"
#include "prim/philox.h"

#ifndef RNN_SAVED
#include "cuda/default_gradient.cuh"
#endif

enum { RNN_STAGE_NORMS = 4 };

struct RnnStage {
    int phase, first_delta, size;
    unsigned states;
    int norms[RNN_STAGE_NORMS], members[RNN_STAGE_NORMS]; ///< members 0 ends them
};
__device__ constexpr RnnStage rnn_stages[] = {RNN_STAGE_ROWS};
__device__ constexpr int rnn_saved_sizes[] = {RNN_SAVED_SIZES};
__device__ constexpr int rnn_saved_phases[] = {RNN_SAVED_PHASES};
__device__ constexpr int rnn_delta_sizes[] = {RNN_DELTA_SIZES};
__device__ constexpr int rnn_delta_stages[] = {RNN_DELTA_STAGES};

constexpr __device__ int rnn_sum_sizes(const int *sizes, int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += sizes[i];
    return sum;
}
enum {
    RNN_SAVED_STRIDE = (rnn_sum_sizes(rnn_saved_sizes, RNN_SAVED) + 3) / 4 * 4,
    RNN_DELTA_STRIDE = (rnn_sum_sizes(rnn_delta_sizes, RNN_DELTAS) + 3) / 4 * 4
};

/// What both passes know of a step.
struct RnnStep {
    const float *bias, *recurrent_bias, *parameter; ///< canonical; NULL: none
    const int *order;                               ///< [B, T], see rnnc_row; NULL: all steps
    const RnnRow *rows;                             ///< [B]
    const float *scale;             ///< [B, operand of R]: factors of what R multiplies; NULL: none
    const unsigned long long *seed; ///< of zoneout's draws
    long long batch, timesteps, step;
};

/// b, rb and p of one unit.
struct RnnVectors {
    float bias[RNN_SOME(RNN_BIASES)], recurrent_bias[RNN_SOME(RNN_RECURRENT_BIASES)];
    float parameter[RNN_SOME(RNN_PARAMETERS)];

    RNN_MEMBER void load(const RnnStep &step, int unit)
    {
        const bool canonical = unit < RNN_UNITS;
#pragma unroll
        for (int g = 0; g < RNN_BIASES; g++)
            bias[g] = step.bias && canonical ? __ldg(step.bias + g * RNN_UNITS + unit) : 0.0f;
#pragma unroll
        for (int g = 0; g < RNN_RECURRENT_BIASES; g++)
            recurrent_bias[g] = step.recurrent_bias && canonical
                                    ? __ldg(step.recurrent_bias + g * RNN_UNITS + unit)
                                    : 0.0f;
#pragma unroll
        for (int g = 0; g < RNN_PARAMETERS; g++)
            parameter[g] =
                step.parameter && canonical ? __ldg(step.parameter + g * RNN_UNITS + unit) : 0.0f;
    }
};

/// Draws which states of a unit keep their values: 1 for those that do.
RNN_INLINE void rnn_draw_zoneout(const unsigned long long *seed, long long row, long long time,
                                 int unit, float *draw)
{
    constexpr float rates[] = {RNN_ZONEOUT_RATES};
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++) {
        const rnn_dropout made =
            rnn_dropout_make(*seed, rnn_zoneout_stream(RNN_DROPOUT_INDEX, i), rates[i]);
        draw[i] = rnn_dropout_scale(&made, (unsigned)unit, (unsigned)row, (unsigned)time) == 0.0f
                      ? 1.0f
                      : 0.0f;
    }
}

/// The forward step of a phase that saves, and a stage of the backward step, of one unit.
template <int Phase>
RNN_INLINE void rnn_saving(const float *input, const float *product, const float *bias,
                           const float *recurrent_bias, const float *parameter, const float *state,
                           const float *carry, const float *statistic, const float *draw,
                           float *carry_out, float *next, float *saved)
{
#define RNN_CALL(number)                                                                           \
    if constexpr (Phase == number)                                                                 \
        rnn_saving##number(input, product, bias, recurrent_bias, parameter, state, carry,          \
                           statistic, draw, carry_out, next, saved);
    RNN_PHASES(RNN_CALL)
#undef RNN_CALL
}
template <int Stage>
RNN_INLINE void rnn_backward(const RnnVectors &vectors, const float *state, const float *next,
                             const float *saved, const float *statistic, const float *draw,
                             const float *seed, float *delta, float *adjoint)
{
#define RNN_CALL(number)                                                                           \
    if constexpr (Stage == number)                                                                 \
        rnn_backward##number(vectors.bias, vectors.recurrent_bias, vectors.parameter, state, next, \
                             saved, statistic, draw, seed, delta, adjoint);
    RNN_STAGES(RNN_CALL)
#undef RNN_CALL
}

#endif
