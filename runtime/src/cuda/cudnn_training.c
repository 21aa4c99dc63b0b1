/* cuDNN's forward and backward pass: see cudnn_training.h. */
#include "cudnn_training.h"

#include <stdbool.h>

/// Device memory, zeroed in the order of the stream; NULL where there is none left.
static void *zeroed(CudnnLayer *layer, size_t bytes)
{
    void *memory = cudnn_layer_alloc(layer, bytes);
    if (memory && bytes &&
        layer->cuda->cuMemsetD8Async((CUdeviceptr)memory, 0, bytes, layer->stream)) {
        cudnn_layer_free(layer, memory);
        return NULL;
    }
    return memory;
}

int cudnn_training_open(CudnnLayer *layer, const CudnnAlgorithm *algorithm, CudnnTraining *out)
{
    *out = (CudnnTraining){0};
    const int status =
        layer->dnn->cudnnGetRNNTempSpaceSizes(layer->handle, algorithm->rnn, DNN_TRAINING,
                                              layer->x_data, &out->work_bytes, &out->reserve_bytes);
    if (status)
        return status;
    const size_t rows = (size_t)layer->max_batch * (size_t)layer->max_timesteps;
    const size_t outputs = (size_t)cudnn_layer_outputs(layer);
    const size_t directions = (size_t)layer->directions, element = layer->element_bytes;
    out->dy_bytes = rows * directions * outputs * element;
    out->work = cudnn_layer_alloc(layer, out->work_bytes);
    out->reserve = cudnn_layer_alloc(layer, out->reserve_bytes);
    out->dx = cudnn_layer_alloc(layer, rows * (size_t)layer->inputs * element);
    out->dy = zeroed(layer, out->dy_bytes);
    out->dweights = zeroed(layer, algorithm->weight_bytes);
    bool complete = out->work && out->reserve && out->dx && out->dy && out->dweights;
    for (int i = 0; i < (layer->mode == DNN_LSTM ? 2 : 1); i++) {
        const size_t bytes = (size_t)layer->layers * directions * (size_t)layer->max_batch *
                             (i == 0 ? outputs : (size_t)layer->units) * element;
        out->dstate_in[i] = cudnn_layer_alloc(layer, bytes);
        out->dstate_out[i] = zeroed(layer, bytes);
        complete = complete && out->dstate_in[i] && out->dstate_out[i];
    }
    return complete ? DNN_SUCCESS : DNN_ALLOC_FAILED;
}

void cudnn_training_close(CudnnLayer *layer, CudnnTraining *training)
{
    void *const memories[] = {
        training->work,         training->reserve,       training->dx,
        training->dy,           training->dweights,      training->dstate_in[0],
        training->dstate_in[1], training->dstate_out[0], training->dstate_out[1]};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        cudnn_layer_free(layer, memories[i]);
    *training = (CudnnTraining){0};
}

int cudnn_training_run(const CudnnLayer *layer, const CudnnAlgorithm *algorithm,
                       const CudnnTraining *training)
{
    const CudnnLibrary *dnn = layer->dnn;
    int status = dnn->cudnnRNNForward(
        layer->handle, algorithm->rnn, DNN_TRAINING, NULL, layer->x_data, layer->x, layer->y_data,
        layer->y, layer->h_tensor, layer->state_in[0], layer->state_out[0], layer->c_tensor,
        layer->state_in[1], layer->state_out[1], algorithm->weight_bytes, algorithm->weights,
        training->work_bytes, training->work, training->reserve_bytes, training->reserve);
    if (!status)
        status = dnn->cudnnRNNBackwardData_v8(
            layer->handle, algorithm->rnn, NULL, layer->y_data, layer->y, training->dy,
            layer->x_data, training->dx, layer->h_tensor, layer->state_in[0],
            training->dstate_out[0], training->dstate_in[0], layer->c_tensor, layer->state_in[1],
            training->dstate_out[1], training->dstate_in[1], algorithm->weight_bytes,
            algorithm->weights, training->work_bytes, training->work, training->reserve_bytes,
            training->reserve);
    if (!status)
        status = dnn->cudnnRNNBackwardWeights_v8(
            layer->handle, algorithm->rnn, DNN_ADD_GRADIENTS, NULL, layer->x_data, layer->x,
            layer->h_tensor, layer->state_in[0], layer->y_data, layer->y, algorithm->weight_bytes,
            training->dweights, training->work_bytes, training->work, training->reserve_bytes,
            training->reserve);
    return status;
}
