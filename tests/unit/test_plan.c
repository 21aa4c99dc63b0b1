// Plan: devices, the policy of variants, cudnn and unroll, and what `rnnc explain` prints. Costs
// are estimates and are not tested; order is, where a key of the spec decides it.
#include "plan/stack.h"
#include "unit/plan_fixture.h"

static const char lstm_spec[] = "rnnc: 1\n"
                                "name: small\n"
                                "input: {features: 8, batch: 2, timesteps: 100}\n"
                                "layers:\n"
                                "  - {cell: lstm, units: 64}\n"
                                "  - {dense: 3}\n";

static const char leaky_spec[] =
    "rnnc: 1\n"
    "name: leaky\n"
    "input: {features: 8, batch: 1, timesteps: 100}\n"
    "layers:\n"
    "  - {cell: lstm, units: 64, activation: {leaky_relu: 0.05}, return_sequences: true}\n"
    "  - {cell: lstm, units: 32}\n";

static const int hopper[] = {90};

static Planned with_compile(const char *spec, const char *compile)
{
    char text[1024];
    snprintf(text, sizeof text, "%scompile: {%s}\n", spec, compile);
    Planned planned = planned_from(text);
    if (!planned.model)
        ck_abort_msg("%s\n%s", text, planned_diagnostics(&planned));
    return planned;
}

static const Plan *plan_for_gpu(Planned *planned, const char *variants)
{
    return plan_make(planned->arena, planned->diags, planned->model, hopper, 1, false, variants);
}

static const Plan *must_plan(Planned *planned, const char *variants)
{
    const Plan *plan = plan_for_gpu(planned, variants);
    if (!plan)
        ck_abort_msg("%s", planned_diagnostics(planned));
    return plan;
}

static bool holds(const LayerPlan *layer, const char *name)
{
    for (int i = 0; i < layer->choice_count; i++)
        if (text_equal(layer->choices[i].variant->name, name))
            return true;
    return false;
}

START_TEST(devices_are_known_by_arch)
{
    static const int arches[] = {80, 86, 89, 90, 100, 120};
    for (size_t i = 0; i < sizeof arches / sizeof arches[0]; i++)
        ck_assert_int_eq(device_find(arches[i])->arch, arches[i]);
    ck_assert_int_eq(device_find(90)->sm_count, 132);
    ck_assert_int_eq(device_find(90)->shared_bytes_per_cta, 232448);
    ck_assert_ptr_null(device_find(35));
}
END_TEST

START_TEST(an_unknown_arch_names_the_known_ones)
{
    Planned planned = with_compile(lstm_spec, "variant: auto");
    const int arches[] = {90, 35};
    ck_assert_ptr_null(
        plan_make(planned.arena, planned.diags, planned.model, arches, 2, true, NULL));
    const char *text = planned_diagnostics(&planned);
    assert_contains(text, "unknown GPU target 'sm_35' [E0601]");
    assert_contains(text, "sm_80, sm_86, sm_89, sm_90, sm_100, sm_120");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(numbers_fit_every_target)
{
    Planned planned = with_compile(lstm_spec, "variant: auto");
    const int arches[] = {90, 86};
    const Plan *plan =
        plan_make(planned.arena, planned.diags, planned.model, arches, 2, false, NULL);
    ck_assert_ptr_nonnull(plan);
    ck_assert_int_eq(plan->device->arch, 90);
    ck_assert_int_eq(plan->device->shared_bytes_per_cta, 99 * 1024);
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(cpu_alone_has_no_gpu_variants)
{
    Planned planned = with_compile(lstm_spec, "variant: auto");
    const Plan *plan = plan_make(planned.arena, planned.diags, planned.model, NULL, 0, true, NULL);
    ck_assert_ptr_nonnull(plan);
    ck_assert_ptr_null(plan->device);
    ck_assert_int_eq(plan->layer_count, 2);
    ck_assert_int_eq(plan->layers[0].choice_count, 0);
    ck_assert_int_eq(plan->layers[0].refusal_count, 0);
    ck_assert_str_eq(plan->layers[0].cpu->variant->name, "cpu");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(auto_keeps_a_generated_one_cudnn_and_the_fallback)
{
    Planned planned = with_compile(lstm_spec, "variant: auto");
    const LayerPlan *layer = &must_plan(&planned, NULL)->layers[0];
    ck_assert_int_eq(layer->choice_count, 3);
    ck_assert(holds(layer, "cudnn"));
    ck_assert(holds(layer, "stepwise"));
    for (int i = 1; i < layer->choice_count; i++)
        ck_assert(layer->choices[i - 1].cost_us <= layer->choices[i].cost_us);
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(all_keeps_every_applicable_one)
{
    Planned planned = with_compile(lstm_spec, "variant: auto");
    const LayerPlan *layer = &must_plan(&planned, "all")->layers[0];
    ck_assert_int_eq(layer->other_count, 0);
    ck_assert(holds(layer, "persistent_cta"));
    ck_assert(holds(layer, "cudnn"));
    ck_assert(holds(layer, "stepwise"));
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(the_loop_is_for_those_who_name_it)
{
    Planned planned = with_compile(lstm_spec, "variant: auto");
    ck_assert(!holds(&must_plan(&planned, NULL)->layers[0], "loop"));
    ck_assert(!holds(&must_plan(&planned, "all")->layers[0], "loop"));
    const LayerPlan *layer = &must_plan(&planned, "all,loop")->layers[0];
    ck_assert(holds(layer, "loop"));
    ck_assert(holds(layer, "stepwise"));
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(the_loop_takes_steps_of_one_phase)
{
    static const struct {
        const char *layer, *reason;
    } refused[] = {
        {"cell: gru_before, units: 4", "loop is refused: cell 'gru_before' has steps of 2 phases"},
        {"cell: layer_norm_lstm, units: 4", "loop is refused: cell 'layer_norm_lstm' has "},
        {"cell: indrnn, units: 4", "loop is refused: cell 'indrnn' has no product of x or h"},
        {"cell: lstm, units: 4, heads: 2", "loop is refused: heads: 2 (the loop multiplies full"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char spec[256];
        snprintf(spec, sizeof spec,
                 "rnnc: 1\nname: m\ninput: {features: 3, batch: 2, timesteps: 5}\nlayers:\n"
                 "  - {%s}\n",
                 refused[i].layer);
        Planned planned = with_compile(spec, "variant: auto");
        ck_assert_ptr_null(plan_for_gpu(&planned, "loop"));
        assert_contains(planned_diagnostics(&planned), refused[i].reason);
        arena_destroy(planned.arena);
    }
}
END_TEST

START_TEST(a_list_keeps_no_other)
{
    Planned planned = with_compile(lstm_spec, "variant: auto");
    const LayerPlan *layer = &must_plan(&planned, "stepwise,cudnn")->layers[0];
    ck_assert_int_eq(layer->choice_count, 2);
    ck_assert(holds(layer, "cudnn"));
    ck_assert(holds(layer, "stepwise"));
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(the_specs_variant_comes_first_with_a_fallback)
{
    Planned planned = with_compile(lstm_spec, "variant: persistent_cta");
    const LayerPlan *layer = &must_plan(&planned, NULL)->layers[0];
    ck_assert_int_eq(layer->choice_count, 2);
    ck_assert_str_eq(layer->choices[0].variant->name, "persistent_cta");
    ck_assert_str_eq(layer->choices[1].variant->name, "stepwise");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(an_unknown_variant_is_suggested)
{
    Planned planned = with_compile(lstm_spec, "variant: auto");
    ck_assert_ptr_null(plan_for_gpu(&planned, "stepwize"));
    assert_contains(planned_diagnostics(&planned), "unknown variant 'stepwize' [E0602]");
    assert_contains(planned_diagnostics(&planned), "did you mean 'stepwise'?");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(nothing_left_tells_each_reason)
{
    Planned planned = with_compile(leaky_spec, "variant: auto");
    ck_assert_ptr_null(plan_for_gpu(&planned, "cudnn"));
    const char *text = planned_diagnostics(&planned);
    assert_contains(text, "no variant is left for layer 'l0' [E0603]");
    assert_contains(text, "cudnn is refused: activation: {leaky_relu: 0.05} (cuDNN's LSTM");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(cudnn_never_leaves_it_out)
{
    Planned planned = with_compile(lstm_spec, "cudnn: never");
    const LayerPlan *layer = &must_plan(&planned, "all")->layers[0];
    ck_assert(!holds(layer, "cudnn"));
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(cudnn_require_keeps_it_alone)
{
    Planned planned = with_compile(lstm_spec, "cudnn: require");
    const LayerPlan *layer = &must_plan(&planned, NULL)->layers[0];
    ck_assert_int_eq(layer->choice_count, 1);
    ck_assert(holds(layer, "cudnn"));
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(cudnn_require_makes_criteria_errors)
{
    Planned planned = with_compile(leaky_spec, "cudnn: require");
    ck_assert_ptr_null(plan_for_gpu(&planned, NULL));
    const char *text = planned_diagnostics(&planned);
    assert_contains(text, ".yaml:5:29: error: cuDNN cannot run layer 'l0': activation: "
                          "{leaky_relu: 0.05} (cuDNN's LSTM has tanh only) [E0604]");
    ck_assert_uint_eq(diags_error_count(planned.diags), 1);
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(unroll_puts_unrolled_first)
{
    Planned planned = with_compile(lstm_spec, "unroll: 4");
    const LayerPlan *layer = &must_plan(&planned, NULL)->layers[0];
    ck_assert_str_eq(layer->choices[0].variant->name, "unrolled");
    ck_assert_int_eq(layer->choices[0].unroll, 4);
    arena_destroy(planned.arena);
}
END_TEST

static const char large_spec[] = "rnnc: 1\n"
                                 "name: large\n"
                                 "input: {features: 8, batch: 64, timesteps: 100}\n"
                                 "layers:\n"
                                 "  - {cell: lstm, units: %d%s}\n";

static const LayerPlan *plan_large(Planned *planned, int units, const char *variants,
                                   const char *keys)
{
    char text[512];
    snprintf(text, sizeof text, large_spec, units, keys);
    *planned = with_compile(text, "precision: float16");
    return &must_plan(planned, variants)->layers[0];
}

static const char *refusal_of(const LayerPlan *layer, const char *name)
{
    for (int i = 0; i < layer->refusal_count; i++)
        if (text_equal(layer->refusals[i].variant->name, name))
            return layer->refusals[i].reasons.items[0].text;
    return "";
}

START_TEST(a_grid_shares_r_where_it_fits_the_sms)
{
    Planned planned;
    const LayerPlan *layer = plan_large(&planned, 2048, "persistent_grid", ""); // R is 33.5 MB
    ck_assert(holds(layer, "persistent_grid"));
    ck_assert_int_le(layer->choices[0].ctas, 132);
    ck_assert_int_ge(layer->choices[0].packed_bytes, 4ll * 2048 * 2048 * 2);
    ck_assert_int_le(layer->choices[0].shared_bytes, 232448);
    arena_destroy(planned.arena);
    layer =
        plan_large(&planned, 4096, "all", ""); // 134 MB; the registers and shared memory have 64
    assert_contains(refusal_of(layer, "persistent_grid"), "units: 4096 (");
    assert_contains(refusal_of(layer, "persistent_grid"), "H200 has 132 SMs of 227 KB)");
    arena_destroy(planned.arena);
    layer = plan_large(&planned, 512, "all", ", heads: 4");
    assert_contains(refusal_of(layer, "persistent_grid"), "heads: 4 (");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(a_wide_group_shares_r_in_16_bits_where_there_is_wgmma)
{
    static const int ampere[] = {80};
    Planned planned;
    const LayerPlan *layer = plan_large(&planned, 2048, "persistent_wide", "");
    ck_assert(holds(layer, "persistent_wide"));
    ck_assert_int_le(layer->choices[0].ctas, 132);
    ck_assert_int_ge(layer->choices[0].packed_bytes, 4ll * 2048 * 2048 * 2);
    ck_assert_int_le(layer->choices[0].shared_bytes, 232448);
    arena_destroy(planned.arena);
    layer = plan_large(&planned, 4096, "all", "");
    assert_contains(refusal_of(layer, "persistent_wide"), "units: 4096 (");
    arena_destroy(planned.arena);
    layer = plan_large(&planned, 512, "all", ", heads: 4");
    assert_contains(refusal_of(layer, "persistent_wide"), "heads: 4 (");
    arena_destroy(planned.arena);
    planned = with_compile(lstm_spec, "precision: float32");
    layer = &must_plan(&planned, "all")->layers[0];
    assert_contains(refusal_of(layer, "persistent_wide"), "precision: float32 (");
    const Plan *plan =
        plan_make(planned.arena, planned.diags, planned.model, ampere, 1, false, "all");
    assert_contains(refusal_of(&plan->layers[0], "persistent_wide"), "A100 (sm_80) has no wgmma");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(a_cluster_shares_r_where_it_fits_eight_sms)
{
    Planned planned;
    const LayerPlan *layer = plan_large(&planned, 512, "persistent_cluster", ""); // R is 2.1 MB
    ck_assert(holds(layer, "persistent_cluster"));
    ck_assert_int_eq(layer->choices[0].ctas, 8);
    ck_assert_int_ge(layer->choices[0].packed_bytes, 4ll * 512 * 512 * 2);
    ck_assert_int_le(layer->choices[0].shared_bytes, 232448);
    arena_destroy(planned.arena);
    layer = plan_large(&planned, 2048, "all", ""); // 33.5 MB; eight SMs have 3.8
    assert_contains(refusal_of(layer, "persistent_cluster"), "units: 2048 (each of the 8 CTAs");
    arena_destroy(planned.arena);
    layer = plan_large(&planned, 512, "all", ", heads: 4");
    assert_contains(refusal_of(layer, "persistent_cluster"), "heads: 4 (");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(layers_of_a_stack_share_the_gpu)
{
    // Six layers on an H200's 15 places for clusters of 8: two for each, of 8 rows.
    Planned planned = planned_from("rnnc: 1\n"
                                   "name: stack\n"
                                   "input: {features: 128, batch: 10, timesteps: 512}\n"
                                   "layers:\n"
                                   "  - {cell: lstm, units: 256, layers: 6}\n"
                                   "compile: {targets: [sm_90]}\n");
    const Plan *plan = must_plan(&planned, "persistent_cluster");
    Text table = {.arena = planned.arena};
    for (int i = 0; i < 6; i++) {
        const Choice *choice = &plan->layers[i].choices[0];
        ck_assert_int_eq(plan->layers[i].stack, 6);
        ck_assert_int_eq(plan->layers[i].context.at_once, 6);
        ck_assert_int_le(choice->ctas * ((10 + choice->rows_per_cta - 1) / choice->rows_per_cta),
                         2 * 132 / 6);
    }
    plan_explain(planned.arena, plan, &table, false);
    assert_contains(text_string(&table), "every step, 6 of the stack's 6 layers at a time\n");
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(a_backward_layer_ends_a_stack)
{
    Planned planned =
        planned_from("rnnc: 1\n"
                     "name: stack\n"
                     "input: {features: 64, batch: 64, timesteps: 200}\n"
                     "layers:\n"
                     "  - {cell: lstm, units: 256, layers: 2, return_sequences: true}\n"
                     "  - {cell: lstm, units: 256, go_backwards: true}\n"
                     "compile: {targets: [sm_90], precision: float16}\n");
    const Plan *plan = must_plan(&planned, "all");
    ck_assert_int_eq(plan->layers[0].stack, 2);
    ck_assert_int_eq(plan->layers[2].stack, 1);
    ck_assert_int_eq(plan->layers[2].context.at_once, 1);
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(time_of_a_stack)
{
    // Chunks: the root of (layers - 1) * us / 6, without its fraction; (chunks + layers - 1) of
    // them, each a share of the slowest layer and 6 us.
    const double even[] = {100, 100, 100, 100}, uneven[] = {40, 100}, small[] = {30, 30};
    ck_assert_double_eq_tol(stack_us(even, 4, 1, 100), 400, 1e-9);
    ck_assert_double_eq_tol(stack_us(even, 4, 2, 100), 2 * 5 * (25.0 + 6), 1e-9);
    ck_assert_double_eq_tol(stack_us(even, 4, 4, 100), 10 * (100.0 / 7 + 6), 1e-9);
    ck_assert_double_eq_tol(stack_us(even, 3, 2, 100), 5 * (25.0 + 6) + 100, 1e-9);
    ck_assert_double_eq_tol(stack_us(uneven, 2, 2, 100), 140, 1e-9); // 155 as a wavefront
    ck_assert_double_eq_tol(stack_us(small, 2, 2, 100), 60, 1e-9);   // 63
}
END_TEST

START_TEST(explain_names_the_key)
{
    Planned planned = with_compile(leaky_spec, "variant: auto");
    Text table = {.arena = planned.arena};
    plan_explain(planned.arena, must_plan(&planned, NULL), &table, false);
    const char *text = text_string(&table);
    assert_contains(text, "leaky: batch 1, timesteps 100, float32, for sm_90 (H200)\n");
    assert_contains(text, "layer l0: lstm, 8 -> 64, every step\n");
    assert_contains(text, "layer l1: lstm, 64 -> 32, last step\n");
    assert_contains(text, "  cudnn              refused\n");
    assert_contains(text, ".yaml:5:29: activation: {leaky_relu: 0.05} (cuDNN's LSTM has tanh "
                          "only)\n");
    ck_assert_ptr_null(strchr(text, '\033'));
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(plan_text_is_the_same_each_time)
{
    const char *texts[2];
    Planned planned[2];
    for (int i = 0; i < 2; i++) {
        planned[i] = with_compile(lstm_spec, "variant: auto");
        Text text = {.arena = planned[i].arena};
        plan_print(must_plan(&planned[i], NULL), &text);
        texts[i] = text_string(&text);
    }
    ck_assert_str_eq(texts[0], texts[1]);
    assert_contains(texts[0], "plan small\ntargets sm_90\nprecision float32\nbatch 2\n"
                              "timesteps 100\nlayer l0 lstm inputs 8 outputs 64\n");
    assert_contains(texts[0], "layer l1 dense inputs 64 outputs 3\n");
    arena_destroy(planned[0].arena);
    arena_destroy(planned[1].arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("plan");
    tcase_add_test(tests, devices_are_known_by_arch);
    tcase_add_test(tests, an_unknown_arch_names_the_known_ones);
    tcase_add_test(tests, numbers_fit_every_target);
    tcase_add_test(tests, cpu_alone_has_no_gpu_variants);
    tcase_add_test(tests, auto_keeps_a_generated_one_cudnn_and_the_fallback);
    tcase_add_test(tests, all_keeps_every_applicable_one);
    tcase_add_test(tests, the_loop_is_for_those_who_name_it);
    tcase_add_test(tests, the_loop_takes_steps_of_one_phase);
    tcase_add_test(tests, a_list_keeps_no_other);
    tcase_add_test(tests, the_specs_variant_comes_first_with_a_fallback);
    tcase_add_test(tests, an_unknown_variant_is_suggested);
    tcase_add_test(tests, nothing_left_tells_each_reason);
    tcase_add_test(tests, cudnn_never_leaves_it_out);
    tcase_add_test(tests, cudnn_require_keeps_it_alone);
    tcase_add_test(tests, cudnn_require_makes_criteria_errors);
    tcase_add_test(tests, unroll_puts_unrolled_first);
    tcase_add_test(tests, a_grid_shares_r_where_it_fits_the_sms);
    tcase_add_test(tests, a_wide_group_shares_r_in_16_bits_where_there_is_wgmma);
    tcase_add_test(tests, a_cluster_shares_r_where_it_fits_eight_sms);
    tcase_add_test(tests, layers_of_a_stack_share_the_gpu);
    tcase_add_test(tests, a_backward_layer_ends_a_stack);
    tcase_add_test(tests, time_of_a_stack);
    tcase_add_test(tests, explain_names_the_key);
    tcase_add_test(tests, plan_text_is_the_same_each_time);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
