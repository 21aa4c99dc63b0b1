/* The CUDA driver: see driver.h. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static rnnc_cuda_driver driver;
static int is_open;
static char failure[256];

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define DRIVER_SYMBOL(name, exported, parameters) {#exported, offsetof(rnnc_cuda_driver, name)},
#include "driver_symbols.def"
#undef DRIVER_SYMBOL
};

static void open_driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!handle) {
        snprintf(failure, sizeof failure,
                 "no NVIDIA driver is installed here (libcuda.so.1 cannot be opened)");
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol) {
            snprintf(failure, sizeof failure, "the NVIDIA driver is too old: it has no %s",
                     symbols[i].name);
            return;
        }
        memcpy((char *)&driver + symbols[i].offset, &symbol, sizeof symbol);
    }
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
    is_open = 1;
}

const rnnc_cuda_driver *rnnc_cuda_driver_open(const char **out_reason)
{
    pthread_once(&once, open_driver);
    *out_reason = is_open ? NULL : failure;
    return is_open ? &driver : NULL;
}
