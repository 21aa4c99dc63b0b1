/* cuDNN's library: see cudnn_library.h. */
#include "cudnn_library.h"

#include <pthread.h>
#include <stdio.h>

#include "library.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CudnnLibrary library;
static int is_open;
static char failure[RNNC_REASON_BYTES];

static const rnnc_symbol symbols[] = {
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
    static const char *const names[] = {"libcudnn.so.9", NULL};
    if (!rnnc_library_open("cuDNN 9", names, symbols, sizeof symbols / sizeof symbols[0], &library,
                           failure))
        return;
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
