// What a layer's keys make of a cell: clip, input_forget and zoneout, by values worked out by hand
// or from probes.
#include "unit/cell_fixture.h"

static Arena *arena;
static Diags *diags;

static void set_up(void)
{
    arena = arena_create();
    diags = diags_create(arena);
}

static void tear_down(void)
{
    arena_destroy(arena);
}

static const Cell *bound(const char *name, const CellBinding *binding)
{
    const Cell *cell = cell_load(arena, diags, (Span){0}, name, NULL, binding);
    if (!cell)
        ck_abort_msg("%s", printed_diagnostics(arena, diags));
    return cell;
}

static const Cell *bound_text(const char *text, const CellBinding *binding)
{
    const Cell *cell = cell_from(arena, diags, text, strlen(text), binding);
    if (!cell)
        ck_abort_msg("%s", printed_diagnostics(arena, diags));
    return cell;
}

static const char *printed(const Cell *cell)
{
    Text text = {.arena = arena};
    cell_print(cell, &text);
    return text_string(&text);
}

static void assert_near(double found, double expected)
{
    ck_assert_double_eq_tol(found, expected, 1e-8 + 1e-8 * fabs(expected));
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

START_TEST(clip_bounds_what_activations_see_p19)
{
    static const double expected[] = {.17427, .271099, .287649, .287649, .287649, .287649};
    const Cell *cell = bound("lstm", &(CellBinding){.clip = .5});
    StepData data = {.input = {1, 1, 1, 1}};
    for (int t = 0; t < 6; t++) {
        cell_step(arena, cell, &data);
        ck_assert_double_eq_tol(data.state[0], expected[t], 1e-6);
    }
    ck_assert_double_gt(data.state[1], .5); // the state itself is not bounded
}
END_TEST

START_TEST(clip_holds_for_activations_called_by_name)
{
    const CellBinding binding = {.clip = .25};
    const Cell *cell = bound_text("cell c\nstate h, k\nh' = tanh(W.a*x) + sigmoid(W.b*x)\n"
                                  "k' = affine(W.c*x, 2, 3) + exp(W.d*x)\n",
                                  &binding);
    StepData data = {.input = {-7, 5, 9, 1}};
    cell_step(arena, cell, &data);
    assert_near(data.state[0], tanh(-.25) + logistic(.25));
    assert_near(data.state[1], 2 * .25 + 3 + exp(1)); // exp is arithmetic
    data.input[0] = .125;
    data.input[1] = NAN;
    cell_step(arena, cell, &data);
    ck_assert(isnan(data.state[0]));
    data.input[1] = -.125;
    cell_step(arena, cell, &data);
    assert_near(data.state[0], tanh(.125) + logistic(-.125));
}
END_TEST

START_TEST(clip_stays_outside_of_an_activations_formula)
{
    CellBinding binding = {.clip = 2, .use_bias = true};
    ck_assert(activation_from_expression(arena, diags, (Span){0}, "tanh(10*x)/10 + x",
                                         &binding.activation));
    StepData data = {.input = {.5}};
    cell_step(arena, bound("rnn", &binding), &data);
    assert_near(data.state[0], tanh(5) / 10 + .5);
}
END_TEST

START_TEST(input_forget_couples_the_gates_and_keeps_the_weights)
{
    static const char *const cells[] = {"lstm", "peephole_lstm", "lstmp"};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        const Cell *plain = bound(cells[i], &(CellBinding){.use_bias = true});
        const Cell *cell = bound(cells[i], &(CellBinding){.use_bias = true, .input_forget = true});
        const GateList *const before[] = {&plain->W, &plain->R, &plain->b, &plain->p};
        const GateList *const after[] = {&cell->W, &cell->R, &cell->b, &cell->p};
        for (int k = 0; k < 4; k++) {
            ck_assert_int_eq(after[k]->count, before[k]->count);
            for (int gate = 0; gate < after[k]->count; gate++)
                ck_assert_str_eq(after[k]->names[gate], before[k]->names[gate]);
        }
        assert_has(printed(cell), "  phase 0: [R.i R.g R.o] * h ->");
        // i = logistic(-1 + 2*.5), f = 1 - i = 1/2 whatever f's own weights are
        StepData data = {.input = {-1, 90, .75, 0},
                         .R = {2, 80, .5, 0},
                         .P = 1,
                         .b = {0, 70, 0, 0},
                         .state = {.5, 3}};
        cell_step(arena, cell, &data);
        assert_near(data.state[1], .5 * 3 + .5 * tanh(1));
    }
    const Cell *coupled = bound("cifg_lstm", &(CellBinding){.input_forget = true});
    assert_has(printed(coupled), "  phase 0: [R.i R.g R.o] * h ->");
}
END_TEST

START_TEST(input_forget_keeps_no_product_that_only_f_needed)
{
    const CellBinding binding = {.input_forget = true};
    const Cell *cell = bound_text("cell c\nstate h\ni = tanh(W.i*x + R.i*h)\nrest = i*h\n"
                                  "f = sigmoid(W.f*x + R.f*rest)\nh' = i + f*h\n",
                                  &binding);
    assert_has(printed(cell), "R: i f\n  phase 0: [R.i] * h -> h'\n%");
    StepData data = {.input = {.25, 9}, .R = {.5, 9}, .state = {2}};
    cell_step(arena, cell, &data);
    assert_near(data.state[0], tanh(1.25) + (1 - tanh(1.25)) * 2);
}
END_TEST

START_TEST(zoneout_keeps_a_share_of_the_old_state)
{
    const char *states[] = {"h", "c"};
    const double rates[] = {.25, .5};
    const Span spans[2] = {{0}};
    const CellBinding binding = {.use_bias = true,
                                 .zoneout_states = states,
                                 .zoneout_rates = rates,
                                 .zoneout_spans = spans,
                                 .zoneout_count = 2};
    StepData data = {.b = {0, 0, 100, 0}, .state = {.5, 4}};
    cell_step(arena, bound("lstm", &binding), &data);
    // gates 1/2, g = 1: c_new = 2.5, which h_new sees before a share of c is kept
    assert_near(data.state[1], .5 * 4 + .5 * 2.5);
    assert_near(data.state[0], .25 * .5 + .75 * .5 * tanh(2.5));
    StepData projected = {.P = 2, .b = {0, 0, 100, 0}, .state = {.5, 4}};
    cell_step(arena, bound("lstmp", &binding), &projected);
    assert_near(projected.state[0], .25 * .5 + .75 * 2 * .5 * tanh(2.5));
}
END_TEST

START_TEST(zoneout_of_all_states_and_of_none)
{
    const char *states[] = {NULL};
    const Span spans[1] = {{0}};
    const double tenth[] = {.1}, none[] = {0};
    CellBinding binding = {.use_bias = true,
                           .zoneout_states = states,
                           .zoneout_rates = tenth,
                           .zoneout_spans = spans,
                           .zoneout_count = 1};
    StepData data = {.input = {.5}, .p = {.25}, .b = {.125}, .state = {2}};
    cell_step(arena, bound("indrnn", &binding), &data);
    assert_near(data.state[0], .1 * 2 + .9 * tanh(1.125));
    StepData both = {.b = {0, 0, 100, 0}, .state = {.5, 4}};
    cell_step(arena, bound("lstm", &binding), &both);
    assert_near(both.state[0], .1 * .5 + .9 * .5 * tanh(2.5));
    assert_near(both.state[1], .1 * 4 + .9 * 2.5);
    binding.zoneout_rates = none;
    ck_assert_str_eq(printed(bound("gru", &binding)),
                     printed(bound("gru", &(CellBinding){.use_bias = true})));
}
END_TEST

START_TEST(refusals_name_what_there_is)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"cell a\nstate h\ni = sigmoid(W.i*x)\nh' = i*h\n",
         "the cell 'a' has no gate f that a gate i before it could replace [E0317]\nhelp: remove"},
        {"cell b\nstate h\nf = sigmoid(W.f*x)\ni = sigmoid(W.i*x)\nh' = i + f*h\n",
         ":3:1: note: f is defined here, before i"},
        {"cell d\nstate h\ni = W.i*x\nf = W.f*x\nh' = exp(i) + exp(f)*h\n",
         ":4:1: note: i and f are not what an activation gives, so they are no gates"},
    };
    const CellBinding coupling = {.input_forget = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        diags = diags_create(arena);
        ck_assert_ptr_null(
            cell_from(arena, diags, cases[i].text, strlen(cases[i].text), &coupling));
        assert_has(printed_diagnostics(arena, diags), cases[i].expected);
    }
    const char *states[] = {"q"};
    const double rates[] = {.5};
    const Span spans[1] = {{0}};
    const CellBinding zoning = {.zoneout_states = states,
                                .zoneout_rates = rates,
                                .zoneout_spans = spans,
                                .zoneout_count = 1};
    ck_assert_ptr_null(cell_load(arena, diags, (Span){0}, "slstm", NULL, &zoning));
    ck_assert_ptr_null(cell_load(arena, diags, (Span){0}, "slstm", NULL, &coupling));
    const char *text = printed_diagnostics(arena, diags);
    assert_has(text, "the cell 'slstm' has no state 'q' [E0318]\nhelp: its states: h, c, n, m\n");
    assert_has(text, "the cell 'slstm' has no gate f");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cell_binding");
    TCase *tests = tcase_create("cell_binding");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, clip_bounds_what_activations_see_p19);
    tcase_add_test(tests, clip_holds_for_activations_called_by_name);
    tcase_add_test(tests, clip_stays_outside_of_an_activations_formula);
    tcase_add_test(tests, input_forget_couples_the_gates_and_keeps_the_weights);
    tcase_add_test(tests, input_forget_keeps_no_product_that_only_f_needed);
    tcase_add_test(tests, zoneout_keeps_a_share_of_the_old_state);
    tcase_add_test(tests, zoneout_of_all_states_and_of_none);
    tcase_add_test(tests, refusals_name_what_there_is);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
