// The self-test of a module: what is chosen for it, that its values are those of the equations, and
// that `rnnc verify` finds a module that computes something else.
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "build/build.h"
#include "cli/cli.h"
#include "emit/self_test.h"
#include "import/safetensors.h"
#include "rnnc/rnnc.h"
#include "unit/diags_fixture.h"

static const SelfTest *make(const char *text, const char **refusal)
{
    const Source source = {"t.yaml", text, strlen(text)};
    const Spec *spec = spec_parse(arena, diags, &source);
    const Model *model = spec ? model_build(arena, diags, spec) : NULL;
    ck_assert_ptr_nonnull(model);
    return self_test_make(arena, model, refusal);
}

static const struct {
    const char *input, *layers;
    int64_t rows, timesteps, width, steps;
} sizes[] = {
    {"features: 3", "[{cell: lstm, units: 4, return_sequences: true}]", 2, 5, 4, 5},
    {"features: 3", "[{cell: lstm, units: 4}]", 2, 5, 4, 1},
    {"features: 3, batch: 1, timesteps: 7", "[{cell: gru, units: 4}]", 1, 7, 4, 1},
    {"features: 3, batch: 64, timesteps: 2", "[{cell: gru, units: 4}]", 2, 2, 4, 1},
    {"tokens: 9", "[{embedding: 3}, {cell: rnn, units: 2, return_sequences: true}]", 2, 5, 2, 5},
    // its first steps can be computed alone
    {"features: 1, batch: 9, timesteps: 2000000000",
     "[{cell: rnn, units: 2, return_sequences: true}]", 2, 5, 2, 5},
};

START_TEST(sizes_follow_the_spec)
{
    const char *refusal;
    const SelfTest *test =
        make(arena_format(arena, "rnnc: 1\ninput: {%s}\nlayers: %s\nweights: {seed: 1}\n",
                          sizes[_i].input, sizes[_i].layers),
             &refusal);
    ck_assert_ptr_nonnull(test);
    ck_assert_int_eq(test->rows, sizes[_i].rows);
    ck_assert_int_eq(test->timesteps, sizes[_i].timesteps);
    ck_assert_int_eq(test->outputs[0].width, sizes[_i].width);
    ck_assert_int_eq(test->outputs[0].steps, sizes[_i].steps);
    ck_assert_ptr_null(test->outputs[1].values);
}
END_TEST

START_TEST(tokens_are_of_the_vocabulary)
{
    const char *refusal;
    const SelfTest *test = make("rnnc: 1\ninput: {tokens: 3}\n"
                                "layers: [{embedding: 3}, {cell: rnn, units: 2}]\n"
                                "weights: {seed: 1}\n",
                                &refusal);
    const int32_t *tokens = test->x;
    for (int i = 0; i < 10; i++)
        ck_assert(tokens[i] == 1 || tokens[i] == 2);
}
END_TEST

static const struct {
    const char *spec, *words;
} none[] = {
    {"rnnc: 1\ninput: {features: 3}\nlayers: [{cell: lstm, units: 4}, {dropout: 0.5}]\n"
     "compile: {dropout_at_inference: true}\nweights: {seed: 1}\n",
     "drops at inference"},
    {"rnnc: 1\ninput: {features: 3, timesteps: 2000000000}\nlayers: [{cell: lstm, units: 64}]\n"
     "weights: {seed: 1}\n",
     "too long"},
    {"rnnc: 1\ninput: {features: 1, timesteps: 70}\n"
     "layers: [{cell: rnn, units: 1}, {activation: {affine: [1e30, 1e30]}}, "
     "{activation: {affine: [1e30, 1]}}]\nweights: {seed: 1}\n",
     "beyond float32"},
};

START_TEST(models_without_one)
{
    const char *refusal = NULL;
    ck_assert_ptr_null(make(none[_i].spec, &refusal));
    ck_assert_ptr_nonnull(refusal);
    ck_assert_msg(strstr(refusal, none[_i].words) != NULL, "%s", refusal);
}
END_TEST

static char folder[] = "/tmp/rnnc-self-test-XXXXXX";

static const char *beside(const char *name)
{
    return arena_format(arena, "%s/%s", folder, name);
}

/// h = tanh(0.5 x - 0.25 h), time-major.
static void compile_recurrence(void)
{
    static const float W[] = {0.5F}, R[] = {-0.25F};
    const int64_t dims[] = {1, 1};
    const SafetensorsEntry entries[] = {{"r/W", "F32", dims, 2, W}, {"r/R", "F32", dims, 2, R}};
    const char *text = "rnnc: 1\ninput: {features: 1, batch: 3, layout: time_major}\n"
                       "layers: [{cell: rnn, units: 1, use_bias: false, "
                       "return_sequences: true, name: r}]\n"
                       "weights: {file: w.safetensors, convention: canonical}\n";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert(safetensors_write(arena, diags, beside("w.safetensors"), entries, 2, NULL));
    const Source source = {beside("net.yaml"), text, strlen(text)};
    const CompileOptions options = {
        .spec_text = &source, .output_path = beside("net.so"), .targets = "cpu", .jobs = 2};
    ck_assert(compile_model(arena, diags, &options, NULL));
}

static int verify(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s", beside("net.so"));
    char *words[] = {"rnnc", "verify", path, "--device", "cpu", NULL};
    return cli_main(5, words);
}

/// Puts `value` in the place of the module's first copy of `old`.
static void patch(double old, double value)
{
    static char bytes[1 << 20];
    const int file = open(beside("net.so"), O_RDWR);
    const ssize_t size = read(file, bytes, sizeof bytes);
    ssize_t at = 0;
    while (at + (ssize_t)sizeof old < size && memcmp(bytes + at, &old, sizeof old) != 0)
        at += (ssize_t)sizeof old;
    ck_assert_int_eq(pwrite(file, &value, sizeof value, at), sizeof value);
    close(file);
}

START_TEST(values_are_those_of_the_equations)
{
    compile_recurrence();
    rnnc_module *module;
    ck_assert_int_eq(rnnc_module_open(beside("net.so"), &module), RNNC_OK);
    const rnnc_self_test *test = rnnc_module_self_test(module);
    ck_assert_ptr_nonnull(test);
    ck_assert_int_eq(test->rows * test->timesteps, 10);
    for (int row = 0; row < 2; row++) {
        double h = 0;
        for (int step = 0; step < 5; step++) {
            h = tanh(0.5 * (double)((const float *)test->x)[row * 5 + step] - 0.25 * h);
            ck_assert_double_eq_tol(test->outputs[0].values[row * 5 + step], h, 1e-15);
        }
    }
    const double last = test->outputs[0].values[9];
    ck_assert(fabs(last) > 1e-3);
    rnnc_module_close(module);
    ck_assert_int_eq(verify(), EXIT_DONE);
    patch(last, last + 1e-3);
    ck_assert_int_eq(verify(), EXIT_DIAGNOSTICS);
    unlink(beside("net.so"));
    unlink(beside("w.safetensors"));
    rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("self_test");
    TCase *tests = tcase_create("self_test");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_loop_test(tests, sizes_follow_the_spec, 0, (int)(sizeof sizes / sizeof *sizes));
    tcase_add_test(tests, tokens_are_of_the_vocabulary);
    tcase_add_loop_test(tests, models_without_one, 0, (int)(sizeof none / sizeof *none));
    tcase_add_test(tests, values_are_those_of_the_equations);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
