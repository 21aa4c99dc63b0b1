/* Training by one of cuDNN's algorithms, to compare with: the forward pass that keeps a reserve,
 * and the gradients of x, of the states and of the weights, on tensors of their own. */
#ifndef RNNC_CUDA_CUDNN_TRAINING_H
#define RNNC_CUDA_CUDNN_TRAINING_H

#include "cudnn_algorithm.h"

/* Device memory in the layer's type; of the layer's largest B and T. */
typedef struct {
    size_t work_bytes, reserve_bytes, dy_bytes;
    void *work, *reserve;
    void *dx, *dy;                      /* as x and y; dy is the caller's to fill */
    void *dstate_in[2], *dstate_out[2]; /* of the states before and, zeros, behind all steps */
    void *dweights;
} CudnnTraining;

/* Allocates for a layer and an algorithm that are open. Returns a cuDNN status; close it also after
 * a failure. */
int cudnn_training_open(CudnnLayer *layer, const CudnnAlgorithm *algorithm, CudnnTraining *out);
void cudnn_training_close(CudnnLayer *layer, CudnnTraining *training);

/* Forward and back at the current shape; gradients of weights are added to what is there, for the
 * library knows nothing else. Neither allocates nor synchronises. Returns a cuDNN status. */
int cudnn_training_run(const CudnnLayer *layer, const CudnnAlgorithm *algorithm,
                       const CudnnTraining *training);

#endif
