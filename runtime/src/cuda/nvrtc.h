/* NVRTC at load time: builds a module's embedded source for a GPU that it has no cubin for. */
#ifndef RNNC_CUDA_NVRTC_H
#define RNNC_CUDA_NVRTC_H

#include <stddef.h>

typedef struct {
#define NVRTC_SYMBOL(name, parameters) int(*name) parameters;
#include "nvrtc_symbols.def"
#undef NVRTC_SYMBOL
    int version; /* 1300 for 13.0 */
} rnnc_nvrtc;

/* The library, opened once a process; NULL where it is missing. Any thread. */
const rnnc_nvrtc *rnnc_nvrtc_open(void);

/* Compiles for sm_<arch> with `options`, one a line. The cubin is a block from rnnc_memory_alloc;
 * NULL on failure, with the log's beginning in `log`. */
void *rnnc_nvrtc_compile(const rnnc_nvrtc *nvrtc, const char *source, const char *options, int arch,
                         size_t *out_bytes, char *log, size_t log_bytes);

#endif
