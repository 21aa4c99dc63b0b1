// Tests of bounds: which cells keep what they multiply within where it began, by hand.
#include "unit/cell_fixture.h"

#include "cell/bounds.h"

typedef struct {
    const char *cell, *activation;
    bool is_bounded;
} Row;

/// |tanh|, |sigmoid| and their products are at most 1; a mean of n and h is no larger than they
/// are; relu and leaky_relu grow, a projection sums any number of units, and slstm divides.
static const Row rows[] = {
    {"rnn", NULL, true},           {"rnn", "relu", false},        {"lstm", NULL, true},
    {"lstm", "leaky_relu", false}, {"gru", NULL, true},           {"gru", "relu", false},
    {"gru_before", NULL, true},    {"peephole_lstm", NULL, true}, {"cifg_lstm", NULL, true},
    {"mgu", NULL, true},           {"lstmp", NULL, false},        {"slstm", NULL, false},
};

START_TEST(operands_are_bounded_by_the_equations)
{
    const Row *row = &rows[_i];
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    CellBinding binding = {.use_bias = true};
    if (row->activation)
        activation_find(arena, diags, (Span){0}, row->activation, NULL, 0, &binding.activation);
    const Cell *cell = cell_load(arena, diags, (Span){0}, row->cell, NULL, &binding);
    ck_assert_msg(cell, "%s", printed_diagnostics(arena, diags));
    ck_assert_msg(cell_operands_are_bounded(cell) == row->is_bounded, "%s %s", row->cell,
                  row->activation ? row->activation : "");
    arena_destroy(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bounds");
    TCase *tests = tcase_create("bounds");
    tcase_add_loop_test(tests, operands_are_bounded_by_the_equations, 0,
                        sizeof rows / sizeof rows[0]);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
