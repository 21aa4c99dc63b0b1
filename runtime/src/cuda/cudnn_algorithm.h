/* One of cuDNN's RNN algorithms, set up for one layer: descriptor, weight space in the layout that
 * this algorithm asks for, work space, and, where it is faster, the call captured in a CUDA graph.
 * Tensors are time-major in the layer's own type; cudnn.c copies from and to the module's. */
#ifndef RNNC_CUDA_CUDNN_ALGORITHM_H
#define RNNC_CUDA_CUDNN_ALGORITHM_H

#include "cudnn_library.h"
#include "driver.h"
#include "rnnc/module.h"

/* What all algorithms of a layer share. Device memory unless said otherwise. */
typedef struct {
    const CudnnLibrary *dnn;
    const rnnc_cuda_driver *cuda;
    CUstream stream;
    CudnnHandle handle;
    CudnnDropout dropout;
    CudnnRnnData x_data, y_data;
    CudnnTensor h_tensor, c_tensor, matrix, bias;
    int *lengths; /* host, max_batch entries */
    int mode, bias_mode, data_type, math_types[2];
    int inputs, units, projection;                  /* projection 0: none */
    int max_batch, max_timesteps, batch, timesteps; /* the last two: of the descriptors */
    size_t element_bytes;
    void *x, *y, *state_in[2], *state_out[2]; /* [T, B, I], [T, B, outputs], [B, size] */
} CudnnLayer;

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

/* Device memory of a layer; NULL where there is none left. Freeing NULL is allowed. */
void *cudnn_layer_alloc(CudnnLayer *layer, size_t bytes);
void cudnn_layer_free(CudnnLayer *layer, void *memory);

/* Sets the shared descriptors to B and T. Host work only. Returns a cuDNN status. */
int cudnn_layer_shape(CudnnLayer *layer, int batch, int timesteps);

/* Sets up and times `algorithm` at the largest B and T, directly and in a graph, with weights of
 * zero. On refusal false, with its words in `refusal` and nothing held. */
int cudnn_algorithm_try(CudnnLayer *layer, int algorithm, CudnnAlgorithm *out);
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
