// Checks of templates/cpu/cell.c against plain loops in double. A test defines TEST_UNITS,
// TEST_INPUTS, TEST_HEADS, TEST_REVERSED (then also going backwards) and TEST_DROPOUT, includes
// this file and runs `cell_checks`. The cell has both gates' W*x normalised together, and the rows
// of R in another order than the gates:
//
//     a, z = layer_norm(W*x) + R*(scale*h) + b        z' = sigmoid(z)
//     h' = z'*h + (1 - z')*tanh(a)
#ifndef RNNC_TESTS_CPU_CELL_CHECKS_H
#define RNNC_TESTS_CPU_CELL_CHECKS_H

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/prelude.h"

#define RNN_INPUTS TEST_INPUTS
#define RNN_UNITS TEST_UNITS
#define RNN_OUTPUTS TEST_UNITS
#define RNN_SEQUENCE_OUT 1
#define RNN_GATES 2
#define RNN_BIASES 2
#define RNN_RECURRENT_BIASES 0
#define RNN_PARAMETERS 0
#define RNN_STATES 1
#define RNN_STATE_SIZES TEST_UNITS
#define RNN_STATE_FLOATS RNN_PADDED(TEST_UNITS)
#define RNN_CARRIES 0
#define RNN_CARRY_SIZES 0
#define RNN_CARRY_FLOATS 0
#define RNN_PHASE_COUNT 1
#define RNN_PHASES(PHASE) PHASE(0)
#define RNN_NORM_PHASES(PHASE) PHASE(0)
#define RNN_PHASE_ROWS                                                                             \
    {RNN_MATRIX_R, 2, {1, 0}, 1, 0, TEST_UNITS, TEST_UNITS, 0x1, 0x0, TEST_HEADS, {2, 0}},
#define RNN_NORMS 1
#define RNN_MEMBERS 2
#define RNN_REVERSED TEST_REVERSED
#define RNN_GO_BACKWARDS TEST_REVERSED
#define RNN_RECURRENT_DROPOUT TEST_DROPOUT
#define RNN_ZONEOUT 0
#define RNN_PHASE_FLOATS                                                                           \
    (TEST_HEADS *                                                                                  \
     RNN_MATRIX_FLOATS(2 * RNN_PADDED(TEST_UNITS / TEST_HEADS), (TEST_UNITS / TEST_HEADS)))
#define RNN_PRODUCT_GATES 2
#define RNN_PRODUCT_UNITS TEST_UNITS
#define RNN_OPERAND_UNITS TEST_UNITS
#define RNN_HEADS TEST_HEADS

RNN_INLINE void rnn_members0(const rnn_f *input, const rnn_f *product, const rnn_f *bias,
                             const rnn_f *recurrent_bias, const rnn_f *parameter,
                             const rnn_f *state, const rnn_f *carry_in, rnn_f *member)
{
    (void)product, (void)bias, (void)recurrent_bias, (void)parameter, (void)state, (void)carry_in;
    member[0] = input[0];
    member[1] = input[1];
}

RNN_INLINE void rnn_phase0(const rnn_f *input, const rnn_f *product, const rnn_f *bias,
                           const rnn_f *recurrent_bias, const rnn_f *parameter, const rnn_f *state,
                           const rnn_f *carry_in, const rnn_f *statistic, rnn_f *carry_out,
                           rnn_f *state_out)
{
    (void)recurrent_bias, (void)parameter, (void)carry_in, (void)carry_out;
    const rnn_f a = (input[0] - statistic[0]) * statistic[1] + product[1] + bias[0];
    const rnn_f z = rnn_sigmoid((input[1] - statistic[0]) * statistic[1] + product[0] + bias[1]);
    state_out[0] = z * state[0] + (rnn_const(1) - z) * rnn_tanh(a);
}

#include "cpu/cell.c"

int rnnc_supports_baseline(void)
{
    return 1;
}

enum { I = TEST_INPUTS, H = TEST_UNITS, COLUMNS = TEST_UNITS / TEST_HEADS };
enum { BATCH_MAX = 29, STEPS_MAX = 21, X_GAP = 3, Y_GAP = 2 };
static const float UNTOUCHED = 7777;

static float W[2 * H * I], R[2 * H * COLUMNS], b[2 * H], scale[BATCH_MAX * H];
static float start[BATCH_MAX * H];
static float *packed, *scratch;

/// A batch with steps outermost and gaps between rows.
typedef struct {
    int64_t batch, timesteps;
    float x[STEPS_MAX * BATCH_MAX * (I + X_GAP)], y[STEPS_MAX * BATCH_MAX * (H + Y_GAP)];
    float h[BATCH_MAX * H];
    int32_t order[BATCH_MAX * STEPS_MAX];
    rnnc_row rows[BATCH_MAX];
} Run;

static unsigned seed;

static unsigned draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static void fill(float *values, size_t count, float size)
{
    for (size_t i = 0; i < count; i++)
        values[i] = size * ((float)draw() / (float)(1 << 23) - 1);
}

static void set_up(void)
{
    const float *weights[RNNC_WEIGHT_COUNT] = {
        [RNNC_WEIGHT_W] = W, [RNNC_WEIGHT_R] = R, [RNNC_WEIGHT_B] = b};
    const size_t scratch_bytes = (rnn_scratch_bytes(BATCH_MAX, STEPS_MAX) + 63) / 64 * 64;
    seed = 1;
    fill(W, 2 * H * I, 0.5f);
    fill(R, 2 * H * COLUMNS, 0.3f);
    fill(b, 2 * H, 0.2f);
    fill(start, BATCH_MAX * H, 1);
    for (int i = 0; i < BATCH_MAX * H; i++)
        scale[i] = TEST_DROPOUT ? (draw() % 3 ? 1.5f : 0) : 1;
    packed = aligned_alloc(64, (sizeof(float) * (size_t)(RNN_PACKED_FLOATS) + 63) / 64 * 64);
    scratch = aligned_alloc(64, scratch_bytes);
    ck_assert(packed && scratch);
    memset(scratch, 0xff, scratch_bytes); // NaN: nobody may count on what stands there
    rnn_pack_weights(weights, packed);
}

static void tear_down(void)
{
    free(packed);
    free(scratch);
}

static int64_t x_at(const Run *run, int64_t row, int64_t time)
{
    return (time * run->batch + row) * (I + X_GAP);
}
static int64_t y_at(const Run *run, int64_t row, int64_t place)
{
    return (place * run->batch + row) * (H + Y_GAP);
}

/// Random x; masks of every kind: row 0 takes nothing, rows 1, 4, 8, ... all, the others what the
/// draw leaves.
static Run *create_run(int64_t batch, int64_t timesteps)
{
    Run *run = calloc(1, sizeof *run);
    ck_assert_ptr_nonnull(run);
    run->batch = batch;
    run->timesteps = timesteps;
    fill(run->x, sizeof run->x / sizeof *run->x, 1);
    for (int64_t row = 0; row < batch; row++) {
        int32_t count = 0;
        for (int64_t step = 0; step < timesteps; step++)
            if (row > 0 && (row == 1 || draw() % (unsigned)(1 + row % 4) == 0))
                run->order[row * timesteps + count++] =
                    (int32_t)(TEST_REVERSED ? timesteps - 1 - step : step);
        run->rows[row] = (rnnc_row){count, (int32_t)timesteps - 1};
    }
    return run;
}

/// Rows `first` and on, `batch` of them, as a call of their own within the run's arrays.
static void execute(Run *run, int64_t first, int64_t batch, bool in_order)
{
    rnnc_cpu_args args = {.x = run->x + x_at(run, first, 0),
                          .y = run->y + y_at(run, first, 0),
                          .x_row_stride = I + X_GAP,
                          .x_step_stride = run->batch * (I + X_GAP),
                          .y_row_stride = H + Y_GAP,
                          .y_step_stride = run->batch * (H + Y_GAP),
                          .order = in_order ? run->order + first * run->timesteps : NULL,
                          .rows = in_order ? run->rows + first : NULL,
                          .recurrent_scale = scale + first * H,
                          .packed = packed,
                          .scratch = scratch,
                          .states = {run->h + first * H},
                          .batch = batch,
                          .timesteps = run->timesteps};
    rnn_run(&args);
}

static void clear(Run *run)
{
    for (size_t i = 0; i < sizeof run->y / sizeof *run->y; i++)
        run->y[i] = UNTOUCHED;
    memcpy(run->h, start, sizeof start);
}

/// One step of one row in double; `h` is renewed.
static void plain_step(const float *x, const float *scales, double *h)
{
    double inputs[2 * H], mean = 0, variance = 0, next[H];
    for (int i = 0; i < 2 * H; i++) {
        inputs[i] = 0;
        for (int k = 0; k < I; k++)
            inputs[i] += (double)W[i * I + k] * (double)x[k];
        mean += inputs[i] / (2 * H);
    }
    for (int i = 0; i < 2 * H; i++)
        variance += (inputs[i] - mean) * (inputs[i] - mean) / (2 * H);
    for (int u = 0; u < H; u++) {
        double gates[2];
        for (int g = 0; g < 2; g++) {
            gates[g] = (inputs[g * H + u] - mean) / sqrt(variance + 1e-5) + (double)b[g * H + u];
            for (int k = 0; k < COLUMNS; k++) {
                const int from = u / COLUMNS * COLUMNS + k;
                gates[g] += (double)R[(g * H + u) * COLUMNS + k] * h[from] * (double)scales[from];
            }
        }
        const double z = 1 / (1 + exp(-gates[1]));
        next[u] = z * h[u] + (1 - z) * tanh(gates[0]);
    }
    memcpy(h, next, sizeof next);
}

static void check_near(const double *wanted, const float *got, const char *what, int64_t row,
                       int64_t time)
{
    for (int u = 0; u < H; u++)
        ck_assert_msg(fabs(wanted[u] - (double)got[u]) < 1e-5,
                      "%s of row %lld, time %lld, unit %d is %.9g, expected %.9g", what,
                      (long long)row, (long long)time, u, (double)got[u], wanted[u]);
}

/// Every row against the plain loop; places of y without a step, and all gaps, are untouched.
static void check_run(const Run *run, bool in_order)
{
    for (int64_t row = 0; row < run->batch; row++) {
        bool written[STEPS_MAX] = {false};
        double h[H];
        const int64_t steps = in_order ? run->rows[row].steps : run->timesteps;
        for (int u = 0; u < H; u++)
            h[u] = (double)start[row * H + u];
        for (int64_t s = 0; s < steps; s++) {
            const int64_t last = run->timesteps - 1;
            const int64_t time = in_order        ? run->order[row * run->timesteps + s]
                                 : TEST_REVERSED ? last - s
                                                 : s;
            const int64_t place = TEST_REVERSED ? last - time : time;
            plain_step(run->x + x_at(run, row, time), scale + row * H, h);
            check_near(h, run->y + y_at(run, row, place), "y", row, time);
            written[place] = true;
        }
        check_near(h, run->h + row * H, "h", row, steps);
        for (int64_t place = 0; place < run->timesteps; place++)
            for (int u = written[place] ? H : 0; u < H + Y_GAP; u++)
                ck_assert_float_eq(run->y[y_at(run, row, place) + u], UNTOUCHED);
    }
}

/// Sizes around those of tiles, of blocks and of the chunks of a single row.
static const int64_t sizes[][2] = {{1, 1}, {1, 8}, {1, 9}, {1, 21}, {2, 3}, {7, 5}, {25, 4}};

START_TEST(all_steps_are_as_a_plain_loop_has_them)
{
    Run *run = create_run(sizes[_i][0], sizes[_i][1]);
    clear(run);
    execute(run, 0, run->batch, false);
    check_run(run, false);
    free(run);
}
END_TEST

START_TEST(rows_take_their_own_steps)
{
    static const int64_t masked[][2] = {{2, 1}, {3, 21}, {29, 7}};
    for (int i = 0; i < 3; i++) {
        Run *run = create_run(masked[i][0], masked[i][1]);
        clear(run);
        execute(run, 0, run->batch, true);
        check_run(run, true);
        free(run);
    }
}
END_TEST

/// With masks and without: a batch, each row alone, and an order that leaves nothing out.
START_TEST(rows_have_the_bits_of_their_own_runs)
{
    Run *whole = create_run(BATCH_MAX, STEPS_MAX), *alone = malloc(sizeof *alone);
    ck_assert_ptr_nonnull(alone);
    *alone = *whole;
    for (int in_order = 0; in_order < 2; in_order++) {
        clear(whole);
        clear(alone);
        execute(whole, 0, BATCH_MAX, in_order);
        for (int64_t row = 0; row < BATCH_MAX; row++)
            execute(alone, row, 1, in_order);
        ck_assert_int_eq(memcmp(whole->y, alone->y, sizeof whole->y), 0);
        ck_assert_int_eq(memcmp(whole->h, alone->h, sizeof whole->h), 0);
    }
    clear(alone);
    execute(alone, 1, 1, false); // row 1 takes every step
    ck_assert_int_eq(memcmp(whole->h + H, alone->h + H, sizeof(float) * H), 0);
    free(whole);
    free(alone);
}
END_TEST

/// In x of a masked step, in x of another row, and in the state of another head.
START_TEST(nan_stays_where_it_is)
{
    const int64_t batch = 9, timesteps = 6, sick = 4;
    Run *run = create_run(batch, timesteps), *clean = malloc(sizeof *clean);
    ck_assert_ptr_nonnull(clean);
    *clean = *run;
    clear(clean);
    execute(clean, 0, batch, true);
    for (int64_t row = 0; row < batch; row++)
        for (int64_t time = 0; time < timesteps; time++) {
            bool taken = false;
            for (int32_t s = 0; s < run->rows[row].steps; s++)
                taken |= run->order[row * timesteps + s] == time;
            for (int k = 0; k < I && (!taken || row == sick); k++)
                run->x[x_at(run, row, time) + k] = NAN;
        }
    clear(run);
    run->h[H - 1] = run->h[2 * H - 1] = NAN; // rows 0, which takes nothing, and 1: the last head
    execute(run, 0, batch, true);
    ck_assert_int_gt(run->rows[sick].steps, 0);
    for (int64_t row = 1; row < batch; row++) {
        const size_t healthy = row == 1 ? H - COLUMNS : H;
        const int same = memcmp(run->h + row * H, clean->h + row * H, sizeof(float) * healthy);
        ck_assert_msg(row == sick ? isnan(run->h[row * H]) : same == 0, "row %lld", (long long)row);
    }
    ck_assert(isnan(run->h[2 * H - 1]));
    free(run);
    free(clean);
}
END_TEST

static int cell_checks(const char *name)
{
    Suite *suite = suite_create(name);
    TCase *tests = tcase_create("cell");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, all_steps_are_as_a_plain_loop_has_them, 0,
                        sizeof sizes / sizeof sizes[0]);
    tcase_add_test(tests, rows_take_their_own_steps);
    tcase_add_test(tests, rows_have_the_bits_of_their_own_runs);
    tcase_add_test(tests, nan_stays_where_it_is);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
