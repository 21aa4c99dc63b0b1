// The CPU prelude's functions against libm in double, over floats of every exponent and both signs,
// subnormals, infinities and NaN included: at most 3 units in the last place.
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cpu/prelude.h"

enum { STRIDE = 20011 };
static const double ULPS = 3.0;

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double log_sigmoid(double x)
{
    return (x < 0 ? x : 0) - log1p(exp(-fabs(x)));
}

/// Distance in units of the spacing of floats at `wanted`; infinite where one alone is not finite.
static double ulps(double wanted, float got)
{
    float rounded = (float)wanted;
    if (isnan(wanted) || isnan(got))
        return isnan(wanted) && isnan(got) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(got))
        return rounded == got ? 0 : INFINITY;
    float size = fabsf(rounded);
    double spacing = (double)nextafterf(size, 0) - (double)size;
    spacing = spacing != 0 ? fabs(spacing) : 0x1p-149;
    return fabs((double)got - wanted) / spacing;
}

static rnn_f softplus(rnn_f x)
{
    return rnn_softplus(x);
}
static double softplus_reference(double x)
{
    return -log_sigmoid(-x);
}

#define FUNCTION(name)                                                                             \
    static rnn_f vector_##name(rnn_f x)                                                            \
    {                                                                                              \
        return rnn_##name(x);                                                                      \
    }
FUNCTION(exp)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(sqrt)
FUNCTION(tanh)
FUNCTION(sigmoid)
FUNCTION(log_sigmoid)
FUNCTION(erf)

static const struct {
    const char *name;
    rnn_f (*vector)(rnn_f);
    double (*reference)(double);
} functions[] = {
    {"exp", vector_exp, exp},
    {"expm1", vector_expm1, expm1},
    {"log", vector_log, log},
    {"sqrt", vector_sqrt, sqrt},
    {"tanh", vector_tanh, tanh},
    {"sigmoid", vector_sigmoid, sigmoid},
    {"log_sigmoid", vector_log_sigmoid, log_sigmoid},
    {"erf", vector_erf, erf},
    {"softplus", softplus, softplus_reference},
};

static void check_at(int index, uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    float got = functions[index].vector(rnn_const(x))[RNN_LANES - 1];
    double wanted = functions[index].reference((double)x);
    ck_assert_msg(ulps(wanted, got) <= ULPS, "%s(%.9g) is %.9g, expected %.9g",
                  functions[index].name, (double)x, (double)got, wanted);
}

START_TEST(function_is_accurate)
{
    static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x7f7fffff,
                                       0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x60ad78ec,
                                       0xe0ad78ec, 0x3f800000, 0xbf800000, 0x00800000, 0x42b17218};
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        check_at(_i, special[i]);
    for (uint64_t bits = 0; bits < UINT64_C(0x100000000); bits += STRIDE)
        check_at(_i, (uint32_t)bits);
}
END_TEST

START_TEST(minimum_and_maximum_keep_nan)
{
    const float values[] = {-INFINITY, -1, 0, 2, INFINITY, NAN};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            float a = values[i], b = values[k];
            float least = rnn_min(rnn_const(a), rnn_const(b))[0];
            float most = rnn_max(rnn_const(a), rnn_const(b))[0];
            bool has_nan = isnan(a) || isnan(b);
            ck_assert(has_nan ? isnan(least) : least == (a < b ? a : b));
            ck_assert(has_nan ? isnan(most) : most == (a > b ? a : b));
        }
}
END_TEST

START_TEST(select_takes_nan_as_true)
{
    const rnn_f one = rnn_const(1), two = rnn_const(2);
    ck_assert_float_eq(rnn_select(rnn_const(NAN), one, two)[0], 1.0f);
    ck_assert_float_eq(rnn_select(rnn_const(-0.0f), one, two)[0], 2.0f);
    ck_assert_float_eq(rnn_select(rnn_lt(one, two), one, two)[0], 1.0f);
    ck_assert_float_eq(rnn_select(rnn_lt(rnn_const(NAN), two), one, two)[0], 2.0f);
    ck_assert_float_eq(rnn_ne(rnn_const(NAN), rnn_const(NAN))[0], 1.0f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu_math");
    TCase *tests = tcase_create("prelude");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, function_is_accurate, 0, sizeof functions / sizeof functions[0]);
    tcase_add_test(tests, minimum_and_maximum_keep_nan);
    tcase_add_test(tests, select_takes_nan_as_true);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
