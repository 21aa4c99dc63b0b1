// The reference against values of the page of probes, so that the yardstick itself is measured.
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "conform/reference.h"

static const ReferenceActivation none = {"tanh", 0, 0}, gate = {"sigmoid", 0, 0};

/// One unit, one row; weights by gate.
static ReferenceCell one_unit(const char *name, const float *W, const float *R, const float *b)
{
    return (ReferenceCell){.facts = reference_facts(name),
                           .inputs = 1,
                           .units = 1,
                           .activation = none,
                           .recurrent_activation = gate,
                           .output_activation = none,
                           .W = W,
                           .R = R,
                           .b = b};
}

static const float zeros[4] = {0}, halves[4] = {.5f, .5f, .5f, .5f}, ones[4] = {1, 1, 1, 1};

START_TEST(lstm_gate_order)
{
    const float b[] = {.1f, .2f, .3f, .4f};
    const ReferenceCell cell = one_unit("lstm", zeros, zeros, b);
    double h = 0, c = 1, x = 0, y;
    reference_cell_run(&cell, NULL, 1, 1, &x, (double *[4]){&h, &c}, &y);
    ck_assert_double_eq_tol(y, .36287728, 1e-7);
    ck_assert_double_eq_tol(c, .70276706, 1e-7);
}
END_TEST

START_TEST(gru_gate_order)
{
    const float W[] = {.2f, .1f, .3f}, R[] = {.5f, .4f, .6f}, b[] = {.07f, .05f, .03f}, rb = .06f;
    ReferenceCell cell = one_unit("gru", W, R, b);
    cell.rb = &rb;
    double h = .8, x = .5, y;
    reference_cell_run(&cell, NULL, 1, 1, &x, (double *[4]){&h}, &y);
    ck_assert_double_eq_tol(y, .67370848, 1e-7);
}
END_TEST

START_TEST(gru_reset_before)
{
    const ReferenceCell cell = one_unit("gru_before", halves, halves, ones);
    const double x[] = {1, 2, 3}, right[] = {.16512214, .25417939, .30374607};
    double h = 0, y[3];
    reference_cell_run(&cell, NULL, 1, 3, x, (double *[4]){&h}, y);
    for (int t = 0; t < 3; t++)
        ck_assert_double_eq_tol(y[t], right[t], 1e-7);
}
END_TEST

START_TEST(lstm_half)
{
    const ReferenceCell cell = one_unit("lstm", halves, halves, halves);
    const double x[] = {1, 2, 3}, right[] = {.36960635, .71722695, .88358796};
    double h = 0, c = 0, y[3];
    reference_cell_run(&cell, NULL, 1, 3, x, (double *[4]){&h, &c}, y);
    for (int t = 0; t < 3; t++)
        ck_assert_double_eq_tol(y[t], right[t], 1e-7);
    ck_assert_double_eq_tol(c, 2.04592069, 1e-7);
}
END_TEST

START_TEST(activations_of_the_page)
{
    ck_assert_double_eq_tol(reference_activation(&(ReferenceActivation){"hard_sigmoid", 0, 0}, 1),
                            .66666667, 1e-8);
    ck_assert_double_eq_tol(
        reference_activation(&(ReferenceActivation){"hard_sigmoid_k2", 0, 0}, 1), .7, 1e-8);
    const float b[] = {.1f, .2f, -.5f, .4f};
    ReferenceCell cell = one_unit("lstm", zeros, zeros, b);
    cell.activation = cell.output_activation = (ReferenceActivation){"leaky_relu", .2, 0};
    double h = 0, c = -1, x = 0, y;
    reference_cell_run(&cell, NULL, 1, 1, &x, (double *[4]){&h, &c}, &y);
    ck_assert_double_eq_tol(y, -.07212174, 1e-7);
}
END_TEST

/// A cell without a probe is checked by what its definition says at special weights.
START_TEST(relatives_of_lstm)
{
    const ReferenceCell lstm = one_unit("lstm", halves, halves, halves);
    ReferenceCell peephole = one_unit("peephole_lstm", halves, halves, halves);
    ReferenceCell projected = one_unit("lstmp", halves, halves, halves);
    peephole.p = zeros;
    projected.P = ones;
    projected.projection = 1;
    const ReferenceCell *const same[] = {&lstm, &peephole, &projected};
    const double x[] = {1, 2, 3};
    for (int k = 0; k < 3; k++) {
        double h = 0, c = 0, y[3];
        reference_cell_run(same[k], NULL, 1, 3, x, (double *[4]){&h, &c}, y);
        ck_assert_double_eq_tol(y[2], .88358796, 1e-7);
    }
}
END_TEST

/// Stabilised slstm equals the plain form c' = exp(log_sigmoid(f)) c + exp(i) z, n likewise.
START_TEST(slstm_plain_form)
{
    const float W[] = {.3f, -.2f, .7f, .4f}, R[] = {.1f, .2f, -.3f, .5f};
    const ReferenceCell cell = one_unit("slstm", W, R, NULL);
    const double x[] = {1, -2, 3, .5};
    double h = 0, c = 0, n = 0, m = -INFINITY, y[4];
    reference_cell_run(&cell, NULL, 1, 4, x, (double *[4]){&h, &c, &n, &m}, y);
    double plain_h = 0, plain_c = 0, plain_n = 0;
    for (int t = 0; t < 4; t++) {
        double pre[4];
        for (int g = 0; g < 4; g++)
            pre[g] = (double)W[g] * x[t] + (double)R[g] * plain_h;
        const double forget = 1 / (1 + exp(-pre[3]));
        plain_c = forget * plain_c + exp(pre[2]) * tanh(pre[0]);
        plain_n = forget * plain_n + exp(pre[2]);
        plain_h = plain_c / plain_n / (1 + exp(-pre[1]));
        ck_assert_double_eq_tol(y[t], plain_h, 1e-12);
    }
}
END_TEST

/// relu-RNN of the page: W = R = 1, no bias.
static ReferenceCell relu_rnn(void)
{
    ReferenceCell cell = one_unit("rnn", ones, ones, NULL);
    cell.activation = (ReferenceActivation){"relu", 0, 0};
    return cell;
}

/// Runs one row of three steps from `state` and compares outputs and final state.
static void expect_sequence(const ReferenceSequence *sequence, const double *x, double state,
                            const double *right, double right_state)
{
    const ReferenceCell cell = relu_rnn();
    double h = state, y[3];
    reference_cell_run(&cell, sequence, 1, 3, x, (double *[4]){&h}, y);
    for (int t = 0; t < (sequence->last ? 1 : 3); t++)
        ck_assert_double_eq(y[t], right[t]);
    ck_assert_double_eq(h, right_state);
}

static const double one_two_three[] = {1, 2, 3};

START_TEST(orders_of_steps)
{
    const ReferenceSequence reverse = {.reversed = true};
    const ReferenceSequence backwards = {.reversed = true, .go_backwards = true};
    expect_sequence(&(ReferenceSequence){0}, one_two_three, 0, (double[]){1, 3, 6}, 6);
    expect_sequence(&backwards, one_two_three, 0, (double[]){3, 5, 6}, 6);
    expect_sequence(&reverse, one_two_three, 0, (double[]){6, 5, 3}, 6);
    expect_sequence(&(ReferenceSequence){.reversed = true, .last = true}, one_two_three, 0,
                    (double[]){6}, 6);
}
END_TEST

START_TEST(masks)
{
    const uint8_t hole[] = {1, 0, 1}, end[] = {1, 1, 0}, all[] = {0, 0, 0}, padding[] = {0, 1, 1};
    expect_sequence(&(ReferenceSequence){.mask = hole}, one_two_three, 0, (double[]){1, 1, 4}, 4);
    expect_sequence(&(ReferenceSequence){.mask = hole, .zero_output_for_mask = true}, one_two_three,
                    0, (double[]){1, 0, 4}, 4);
    expect_sequence(&(ReferenceSequence){.mask = hole, .reversed = true, .go_backwards = true},
                    one_two_three, 0, (double[]){3, 3, 4}, 4);
    expect_sequence(&(ReferenceSequence){.mask = end, .reversed = true, .go_backwards = true},
                    one_two_three, 0, (double[]){0, 2, 3}, 3);
    expect_sequence(&(ReferenceSequence){.mask = all}, one_two_three, 5, (double[]){0, 0, 0}, 5);
    expect_sequence(&(ReferenceSequence){.mask = padding}, (double[]){9, 2, 3}, 0,
                    (double[]){0, 2, 5}, 5);
    expect_sequence(&(ReferenceSequence){.mask = end, .last = true}, one_two_three, 0,
                    (double[]){3}, 3);
    expect_sequence(&(ReferenceSequence){.mask = end, .last = true, .zero_output_for_mask = true},
                    one_two_three, 0, (double[]){0}, 3);
}
END_TEST

START_TEST(lengths)
{
    const double x[] = {1, 2, 99};
    const int32_t two[] = {2}, zero[] = {0};
    expect_sequence(&(ReferenceSequence){.lengths = two}, x, 0, (double[]){1, 3, 0}, 3);
    expect_sequence(&(ReferenceSequence){.lengths = two, .reversed = true}, x, 0,
                    (double[]){3, 2, 0}, 3);
    expect_sequence(&(ReferenceSequence){.lengths = two, .reversed = true, .go_backwards = true}, x,
                    0, (double[]){2, 3, 0}, 3);
    expect_sequence(&(ReferenceSequence){.lengths = zero}, x, 7, (double[]){0, 0, 0}, 7);
    expect_sequence(&(ReferenceSequence){.lengths = zero, .last = true}, x, 7, (double[]){0}, 7);
}
END_TEST

/// P-26: the half-LSTM.
START_TEST(masked_lstm)
{
    const ReferenceCell cell = one_unit("lstm", halves, halves, halves);
    const uint8_t hole[] = {1, 0, 1};
    const ReferenceSequence masked = {.mask = hole};
    const ReferenceSequence backwards = {.reversed = true, .go_backwards = true};
    const double right[] = {.36960635, .36960635, .79123577};
    const double right_backwards[] = {.60828342, .78354510, .76865181};
    double h = 0, c = 0, y[3];
    reference_cell_run(&cell, &masked, 1, 3, one_two_three, (double *[4]){&h, &c}, y);
    for (int t = 0; t < 3; t++)
        ck_assert_double_eq_tol(y[t], right[t], 1e-7);
    h = c = 0;
    reference_cell_run(&cell, &backwards, 1, 3, one_two_three, (double *[4]){&h, &c}, y);
    for (int t = 0; t < 3; t++)
        ck_assert_double_eq_tol(y[t], right_backwards[t], 1e-7);
}
END_TEST

/// P-19: clip bounds what the output activation is given, not the cell state.
START_TEST(clip_of_onnx)
{
    const double x[] = {1, 1, 1, 1, 1, 1};
    const double right[] = {.17427, .271099, .287649, .287649, .287649, .287649};
    ReferenceCell cell = one_unit("lstm", ones, zeros, NULL);
    cell.clip = .5;
    double h = 0, c = 0, y[6];
    reference_cell_run(&cell, NULL, 1, 6, x, (double *[4]){&h, &c}, y);
    for (int t = 0; t < 6; t++)
        ck_assert_double_eq_tol(y[t], right[t], 1e-6);
    ck_assert_double_gt(c, .5);
}
END_TEST

START_TEST(forget_gate_from_the_input_gate)
{
    const float W[] = {.3f, 9, .7f, .4f}, R[] = {.1f, 9, -.3f, .5f}; // f's weights do not count
    const float coupled_W[] = {.3f, .7f, .4f}, coupled_R[] = {.1f, -.3f, .5f};
    ReferenceCell lstm = one_unit("lstm", W, R, NULL);
    const ReferenceCell cifg = one_unit("cifg_lstm", coupled_W, coupled_R, NULL);
    double h = .2, c = .4, coupled_h = .2, coupled_c = .4, y[3], coupled_y[3];
    lstm.input_forget = true;
    reference_cell_run(&lstm, NULL, 1, 3, one_two_three, (double *[4]){&h, &c}, y);
    reference_cell_run(&cifg, NULL, 1, 3, one_two_three, (double *[4]){&coupled_h, &coupled_c},
                       coupled_y);
    ck_assert_double_eq_tol(h, coupled_h, 1e-15);
    ck_assert_double_eq_tol(c, coupled_c, 1e-15);
}
END_TEST

/// By hand: h' = .25 h + .75 relu(x + h).
START_TEST(zoneout_keeps_a_share)
{
    ReferenceCell cell = relu_rnn();
    double h = 4, y[3];
    cell.zoneout[0] = .25;
    reference_cell_run(&cell, NULL, 1, 3, one_two_three, (double *[4]){&h}, y);
    ck_assert_double_eq(y[0], 4.75);
    ck_assert_double_eq(y[1], 6.25);
    ck_assert_double_eq(h, 8.5);
}
END_TEST

/// Two heads of one unit: each sees itself alone, and with it its own factor of dropout.
START_TEST(heads_are_apart)
{
    const float W[] = {1, 1}, R[] = {2, 3};
    ReferenceCell cell = relu_rnn();
    const double x[] = {1, 0}, factors[] = {1, 2};
    const ReferenceSequence dropped = {.recurrent_scale = factors};
    double h[] = {0, 0}, y[4];
    cell.units = 2;
    cell.heads = 2;
    cell.W = W;
    cell.R = R;
    reference_cell_run(&cell, NULL, 1, 2, x, (double *[4]){h}, y);
    ck_assert_double_eq(h[0], 2);
    ck_assert_double_eq(h[1], 3);
    h[0] = h[1] = 0;
    reference_cell_run(&cell, &dropped, 1, 2, x, (double *[4]){h}, y);
    ck_assert_double_eq(h[0], 2);
    ck_assert_double_eq(h[1], 6);
}
END_TEST

/// Known answers of Random123 (kat_vectors, philox4x32 10).
START_TEST(philox_known_answers)
{
    static const uint32_t vectors[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int k = 0; k < 3; k++) {
        uint32_t out[4];
        reference_philox(vectors[k], vectors[k] + 4, out);
        for (int word = 0; word < 4; word++)
            ck_assert_uint_eq(out[word], vectors[k][6 + word]);
    }
    const ReferenceDraw draw = {0}; // 0x6627e8d5 * 2^-32 = .399
    ck_assert_double_eq(reference_dropout(0, &draw, .39), 1 / .61);
    ck_assert_double_eq(reference_dropout(0, &draw, .4), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reference");
    TCase *cases = tcase_create("page");
    tcase_add_test(cases, lstm_gate_order);
    tcase_add_test(cases, gru_gate_order);
    tcase_add_test(cases, gru_reset_before);
    tcase_add_test(cases, lstm_half);
    tcase_add_test(cases, activations_of_the_page);
    tcase_add_test(cases, relatives_of_lstm);
    tcase_add_test(cases, slstm_plain_form);
    tcase_add_test(cases, orders_of_steps);
    tcase_add_test(cases, masks);
    tcase_add_test(cases, lengths);
    tcase_add_test(cases, masked_lstm);
    tcase_add_test(cases, clip_of_onnx);
    tcase_add_test(cases, forget_gate_from_the_input_gate);
    tcase_add_test(cases, zoneout_keeps_a_share);
    tcase_add_test(cases, heads_are_apart);
    tcase_add_test(cases, philox_known_answers);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
