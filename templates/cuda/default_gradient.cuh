// Default gradient: numbers and equations of training for the cell of default_cell.cuh, as
// compiler/emit/gradient_numbers.c and compiler/cell/cell_gradient_print.c print them for a model.
#include "cuda/prelude.cuh"

#define RNN_ZONEOUT 0
#define RNN_ZONEOUT_RATES 0.0f, 0.0f
#define RNN_DROPOUT_INDEX 0
#define RNN_SEEDS 3
#define RNN_SAVED 4
#define RNN_SAVED_SIZES 64, 64, 64, 64
#define RNN_SAVED_PHASES 0, 0, 0, 0
#define RNN_STATES_SAVED 3
#define RNN_DELTAS 4
#define RNN_DELTA_SIZES 64, 64, 64, 64
#define RNN_DELTA_STAGES 0, 0, 0, 0
#define RNN_STAGE_ROWS {0, 0, 64, 0x3, {0}, {0}},
#define RNN_STAGES(STAGE) STAGE(0)
#define RNN_SUM_STAGES(STAGE)
#define RNN_STAGE_COUNT 1
#define RNN_PHASE_NORMS                                                                            \
    {                                                                                              \
    }
#define RNN_CELL_NORMS 0

RNN_INLINE void rnn_saving0(const rnn_f *input, const rnn_f *product, const rnn_f *bias,
                            const rnn_f *recurrent_bias, const rnn_f *parameter, const rnn_f *state,
                            const rnn_f *carry_in, const rnn_f *statistic, const rnn_f *draw,
                            rnn_f *carry_out, rnn_f *state_out, rnn_f *saved)
{
    const rnn_f i = rnn_sigmoid(input[0] + product[0] + bias[0]);
    const rnn_f f = rnn_sigmoid(input[1] + product[1] + bias[1]);
    const rnn_f a = input[2] + product[2] + bias[2];
    const rnn_f g = rnn_select(rnn_gt(a, rnn_const(0.0f)), a, rnn_const(0.05f) * a);
    const rnn_f o = rnn_sigmoid(input[3] + product[3] + bias[3]);
    const rnn_f c = f * state[1] + i * g;
    state_out[0] = o * rnn_select(rnn_gt(c, rnn_const(0.0f)), c, rnn_const(0.05f) * c);
    state_out[1] = c;
    saved[0] = i;
    saved[1] = f;
    saved[2] = a;
    saved[3] = o;
}

RNN_INLINE void rnn_backward0(const rnn_f *bias, const rnn_f *recurrent_bias,
                              const rnn_f *parameter, const rnn_f *state, const rnn_f *next,
                              const rnn_f *saved, const rnn_f *statistic, const rnn_f *draw,
                              const rnn_f *seed, rnn_f *delta, rnn_f *adjoint)
{
    const rnn_f up = rnn_gt(saved[2], rnn_const(0.0f));
    const rnn_f g = rnn_select(up, saved[2], rnn_const(0.05f) * saved[2]);
    const rnn_f above = rnn_gt(next[1], rnn_const(0.0f));
    const rnn_f of_output = seed[0] * saved[3];
    const rnn_f of_c = seed[1] + rnn_select(above, of_output, of_output * rnn_const(0.05f));
    const rnn_f of_g = of_c * saved[0];
    delta[0] = of_c * g * (saved[0] * (rnn_const(1.0f) - saved[0]));
    delta[1] = of_c * state[1] * (saved[1] * (rnn_const(1.0f) - saved[1]));
    delta[2] = rnn_select(up, of_g, of_g * rnn_const(0.05f));
    delta[3] = seed[0] * rnn_select(above, next[1], rnn_const(0.05f) * next[1]) *
               (saved[3] * (rnn_const(1.0f) - saved[3]));
    adjoint[0] = rnn_const(0.0f);
    adjoint[1] = of_c * saved[1];
}
