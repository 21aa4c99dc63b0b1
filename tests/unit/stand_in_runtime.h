/* A stand-in for the runtime, so that the verbs `run` and `verify` are tested by themselves. Its
 * module has one layer `l0` with H = 2 that adds up: state h = h + x + seed, y = h and last = h
 * after the last step; x and y are [B, T, 2], or [T, B, 2] where stand_in.time_major, and last is
 * [B, 2]. Masked steps repeat, or give 0 where stand_in.streaming says so; a row without a step
 * gives 0. It keeps to rnnc.h: at most max_batch rows and max_timesteps steps a run, states that
 * last one run unless set again, and memory from rnnc_device_alloc alone. */
#ifndef RNNC_TESTS_STAND_IN_RUNTIME_H
#define RNNC_TESTS_STAND_IN_RUNTIME_H

#include <stdlib.h>
#include <string.h>

#include "rnnc/rnnc.h"

enum { STAND_IN_UNITS = 2, STAND_IN_BATCH_MAX = 8 };

struct rnnc_module {
    int opened;
};

struct rnnc_session {
    rnnc_session_options options;
    const float *x;
    float *y, *last;
    const int32_t *lengths;
    const unsigned char *mask;
    uint64_t seed;
    int64_t batch, timesteps;
    float h[STAND_IN_BATCH_MAX * STAND_IN_UNITS];
    int is_set;
};

static struct {
    struct rnnc_module module;
    struct rnnc_session session;
    int sessions, allocations, runs, time_major;
    rnnc_streaming streaming;
    const char *error;
} stand_in;

static const rnnc_tensor_info stand_in_tensors[] = {
    {"x", RNNC_ROLE_INPUT, {kDLFloat, 32, 1}, 3, {RNNC_DIM_BATCH, RNNC_DIM_TIME, 2, 0}},
    {"y", RNNC_ROLE_OUTPUT, {kDLFloat, 32, 1}, 3, {RNNC_DIM_BATCH, RNNC_DIM_TIME, 2, 0}},
    {"last", RNNC_ROLE_OUTPUT, {kDLFloat, 32, 1}, 2, {RNNC_DIM_BATCH, 2, 0, 0}},
    {"lengths", RNNC_ROLE_MASK, {kDLInt, 32, 1}, 1, {RNNC_DIM_BATCH, 0, 0, 0}},
    {"mask", RNNC_ROLE_MASK, {kDLUInt, 8, 1}, 2, {RNNC_DIM_BATCH, RNNC_DIM_TIME, 0, 0}},
    {"l0/h", RNNC_ROLE_STATE, {kDLFloat, 32, 1}, 2, {RNNC_DIM_BATCH, 2, 0, 0}},
    {"l0/W", RNNC_ROLE_WEIGHT, {kDLFloat, 32, 1}, 2, {2, 2, 0, 0}},
};

static rnnc_status stand_in_fail(rnnc_status status, const char *words)
{
    stand_in.error = words;
    return status;
}

rnnc_status rnnc_module_open(const char *path, rnnc_module **out_module)
{
    *out_module = NULL;
    if (strcmp(path, "model.so") != 0)
        return stand_in_fail(RNNC_NOT_FOUND, "absent.so: no such file");
    stand_in.module.opened = 1;
    *out_module = &stand_in.module;
    return RNNC_OK;
}

void rnnc_module_close(rnnc_module *module)
{
    if (module)
        module->opened = 0;
}

size_t rnnc_module_tensor_count(const rnnc_module *module)
{
    (void)module;
    return sizeof stand_in_tensors / sizeof stand_in_tensors[0];
}

const rnnc_tensor_info *rnnc_module_tensor(const rnnc_module *module, size_t index)
{
    (void)module;
    return &stand_in_tensors[index];
}

void rnnc_module_tensor_axes(const rnnc_module *module, size_t index, int32_t *out_batch,
                             int32_t *out_time)
{
    const rnnc_tensor_info *info = rnnc_module_tensor(module, index);
    const int is_swapped = stand_in.time_major && info->ndim == 3;
    *out_batch = info->role == RNNC_ROLE_WEIGHT ? -1 : is_swapped;
    *out_time = info->ndim == 3 || info->role == RNNC_ROLE_MASK ? !is_swapped : -1;
    if (info->ndim == 1)
        *out_time = -1;
}

rnnc_status rnnc_module_streaming(const rnnc_module *module, rnnc_streaming *out_streaming)
{
    (void)module;
    *out_streaming = stand_in.streaming;
    return RNNC_OK;
}

rnnc_status rnnc_set_seed(rnnc_session *session, uint64_t seed)
{
    session->seed = seed;
    return RNNC_OK;
}

rnnc_status rnnc_session_create(const rnnc_module *module, const rnnc_session_options *options,
                                rnnc_session **out_session)
{
    (void)module;
    *out_session = NULL;
    if (options->device && strncmp(options->device, "cuda", 4) == 0)
        return stand_in_fail(RNNC_UNAVAILABLE, "libcuda.so.1 is not here");
    if (options->variant && strcmp(options->variant, "cpu") != 0)
        return stand_in_fail(RNNC_INVALID_ARGUMENT, "no such variant");
    stand_in.session = (struct rnnc_session){.options = *options};
    stand_in.sessions += 1;
    *out_session = &stand_in.session;
    return RNNC_OK;
}

void rnnc_session_destroy(rnnc_session *session)
{
    (void)session;
    stand_in.sessions -= 1;
}

rnnc_status rnnc_bind(rnnc_session *session, const char *name, const DLTensor *tensor)
{
    const int is_swapped = stand_in.time_major && tensor->ndim == 3;
    if (tensor->shape[is_swapped] > session->options.max_batch ||
        (tensor->ndim == 3 && tensor->shape[!is_swapped] > session->options.max_timesteps))
        return stand_in_fail(RNNC_INVALID_ARGUMENT, "beyond the session's sizes");
    if (strcmp(name, "x") == 0) {
        session->batch = tensor->shape[is_swapped];
        session->timesteps = tensor->shape[!is_swapped];
        session->x = tensor->data;
    } else if (strcmp(name, "y") == 0) {
        session->y = tensor->data;
    } else if (strcmp(name, "last") == 0) {
        session->last = tensor->data;
    } else if (strcmp(name, "lengths") == 0) {
        session->lengths = tensor->data;
    } else {
        session->mask = tensor->data;
    }
    return RNNC_OK;
}

/// One row and unit through all steps.
static void stand_in_row(rnnc_session *session, int64_t row, int64_t unit)
{
    float *h = &session->h[row * STAND_IN_UNITS + unit], y = 0, last = 0;
    for (int64_t step = 0; step < session->timesteps; step++) {
        const int64_t place =
            stand_in.time_major ? step * session->batch + row : row * session->timesteps + step;
        const int64_t at = place * STAND_IN_UNITS + unit;
        const int is_past = session->lengths && step >= session->lengths[row];
        const int is_masked = session->mask && !session->mask[row * session->timesteps + step];
        if (!is_past && !is_masked)
            last = y = *h += session->x[at] + (float)session->seed;
        else if (is_past || !stand_in.streaming.repeats_when_masked)
            y = 0;
        if (is_masked && !stand_in.streaming.repeats_when_masked)
            last = 0;
        session->y[at] = y;
    }
    session->last[row * STAND_IN_UNITS + unit] = last;
}

rnnc_status rnnc_run(rnnc_session *session)
{
    if (!session->is_set)
        memset(session->h, 0, sizeof session->h);
    session->is_set = 0;
    stand_in.runs += 1;
    for (int64_t row = 0; row < session->batch; row++)
        for (int64_t unit = 0; unit < STAND_IN_UNITS; unit++)
            stand_in_row(session, row, unit);
    return RNNC_OK;
}

rnnc_status rnnc_synchronize(rnnc_session *session)
{
    (void)session;
    return RNNC_OK;
}

rnnc_status rnnc_state_get(rnnc_session *session, const char *name, float *out, size_t count)
{
    (void)name;
    memcpy(out, session->h, sizeof *out * count);
    return RNNC_OK;
}

rnnc_status rnnc_state_set(rnnc_session *session, const char *name, const float *values,
                           size_t count)
{
    (void)name;
    memcpy(session->h, values, sizeof *values * count);
    session->is_set = 1;
    return RNNC_OK;
}

const char *rnnc_session_variant(const rnnc_session *session, const char *layer_name,
                                 const char **out_reason)
{
    (void)session;
    (void)layer_name;
    *out_reason = "no GPU";
    return "cpu";
}

const char *rnnc_session_layer(const rnnc_session *session, size_t index)
{
    (void)session;
    return index == 0 ? "l0" : NULL;
}

const char *rnnc_session_device(const rnnc_session *session)
{
    (void)session;
    return "cpu";
}

rnnc_status rnnc_device_alloc(rnnc_session *session, size_t bytes, void **out_memory)
{
    (void)session;
    *out_memory = malloc(bytes);
    stand_in.allocations += 1;
    return *out_memory ? RNNC_OK : RNNC_OUT_OF_MEMORY;
}

void rnnc_device_free(rnnc_session *session, void *memory)
{
    (void)session;
    stand_in.allocations -= memory != NULL;
    free(memory);
}

rnnc_status rnnc_device_write(rnnc_session *session, void *to, const void *from, size_t bytes)
{
    (void)session;
    memcpy(to, from, bytes);
    return RNNC_OK;
}

rnnc_status rnnc_device_read(rnnc_session *session, void *to, const void *from, size_t bytes)
{
    (void)session;
    memcpy(to, from, bytes);
    return RNNC_OK;
}

const char *rnnc_session_error(const rnnc_session *session)
{
    (void)session;
    return stand_in.error;
}

const char *rnnc_last_error(void)
{
    return stand_in.error;
}

const char *rnnc_status_name(rnnc_status status)
{
    (void)status;
    return "status";
}

#endif
