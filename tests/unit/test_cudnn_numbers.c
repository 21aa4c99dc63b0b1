// The numbers that the runtime's cuDNN driver was written with, against cuDNN's headers where these
// are installed; elsewhere only that the driver's own are distinct.
#include <check.h>

#include "../../runtime/src/cuda/cudnn_library.h"

#if __has_include(<cudnn_adv.h>) && __has_include(<cuda_runtime_api.h>)
#define RNNC_HAS_CUDNN_HEADERS 1
#include <cudnn_adv.h>
#endif

START_TEST(numbers_are_cudnns)
{
#ifdef RNNC_HAS_CUDNN_HEADERS
    ck_assert_int_eq(DNN_SUCCESS, CUDNN_STATUS_SUCCESS);
    ck_assert_int_eq(DNN_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED);
    ck_assert_int_eq(DNN_ALLOC_FAILED, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    ck_assert_int_eq(DNN_EXECUTION_FAILED, CUDNN_STATUS_EXECUTION_FAILED);
    ck_assert_int_eq(DNN_FLOAT, CUDNN_DATA_FLOAT);
    ck_assert_int_eq(DNN_HALF, CUDNN_DATA_HALF);
    ck_assert_int_eq(DNN_BFLOAT16, CUDNN_DATA_BFLOAT16);
    ck_assert_int_eq(DNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
    ck_assert_int_eq(DNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
    ck_assert_int_eq(DNN_FMA_MATH, CUDNN_FMA_MATH);
    ck_assert_int_eq(DNN_STANDARD, CUDNN_RNN_ALGO_STANDARD);
    ck_assert_int_eq(DNN_PERSIST_STATIC, CUDNN_RNN_ALGO_PERSIST_STATIC);
    ck_assert_int_eq(DNN_PERSIST_DYNAMIC, CUDNN_RNN_ALGO_PERSIST_DYNAMIC);
    ck_assert_int_eq(DNN_PERSIST_SMALL_H, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H);
    ck_assert_int_eq(DNN_ALGORITHMS, CUDNN_RNN_ALGO_COUNT);
    ck_assert_int_eq(DNN_RNN_RELU, CUDNN_RNN_RELU);
    ck_assert_int_eq(DNN_RNN_TANH, CUDNN_RNN_TANH);
    ck_assert_int_eq(DNN_LSTM, CUDNN_LSTM);
    ck_assert_int_eq(DNN_GRU, CUDNN_GRU);
    ck_assert_int_eq(DNN_NO_BIAS, CUDNN_RNN_NO_BIAS);
    ck_assert_int_eq(DNN_DOUBLE_BIAS, CUDNN_RNN_DOUBLE_BIAS);
    ck_assert_int_eq(DNN_UNIDIRECTIONAL, CUDNN_UNIDIRECTIONAL);
    ck_assert_int_eq(DNN_LINEAR_INPUT, CUDNN_LINEAR_INPUT);
    ck_assert_int_eq(DNN_INFERENCE, CUDNN_FWD_MODE_INFERENCE);
    ck_assert_int_eq(DNN_TRAINING, CUDNN_FWD_MODE_TRAINING);
    ck_assert_int_eq(DNN_ADD_GRADIENTS, CUDNN_WGRAD_MODE_ADD);
    ck_assert_int_eq(DNN_PADDED_IO_DISABLED, CUDNN_RNN_PADDED_IO_DISABLED);
    ck_assert_int_eq(DNN_SEQ_MAJOR_PACKED, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED);
#else
    ck_assert_int_ne(DNN_FLOAT, DNN_HALF);
    ck_assert_int_eq(DNN_ALGORITHMS, 4);
#endif
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cudnn_numbers");
    TCase *tests = tcase_create("numbers");
    tcase_add_test(tests, numbers_are_cudnns);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
