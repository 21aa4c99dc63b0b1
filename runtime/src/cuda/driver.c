/* The CUDA driver: see driver.h. */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>

#include "library.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static rnnc_cuda_driver driver;
static int is_open;
static char failure[RNNC_REASON_BYTES];

static const rnnc_symbol symbols[] = {
#define DRIVER_SYMBOL(name, exported, parameters) {#exported, offsetof(rnnc_cuda_driver, name), 0},
#include "driver_symbols.def"
#undef DRIVER_SYMBOL
};

/// The driver's own functions, behind those that count.
static CUresult (*driver_alloc)(CUdeviceptr *memory, size_t bytes);
static CUresult (*driver_free)(CUdeviceptr memory);
static _Thread_local long long held_bytes;

static size_t size_of(CUdeviceptr memory)
{
    CUdeviceptr base;
    size_t bytes = 0;
    return driver.cuMemGetAddressRange(&base, &bytes, memory) ? 0 : bytes;
}

static CUresult counting_alloc(CUdeviceptr *memory, size_t bytes)
{
    const CUresult result = driver_alloc(memory, bytes);
    if (!result)
        held_bytes += (long long)size_of(*memory);
    return result;
}

static CUresult counting_free(CUdeviceptr memory)
{
    held_bytes -= memory ? (long long)size_of(memory) : 0;
    return driver_free(memory);
}

long long rnnc_cuda_memory_held(void)
{
    return held_bytes;
}

static void open_driver(void)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    if (!rnnc_library_open("the NVIDIA driver", names, symbols, sizeof symbols / sizeof symbols[0],
                           &driver, failure))
        return;
    int count = 0;
    CUresult result = driver.cuInit(0);
    if (!result)
        result = driver.cuDeviceGetCount(&count);
    if (result || count == 0) {
        const char *text = NULL;
        if (result)
            driver.cuGetErrorString(result, &text);
        snprintf(failure, sizeof failure, "the NVIDIA driver sees no GPU%s%s", text ? ": " : "",
                 text ? text : "");
        return;
    }
    driver_alloc = driver.cuMemAlloc;
    driver_free = driver.cuMemFree;
    driver.cuMemAlloc = counting_alloc;
    driver.cuMemFree = counting_free;
    is_open = 1;
}

const rnnc_cuda_driver *rnnc_cuda_driver_open(const char **out_reason)
{
    pthread_once(&once, open_driver);
    *out_reason = is_open ? NULL : failure;
    return is_open ? &driver : NULL;
}

CUresult rnnc_cuda_write(const rnnc_cuda_driver *cuda, CUstream stream, CUdeviceptr to,
                         const void *from, size_t bytes)
{
    CUresult result = cuda->cuMemcpyHtoDAsync(to, from, bytes, stream);
    return result ? result : cuda->cuStreamSynchronize(stream);
}
