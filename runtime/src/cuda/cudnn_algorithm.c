/* One of cuDNN's RNN algorithms: set-up, timing, packing. See cudnn_algorithm.h. A refusal comes
 * from any of the calls, the first forward pass included, and is data. */
#include "cudnn_algorithm.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../memory.h"
#include "float16.h"

enum { WARM_RUNS = 2, TIMED_RUNS = 3, PROJECTION_PRODUCT = 8 };

const char *const cudnn_algorithm_names[DNN_ALGORITHMS] = {
    [DNN_STANDARD] = "standard",
    [DNN_PERSIST_STATIC] = "persist_static",
    [DNN_PERSIST_DYNAMIC] = "persist_dynamic",
    [DNN_PERSIST_SMALL_H] = "persist_static_small_h",
};

void cudnn_status_text(const CudnnLibrary *dnn, int status, char *text, size_t text_bytes)
{
    char last[160] = "";
    if (dnn->cudnnGetLastErrorString)
        dnn->cudnnGetLastErrorString(last, sizeof last);
    last[strcspn(last, "\n")] = '\0';
    snprintf(text, text_bytes, "%s%s%s", dnn->cudnnGetErrorString(status), last[0] ? ": " : "",
             last);
}

int cudnn_algorithm_forward(CudnnLayer *layer, const CudnnAlgorithm *algorithm, const void *x,
                            void *y)
{
    size_t work = 0, reserve = 0;
    int status = layer->dnn->cudnnGetRNNTempSpaceSizes(layer->handle, algorithm->rnn, DNN_INFERENCE,
                                                       layer->x_data, &work, &reserve);
    if (status)
        return status;
    if (work > algorithm->work_bytes)
        return DNN_NOT_SUPPORTED;
    return layer->dnn->cudnnRNNForward(
        layer->handle, algorithm->rnn, DNN_INFERENCE, NULL, layer->x_data, x, layer->y_data, y,
        layer->h_tensor, layer->state_in[0], layer->state_out[0], layer->c_tensor,
        layer->state_in[1], layer->state_out[1], algorithm->weight_bytes, algorithm->weights,
        algorithm->work_bytes, algorithm->work, 0, NULL);
}

/// The descriptor, with the first math type that the library takes.
static int set_descriptor(CudnnLayer *layer, CudnnAlgorithm *algorithm)
{
    int status = DNN_NOT_SUPPORTED;
    for (int i = 0; i < 2 && status; i++)
        status = layer->dnn->cudnnSetRNNDescriptor_v8(
            algorithm->rnn, algorithm->algorithm, layer->mode, layer->bias_mode,
            layer->directions == 2 ? DNN_BIDIRECTIONAL : DNN_UNIDIRECTIONAL, DNN_LINEAR_INPUT,
            layer->data_type, DNN_FLOAT, layer->math_types[i], layer->inputs, layer->units,
            cudnn_layer_outputs(layer), layer->layers, layer->dropout, DNN_PADDED_IO_DISABLED);
    if (!status && algorithm->algorithm == DNN_PERSIST_DYNAMIC)
        status = layer->dnn->cudnnBuildRNNDynamic(layer->handle, algorithm->rnn, layer->max_batch);
    return status;
}

static int allocate_spaces(CudnnLayer *layer, CudnnAlgorithm *algorithm)
{
    size_t reserve = 0;
    int status = layer->dnn->cudnnGetRNNWeightSpaceSize(layer->handle, algorithm->rnn,
                                                        &algorithm->weight_bytes);
    if (!status)
        status =
            layer->dnn->cudnnGetRNNTempSpaceSizes(layer->handle, algorithm->rnn, DNN_INFERENCE,
                                                  layer->x_data, &algorithm->work_bytes, &reserve);
    if (status)
        return status;
    algorithm->weights = cudnn_layer_alloc(layer, algorithm->weight_bytes);
    algorithm->work = cudnn_layer_alloc(layer, algorithm->work_bytes);
    if (!algorithm->weights || !algorithm->work)
        return DNN_ALLOC_FAILED;
    const CUdeviceptr weights = (CUdeviceptr)algorithm->weights;
    return layer->cuda->cuMemsetD8Async(weights, 0, algorithm->weight_bytes, layer->stream)
               ? DNN_EXECUTION_FAILED
               : DNN_SUCCESS;
}

/// Captures one forward pass. No graph is left where the library or the driver refuses.
static void capture(CudnnLayer *layer, CudnnAlgorithm *algorithm)
{
    const rnnc_cuda_driver *cuda = layer->cuda;
    CUgraph graph = NULL;
    if (cuda->cuStreamBeginCapture(layer->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        return;
    int status = cudnn_algorithm_forward(layer, algorithm, layer->x, layer->y);
    int ended = cuda->cuStreamEndCapture(layer->stream, &graph);
    if (status || ended || !graph || cuda->cuGraphInstantiateWithFlags(&algorithm->graph, graph, 0))
        algorithm->graph = NULL;
    if (graph)
        cuda->cuGraphDestroy(graph);
}

static int launch(CudnnLayer *layer, const CudnnAlgorithm *algorithm, int in_graph)
{
    if (in_graph)
        return layer->cuda->cuGraphLaunch(algorithm->graph, layer->stream) ? DNN_EXECUTION_FAILED
                                                                           : DNN_SUCCESS;
    return cudnn_algorithm_forward(layer, algorithm, layer->x, layer->y);
}

/// Microseconds of one pass; negative where a pass fails.
static double time_passes(CudnnLayer *layer, const CudnnAlgorithm *algorithm, int in_graph)
{
    const rnnc_cuda_driver *cuda = layer->cuda;
    CUevent start = NULL, stop = NULL;
    float ms = -1;
    int failed = cuda->cuEventCreate(&start, 0) || cuda->cuEventCreate(&stop, 0);
    for (int i = 0; i < WARM_RUNS && !failed; i++)
        failed = launch(layer, algorithm, in_graph);
    failed = failed || cuda->cuEventRecord(start, layer->stream);
    for (int i = 0; i < TIMED_RUNS && !failed; i++)
        failed = launch(layer, algorithm, in_graph);
    failed = failed || cuda->cuEventRecord(stop, layer->stream) || cuda->cuEventSynchronize(stop) ||
             cuda->cuEventElapsedTime(&ms, start, stop);
    if (start)
        cuda->cuEventDestroy(start);
    if (stop)
        cuda->cuEventDestroy(stop);
    return failed ? -1.0 : 1e3 * (double)ms / TIMED_RUNS;
}

/// Keeps the graph where it is faster than direct calls.
static int time_algorithm(CudnnLayer *layer, CudnnAlgorithm *algorithm)
{
    int status = cudnn_algorithm_forward(layer, algorithm, layer->x, layer->y);
    if (status)
        return status;
    algorithm->us = time_passes(layer, algorithm, 0);
    if (algorithm->us < 0)
        return DNN_EXECUTION_FAILED;
    capture(layer, algorithm);
    double graph_us = algorithm->graph ? time_passes(layer, algorithm, 1) : -1.0;
    if (graph_us > 0 && graph_us < algorithm->us) {
        algorithm->us = graph_us;
    } else if (algorithm->graph) {
        layer->cuda->cuGraphExecDestroy(algorithm->graph);
        algorithm->graph = NULL;
    }
    return DNN_SUCCESS;
}

/// Sets up; a forward pass tells whether the library refuses. `timed`: see cudnn_algorithm_try.
static int set_up(CudnnLayer *layer, int number, bool timed, CudnnAlgorithm *out)
{
    *out = (CudnnAlgorithm){.algorithm = number};
    int status = layer->dnn->cudnnCreateRNNDescriptor(&out->rnn);
    if (!status)
        status = set_descriptor(layer, out);
    if (!status)
        status = cudnn_layer_shape(layer, layer->max_batch, layer->max_timesteps);
    if (!status)
        status = allocate_spaces(layer, out);
    if (!status)
        status = timed ? time_algorithm(layer, out)
                       : cudnn_algorithm_forward(layer, out, layer->x, layer->y);
    if (!status)
        return 1;
    char refusal[sizeof out->refusal];
    cudnn_status_text(layer->dnn, status, refusal, sizeof refusal);
    cudnn_algorithm_close(layer, out);
    memcpy(out->refusal, refusal, sizeof refusal);
    return 0;
}

int cudnn_algorithm_try(CudnnLayer *layer, int algorithm, CudnnAlgorithm *out)
{
    return set_up(layer, algorithm, true, out);
}

int cudnn_algorithm_open(CudnnLayer *layer, int algorithm, CudnnAlgorithm *out)
{
    return set_up(layer, algorithm, false, out);
}

void cudnn_algorithm_close(CudnnLayer *layer, CudnnAlgorithm *algorithm)
{
    if (algorithm->graph)
        layer->cuda->cuGraphExecDestroy(algorithm->graph);
    cudnn_layer_free(layer, algorithm->weights);
    cudnn_layer_free(layer, algorithm->work);
    if (algorithm->rnn)
        layer->dnn->cudnnDestroyRNNDescriptor(algorithm->rnn);
    *algorithm = (CudnnAlgorithm){.algorithm = algorithm->algorithm};
}

/// Writes `count` values in the layer's type; NULL `from`: zeros.
static void narrow(const CudnnLayer *layer, const float *from, size_t count, char *to)
{
    if (!from)
        memset(to, 0, count * layer->element_bytes);
    else if (layer->element_bytes == sizeof(float))
        memcpy(to, from, count * sizeof(float));
    else
        for (size_t i = 0; i < count; i++) {
            uint16_t bits =
                layer->data_type == DNN_HALF ? rnnc_to_float16(from[i]) : rnnc_to_bfloat16(from[i]);
            memcpy(to + 2 * i, &bits, sizeof bits);
        }
}

/// Writes one product's matrix and bias at the places that the library names. In cuDNN's order
/// products 0 .. gates-1 belong to W and gates .. 2*gates-1 to R, their gates in our canonical
/// order (lstm i f g o, gru r z n); 8 is the projection.
static int pack_product(CudnnLayer *layer, const CudnnAlgorithm *algorithm, int product,
                        const float *matrix, size_t matrix_count, const float *bias, char *image)
{
    void *matrix_at = NULL, *bias_at = NULL;
    int status = layer->dnn->cudnnGetRNNWeightParams(
        layer->handle, algorithm->rnn, 0, algorithm->weight_bytes, algorithm->weights, product,
        layer->matrix, &matrix_at, layer->bias, &bias_at);
    if (status)
        return status;
    const char *base = algorithm->weights;
    const size_t matrix_bytes = matrix_count * layer->element_bytes;
    const size_t bias_bytes = (size_t)layer->units * layer->element_bytes;
    const size_t matrix_offset = (size_t)((char *)matrix_at - base);
    if (!matrix_at || matrix_offset + matrix_bytes > algorithm->weight_bytes)
        return DNN_NOT_SUPPORTED;
    narrow(layer, matrix, matrix_count, image + matrix_offset);
    if (bias_at && product != PROJECTION_PRODUCT) {
        const size_t bias_offset = (size_t)((char *)bias_at - base);
        if (bias_offset + bias_bytes > algorithm->weight_bytes)
            return DNN_NOT_SUPPORTED;
        narrow(layer, bias, (size_t)layer->units, image + bias_offset);
    }
    return DNN_SUCCESS;
}

/// All products of the layer. The single canonical bias goes to W's; R's are zero but for the new
/// gate of a GRU, whose bias stands inside the reset product (rb).
static int pack_image(CudnnLayer *layer, const CudnnAlgorithm *algorithm,
                      const float *const weights[RNNC_WEIGHT_COUNT], char *image)
{
    const int gates = layer->mode == DNN_LSTM ? 4 : layer->mode == DNN_GRU ? 3 : 1;
    const size_t units = (size_t)layer->units, inputs = (size_t)layer->inputs;
    const size_t outputs = (size_t)cudnn_layer_outputs(layer);
    int status = DNN_SUCCESS;
    for (int gate = 0; gate < gates && !status; gate++) {
        const size_t row = (size_t)gate * units;
        const float *b = weights[RNNC_WEIGHT_B], *rb = weights[RNNC_WEIGHT_RB];
        const bool new_gate = layer->mode == DNN_GRU && gate == 2;
        status = pack_product(layer, algorithm, gate, weights[RNNC_WEIGHT_W] + row * inputs,
                              units * inputs, b ? b + row : NULL, image);
        if (!status)
            status =
                pack_product(layer, algorithm, gates + gate, weights[RNNC_WEIGHT_R] + row * outputs,
                             units * outputs, new_gate ? rb : NULL, image);
    }
    if (!status && layer->projection)
        status = pack_product(layer, algorithm, PROJECTION_PRODUCT, weights[RNNC_WEIGHT_P],
                              outputs * units, NULL, image);
    return status;
}

int cudnn_algorithm_pack(CudnnLayer *layer, CudnnAlgorithm *algorithm,
                         const float *const weights[RNNC_WEIGHT_COUNT])
{
    char *image = rnnc_memory_alloc(algorithm->weight_bytes);
    if (!image)
        return DNN_ALLOC_FAILED;
    int status = pack_image(layer, algorithm, weights, image);
    const CUdeviceptr to = (CUdeviceptr)algorithm->weights;
    if (!status && rnnc_cuda_write(layer->cuda, layer->stream, to, image, algorithm->weight_bytes))
        status = DNN_EXECUTION_FAILED;
    rnnc_memory_free(image);
    return status;
}
