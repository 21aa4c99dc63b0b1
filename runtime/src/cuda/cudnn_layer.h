/* What all of cuDNN's algorithms for a recurrent layer share: its descriptors, and device memory in
 * the layer's own type. A stack of layers of one size in one or two directions is one layer here.
 */
#ifndef RNNC_CUDA_CUDNN_LAYER_H
#define RNNC_CUDA_CUDNN_LAYER_H

#include "cudnn_library.h"
#include "driver.h"
#include "rnnc/module.h"

/* Set by the owner down to max_timesteps, and by cudnn_layer_set_precision; the rest by
 * cudnn_layer_open. Device memory unless said otherwise. */
typedef struct {
    const CudnnLibrary *dnn;
    const rnnc_cuda_driver *cuda;
    CUstream stream;
    int mode, bias_mode, layers, directions;
    int inputs, units, projection; /* projection 0: none */
    int max_batch, max_timesteps;
    int data_type, math_types[2]; /* the second math type is tried where the first is refused */
    size_t element_bytes;
    CudnnHandle handle;
    CudnnDropout dropout;
    CudnnRnnData x_data, y_data;
    CudnnTensor h_tensor, c_tensor, matrix, bias;
    int *lengths;                     /* host, max_batch entries */
    int batch, timesteps;             /* of the descriptors */
    void *x, *y;                      /* [T, B, I], [T, B, directions*outputs] */
    void *state_in[2], *state_out[2]; /* [layers*directions, B, size]; the second: lstm only */
} CudnnLayer;

void cudnn_layer_set_precision(CudnnLayer *layer, rnnc_precision precision);

/* Features of a step and direction: the projection's, or the units. */
int cudnn_layer_outputs(const CudnnLayer *layer);

/* Makes the descriptors and the memory; x and the first states are zero. Returns a cuDNN status;
 * close it also after a failure. The stream stays the owner's. */
int cudnn_layer_open(CudnnLayer *layer);
void cudnn_layer_close(CudnnLayer *layer);

/* Device memory of a layer; NULL where there is none left. Freeing NULL is allowed. */
void *cudnn_layer_alloc(CudnnLayer *layer, size_t bytes);
void cudnn_layer_free(CudnnLayer *layer, void *memory);

/* Sets the shared descriptors to B and T. Host work only. Returns a cuDNN status. */
int cudnn_layer_shape(CudnnLayer *layer, int batch, int timesteps);

#endif
