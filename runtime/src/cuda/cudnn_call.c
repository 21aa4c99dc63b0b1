/* cuDNN alone: its recurrent layer with tensors of its own, to compare with. The
 * weights and the input are random, for a chip's clock depends on what it multiplies. */
#include <stdbool.h>
#include <string.h>

#include "../error.h"
#include "../memory.h"
#include "cudnn_training.h"
#include "float16.h"
#include "timing.h"

enum { RANDOM_VALUES = 1 << 16 };

struct rnnc_cudnn_call {
    const rnnc_cuda_driver *cuda;
    CUdevice device;
    CUcontext context;
    CudnnLayer layer;
    CudnnAlgorithm algorithm;
    bool trains;
    CudnnTraining training; /* with trains */
    int64_t memory_before, memory_bytes;
    rnnc_error error;
};

const char *rnnc_cudnn_algorithm_name(int32_t algorithm)
{
    return algorithm >= 0 && algorithm < DNN_ALGORITHMS ? cudnn_algorithm_names[algorithm] : NULL;
}

/// The same pseudo-random values within (-scale, scale), over and over.
static CUresult fill(rnnc_cudnn_call *call, void *to, size_t bytes, float scale)
{
    const CudnnLayer *layer = &call->layer;
    const size_t block_bytes = RANDOM_VALUES * layer->element_bytes;
    char *block = rnnc_memory_alloc(block_bytes);
    if (!block)
        return 2;
    uint32_t state = 1;
    for (size_t i = 0; i < RANDOM_VALUES; i++) {
        state = state * 1664525u + 1013904223u;
        const float value = scale * ((float)(state >> 8) / (float)(1 << 23) - 1.0f);
        const uint16_t bits =
            layer->data_type == DNN_HALF ? rnnc_to_float16(value) : rnnc_to_bfloat16(value);
        memcpy(block + i * layer->element_bytes,
               layer->element_bytes == 2 ? (const void *)&bits : (const void *)&value,
               layer->element_bytes);
    }
    CUresult result = 0;
    for (size_t done = 0; done < bytes && !result; done += block_bytes) {
        const size_t part = bytes - done < block_bytes ? bytes - done : block_bytes;
        result = rnnc_cuda_write(call->cuda, layer->stream, (CUdeviceptr)to + done, block, part);
    }
    rnnc_memory_free(block);
    return result;
}

static rnnc_status enter(rnnc_cudnn_call *call, const rnnc_cudnn_case *of)
{
    const rnnc_cuda_driver *cuda = call->cuda;
    int count = 0;
    cuda->cuDeviceGetCount(&count);
    if (of->ordinal < 0 || of->ordinal >= count)
        return rnnc_error_set(NULL, RNNC_UNAVAILABLE, "there is no GPU %d here, %d in all",
                              (int)of->ordinal, count);
    if (cuda->cuDeviceGet(&call->device, of->ordinal) ||
        cuda->cuDevicePrimaryCtxRetain(&call->context, call->device))
        return rnnc_error_set(NULL, RNNC_DEVICE_ERROR, "CUDA: cannot open GPU %d",
                              (int)of->ordinal);
    cuda->cuCtxPushCurrent(call->context);
    call->memory_before = rnnc_cuda_memory_held();
    return cuda->cuStreamCreate(&call->layer.stream, CU_STREAM_NON_BLOCKING)
               ? rnnc_error_set(NULL, RNNC_DEVICE_ERROR, "CUDA: cannot make a stream")
               : RNNC_OK;
}

static void leave(rnnc_cudnn_call *call)
{
    CUcontext unused;
    call->cuda->cuCtxPopCurrent(&unused);
}

/// Sets up the backward pass; a first run tells whether the library refuses. The gradients that
/// come in are so small that float16 holds the sums of all runs.
static rnnc_status open_training(rnnc_cudnn_call *call)
{
    CudnnLayer *layer = &call->layer;
    char words[256] = "";
    int status = cudnn_training_open(layer, &call->algorithm, &call->training);
    if (!status && fill(call, call->training.dy, call->training.dy_bytes, 1e-4f))
        status = DNN_EXECUTION_FAILED;
    if (!status)
        status = cudnn_training_run(layer, &call->algorithm, &call->training);
    if (!status)
        return RNNC_OK;
    cudnn_status_text(layer->dnn, status, words, sizeof words);
    return rnnc_error_set(NULL, RNNC_UNAVAILABLE, "cuDNN refuses %s in training: %s",
                          cudnn_algorithm_names[call->algorithm.algorithm], words);
}

static rnnc_status open(rnnc_cudnn_call *call, const rnnc_cudnn_case *of, int32_t algorithm)
{
    CudnnLayer *layer = &call->layer;
    char words[256] = "";
    int status = cudnn_layer_open(layer);
    if (status) {
        cudnn_status_text(layer->dnn, status, words, sizeof words);
        return rnnc_error_set(NULL, RNNC_DEVICE_ERROR, "cuDNN, setting up: %s", words);
    }
    const size_t x_bytes =
        (size_t)of->batch * (size_t)of->timesteps * (size_t)of->inputs * layer->element_bytes;
    if (fill(call, layer->x, x_bytes, 1.0f))
        return rnnc_error_set(NULL, RNNC_DEVICE_ERROR, "CUDA: cannot fill the input");
    if (!cudnn_algorithm_open(layer, algorithm, &call->algorithm))
        return rnnc_error_set(NULL, RNNC_UNAVAILABLE, "cuDNN refuses %s: %s",
                              cudnn_algorithm_names[algorithm], call->algorithm.refusal);
    if (fill(call, call->algorithm.weights, call->algorithm.weight_bytes, 0.03f))
        return rnnc_error_set(NULL, RNNC_DEVICE_ERROR, "CUDA: cannot fill the weights");
    const rnnc_status trained = call->trains ? open_training(call) : RNNC_OK;
    call->memory_bytes = rnnc_cuda_memory_held() - call->memory_before;
    return trained;
}

static bool fits(const rnnc_cudnn_case *of, int32_t algorithm)
{
    const int64_t widest = of->units > of->inputs ? of->units : of->inputs;
    return algorithm >= 0 && algorithm < DNN_ALGORITHMS && of->batch > 0 && of->timesteps > 0 &&
           of->timesteps < 65536 && of->inputs > 0 && of->units > 0 && of->layers > 0 &&
           of->directions > 0 && of->directions < 3 && of->batch <= INT32_MAX / (2 * widest) &&
           of->precision >= RNNC_FLOAT32 && of->precision <= RNNC_FLOAT16;
}

rnnc_status rnnc_cudnn_open(const rnnc_cudnn_case *of, int32_t algorithm,
                            rnnc_cudnn_call **out_call)
{
    if (!of || !out_call)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "rnnc_cudnn_open: a pointer is NULL");
    *out_call = NULL;
    if (!fits(of, algorithm))
        return rnnc_error_set(NULL, RNNC_UNAVAILABLE,
                              "cuDNN's 32-bit interface takes no such "
                              "sizes");
    const char *missing;
    const rnnc_cuda_driver *cuda = rnnc_cuda_driver_open(&missing);
    const CudnnLibrary *dnn = cuda ? cudnn_library_open(&missing) : NULL;
    if (!dnn)
        return rnnc_error_set(NULL, RNNC_UNAVAILABLE, "%s", missing);
    rnnc_cudnn_call *call = rnnc_memory_alloc(sizeof *call);
    if (!call)
        return rnnc_error_set(NULL, RNNC_OUT_OF_MEMORY, "out of host memory");
    call->cuda = cuda;
    call->trains = of->training;
    call->layer = (CudnnLayer){.dnn = dnn,
                               .cuda = cuda,
                               .mode = of->mode,
                               .bias_mode = of->bias,
                               .layers = of->layers,
                               .directions = of->directions,
                               .inputs = (int)of->inputs,
                               .units = (int)of->units,
                               .projection = (int)of->projection,
                               .max_batch = (int)of->batch,
                               .max_timesteps = (int)of->timesteps};
    cudnn_layer_set_precision(&call->layer, (rnnc_precision)of->precision);
    rnnc_status status = enter(call, of);
    if (status == RNNC_OK)
        status = open(call, of, algorithm);
    if (call->context)
        leave(call);
    if (status == RNNC_OK)
        *out_call = call;
    else
        rnnc_cudnn_close(call);
    return status;
}

void rnnc_cudnn_close(rnnc_cudnn_call *call)
{
    if (!call)
        return;
    if (call->context) {
        call->cuda->cuCtxPushCurrent(call->context);
        if (call->layer.stream)
            call->cuda->cuStreamSynchronize(call->layer.stream);
        cudnn_training_close(&call->layer, &call->training);
        cudnn_algorithm_close(&call->layer, &call->algorithm);
        cudnn_layer_close(&call->layer);
        if (call->layer.stream)
            call->cuda->cuStreamDestroy(call->layer.stream);
        leave(call);
        call->cuda->cuDevicePrimaryCtxRelease(call->device);
    }
    rnnc_memory_free(call);
}

static rnnc_status run(void *context)
{
    rnnc_cudnn_call *call = context;
    const int status =
        call->trains
            ? cudnn_training_run(&call->layer, &call->algorithm, &call->training)
            : cudnn_algorithm_forward(&call->layer, &call->algorithm, call->layer.x, call->layer.y);
    char words[256] = "";
    if (status)
        cudnn_status_text(call->layer.dnn, status, words, sizeof words);
    return status ? rnnc_error_set(NULL, RNNC_DEVICE_ERROR, "cuDNN, running: %s", words) : RNNC_OK;
}

rnnc_status rnnc_cudnn_time(rnnc_cudnn_call *call, const rnnc_timing *timing, double *out_us)
{
    if (!call || !timing || !out_us || timing->runs < 1 || timing->samples < 1)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_cudnn_time: a pointer is NULL, or no run is asked for");
    call->cuda->cuCtxPushCurrent(call->context);
    const rnnc_status status =
        rnnc_cuda_time(call->cuda, call->layer.stream, timing, run, call, NULL, out_us);
    leave(call);
    return status;
}

size_t rnnc_cudnn_memory(const rnnc_cudnn_call *call)
{
    return call ? (size_t)call->memory_bytes : 0;
}
