/* The products of the images' own kernels (templates/cuda/product.cuh), host side: W*x of all steps
 * and dense layers. Launches only: nothing here allocates, synchronises or sets an error. */
#ifndef RNNC_CUDA_PRODUCT_H
#define RNNC_CUDA_PRODUCT_H

#include <stdbool.h>

#include "driver.h"
#include "rnnc/module.h"

/* RnnProduct of templates/cuda/product.cuh: out[row] = x[row] * W^T for `rows` rows of float32; row
 * b*timesteps + t lies at b*row_stride + t*step_stride, in elements. W [columns, padded K]. */
typedef struct {
    const void *x;
    CUdeviceptr W, bias, out; /* bias 0: none */
    long long rows, timesteps;
    long long x_row_stride, x_step_stride, out_row_stride, out_step_stride;
} rnnc_cuda_product;

/* Operands from one row of K to the next: K up to a multiple of 16 bytes. */
int64_t rnnc_cuda_padded(rnnc_precision precision, int64_t count);

/* `many` and `few` are the kernel's two shapes, which give the same bits; the one that fills the
 * GPU is launched. `columns` are those that the kernel writes. */
CUresult rnnc_cuda_multiply(const rnnc_cuda_driver *cuda, CUstream stream, CUfunction many,
                            CUfunction few, const rnnc_cuda_product *product, int64_t columns);

/* Rows of `columns` floats as operands by the image's rnn_convert; each block of `block` values is
 * padded by itself, and the padding is left alone. `scale` 0, or factors as `from`. */
CUresult rnnc_cuda_convert(const rnnc_cuda_driver *cuda, CUstream stream, CUfunction convert,
                           CUdeviceptr from, CUdeviceptr scale, CUdeviceptr to, int64_t rows,
                           int64_t columns, int64_t block);

#endif
