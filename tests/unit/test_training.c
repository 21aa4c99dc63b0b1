// Training at the runtime's surface: what is refused and in which words, accumulation, dropout that
// draws in training alone, weights in place, several layers that read one value. Values of
// gradients are checked by tests/conform/gradients.c.
#include "unit/runtime_fixture.h"

#include <math.h>

enum { B = 3, T = 4, I = 5, H = 7, O = 2 };

static const char spec[] = "rnnc: 1\n"
                           "input: {features: 5}\n"
                           "layers:\n"
                           "  - {cell: gru, units: 7, name: enc, return_sequences: true}\n"
                           "  - {dropout: 0.5}\n"
                           "  - {dense: 2, name: head}\n"
                           "compile: {mode: training}\n"
                           "weights: {seed: 3}\n";

static float x[B * T * I], y[B * T * O], dy[B * T * O], dW[3 * H * I], dx[B * T * I];

static rnnc_session *open_training(rnnc_module *module)
{
    rnnc_session *session;
    const rnnc_session_options options = {
        .device = "cpu", .max_batch = B, .max_timesteps = T, .training = 1};
    ck_assert_msg(rnnc_session_create(module, &options, &session) == RNNC_OK, "%s",
                  rnnc_last_error());
    fixture_fill(x, B * T * I, 1);
    fixture_fill(dy, B * T * O, 2);
    ck_assert_int_eq(fixture_bind(session, "x", x, B, T, I), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", y, B, T, O), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "grad/y", dy, B, T, O), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "grad/enc/W", dW, 3 * H, I, 0), RNNC_OK);
    return session;
}

static void train(rnnc_session *session, const rnnc_backward_options *options)
{
    ck_assert_msg(rnnc_forward(session) == RNNC_OK, "%s", rnnc_session_error(session));
    ck_assert_msg(rnnc_backward(session, options) == RNNC_OK, "%s", rnnc_session_error(session));
}

static void assert_refused(const rnnc_session *session, rnnc_status status, rnnc_status expected,
                           const char *words)
{
    ck_assert_int_eq(status, expected);
    ck_assert_msg(strstr(rnnc_session_error(session), words), "%s", rnnc_session_error(session));
}

START_TEST(needs_a_module_and_a_session_for_training)
{
    rnnc_module *plain = fixture_module("plain.so"), *module = fixture_module("m.so");
    rnnc_session *session = NULL;
    const rnnc_session_options options = {.device = "cpu", .training = 1};
    ck_assert_int_eq(rnnc_session_create(plain, &options, &session), RNNC_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(rnnc_last_error(), "mode: training"));
    ck_assert_int_eq(rnnc_session_create(module,
                                         &(rnnc_session_options){.device = "cuda", .training = 1},
                                         &session),
                     RNNC_UNAVAILABLE);
    session = fixture_session(module, B, T);
    assert_refused(session, rnnc_forward(session), RNNC_NOT_READY, "not created for training");
    assert_refused(session, rnnc_backward(session, NULL), RNNC_NOT_READY,
                   "not created for training");
    assert_refused(session, fixture_bind(session, "grad/y", dy, B, T, O), RNNC_INVALID_ARGUMENT,
                   "no tensor 'grad/y'");
    rnnc_session_destroy(session);
    rnnc_module_close(module);
    rnnc_module_close(plain);
}
END_TEST

START_TEST(backward_needs_its_own_forward)
{
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    assert_refused(session, rnnc_backward(session, NULL), RNNC_NOT_READY, "no rnnc_forward");
    train(session, NULL);
    assert_refused(session, rnnc_backward(session, NULL), RNNC_NOT_READY, "no rnnc_forward");
    ck_assert_int_eq(rnnc_forward(session), RNNC_OK);
    fixture_run(session);
    assert_refused(session, rnnc_backward(session, NULL), RNNC_NOT_READY, "no rnnc_forward");
    ck_assert_int_eq(rnnc_backward(NULL, NULL), RNNC_INVALID_ARGUMENT);
    ck_assert_int_eq(rnnc_forward(NULL), RNNC_INVALID_ARGUMENT);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(gradients_that_do_not_fit_are_refused)
{
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    assert_refused(session, fixture_bind(session, "grad/enc/W", dW, 3 * H, I + 1, 0),
                   RNNC_INVALID_ARGUMENT, "grad/enc/W: dimension 1 is 6, expected 5");
    assert_refused(session, fixture_bind(session, "grad/mask", dW, B, T, 0), RNNC_INVALID_ARGUMENT,
                   "mask has no gradient");
    assert_refused(session, fixture_bind(session, "grad/other", dW, B, T, 0), RNNC_INVALID_ARGUMENT,
                   "no tensor 'other'");
    ck_assert_int_eq(rnnc_forward(session), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "grad/y", dy, B - 1, T, O), RNNC_OK);
    assert_refused(session, rnnc_backward(session, NULL), RNNC_INVALID_ARGUMENT,
                   "grad/y: dimension 0 is 2, expected 3");
    ck_assert_int_eq(rnnc_bind(session, "grad/y", NULL), RNNC_OK);
    assert_refused(session, rnnc_backward(session, NULL), RNNC_NOT_READY, "grad/y is not bound");
    ck_assert_int_eq(fixture_bind(session, "grad/y", dy, B, T, O), RNNC_OK);
    ck_assert_int_eq(rnnc_backward(session, NULL), RNNC_OK); // nothing was used up
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(accumulates_or_overwrites)
{
    static float once[3 * H * I];
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    fixture_fill(dW, 3 * H * I, 9);
    train(session, NULL);
    memcpy(once, dW, sizeof once);
    for (int k = 0; k < 3 * H * I; k++)
        dW[k] = 1;
    train(session, &(rnnc_backward_options){.accumulate = 1});
    for (int k = 0; k < 3 * H * I; k++)
        ck_assert_float_eq_tol(dW[k], 1 + once[k], 1e-6f);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(a_gradient_that_is_no_number_is_named)
{
    const rnnc_backward_options asks = {.find_nan = 1};
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    train(session, &asks);
    dy[(1 * T + 2) * O] = NAN;
    ck_assert_int_eq(rnnc_forward(session), RNNC_OK);
    assert_refused(session, rnnc_backward(session, &asks), RNNC_NOT_FINITE,
                   "layer 'head': at step 2 of row 1");
    dy[(1 * T + 2) * O] = 0;
    x[(2 * T + 3) * I] = NAN;
    ck_assert_int_eq(rnnc_forward(session), RNNC_OK);
    assert_refused(session, rnnc_backward(session, &asks), RNNC_NOT_FINITE,
                   "layer 'enc': at step 3 of row 2");
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// What rnnc_run gives does not depend on the seed; what rnnc_forward gives does.
START_TEST(dropout_draws_in_training_alone)
{
    static float first[B * T * O], trained[B * T * O];
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    fixture_run(session);
    memcpy(first, y, sizeof first);
    ck_assert_int_eq(rnnc_forward(session), RNNC_OK);
    memcpy(trained, y, sizeof trained);
    ck_assert_int_ne(memcmp(first, trained, sizeof first), 0);
    ck_assert_int_eq(rnnc_set_seed(session, 8), RNNC_OK);
    ck_assert_int_eq(rnnc_forward(session), RNNC_OK);
    ck_assert_int_ne(memcmp(trained, y, sizeof first), 0);
    fixture_run(session);
    ck_assert_int_eq(memcmp(first, y, sizeof first), 0);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// A weight is read where it is bound, at each run; NULL puts the module's own back.
START_TEST(weights_are_used_in_place)
{
    static float W[O * H], own[B * T * O];
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    fixture_run(session);
    memcpy(own, y, sizeof own);
    ck_assert_int_eq(fixture_bind(session, "head/W", W, O, H, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "grad/x", dx, B, T, I), RNNC_OK);
    train(session, NULL);
    for (int k = 0; k < B * T * I; k++)
        ck_assert_float_eq(dx[k], 0); // through a head of zeros
    fixture_fill(W, O * H, 5);
    train(session, NULL);
    ck_assert_float_ne(dx[0], 0);
    ck_assert_int_eq(rnnc_bind(session, "head/W", NULL), RNNC_OK);
    fixture_run(session);
    ck_assert_int_eq(memcmp(own, y, sizeof own), 0);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

static void set_up(void)
{
    fixture_open_folder();
    fixture_compile("m", spec);
    fixture_compile("plain", "rnnc: 1\ninput: {features: 5}\nlayers:\n  - {dense: 2}\n"
                             "weights: {seed: 3}\n");
}

int main(void)
{
    Suite *suite = suite_create("training");
    TCase *tests = tcase_create("training");
    tcase_add_test(tests, needs_a_module_and_a_session_for_training);
    tcase_add_test(tests, backward_needs_its_own_forward);
    tcase_add_test(tests, gradients_that_do_not_fit_are_refused);
    tcase_add_test(tests, accumulates_or_overwrites);
    tcase_add_test(tests, a_gradient_that_is_no_number_is_named);
    tcase_add_test(tests, dropout_draws_in_training_alone);
    tcase_add_test(tests, weights_are_used_in_place);
    tcase_add_unchecked_fixture(tests, set_up, fixture_remove_folder);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
