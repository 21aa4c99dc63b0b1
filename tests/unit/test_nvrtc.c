// Device code: every built-in cell in every variant goes through NVRTC for sm_90 at a size that no
// tile divides, the precisions in turn (conform.nvrtc has them all, at round sizes), and the
// kernels that must be fast keep their weights in registers. Skipped where there is no NVRTC.
#include "build/build.h"
#include "build/nvrtc.h"
#include "unit/plan_fixture.h"

static void compile_variants(const char *spec, const char *variants, Arena **out_arena, Images *out)
{
    static const int arches[] = {90};
    Planned planned = planned_from(spec);
    ck_assert_msg(planned.model != NULL, "%s", planned_diagnostics(&planned));
    const Plan *plan =
        plan_make(planned.arena, planned.diags, planned.model, arches, 1, false, variants);
    ck_assert_msg(plan != NULL, "%s", planned_diagnostics(&planned));
    images_print(planned.arena, plan, out);
    bool built = images_compile(planned.arena, planned.diags, out, arches, 1, 2);
    ck_assert_msg(built, "%s\n%s", spec, planned_diagnostics(&planned));
    *out_arena = planned.arena;
}

static void compile(const char *spec, Arena **out_arena, Images *out)
{
    compile_variants(spec, "all", out_arena, out);
}

/// The named image; fails where there is none.
static const Image *find_image(const Images *images, const char *name)
{
    for (int i = 0; i < images->count; i++)
        if (strcmp(images->items[i].name, name) == 0)
            return &images->items[i];
    ck_abort_msg("no image %s", name);
    return NULL;
}

static void assert_no_spills(const Image *image)
{
    ck_assert_ptr_nonnull(strstr(image->ptxas_log, "bytes spill stores"));
    for (const char *at = image->ptxas_log; (at = strstr(at, " bytes spill stores")); at++)
        ck_assert_msg(at[-1] == '0' && at[-2] == ' ', "%s spills:\n%s", image->name,
                      image->ptxas_log);
}

static const char *const cells[] = {"rnn",       "lstm",   "gru", "gru_before", "peephole_lstm",
                                    "cifg_lstm", "indrnn", "mgu", "slstm"};
static const char *const precisions[] = {"float32", "tf32", "bfloat16", "float16"};
enum { CELLS = sizeof cells / sizeof *cells };

START_TEST(every_cell_compiles)
{
    char spec[512];
    snprintf(spec, sizeof spec,
             "rnnc: 1\nname: m\ninput: {features: 5, batch: any, timesteps: any}\nlayers:\n"
             "  - {cell: %s, units: 37, return_sequences: true}\n"
             "compile: {precision: %s}\nweights: {seed: 1}\n",
             cells[_i], precisions[_i % 4]);
    Images images;
    Arena *arena;
    compile(spec, &arena, &images);
    find_image(&images, "l0.stepwise");
    assert_no_spills(find_image(&images, "l0.unrolled"));
    assert_no_spills(find_image(&images, "l0.persistent_cta"));
    arena_destroy(arena);
}
END_TEST

/// All kernels of all rungs, in each precision, at sizes that no tile divides.
START_TEST(loop_compiles)
{
    static const char *const kernels[] = {
        "rnn_input_gate'",     "rnn_input_gates'",     "rnn_input_rows'",
        "rnn_recurrent_gate'", "rnn_recurrent_gates'", "rnn_recurrent_rows'",
        "rnn_operation'",      "rnn_store'",           "rnn_fused'"};
    static const char *const of_one_phase[] = {"lstm", "gru", "peephole_lstm", "rnn"};
    char spec[512];
    snprintf(spec, sizeof spec,
             "rnnc: 1\nname: m\ninput: {features: 5, batch: any, timesteps: any}\nlayers:\n"
             "  - {cell: %s, units: 131, return_sequences: true}\n"
             "compile: {precision: %s}\nweights: {seed: 1}\n",
             of_one_phase[_i], precisions[_i]);
    Images images;
    Arena *arena;
    compile_variants(spec, "loop", &arena, &images);
    const Image *loop = find_image(&images, "l0.loop");
    assert_no_spills(loop);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        assert_contains(loop->ptxas_log, kernels[i]);
    arena_destroy(arena);
}
END_TEST

START_TEST(projection_compiles)
{
    Images images;
    Arena *arena;
    compile("rnnc: 1\nname: m\ninput: {features: 5, batch: any, timesteps: any}\nlayers:\n"
            "  - {cell: lstm, units: 48, projection: 10}\nweights: {seed: 1}\n",
            &arena, &images);
    find_image(&images, "l0.stepwise");
    assert_no_spills(find_image(&images, "l0.persistent_cta"));
    arena_destroy(arena);
}
END_TEST

START_TEST(large_layers_do_not_spill)
{
    static const char *const layers[] = {"lstm, units: 64, activation: {leaky_relu: 0.05}",
                                         "lstm, units: 64",
                                         "lstm, units: 128",
                                         "gru, units: 64",
                                         "gru, units: 160",
                                         "rnn, units: 128"};
    char spec[512];
    snprintf(spec, sizeof spec,
             "rnnc: 1\nname: m\ninput: {features: 16, batch: 32, timesteps: 100}\nlayers:\n"
             "  - {cell: %s, return_sequences: true}\nweights: {seed: 1}\n",
             layers[_i]);
    Images images;
    Arena *arena;
    compile(spec, &arena, &images);
    assert_no_spills(find_image(&images, "l0.persistent_cta"));
    arena_destroy(arena);
}
END_TEST

START_TEST(layers_without_recurrence_compile)
{
    Images images;
    Arena *arena;
    compile("rnnc: 1\nname: m\ninput: {tokens: 30, batch: 1, timesteps: 6486}\nlayers:\n"
            "  - {embedding: 8}\n  - {cell: lstm, units: 16, return_sequences: true}\n"
            "  - {dense: {units: 30, activation: gelu}}\n  - {activation: mish}\n"
            "compile: {unroll: true}\nweights: {seed: 1}\n",
            &arena, &images);
    find_image(&images, "l0.pointwise");
    find_image(&images, "l1.unrolled");
    find_image(&images, "l2.pointwise");
    find_image(&images, "l3.pointwise");
    arena_destroy(arena);
}
END_TEST

START_TEST(layers_of_one_shape_share_images)
{
    Planned planned =
        planned_from("rnnc: 1\nname: m\ninput: {features: 16, batch: 1, timesteps: 9}\nlayers:\n"
                     "  - {cell: lstm, units: 16, layers: 3, return_sequences: true}\n"
                     "  - {cell: gru, units: 16}\nweights: {seed: 1}\n");
    ck_assert_msg(planned.model != NULL, "%s", planned_diagnostics(&planned));
    static const int arches[] = {90};
    const Plan *plan =
        plan_make(planned.arena, planned.diags, planned.model, arches, 1, false, "stepwise");
    ck_assert_msg(plan != NULL, "%s", planned_diagnostics(&planned));
    Images images;
    images_print(planned.arena, plan, &images);
    ck_assert_int_eq(images.of_layer[0], images.of_layer[1]);
    ck_assert_int_eq(images.of_layer[0], images.of_layer[2]);
    ck_assert_int_ne(images.of_layer[0], images.of_layer[3]); // of fewer gates
    ck_assert_int_eq(images.of_choice[0][0], images.of_choice[1][0]);
    ck_assert_int_eq(images.count, 5); // a product and a recurrence for each cell, and sequence
    arena_destroy(planned.arena);
}
END_TEST

static bool have_nvrtc(void)
{
    Arena *arena = arena_create();
    bool have = nvrtc_open(arena, diags_create(arena)) != NULL;
    arena_destroy(arena);
    return have;
}

int main(void)
{
    if (!have_nvrtc()) {
        printf("skipped: NVRTC is not installed\n");
        return 77;
    }
    Suite *suite = suite_create("nvrtc");
    TCase *compiling = tcase_create("compile");
    tcase_set_timeout(compiling, 300);
    tcase_add_loop_test(compiling, every_cell_compiles, 0, CELLS);
    tcase_add_loop_test(compiling, large_layers_do_not_spill, 0, 6);
    tcase_add_loop_test(compiling, loop_compiles, 0, 4);
    tcase_add_test(compiling, projection_compiles);
    tcase_add_test(compiling, layers_of_one_shape_share_images);
    tcase_add_test(compiling, layers_without_recurrence_compile);
    suite_add_tcase(suite, compiling);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
