/* What every generated variant of a cell layer keeps on the device: W as an operand and the product
 * W*x of all steps, and the vectors b, rb and p. */
#ifndef RNNC_CUDA_LAYER_WEIGHTS_H
#define RNNC_CUDA_LAYER_WEIGHTS_H

#include <stdbool.h>

#include "cublas.h"
#include "variant.h"

typedef struct {
    rnnc_cuda_layer_options options;
    rnnc_cublas *blas;                 ///< NULL: the image multiplies itself
    CUfunction convert, input_product; ///< the latter NULL: cuBLAS multiplies
    CUdeviceptr W;                     ///< [gates*H, I] operands
    CUdeviceptr operands;              ///< x narrowed, [B, T, I]; 0 where operands are float32
    CUdeviceptr input;                 ///< W*x: [B, T, input_stride] float32
    int64_t input_stride;              ///< gates*H, up to a multiple of 4
    CUdeviceptr bias, recurrent_bias, parameter; ///< 0: the layer has none
} rnnc_layer_weights;

/* Allocates everything and finds rnn_convert in the image, and `input_kernel`, which computes W*x;
 * NULL: cuBLAS does. Close it also after a failure. */
rnnc_status rnnc_layer_weights_open(const rnnc_cuda_layer_options *options,
                                    const char *input_kernel, rnnc_layer_weights *weights);
void rnnc_layer_weights_close(rnnc_layer_weights *weights);

/* Uploads W, b, rb and p. Synchronises. */
rnnc_status rnnc_layer_weights_set(rnnc_layer_weights *weights,
                                   const float *const from[RNNC_WEIGHT_COUNT]);

/* input = W*x for `rows` = B*T rows, on the stream. */
rnnc_status rnnc_layer_weights_multiply(const rnnc_layer_weights *weights, const void *x,
                                        int64_t rows);

/* to[count] = from[count] as operands, on the stream. */
rnnc_status rnnc_layer_weights_convert(const rnnc_layer_weights *weights, CUdeviceptr from,
                                       CUdeviceptr to, int64_t count);

/* Allocates (or keeps) `*to` and copies float32 values from host memory. */
rnnc_status rnnc_layer_weights_upload(const rnnc_layer_weights *weights, const float *from,
                                      int64_t count, CUdeviceptr *to);

/* Allocates device memory; 0 bytes gives 0. */
rnnc_status rnnc_layer_weights_alloc(const rnnc_layer_weights *weights, int64_t bytes,
                                     CUdeviceptr *to);

/* RNNC_DEVICE_ERROR with the layer's name and what failed; RNNC_OK for result 0. */
rnnc_status rnnc_layer_weights_check(const rnnc_layer_weights *weights, CUresult result,
                                     const char *doing);

/* Whether operands have 16 bits; and their bytes. */
bool rnnc_layer_weights_narrow(const rnnc_layer_weights *weights);
int64_t rnnc_layer_weights_operand_bytes(const rnnc_layer_weights *weights);

#endif
