// Measuring through the runtime on the CPU: samples that grow with the work, memory that grows with
// the batch, and what is refused where there is no GPU.
#include "rnnc/measure.h"
#include "runtime_fixture.h"

static void compile_all(void)
{
    fixture_open_folder();
    fixture_compile("plain", "rnnc: 1\nname: plain\n"
                             "input: {features: 5, batch: any, timesteps: any}\nlayers:\n"
                             "  - {cell: lstm, units: 64, return_sequences: true, name: l0}\n"
                             "weights: {seed: 3}\n");
    fixture_compile("trains", "rnnc: 1\nname: trains\n"
                              "input: {features: 5, batch: 1, timesteps: 7}\nlayers:\n"
                              "  - {cell: lstm, units: 4, return_sequences: true, name: l0}\n"
                              "compile: {mode: training}\nweights: {seed: 3}\n");
}

/// The least of five samples of a run with T steps.
static double least_us(const rnnc_module *module, int64_t T)
{
    static float x[800 * 5], y[800 * 64];
    double us[5];
    rnnc_session *session = fixture_session(module, 1, T);
    ck_assert_int_eq(fixture_bind(session, "x", x, 1, T, 5), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", y, 1, T, 64), RNNC_OK);
    fixture_fill(x, (size_t)T * 5, 1);
    fixture_run(session);
    const rnnc_timing timing = {.runs = 4, .samples = 5};
    ck_assert_int_eq(rnnc_session_time(session, &timing, us), RNNC_OK);
    rnnc_session_destroy(session);
    double least = us[0];
    for (int i = 1; i < 5; i++)
        least = us[i] < least ? us[i] : least;
    return least;
}

START_TEST(time_is_that_of_one_run)
{
    rnnc_module *module = fixture_module("plain.so");
    const double few = least_us(module, 100), many = least_us(module, 800);
    ck_assert(few > 0);
    ck_assert_msg(many > 3 * few && many < 24 * few, "%g us, %g us", few, many);
    rnnc_module_close(module);
}
END_TEST

START_TEST(what_cannot_be_timed_is_refused)
{
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *session = fixture_session(module, 1, 1);
    double us;
    rnnc_timing timing = {.runs = 1, .samples = 1};
    ck_assert_int_eq(rnnc_session_time(session, &timing, &us), RNNC_NOT_READY); // nothing is bound
    timing.in_graph = 1;
    ck_assert_int_eq(rnnc_session_time(session, &timing, &us), RNNC_UNAVAILABLE);
    ck_assert_str_eq(rnnc_session_error(session), "the CPU has no CUDA graphs");
    timing.runs = 0;
    ck_assert_int_eq(rnnc_session_time(session, &timing, &us), RNNC_INVALID_ARGUMENT);
    ck_assert_int_eq(rnnc_session_time(NULL, &timing, &us), RNNC_INVALID_ARGUMENT);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// A run goes back as well, for which it needs the gradient of y and writes that of x.
START_TEST(training_is_timed_as_such)
{
    static float x[7 * 5], y[7 * 4], dy[7 * 4], dx[7 * 5];
    rnnc_module *module = fixture_module("trains.so");
    rnnc_session *session = NULL;
    const rnnc_session_options options = {.device = "cpu", .training = 1};
    const rnnc_timing timing = {.runs = 1, .samples = 1};
    double us;
    ck_assert_int_eq(rnnc_session_create(module, &options, &session), RNNC_OK);
    fixture_fill(x, 7 * 5, 1);
    fixture_fill(dy, 7 * 4, 2);
    ck_assert_int_eq(fixture_bind(session, "x", x, 1, 7, 5), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", y, 1, 7, 4), RNNC_OK);
    ck_assert_int_eq(rnnc_session_time(session, &timing, &us), RNNC_NOT_READY);
    ck_assert_int_eq(fixture_bind(session, "grad/y", dy, 1, 7, 4), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "grad/x", dx, 1, 7, 5), RNNC_OK);
    ck_assert_int_eq(rnnc_session_time(session, &timing, &us), RNNC_OK);
    ck_assert(dx[0] != 0 && us > 0);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// R alone has 4*64*64 float32.
START_TEST(memory_grows_with_the_batch)
{
    rnnc_module *module = fixture_module("plain.so");
    rnnc_session *small = fixture_session(module, 1, 10), *large = fixture_session(module, 100, 10);
    ck_assert_uint_ge(rnnc_session_memory(small), 4 * 64 * 64 * 4);
    ck_assert_uint_gt(rnnc_session_memory(large), rnnc_session_memory(small) + 100 * 64 * 4);
    ck_assert_uint_eq(rnnc_session_memory(NULL), 0);
    rnnc_session_destroy(small);
    rnnc_session_destroy(large);
    rnnc_module_close(module);
}
END_TEST

START_TEST(gpu_that_is_not_there)
{
    rnnc_gpu_facts facts;
    ck_assert_int_eq(rnnc_gpu_find(99, &facts), RNNC_UNAVAILABLE);
    ck_assert_str_ne(rnnc_last_error(), "");
    const rnnc_cudnn_case of = {.ordinal = 99,
                                .mode = 2,
                                .layers = 1,
                                .directions = 1,
                                .inputs = 4,
                                .units = 4,
                                .batch = 1,
                                .timesteps = 1};
    rnnc_cudnn_call *call;
    ck_assert_int_eq(rnnc_cudnn_open(&of, 0, &call), RNNC_UNAVAILABLE);
    ck_assert_ptr_null(call);
    ck_assert_int_eq(rnnc_cudnn_open(&of, 4, &call), RNNC_UNAVAILABLE);
    ck_assert_str_eq(rnnc_cudnn_algorithm_name(1), "persist_static");
    ck_assert_ptr_null(rnnc_cudnn_algorithm_name(4));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime_measure");
    TCase *tests = tcase_create("cpu");
    tcase_add_unchecked_fixture(tests, compile_all, fixture_remove_folder);
    tcase_add_test(tests, time_is_that_of_one_run);
    tcase_add_test(tests, what_cannot_be_timed_is_refused);
    tcase_add_test(tests, training_is_timed_as_such);
    tcase_add_test(tests, memory_grows_with_the_batch);
    tcase_add_test(tests, gpu_that_is_not_there);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
