/* The products of a layer's own kernels, host side: W*x of all steps and dense layers. Which way a
 * product goes is the image's: where it has rnn_tile (templates/cuda/tiled_product.cuh), x becomes
 * blocks in a launch of its own; else the product reads x as it is (templates/cuda/product.cuh). */
#ifndef RNNC_CUDA_PRODUCT_H
#define RNNC_CUDA_PRODUCT_H

#include <stdbool.h>

#include "driver.h"
#include "rnnc/module.h"

/* x * W^T with W [columns, depth]. */
typedef struct {
    const rnnc_cuda_driver *cuda;
    CUstream stream; /* of opening and setting */
    rnnc_precision precision;
    int64_t depth, columns;
    CUfunction convert, tile, many, few; /* tile 0: none */
    CUdeviceptr W;                       /* operands: [columns, padded depth], or blocks */
    CUdeviceptr blocks;                  /* those of x; 0: none */
} rnnc_cuda_product;

/* RnnProduct of templates/cuda/product.cuh: out[row] = x[row] * W^T for `rows` rows of float32; row
 * b*timesteps + t lies at b*row_stride + t*step_stride, in elements. W is filled in. */
typedef struct {
    const void *x;
    CUdeviceptr W, bias, out; /* bias 0: none */
    long long rows, timesteps;
    long long x_row_stride, x_step_stride, out_row_stride, out_step_stride;
} rnnc_cuda_rows;

/* Finds the kernels in `image` and allocates for calls of up to `max_rows`. The caller has filled
 * in the fields before the kernels; `many` and `few` name the kernel's two shapes, which give the
 * same bits. Close it also after a failure. */
CUresult rnnc_cuda_product_open(rnnc_cuda_product *product, CUmodule image, const char *many,
                                const char *few, int64_t max_rows);
void rnnc_cuda_product_close(rnnc_cuda_product *product);

/* Takes W, [columns, depth] float32 in host memory. Synchronises. */
CUresult rnnc_cuda_product_set(const rnnc_cuda_product *product, const float *W);

/* Launches by the shape that fills the GPU; neither allocates nor synchronises. Runs of one product
 * follow one another, since they share `blocks`. `written`: columns of `out`, at least W's; those
 * beyond are sums of zeros. */
CUresult rnnc_cuda_product_run(const rnnc_cuda_product *product, CUstream stream,
                               const rnnc_cuda_rows *rows, int64_t written);

/* Operands from one row of K to the next where rows are not blocks: K up to a multiple of 16 bytes.
 */
int64_t rnnc_cuda_padded(rnnc_precision precision, int64_t count);

/* Rows of `columns` floats as operands by the image's rnn_convert; each block of `block` values is
 * padded by itself, and the padding is left alone. `scale` 0, or factors as `from`. */
CUresult rnnc_cuda_convert(const rnnc_cuda_driver *cuda, CUstream stream, CUfunction convert,
                           CUdeviceptr from, CUdeviceptr scale, CUdeviceptr to, int64_t rows,
                           int64_t columns, int64_t block);

#endif
