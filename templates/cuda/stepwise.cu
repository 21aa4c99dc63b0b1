// Variant stepwise: the fused pointwise kernels between cuBLAS's products. A step of phase p is
//
//     product [B, rows*size] = operand [B, K] * R_p^T      cuBLAS
//     rnn_step<p>: unit (b, u) a thread: product, W*x, states -> states, carries, y, next operands
//
// so two launches a phase and step, all of them in one CUDA graph. x is grid.x over units and
// grid.y over rows; all arrays have the unit innermost, so every access of a warp is one line.
// Floor: two launches in a graph, 2.5 us or so. Limits: none; any H, B and T.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/stepwise.cu
#include "cuda/cell.cuh"

/// What a phase's kernel is given for one step; all device memory.
struct RnnStep {
    const float *input;   ///< W*x of this step; rows are input_stride floats apart
    const float *product; ///< [B, row_count*size]
    const float *bias, *recurrent_bias, *parameter; ///< canonical; NULL: none
    const float *state_in[RNN_STATES_MAX];
    float *state_out[RNN_STATES_MAX]; ///< may be state_in where there is one phase only
    float *carries[RNN_GATES_MAX];
    rnn_operand *operands[RNN_PHASES_MAX]; ///< for each reading phase; NULL: it reads float32
    float *y;                              ///< NULL: not in this step
    long long batch, input_stride, y_stride;
};

/// Narrows what phase Phase has made for the products that read it.
template <int Phase, int Reader>
RNN_INLINE void rnn_publish(const RnnStep &step, const float *states, const float *carries,
                            long long row, int unit)
{
    if constexpr (Reader < RNN_PHASE_COUNT) {
        if constexpr (rnn_feeds(Phase, Reader)) {
            constexpr RnnPhase reader = rnn_phases[Reader];
            if (step.operands[Reader] && unit < reader.operand_size)
                step.operands[Reader][row * reader.operand_size + unit] = rnn_narrow(
                    reader.operand_is_state ? states[reader.operand] : carries[reader.operand]);
        }
        rnn_publish<Phase, Reader + 1>(step, states, carries, row, unit);
    }
}

template <int Phase> RNN_INLINE void rnn_unit(const RnnStep &step, long long row, int unit)
{
    constexpr RnnPhase phase = rnn_phases[Phase];
    float input[RNN_SOME(RNN_GATES)], product[RNN_GATES_MAX], bias[RNN_SOME(RNN_BIASES)];
    float recurrent_bias[RNN_SOME(RNN_RECURRENT_BIASES)], parameter[RNN_SOME(RNN_PARAMETERS)];
    float state[RNN_SOME(RNN_STATES)], next[RNN_SOME(RNN_STATES)];
    float carry_in[RNN_SOME(RNN_CARRIES)], carry_out[RNN_SOME(RNN_CARRIES)];
    // What the phase does not use is not loaded: the compiler sees which values go nowhere.
#pragma unroll
    for (int g = 0; g < RNN_GATES; g++)
        input[g] = step.input[row * step.input_stride + g * RNN_UNITS + unit];
#pragma unroll
    for (int g = 0; g < phase.row_count; g++)
        product[g] = step.product[row * phase.row_count * phase.size + g * phase.size + unit];
#pragma unroll
    for (int g = 0; g < RNN_SOME(RNN_BIASES); g++)
        bias[g] = step.bias ? __ldg(step.bias + g * RNN_UNITS + unit) : 0.0f;
#pragma unroll
    for (int g = 0; g < RNN_SOME(RNN_RECURRENT_BIASES); g++)
        recurrent_bias[g] =
            step.recurrent_bias ? __ldg(step.recurrent_bias + g * RNN_UNITS + unit) : 0.0f;
#pragma unroll
    for (int g = 0; g < RNN_SOME(RNN_PARAMETERS); g++)
        parameter[g] = step.parameter ? __ldg(step.parameter + g * RNN_UNITS + unit) : 0.0f;
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        state[i] =
            unit < rnn_state_sizes[i] ? step.state_in[i][row * rnn_state_sizes[i] + unit] : 0.0f;
#pragma unroll
    for (int i = 0; i < RNN_CARRIES; i++)
        carry_in[i] = unit < rnn_carry_sizes[i] && !(phase.carries >> i & 1)
                          ? step.carries[i][row * rnn_carry_sizes[i] + unit]
                          : 0.0f;
    rnn_pointwise<Phase>(input, product, bias, recurrent_bias, parameter, state, carry_in, nullptr,
                         carry_out, next);
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        if (phase.states >> i & 1)
            step.state_out[i][row * rnn_state_sizes[i] + unit] = next[i];
#pragma unroll
    for (int i = 0; i < RNN_CARRIES; i++)
        if (phase.carries >> i & 1)
            step.carries[i][row * rnn_carry_sizes[i] + unit] = carry_out[i];
    if ((phase.states & 1) && step.y)
        step.y[row * step.y_stride + unit] = next[0];
    rnn_publish<Phase, 0>(step, next, carry_out, row, unit);
}

template <int Phase> RNN_INLINE void rnn_units(const RnnStep &step)
{
    const int unit = blockIdx.x * blockDim.x + threadIdx.x;
    if (unit < rnn_phases[Phase].size)
        for (long long row = blockIdx.y; row < step.batch; row += gridDim.y)
            rnn_unit<Phase>(step, row, unit);
}

#define RNN_KERNEL(number)                                                                         \
    extern "C" __global__ void rnn_step##number(const RnnStep step)                                \
    {                                                                                              \
        rnn_units<number>(step);                                                                   \
    }
RNN_PHASES(RNN_KERNEL)
