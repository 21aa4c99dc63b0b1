// Times every GPU variant of compiled modules side by side, in one run:
//
//     gpu_variants GROUP:model.so ...
//
// A row is the median of 15 samples between two CUDA events, each of enough back-to-back runs to
// last about 3 ms, after a warm-up; inputs are random, the outputs are read once and checked to be
// finite. The last column is the time of the group's fastest cuDNN row over the row's own, so more
// than 1 is faster than cuDNN; a module outside cuDNN's criteria is compared with the module of its
// group that is inside. Exit code 3 where there is no GPU.
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnnc/rnnc.h"

enum { SAMPLES = 15, ROWS_MAX = 256 };
static const double SAMPLE_MS = 3.0;
static const char *const variants[] = {"cudnn", "stepwise", "unrolled", "persistent_cta"};

/// The few driver functions that timing needs.
static struct {
    int (*cuInit)(unsigned);
    int (*cuDeviceGet)(int *, int);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuStreamCreate)(void **, unsigned);
    int (*cuEventCreate)(void **, unsigned);
    int (*cuEventRecord)(void *, void *);
    int (*cuEventSynchronize)(void *);
    int (*cuEventElapsedTime)(float *, void *, void *);
} cuda;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
    {"cuInit", &cuda.cuInit},
    {"cuDeviceGet", &cuda.cuDeviceGet},
    {"cuDevicePrimaryCtxRetain", &cuda.cuDevicePrimaryCtxRetain},
    {"cuCtxSetCurrent", &cuda.cuCtxSetCurrent},
    {"cuStreamCreate", &cuda.cuStreamCreate},
    {"cuEventCreate", &cuda.cuEventCreate},
    {"cuEventRecord", &cuda.cuEventRecord},
    {"cuEventSynchronize", &cuda.cuEventSynchronize},
    {"cuEventElapsedTime", &cuda.cuEventElapsedTime},
};

typedef struct {
    void *stream, *start, *stop;
} Clock;

static bool clock_open(Clock *clock)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; library && i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return false;
        memcpy(symbols[i].slot, &symbol, sizeof symbol);
    }
    int device;
    void *context;
    return library && cuda.cuInit(0) == 0 && cuda.cuDeviceGet(&device, 0) == 0 &&
           cuda.cuDevicePrimaryCtxRetain(&context, device) == 0 &&
           cuda.cuCtxSetCurrent(context) == 0 && cuda.cuStreamCreate(&clock->stream, 1) == 0 &&
           cuda.cuEventCreate(&clock->start, 0) == 0 && cuda.cuEventCreate(&clock->stop, 0) == 0;
}

/// Milliseconds a run, over `runs` runs; negative when a run fails.
static double time_runs(const Clock *clock, rnnc_session *session, int runs)
{
    float ms = 0;
    cuda.cuEventRecord(clock->start, clock->stream);
    for (int i = 0; i < runs; i++)
        if (rnnc_run(session) != RNNC_OK)
            return -1;
    cuda.cuEventRecord(clock->stop, clock->stream);
    if (cuda.cuEventSynchronize(clock->stop) != 0)
        return -1;
    cuda.cuEventElapsedTime(&ms, clock->start, clock->stop);
    return (double)ms / runs;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median_ms(const Clock *clock, rnnc_session *session)
{
    double samples[SAMPLES], once = 0;
    for (int i = 0; i < 5; i++)
        once = time_runs(clock, session, 3);
    if (once < 0)
        return -1;
    int runs = once > 0 && once < SAMPLE_MS ? (int)(SAMPLE_MS / once) + 1 : 1;
    for (int i = 0; i < SAMPLES; i++)
        if ((samples[i] = time_runs(clock, session, runs)) < 0)
            return -1;
    qsort(samples, SAMPLES, sizeof *samples, compare_doubles);
    return samples[SAMPLES / 2];
}

static const rnnc_tensor_info *find_tensor(const rnnc_module *module, const char *name)
{
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++)
        if (strcmp(rnnc_module_tensor(module, i)->name, name) == 0)
            return rnnc_module_tensor(module, i);
    return NULL;
}

/// Gives `name` device memory filled with random numbers and binds it. Returns the element count,
/// 0 on failure. The memory lives as long as the process.
static size_t bind_random(rnnc_session *session, const rnnc_tensor_info *info, void **out_memory)
{
    static int64_t dims[2][4];
    int64_t *shape = dims[info->role == RNNC_ROLE_OUTPUT];
    size_t count = 1;
    for (int i = 0; i < info->ndim; i++) {
        shape[i] = info->dims[i] < 0 ? 1 : info->dims[i];
        count *= (size_t)shape[i];
    }
    float *values = malloc(count * sizeof *values);
    if (!values)
        return 0;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    DLTensor tensor = {.device = {kDLCUDA, 0}, .ndim = info->ndim, .dtype = info->dtype};
    tensor.shape = shape;
    bool bound = rnnc_device_alloc(session, count * 4, out_memory) == RNNC_OK &&
                 rnnc_device_write(session, *out_memory, values, count * 4) == RNNC_OK;
    tensor.data = *out_memory;
    bound = bound && rnnc_bind(session, info->name, &tensor) == RNNC_OK;
    free(values);
    return bound ? count : 0;
}

static bool outputs_finite(rnnc_session *session, const void *memory, size_t count)
{
    float *values = malloc(count * sizeof *values);
    bool finite = values && rnnc_synchronize(session) == RNNC_OK &&
                  rnnc_device_read(session, values, memory, count * 4) == RNNC_OK;
    for (size_t i = 0; finite && i < count; i++)
        finite = isfinite(values[i]);
    free(values);
    return finite;
}

typedef struct {
    char group[64], label[96];
    const char *variant;
    double ms;
    int64_t timesteps;
} Row;

static void measure(const Clock *clock, const rnnc_module *module, Row *row)
{
    rnnc_session *session;
    rnnc_session_options options = {
        .device = "cuda:0", .stream = clock->stream, .variant = row->variant};
    row->ms = -1;
    if (rnnc_session_create(module, &options, &session) != RNNC_OK) {
        printf("%-28s %-15s not run: %s\n", row->label, row->variant, rnnc_last_error());
        return;
    }
    const rnnc_tensor_info *x = find_tensor(module, "x"), *y = find_tensor(module, "y");
    void *x_memory = NULL, *y_memory = NULL;
    size_t y_count = 0;
    if (bind_random(session, x, &x_memory) && (y_count = bind_random(session, y, &y_memory)))
        row->ms = median_ms(clock, session);
    row->timesteps = x->ndim > 1 ? x->dims[1] : 1;
    if (row->ms < 0)
        printf("%-28s %-15s failed: %s\n", row->label, row->variant, rnnc_session_error(session));
    else if (!outputs_finite(session, y_memory, y_count))
        printf("%-28s %-15s gave numbers that are not finite\n", row->label, row->variant);
    rnnc_device_free(session, x_memory);
    rnnc_device_free(session, y_memory);
    rnnc_session_destroy(session);
}

static double group_cudnn_ms(const Row *rows, int count, const char *group)
{
    double best = INFINITY;
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].group, group) == 0 && strcmp(rows[i].variant, "cudnn") == 0 &&
            rows[i].ms > 0 && rows[i].ms < best)
            best = rows[i].ms;
    return best;
}

static void print_table(const Row *rows, int count)
{
    printf("\n%-28s %-15s %10s %10s %10s\n", "module", "variant", "ms", "us/step", "x cudnn");
    for (int i = 0; i < count; i++) {
        double cudnn = group_cudnn_ms(rows, count, rows[i].group);
        if (rows[i].ms <= 0)
            continue;
        printf("%-28s %-15s %10.4f %10.3f", rows[i].label, rows[i].variant, rows[i].ms,
               rows[i].ms * 1000 / (double)rows[i].timesteps);
        if (isfinite(cudnn))
            printf(" %9.2fx", cudnn / rows[i].ms);
        printf("\n");
    }
}

int main(int argument_count, char **arguments)
{
    static Row rows[ROWS_MAX];
    int count = 0;
    Clock clock;
    if (!clock_open(&clock)) {
        fprintf(stderr, "gpu_variants: no CUDA device: %s\n", "libcuda.so.1 or cuda:0 is missing");
        return 3;
    }
    for (int i = 1; i < argument_count; i++) {
        const char *colon = strchr(arguments[i], ':'), *path = colon ? colon + 1 : arguments[i];
        rnnc_module *module;
        if (rnnc_module_open(path, &module) != RNNC_OK) {
            fprintf(stderr, "gpu_variants: %s\n", rnnc_last_error());
            return 1;
        }
        for (size_t v = 0; v < sizeof variants / sizeof *variants && count < ROWS_MAX; v++) {
            Row *row = &rows[count++];
            snprintf(row->group, sizeof row->group, "%.*s", (int)(path - arguments[i]),
                     arguments[i]);
            snprintf(row->label, sizeof row->label, "%s", rnnc_module_name(module));
            row->variant = variants[v];
            measure(&clock, module, row);
        }
        rnnc_module_close(module);
    }
    print_table(rows, count);
    return 0;
}
