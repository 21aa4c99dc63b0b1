// cuDNN's criteria, one by one: which cells and activations it takes, and, for each refusal, the
// sentence and the place of the key responsible.
#include "unit/plan_fixture.h"

/// Every spec is this with one layer line (line 4) and one compile line (line 5).
static const char spec_format[] = "rnnc: 1\n"
                                  "input: {features: 8, batch: 2, timesteps: %s}\n"
                                  "layers:\n"
                                  "  - {%s}\n"
                                  "compile: {targets: [sm_90]%s}\n";

static Reasons reasons_of(Planned *out_planned, const char *timesteps, const char *layer,
                          const char *compile)
{
    char text[1024];
    snprintf(text, sizeof text, spec_format, timesteps, layer, compile);
    *out_planned = planned_from(text);
    if (!out_planned->model)
        ck_abort_msg("%s\n%s", text, planned_diagnostics(out_planned));
    const Model *model = out_planned->model;
    PlanContext context = {.model = model,
                           .layer = &model->layers[0],
                           .device = device_find(90),
                           .batch = 2,
                           .timesteps = model->timesteps};
    Reasons reasons = {0};
    const Variant *cudnn = variant_find("cudnn");
    ck_assert_ptr_nonnull(cudnn);
    cudnn->check(out_planned->arena, &context, &reasons);
    return reasons;
}

static const struct {
    const char *layer;
    int mode, bias, projection;
} taken[] = {
    {"cell: rnn, units: 5", 1, 2, 0},
    {"cell: rnn, units: 5, activation: relu", 0, 2, 0},
    {"cell: lstm, units: 5", 2, 2, 0},
    {"cell: lstm, units: 5, activation: Tanh, recurrent_activation: SIGMOID", 2, 2, 0},
    {"cell: lstm, units: 5, use_bias: false", 2, 0, 0},
    {"cell: lstm, units: 5, projection: 3", 2, 2, 3},
    {"cell: lstm, units: 5, recurrent_dropout: 0.2", 2, 2, 0},
    {"cell: gru, units: 5", 3, 2, 0},
    {"cell: lstm, units: 5, go_backwards: true", 2, 2, 0},
    {"cell: lstm, units: 5, direction: reverse, zero_output_for_mask: true", 2, 2, 0},
    {"cell: lstm, units: 5, heads: 1, zoneout: 0, input_forget: false", 2, 2, 0},
    {"cell: gru, units: 5, reset_after: true", 3, 2, 0},
};

START_TEST(takes)
{
    Planned planned;
    Reasons reasons = reasons_of(&planned, "100", taken[_i].layer, "");
    if (reasons.count)
        ck_abort_msg("%s: %s", taken[_i].layer, reasons.items[0].text);
    CudnnDescription description;
    ck_assert(cudnn_description(planned.arena, &planned.model->layers[0], &description));
    ck_assert_int_eq(description.mode, taken[_i].mode);
    ck_assert_int_eq(description.bias, taken[_i].bias);
    ck_assert_int_eq(description.projection, taken[_i].projection);
    arena_destroy(planned.arena);
}
END_TEST

static const struct {
    const char *layer, *compile, *timesteps;
    const char *reason;
    int line, column;
} refused[] = {
    {"cell: lstm, units: 5, activation: {leaky_relu: 0.05}", "", "100",
     "activation: {leaky_relu: 0.05} (cuDNN's LSTM has tanh only)", 4, 28},
    {"cell: lstm, units: 5, recurrent_activation: hard_sigmoid", "", "100",
     "recurrent_activation: hard_sigmoid (cuDNN's LSTM has sigmoid only)", 4, 28},
    {"cell: lstm, units: 5, output_activation: relu", "", "100",
     "output_activation: relu (cuDNN's LSTM has tanh only)", 4, 28},
    {"cell: rnn, units: 5, activation: silu", "", "100",
     "activation: silu (cuDNN's plain RNN has tanh and relu only)", 4, 27},
    {"cell: gru, units: 5, activation: relu", "", "100",
     "activation: relu (cuDNN's GRU has tanh only)", 4, 27},
    {"cell: gru, units: 5, reset_after: false", "", "100",
     "reset_after: false (cuDNN's GRU resets after the recurrent product, not before)", 4, 0},
    {"cell: gru_before, units: 5", "", "100",
     "cell: gru_before (cuDNN's GRU resets after the recurrent product, not before)", 4, 0},
    {"cell: peephole_lstm, units: 5", "", "100",
     "cell: peephole_lstm (cuDNN's LSTM has no peepholes)", 4, 0},
    {"cell: cifg_lstm, units: 5", "", "100",
     "cell: cifg_lstm (cuDNN's LSTM does not couple the input and forget gates)", 4, 0},
    {"cell: indrnn, units: 5", "", "100",
     "cell: indrnn (cuDNN's RNN has a full recurrent matrix, not a vector)", 4, 0},
    {"cell: mgu, units: 5", "", "100", "cell: mgu (cuDNN has no minimal gated unit)", 4, 0},
    {"cell: slstm, units: 5", "", "100", "cell: slstm (cuDNN has no exponential gating)", 4, 0},
    {"cell: lstm, units: 5, projection: 5", "", "100",
     "projection: 5 (cuDNN projects to fewer than the 5 units only)", 4, 0},
    {"cell: lstm, units: 5, clip: 2.5", "", "100",
     "clip: 2.5 (cuDNN clips the cell state, not the arguments of activations)", 4, 34},
    {"cell: lstm, units: 5, input_forget: true", "", "100",
     "input_forget: true (cuDNN's LSTM does not couple the input and forget gates)", 4, 42},
    {"cell: lstm, units: 5, zoneout: 0.5", "", "100", "zoneout: 0.5 (cuDNN has no zoneout)", 4, 37},
    {"cell: lstm, units: 5, zoneout: {h: 0, c: 0.25}", "", "100",
     "zoneout of c: 0.25 (cuDNN has no zoneout)", 4, 44},
    {"cell: lstm, units: 6, heads: 3", "", "100", "heads: 3 (cuDNN's recurrent matrices are full)",
     4, 35},
    {"cell: lstm, units: 5, recurrent_dropout: 0.2", ", dropout_at_inference: true", "100",
     "recurrent_dropout: 0.2 (cuDNN has none, and the spec has `dropout_at_inference: true`)", 4,
     47},
    {"cell: lstm, units: 5", "", "65536", "timesteps: 65536 (cuDNN takes fewer than 65536)", 2, 0},
    {"cell: lstm, units: 5", ", cudnn: never", "100", "cudnn: never (the spec forbids it)", 5, 0},
};

START_TEST(refuses)
{
    Planned planned;
    Reasons reasons =
        reasons_of(&planned, refused[_i].timesteps, refused[_i].layer, refused[_i].compile);
    ck_assert_int_eq(reasons.count, 1);
    ck_assert_str_eq(reasons.items[0].text, refused[_i].reason);
    ck_assert_int_eq(reasons.items[0].span.line, refused[_i].line);
    if (refused[_i].column)
        ck_assert_int_eq(reasons.items[0].span.column, refused[_i].column);
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(takes_one_step_less)
{
    Planned planned;
    ck_assert_int_eq(reasons_of(&planned, "65535", "cell: lstm, units: 5", "").count, 0);
    arena_destroy(planned.arena);
}
END_TEST

START_TEST(names_every_reason)
{
    Planned planned;
    Reasons reasons = reasons_of(
        &planned, "70000",
        "cell: lstm, units: 5, activation: relu, recurrent_activation: hard_sigmoid", "");
    ck_assert_int_eq(reasons.count, 3);
    arena_destroy(planned.arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cudnn_criteria");
    TCase *tests = tcase_create("criteria");
    tcase_add_loop_test(tests, takes, 0, sizeof taken / sizeof taken[0]);
    tcase_add_loop_test(tests, refuses, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(tests, takes_one_step_less);
    tcase_add_test(tests, names_every_reason);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
