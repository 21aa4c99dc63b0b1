/* What a device has besides for a module that trains: cuBLAS, moves and the loss, and what a
 * layer's backward pass is given. */
#ifndef RNNC_CUDA_TRAINING_H
#define RNNC_CUDA_TRAINING_H

#include "cross_entropy.h"
#include "sequence.h"
#include "variant.h"

typedef struct {
    const rnnc_cuda_driver *cuda;
    CUstream stream;
    CUmodule image; /* of sequence.cu */
    const rnnc_device_options *device;
    const rnnc_cuda_sequence *sequence;
} rnnc_cuda_training_options;

/* All 0 where the module does not train. */
typedef struct {
    rnnc_cuda_training_options options;
    rnnc_cuda_blas *blas;
    rnnc_cuda_moves *moves;
    rnnc_cuda_cross_entropy loss;
    CUdeviceptr folded; /* of masked runs: dy with that of steps that repeat an output added up */
    bool finds_nan;
} rnnc_cuda_training;

/* RNNC_UNAVAILABLE where cuBLAS is missing. Close it also after a failure. */
rnnc_status rnnc_cuda_training_open(const rnnc_cuda_training_options *options,
                                    rnnc_cuda_training *training);
void rnnc_cuda_training_close(rnnc_cuda_training *training);

/* Memory for backward passes over runs with that kind of masking. */
rnnc_status rnnc_cuda_training_set_masking(rnnc_cuda_training *training, rnnc_masking masking);

/* The backward pass of a layer by its row; `row` NULL: a layer that sequence.h runs. */
rnnc_status rnnc_cuda_training_backward(const rnnc_cuda_training *training,
                                        const rnnc_cuda_variant *row, void *state,
                                        const rnnc_backward_call *call);

#endif
