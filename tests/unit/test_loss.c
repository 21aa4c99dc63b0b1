// The loss of language models: softmax cross-entropy over y, its value and gradients by hand, by
// float64 and by central differences; steps that are left out, strides, and what is refused.
#include "unit/runtime_fixture.h"

#include <math.h>

enum { B = 3, T = 5, V = 7, H = 6 };

static const char model[] = "layers:\n"
                            "  - {embedding: 4, name: emb}\n"
                            "  - {cell: lstm, units: 6, name: enc, return_sequences: true}\n"
                            "  - {dense: 7, name: head}\n"
                            "compile: {mode: training}\n"
                            "weights: {seed: 3}\n";

static int32_t x[B * T], targets[B * T];
static float y[B * T * V], loss, db[V], dR[4 * H * H];

static rnnc_status bind_tokens(rnnc_session *session, const char *name, int32_t *data, int64_t a,
                               int64_t b, int64_t *strides)
{
    int64_t shape[] = {a, b};
    const DLTensor tensor = {.data = data,
                             .device = {kDLCPU, 0},
                             .ndim = b ? 2 : 1,
                             .dtype = {kDLInt, 32, 1},
                             .shape = shape,
                             .strides = strides};
    return rnnc_bind(session, name, &tensor);
}

static rnnc_session *open_training(rnnc_module *module)
{
    rnnc_session *session;
    const rnnc_session_options options = {
        .device = "cpu", .max_batch = B, .max_timesteps = T, .training = 1};
    ck_assert_msg(rnnc_session_create(module, &options, &session) == RNNC_OK, "%s",
                  rnnc_last_error());
    for (int k = 0; k < B * T; k++) {
        x[k] = (3 * k + 1) % V;
        targets[k] = (5 * k + 2) % V;
    }
    targets[T - 1] = -1; // the last step of row 0
    ck_assert_int_eq(bind_tokens(session, "x", x, B, T, NULL), RNNC_OK);
    ck_assert_int_eq(bind_tokens(session, "targets", targets, B, T, NULL), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "loss", &loss, 1, 0, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "grad/head/b", db, V, 0, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "grad/enc/R", dR, 4 * H, H, 0), RNNC_OK);
    return session;
}

static void assert_good(const rnnc_session *session, rnnc_status status)
{
    ck_assert_msg(status == RNNC_OK, "%s", rnnc_session_error(session));
}

static void assert_refused(const rnnc_session *session, rnnc_status status, rnnc_status expected,
                           const char *words)
{
    ck_assert_int_eq(status, expected);
    ck_assert_msg(strstr(rnnc_session_error(session), words), "%s", rnnc_session_error(session));
}

/// W of the head 0 and b its log probabilities 1/28 ... 7/28: every step's loss is -log p[target],
/// and the gradient of b is p less the share of each target among the 14 that count.
START_TEST(a_head_that_says_known_probabilities)
{
    static float W[V * H], b[V];
    double expected = 0, expected_db[V];
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    for (int k = 0; k < V; k++) {
        b[k] = (float)log(k + 1.0) + 40; // any constant: softmax does not see it
        expected_db[k] = (k + 1) / 28.0;
    }
    for (int n = 0; n < B * T; n++)
        if (targets[n] >= 0) {
            expected -= log((targets[n] + 1) / 28.0) / 14;
            expected_db[targets[n]] -= 1.0 / 14;
        }
    ck_assert_int_eq(fixture_bind(session, "head/W", W, V, H, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "head/b", b, V, 0, 0), RNNC_OK);
    assert_good(session, rnnc_forward(session));
    ck_assert_double_eq_tol((double)loss, expected, 4e-6);
    assert_good(session, rnnc_backward(session, NULL));
    for (int k = 0; k < V; k++)
        ck_assert_double_eq_tol((double)db[k], expected_db[k], 4e-6);
    loss = 0;
    assert_good(session, rnnc_run(session)); // as forward does, without dropout
    ck_assert_double_eq_tol((double)loss, expected, 4e-6);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// The same gradients as from a grad/y that is computed here from y, in float64.
START_TEST(starts_the_backward_pass)
{
    static float dy[B * T * V], from_loss[4 * H * H];
    double expected = 0;
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    assert_good(session, rnnc_forward(session));
    assert_good(session, rnnc_backward(session, NULL));
    memcpy(from_loss, dR, sizeof dR);
    ck_assert_int_eq(fixture_bind(session, "y", y, B, T, V), RNNC_OK);
    assert_good(session, rnnc_forward(session)); // y has the logits, not the gradient
    for (int n = 0; n < B * T; n++) {
        double sum = 0;
        for (int k = 0; k < V; k++)
            sum += exp((double)y[n * V + k]);
        for (int k = 0; k < V; k++)
            dy[n * V + k] =
                targets[n] < 0
                    ? 0
                    : (float)((exp((double)y[n * V + k]) / sum - (k == targets[n])) / 14);
        expected += targets[n] < 0 ? 0 : (log(sum) - (double)y[n * V + targets[n]]) / 14;
    }
    ck_assert_double_eq_tol((double)loss, expected, 1e-6);
    ck_assert_int_eq(rnnc_bind(session, "targets", NULL), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "grad/y", dy, B, T, V), RNNC_OK);
    assert_good(session, rnnc_forward(session));
    assert_good(session, rnnc_backward(session, NULL));
    for (int k = 0; k < 4 * H * H; k++)
        ck_assert_float_eq_tol(dR[k], from_loss[k], 2e-7f);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// R moved by +-h in every element changes the loss by what its gradient says.
START_TEST(agrees_with_central_differences)
{
    static float R[4 * H * H], moved[4 * H * H];
    const float h = 0.01f;
    double change = 0, lost[2];
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    fixture_fill(R, 4 * H * H, 5);
    ck_assert_int_eq(fixture_bind(session, "enc/R", moved, 4 * H, H, 0), RNNC_OK);
    memcpy(moved, R, sizeof R);
    assert_good(session, rnnc_forward(session));
    assert_good(session, rnnc_backward(session, NULL));
    for (int side = 0; side < 2; side++) {
        for (int k = 0; k < 4 * H * H; k++) {
            const float sign = dR[k] < 0 ? -1.0f : 1.0f;
            moved[k] = R[k] + (side ? -h : h) * sign;
            change += side ? 0 : (double)(dR[k] * sign * 2 * h);
        }
        assert_good(session, rnnc_run(session));
        lost[side] = (double)loss;
    }
    ck_assert_double_ge(change, 1e-3);
    ck_assert_double_eq_tol(lost[0] - lost[1], change, 2e-3 * change);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// Targets as a transposed view; fewer rows and steps than there is room for; nothing that counts.
START_TEST(takes_strides_and_other_sizes)
{
    int32_t transposed[T * B];
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    assert_good(session, rnnc_run(session));
    const float expected = loss;
    for (int n = 0; n < B * T; n++)
        transposed[n % T * B + n / T] = targets[n];
    ck_assert_int_eq(bind_tokens(session, "targets", transposed, B, T, (int64_t[]){1, B}), RNNC_OK);
    assert_good(session, rnnc_run(session));
    ck_assert_float_eq(loss, expected);
    ck_assert_int_eq(bind_tokens(session, "x", x, 1, 1, NULL), RNNC_OK);
    assert_refused(session, rnnc_forward(session), RNNC_INVALID_ARGUMENT,
                   "targets: dimension 0 is 3, expected 1 as bound to x");
    ck_assert_int_eq(bind_tokens(session, "targets", targets + T - 1, 1, 1, NULL), RNNC_OK);
    assert_good(session, rnnc_forward(session));
    ck_assert_float_eq(loss, 0);
    assert_good(session, rnnc_backward(session, NULL));
    for (int k = 0; k < V; k++)
        ck_assert_float_eq(db[k], 0);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// A model of classes: y has no time, and neither have targets; time-major x.
START_TEST(classes_of_whole_sequences)
{
    double expected = 0;
    int32_t wanted[B] = {6, 0, 3};
    rnnc_module *module = fixture_module("last.so");
    rnnc_session *session;
    const rnnc_session_options options = {
        .device = "cpu", .max_batch = B, .max_timesteps = T, .training = 1};
    ck_assert_int_eq(rnnc_session_create(module, &options, &session), RNNC_OK);
    ck_assert_int_eq(bind_tokens(session, "x", x, T, B, NULL), RNNC_OK);
    ck_assert_int_eq(bind_tokens(session, "targets", wanted, B, 0, NULL), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "loss", &loss, 1, 0, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", y, B, V, 0), RNNC_OK);
    assert_good(session, rnnc_forward(session));
    for (int row = 0; row < B; row++) {
        double sum = 0;
        for (int k = 0; k < V; k++)
            sum += exp((double)y[row * V + k]);
        expected += (log(sum) - (double)y[row * V + wanted[row]]) / B;
    }
    ck_assert_double_eq_tol((double)loss, expected, 1e-6);
    assert_good(session, rnnc_backward(session, NULL));
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(refusals)
{
    rnnc_module *module = fixture_module("m.so"), *pair = fixture_module("pair.so");
    rnnc_session *session = open_training(module);
    assert_refused(session, bind_tokens(session, "targets", targets, B, T + 1, NULL),
                   RNNC_INVALID_ARGUMENT, "targets: dimension 1 (timesteps) is 6");
    assert_refused(session, fixture_bind(session, "targets", y, B, T, 0), RNNC_INVALID_ARGUMENT,
                   "targets: dtype is float32, expected int32");
    targets[T + 2] = V;
    assert_refused(session, rnnc_forward(session), RNNC_INVALID_ARGUMENT,
                   "targets: 7 of row 1, step 2 is outside 0 to 6");
    assert_refused(session, rnnc_backward(session, NULL), RNNC_NOT_READY, "no rnnc_forward");
    targets[T + 2] = 1;
    ck_assert_int_eq(fixture_bind(session, "grad/y", y, B, T, V), RNNC_OK);
    assert_good(session, rnnc_forward(session));
    assert_refused(session, rnnc_backward(session, NULL), RNNC_INVALID_ARGUMENT,
                   "grad/y: the forward pass had targets");
    ck_assert_int_eq(rnnc_bind(session, "grad/y", NULL), RNNC_OK);
    assert_good(session, rnnc_backward(session, NULL)); // nothing was used up
    ck_assert_int_eq(rnnc_bind(session, "targets", NULL), RNNC_OK);
    assert_refused(session, rnnc_forward(session), RNNC_NOT_READY, "y is not bound");
    rnnc_session_destroy(session);
    session = fixture_session(module, B, T); // for inference
    assert_refused(session, bind_tokens(session, "targets", targets, B, T, NULL),
                   RNNC_INVALID_ARGUMENT, "no tensor 'targets'");
    rnnc_session_destroy(session);
    ck_assert_int_eq(rnnc_session_create(
                         pair, &(rnnc_session_options){.device = "cpu", .training = 1}, &session),
                     RNNC_OK);
    assert_refused(session, bind_tokens(session, "targets", targets, 1, 1, NULL),
                   RNNC_INVALID_ARGUMENT, "two outputs");
    rnnc_session_destroy(session);
    rnnc_module_close(pair);
    rnnc_module_close(module);
}
END_TEST

START_TEST(a_loss_that_is_no_number_is_named)
{
    static float b[V];
    rnnc_module *module = fixture_module("m.so");
    rnnc_session *session = open_training(module);
    b[2] = NAN;
    ck_assert_int_eq(fixture_bind(session, "head/b", b, V, 0, 0), RNNC_OK);
    assert_good(session, rnnc_forward(session));
    ck_assert_float_nan(loss);
    assert_refused(session, rnnc_backward(session, &(rnnc_backward_options){.find_nan = 1}),
                   RNNC_NOT_FINITE, "layer 'head': at step 3 of row 0"); // step 4 is left out
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

static void set_up(void)
{
    char spec[512];
    fixture_open_folder();
    snprintf(spec, sizeof spec, "rnnc: 1\ninput: {tokens: 7}\n%s", model);
    fixture_compile("m", spec);
    fixture_compile("last", "rnnc: 1\ninput: {tokens: 7, layout: time_major}\nlayers:\n"
                            "  - {embedding: 4}\n  - {cell: gru, units: 6}\n  - {dense: 7}\n"
                            "compile: {mode: training}\nweights: {seed: 4}\n");
    fixture_compile("pair", "rnnc: 1\ninput: {features: 7}\nlayers:\n"
                            "  - bidirectional: {merge: none, layer: {cell: rnn, units: 3}}\n"
                            "compile: {mode: training}\nweights: {seed: 4}\n");
}

int main(void)
{
    Suite *suite = suite_create("loss");
    TCase *tests = tcase_create("loss");
    tcase_add_test(tests, a_head_that_says_known_probabilities);
    tcase_add_test(tests, starts_the_backward_pass);
    tcase_add_test(tests, agrees_with_central_differences);
    tcase_add_test(tests, takes_strides_and_other_sizes);
    tcase_add_test(tests, classes_of_whole_sequences);
    tcase_add_test(tests, refusals);
    tcase_add_test(tests, a_loss_that_is_no_number_is_named);
    tcase_add_unchecked_fixture(tests, set_up, fixture_remove_folder);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
