/* Wavefront: see wavefront.h. */
#include "wavefront.h"

#include <stdbool.h>

#include "../layer.h"
#include "../memory.h"

struct rnnc_cuda_wavefront {
    const rnnc_cuda_driver *cuda;
    rnnc_error *error;
    int depth;
    CUstream streams[RNNC_STACK_MAX]; /* the first is the session's */
    CUevent done[RNNC_STACK_MAX];     /* the last chunk given to each stream */
};

/* A chunk's launches over the time of a step, as on an H200: some 6 us over 1 us. */
enum { LAUNCH_STEPS = 6 };

int64_t rnnc_cuda_wavefront_chunk(int count, int64_t timesteps)
{
    /* (chunks + count - 1) * (timesteps / chunks + LAUNCH_STEPS) is least at the root of this. */
    const int64_t square = (count - 1) * timesteps / LAUNCH_STEPS;
    int64_t chunks = 1;
    while ((chunks + 1) * (chunks + 1) <= square)
        chunks++;
    return chunks < 2 ? 0 : (timesteps + chunks - 1) / chunks;
}

static int deepest(const rnnc_module_desc *module)
{
    int depth = 1;
    for (int32_t i = 0; i < module->layer_count; i++) {
        const int count = rnnc_layer_stack(module, i);
        depth = count > depth ? count : depth;
    }
    return depth;
}

static rnnc_status check(const rnnc_cuda_wavefront *wavefront, CUresult result, const char *doing)
{
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    wavefront->cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(wavefront->error, RNNC_DEVICE_ERROR, "CUDA, %s: %s", doing,
                          words ? words : "unknown error");
}

rnnc_status rnnc_cuda_wavefront_open(const rnnc_cuda_driver *cuda,
                                     const rnnc_device_options *device, CUstream stream,
                                     rnnc_cuda_wavefront **out)
{
    const int depth = deepest(device->module);
    *out = NULL;
    if (depth < 2 || !rnnc_cuda_wavefront_chunk(depth, device->max_timesteps))
        return RNNC_OK;
    rnnc_cuda_wavefront *wavefront = rnnc_memory_alloc(sizeof *wavefront);
    if (!wavefront)
        return rnnc_error_set(device->error, RNNC_OUT_OF_MEMORY, "no memory for the wavefront");
    *wavefront = (rnnc_cuda_wavefront){
        .cuda = cuda, .error = device->error, .depth = depth, .streams = {stream}};
    CUresult result = 0;
    for (int i = 0; i < depth && !result; i++) {
        if (i > 0)
            result = cuda->cuStreamCreate(&wavefront->streams[i], CU_STREAM_NON_BLOCKING);
        if (!result)
            result = cuda->cuEventCreate(&wavefront->done[i], CU_EVENT_DISABLE_TIMING);
    }
    const rnnc_status status = check(wavefront, result, "making the streams of a wavefront");
    if (status == RNNC_OK)
        *out = wavefront;
    else
        rnnc_cuda_wavefront_close(wavefront);
    return status;
}

void rnnc_cuda_wavefront_close(rnnc_cuda_wavefront *wavefront)
{
    if (!wavefront)
        return;
    for (int i = 0; i < wavefront->depth; i++) {
        if (wavefront->done[i])
            wavefront->cuda->cuEventDestroy(wavefront->done[i]);
        if (i > 0 && wavefront->streams[i])
            wavefront->cuda->cuStreamDestroy(wavefront->streams[i]);
    }
    rnnc_memory_free(wavefront);
}

/* Steps `first` ... of a call, on stream `layer`. */
static rnnc_layer_call part_of(const rnnc_cuda_wavefront *wavefront, const rnnc_layer_call *calls,
                               int layer, int64_t first, int64_t chunk, bool sequence_out)
{
    rnnc_layer_call part = calls[layer];
    const int64_t left = part.timesteps - first;
    part.timesteps = left < chunk ? left : chunk;
    part.x = (const float *)part.x + first * part.x_step_stride;
    if (sequence_out)
        part.y += first * part.y_step_stride;
    part.stream = wavefront->streams[layer];
    return part;
}

/* Work on stream `to` from here on comes after what `from` has been given so far. */
static CUresult follow(const rnnc_cuda_wavefront *wavefront, int from, int to)
{
    CUresult result =
        wavefront->cuda->cuEventRecord(wavefront->done[from], wavefront->streams[from]);
    return result ? result
                  : wavefront->cuda->cuStreamWaitEvent(wavefront->streams[to],
                                                       wavefront->done[from], 0);
}

rnnc_status rnnc_cuda_wavefront_run(rnnc_cuda_wavefront *wavefront, const rnnc_module_desc *module,
                                    const rnnc_layer_call *calls, int count, int64_t chunk,
                                    rnnc_status (*run)(void *context, rnnc_layer_call *part),
                                    void *context)
{
    const int64_t timesteps = calls[0].timesteps, chunks = (timesteps + chunk - 1) / chunk;
    rnnc_status status = RNNC_OK;
    CUresult result = 0;
    for (int layer = 1; layer < count && !result; layer++)
        result = follow(wavefront, 0, layer);
    for (int64_t wave = 0; wave < chunks + count - 1 && !result && status == RNNC_OK; wave++)
        for (int layer = count - 1; layer >= 0 && !result && status == RNNC_OK; layer--) {
            const int64_t at = wave - layer;
            if (at < 0 || at >= chunks)
                continue;
            rnnc_layer_call part = part_of(wavefront, calls, layer, at * chunk, chunk,
                                           module->layers[calls[layer].layer].sequence_out != 0);
            status = run(context, &part);
            if (status == RNNC_OK && layer + 1 < count)
                result = follow(wavefront, layer, layer + 1);
        }
    for (int layer = 1; layer < count; layer++) {
        const CUresult joined = follow(wavefront, layer, 0);
        result = result ? result : joined;
    }
    return status == RNNC_OK ? check(wavefront, result, "running a wavefront") : status;
}
