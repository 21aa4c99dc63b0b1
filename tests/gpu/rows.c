// Rows: a row of a large batch has the bits of its own run, for batches at which the kernels take
// their tiles for many rows (the conformance suite stays below them):
//
//     rows MODULE.so ...
//
// For every GPU variant: 800 rows in one run, rows 0, 63, 64, 301 and 799 alone, bit for bit; and
// the whole against the module's CPU code. Ends with `N passed, N failed, N skipped`; 77 where
// there is no GPU.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnnc/rnnc.h"

static const char *const variants[] = {
    "stepwise",        "unrolled",     "persistent_cta", "persistent_cluster", "persistent_grid",
    "persistent_wide", "loop:naive",   "loop:grouped",   "loop:streamed",      "loop:fused",
    "loop:transposed", "loop:batched", "loop:wavefront"};
static const int64_t rows_alone[] = {0, 63, 64, 301, 799};
enum { BATCH = 800, TIMESTEPS = 9, FEATURES = 37, OUTPUTS = 67, EXIT_SKIPPED = 77 };
enum { X_ROW = TIMESTEPS * FEATURES, Y_ROW = TIMESTEPS * OUTPUTS };
static const double tolerance = 2e-2; // of 16-bit operands against the CPU's float32

static float x_values[BATCH * X_ROW], whole[BATCH * Y_ROW], part[BATCH * Y_ROW], cpu[BATCH * Y_ROW];

static rnnc_status bind(rnnc_session *session, const char *name, int64_t batch, int64_t features,
                        DLDevice device, void *memory)
{
    int64_t shape[] = {batch, TIMESTEPS, features};
    DLTensor tensor = {
        .data = memory, .device = device, .ndim = 3, .dtype = {kDLFloat, 32, 1}, .shape = shape};
    return rnnc_bind(session, name, &tensor);
}

/// y of `batch` rows from `x`, through a session of their own. The session's error is printed.
static rnnc_status run_rows(const rnnc_module *module, const char *device, const char *variant,
                            const float *x, int64_t batch, float *y)
{
    const rnnc_session_options options = {
        .device = device, .max_batch = batch, .max_timesteps = TIMESTEPS, .variant = variant};
    const DLDevice place = {strcmp(device, "cpu") == 0 ? kDLCPU : kDLCUDA, 0};
    const size_t x_bytes = (size_t)batch * X_ROW * 4, y_bytes = (size_t)batch * Y_ROW * 4;
    rnnc_session *session;
    void *x_memory = NULL, *y_memory = NULL;
    rnnc_status status = rnnc_session_create(module, &options, &session);
    if (status != RNNC_OK)
        return status;
    memset(y, 0xff, y_bytes); // NaN
    status = rnnc_device_alloc(session, x_bytes, &x_memory);
    if (status == RNNC_OK)
        status = rnnc_device_alloc(session, y_bytes, &y_memory);
    if (status == RNNC_OK)
        status = rnnc_device_write(session, x_memory, x, x_bytes);
    if (status == RNNC_OK)
        status = rnnc_device_write(session, y_memory, y, y_bytes);
    if (status == RNNC_OK)
        status = bind(session, "x", batch, FEATURES, place, x_memory);
    if (status == RNNC_OK)
        status = bind(session, "y", batch, OUTPUTS, place, y_memory);
    if (status == RNNC_OK)
        status = rnnc_run(session);
    if (status == RNNC_OK)
        status = rnnc_synchronize(session);
    if (status == RNNC_OK)
        status = rnnc_device_read(session, y, y_memory, y_bytes);
    if (status != RNNC_OK)
        printf("%s %s: %s\n", device, variant ? variant : "", rnnc_session_error(session));
    rnnc_device_free(session, x_memory);
    rnnc_device_free(session, y_memory);
    rnnc_session_destroy(session);
    return status;
}

/// ||whole - cpu|| / ||cpu||; NaN where one is.
static double distance(void)
{
    double off = 0, size = 0;
    for (int i = 0; i < BATCH * Y_ROW; i++) {
        off += ((double)whole[i] - cpu[i]) * ((double)whole[i] - cpu[i]);
        size += (double)cpu[i] * cpu[i];
    }
    return sqrt(off / size);
}

/// Faults of one variant, printed; -1 where it cannot run.
static int check(const rnnc_module *module, const char *name, const char *variant)
{
    int faults = 0;
    rnnc_status status = run_rows(module, "cuda:0", variant, x_values, BATCH, whole);
    if (status == RNNC_UNAVAILABLE)
        return printf("skipped: %s %s: %s\n", name, variant, rnnc_last_error()), -1;
    if (status != RNNC_OK)
        return printf("FAIL %s %s: status %d\n", name, variant, (int)status), 1;
    const double off = distance();
    if (!(off <= tolerance))
        faults++, printf("FAIL %s %s: %.2e from the CPU\n", name, variant, off);
    for (size_t i = 0; i < sizeof rows_alone / sizeof *rows_alone; i++) {
        const int64_t row = rows_alone[i];
        const float *right = whole + row * Y_ROW;
        status = run_rows(module, "cuda:0", variant, x_values + row * X_ROW, 1, part);
        if (status == RNNC_OK && memcmp(right, part, Y_ROW * sizeof *right) == 0)
            continue;
        int at = 0;
        while (at < Y_ROW - 1 && memcmp(&right[at], &part[at], sizeof *right) == 0)
            at++;
        faults++;
        printf("FAIL %s %s: row %lld, output %d is %.9g in the batch and %.9g alone\n", name,
               variant, (long long)row, at, (double)right[at], (double)part[at]);
    }
    printf("%s %s: %.2e from the CPU\n", name, variant, off);
    return faults;
}

int main(int argument_count, char **arguments)
{
    int passed = 0, failed = 0, skipped = 0;
    for (int i = 0; i < BATCH * X_ROW; i++)
        x_values[i] = (float)(rand() % 2001 - 1000) / 1000;
    for (int i = 1; i < argument_count; i++) {
        rnnc_module *module;
        if (rnnc_module_open(arguments[i], &module) != RNNC_OK) {
            printf("FAIL %s: %s\n", arguments[i], rnnc_last_error());
            failed++;
            continue;
        }
        if (run_rows(module, "cpu", NULL, x_values, BATCH, cpu) != RNNC_OK)
            failed++, printf("FAIL %s: its CPU code\n", arguments[i]);
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
            const int faults = check(module, arguments[i], variants[v]);
            passed += faults == 0, failed += faults > 0, skipped += faults < 0;
        }
        rnnc_module_close(module);
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : passed ? 0 : EXIT_SKIPPED;
}
