/* cuBLAS, opened at run time: row-major products of the shapes that layers need. */
#ifndef RNNC_CUDA_CUBLAS_H
#define RNNC_CUDA_CUBLAS_H

#include "../error.h"
#include "driver.h"
#include "rnnc/module.h"

/* One handle with its own workspace, so that its calls can be captured in a CUDA graph. Belongs to
 * one stream and one thread at a time. */
typedef struct rnnc_cublas rnnc_cublas;

/* The context must be current. RNNC_UNAVAILABLE where the library is missing. */
rnnc_status rnnc_cublas_open(const rnnc_cuda_driver *cuda, CUstream stream, rnnc_error *error,
                             rnnc_cublas **out_cublas);
void rnnc_cublas_close(rnnc_cublas *cublas); /* NULL is allowed */

/* y[rows, columns] = beta*y + x[rows, depth] * w[columns, depth]^T, all row-major; `x_stride`,
 * `w_stride` and `y_stride` are the elements from one row to the next. y is float32; x and w are
 * float32 for RNNC_FLOAT32 (true float32 products) and RNNC_TF32, else of the 16-bit type. Sums are
 * float32. Neither allocates nor synchronises. rows 0 does nothing. */
rnnc_status rnnc_cublas_multiply(rnnc_cublas *cublas, rnnc_precision precision, CUdeviceptr x,
                                 int64_t x_stride, CUdeviceptr w, int64_t w_stride, float beta,
                                 CUdeviceptr y, int64_t y_stride, int64_t rows, int64_t columns,
                                 int64_t depth);

#endif
