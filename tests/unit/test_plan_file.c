// Plan file and layouts: what is written is read back the same, layouts are kept by cost, and a
// layout asked for is the one that is printed into the stub.
#include <math.h>

#include "base/file.h"
#include "plan/plan_file.h"
#include "unit/plan_fixture.h"

static const int hopper[] = {90};

static Planned model(void)
{
    return planned_from("rnnc: 1\n"
                        "name: m\n"
                        "input: {features: 16, batch: 32, timesteps: any}\n"
                        "layers:\n"
                        "  - {cell: lstm, units: 256, name: wide, return_sequences: true}\n"
                        "compile: {precision: float16}\n");
}

START_TEST(a_plan_is_read_as_it_was_written)
{
    Planned planned = model();
    PlannedLayer layer = {.name = "wide",
                          .cell = "lstm",
                          .inputs = 16,
                          .units = 256,
                          .variant = variant_find("persistent_cluster"),
                          .layout = {{{"ctas", 4}, {"warps", 8}, {"split", 1}, {"rows", 2}}, 4}};
    PlanMeasurement rows[] = {
        {.layers = "wide", .variant = variant_find("stepwise"), .us = 300, .error = NAN},
        {.layers = "wide", .variant = layer.variant, .us = 20.5}};
    const PlanFile file = {.model = "a \"m\"",
                           .precision = "float16",
                           .device = "NVIDIA H200",
                           .arch = 90,
                           .batch = 32,
                           .layers = &layer,
                           .layer_count = 1,
                           .measured = rows,
                           .measured_count = 2};
    char path[] = "/tmp/rnnc_plan_file_XXXXXX";
    close(mkstemp(path));
    Text text = {.arena = planned.arena};
    plan_file_print(planned.arena, &file, &text);
    ck_assert(strstr(text_string(&text), "20.50") < strstr(text_string(&text), "300.00"));
    ck_assert(file_write(planned.arena, planned.diags, path, text.data, text.length));
    const PlanFile *read = plan_file_read(planned.arena, planned.diags, path);
    unlink(path);
    if (!read)
        ck_abort_msg("%s", planned_diagnostics(&planned));
    ck_assert_str_eq(read->model, "a \"m\"");
    ck_assert_str_eq(read->device, "NVIDIA H200");
    ck_assert_int_eq(read->batch, 32);
    ck_assert_int_eq(read->timesteps, 0);
    ck_assert_int_eq(read->layer_count, 1);
    ck_assert_ptr_eq(read->layers[0].variant, layer.variant);
    ck_assert(layout_has(&read->layers[0].layout, &layer.layout));
    const Plan *plan =
        plan_make_from_file(planned.arena, planned.diags, planned.model, hopper, 1, false, read);
    if (!plan)
        ck_abort_msg("%s", planned_diagnostics(&planned));
    const Choice *choice = &plan->layers[0].choices[0];
    ck_assert_ptr_eq(choice->variant, layer.variant);
    ck_assert_int_eq(choice->ctas, 4);
    ck_assert_int_eq(choice->rows_per_cta, 2);
    ck_assert_int_eq(choice->threads, 256);
    ck_assert_str_eq(plan->layers[0].choices[1].variant->name, "stepwise");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(the_cheapest_layouts_are_kept_in_order)
{
    LayoutList list = {0};
    for (int i = 0; i < 3 * LAYOUTS_MAX; i++) {
        const int us = i * 7 % (3 * LAYOUTS_MAX); // each once, in no order
        layout_list_add(&list, &(WorkLayout){{{"rows", us}}, 1}, us);
    }
    ck_assert_int_eq(list.count, LAYOUTS_MAX);
    for (int i = 0; i < LAYOUTS_MAX; i++)
        ck_assert_int_eq(list.items[i].numbers[0].value, i);
    const WorkLayout layout = {{{"rows", 4}, {"ctas", 8}}, 2};
    ck_assert(layout_has(&layout, &(WorkLayout){{{"ctas", 8}, {"rows", 4}}, 2}));
    ck_assert(layout_has(&layout, &(WorkLayout){0}));
    ck_assert(!layout_has(&layout, &(WorkLayout){{{"ctas", 4}}, 1}));
    ck_assert(!layout_has(&layout, &(WorkLayout){{{"warps", 8}}, 1}));
}
END_TEST

/// Every variant with layouts to choose offers them, and the first is what it takes by itself.
START_TEST(variants_offer_the_layouts_that_they_take)
{
    static const struct {
        const char *variant;
        int units, least;
    } cases[] = {{"persistent_cluster", 256, 8},
                 {"persistent_grid", 256, 8},
                 {"persistent_wide", 256, 8},
                 {"persistent_cta", 64, 2},
                 {"unrolled", 64, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "rnnc: 1\nname: m\ninput: {features: 16, batch: 32, timesteps: 100}\n"
                 "layers:\n  - {cell: gru, units: %d}\ncompile: {precision: float16}\n",
                 cases[i].units);
        Planned planned = planned_from(text);
        const Plan *plan = plan_make(planned.arena, planned.diags, planned.model, hopper, 1, false,
                                     cases[i].variant);
        ck_assert_ptr_nonnull(plan);
        const Choice *taken = &plan->layers[0].choices[0];
        LayoutList list = {0};
        PlanContext context = plan->layers[0].context;
        Choice choice = {.variant = taken->variant};
        context.layouts = &list;
        taken->variant->estimate(planned.arena, &context, &choice);
        ck_assert_int_ge(list.count, cases[i].least);
        ck_assert_int_gt(list.items[0].count, 0);
        ck_assert(layout_has(&taken->layout, &list.items[0]));
        arena_destroy(planned.arena);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan_file");
    TCase *tests = tcase_create("plan_file");
    tcase_add_test(tests, a_plan_is_read_as_it_was_written);
    tcase_add_test(tests, the_cheapest_layouts_are_kept_in_order);
    tcase_add_test(tests, variants_offer_the_layouts_that_they_take);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
