// Default numbers and equations, for a skeleton compiled alone: an LSTM of 64 units with
// leaky_relu, as compiler/emit/cuda.c prints them for a model.
#include "cuda/prelude.cuh"

#define RNN_UNITS 64
#define RNN_OUTPUTS 64
#define RNN_SEQUENCE_OUT 1
#define RNN_PRECISION 0
#define RNN_GATES 4
#define RNN_INPUT_STRIDE 256
#define RNN_BIASES 4
#define RNN_RECURRENT_BIASES 0
#define RNN_PARAMETERS 0
#define RNN_STATES 2
#define RNN_STATE_SIZES 64, 64
#define RNN_CARRIES 0
#define RNN_CARRY_SIZES 0
#define RNN_PHASE_COUNT 1
#define RNN_PHASES(PHASE) PHASE(0)
#define RNN_PHASE_ROWS {RNN_MATRIX_R, 4, {0, 1, 2, 3}, 1, 0, 64, 64, 0x3, 0x0, 1, {0}},
#define RNN_NORMS 0
#define RNN_MEMBERS 0
#define RNN_REVERSED 0
#define RNN_GO_BACKWARDS 0
#define RNN_RECURRENT_DROPOUT 0

RNN_INLINE void rnn_phase0(const rnn_f *input, const rnn_f *product, const rnn_f *bias,
                           const rnn_f *recurrent_bias, const rnn_f *parameter, const rnn_f *state,
                           const rnn_f *carry_in, const rnn_f *statistic, rnn_f *carry_out,
                           rnn_f *state_out)
{
    const rnn_f i = rnn_sigmoid(input[0] + product[0] + bias[0]);
    const rnn_f f = rnn_sigmoid(input[1] + product[1] + bias[1]);
    const rnn_f a = input[2] + product[2] + bias[2];
    const rnn_f g = rnn_select(rnn_ge(a, rnn_const(0)), a, rnn_const(0.05f) * a);
    const rnn_f o = rnn_sigmoid(input[3] + product[3] + bias[3]);
    const rnn_f c = f * state[1] + i * g;
    state_out[1] = c;
    state_out[0] = o * rnn_select(rnn_ge(c, rnn_const(0)), c, rnn_const(0.05f) * c);
}
