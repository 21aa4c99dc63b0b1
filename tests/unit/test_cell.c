// Cells: one step against the probes' numbers, phases and carries, printed code compiled and run
// beside the graph, and derivatives of whole steps against central differences.
#include "unit/cell_compiled.h"

static Arena *arena;
static Diags *diags;

static void set_up(void)
{
    arena = arena_create();
    diags = diags_create(arena);
}

static void tear_down(void)
{
    ck_assert_str_eq(printed_diagnostics(arena, diags), "");
    arena_destroy(arena);
}

static Activation activation_of(const char *name, const double *parameters, int count)
{
    Activation activation;
    ck_assert(activation_find(arena, diags, (Span){0}, name, parameters, count, &activation));
    return activation;
}

static const Cell *builtin(const char *name)
{
    CellBinding binding = {.use_bias = true};
    const Cell *cell = cell_load(arena, diags, (Span){0}, name, NULL, &binding);
    ck_assert_msg(cell && cell->is_builtin, "%s", name);
    return cell;
}

static const Cell *from_text(const char *text)
{
    CellBinding binding = {.use_bias = true};
    const Cell *cell = cell_from(arena, diags, text, strlen(text), &binding);
    if (!cell)
        ck_abort_msg("%s", printed_diagnostics(arena, diags));
    return cell;
}

static void assert_near(double found, double expected)
{
    ck_assert_double_eq_tol(found, expected, 1e-8 + 1e-8 * fabs(expected));
}

START_TEST(lstm_gate_order_p01)
{
    StepData data = {.b = {.1, .2, .3, .4}, .state = {0, 1}};
    cell_step(arena, builtin("LSTM"), &data);
    assert_near(data.state[0], .36287728);
    assert_near(data.state[1], .70276706);
}
END_TEST

START_TEST(gru_gate_order_p02)
{
    StepData data = {.input = {.2 * .5, .1 * .5, .3 * .5},
                     .R = {.5, .4, .6},
                     .b = {.02 + .05, .01 + .04, .03},
                     .rb = {.06},
                     .state = {.8}};
    cell_step(arena, builtin("gru"), &data);
    assert_near(data.state[0], .67370848);
}
END_TEST

START_TEST(lstm_sequence_p03)
{
    static const double expected[] = {.51438592, .76128104, .84065155};
    const Cell *cell = builtin("lstm");
    StepData data = {.input = {.5, .5, .5, .5}, .R = {.5, .5, .5, .5}, .b = {1, 1, 1, 1}};
    for (int t = 0; t < 3; t++) {
        cell_step(arena, cell, &data);
        assert_near(data.state[0], expected[t]);
    }
    assert_near(data.state[1], 2.07310604);
}
END_TEST

START_TEST(gru_reset_forms_p04)
{
    StepData after = {.rb = {1}, .state = {1}}, before = {.b = {0, 0, 1}, .state = {1}};
    cell_step(arena, builtin("gru"), &after);
    cell_step(arena, builtin("gru_before"), &before);
    assert_near(after.state[0], .73105858);
    assert_near(before.state[0], .88079708);
}
END_TEST

START_TEST(gru_sequences_p05)
{
    static const double after_expected[] = {.16185457, .25099427, .30079782};
    static const double before_expected[] = {.16512214, .25417939, .30374607};
    StepData after = {.R = {.5, .5, .5}, .b = {1, 1, .5}, .rb = {.5}};
    StepData before = {.R = {.5, .5, .5}, .b = {1, 1, 1}};
    const Cell *gru = builtin("gru"), *gru_before = builtin("gru_before");
    for (int t = 0; t < 3; t++) {
        for (int gate = 0; gate < 3; gate++)
            after.input[gate] = before.input[gate] = .5 * (t + 1);
        cell_step(arena, gru, &after);
        cell_step(arena, gru_before, &before);
        ck_assert_double_eq_tol(after.state[0], after_expected[t], 1e-6); // from a float32 run
        assert_near(before.state[0], before_expected[t]);
    }
}
END_TEST

START_TEST(gru_candidate_bias_p06)
{
    StepData after = {.R = {.5, .5, .5}, .b = {1, 1, .5}, .rb = {.5}};
    StepData before = {.R = {.5, .5, .5}, .b = {1, 1, 1}};
    cell_step(arena, builtin("gru"), &after);
    cell_step(arena, builtin("gru_before"), &before);
    assert_near(after.state[0], .18801575);
    assert_near(before.state[0], .20482421);
}
END_TEST

START_TEST(hard_sigmoid_gates_p15)
{
    const struct {
        const char *name;
        double expected;
    } forms[] = {{"hard_sigmoid_k2", .85946993}, {"hard_sigmoid", .79955151}};
    for (size_t i = 0; i < 2; i++) {
        CellBinding binding = {.recurrent_activation = activation_of(forms[i].name, NULL, 0),
                               .use_bias = true};
        const Cell *cell = cell_load(arena, diags, (Span){0}, "lstm", NULL, &binding);
        StepData data = {.b = {2.7, 2.7, .3, 2.7}, .state = {0, 1}};
        cell_step(arena, cell, &data);
        assert_near(data.state[0], forms[i].expected);
    }
}
END_TEST

START_TEST(leaky_slopes_p16)
{
    static const double cases[][2] = {{.01, -.00330750}, {.2, -.07212174}, {.3, -.11289708}};
    for (size_t i = 0; i < 3; i++) {
        CellBinding binding = {.activation = activation_of("leaky_relu", &cases[i][0], 1),
                               .use_bias = true};
        const Cell *cell = cell_load(arena, diags, (Span){0}, "lstm", NULL, &binding);
        StepData data = {.b = {.1, .2, -.5, .4}, .state = {0, -1}};
        cell_step(arena, cell, &data);
        assert_near(data.state[0], cases[i][1]);
    }
}
END_TEST

START_TEST(output_activation_applies_to_the_cell_state)
{
    CellBinding binding = {.output_activation = activation_of("linear", NULL, 0), .use_bias = true};
    const Cell *cell = cell_load(arena, diags, (Span){0}, "lstm", NULL, &binding);
    StepData data = {.b = {0, 0, 0, 0}, .state = {0, 4}};
    cell_step(arena, cell, &data); // all gates 1/2: c = 2, h = 1/2 * c
    ck_assert_double_eq(data.state[0], 1);
}
END_TEST

START_TEST(other_cells_by_hand)
{
    StepData peephole = {.p = {1, 2, 3}, .state = {0, 1}};
    cell_step(arena, builtin("peephole_lstm"), &peephole); // c' = sigmoid(2)*1, o sees c'
    assert_near(peephole.state[1], .88079708);
    assert_near(peephole.state[0], tanh(.8807970779778823) / (1 + exp(-3 * .8807970779778823)));
    StepData projected = {.P = 3, .b = {0, 0, 0, 0}, .state = {0, 2}};
    cell_step(arena, builtin("lstmp"), &projected);
    assert_near(projected.state[0], 3 * .5 * tanh(1));
    StepData coupled = {.b = {-1, 2, 0}, .state = {0, 1}};
    cell_step(arena, builtin("cifg_lstm"), &coupled);
    assert_near(coupled.state[1], .7310585786 + .2689414214 * tanh(2));
    StepData independent = {.input = {.5}, .p = {.25}, .b = {.125}, .state = {2}};
    cell_step(arena, builtin("indrnn"), &independent);
    assert_near(independent.state[0], tanh(1.125));
    StepData minimal = {.R = {0, 2}, .b = {0, .5}, .state = {1}};
    cell_step(arena, builtin("mgu"), &minimal); // f = 1/2, n = tanh(2 * 1/2 + 1/2)
    assert_near(minimal.state[0], .5 + .5 * tanh(1.5));
}
END_TEST

START_TEST(slstm_starts_at_minus_infinity)
{
    const Cell *cell = builtin("slstm");
    StepData data = {.input = {.7, .2, 300, -5}};
    for (int i = 0; i < cell->state_count; i++)
        data.state[i] = cell->states[i].start;
    ck_assert(isinf(data.state[3]));
    cell_step(arena, cell, &data); // ff = 0, ii = 1: c = tanh(.7), n = 1, m = 300
    assert_near(data.state[0], tanh(.7) / (1 + exp(-.2)));
    assert_near(data.state[2], 1);
    assert_near(data.state[3], 300);
}
END_TEST

START_TEST(without_bias_no_bias_is_left)
{
    CellBinding binding = {.use_bias = false};
    const Cell *cell = cell_load(arena, diags, (Span){0}, "gru", NULL, &binding);
    ck_assert_int_eq(cell->b.count, 0);
    ck_assert_int_eq(cell->rb.count, 0);
    Text text = {.arena = arena};
    cell_print_pointwise(cell, &text);
    assert_has(text_string(&text), "const rnn_f n = rnn_tanh(input[2] + r * product[2]);");
}
END_TEST

START_TEST(phases_are_as_few_as_the_data_needs)
{
    static const struct {
        const char *name, *phases;
    } cells[] = {
        {"rnn", "  phase 0: [R.n] * h -> h'\n"},
        {"lstm", "  phase 0: [R.i R.f R.g R.o] * h -> h' c'\n"},
        {"gru", "  phase 0: [R.r R.z R.n] * h -> h'\n"},
        {"gru_before", "  phase 0: [R.r R.z] * h -> carry 0 (z) carry 1\n"
                       "  phase 1: [R.n] * carry 1 -> h'\n"},
        {"lstmp", "  phase 0: [R.i R.f R.g R.o] * h -> carry 0 c'\n"
                  "  phase 1: [P] * carry 0 -> h'\n"},
        {"indrnn", "  phase 0: -> h'\n"},
    };
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        Text text = {.arena = arena};
        cell_print(builtin(cells[i].name), &text);
        assert_has(text_string(&text), cells[i].phases);
    }
    const Cell *projected = builtin("lstmp");
    ck_assert_int_eq(projected->states[0].domain, DOMAIN_PROJECTION);
    ck_assert_int_eq(projected->states[1].domain, DOMAIN_UNITS);
    ck_assert_int_eq(projected->phases[0].operand_domain, DOMAIN_PROJECTION);
    ck_assert_int_eq(projected->phases[1].domain, DOMAIN_PROJECTION);
    const Cell *peephole = builtin("peephole_lstm");
    ck_assert_int_eq(peephole->p.count, 3);
    ck_assert_str_eq(peephole->p.names[2], "o");
}
END_TEST

START_TEST(printed_code_has_the_cells_own_names)
{
    Text text = {.arena = arena};
    cell_print_pointwise(builtin("lstm"), &text);
    assert_has(text_string(&text),
               "    (void)recurrent_bias, (void)parameter, (void)carry_in, (void)statistic, "
               "(void)carry_out;\n"
               "    const rnn_f i = rnn_sigmoid(input[0] + product[0] + bias[0]);\n"
               "    const rnn_f f = rnn_sigmoid(input[1] + product[1] + bias[1]);\n"
               "    const rnn_f g = rnn_tanh(input[2] + product[2] + bias[2]);\n"
               "    const rnn_f o = rnn_sigmoid(input[3] + product[3] + bias[3]);\n"
               "    const rnn_f c_next = f * state[1] + i * g;\n"
               "    const rnn_f h_next = o * rnn_tanh(c_next);\n"
               "    state_out[0] = h_next;\n"
               "    state_out[1] = c_next;\n}\n");
}
END_TEST

/// Cells that schedule and print in unusual ways: an old state read late, a projected old state,
/// a computed vector before any product, names that C keeps for itself, a chain of products.
static const char *const unusual[] = {
    "cell late\nstate h, c\nc' = tanh(W.a*x + R.a*h)\nh' = tanh(R.b*(c'*c) + c)\n",
    "cell early_projection\nstate h, c\nh' = P*c\nc' = tanh(W.a*x + R.a*h)\n",
    "cell scaled\nstate h, c\nc' = tanh(W.a*x + R.a*(h*0.5))*0.5 + c\nh' = P*c' + h/4\n",
    "cell from_input\nstate h\nv = tanh(W.v*x)\nh' = R.a*v - (R.b*h - (v - 1)) - -h\n",
    "cell words\nstate h\nint = W.a*x\nT = int*int\nx2 = R.h*h\nt3 = T > 0.1 ? x2 : -x2\n"
    "state_out = t3*t3 # used twice\nh' = state_out + (T < 1)\n",
    "cell chain\nstate h\na = R.a*h\nb2 = R.b*tanh(a)\nc = R.c*(b2 + W.c*x)\n"
    "h' = (a + b2)/(2 + abs(c))*(\n    max(min(a, 0.3), -0.3) + 1)\n",
    "cell twice\nstate h, k\nk' = tanh(W.a*x + R.a*k + R.b*h)\nh' = k - k'*h\n",
    "cell constant\nstate h, k = 2\nh' = tanh(W.a*x + k)\nk' = 3\n",
};

/// Mean and 1/sqrt(variance + 1e-5) over the members that rnn_members<number> gives for one unit.
static void take_statistics(void *library, int number, const Cell *cell, const StepData *data,
                            const double *product, const double *carries, double *statistic)
{
    const CellPhase *phase = &cell->phases[number];
    double member[CELL_NORMS_MAX * CELL_GATES_MAX] = {0}, *at = member;
    MembersFunction *function;
    if (phase->norm_count == 0)
        return;
    *(void **)&function = dlsym(library, arena_format(arena, "rnn_members%d", number));
    ck_assert_ptr_nonnull(*(void **)&function);
    function(data->input, product, data->b, data->rb, data->p, data->state, carries, member);
    for (int i = 0; i < phase->norm_count; at += phase->norms[i++].member_count)
        mean_and_rstd(at, phase->norms[i].member_count, &statistic[2 * i]);
}

/// One step by the compiled functions, phase after phase, each state kept in one place only.
static void run_compiled(const Cell *cell, void *library, StepData *data)
{
    double carries[64] = {0};
    ck_assert_int_le(cell->carry_count, 64);
    for (int number = 0; number < cell->phase_count; number++) {
        const CellPhase *phase = &cell->phases[number];
        double product[CELL_GATES_MAX] = {0}, next[CELL_STATES_MAX];
        for (int i = 0; i < phase->row_count; i++)
            product[i] =
                (phase->matrix == MATRIX_P ? data->P : data->R[phase->rows[i]]) *
                (phase->operand_is_state ? data->state[phase->operand] : carries[phase->operand]);
        PhaseFunction *function;
        *(void **)&function = dlsym(library, arena_format(arena, "rnn_phase%d", number));
        ck_assert_ptr_nonnull(*(void **)&function);
        double statistic[2 * CELL_NORMS_MAX] = {0};
        take_statistics(library, number, cell, data, product, carries, statistic);
        function(data->input, product, data->b, data->rb, data->p, data->state, carries, statistic,
                 carries, next);
        for (int i = 0; i < phase->state_count; i++)
            data->state[phase->states[i]] = next[phase->states[i]];
    }
}

/// Numbers that look random but are the same on each run.
static StepData numbers(void)
{
    StepData data;
    double *all = (double *)&data;
    unsigned bits = 12345;
    for (size_t i = 0; i < sizeof data / sizeof *all; i++) {
        bits = bits * 1103515245u + 12345u;
        all[i] = (double)(bits >> 16) / 65536.0 * 1.8 - 0.9;
    }
    return data;
}

static void compare_with_compiled(const Cell *cell)
{
    StepData data = numbers(), same = data;
    void *library = compiled(arena, cell);
    for (int t = 0; t < 3; t++) {
        cell_step(arena, cell, &data);
        run_compiled(cell, library, &same);
        for (int i = 0; i < cell->state_count; i++)
            if (!(fabs(data.state[i] - same.state[i]) <= 1e-6))
                ck_abort_msg("%s: state %s is %.9g in C, %.9g in the graph", cell->name,
                             cell->states[i].name, same.state[i], data.state[i]);
    }
    dlclose(library);
}

/// Keys of a layer that rewrite the equations, all at once.
static const Cell *rewritten(const char *name, bool couples)
{
    const char *states[] = {NULL};
    const double rates[] = {0.25};
    const Span spans[1] = {{0}};
    const CellBinding binding = {.use_bias = true,
                                 .clip = 0.4,
                                 .input_forget = couples,
                                 .zoneout_states = states,
                                 .zoneout_rates = rates,
                                 .zoneout_spans = spans,
                                 .zoneout_count = 1};
    return cell_load(arena, diags, (Span){0}, name, NULL, &binding);
}

START_TEST(operations_stand_one_by_one)
{
    Text lstm = {.arena = arena}, copies = {.arena = arena};
    cell_print_operations(builtin("lstm"), &lstm);
    assert_has(text_string(&lstm), "    case 0:\n        return input[0] + product[0];\n"
                                   "    case 1:\n        return value[0] + bias[0];\n"
                                   "    case 2:\n        return rnn_sigmoid(value[1]);\n");
    // c' = f*c + i*g in three, h' = o*tanh(c') in two; the results are h', c'
    assert_has(text_string(&lstm), "    case 12:\n        return value[5] * state[1];\n"
                                   "    case 13:\n        return value[2] * value[8];\n"
                                   "    case 14:\n        return value[12] + value[13];\n"
                                   "    case 15:\n        return rnn_tanh(value[14]);\n"
                                   "    case 16:\n        return value[11] * value[15];\n    }\n");
    assert_has(text_string(&lstm), "#define RNN_OPERATIONS 17\n#define RNN_RESULTS 16, 14\n");
    // a state that only keeps another's old value is an operation of its own
    cell_print_operations(from_text("cell last\nstate h, last\nh' = tanh(W.n*x + R.n*h + last)\n"
                                    "last' = h\n"),
                          &copies);
    assert_has(text_string(&copies), "    case 3:\n        return state[0];\n");
    assert_has(text_string(&copies), "#define RNN_OPERATIONS 4\n#define RNN_RESULTS 2, 3\n");
}
END_TEST

START_TEST(printed_code_computes_what_the_graph_does)
{
    size_t count;
    const char *const *names = cell_names(arena, &count);
    ck_assert_uint_ge(count, 11);
    for (size_t i = 0; i < count; i++)
        compare_with_compiled(builtin(names[i]));
    for (size_t i = 0; i < sizeof unusual / sizeof *unusual; i++)
        compare_with_compiled(from_text(unusual[i]));
    compare_with_compiled(rewritten("peephole_lstm", true));
    compare_with_compiled(rewritten("lstmp", true));
    compare_with_compiled(rewritten("gru_before", false));
}
END_TEST

typedef struct {
    const StepData *data;
    int shifted; ///< index of the leaf that is moved
    double by;
    const Graph *graph;
} Shifted;

static double shifted_leaf(const void *context, const Node *node)
{
    const Shifted *shifted = context;
    if (node->op == OP_SEED)
        return 0.5 + node->index;
    double value = step_leaf(shifted->data, node);
    return node == &shifted->graph->nodes[shifted->shifted] ? value + shifted->by : value;
}

/// The states after the step, weighted as the seeds are.
static double weighted(const Cell *cell, const Shifted *shifted)
{
    double *values = ARENA_ARRAY(arena, double, cell->graph.count), sum = 0;
    graph_evaluate(&cell->graph, shifted_leaf, shifted, values);
    for (int i = 0; i < cell->state_count; i++)
        sum += (0.5 + i) * values[cell->states[i].next];
    return sum;
}

static void check_step_derivative(const Cell *cell)
{
    StepData data = numbers();
    Graph graph = cell->graph;
    int inputs[256], input_count = 0, adjoints[256];
    int outputs[CELL_STATES_MAX], seeds[CELL_STATES_MAX];
    for (int i = 0; i < cell->graph.count; i++)
        if (op_arity(cell->graph.nodes[i].op) == 0 && cell->graph.nodes[i].op != OP_CONST)
            inputs[input_count++] = i;
    for (int i = 0; i < cell->state_count; i++) {
        outputs[i] = cell->states[i].next;
        seeds[i] = graph_add(&graph, (Node){.op = OP_SEED, .index = i});
    }
    ck_assert(graph_differentiate(&graph, outputs, seeds, cell->state_count, inputs, input_count,
                                  adjoints));
    double *values = ARENA_ARRAY(arena, double, graph.count);
    Shifted here = {&data, 0, 0, &graph};
    graph_evaluate(&graph, shifted_leaf, &here, values);
    for (int i = 0; i < input_count; i++) {
        const double step = 1e-5;
        Shifted more = {&data, inputs[i], step, &cell->graph};
        Shifted less = {&data, inputs[i], -step, &cell->graph};
        double expected = (weighted(cell, &more) - weighted(cell, &less)) / (2 * step);
        if (!(fabs(values[adjoints[i]] - expected) <= 1e-7 * (1 + fabs(expected))))
            ck_abort_msg("%s by %s %d: %.10g, not %.10g", cell->name,
                         op_name(cell->graph.nodes[inputs[i]].op),
                         cell->graph.nodes[inputs[i]].index, values[adjoints[i]], expected);
    }
}

START_TEST(derivatives_of_a_step_equal_central_differences)
{
    size_t count;
    const char *const *names = cell_names(arena, &count);
    for (size_t i = 0; i < count; i++)
        check_step_derivative(builtin(names[i]));
    for (size_t i = 0; i < sizeof unusual / sizeof *unusual; i++)
        check_step_derivative(from_text(unusual[i]));
}
END_TEST

START_TEST(table_lists_every_cell)
{
    Text text = {.arena = arena};
    cell_print_table(arena, &text);
    assert_has(text_string(&text),
               "gru              h          r z n; rb n                           1      ");
    assert_has(text_string(&text), "slstm            h c n m    z o i f ");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cell");
    TCase *tests = tcase_create("cell");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, lstm_gate_order_p01);
    tcase_add_test(tests, gru_gate_order_p02);
    tcase_add_test(tests, lstm_sequence_p03);
    tcase_add_test(tests, gru_reset_forms_p04);
    tcase_add_test(tests, gru_sequences_p05);
    tcase_add_test(tests, gru_candidate_bias_p06);
    tcase_add_test(tests, hard_sigmoid_gates_p15);
    tcase_add_test(tests, leaky_slopes_p16);
    tcase_add_test(tests, output_activation_applies_to_the_cell_state);
    tcase_add_test(tests, other_cells_by_hand);
    tcase_add_test(tests, slstm_starts_at_minus_infinity);
    tcase_add_test(tests, without_bias_no_bias_is_left);
    tcase_add_test(tests, phases_are_as_few_as_the_data_needs);
    tcase_add_test(tests, printed_code_has_the_cells_own_names);
    tcase_add_test(tests, operations_stand_one_by_one);
    tcase_add_test(tests, printed_code_computes_what_the_graph_does);
    tcase_add_test(tests, derivatives_of_a_step_equal_central_differences);
    tcase_add_test(tests, table_lists_every_cell);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
