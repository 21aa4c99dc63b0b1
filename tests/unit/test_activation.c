// Activations: values against numbers worked out by hand or from the frameworks' definitions,
// behaviour at infinity and NaN, derivatives against central differences, names, and expressions.
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

typedef struct {
    Graph graph;
    int x, result;
} Applied;

static Applied applied(const Activation *activation)
{
    Applied one = {.graph = {.arena = arena}};
    one.x = graph_add(&one.graph, (Node){.op = OP_ARGUMENT});
    one.result = activation_apply(&one.graph, activation, one.x);
    return one;
}

static double leaf(const void *context, const Node *node)
{
    return node->op == OP_SEED ? 1 : *(const double *)context;
}

static double evaluated(const Applied *one, int node, double x)
{
    double *values = ARENA_ARRAY(arena, double, one->graph.count);
    graph_evaluate(&one->graph, leaf, &x, values);
    return values[node];
}

static double value_at(const char *name, const double *parameters, int count, double x)
{
    Activation activation;
    ck_assert_msg(activation_find(arena, diags, (Span){0}, name, parameters, count, &activation),
                  "%s", name);
    Applied one = applied(&activation);
    return evaluated(&one, one.result, x);
}

static const struct {
    const char *name;
    int count;
    double parameters[2];
    double x, expected;
} values[] = {
    {"tanh", 0, {0}, 0.5, 0.46211715726000976},
    {"sigmoid", 0, {0}, 1, 0.7310585786300049},
    {"relu", 0, {0}, -2, 0},
    {"relu", 0, {0}, 2.5, 2.5},
    {"leaky_relu", 1, {0.05}, -2, -0.1},
    {"leaky_relu", 0, {0}, -2, -0.02},
    {"elu", 0, {0}, -1, -0.6321205588285577},
    {"elu", 1, {2}, -1, -1.2642411176571153},
    {"elu", 0, {0}, -1e-10, -9.9999999995e-11},
    {"selu", 0, {0}, 1, 1.0507009873554805},
    {"selu", 0, {0}, -1, -1.1113307378125625},
    {"celu", 1, {2}, -1, -0.7869386805747332},
    {"gelu", 0, {0}, 1, 0.8413447460685429},
    {"gelu", 0, {0}, -1, -0.15865525393145707},
    {"gelu_tanh", 0, {0}, 1, 0.8411919906082768},
    {"silu", 0, {0}, 1, 0.7310585786300049},
    {"mish", 0, {0}, 1, 0.8650983882673103},
    {"softplus", 0, {0}, 0, 0.6931471805599453},
    {"softsign", 0, {0}, -3, -0.75},
    {"exponential", 0, {0}, 1, 2.718281828459045},
    {"linear", 0, {0}, -7, -7},
    {"relu6", 0, {0}, 7, 6},
    {"relu6", 0, {0}, 5, 5},
    {"hard_tanh", 0, {0}, -3, -1},
    {"hard_tanh", 0, {0}, 0.25, 0.25},
    {"hard_sigmoid", 0, {0}, 1, 2.0 / 3}, // P-15
    {"hard_sigmoid_k2", 0, {0}, 1, 0.7},  // P-15
    {"hard_sigmoid", 0, {0}, 2.7, 0.95},
    {"hard_sigmoid_k2", 0, {0}, 2.7, 1},
    {"affine", 2, {0.5, 0.25}, 3, 1.75},
    {"scaled_tanh", 2, {2, 0.5}, 1, 0.9242343145200195},
    {"thresholded_relu", 1, {2}, 2, 2},
    {"thresholded_relu", 0, {0}, 0.5, 0},
};

START_TEST(values_are_those_of_the_definitions)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double found = value_at(values[i].name, values[i].parameters, values[i].count, values[i].x);
        double error = fabs(found - values[i].expected);
        if (!(error <= 1e-14 * fabs(values[i].expected) + 1e-300))
            ck_abort_msg("%s(%g) is %.17g, not %.17g", values[i].name, values[i].x, found,
                         values[i].expected);
    }
}
END_TEST

START_TEST(nan_stays_and_saturation_has_no_nan)
{
    static const char *const bounded[] = {"tanh",      "sigmoid",      "relu6",
                                          "hard_tanh", "hard_sigmoid", "hard_sigmoid_k2"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        ck_assert_msg(isnan(value_at(values[i].name, values[i].parameters, values[i].count, NAN)),
                      "%s drops NaN", values[i].name);
    for (size_t i = 0; i < sizeof bounded / sizeof *bounded; i++) {
        double top = value_at(bounded[i], NULL, 0, INFINITY);
        ck_assert_double_eq(value_at(bounded[i], NULL, 0, 1e20), top);
        ck_assert_double_eq(top, strcmp(bounded[i], "relu6") ? 1 : 6);
        ck_assert_double_le(fabs(value_at(bounded[i], NULL, 0, -INFINITY)), 1);
    }
    ck_assert_double_eq(value_at("softplus", NULL, 0, 1e20), 1e20);
    ck_assert_double_eq(value_at("softplus", NULL, 0, -INFINITY), 0);
    ck_assert_double_eq(value_at("elu", NULL, 0, INFINITY), INFINITY);
    ck_assert_double_eq(value_at("elu", NULL, 0, -INFINITY), -1);
}
END_TEST

START_TEST(derivatives_equal_central_differences)
{
    const double points[] = {-3.7, -1.4, -0.3, 0.2, 0.6, 1.7, 4.1};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        Activation activation;
        ck_assert(activation_find(arena, diags, (Span){0}, values[i].name, values[i].parameters,
                                  values[i].count, &activation));
        Applied one = applied(&activation);
        int seed = graph_add(&one.graph, (Node){.op = OP_SEED}), slope;
        ck_assert(graph_differentiate(&one.graph, &one.result, &seed, 1, &one.x, 1, &slope));
        for (size_t k = 0; k < sizeof points / sizeof *points; k++) {
            const double x = points[k], step = 1e-5;
            double expected =
                (evaluated(&one, one.result, x + step) - evaluated(&one, one.result, x - step)) /
                (2 * step);
            double found = evaluated(&one, slope, x);
            if (!(fabs(found - expected) <= 1e-8 * (1 + fabs(expected))))
                ck_abort_msg("%s'(%g) is %.12g, not %.12g", values[i].name, x, found, expected);
        }
        // far away no branch that is not taken may spoil the derivative
        bool grows = strcmp(values[i].name, "exponential") == 0;
        ck_assert_msg(grows || isfinite(evaluated(&one, slope, 1e4)), "%s", values[i].name);
        ck_assert_msg(isfinite(evaluated(&one, slope, -1e4)), "%s", values[i].name);
    }
}
END_TEST

START_TEST(names_of_other_frameworks_are_known)
{
    static const char *const names[][2] = {{"LeakyReLU", "leaky_relu"},
                                           {"Hardtanh", "hard_tanh"},
                                           {"swish", "silu"},
                                           {"TANH", "tanh"},
                                           {"identity", "linear"},
                                           {"ReLU6", "relu6"},
                                           {"ThresholdedRelu", "thresholded_relu"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Activation activation;
        ck_assert_msg(activation_find(arena, diags, (Span){0}, names[i][0], NULL, 0, &activation),
                      "%s", names[i][0]);
        ck_assert_str_eq(activation.name, names[i][1]);
    }
}
END_TEST

START_TEST(ambiguous_defaults_are_warned_of)
{
    Activation activation;
    const double slope = 0.2;
    activation_find(arena, diags, (Span){0}, "leaky_relu", &slope, 1, &activation);
    activation_find(arena, diags, (Span){0}, "hard_sigmoid", NULL, 0, &activation);
    ck_assert_str_eq(printed_diagnostics(arena, diags), "");
    ck_assert(activation_find(arena, diags, (Span){0}, "leaky_relu", NULL, 0, &activation));
    assert_has(printed_diagnostics(arena, diags), "[W0301]");
    ck_assert_uint_eq(diags_error_count(diags), 0);
}
END_TEST

START_TEST(faults_of_names_and_parameters)
{
    Activation activation;
    const double many[] = {1, 2, 3}, infinite[] = {INFINITY};
    ck_assert(!activation_find(arena, diags, (Span){0}, "sigmod", NULL, 0, &activation));
    ck_assert(!activation_find(arena, diags, (Span){0}, "softmax", NULL, 0, &activation));
    ck_assert(!activation_find(arena, diags, (Span){0}, "affine", many, 3, &activation));
    ck_assert(!activation_find(arena, diags, (Span){0}, "elu", infinite, 1, &activation));
    const char *text = printed_diagnostics(arena, diags);
    assert_has(text, "unknown activation 'sigmod' [E0302]\nhelp: did you mean 'sigmoid'?");
    assert_has(text, "it divides by a sum over all units [E0307]");
    assert_has(text, "'affine' takes at most 2 parameters, not 3 [E0303]");
    assert_has(text, "parameter 1 of activation 'elu' is not finite [E0303]");
}
END_TEST

START_TEST(expressions_are_activations)
{
    Activation activation;
    ck_assert(activation_from_expression(arena, diags, (Span){0},
                                         "x > 0 ? x : 0.05*x + leaky_relu(-1, 0.5)", &activation));
    Applied one = applied(&activation);
    ck_assert_double_eq(evaluated(&one, one.result, 3), 3);
    ck_assert_double_eq_tol(evaluated(&one, one.result, -2), -0.6, 1e-15);
    Activation again;
    activation_from_expression(arena, diags, (Span){0}, "x", &again);
    ck_assert(!activation_equal(&activation, &again));
    ck_assert(activation_equal(&again, &again));
    ck_assert_uint_eq(diags_error_count(diags), 0);
}
END_TEST

static const struct {
    const char *expression, *expected;
} faulty[] = {
    {"", "expr:1:1: error: expected a value before the end [E0304]"},
    {"x +", "expr:1:4: error: expected a value before the end [E0304]"},
    {"x x", "expr:1:3: error: expected an operator before 'x' [E0304]"},
    {"x^2", "help: there is no power"},
    {"2x", "expr:1:1: error: '2x' is no number [E0304]"},
    {"x < 1 < 2", "expr:1:7: error: comparisons do not chain [E0304]"},
    {"x > 0 ? x", "expected ':' before the end"},
    {"tanh(x", "expected ')' before the end"},
    {"y*2", "expr:1:1: error: unknown name 'y' [E0305]"},
    {"a*x", "expr:1:1: error: unknown name 'a' [E0305]"},
    {"x + tahn(x)", "expr:1:5: error: unknown function 'tahn' [E0306]\n"},
    {"softmax(x)", "'softmax' is not elementwise: it divides by a sum over all units [E0307]"},
    {"min(x)", "'min' takes two arguments, not 1 [E0308]"},
    {"elu(x, x)", "a parameter of 'elu' must be a number [E0308]"},
    {"x\xc3\xa9", "expr:1:2: error: unexpected character '\xc3\xa9' [E0304]"},
    {"W.i*x", "unknown name 'W' [E0305]"},
};

START_TEST(faulty_expressions_say_where)
{
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        Activation activation;
        Diags *own = diags_create(arena);
        ck_assert_msg(
            !activation_from_expression(arena, own, (Span){0}, faulty[i].expression, &activation),
            "%s", faulty[i].expression);
        assert_has(printed_diagnostics(arena, own), faulty[i].expected);
    }
}
END_TEST

START_TEST(depth_and_size_are_bounded)
{
    Text deep = {.arena = arena}, wide = {.arena = arena};
    for (int i = 0; i < 5000; i++)
        text_add(&deep, "(");
    for (int i = 0; i < 6000; i++)
        text_addf(&wide, "x*%d + ", i + 2);
    text_add(&wide, "x");
    Activation activation;
    ck_assert(
        !activation_from_expression(arena, diags, (Span){0}, text_string(&deep), &activation));
    ck_assert(
        !activation_from_expression(arena, diags, (Span){0}, text_string(&wide), &activation));
    const char *text = printed_diagnostics(arena, diags);
    assert_has(text, "nested deeper than 100 levels [E0315]");
    assert_has(text, "more than 4096 operations [E0315]");
}
END_TEST

START_TEST(function_is_printed_with_its_parameters)
{
    Activation activation;
    const double slope = 0.05;
    activation_find(arena, diags, (Span){0}, "leaky_relu", &slope, 1, &activation);
    Text text = {.arena = arena};
    activation_print_function(&activation, "rnn_activation", &text);
    ck_assert_str_eq(text_string(&text),
                     "RNN_INLINE rnn_f rnn_activation(rnn_f x)\n{\n"
                     "    return rnn_select(rnn_gt(x, rnn_const(0.0f)), x, rnn_const(0.05f) * x);\n"
                     "}\n");
    Text table = {.arena = arena};
    activation_print_table(&table);
    assert_has(text_string(&table), "leaky_relu         slope=0.01  ");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("activation");
    TCase *tests = tcase_create("activation");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, values_are_those_of_the_definitions);
    tcase_add_test(tests, nan_stays_and_saturation_has_no_nan);
    tcase_add_test(tests, derivatives_equal_central_differences);
    tcase_add_test(tests, names_of_other_frameworks_are_known);
    tcase_add_test(tests, ambiguous_defaults_are_warned_of);
    tcase_add_test(tests, faults_of_names_and_parameters);
    tcase_add_test(tests, expressions_are_activations);
    tcase_add_test(tests, faulty_expressions_say_where);
    tcase_add_test(tests, depth_and_size_are_bounded);
    tcase_add_test(tests, function_is_printed_with_its_parameters);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
