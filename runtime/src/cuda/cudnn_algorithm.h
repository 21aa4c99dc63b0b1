/* One of cuDNN's RNN algorithms, set up for one layer: descriptor, weight space in the layout that
 * this algorithm asks for, work space, and, where it is faster, the call captured in a CUDA graph.
 * Tensors are time-major in the layer's own type; cudnn.c copies from and to the module's. */
#ifndef RNNC_CUDA_CUDNN_ALGORITHM_H
#define RNNC_CUDA_CUDNN_ALGORITHM_H

#include "cudnn_layer.h"

typedef struct {
    int algorithm;
    CudnnRnn rnn; /* NULL: not set up */
    size_t weight_bytes, work_bytes;
    void *weights, *work;
    CUgraphExec graph; /* NULL: called directly */
    double us;         /* of one call at the largest B and T */
    char refusal[96];  /* why it cannot run; "" where it can */
} CudnnAlgorithm;

extern const char *const cudnn_algorithm_names[DNN_ALGORITHMS];

/* Sets up and times `algorithm` at the largest B and T, directly and in a graph, with weights of
 * zero. On refusal false, with its words in `refusal` and nothing held. */
int cudnn_algorithm_try(CudnnLayer *layer, int algorithm, CudnnAlgorithm *out);
/* The same without timing and without a graph. */
int cudnn_algorithm_open(CudnnLayer *layer, int algorithm, CudnnAlgorithm *out);
void cudnn_algorithm_close(CudnnLayer *layer, CudnnAlgorithm *algorithm);

/* Packs canonical float32 weights (host) and copies them to the weight space, after all work
 * of the stream. Returns a cuDNN status. */
int cudnn_algorithm_pack(CudnnLayer *layer, CudnnAlgorithm *algorithm,
                         const float *const weights[RNNC_WEIGHT_COUNT]);

/* The forward pass from `x` to `y` (time-major, the layer's type) through state_in and state_out,
 * in the current shape. Neither allocates nor synchronises. Returns a cuDNN status. */
int cudnn_algorithm_forward(CudnnLayer *layer, const CudnnAlgorithm *algorithm, const void *x,
                            void *y);

/* The words of a status: its name, and the library's last message where it has one. */
void cudnn_status_text(const CudnnLibrary *dnn, int status, char *text, size_t text_bytes);

#endif
