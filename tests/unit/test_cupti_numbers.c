// The structs and numbers that a trace was written with, against CUPTI's headers where these are
// installed.
#include <check.h>

#include "../../runtime/src/cuda/cupti.h"

#if __has_include(<cupti.h>) && __has_include(<cuda.h>)
#define RNNC_HAS_CUPTI_HEADERS 1
#include <cupti.h>
#endif

START_TEST(structs_begin_as_cuptis)
{
#ifdef RNNC_HAS_CUPTI_HEADERS
    ck_assert_int_eq(CUPTI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
    ck_assert_int_eq(CUPTI_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
    ck_assert_int_eq(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    ck_assert_int_eq(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    ck_assert_uint_eq(offsetof(CuptiKernel, registers),
                      offsetof(CUpti_ActivityKernel9, registersPerThread));
    ck_assert_uint_eq(offsetof(CuptiKernel, start), offsetof(CUpti_ActivityKernel9, start));
    ck_assert_uint_eq(offsetof(CuptiKernel, end), offsetof(CUpti_ActivityKernel9, end));
    ck_assert_uint_eq(offsetof(CuptiKernel, stream), offsetof(CUpti_ActivityKernel9, streamId));
    ck_assert_uint_eq(offsetof(CuptiKernel, grid), offsetof(CUpti_ActivityKernel9, gridX));
    ck_assert_uint_eq(offsetof(CuptiKernel, block), offsetof(CUpti_ActivityKernel9, blockX));
    ck_assert_uint_eq(offsetof(CuptiKernel, dynamic_shared_bytes),
                      offsetof(CUpti_ActivityKernel9, dynamicSharedMemory));
    ck_assert_uint_eq(offsetof(CuptiKernel, name), offsetof(CUpti_ActivityKernel9, name));
    ck_assert_uint_eq(offsetof(CuptiTransfer, bytes), offsetof(CUpti_ActivityMemcpy5, bytes));
    ck_assert_uint_eq(offsetof(CuptiTransfer, start), offsetof(CUpti_ActivityMemcpy5, start));
    ck_assert_uint_eq(offsetof(CuptiTransfer, stream), offsetof(CUpti_ActivityMemcpy5, streamId));
    ck_assert_uint_eq(offsetof(CuptiTransfer, bytes), offsetof(CUpti_ActivityMemset4, bytes));
    ck_assert_uint_eq(offsetof(CuptiTransfer, end), offsetof(CUpti_ActivityMemset4, end));
    ck_assert_uint_eq(offsetof(CuptiTransfer, stream), offsetof(CUpti_ActivityMemset4, streamId));
#else
    ck_assert_uint_eq(offsetof(CuptiKernel, name), 104);
    ck_assert_uint_eq(offsetof(CuptiTransfer, stream), 40);
#endif
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cupti_numbers");
    TCase *tests = tcase_create("numbers");
    tcase_add_test(tests, structs_begin_as_cuptis);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
