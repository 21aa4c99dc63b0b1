/* Descriptors and memory of a layer for cuDNN: see cudnn_layer.h. */
#include "cudnn_layer.h"

#include "../memory.h"

/// Numbers of cuDNN for each rnnc_precision. float32 asks for FMA, as the default math may take
/// TF32 there.
static const struct {
    int data_type, math_types[2];
    size_t element_bytes;
} precisions[] = {
    [RNNC_FLOAT32] = {DNN_FLOAT, {DNN_FMA_MATH, DNN_FMA_MATH}, 4},
    [RNNC_TF32] = {DNN_FLOAT, {DNN_DEFAULT_MATH, DNN_TENSOR_OP_MATH}, 4},
    [RNNC_BFLOAT16] = {DNN_BFLOAT16, {DNN_TENSOR_OP_MATH, DNN_DEFAULT_MATH}, 2},
    [RNNC_FLOAT16] = {DNN_HALF, {DNN_TENSOR_OP_MATH, DNN_DEFAULT_MATH}, 2},
};

void cudnn_layer_set_precision(CudnnLayer *layer, rnnc_precision precision)
{
    layer->data_type = precisions[precision].data_type;
    layer->math_types[0] = precisions[precision].math_types[0];
    layer->math_types[1] = precisions[precision].math_types[1];
    layer->element_bytes = precisions[precision].element_bytes;
}

int cudnn_layer_outputs(const CudnnLayer *layer)
{
    return layer->projection ? layer->projection : layer->units;
}

void *cudnn_layer_alloc(CudnnLayer *layer, size_t bytes)
{
    CUdeviceptr memory = 0;
    return layer->cuda->cuMemAlloc(&memory, bytes ? bytes : 16) ? NULL : (void *)memory;
}

void cudnn_layer_free(CudnnLayer *layer, void *memory)
{
    if (memory)
        layer->cuda->cuMemFree((CUdeviceptr)memory);
}

static int create_descriptors(CudnnLayer *layer)
{
    const CudnnLibrary *dnn = layer->dnn;
    int status = dnn->cudnnCreate(&layer->handle);
    if (!status)
        status = dnn->cudnnSetStream(layer->handle, layer->stream);
    if (!status)
        status = dnn->cudnnCreateDropoutDescriptor(&layer->dropout);
    if (!status)
        status = dnn->cudnnSetDropoutDescriptor(layer->dropout, layer->handle, 0.0f, NULL, 0, 0);
    if (!status)
        status = dnn->cudnnCreateRNNDataDescriptor(&layer->x_data);
    if (!status)
        status = dnn->cudnnCreateRNNDataDescriptor(&layer->y_data);
    CudnnTensor *const tensors[] = {&layer->h_tensor, &layer->c_tensor, &layer->matrix,
                                    &layer->bias};
    for (int i = 0; i < 4 && !status; i++)
        status = dnn->cudnnCreateTensorDescriptor(tensors[i]);
    return status;
}

/// Device memory of `bytes`, zeroed in the order of the stream; NULL where there is none left.
static void *zeroed(CudnnLayer *layer, size_t bytes)
{
    void *memory = cudnn_layer_alloc(layer, bytes);
    if (memory &&
        layer->cuda->cuMemsetD8Async((CUdeviceptr)memory, 0, bytes ? bytes : 1, layer->stream)) {
        cudnn_layer_free(layer, memory);
        return NULL;
    }
    return memory;
}

static int allocate_tensors(CudnnLayer *layer)
{
    const size_t rows = (size_t)layer->max_batch * (size_t)layer->max_timesteps;
    const size_t outputs = (size_t)cudnn_layer_outputs(layer), stack = (size_t)layer->directions;
    layer->lengths = rnnc_memory_alloc((size_t)layer->max_batch * sizeof *layer->lengths);
    layer->x = zeroed(layer, rows * (size_t)layer->inputs * layer->element_bytes);
    layer->y = cudnn_layer_alloc(layer, rows * stack * outputs * layer->element_bytes);
    int complete = layer->lengths && layer->x && layer->y;
    for (int i = 0; i < (layer->mode == DNN_LSTM ? 2 : 1); i++) {
        const size_t bytes = (size_t)layer->layers * stack * (size_t)layer->max_batch *
                             (i == 0 ? outputs : (size_t)layer->units) * layer->element_bytes;
        layer->state_in[i] = zeroed(layer, bytes);
        layer->state_out[i] = cudnn_layer_alloc(layer, bytes);
        complete = complete && layer->state_in[i] && layer->state_out[i];
    }
    return complete ? DNN_SUCCESS : DNN_ALLOC_FAILED;
}

int cudnn_layer_open(CudnnLayer *layer)
{
    const int status = create_descriptors(layer);
    return status ? status : allocate_tensors(layer);
}

void cudnn_layer_close(CudnnLayer *layer)
{
    const CudnnLibrary *dnn = layer->dnn;
    void *const memories[] = {
        layer->x,           layer->y, layer->state_in[0], layer->state_in[1], layer->state_out[0],
        layer->state_out[1]};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        cudnn_layer_free(layer, memories[i]);
    const CudnnTensor tensors[] = {layer->h_tensor, layer->c_tensor, layer->matrix, layer->bias};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        if (tensors[i])
            dnn->cudnnDestroyTensorDescriptor(tensors[i]);
    if (layer->x_data)
        dnn->cudnnDestroyRNNDataDescriptor(layer->x_data);
    if (layer->y_data)
        dnn->cudnnDestroyRNNDataDescriptor(layer->y_data);
    if (layer->dropout)
        dnn->cudnnDestroyDropoutDescriptor(layer->dropout);
    if (layer->handle)
        dnn->cudnnDestroy(layer->handle);
    rnnc_memory_free(layer->lengths);
}

int cudnn_layer_shape(CudnnLayer *layer, int batch, int timesteps)
{
    const CudnnLibrary *dnn = layer->dnn;
    if (layer->batch == batch && layer->timesteps == timesteps)
        return DNN_SUCCESS;
    layer->batch = layer->timesteps = 0;
    for (int i = 0; i < batch; i++)
        layer->lengths[i] = timesteps;
    const int outputs = cudnn_layer_outputs(layer), units = layer->units;
    const int stack = layer->layers * layer->directions, type = layer->data_type;
    const int h_dims[3] = {stack, batch, outputs}, h_strides[3] = {batch * outputs, outputs, 1};
    const int c_dims[3] = {stack, batch, units}, c_strides[3] = {batch * units, units, 1};
    int status = dnn->cudnnSetTensorNdDescriptor(layer->h_tensor, type, 3, h_dims, h_strides);
    if (!status)
        status = dnn->cudnnSetTensorNdDescriptor(layer->c_tensor, type, 3, c_dims, c_strides);
    if (!status)
        status =
            dnn->cudnnSetRNNDataDescriptor(layer->x_data, type, DNN_SEQ_MAJOR_PACKED, timesteps,
                                           batch, layer->inputs, layer->lengths, NULL);
    if (!status)
        status = dnn->cudnnSetRNNDataDescriptor(layer->y_data, type, DNN_SEQ_MAJOR_PACKED,
                                                timesteps, batch, layer->directions * outputs,
                                                layer->lengths, NULL);
    if (!status) {
        layer->batch = batch;
        layer->timesteps = timesteps;
    }
    return status;
}
