/* The driver's context: see context.h. */
#include "context.h"

#include <stdio.h>

#include "../layer.h"

enum { OUT_OF_MEMORY = 2 };

rnnc_status rnnc_cuda_context_check(const rnnc_cuda_context *gpu, CUresult result,
                                    const char *doing)
{
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    gpu->cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(gpu->error,
                          result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
                          "CUDA, %s: %s", doing, words ? words : "unknown error");
}

void rnnc_cuda_context_enter(const rnnc_cuda_context *gpu)
{
    gpu->cuda->cuCtxPushCurrent(gpu->context);
}

void rnnc_cuda_context_leave(const rnnc_cuda_context *gpu)
{
    CUcontext unused;
    gpu->cuda->cuCtxPopCurrent(&unused);
}

/// The context of GPU `ordinal`, its architecture and name.
static rnnc_status open_gpu(rnnc_cuda_context *gpu, int ordinal)
{
    const rnnc_cuda_driver *cuda = gpu->cuda;
    int count = 0, major = 0, minor = 0;
    char chip[128] = "";
    cuda->cuDeviceGetCount(&count);
    if (ordinal >= count)
        return rnnc_error_set(gpu->error, RNNC_UNAVAILABLE, "there is no GPU %d here, %d in all",
                              ordinal, count);
    CUresult result = cuda->cuDeviceGet(&gpu->handle, ordinal);
    if (!result)
        result = cuda->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                            gpu->handle);
    if (!result)
        result = cuda->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                            gpu->handle);
    if (!result)
        result = cuda->cuDevicePrimaryCtxRetain(&gpu->context, gpu->handle);
    if (result)
        return rnnc_cuda_context_check(gpu, result, "opening the GPU");
    cuda->cuDeviceGetName(chip, sizeof chip, gpu->handle);
    gpu->arch = 10 * major + minor;
    snprintf(gpu->name, sizeof gpu->name, "cuda:%d (%s)", ordinal, chip);
    return RNNC_OK;
}

static rnnc_status open_streams(rnnc_cuda_context *gpu, const rnnc_device_options *options)
{
    const rnnc_module_desc *module = options->module;
    const rnnc_cuda_driver *cuda = gpu->cuda;
    bool is_beside = false;
    CUresult result = 0;
    for (int i = 0; i < module->layer_count && !rnnc_module_training(module); i++)
        is_beside |= module->layers[i].beside != 0;
    gpu->stream = options->stream;
    if (!gpu->stream) {
        result = cuda->cuStreamCreate(&gpu->stream, CU_STREAM_NON_BLOCKING);
        gpu->owns_stream = !result;
    }
    if (!result && is_beside)
        result = cuda->cuStreamCreate(&gpu->second, CU_STREAM_NON_BLOCKING);
    if (!result && is_beside)
        result = cuda->cuEventCreate(&gpu->fork, CU_EVENT_DISABLE_TIMING);
    if (!result && is_beside)
        result = cuda->cuEventCreate(&gpu->join, CU_EVENT_DISABLE_TIMING);
    return rnnc_cuda_context_check(gpu, result, "making streams");
}

rnnc_status rnnc_cuda_context_open(const rnnc_cuda_driver *cuda, const rnnc_device_options *options,
                                   rnnc_cuda_context *gpu)
{
    *gpu = (rnnc_cuda_context){.cuda = cuda, .error = options->error};
    rnnc_status status = open_gpu(gpu, options->ordinal);
    if (status != RNNC_OK)
        return status;
    rnnc_cuda_context_enter(gpu);
    status = open_streams(gpu, options);
    rnnc_cuda_context_leave(gpu);
    return status;
}

void rnnc_cuda_context_close(rnnc_cuda_context *gpu)
{
    if (!gpu->context)
        return;
    rnnc_cuda_context_enter(gpu);
    if (gpu->fork)
        gpu->cuda->cuEventDestroy(gpu->fork);
    if (gpu->join)
        gpu->cuda->cuEventDestroy(gpu->join);
    if (gpu->second)
        gpu->cuda->cuStreamDestroy(gpu->second);
    if (gpu->owns_stream)
        gpu->cuda->cuStreamDestroy(gpu->stream);
    rnnc_cuda_context_leave(gpu);
    gpu->cuda->cuDevicePrimaryCtxRelease(gpu->handle);
}

static rnnc_status order(const rnnc_cuda_context *gpu, CUevent event, CUstream from, CUstream to)
{
    CUresult result = gpu->cuda->cuEventRecord(event, from);
    if (!result)
        result = gpu->cuda->cuStreamWaitEvent(to, event, 0);
    return rnnc_cuda_context_check(gpu, result, "ordering two streams");
}

rnnc_status rnnc_cuda_context_fork(const rnnc_cuda_context *gpu)
{
    return order(gpu, gpu->fork, gpu->stream, gpu->second);
}

rnnc_status rnnc_cuda_context_join(const rnnc_cuda_context *gpu)
{
    return order(gpu, gpu->join, gpu->second, gpu->stream);
}

void rnnc_cuda_context_finish(const rnnc_cuda_context *gpu)
{
    if (gpu->stream)
        gpu->cuda->cuStreamSynchronize(gpu->stream);
    if (gpu->second)
        gpu->cuda->cuStreamSynchronize(gpu->second);
}
