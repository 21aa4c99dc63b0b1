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
    reference_cell_run(&cell, 1, 1, &x, (double *[4]){&h, &c}, &y);
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
    reference_cell_run(&cell, 1, 1, &x, (double *[4]){&h}, &y);
    ck_assert_double_eq_tol(y, .67370848, 1e-7);
}
END_TEST

START_TEST(gru_reset_before)
{
    const ReferenceCell cell = one_unit("gru_before", halves, halves, ones);
    const double x[] = {1, 2, 3}, right[] = {.16512214, .25417939, .30374607};
    double h = 0, y[3];
    reference_cell_run(&cell, 1, 3, x, (double *[4]){&h}, y);
    for (int t = 0; t < 3; t++)
        ck_assert_double_eq_tol(y[t], right[t], 1e-7);
}
END_TEST

START_TEST(lstm_half)
{
    const ReferenceCell cell = one_unit("lstm", halves, halves, halves);
    const double x[] = {1, 2, 3}, right[] = {.36960635, .71722695, .88358796};
    double h = 0, c = 0, y[3];
    reference_cell_run(&cell, 1, 3, x, (double *[4]){&h, &c}, y);
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
    reference_cell_run(&cell, 1, 1, &x, (double *[4]){&h, &c}, &y);
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
        reference_cell_run(same[k], 1, 3, x, (double *[4]){&h, &c}, y);
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
    reference_cell_run(&cell, 1, 4, x, (double *[4]){&h, &c, &n, &m}, y);
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
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
