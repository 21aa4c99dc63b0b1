// Bench: its statistics and derived numbers by hand, the floor's formula, the calls of cuDNN that a
// model comes to, and the float64 reference against the CPU's kernels over every cell and layer.
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "bench/bound_session.h"
#include "bench/floors.h"
#include "bench/library_calls.h"
#include "bench/statistics.h"
#include "bench/suites.h"
#include "bench/trace.h"

static Arena *arena;
static Diags *diags;
static char folder[64];

static void start(void)
{
    arena = arena_create();
    diags = diags_create(arena);
    strcpy(folder, "/tmp/test_bench.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void stop(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
    arena_destroy(arena);
}

/// A spec of these layers, in a file.
static const char *spec(const char *input, const char *layers, const char *rest)
{
    const char *path = arena_format(arena, "%s/m.yaml", folder);
    const char *text =
        arena_format(arena, "rnnc: 1\nname: m\ninput: {%s}\nlayers:\n%s%s", input, layers, rest);
    ck_assert(file_write(arena, diags, path, text, strlen(text)));
    return path;
}

static const Model *model(const char *input, const char *layers, const char *rest)
{
    const Spec *read = spec_read(arena, diags, spec(input, layers, rest));
    const Model *built = read ? model_build_shapes(arena, diags, read) : NULL;
    if (!built)
        diags_print(diags, stderr, false);
    ck_assert_ptr_nonnull(built);
    return built;
}

static void near(double found, double wanted)
{
    ck_assert_msg(fabs(found - wanted) <= 1e-9 * fabs(wanted), "%.17g, not %.17g", found, wanted);
}

START_TEST(order_statistics)
{
    double samples[] = {5, 1, 4, 2, 3}, two[] = {20, 10};
    near(statistics_quantile(samples, 5, 0.5), 3);
    near(statistics_quantile(samples, 5, 0.1), 1.4); // 0.4 of the way from 1 to 2
    near(statistics_quantile(samples, 5, 0.9), 4.6);
    near(statistics_quantile(samples, 5, 1), 5);
    near(statistics_quantile(two, 2, 0.5), 15);
    ck_assert(isnan(statistics_quantile(two, 0, 0.5)));
}
END_TEST

START_TEST(means_and_regret)
{
    near(statistics_geometric_mean((double[]){1, 2, 4}, 3), 2);
    near(statistics_geometric_mean((double[]){0.5}, 1), 0.5);
    ck_assert(isnan(statistics_geometric_mean((double[]){1, 0}, 2)));
    ck_assert(isnan(statistics_geometric_mean(NULL, 0)));
    near(statistics_regret(12, 10), 1.2);
    ck_assert(isnan(statistics_regret(12, 0)));
}
END_TEST

/// 64 units in float32: R fits one SM, so a step is the latency alone.
START_TEST(floor_of_a_small_layer)
{
    const Model *small = model("features: 16, batch: 32, timesteps: 100",
                               "  - {cell: lstm, units: 64, return_sequences: true}\n", "");
    const double products = 4.0 * 64 * (16 + 64);
    const BenchFloor floor = floors_of(small, 32, 100, device_find(90));
    near(floors_operations(small, 32, 100), 2 * products * 32 * 100);
    near(floor.chain_us, 19);
    near(floor.operations_us, 2 * products * 32 * 100 / 67000 / 1e3);
    near(floor.memory_us, (32 * 100 * 4 * (16 + 64) + 4 * products) / 4800 / 1e3);
    near(floor.streaming_us, 0);
    near(floor.us, 21);
    near(floors_of(small, 32, 100, NULL).us, 0);
}
END_TEST

/// Two layers of 2560 units in float32 overlap in time, exchange through L2, and together are more
/// than the chip and L2 hold.
START_TEST(floor_of_a_large_stack)
{
    const Model *large =
        model("features: 2560, batch: 64, timesteps: 200",
              "  - {cell: lstm, units: 2560, layers: 2, return_sequences: true}\n", "");
    const double R = 2 * 4.0 * 2560 * 2560 * 4, chip = 132.0 * (227 * 1024 + 4 * 65536);
    const BenchFloor floor = floors_of(large, 64, 200, device_find(90));
    ck_assert_int_eq(floor.steps, 201);
    near(floor.step_us, 0.73);
    near(floor.streaming_us, 200 * (R - chip) / 4800 / 1e3);
    near(floor.us, 2 + floor.operations_us); // float32's, the longest of all
}
END_TEST

START_TEST(calls_of_the_library)
{
    LibraryCalls calls = library_calls(
        arena,
        model("features: 64, batch: 4, timesteps: 9",
              "  - {cell: lstm, units: 256, layers: 3, return_sequences: true}\n", ""),
        0, 4, 9);
    ck_assert_str_eq(calls.text, "LSTM 64 -> 256 x 3");
    ck_assert_int_eq(calls.count, 1);
    ck_assert_int_eq(calls.calls[0].layers, 3);
    ck_assert_int_eq(calls.calls[0].bias, 2);
    calls = library_calls(arena,
                          model("features: 64, batch: 4, timesteps: 9",
                                "  - {bidirectional: {merge: concat, layer: {cell: gru, units: 8, "
                                "layers: 2, return_sequences: true}}}\n  - {cell: rnn, units: 5}\n",
                                "compile: {precision: float16}\n"),
                          0, 4, 9);
    ck_assert_str_eq(calls.text, "GRU 64 -> 8 x 2 both directions + tanh RNN 16 -> 5");
    ck_assert_int_eq(calls.calls[0].directions, 2);
    ck_assert_int_eq(calls.calls[1].precision, 3);
}
END_TEST

/// What cuDNN has no cell for is compared with its nearest.
START_TEST(calls_in_place_of_others)
{
    static const struct {
        const char *layer, *text;
    } rows[] = {
        {"cell: lstm, units: 8, activation: {leaky_relu: 0.05}", "LSTM 4 -> 8, in place of"},
        {"cell: slstm, units: 8", "LSTM 4 -> 8, in place of"},
        {"cell: gru_before, units: 8", "GRU 4 -> 8, in place of"},
        {"cell: indrnn, units: 8", "tanh RNN 4 -> 8, in place of"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const LibraryCalls calls = library_calls(
            arena, model("features: 4", arena_format(arena, "  - {%s}\n", rows[i].layer), ""), 0, 1,
            10);
        ck_assert_int_eq(calls.count, 1);
        ck_assert_msg(strncmp(calls.text, rows[i].text, strlen(rows[i].text)) == 0, "%s",
                      calls.text);
    }
}
END_TEST

#define SEQUENCE ", return_sequences: true}\n"
static const struct {
    const char *input, *layers;
    int64_t steps; ///< that the reference has
} networks[] = {
    {"features: 5, batch: any, timesteps: any",
     "  - {cell: lstm, units: 9, clip: 0.5" SEQUENCE "  - {cell: gru, units: 7" SEQUENCE
     "  - {cell: gru_before, units: 8" SEQUENCE "  - {cell: peephole_lstm, units: 6" SEQUENCE
     "  - {cell: lstm, units: 9, projection: 4" SEQUENCE
     "  - {cell: cifg_lstm, units: 5, zoneout: {h: 0.1, c: 0.2}" SEQUENCE
     "  - {cell: indrnn, units: 7" SEQUENCE "  - {cell: mgu, units: 6" SEQUENCE
     "  - {cell: slstm, units: 8, heads: 2" SEQUENCE
     "  - {cell: layer_norm_lstm, units: 11" SEQUENCE
     "  - {cell: rnn, units: 3, activation: gelu" SEQUENCE,
     4},
    {"features: 4, batch: any, timesteps: any, layout: time_major",
     "  - {bidirectional: {merge: mul, layer: {cell: gru, units: 5" SEQUENCE "      }}\n"
     "  - {bidirectional: {merge: concat, layer: {cell: lstm, units: 3" SEQUENCE "      }}\n"
     "  - {cell: rnn, units: 6, direction: reverse" SEQUENCE
     "  - {cell: rnn, units: 6, go_backwards: true" SEQUENCE "  - {cell: lstm, units: 4}\n"
     "  - {dense: {units: 7, activation: tanh}}\n  - {activation: softplus}\n",
     9},
    {"tokens: 6, batch: any, timesteps: any",
     "  - {embedding: 4}\n  - {bidirectional: {merge: none, layer: {cell: lstm, units: 3" SEQUENCE
     "      }}\n",
     9},
};

/// The CPU's kernels are held against a reference by hand elsewhere. In sessions for training too,
/// whose runs go forward and back with all bound that they need.
START_TEST(reference_is_what_the_cpu_gives)
{
    const int network = _i / 2;
    const bool trains = _i % 2;
    const int64_t vocabulary = network == 2 ? 6 : 0;
    const SubjectOptions options = {
        .spec_path =
            spec(networks[network].input, networks[network].layers, "weights: {seed: 2}\n"),
        .trains = trains,
        .targets = "cpu",
        .variants = "all"};
    BenchInput input = {.batch = 3, .timesteps = 9, .training = trains};
    Subject subject;
    const bool opened = subject_open(arena, diags, &options, &subject);
    if (!opened)
        diags_print(diags, stderr, false);
    ck_assert(opened);
    ck_assert(bench_input(arena, diags, subject.module, vocabulary, &input));
    ReferencePart part = {.rows = (int64_t[]){0, 2}, .row_count = 2};
    ReferenceOutput reference[2];
    BoundSession bound;
    part.timesteps = networks[network].steps;
    reference_run(arena, subject.model, &part, input.timesteps, input.x, reference);
    ck_assert_int_eq(bound_session_open(arena, &subject, &input, "cpu", NULL, &bound), RNNC_OK);
    const double error = bound_session_error(&bound, &subject, &input, &part, reference);
    ck_assert_msg(error > 0 && error < 1e-6, "%g", error);
    reference[0].values[0] += 0.5;
    ck_assert(bound_session_error(&bound, &subject, &input, &part, reference) > 1e-2);
    ck_assert_int_eq(rnnc_measured_run(bound.session), RNNC_OK);
    bound_session_close(&bound);
    subject_close(&subject);
}
END_TEST

/// Every case of every suite is a model of the sizes that its row says, under a name of its own.
START_TEST(suites_are_models)
{
    static const int counts[] = {26, 11, 10, 22, 104, 142};
    for (int s = 0; suite_names[s]; s++) {
        int count = 0;
        const SuiteCase *cases = suite_cases(arena, suite_names[s], false, &count);
        ck_assert_msg(count == counts[s], "%s: %d", suite_names[s], count);
        for (int i = 0; i < count; i++) {
            const char *text = suite_spec(arena, &cases[i]);
            const Source *source = ARENA_NEW(arena, Source);
            *(Source *)(uintptr_t)source = (Source){"suite.yaml", text, strlen(text)};
            const Spec *read = spec_parse(arena, diags, source);
            const Model *built = read ? model_build_shapes(arena, diags, read) : NULL;
            if (!built)
                diags_print(diags, stderr, false);
            ck_assert_ptr_nonnull(built);
            ck_assert_int_eq(built->layer_count, cases[i].layers * cases[i].directions);
            ck_assert_int_eq(built->layers[0].units, cases[i].units);
            ck_assert_int_eq(built->batch, cases[i].batch);
            ck_assert(built->trains == (strcmp(suite_names[s], "training") == 0));
            for (int k = 0; k < i; k++)
                ck_assert_str_ne(cases[i].name, cases[k].name);
        }
    }
    int count;
    ck_assert_ptr_null(suite_cases(arena, "none", false, &count));
}
END_TEST

/// The case that a bound of cost is held against is in the suite.
START_TEST(plain_cases_are_there)
{
    int count = 0, held = 0;
    const SuiteCase *cases = suite_cases(arena, _i ? "training" : "headline", false, &count);
    for (int i = 0; i < count; i++) {
        bool is_there = !cases[i].plain;
        for (int k = 0; k < i && cases[i].plain; k++)
            is_there |= strcmp(cases[k].name, cases[i].plain) == 0;
        ck_assert_msg(is_there, "%s", cases[i].name);
        held += cases[i].plain != NULL;
    }
    ck_assert_int_eq(held, _i ? 2 : 3);
}
END_TEST

/// Two runs on two streams:
///     1:  [0, 10)          [14, 20)
///     2:       [8, 13)
/// 19 us are busy, 1 us is not.
START_TEST(trace_of_two_streams)
{
    rnnc_trace_event events[] = {
        {.kind = RNNC_TRACE_KERNEL, .name = "b", .stream = 2, .start_us = 1008, .end_us = 1013},
        {.kind = RNNC_TRACE_COPY, .stream = 1, .start_us = 1014, .end_us = 1020, .bytes = 64},
        {.kind = RNNC_TRACE_KERNEL, .name = "a", .stream = 1, .start_us = 1000, .end_us = 1010},
    };
    rnnc_trace found = {events, 3};
    Trace trace = {.events = {.arena = arena}};
    Text text = {.arena = arena};
    const TraceSummary summary = trace_add(arena, &trace, "x \"y\"", &found, 2);
    near(summary.kernels, 1);
    near(summary.busy_us, 9.5);
    near(summary.gap_us, 0.5);
    trace_print(&trace, &text);
    json_t *root = json_loads(text_string(&text), 0, NULL);
    const json_t *list = json_object_get(root, "traceEvents");
    ck_assert_uint_eq(json_array_size(list), 8); // names of process and three tracks, spans
    int spans = 0;
    double length = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(item, "ph")), "X") != 0)
            continue;
        spans++;
        length += json_number_value(json_object_get(item, "dur"));
    }
    ck_assert_int_eq(spans, 4);
    near(length, 10 + 5 + 6 + 1);
    json_decref(root);
}
END_TEST

START_TEST(part_of_the_reference)
{
    const Model *forward =
        model("features: 16", "  - {cell: rnn, units: 16" SEQUENCE, "weights: {seed: 1}\n");
    const double step = 2 * (16 * 16 * 2 + 16);
    ReferencePart part = reference_choose(arena, forward, 64, 100, 100 * step);
    ck_assert_int_eq(part.row_count, 2);
    ck_assert_int_eq(part.rows[1], 63);
    ck_assert_int_eq(part.timesteps, 50);
    part = reference_choose(arena, forward, 64, 100, 400 * step);
    ck_assert_int_eq(part.row_count, 4);
    ck_assert_int_eq(part.timesteps, 100);
    const Model *last = model("features: 16", "  - {cell: rnn, units: 16}\n", "");
    part = reference_choose(arena, last, 64, 100, step);
    ck_assert_int_eq(part.row_count, 1);
    ck_assert_int_eq(part.timesteps, 100);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench");
    TCase *tests = tcase_create("bench");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, order_statistics);
    tcase_add_test(tests, means_and_regret);
    tcase_add_test(tests, floor_of_a_small_layer);
    tcase_add_test(tests, floor_of_a_large_stack);
    tcase_add_test(tests, calls_of_the_library);
    tcase_add_test(tests, calls_in_place_of_others);
    tcase_add_loop_test(tests, reference_is_what_the_cpu_gives, 0, 6);
    tcase_add_test(tests, part_of_the_reference);
    tcase_add_test(tests, trace_of_two_streams);
    tcase_add_test(tests, suites_are_models);
    tcase_add_loop_test(tests, plain_cases_are_there, 0, 2);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
