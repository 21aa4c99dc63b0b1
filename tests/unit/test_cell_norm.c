// layer_norm in cells, over several units: the printed functions beside the graph and beside Ba's
// equations, what is normalised together, phases, gains, and the derivative of a whole norm.
#include "unit/cell_compiled.h"

enum { UNITS_MOST = 8, GATES = CELL_GATES_MAX };

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

/// All that a step of `units` units and `projection` projected ones reads.
typedef struct {
    double R[GATES][UNITS_MOST][UNITS_MOST], P[UNITS_MOST][UNITS_MOST];
    StepData unit[UNITS_MOST]; ///< W*x, biases, parameters, states; products and statistics
} Numbers;

typedef struct {
    int units, projection;
    Numbers of;
} Net;

/// Numbers that look random but are the same on each run.
static Net net_of(int units, int projection)
{
    Net net = {.units = units, .projection = projection};
    double *all = (double *)&net.of;
    unsigned bits = 4711;
    for (size_t i = 0; i < sizeof net.of / sizeof *all; i++) {
        bits = bits * 1103515245u + 12345u;
        all[i] = (double)(bits >> 16) / 65536.0 * 1.8 - 0.9;
    }
    return net;
}

static int size_of(const Net *net, int domain)
{
    return domain == DOMAIN_PROJECTION ? net->projection : net->units;
}

/// Row `unit` of a product's matrix times a vector.
static double multiplied(const Net *net, int index, int unit, const double *operand, int depth)
{
    double sum = 0;
    const double *row = index == GATES ? net->of.P[unit] : net->of.R[index][unit];
    for (int i = 0; i < depth; i++)
        sum += row[i] * operand[i];
    return sum;
}

static bool is_projected(const Cell *cell, int node)
{
    const Node *at = &cell->graph.nodes[node];
    if (at->op == OP_PRODUCT && at->index == GATES)
        return true;
    if (at->op == OP_STATE)
        return cell->states[at->index].domain == DOMAIN_PROJECTION;
    for (int k = 0; k < op_arity(at->op); k++)
        if (is_projected(cell, at->args[k]))
            return true;
    return false;
}

static int node_size(const Net *net, const Cell *cell, int node)
{
    return is_projected(cell, node) ? net->projection : net->units;
}

/// The values of all nodes [unit][node], all products and statistics found by repetition.
static double **evaluate(const Cell *cell, Net *net)
{
    double **values = ARENA_ARRAY(arena, double *, UNITS_MOST);
    double operand[UNITS_MOST], members[GATES * UNITS_MOST];
    for (int u = 0; u < UNITS_MOST; u++)
        values[u] = ARENA_ARRAY(arena, double, cell->graph.count);
    for (int round = 0; round <= 2 * CELL_PHASES_MAX; round++) {
        for (int u = 0; u < UNITS_MOST; u++)
            graph_evaluate(&cell->graph, step_leaf, &net->of.unit[u], values[u]);
        for (int index = 0; index <= GATES; index++) {
            if (index < GATES ? index >= cell->R.count : !cell->has_projection)
                continue;
            const int depth = node_size(net, cell, cell->product_operands[index]);
            for (int u = 0; u < depth; u++)
                operand[u] = values[u][cell->product_operands[index]];
            for (int u = 0; u < UNITS_MOST; u++)
                net->of.unit[u].product[index] = multiplied(net, index, u, operand, depth);
        }
        for (int n = 0; n < cell->norm_count; n++) {
            const CellNorm *norm = &cell->norms[n];
            int count = 0;
            for (int k = 0; k < norm->member_count; k++)
                for (int u = 0; u < node_size(net, cell, norm->members[k]); u++)
                    members[count++] = values[u][norm->members[k]];
            for (int u = 0; u < UNITS_MOST; u++)
                mean_and_rstd(members, count, &net->of.unit[u].statistic[2 * n]);
        }
    }
    return values;
}

static void step_graph(const Cell *cell, Net *net)
{
    double **values = evaluate(cell, net);
    for (int i = 0; i < cell->state_count; i++)
        for (int u = 0; u < UNITS_MOST; u++)
            net->of.unit[u].state[i] = values[u][cell->states[i].next];
}

static void *function_of(void *library, const char *name, int number)
{
    void *function = dlsym(library, arena_format(arena, "%s%d", name, number));
    ck_assert_msg(function != NULL, "%s%d", name, number);
    return function;
}

/// One phase by the compiled functions: product, norms, then each unit.
static void run_phase(const Cell *cell, void *library, int number, Net *net,
                      double carries[UNITS_MOST][64])
{
    const CellPhase *phase = &cell->phases[number];
    const int size = size_of(net, (int)phase->domain);
    const int depth = size_of(net, (int)phase->operand_domain);
    double product[UNITS_MOST][GATES] = {{0}}, operand[UNITS_MOST], statistic[16] = {0};
    double member[UNITS_MOST][CELL_NORMS_MAX * GATES], of_norm[GATES * UNITS_MOST];
    PhaseFunction *run;
    MembersFunction *take = NULL;
    *(void **)&run = function_of(library, "rnn_phase", number);
    if (phase->norm_count > 0)
        *(void **)&take = function_of(library, "rnn_members", number);
    for (int u = 0; u < depth && phase->row_count > 0; u++)
        operand[u] = phase->operand_is_state ? net->of.unit[u].state[phase->operand]
                                             : carries[u][phase->operand];
    for (int u = 0; u < size; u++) {
        const StepData *of = &net->of.unit[u];
        for (int i = 0; i < phase->row_count; i++)
            product[u][i] = multiplied(net, phase->matrix == MATRIX_P ? GATES : phase->rows[i], u,
                                       operand, depth);
        if (take)
            take(of->input, product[u], of->b, of->rb, of->p, of->state, carries[u], member[u]);
    }
    for (int n = 0, first = 0; n < phase->norm_count; first += phase->norms[n++].member_count) {
        int count = 0;
        for (int k = 0; k < phase->norms[n].member_count; k++)
            for (int u = 0; u < size; u++)
                of_norm[count++] = member[u][first + k];
        mean_and_rstd(of_norm, count, &statistic[2 * n]);
    }
    for (int u = 0; u < size; u++) {
        StepData *of = &net->of.unit[u];
        double next[CELL_STATES_MAX];
        run(of->input, product[u], of->b, of->rb, of->p, of->state, carries[u], statistic,
            carries[u], next);
        for (int i = 0; i < phase->state_count; i++)
            of->state[phase->states[i]] = next[phase->states[i]];
    }
}

static void step_compiled(const Cell *cell, void *library, Net *net)
{
    double carries[UNITS_MOST][64] = {{0}};
    ck_assert_int_le(cell->carry_count, 64);
    for (int number = 0; number < cell->phase_count; number++)
        run_phase(cell, library, number, net, carries);
}

static void compare_states(const Cell *cell, const Net *net, const Net *other, const char *what)
{
    for (int i = 0; i < cell->state_count; i++)
        for (int u = 0; u < size_of(net, (int)cell->states[i].domain); u++) {
            double found = net->of.unit[u].state[i], expected = other->of.unit[u].state[i];
            if (!(fabs(found - expected) <= 1e-6 * (1 + fabs(expected))))
                ck_abort_msg("%s of %d units: %s[%d] is %.9g in C, %.9g in %s", cell->name,
                             net->units, cell->states[i].name, u, found, expected, what);
        }
}

/// Three steps of the compiled functions beside three of `step`.
static void compare_steps(const Cell *cell, void (*step)(const Cell *cell, Net *net),
                          const char *what)
{
    static const int sizes[][2] = {{1, 1}, {3, 2}, {8, 5}};
    void *library = compiled(arena, cell);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Net net = net_of(sizes[i][0], sizes[i][1]), same = net;
        for (int t = 0; t < 3; t++) {
            step_compiled(cell, library, &net);
            step(cell, &same);
            compare_states(cell, &net, &same, what);
        }
    }
    dlclose(library);
}

static const Cell *builtin(const char *name)
{
    const Cell *cell =
        cell_load(arena, diags, (Span){0}, name, NULL, &(CellBinding){.use_bias = true});
    ck_assert_ptr_nonnull(cell);
    return cell;
}

static const Cell *from_text(const char *text, const CellBinding *binding)
{
    const Cell *cell = cell_from(arena, diags, text, strlen(text), binding);
    if (!cell)
        ck_abort_msg("%s", printed_diagnostics(arena, diags));
    return cell;
}

static void normalise(double *values, int count)
{
    double statistic[2];
    mean_and_rstd(values, count, statistic);
    for (int i = 0; i < count; i++)
        values[i] = (values[i] - statistic[0]) * statistic[1];
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/// Ba et al. 2016, equations 20 to 22, with gains and biases as the cell stacks them.
static void step_ba(const Cell *cell, Net *net)
{
    (void)cell;
    const int H = net->units;
    double h[UNITS_MOST], c[UNITS_MOST], of_x[4 * UNITS_MOST], of_h[4 * UNITS_MOST];
    double pre[4][UNITS_MOST];
    for (int u = 0; u < H; u++)
        h[u] = net->of.unit[u].state[0];
    for (int gate = 0; gate < 4; gate++)
        for (int u = 0; u < H; u++) {
            of_x[gate * H + u] = net->of.unit[u].input[gate];
            of_h[gate * H + u] = multiplied(net, gate, u, h, H);
        }
    normalise(of_x, 4 * H);
    normalise(of_h, 4 * H);
    for (int u = 0; u < H; u++) {
        const StepData *of = &net->of.unit[u];
        for (int gate = 0; gate < 4; gate++)
            pre[gate][u] = of->p[2 * gate] * of_x[gate * H + u] +
                           of->p[2 * gate + 1] * of_h[gate * H + u] + of->b[gate];
        c[u] = net->of.unit[u].state[1] =
            logistic(pre[1][u]) * of->state[1] + logistic(pre[0][u]) * tanh(pre[2][u]);
    }
    normalise(c, H);
    for (int u = 0; u < H; u++) {
        StepData *of = &net->of.unit[u];
        of->state[0] = logistic(pre[3][u]) * tanh(of->p[8] * c[u] + of->b[4]);
    }
}

START_TEST(layer_norm_lstm_is_bas)
{
    compare_steps(builtin("layer_norm_lstm"), step_ba, "the equations");
    compare_steps(builtin("layer_norm_lstm"), step_graph, "the graph");
}
END_TEST

/// Norms that schedule in unusual ways: a stack whose values two phases read, norms before and
/// after a projection, norms of norms, old states read late, more norms than a phase takes, a norm
/// before any product, no product at all, a product both normalised and not, names of C.
static const char *const unusual[] = {
    "cell norm_gru\nstate h\nr = sigmoid(layer_norm(W.r*x) + layer_norm(R.r*h))\n"
    "z = sigmoid(layer_norm(W.z*x) + layer_norm(R.z*h) + b.z)\n"
    "n = tanh(layer_norm(W.n*x) + p.n*layer_norm(R.n*(r*h)))\nh' = (1 - z)*n + z*h\n",
    "cell projected\nstate h, c\no = sigmoid(W.o*x + layer_norm(R.o*h))\n"
    "c' = 0.5*c + layer_norm(W.c*x)\nh' = P*(o*tanh(layer_norm(c')))\n",
    "cell of_projection\nstate h\nh' = layer_norm(P*tanh(W.a*x + R.a*h)) + 0.5*h\n",
    "cell nested\nstate h\nv = layer_norm(W.a*x + R.a*h)\nw = layer_norm(tanh(v) + b.w)\n"
    "h' = tanh(layer_norm(w*w)) + v\n",
    "cell old\nstate h, c\nc' = tanh(W.a*x + R.a*h)\nh' = layer_norm(c) + layer_norm(c' + h)\n",
    "cell late\nstate h, c\nh' = tanh(W.a*x + R.a*c)\nc' = layer_norm(layer_norm(h'*h') + h) + c\n",
    "cell many\nstate h\nh' = layer_norm(W.a*x + b.a)*layer_norm(W.b*x + b.b)"
    " - layer_norm(W.c*x + b.c)*layer_norm(W.d*x + b.d)*(layer_norm(W.e*x + b.e)\n"
    " + layer_norm(W.f*x + b.f)) + tanh(R.h*h)\n",
    "cell operand\nstate h\nh' = tanh(R.a*layer_norm(W.v*x) + layer_norm(R.b*h))\n",
    "cell alone\nstate h\nh' = layer_norm(h + W.a*x)\n",
    "cell both\nstate h\nv = R.a*h\nh' = layer_norm(v) + layer_norm(W.a*x + v) + tanh(v)*W.a*x\n",
    "cell words\nstate h\nmember = layer_norm(W.a*x + h)\nstatistic = member*member\n"
    "h' = layer_norm(statistic + R.a*h) - statistic\n",
};

START_TEST(printed_norms_compute_what_the_graph_does)
{
    for (size_t i = 0; i < sizeof unusual / sizeof *unusual; i++)
        compare_steps(from_text(unusual[i], &(CellBinding){.use_bias = true}), step_graph,
                      "the graph");
    const CellBinding binding = {.use_bias = true, .clip = 0.7, .input_forget = true};
    compare_steps(cell_load(arena, diags, (Span){0}, "layer_norm_lstm", NULL, &binding), step_graph,
                  "the graph");
}
END_TEST

START_TEST(schedule_of_the_lstm)
{
    Text text = {.arena = arena};
    const Cell *cell = builtin("layer_norm_lstm");
    cell_print(cell, &text);
    text.data[strstr(text.data, "%0 = ") - text.data] = '\0';
    ck_assert_str_eq(text.data,
                     "cell layer_norm_lstm \"Ba et al. 2016, LSTM with layer normalisation\"\n"
                     "  state h [units], after the step %74\n"
                     "  state c [units], after the step %64\n"
                     "  W: i f g o\n  R: i f g o\n  b: i f g o c\n"
                     "  p: wi ri wf rf wg rg wo ro c\n"
                     "  phase 0: [R.i R.f R.g R.o] * h norm(W.i W.f W.g W.o) "
                     "norm(R.i R.f R.g R.o) -> carry 0 (o) carry 1 (c') c'\n"
                     "  phase 1: norm(c') -> h'\n");
    Text code = {.arena = arena};
    cell_print_pointwise(cell, &code);
    assert_has(text_string(&code), "    member[0] = input[0];\n    member[1] = input[1];\n"
                                   "    member[2] = input[2];\n    member[3] = input[3];\n"
                                   "    member[4] = product[0];\n    member[5] = product[1];\n");
    assert_has(text_string(&code), "    const rnn_f i = rnn_sigmoid(parameter[0] * "
                                   "((input[0] - statistic[0]) * statistic[1]) + parameter[1] * "
                                   "((product[0] - statistic[2]) * statistic[3]) + bias[0]);\n");
    assert_has(text_string(&code),
               "RNN_INLINE void rnn_members1(const rnn_f *input, const rnn_f *product, const rnn_f "
               "*bias,\n"
               "                             const rnn_f *recurrent_bias, const rnn_f *parameter,\n"
               "                             const rnn_f *state, const rnn_f *carry_in, rnn_f "
               "*member)\n{\n"
               "    (void)input, (void)product, (void)bias, (void)recurrent_bias, "
               "(void)parameter, (void)state;\n"
               "    member[0] = carry_in[1];\n}\n");
    assert_has(text_string(&code), "    const rnn_f h_next = carry_in[0] * rnn_tanh(parameter[8] * "
                                   "((carry_in[1] - statistic[0]) * statistic[1]) + bias[4]);\n");
}
END_TEST

/// Members of each norm of the cell, as "2 2 1".
static const char *member_counts(const Cell *cell)
{
    Text text = {.arena = arena};
    for (int i = 0; i < cell->norm_count; i++)
        text_addf(&text, i ? " %d" : "%d", cell->norms[i].member_count);
    return text_string(&text);
}

START_TEST(products_of_one_vector_are_normalised_together)
{
    const CellBinding plain = {.use_bias = true}, without = {.use_bias = false};
    const char *const gru = unusual[0];
    ck_assert_str_eq(member_counts(from_text(gru, &plain)), "3 2 1"); // W.rzn, R.rz*h, R.n*(r*h)
    // what is added to a product makes it a vector of its own, a bias that is not there too
    const char *const sums = "cell c\nstate h\na = layer_norm(W.a*x + b.a)\n"
                             "d = layer_norm(W.d*x)\ne = layer_norm((W.e*x))\n"
                             "v = W.v*x\nh' = a + d + e + layer_norm(v) + layer_norm(v)\n";
    ck_assert_str_eq(member_counts(from_text(sums, &plain)), "1 3");
    ck_assert_str_eq(member_counts(from_text(sums, &without)), "1 3");
    // input_forget leaves the stack as it is
    const CellBinding coupling = {.use_bias = true, .input_forget = true};
    const Cell *cell = cell_load(arena, diags, (Span){0}, "layer_norm_lstm", NULL, &coupling);
    ck_assert_str_eq(member_counts(cell), "4 4 1");
    ck_assert_int_eq(cell->phases[0].row_count, 4);
    // a vector of equal numbers is its own mean
    const Cell *flat = from_text("cell c\nstate h\nh' = W.a*x + layer_norm(b.a)\n", &without);
    ck_assert_int_eq(flat->norm_count, 0);
}
END_TEST

START_TEST(a_phase_takes_few_norms_and_another_the_rest)
{
    const Cell *cell = from_text(unusual[6], &(CellBinding){.use_bias = true});
    ck_assert_int_eq(cell->phase_count, 2);
    ck_assert_int_eq(cell->phases[0].norm_count, CELL_NORMS_MAX);
    ck_assert_int_eq(cell->phases[1].norm_count, 2);
    ck_assert_int_eq(cell->phases[1].row_count, 0);
}
END_TEST

START_TEST(gains_are_what_multiplies_a_norm)
{
    const Cell *lstm = builtin("layer_norm_lstm"), *peephole = builtin("peephole_lstm");
    for (int i = 0; i < GATES; i++) {
        ck_assert_int_eq(lstm->is_gain[i], i < 9);
        ck_assert(!peephole->is_gain[i]);
    }
    const Cell *mixed = from_text("cell c\nstate h\nh' = p.a*h + layer_norm(W.a*x)*p.b + p.c\n",
                                  &(CellBinding){.use_bias = true});
    ck_assert(!mixed->is_gain[0] && mixed->is_gain[1] && !mixed->is_gain[2]);
}
END_TEST

/// The sum over units of (1 + u)*h'.
static double weighted(const Cell *cell, Net net)
{
    double sum = 0;
    step_graph(cell, &net);
    for (int u = 0; u < net.units; u++)
        sum += (1 + u) * net.of.unit[u].state[0];
    return sum;
}

/// As step_leaf, with the seed that `weighted` gives unit 0, 1, ...; the unit is in state[7].
static double seeded_leaf(const void *context, const Node *node)
{
    return node->op == OP_SEED ? 1 + ((const StepData *)context)->state[7]
                               : step_leaf(context, node);
}

START_TEST(statistics_pass_adjoints_on_to_members)
{
    const Cell *cell = from_text("cell c\nstate h\nh' = tanh(p.a*layer_norm(W.a*x) + W.b*x)\n",
                                 &(CellBinding){.use_bias = true});
    Net net = net_of(5, 1);
    evaluate(cell, &net); // fills the statistics
    Graph graph = cell->graph;
    int next = cell->states[0].next, seed = graph_add(&graph, (Node){.op = OP_SEED});
    int inputs[3] = {graph_add(&graph, (Node){.op = OP_INPUT, .index = 0}),
                     graph_add(&graph, (Node){.op = OP_STATISTIC, .index = 0}),
                     graph_add(&graph, (Node){.op = OP_STATISTIC, .index = 1})};
    int adjoints[3];
    ck_assert(!graph_differentiate(&graph, &next, &seed, 1, inputs, 1, adjoints));
    ck_assert(graph_differentiate(&graph, &next, &seed, 1, inputs, 3, adjoints));
    double direct[5], of_mean = 0, of_rstd = 0;
    double *values = ARENA_ARRAY(arena, double, graph.count);
    for (int u = 0; u < 5; u++) {
        net.of.unit[u].state[7] = u;
        graph_evaluate(&graph, seeded_leaf, &net.of.unit[u], values);
        direct[u] = values[adjoints[0]];
        of_mean += values[adjoints[1]];
        of_rstd += values[adjoints[2]];
    }
    const double *statistic = net.of.unit[0].statistic, step = 1e-5;
    for (int u = 0; u < 5; u++) {
        double off = net.of.unit[u].input[0] - statistic[0];
        double found =
            direct[u] + of_mean / 5 - of_rstd * off * pow(statistic[1], 3) / 5; // graph.h
        Net more = net, less = net;
        more.of.unit[u].input[0] += step;
        less.of.unit[u].input[0] -= step;
        double expected = (weighted(cell, more) - weighted(cell, less)) / (2 * step);
        ck_assert_double_eq_tol(found, expected, 1e-7 * (1 + fabs(expected)));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cell_norm");
    TCase *tests = tcase_create("cell_norm");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, layer_norm_lstm_is_bas);
    tcase_add_test(tests, printed_norms_compute_what_the_graph_does);
    tcase_add_test(tests, schedule_of_the_lstm);
    tcase_add_test(tests, products_of_one_vector_are_normalised_together);
    tcase_add_test(tests, a_phase_takes_few_norms_and_another_the_rest);
    tcase_add_test(tests, gains_are_what_multiplies_a_norm);
    tcase_add_test(tests, statistics_pass_adjoints_on_to_members);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
