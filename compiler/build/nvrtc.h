// NVRTC: the run-time compiler of CUDA, opened when the first kernel is compiled, so that rnnc
// starts and serves CPU targets on machines without it. Needs no GPU.
#ifndef RNNC_BUILD_NVRTC_H
#define RNNC_BUILD_NVRTC_H

#include "base/diag.h"

typedef struct Nvrtc Nvrtc;

/// What one compilation gave. Memory from malloc: compilations run on several threads, and an arena
/// serves one. `log` holds errors, or what ptxas -v prints.
typedef struct {
    bool compiled;
    char *cubin, *ptx, *log;
    size_t cubin_bytes;
} NvrtcResult;

/// Opens the library. Adds E0701 and returns NULL where it is missing.
const Nvrtc *nvrtc_open(Arena *arena, Diags *diags);

/// Compiles `source` for `arch`, "sm_90a", or to PTX alone for "compute_90". `name` is an absolute
/// virtual file name, so that cubins do not depend on folders. May be called from several threads
/// at once.
NvrtcResult nvrtc_compile(const Nvrtc *nvrtc, const char *source, const char *name,
                          const char *const *options, int option_count, const char *arch);

void nvrtc_result_free(NvrtcResult *result);

#endif
