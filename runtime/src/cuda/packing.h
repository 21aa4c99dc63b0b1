/* Packing: R and P into the layout of a persistent kernel, by the image's own rnn_pack, so that
 * only the generated code knows it. */
#ifndef RNNC_CUDA_PACKING_H
#define RNNC_CUDA_PACKING_H

#include "layer_weights.h"

/* packed = R and P, canonical float32 on the device, by kernels of these names; `measure` goes
 * before where the image has it. On the stream; does not synchronise. */
CUresult rnnc_pack_launch(const rnnc_cuda_layer_options *options, const char *measure,
                          CUfunction pack, CUdeviceptr R, CUdeviceptr P, CUdeviceptr packed);

/* packed = R and P, from canonical float32 in host memory; both are uploaded for the time of it.
 * Synchronises. */
rnnc_status rnnc_pack_recurrent(const rnnc_layer_weights *weights, CUfunction pack,
                                const float *const from[RNNC_WEIGHT_COUNT], CUdeviceptr packed);

#endif
