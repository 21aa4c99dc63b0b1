/* Timing on a stream: see timing.h. */
#include "timing.h"

typedef struct {
    const rnnc_cuda_driver *cuda;
    CUstream stream;
    CUevent start, stop;
    CUgraphExec graph; /* NULL: plain launches */
    rnnc_error *error;
} Clock;

static rnnc_status fail(const Clock *clock, CUresult result, const char *doing)
{
    const char *words = NULL;
    clock->cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(clock->error, RNNC_DEVICE_ERROR, "CUDA, %s: %s", doing,
                          words ? words : "unknown error");
}

/// One run as a graph. A run that cannot be captured is unavailable, not a fault of the device.
static rnnc_status capture(Clock *clock, rnnc_cuda_launch launch, void *context)
{
    CUgraph graph = NULL;
    CUresult result =
        clock->cuda->cuStreamBeginCapture(clock->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (result)
        return fail(clock, result, "beginning a capture");
    const rnnc_status status = launch(context);
    result = clock->cuda->cuStreamEndCapture(clock->stream, &graph);
    if (status == RNNC_OK && !result)
        result = clock->cuda->cuGraphInstantiateWithFlags(&clock->graph, graph, 0);
    if (graph)
        clock->cuda->cuGraphDestroy(graph);
    if (status != RNNC_OK || result)
        return rnnc_error_set(clock->error, RNNC_UNAVAILABLE,
                              "a run cannot be captured in a CUDA graph");
    return RNNC_OK;
}

static rnnc_status sample(const Clock *clock, int32_t runs, rnnc_cuda_launch launch, void *context,
                          double *out_us)
{
    const rnnc_cuda_driver *cuda = clock->cuda;
    float ms = 0;
    CUresult result = cuda->cuEventRecord(clock->start, clock->stream);
    for (int32_t i = 0; i < runs && !result; i++) {
        const rnnc_status status = clock->graph ? RNNC_OK : launch(context);
        if (status != RNNC_OK)
            return status;
        if (clock->graph)
            result = cuda->cuGraphLaunch(clock->graph, clock->stream);
    }
    if (!result)
        result = cuda->cuEventRecord(clock->stop, clock->stream);
    if (!result)
        result = cuda->cuEventSynchronize(clock->stop);
    if (!result)
        result = cuda->cuEventElapsedTime(&ms, clock->start, clock->stop);
    *out_us = 1e3 * (double)ms / runs;
    return result ? fail(clock, result, "timing a run") : RNNC_OK;
}

rnnc_status rnnc_cuda_time(const rnnc_cuda_driver *cuda, CUstream stream, const rnnc_timing *timing,
                           rnnc_cuda_launch launch, void *context, rnnc_error *error,
                           double *out_us)
{
    Clock clock = {.cuda = cuda, .stream = stream, .error = error};
    CUresult result = cuda->cuEventCreate(&clock.start, 0);
    if (!result)
        result = cuda->cuEventCreate(&clock.stop, 0);
    rnnc_status status = result ? fail(&clock, result, "making events") : RNNC_OK;
    if (status == RNNC_OK && timing->in_graph)
        status = capture(&clock, launch, context);
    for (int32_t i = 0; i < timing->samples && status == RNNC_OK; i++)
        status = sample(&clock, timing->runs, launch, context, &out_us[i]);
    if (clock.graph)
        cuda->cuGraphExecDestroy(clock.graph);
    if (clock.start)
        cuda->cuEventDestroy(clock.start);
    if (clock.stop)
        cuda->cuEventDestroy(clock.stop);
    return status;
}
