// Variant train_stepwise: the pointwise parts of a step in training, forward and backward. All
// products are cuBLAS's, before and after these kernels; what lies between them is fused here. One
// element a thread, the unit innermost; a phase or stage with norms takes a CTA a row, which sums
// over the row's units first. Bound by a launch, or by memory where B*H is large.
//
//     forward, step s    product = M * operand       | rnn_save<phase>: carries, states, saved, y
//     backward, step s   rnn_back<stage>: deltas,    | returned = deltas * M
//                        adjoints before the step    |
//     at the end         rnn_back_end: adjoints of the initial states
//
// Data placement, by the number of a step in a row's own order, B and T of the run:
//
//     states [T + 1, B, size]   where saved, else two by turns     saved [T, B, RNN_SAVED_STRIDE]
//     W*x [T, B, RNN_INPUT_STRIDE]   statistics [T, B, 2 * norms]  deltas [T, B, RNN_DELTA_STRIDE]
//
// Vectors of a step lie one behind the other without gaps, so that those of several gates are one
// operand of a product. Steps that a row does not take leave zeros in saved and deltas: products
// over all steps read them.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/training.cu
#include "cuda/prim/sum.cuh"
#include "cuda/training.cuh"

enum { RNN_THREADS = 256, RNN_WARPS = RNN_THREADS / 32 };

/// The widest state, for the kernel that goes over all of them.
constexpr __device__ int rnn_widest_state()
{
    int widest = 0;
    for (int i = 0; i < RNN_STATES; i++)
        widest = rnn_state_sizes[i] > widest ? rnn_state_sizes[i] : widest;
    return widest;
}

/// What a phase of the forward pass is given for one step; all device memory.
struct RnnSave {
    RnnStep at;
    const float *input;                    ///< W*x of the step
    const float *product;                  ///< [B, row_count * size]
    const float *state_in[RNN_STATES_MAX]; ///< [B, size]
    float *state_out[RNN_STATES_MAX];
    float *carries[RNN_GATES_MAX];   ///< [B, size]
    float *operands[RNN_PHASES_MAX]; ///< with recurrent dropout: what R multiplies, scaled
    float *saved, *statistics;       ///< of the step; NULL: nothing is saved, and zoneout mixes
    float *y;
    long long y_row_stride, y_step_stride;
};

struct RnnUnit {
    float input[RNN_SOME(RNN_GATES)], product[RNN_GATES_MAX];
    RnnVectors vectors;
    float state[RNN_SOME(RNN_STATES)], carry[RNN_SOME(RNN_CARRIES)];
};

template <int Phase>
RNN_INLINE void rnn_load_unit(const RnnSave &step, long long row, int unit, RnnUnit &of)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
#pragma unroll
    for (int g = 0; g < phase.row_count; g++)
        of.product[g] = step.product[(row * phase.row_count + g) * phase.size + unit];
#pragma unroll
    for (int g = 0; g < RNN_GATES; g++)
        of.input[g] =
            unit < RNN_UNITS ? step.input[row * RNN_INPUT_STRIDE + g * RNN_UNITS + unit] : 0.0f;
    of.vectors.load(step.at, unit);
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        of.state[i] =
            unit < rnn_state_sizes[i] ? step.state_in[i][row * rnn_state_sizes[i] + unit] : 0.0f;
#pragma unroll
    for (int i = 0; i < RNN_CARRIES; i++)
        of.carry[i] = unit < rnn_carry_sizes[i] && !(phase.carries >> i & 1)
                          ? step.carries[i][row * rnn_carry_sizes[i] + unit]
                          : 0.0f;
}

/// With recurrent dropout, the scaled copies of what phase Phase has made for products with R.
template <int Phase, int Reader>
RNN_INLINE void rnn_publish(const RnnSave &step, const float *states, const float *carries,
                            bool takes, long long row, int unit)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        constexpr RnnPhase reader = rnn_phases[Reader];
        if constexpr (rnn_feeds(Phase, Reader) && reader.matrix == RNN_MATRIX_R) {
            const long long to = row * reader.operand_size + unit;
            if (unit < reader.operand_size)
                step.operands[Reader][to] = (reader.operand_is_state ? states[reader.operand]
                                             : takes                 ? carries[reader.operand]
                                                                     : 0.0f) *
                                            __ldg(step.at.scale + to);
        }
        rnn_publish<Phase, Reader + 1>(step, states, carries, takes, row, unit);
    }
}

/// The pointwise part of one unit, and its stores.
template <int Phase>
RNN_INLINE void rnn_save_unit(const RnnSave &step, long long row, int unit, const RnnWhen &when,
                              const RnnUnit &of, const float *statistic)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
    float next[RNN_SOME(RNN_STATES)], carry[RNN_SOME(RNN_CARRIES)], saved[RNN_SOME(RNN_SAVED)];
    float draw[RNN_SOME(RNN_STATES)] = {};
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        next[i] = of.state[i];
#pragma unroll
    for (int i = 0; i < RNN_SAVED; i++)
        saved[i] = 0.0f;
    if (when.takes && RNN_ZONEOUT && !step.saved) {
        rnn_pointwise<Phase>(of.input, of.product, of.vectors.bias, of.vectors.recurrent_bias,
                             of.vectors.parameter, of.state, of.carry, statistic, carry, next);
    } else if (when.takes) {
        if (RNN_ZONEOUT)
            rnn_draw_zoneout(step.at.seed, row, when.time, unit, draw);
        rnn_saving<Phase>(of.input, of.product, of.vectors.bias, of.vectors.recurrent_bias,
                          of.vectors.parameter, of.state, of.carry, statistic, draw, carry, next,
                          saved);
    }
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        if (phase.states >> i & 1)
            step.state_out[i][row * rnn_state_sizes[i] + unit] = next[i];
#pragma unroll
    for (int i = 0; i < RNN_CARRIES; i++)
        if ((phase.carries >> i & 1) && when.takes)
            step.carries[i][row * rnn_carry_sizes[i] + unit] = carry[i];
#pragma unroll
    for (int i = 0; i < RNN_SAVED; i++)
        if (rnn_saved_phases[i] == Phase && step.saved)
            step.saved[row * RNN_SAVED_STRIDE + rnn_sum_sizes(rnn_saved_sizes, i) + unit] =
                saved[i];
    if ((phase.states & 1) && when.takes && (RNN_SEQUENCE_OUT || when.last))
        step.y[row * step.y_row_stride +
               (RNN_SEQUENCE_OUT ? when.position * step.y_step_stride : 0) + unit] = next[0];
    if constexpr (RNN_RECURRENT_DROPOUT)
        rnn_publish<Phase, 0>(step, next, carry, when.takes, row, unit);
}

#if RNN_NORMS > 0
__device__ constexpr int rnn_phase_norms[][RNN_STAGE_NORMS] = {RNN_PHASE_NORMS}; // in the cell

/// Mean and 1 / sqrt(variance + 1e-5) of each norm of a row: two passes.
template <int Phase>
RNN_INLINE void rnn_take_statistics(const RnnSave &step, long long row, float *statistic)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        float sums[RNN_NORMS] = {};
#pragma unroll 1
        for (int unit = threadIdx.x; unit < phase.size; unit += RNN_THREADS) {
            RnnUnit of;
            float member[RNN_MEMBERS];
            rnn_load_unit<Phase>(step, row, unit, of);
            rnn_members<Phase>(of.input, of.product, of.vectors.bias, of.vectors.recurrent_bias,
                               of.vectors.parameter, of.state, of.carry, member);
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

/// A phase with norms: a CTA a row.
template <int Phase> RNN_INLINE void rnn_save_row(const RnnSave &step)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
    const long long row = blockIdx.x;
    const RnnWhen when = rnn_when(step.at, row);
    float statistic[2 * RNN_NORMS] = {};
    if (when.takes)
        rnn_take_statistics<Phase>(step, row, statistic);
#pragma unroll
    for (int i = 0; i < 2 * RNN_NORMS && phase.norms[i / 2] > 0; i++)
        if (threadIdx.x == 0 && step.statistics)
            step.statistics[row * 2 * RNN_CELL_NORMS + 2 * rnn_phase_norms[Phase][i / 2] + i % 2] =
                statistic[i];
#pragma unroll 1
    for (int unit = threadIdx.x; unit < phase.size; unit += RNN_THREADS) {
        RnnUnit of;
        rnn_load_unit<Phase>(step, row, unit, of);
        rnn_save_unit<Phase>(step, row, unit, when, of, statistic);
    }
}
#endif

template <int Phase> RNN_INLINE void rnn_save_phase(const RnnSave &step)
{
#if RNN_NORMS > 0
    if constexpr (rnn_phases[Phase].norms[0] > 0) {
        rnn_save_row<Phase>(step);
        return;
    }
#endif
    const long long i = (long long)blockIdx.x * RNN_THREADS + threadIdx.x;
    const long long row = i / rnn_phases[Phase].size;
    const int unit = (int)(i - row * rnn_phases[Phase].size);
    if (row >= step.at.batch)
        return;
    RnnUnit of;
    rnn_load_unit<Phase>(step, row, unit, of);
    rnn_save_unit<Phase>(step, row, unit, rnn_when(step.at, row), of, nullptr);
}

#define RNN_SAVE_KERNEL(number)                                                                    \
    extern "C" __global__ void __launch_bounds__(RNN_THREADS) rnn_save##number(const RnnSave step) \
    {                                                                                              \
        rnn_save_phase<number>(step);                                                              \
    }
RNN_PHASES(RNN_SAVE_KERNEL)

/// What a stage of the backward pass is given for one step.
struct RnnBack {
    RnnStep at;
    const float *state[RNN_STATES_MAX], *next[RNN_STATES_MAX]; ///< before and after; NULL: not kept
    const float *saved, *statistics;                           ///< of the step
    const float *adjoint_in[RNN_STATES_MAX]; ///< after the step, less what products return
    float *adjoint_out[RNN_STATES_MAX];      ///< before it
    const float *returned[RNN_PHASES_MAX]; ///< of this step; of the next one where M takes a state
    float *sums;                           ///< [B, 2 * norms] of the step
    float *deltas;                         ///< of the step
    const float *dy;
    long long dy_row_stride, dy_step_stride;
};

struct RnnPoint {
    RnnVectors vectors;
    float state[RNN_STATES], next[RNN_STATES], saved[RNN_SOME(RNN_SAVED)], draw[RNN_STATES];
    float statistic[RNN_SOME(2 * RNN_CELL_NORMS)], seed[RNN_SEEDS];
};

/// What a phase's product has returned for one value of its operand.
template <int Phase> RNN_INLINE float rnn_returned(const RnnBack &step, long long row, int unit)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
    if (phase.row_count == 0 || unit >= phase.operand_size)
        return 0.0f;
    const long long at = row * phase.operand_size + unit;
    const float value = step.returned[Phase][at];
    return RNN_RECURRENT_DROPOUT && phase.matrix == RNN_MATRIX_R ? value * __ldg(step.at.scale + at)
                                                                 : value;
}

/// The adjoint of state `index` behind the step, but for dy.
RNN_INLINE float rnn_adjoint(const RnnBack &step, long long row, int unit, int index)
{
    float sum = unit < rnn_state_sizes[index]
                    ? step.adjoint_in[index][row * rnn_state_sizes[index] + unit]
                    : 0.0f;
#define RNN_ADD(number)                                                                            \
    if (rnn_phases[number].row_count > 0 && rnn_phases[number].operand_is_state &&                 \
        rnn_phases[number].operand == index)                                                       \
        sum += rnn_returned<number>(step, row, unit);
    RNN_PHASES(RNN_ADD)
#undef RNN_ADD
    return sum;
}

RNN_INLINE void rnn_load_point(const RnnBack &step, long long row, int unit, const RnnWhen &when,
                               const float *sums, RnnPoint &point)
{
    point.vectors.load(step.at, unit);
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++) {
        const bool is_saved = (RNN_STATES_SAVED >> i & 1) && unit < rnn_state_sizes[i];
        const long long at = row * rnn_state_sizes[i] + unit;
        point.state[i] = is_saved ? step.state[i][at] : 0.0f;
        point.next[i] = is_saved ? step.next[i][at] : 0.0f;
        point.seed[i] = rnn_adjoint(step, row, unit, i);
        point.draw[i] = 0.0f;
    }
    if (RNN_ZONEOUT)
        rnn_draw_zoneout(step.at.seed, row, when.time, unit, point.draw);
    if (unit < RNN_OUTPUTS && (RNN_SEQUENCE_OUT || when.last))
        point.seed[0] +=
            step.dy[row * step.dy_row_stride +
                    (RNN_SEQUENCE_OUT ? when.position * step.dy_step_stride : 0) + unit];
#pragma unroll
    for (int i = 0; i < RNN_SAVED; i++)
        point.saved[i] =
            unit < rnn_saved_sizes[i]
                ? step.saved[row * RNN_SAVED_STRIDE + rnn_sum_sizes(rnn_saved_sizes, i) + unit]
                : 0.0f;
#define RNN_SEED(number)                                                                           \
    point.seed[RNN_STATES + number] =                                                              \
        rnn_phases[number].operand_is_state ? 0.0f : rnn_returned<number>(step, row, unit);
    RNN_PHASES(RNN_SEED)
#undef RNN_SEED
#pragma unroll
    for (int i = 0; i < 2 * RNN_CELL_NORMS; i++) {
        point.statistic[i] = step.statistics[row * 2 * RNN_CELL_NORMS + i];
        point.seed[RNN_STATES + RNN_PHASE_COUNT + i] = sums[i];
    }
}

/// One unit of a stage, and its stores.
template <int Stage>
RNN_INLINE void rnn_back_unit(const RnnBack &step, long long row, int unit, const RnnWhen &when,
                              const float *sums)
{
    constexpr RnnStage stage = rnn_stages[Stage];
    float delta[RNN_SOME(RNN_DELTAS)] = {}, adjoint[RNN_SOME(RNN_STATES)] = {};
    if (when.takes) {
        RnnPoint point;
        rnn_load_point(step, row, unit, when, sums, point);
        rnn_backward<Stage>(point.vectors, point.state, point.next, point.saved, point.statistic,
                            point.draw, point.seed, delta, adjoint);
    } else {
#pragma unroll
        for (int i = 0; i < RNN_STATES; i++)
            adjoint[i] = (stage.states >> i & 1) ? rnn_adjoint(step, row, unit, i) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < RNN_DELTAS; i++)
        if (rnn_delta_stages[i] == Stage && unit < rnn_delta_sizes[i])
            step.deltas[row * RNN_DELTA_STRIDE + rnn_sum_sizes(rnn_delta_sizes, i) + unit] =
                delta[i];
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        if ((stage.states >> i & 1) && unit < rnn_state_sizes[i])
            step.adjoint_out[i][row * rnn_state_sizes[i] + unit] = adjoint[i];
}

#if RNN_CELL_NORMS > 0
template <int Stage> RNN_INLINE void rnn_sum_adjoints(const RnnPoint &of, float *sum)
{
#define RNN_CALL(number)                                                                           \
    if constexpr (Stage == number)                                                                 \
        rnn_sums##number(of.vectors.bias, of.vectors.recurrent_bias, of.vectors.parameter,         \
                         of.state, of.next, of.saved, of.statistic, of.draw, of.seed, sum);
    RNN_SUM_STAGES(RNN_CALL)
#undef RNN_CALL
}

/// A stage with norms, a CTA a row: the sums over units of the adjoints of their statistics, each
/// divided by the values of the norm, which later stages of the step read again.
template <int Stage>
RNN_INLINE void rnn_take_sums(const RnnBack &step, long long row, const RnnWhen &when, float *sums)
{
    constexpr RnnStage stage = rnn_stages[Stage];
    float totals[2 * RNN_STAGE_NORMS] = {};
#pragma unroll 1
    for (int unit = threadIdx.x; unit < stage.size; unit += RNN_THREADS) {
        RnnPoint point;
        float sum[2 * RNN_STAGE_NORMS] = {};
        rnn_load_point(step, row, unit, when, sums, point);
        rnn_sum_adjoints<Stage>(point, sum);
#pragma unroll
        for (int i = 0; i < 2 * RNN_STAGE_NORMS; i++)
            totals[i] += sum[i];
    }
#pragma unroll
    for (int i = 0; i < 2 * RNN_STAGE_NORMS; i++)
        if (stage.members[i / 2] > 0) {
            const int to = 2 * stage.norms[i / 2] + i % 2;
            sums[to] = rnn_sum_cta<RNN_WARPS>(totals[i]) /
                       ((float)stage.members[i / 2] * (float)stage.size);
            if (threadIdx.x == 0)
                step.sums[row * 2 * RNN_CELL_NORMS + to] = sums[to];
        }
}
#endif

template <int Stage> RNN_INLINE void rnn_back_stage(const RnnBack &step)
{
    constexpr RnnStage stage = rnn_stages[Stage];
    constexpr bool has_norms = stage.members[0] > 0;
    const long long i = (long long)blockIdx.x * RNN_THREADS + threadIdx.x;
    const long long row = has_norms ? blockIdx.x : i / stage.size;
    if (row >= step.at.batch)
        return;
    const RnnWhen when = rnn_when(step.at, row);
    float sums[RNN_SOME(2 * RNN_CELL_NORMS)];
#pragma unroll
    for (int n = 0; n < 2 * RNN_CELL_NORMS; n++)
        sums[n] = step.sums[row * 2 * RNN_CELL_NORMS + n];
#if RNN_CELL_NORMS > 0
    if constexpr (has_norms) {
        __syncthreads(); // step.sums is read before it is written
        if (when.takes)
            rnn_take_sums<Stage>(step, row, when, sums);
#pragma unroll 1
        for (int unit = threadIdx.x; unit < stage.size; unit += RNN_THREADS)
            rnn_back_unit<Stage>(step, row, unit, when, sums);
        return;
    }
#endif
    rnn_back_unit<Stage>(step, row, (int)(i - row * stage.size), when, sums);
}

#define RNN_BACK_KERNEL(number)                                                                    \
    extern "C" __global__ void __launch_bounds__(RNN_THREADS) rnn_back##number(const RnnBack step) \
    {                                                                                              \
        rnn_back_stage<number>(step);                                                              \
    }
RNN_STAGES(RNN_BACK_KERNEL)

/// adjoint_out = the adjoints of the initial states.
extern "C" __global__ void __launch_bounds__(RNN_THREADS) rnn_back_end(const RnnBack step)
{
    const long long i = (long long)blockIdx.x * RNN_THREADS + threadIdx.x;
    const long long row = i / rnn_widest_state();
    const int unit = (int)(i - row * rnn_widest_state());
    if (row >= step.at.batch)
        return;
#pragma unroll
    for (int k = 0; k < RNN_STATES; k++)
        if (unit < rnn_state_sizes[k])
            step.adjoint_out[k][row * rnn_state_sizes[k] + unit] = rnn_adjoint(step, row, unit, k);
}
