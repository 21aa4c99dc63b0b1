/* What every generated variant of a cell layer keeps on the device: W as an operand and the product
 * W*x of all steps, and the vectors b, rb and p. */
#ifndef RNNC_CUDA_LAYER_WEIGHTS_H
#define RNNC_CUDA_LAYER_WEIGHTS_H

#include <stdbool.h>

#include "product.h"
#include "variant.h"

typedef struct {
    rnnc_cuda_layer_options options;
    rnnc_cuda_product product;                   ///< W*x; without gates that take x: kernels only
    CUdeviceptr input;                           ///< W*x: [B, T, input_stride] float32
    int64_t input_stride;                        ///< gates*H, up to a multiple of 4
    CUdeviceptr bias, recurrent_bias, parameter; ///< 0: the layer has none
    bool begins_early; ///< the recurrence is launched to begin while W*x still runs
} rnnc_layer_weights;

/* Allocates everything and finds rnn_convert, rnn_input and rnn_input_few in the layer's image.
 * Close it also after a failure. */
rnnc_status rnnc_layer_weights_open(const rnnc_cuda_layer_options *options,
                                    rnnc_layer_weights *weights);
void rnnc_layer_weights_close(rnnc_layer_weights *weights);

/* Lets launches of `run`, the kernel after W*x, begin early where its code waits for W*x and an
 * SM holds one of its CTAs. */
void rnnc_layer_weights_begin_early(rnnc_layer_weights *weights, CUfunction run);

/* Uploads W, b, rb and p. Synchronises. */
rnnc_status rnnc_layer_weights_set(rnnc_layer_weights *weights,
                                   const float *const from[RNNC_WEIGHT_COUNT]);

/* input = W*x for the call's x, all B*T steps, on the stream. */
rnnc_status rnnc_layer_weights_multiply(const rnnc_layer_weights *weights,
                                        const rnnc_layer_call *call);

/* `rows` rows of `columns` floats as operands, on the stream; see rnnc_cuda_convert. */
rnnc_status rnnc_layer_weights_convert(const rnnc_layer_weights *weights, CUdeviceptr from,
                                       CUdeviceptr scale, CUdeviceptr to, int64_t rows,
                                       int64_t columns, int64_t block);

/* Operands from one row of `count` to the next. */
int64_t rnnc_layer_weights_padded(const rnnc_layer_weights *weights, int64_t count);

/* Allocates (or keeps) `*to` and copies float32 values from host memory. */
rnnc_status rnnc_layer_weights_upload(const rnnc_layer_weights *weights, const float *from,
                                      int64_t count, CUdeviceptr *to);

/* Allocates device memory and zeroes it, in the order of the stream; 0 bytes gives 0. */
rnnc_status rnnc_layer_weights_alloc(const rnnc_layer_weights *weights, int64_t bytes,
                                     CUdeviceptr *to);

/* RNNC_DEVICE_ERROR with the layer's name and what failed; RNNC_OK for result 0. */
rnnc_status rnnc_layer_weights_check(const rnnc_layer_weights *weights, CUresult result,
                                     const char *doing);

/* Bytes of an operand. */
int64_t rnnc_layer_weights_operand_bytes(const rnnc_layer_weights *weights);

#endif
