/* cuBLAS, opened at run time, and the one product that layers need of it. */
#ifndef RNNC_CUDA_BLAS_H
#define RNNC_CUDA_BLAS_H

#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "rnnc/module.h"

typedef struct cublasContext *CublasHandle;

typedef struct {
#define BLAS_SYMBOL(name, exported, parameters) int(*name) parameters;
#include "blas_symbols.def"
#undef BLAS_SYMBOL
} rnnc_cuda_blas_library;

/* One user's handle. The workspace is its own, so that a captured product never allocates. */
typedef struct {
    const rnnc_cuda_blas_library *library;
    const rnnc_cuda_driver *cuda;
    CublasHandle handle;
    CUdeviceptr workspace;
} rnnc_cuda_blas;

/* Opens the library (once a process) and a handle on `stream`. False, with the reason in
 * `*out_reason` (static storage), where that fails; `out` then needs no close. */
int rnnc_cuda_blas_open(const rnnc_cuda_driver *cuda, CUstream stream, rnnc_cuda_blas *out,
                        const char **out_reason);
/* A blas of zeros is allowed. */
void rnnc_cuda_blas_close(rnnc_cuda_blas *blas);

/* y [rows, n] float32 = x [rows, k] * w [n, k]^T; all row-major, the rows of y `y_stride` elements
 * apart. x and w are operands of the precision: float32, or 16 bits for bfloat16 and float16; sums
 * are float32, and float32 products are true ones. Returns cuBLAS's status. */
int rnnc_cuda_blas_product(const rnnc_cuda_blas *blas, rnnc_precision precision, const void *x,
                           int64_t rows, int64_t k, const void *w, int64_t n, float *y,
                           int64_t y_stride);

/* 2 or 4. */
size_t rnnc_cuda_operand_bytes(rnnc_precision precision);

#endif
