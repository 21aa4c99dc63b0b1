// Rounding to float16 and bfloat16 against bit patterns from IEEE 754 (ties, the subnormal range,
// overflow) and, for every finite float16, against the value it stands for.
#include <check.h>
#include <math.h>

#include "../../runtime/src/cuda/float16.h"

static const struct {
    float value;
    uint16_t half;
} halves[] = {
    {0.0f, 0x0000},
    {-0.0f, 0x8000},
    {1.0f, 0x3c00},
    {-2.0f, 0xc000},
    {65504.0f, 0x7bff},
    {65519.0f, 0x7bff},
    {65520.0f, 0x7c00},
    {INFINITY, 0x7c00},
    {-INFINITY, 0xfc00},
    {0x1p-14f, 0x0400},
    {0x1p-24f, 0x0001},
    {0x1p-25f, 0x0000},
    {0x1.8p-24f, 0x0002},
    {0x1.00001p-25f, 0x0001},
    {1.0f + 0x1p-11f, 0x3c00},
    {1.0f + 0x3p-11f, 0x3c02},
    {1.0f + 0x1.1p-11f, 0x3c01},
    {0x1.ff8p-15f, 0x03ff},
    {0x1.ffcp-15f, 0x0400},
};

static const struct {
    float value;
    uint16_t bits;
} bfloats[] = {
    {1.0f, 0x3f80},
    {-1.0f, 0xbf80},
    {1.0f + 0x1p-8f, 0x3f80},
    {1.0f + 0x3p-8f, 0x3f82},
    {1.0f + 0x1.01p-8f, 0x3f81},
    {INFINITY, 0x7f80},
    {0x1.fffffep127f, 0x7f80},
};

START_TEST(rounds_to_float16)
{
    ck_assert_uint_eq(rnnc_to_float16(halves[_i].value), halves[_i].half);
}
END_TEST

START_TEST(rounds_to_bfloat16)
{
    ck_assert_uint_eq(rnnc_to_bfloat16(bfloats[_i].value), bfloats[_i].bits);
}
END_TEST

START_TEST(every_float16_is_itself)
{
    for (unsigned bits = 0; bits < 0x7c00; bits++) {
        const int exponent = (int)(bits >> 10), mantissa = (int)(bits & 0x3ff);
        const double value =
            exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        ck_assert_uint_eq(rnnc_to_float16((float)value), bits);
        ck_assert_uint_eq(rnnc_to_float16((float)-value), bits | 0x8000);
    }
}
END_TEST

START_TEST(nan_stays_nan)
{
    ck_assert_uint_gt(rnnc_to_float16(NAN) & 0x7fff, 0x7c00);
    ck_assert_uint_gt(rnnc_to_bfloat16(NAN) & 0x7fff, 0x7f80);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime_float16");
    TCase *tests = tcase_create("rounding");
    tcase_add_loop_test(tests, rounds_to_float16, 0, sizeof halves / sizeof halves[0]);
    tcase_add_loop_test(tests, rounds_to_bfloat16, 0, sizeof bfloats / sizeof bfloats[0]);
    tcase_add_test(tests, every_float16_is_itself);
    tcase_add_test(tests, nan_stays_nan);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
