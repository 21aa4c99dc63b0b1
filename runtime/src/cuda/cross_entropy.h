/* Softmax cross-entropy on the GPU, host side. Kernels: templates/cuda/cross_entropy.cuh, in the
 * image of sequence.cu; a target that cannot be goes to the record of faults. */
#ifndef RNNC_CUDA_CROSS_ENTROPY_H
#define RNNC_CUDA_CROSS_ENTROPY_H

#include "moves.h"

typedef struct {
    rnnc_cuda_moves_options options;
    CUfunction count, entropy, add;
    CUdeviceptr losses; /* [B * T] of the largest run, then how many targets count */
    int64_t steps;
} rnnc_cuda_cross_entropy;

/* Allocates for runs of `steps` rows times steps. Close it also after a failure. */
rnnc_status rnnc_cuda_cross_entropy_open(const rnnc_cuda_moves_options *options, int64_t steps,
                                         rnnc_cuda_cross_entropy *loss);
void rnnc_cuda_cross_entropy_close(rnnc_cuda_cross_entropy *loss);

/* On the stream; neither allocates nor synchronises. */
rnnc_status rnnc_cuda_cross_entropy_run(const rnnc_cuda_cross_entropy *loss,
                                        const rnnc_loss_call *call);

#endif
