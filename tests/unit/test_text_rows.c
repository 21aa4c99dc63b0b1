// Which characters a step of training takes, by hand, and the learning rate of each step.
#include <check.h>

#include "train/text_rows.h"
#include "train/trainer.h"

enum { COUNT = 12, ROWS = 2, T = 2 };

static int32_t text[COUNT], inputs[ROWS * T], targets[ROWS * T];

static TextRows ring(uint64_t seed)
{
    for (int i = 0; i < COUNT; i++)
        text[i] = i;
    return (TextRows){text, COUNT, ROWS, T, seed};
}

static void assert_tokens(const int32_t *found, const int32_t *expected)
{
    for (int i = 0; i < ROWS * T; i++)
        ck_assert_int_eq(found[i], expected[i]);
}

/// Rows of (12 - 1) / 2 = 5 characters: two steps of two, the fifth is a target alone.
START_TEST(rows_go_on_where_they_were)
{
    const TextRows rows = ring(0);
    ck_assert(text_rows_take(&rows, 0, inputs, targets));
    assert_tokens(inputs, (int32_t[]){0, 1, 5, 6});
    assert_tokens(targets, (int32_t[]){1, 2, 6, 7});
    ck_assert(!text_rows_take(&rows, 1, inputs, targets));
    assert_tokens(inputs, (int32_t[]){2, 3, 7, 8});
    assert_tokens(targets, (int32_t[]){3, 4, 8, 9});
}
END_TEST

/// A later pass is the same around the ring from a start of its own, which the seed decides.
START_TEST(passes_start_elsewhere)
{
    bool differs = false;
    for (uint64_t seed = 0; seed < 4; seed++) {
        const TextRows rows = ring(seed);
        for (int64_t pass = 1; pass < 4; pass++) {
            ck_assert(text_rows_take(&rows, 2 * pass, inputs, targets));
            const int32_t start = inputs[0];
            differs = differs || start != 0;
            ck_assert_int_eq(inputs[2], (start + 5) % COUNT);
            ck_assert_int_eq(targets[3], (start + 7) % COUNT);
        }
    }
    ck_assert(differs);
}
END_TEST

/// One row of 12 characters: 11 to foretell, in chunks of 2 the last has 1; row 1 is not used.
START_TEST(scores_each_character_once)
{
    const TextRows rows = ring(0);
    ck_assert_int_eq(text_rows_score(&rows, 1, 0, inputs, targets), 2);
    assert_tokens(targets, (int32_t[]){1, 2, -1, -1});
    ck_assert_int_eq(text_rows_score(&rows, 1, 5, inputs, targets), 1);
    assert_tokens(targets, (int32_t[]){11, -1, -1, -1});
    ck_assert_int_eq(text_rows_score(&rows, 2, 2, inputs, targets), 2); // rows of 6
    assert_tokens(targets, (int32_t[]){5, -1, 11, -1});
}
END_TEST

START_TEST(rate_rises_and_falls)
{
    const TrainOptions options = {.steps = 100, .warmup = 4, .rate = 0.5, .final_rate = 0.2};
    ck_assert_double_eq_tol(train_rate(&options, 0), 0.125, 1e-12);
    ck_assert_double_eq_tol(train_rate(&options, 50), 0.3, 1e-12); // (1 + 0.2) / 2
    ck_assert_double_eq_tol(train_rate(&options, 100), 0.1, 1e-12);
    const TrainOptions flat = {.steps = 100, .warmup = 0, .rate = 0.5, .final_rate = 1};
    ck_assert_double_eq_tol(train_rate(&flat, 0), 0.5, 1e-12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text_rows");
    TCase *tests = tcase_create("text_rows");
    tcase_add_test(tests, rows_go_on_where_they_were);
    tcase_add_test(tests, passes_start_elsewhere);
    tcase_add_test(tests, scores_each_character_once);
    tcase_add_test(tests, rate_rises_and_falls);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
