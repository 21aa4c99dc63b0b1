/* The driver's context of a device, its streams, and what it says of the GPU. */
#ifndef RNNC_CUDA_CONTEXT_H
#define RNNC_CUDA_CONTEXT_H

#include <stdbool.h>

#include "../device.h"
#include "driver.h"

typedef struct {
    const rnnc_cuda_driver *cuda;
    rnnc_error *error;
    CUdevice handle;
    CUcontext context;
    CUstream stream, second; /* second NULL: no layer runs beside another at the same time */
    CUevent fork, join;
    bool owns_stream;
    int arch; /* 90 */
    char name[192];
} rnnc_cuda_context;

/* The session's stream or one of its own; a second where layers run side by side, but not in
 * modules that train: there they take turns, for cuBLAS has one stream. Close it also after a
 * failure. */
rnnc_status rnnc_cuda_context_open(const rnnc_cuda_driver *cuda, const rnnc_device_options *options,
                                   rnnc_cuda_context *gpu);
void rnnc_cuda_context_close(rnnc_cuda_context *gpu);

/* Makes the context the thread's current one, and the one before it again. */
void rnnc_cuda_context_enter(const rnnc_cuda_context *gpu);
void rnnc_cuda_context_leave(const rnnc_cuda_context *gpu);

/* The driver's words for a result; RNNC_OK for 0. */
rnnc_status rnnc_cuda_context_check(const rnnc_cuda_context *gpu, CUresult result,
                                    const char *doing);

/* Work on the second stream from here on comes after what the first has been given so far, and the
 * other way. In the context. */
rnnc_status rnnc_cuda_context_fork(const rnnc_cuda_context *gpu);
rnnc_status rnnc_cuda_context_join(const rnnc_cuda_context *gpu);

/* Waits for both streams. In the context. */
void rnnc_cuda_context_finish(const rnnc_cuda_context *gpu);

#endif
