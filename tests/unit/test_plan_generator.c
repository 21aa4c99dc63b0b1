// Plan of text generation: of the layouts that were timed on an H200, the plan has the fastest
// (docs/generate.md has the times).
#include "plan/generator.h"
#include "unit/plan_fixture.h"

typedef struct {
    const char *name, *cells;
    int vocabulary;
    const char *precision;
    int batch;
    bool is_cluster;
    int ctas, rows, sets;
} Case;

static const Case cases[] = {
    {"GRU 1024", "gru, units: 1024", 66, "float16", 1, false, 52, 1, 1},
    {"GRU 1024", "gru, units: 1024", 66, "float32", 1, false, 128, 1, 1},
    {"GRU 1024", "gru, units: 1024", 66, "float16", 64, false, 64, 16, 2},
    {"GRU 1024", "gru, units: 1024", 66, "float32", 64, false, 128, 32, 2},
    {"2 x GRU 1024", "gru, units: 1024, layers: 2", 256, "float16", 64, false, 128, 16, 2},
    {"2 x LSTM 128", "lstm, units: 128, layers: 2", 66, "float16", 1, true, 8, 1, 1},
    {"2 x LSTM 128", "lstm, units: 128, layers: 2", 66, "float16", 64, true, 4, 4, 1},
    {"2 x LSTM 128", "lstm, units: 128, layers: 2", 66, "float32", 1, false, 16, 1, 1},
    {"GRU 512", "gru, units: 512", 65, "float16", 1, false, 32, 1, 1},
    {"GRU 512", "gru, units: 512", 65, "float16", 64, false, 16, 8, 1},
};

static Generator plan_case(const Case *of, int arch)
{
    char text[512];
    snprintf(text, sizeof text,
             "rnnc: 1\n"
             "input: {tokens: %d, batch: %d, timesteps: any}\n"
             "layers:\n"
             "  - {embedding: 64}\n"
             "  - {cell: %s, return_sequences: true}\n"
             "  - {dense: %d}\n"
             "compile: {precision: %s}\n",
             of->vocabulary, of->batch, of->cells, of->vocabulary, of->precision);
    Planned planned = planned_from(text);
    if (!planned.model)
        ck_abort_msg("%s", planned_diagnostics(&planned));
    const Plan *plan =
        plan_make(planned.arena, planned.diags, planned.model, &arch, 1, false, "stepwise");
    if (!plan)
        ck_abort_msg("%s", planned_diagnostics(&planned));
    const Generator generator = *plan->generator;
    ck_assert_ptr_null(generator.refusal);
    arena_destroy(planned.arena);
    return generator;
}

START_TEST(the_fastest_layout_on_an_h200)
{
    const Case *of = &cases[_i];
    const Generator found = plan_case(of, 90);
    if (found.is_cluster != of->is_cluster || found.ctas != of->ctas || found.rows != of->rows ||
        found.sets != of->sets)
        ck_abort_msg("%s, %s, batch %d: %s of %d CTAs, %d sets of %d rows", of->name, of->precision,
                     of->batch, found.is_cluster ? "cluster" : "group", found.ctas, found.sets,
                     found.rows);
}
END_TEST

START_TEST(no_cluster_before_sm_90)
{
    const Case small = {"", "lstm, units: 128, layers: 2", 66, "float16", 1, false, 0, 0, 0};
    ck_assert(!plan_case(&small, 80).is_cluster);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan of text generation");
    TCase *tests = tcase_create("plan of text generation");
    tcase_add_loop_test(tests, the_fastest_layout_on_an_h200, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(tests, no_cluster_before_sm_90);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
