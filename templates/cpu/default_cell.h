// Default numbers and equations, for cell.c compiled alone: a plain recurrent layer of 64 units,
// h' = tanh(W*x + R*h + b).
#include "cpu/prelude.h"

#define RNN_INPUTS 64
#define RNN_UNITS 64
#define RNN_OUTPUTS 64
#define RNN_SEQUENCE_OUT 1
#define RNN_GATES 1
#define RNN_BIASES 1
#define RNN_RECURRENT_BIASES 0
#define RNN_PARAMETERS 0
#define RNN_STATES 1
#define RNN_STATE_SIZES 64
#define RNN_STATE_FLOATS RNN_PADDED(64)
#define RNN_CARRIES 0
#define RNN_CARRY_SIZES 0
#define RNN_CARRY_FLOATS 0
#define RNN_PHASE_COUNT 1
#define RNN_PHASES(PHASE) PHASE(0)
#define RNN_PHASE_ROWS {RNN_MATRIX_R, 1, {0}, 1, 0, 64, 64, 0x1, 0x0, 1, {0}},
#define RNN_NORMS 0
#define RNN_MEMBERS 0
#define RNN_REVERSED 0
#define RNN_GO_BACKWARDS 0
#define RNN_RECURRENT_DROPOUT 0
#define RNN_ZONEOUT 0
#define RNN_PHASE_FLOATS RNN_MATRIX_FLOATS(1 * RNN_PADDED(64), 64)
#define RNN_PRODUCT_GATES 1
#define RNN_PRODUCT_UNITS 64
#define RNN_OPERAND_UNITS 64
#define RNN_HEADS 1
#define RNN_NORM_PHASES(PHASE)

RNN_INLINE void rnn_phase0(const rnn_f *input, const rnn_f *product, const rnn_f *bias,
                           const rnn_f *recurrent_bias, const rnn_f *parameter, const rnn_f *state,
                           const rnn_f *carry_in, const rnn_f *statistic, rnn_f *carry_out,
                           rnn_f *state_out)
{
    (void)recurrent_bias, (void)parameter, (void)state, (void)carry_in, (void)statistic,
        (void)carry_out;
    state_out[0] = rnn_tanh(input[0] + product[0] + bias[0]);
}
