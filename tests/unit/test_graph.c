// Graph: nodes once each, folding, evaluation, and the derivative of every operation against
// float64 central differences.
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "cell/graph.h"

static Arena *arena;
static Graph graph;

static void set_up(void)
{
    arena = arena_create();
    graph = (Graph){.arena = arena};
}

static void tear_down(void)
{
    arena_destroy(arena);
}

static int argument(int index)
{
    return graph_add(&graph, (Node){.op = OP_STATE, .index = index});
}

static double leaf(const void *context, const Node *node)
{
    return node->op == OP_SEED ? 1 : ((const double *)context)[node->index];
}

static double value_of(int node, const double *arguments)
{
    double *values = ARENA_ARRAY(arena, double, graph.count);
    graph_evaluate(&graph, leaf, arguments, values);
    return values[node];
}

START_TEST(equal_nodes_are_one)
{
    int a = argument(0), b = argument(1);
    ck_assert_int_ne(a, b);
    ck_assert_int_eq(argument(0), a);
    ck_assert_int_eq(graph_op(&graph, OP_MUL, a, b, 0), graph_op(&graph, OP_MUL, a, b, 0));
    ck_assert_int_ne(graph_op(&graph, OP_SUB, a, b, 0), graph_op(&graph, OP_SUB, b, a, 0));
    ck_assert_int_ne(graph_constant(&graph, 0.0), graph_constant(&graph, -0.0));
}
END_TEST

START_TEST(constants_fold_and_neutral_operands_vanish)
{
    int a = argument(0), two = graph_constant(&graph, 2), zero = graph_constant(&graph, 0);
    int eight = graph_op(&graph, OP_MUL, two, graph_constant(&graph, 4), 0);
    ck_assert_int_eq(graph.nodes[eight].op, OP_CONST);
    ck_assert_double_eq(graph.nodes[eight].value, 8);
    ck_assert_int_eq(graph_op(&graph, OP_ADD, a, zero, 0), a);
    ck_assert_int_eq(graph_op(&graph, OP_MUL, graph_constant(&graph, 1), a, 0), a);
    ck_assert_int_eq(graph_op(&graph, OP_SELECT, two, a, zero), a);
    int product = graph_op(&graph, OP_MUL, zero, a, 0); // 0 * infinity is NaN: it stays
    ck_assert(isnan(value_of(product, (double[]){INFINITY})));
}
END_TEST

START_TEST(min_and_max_keep_nan)
{
    int a = argument(0), b = argument(1);
    int least = graph_op(&graph, OP_MIN, a, b, 0), most = graph_op(&graph, OP_MAX, a, b, 0);
    ck_assert(isnan(value_of(least, (double[]){NAN, 1})));
    ck_assert(isnan(value_of(least, (double[]){1, NAN})));
    ck_assert(isnan(value_of(most, (double[]){NAN, 1})));
    ck_assert(isnan(value_of(most, (double[]){1, NAN})));
    ck_assert_double_eq(value_of(most, (double[]){3, -4}), 3);
    ck_assert_double_eq(value_of(least, (double[]){3, -4}), -4);
}
END_TEST

START_TEST(saturating_functions_are_stable)
{
    int a = argument(0);
    const double far[] = {100, 1e20, INFINITY};
    for (size_t i = 0; i < 3; i++) {
        double plus[] = {far[i]}, minus[] = {-far[i]};
        ck_assert_double_eq(value_of(graph_op(&graph, OP_TANH, a, 0, 0), plus), 1);
        ck_assert_double_eq(value_of(graph_op(&graph, OP_TANH, a, 0, 0), minus), -1);
        ck_assert_double_eq(value_of(graph_op(&graph, OP_SIGMOID, a, 0, 0), plus), 1);
        ck_assert_double_le(value_of(graph_op(&graph, OP_SIGMOID, a, 0, 0), minus), 4e-44);
        ck_assert_double_eq(value_of(graph_op(&graph, OP_LOG_SIGMOID, a, 0, 0), minus), -far[i]);
        ck_assert_double_eq_tol(value_of(graph_op(&graph, OP_LOG_SIGMOID, a, 0, 0), plus), 0,
                                4e-44);
    }
}
END_TEST

/// Compares the derivative of `node` by both arguments with central differences.
static void check_derivative(Op op, int node, const double *at)
{
    int inputs[] = {argument(0), argument(1)}, adjoints[2];
    int seed = graph_add(&graph, (Node){.op = OP_SEED});
    ck_assert(graph_differentiate(&graph, &node, &seed, 1, inputs, 2, adjoints));
    for (int i = 0; i < 2; i++) {
        const double step = 1e-5;
        double more[] = {at[0], at[1]}, less[] = {at[0], at[1]};
        more[i] += step;
        less[i] -= step;
        double expected = (value_of(node, more) - value_of(node, less)) / (2 * step);
        double found = value_of(adjoints[i], at);
        if (!(fabs(found - expected) <= 1e-8 * (1 + fabs(expected))))
            ck_abort_msg("%s at (%g, %g) by argument %d: %.12g, not %.12g", op_name(op), at[0],
                         at[1], i, found, expected);
    }
}

START_TEST(every_operation_has_its_derivative)
{
    const double points[][2] = {{0.7, 1.3}, {1.9, 0.4}, {-0.8, 0.6}, {-1.2, -2.1}};
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_arity((Op)op) == 0)
            continue;
        for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
            bool positive_only = op == OP_LOG || op == OP_SQRT;
            if (positive_only && points[i][0] < 0)
                continue;
            int a = argument(0), b = argument(1);
            int square = graph_op(&graph, OP_MUL, b, b, 0);
            int node = op == OP_SELECT
                           ? graph_op(&graph, OP_SELECT, graph_op(&graph, OP_LT, a, b, 0), square,
                                      graph_op(&graph, OP_MUL, a, b, 0))
                           : graph_op(&graph, (Op)op, a, b, 0);
            check_derivative((Op)op, node, points[i]);
            // the same behind another node, and used twice
            int twice = graph_op(&graph, OP_MUL, node, graph_op(&graph, OP_ADD, node, b, 0), 0);
            check_derivative((Op)op, twice, points[i]);
        }
    }
}
END_TEST

START_TEST(adjoints_add_up_over_outputs)
{
    // 3*(a*b) + 5*a: by a 3*b + 5, by b 3*a
    int a = argument(0), b = argument(1), unused = argument(2);
    int outputs[] = {graph_op(&graph, OP_MUL, a, b, 0), a};
    int seeds[] = {graph_constant(&graph, 3), graph_constant(&graph, 5)};
    int inputs[] = {a, b, unused}, adjoints[3];
    ck_assert(graph_differentiate(&graph, outputs, seeds, 2, inputs, 3, adjoints));
    const double at[] = {2, 7, 0};
    ck_assert_double_eq(value_of(adjoints[0], at), 26);
    ck_assert_double_eq(value_of(adjoints[1], at), 6);
    ck_assert_int_eq(graph.nodes[adjoints[2]].op, OP_CONST);
    ck_assert_double_eq(graph.nodes[adjoints[2]].value, 0);
}
END_TEST

START_TEST(statistics_are_no_constants)
{
    // (a - mean)*rstd: refused by a or by a and mean alone
    int a = argument(0), b = argument(1);
    int mean = graph_add(&graph, (Node){.op = OP_STATISTIC, .index = 2});
    int scale = graph_add(&graph, (Node){.op = OP_STATISTIC, .index = 3});
    int off = graph_op(&graph, OP_SUB, a, mean, 0);
    int normed = graph_op(&graph, OP_MUL, off, scale, 0), seed = graph_constant(&graph, 4);
    int inputs[] = {a, mean, scale, b}, adjoints[4], count = graph.count;
    ck_assert(!graph_differentiate(&graph, &normed, &seed, 1, inputs, 1, adjoints));
    ck_assert(!graph_differentiate(&graph, &normed, &seed, 1, inputs, 2, adjoints));
    ck_assert_int_eq(graph.count, count);
    ck_assert(graph_differentiate(&graph, &normed, &seed, 1, inputs, 4, adjoints));
    const double at[] = {2, 7, 3, .5};
    ck_assert_double_eq(value_of(adjoints[0], at), 4 * .5);
    ck_assert_double_eq(value_of(adjoints[1], at), -4 * .5);
    ck_assert_double_eq(value_of(adjoints[2], at), 4 * (2 - 3));
    // where no statistic is needed, none has to be given
    ck_assert(graph_differentiate(&graph, &a, &seed, 1, inputs, 1, adjoints));
}
END_TEST

START_TEST(graph_prints_one_node_a_line)
{
    int a = argument(0);
    int sum = graph_op(&graph, OP_ADD, a, graph_constant(&graph, 0.5), 0);
    graph.nodes[sum].name = "s";
    Text text = {.arena = arena};
    graph_print(&graph, &text);
    ck_assert_str_eq(text_string(&text), "%0 = STATE 0\n%1 = CONST 0.5\n%2 = ADD %0 %1 's'\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph");
    TCase *tests = tcase_create("graph");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, equal_nodes_are_one);
    tcase_add_test(tests, constants_fold_and_neutral_operands_vanish);
    tcase_add_test(tests, min_and_max_keep_nan);
    tcase_add_test(tests, saturating_functions_are_stable);
    tcase_add_test(tests, every_operation_has_its_derivative);
    tcase_add_test(tests, adjoints_add_up_over_outputs);
    tcase_add_test(tests, statistics_are_no_constants);
    tcase_add_test(tests, graph_prints_one_node_a_line);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
