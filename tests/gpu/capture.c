// Capture: rnnc_run inside the caller's CUDA graph, for every GPU variant that a module holds:
//
//     capture MODULE.so ...
//
// A plain run gives the right bits (the conformance suite says so); then rnnc_run is captured into
// a graph, the output is poisoned, the graph is launched three times, and the output must have the
// same bits. All of that twice: without and with a mask that has holes. Ends with `N passed, N
// failed, N skipped`; 77 where there is no GPU.
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnnc/rnnc.h"

static const char *const variants[] = {
    "stepwise",        "unrolled", "persistent_cta", "persistent_cluster",  "persistent_grid",
    "persistent_wide", "cudnn",    "cudnn:standard", "cudnn:persist_static"};
enum { BATCH = 3, TIMESTEPS = 9, LAUNCHES = 3, CAPTURE_THREAD_LOCAL = 1, EXIT_SKIPPED = 77 };

static struct {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuStreamCreate)(void **, unsigned);
    int (*cuStreamBeginCapture_v2)(void *, int);
    int (*cuStreamEndCapture)(void *, void **);
    int (*cuGraphInstantiateWithFlags)(void **, void *, unsigned long long);
    int (*cuGraphLaunch)(void *, void *);
} cuda;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
    {"cuInit", &cuda.cuInit},
    {"cuDevicePrimaryCtxRetain", &cuda.cuDevicePrimaryCtxRetain},
    {"cuCtxSetCurrent", &cuda.cuCtxSetCurrent},
    {"cuStreamCreate", &cuda.cuStreamCreate},
    {"cuStreamBeginCapture_v2", &cuda.cuStreamBeginCapture_v2},
    {"cuStreamEndCapture", &cuda.cuStreamEndCapture},
    {"cuGraphInstantiateWithFlags", &cuda.cuGraphInstantiateWithFlags},
    {"cuGraphLaunch", &cuda.cuGraphLaunch},
};

static int open_cuda(void **out_stream)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    for (size_t i = 0; library && i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return 0;
        memcpy(symbols[i].slot, &symbol, sizeof symbol);
    }
    return library && !cuda.cuInit(0) && !cuda.cuDevicePrimaryCtxRetain(&context, 0) &&
           !cuda.cuCtxSetCurrent(context) && !cuda.cuStreamCreate(out_stream, 1);
}

/// A tensor on the device with room for its values on the host.
typedef struct {
    DLTensor tensor;
    int64_t shape[4];
    size_t bytes;
    float *host;
} Array;

static rnnc_status array_make(rnnc_session *session, const rnnc_module *module, const char *name,
                              Array *out)
{
    const rnnc_tensor_info *info = NULL;
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++)
        if (strcmp(rnnc_module_tensor(module, i)->name, name) == 0)
            info = rnnc_module_tensor(module, i);
    if (!info)
        return RNNC_NOT_FOUND;
    out->bytes = info->dtype.bits / 8;
    for (int32_t d = 0; d < info->ndim; d++) {
        out->shape[d] = info->dims[d] == RNNC_DIM_BATCH  ? BATCH
                        : info->dims[d] == RNNC_DIM_TIME ? TIMESTEPS
                                                         : info->dims[d];
        out->bytes *= (size_t)out->shape[d];
    }
    out->tensor = (DLTensor){.device = {kDLCUDA, 0}, .ndim = info->ndim, .dtype = info->dtype};
    out->tensor.shape = out->shape;
    out->host = malloc(out->bytes);
    for (size_t i = 0; info->dtype.code == kDLFloat && i < out->bytes / 4; i++)
        out->host[i] = (float)(rand() % 2001 - 1000) / 1000;
    for (size_t i = 0; info->dtype.bits == 8 && i < out->bytes; i++)
        ((unsigned char *)out->host)[i] = i % 4 != 1;
    rnnc_status status = rnnc_device_alloc(session, out->bytes, &out->tensor.data);
    if (status == RNNC_OK)
        status = rnnc_device_write(session, out->tensor.data, out->host, out->bytes);
    return status == RNNC_OK ? rnnc_bind(session, name, &out->tensor) : status;
}

static int read_back(rnnc_session *session, Array *array)
{
    return rnnc_synchronize(session) == RNNC_OK &&
           rnnc_device_read(session, array->host, array->tensor.data, array->bytes) == RNNC_OK;
}

/// rnnc_run as a graph, launched several times. What is wrong, or NULL.
static const char *run_graph(rnnc_session *session, void *stream)
{
    void *graph = NULL, *executable = NULL;
    if (cuda.cuStreamBeginCapture_v2(stream, CAPTURE_THREAD_LOCAL))
        return "capture cannot be started";
    const rnnc_status status = rnnc_run(session);
    if (cuda.cuStreamEndCapture(stream, &graph) || status != RNNC_OK)
        return status != RNNC_OK ? rnnc_session_error(session) : "the run broke the capture";
    if (cuda.cuGraphInstantiateWithFlags(&executable, graph, 0))
        return "the graph cannot be instantiated";
    for (int i = 0; i < LAUNCHES; i++)
        if (cuda.cuGraphLaunch(executable, stream))
            return "the graph cannot be launched";
    return NULL;
}

/// With what is bound beside it, plain and as a graph. What is wrong, or NULL.
static const char *compare(rnnc_session *session, Array *y, void *stream)
{
    if (!read_back(session, y))
        return rnnc_session_error(session);
    float *right = malloc(y->bytes);
    memcpy(right, y->host, y->bytes);
    memset(y->host, 0xff, y->bytes); // NaN
    const char *fault = NULL;
    if (rnnc_device_write(session, y->tensor.data, y->host, y->bytes) != RNNC_OK)
        fault = rnnc_session_error(session);
    if (!fault)
        fault = run_graph(session, stream);
    if (!fault && !read_back(session, y))
        fault = rnnc_session_error(session);
    if (!fault && (memcmp(right, y->host, y->bytes) != 0 || !isfinite(right[0])))
        fault = "the graph's output differs from the plain run's";
    free(right);
    return fault;
}

/// One session, with a mask or without; *out_skipped: the variant cannot mask. What is wrong, or
/// NULL.
static const char *check(rnnc_session *session, const rnnc_module *module, void *stream, int masked,
                         int *out_skipped)
{
    Array x = {0}, y = {0}, mask = {0};
    rnnc_status status = array_make(session, module, "x", &x);
    if (status == RNNC_OK)
        status = array_make(session, module, "y", &y);
    if (status == RNNC_OK && masked)
        status = array_make(session, module, "mask", &mask);
    if (status == RNNC_OK)
        status = rnnc_run(session);
    *out_skipped = masked && status == RNNC_UNAVAILABLE;
    const char *fault = status == RNNC_OK ? compare(session, &y, stream)
                        : *out_skipped    ? NULL
                                          : rnnc_session_error(session);
    Array *const arrays[] = {&x, &y, &mask};
    for (int i = 0; i < 3; i++) {
        rnnc_device_free(session, arrays[i]->tensor.data);
        free(arrays[i]->host);
    }
    return fault;
}

int main(int argument_count, char **arguments)
{
    void *stream;
    int passed = 0, failed = 0, skipped = 0;
    if (!open_cuda(&stream)) {
        printf("skipped: there is no CUDA device\n");
        return EXIT_SKIPPED;
    }
    for (int i = 1; i < argument_count; i++)
        for (size_t v = 0; v < 2 * sizeof variants / sizeof *variants; v++) {
            rnnc_module *module;
            rnnc_session *session;
            const rnnc_session_options options = {.device = "cuda:0",
                                                  .stream = stream,
                                                  .max_batch = BATCH,
                                                  .max_timesteps = TIMESTEPS,
                                                  .variant = variants[v / 2]};
            if (rnnc_module_open(arguments[i], &module) != RNNC_OK) {
                printf("FAIL %s: %s\n", arguments[i], rnnc_last_error());
                failed++;
                continue;
            }
            int cannot = 0;
            const rnnc_status status = rnnc_session_create(module, &options, &session);
            const char *fault = status == RNNC_OK ? check(session, module, stream, v % 2, &cannot)
                                                  : rnnc_last_error();
            const char *reason = cannot                       ? rnnc_session_error(session)
                                 : status == RNNC_UNAVAILABLE ? fault
                                                              : NULL;
            if (reason)
                printf("skipped: %s %s: %s\n", arguments[i], options.variant, reason), skipped++;
            else if (fault)
                printf("FAIL %s %s%s: %s\n", arguments[i], options.variant, v % 2 ? " mask" : "",
                       fault),
                    failed++;
            else
                passed++;
            if (status == RNNC_OK)
                rnnc_session_destroy(session);
            rnnc_module_close(module);
        }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed || !passed;
}
