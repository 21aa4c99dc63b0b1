/* cuDNN's library: see cudnn_library.h. */
#include "cudnn_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CudnnLibrary library;
static int is_open;
static char failure[256];

static const struct {
    const char *name;
    size_t offset;
    int optional;
} symbols[] = {
#define CUDNN_SYMBOL(name, parameters) {#name, offsetof(CudnnLibrary, name), 0},
#include "cudnn_symbols.def"
#undef CUDNN_SYMBOL
    {"cudnnGetVersion", offsetof(CudnnLibrary, cudnnGetVersion), 0},
    {"cudnnGetErrorString", offsetof(CudnnLibrary, cudnnGetErrorString), 0},
    {"cudnnGetLastErrorString", offsetof(CudnnLibrary, cudnnGetLastErrorString), 1},
};

enum { OLDEST_VERSION = 90000 };

static void open_library(void)
{
    void *handle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
    if (!handle) {
        snprintf(failure, sizeof failure,
                 "cuDNN 9 is not installed here (libcudnn.so.9 cannot be opened)");
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol && !symbols[i].optional) {
            snprintf(failure, sizeof failure, "libcudnn.so.9 has no %s", symbols[i].name);
            return;
        }
        memcpy((char *)&library + symbols[i].offset, &symbol, sizeof symbol);
    }
    if (library.cudnnGetVersion() < OLDEST_VERSION) {
        snprintf(failure, sizeof failure, "cuDNN %zu is older than 9", library.cudnnGetVersion());
        return;
    }
    is_open = 1;
}

const CudnnLibrary *cudnn_library_open(const char **out_reason)
{
    pthread_once(&once, open_library);
    *out_reason = is_open ? NULL : failure;
    return is_open ? &library : NULL;
}
