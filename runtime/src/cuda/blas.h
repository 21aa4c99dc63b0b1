/* cuBLAS, opened at run time: the products of training. All matrices are float32 and row-major;
 * float32 models multiply in float32, all others in tf32, which has float16's mantissa and
 * float32's range, so that small gradients need no scaling. Sums have one order for one shape of
 * matrices. */
#ifndef RNNC_CUDA_BLAS_H
#define RNNC_CUDA_BLAS_H

#include <stdbool.h>

#include "../device.h"
#include "driver.h"

typedef struct rnnc_cuda_blas rnnc_cuda_blas;

/* c[m, n] = a[m, k] * b[k, n], or += it. A turned operand lies as [k, m] or [n, k]. `heads` (0: 1)
 * products go side by side, their matrices `apart` in elements. */
typedef struct {
    const float *a, *b;
    float *c;
    bool turns_a, turns_b, adds;
    int64_t m, n, k;
    int64_t a_stride, b_stride, c_stride; /* from row to row */
    int64_t heads, a_apart, b_apart, c_apart;
} rnnc_cuda_gemm;

typedef struct {
    const rnnc_cuda_driver *cuda;
    CUstream stream; /* of all products */
    rnnc_precision precision;
    int64_t max_rows; /* of rnnc_cuda_blas_sum */
    rnnc_error *error;
} rnnc_cuda_blas_options;

/* RNNC_UNAVAILABLE where the library is missing. On failure *out_blas is NULL, which close takes.
 */
rnnc_status rnnc_cuda_blas_open(const rnnc_cuda_blas_options *options, rnnc_cuda_blas **out_blas);
void rnnc_cuda_blas_close(rnnc_cuda_blas *blas);

/* Neither allocate nor synchronise. */
rnnc_status rnnc_cuda_blas_multiply(const rnnc_cuda_blas *blas, const rnnc_cuda_gemm *gemm);

/* sums[columns] += the sum of `rows` rows of a. */
rnnc_status rnnc_cuda_blas_sum(const rnnc_cuda_blas *blas, const float *a, int64_t rows,
                               int64_t columns, int64_t stride, float *sums);

#endif
