// Bound session: see bound_session.h.
#include "bench/bound_session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANY_BATCH = 1, ANY_TIMESTEPS = 100 };

static const rnnc_tensor_info *find(const rnnc_module *module, rnnc_role role, int number,
                                    size_t *out_index)
{
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++)
        if (rnnc_module_tensor(module, i)->role == role && number-- == 0) {
            *out_index = i;
            return rnnc_module_tensor(module, i);
        }
    return NULL;
}

static bool fit_size(Diags *diags, const char *option, int64_t fixed, int64_t by_default,
                     int64_t *size)
{
    if (fixed > 0 && *size > 0 && *size != fixed) {
        diag_add(diags, DIAG_E0805, (Span){0},
                 "--%s %" PRId64 ": the module is compiled for %" PRId64, option, *size, fixed);
        return false;
    }
    if (*size == 0)
        *size = fixed > 0 ? fixed : by_default;
    return true;
}

bool bench_sizes(Diags *diags, const rnnc_module *module, int64_t *batch, int64_t *timesteps)
{
    size_t index = 0;
    int32_t batch_axis, time_axis;
    const rnnc_tensor_info *x = find(module, RNNC_ROLE_INPUT, 0, &index);
    rnnc_module_tensor_axes(module, index, &batch_axis, &time_axis);
    return fit_size(diags, "batch", x->dims[batch_axis], ANY_BATCH, batch) &&
           fit_size(diags, "timesteps", x->dims[time_axis], ANY_TIMESTEPS, timesteps);
}

/// The sizes of a tensor in a run, and its elements.
static double shape_of(const rnnc_module *module, size_t index, const BenchInput *input,
                       int64_t shape[4])
{
    const rnnc_tensor_info *info = rnnc_module_tensor(module, index);
    int32_t batch_axis, time_axis;
    rnnc_module_tensor_axes(module, index, &batch_axis, &time_axis);
    double elems = 1;
    for (int i = 0; i < info->ndim; i++) {
        shape[i] = i == batch_axis  ? input->batch
                   : i == time_axis ? input->timesteps
                                    : info->dims[i];
        elems *= (double)shape[i];
    }
    return elems;
}

/// Next of a linear congruential generator (Numerical Recipes), within [0, 1).
static double draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (double)(1 << 24);
}

/// The input in the module's layout: time-major steps are put together.
static const void *laid_out(Arena *arena, const rnnc_module *module, const BenchInput *input,
                            size_t x_index, int64_t width)
{
    int32_t time_axis;
    rnnc_module_tensor_axes(module, x_index, NULL, &time_axis);
    if (time_axis != 0)
        return input->x;
    const uint32_t *from = input->x;
    uint32_t *to = ARENA_ARRAY(arena, uint32_t, input->batch * input->timesteps * width);
    for (int64_t row = 0; row < input->batch; row++)
        for (int64_t step = 0; step < input->timesteps; step++)
            memcpy(to + (step * input->batch + row) * width,
                   from + (row * input->timesteps + step) * width, 4 * (size_t)width);
    return to;
}

bool bench_input(Arena *arena, Diags *diags, const rnnc_module *module, int64_t vocabulary,
                 BenchInput *input)
{
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double elems = 0, need = 0;
    int64_t shape[4], width = 1;
    size_t x_index = 0;
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++) {
        const rnnc_role role = rnnc_module_tensor(module, i)->role;
        if (role != RNNC_ROLE_INPUT && role != RNNC_ROLE_OUTPUT)
            continue;
        const double count = shape_of(module, i, input, shape);
        if (role == RNNC_ROLE_INPUT) {
            elems = count;
            x_index = i;
            width = rnnc_module_tensor(module, i)->ndim == 3 ? shape[2] : 1;
        }
        need += 2 * 4 * count; // once here, once in the session's memory or on its way there
    }
    if (need >= have) {
        diag_add(diags, DIAG_E0806, (Span){0},
                 "batch %" PRId64 " and %" PRId64
                 " time steps need %.1f GB for input and output; this machine has %.1f GB",
                 input->batch, input->timesteps, need / 1e9, have / 1e9);
        return false;
    }
    uint32_t state = 1;
    float *values = ARENA_ARRAY(arena, float, elems);
    int32_t *tokens = (int32_t *)(void *)values;
    for (int64_t i = 0; i < (int64_t)elems; i++)
        if (vocabulary > 0)
            tokens[i] = vocabulary > 1 ? 1 + (int32_t)(draw(&state) * (double)(vocabulary - 1)) : 0;
        else
            values[i] = (float)(2 * draw(&state) - 1);
    input->x = values;
    input->laid_out = laid_out(arena, module, input, x_index, width);
    return true;
}

int64_t bench_vocabulary(const rnnc_module *module)
{
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(module, i);
        if (info->role == RNNC_ROLE_INPUT && info->dtype.code == kDLFloat)
            return 0;
    }
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(module, i);
        const size_t length = strlen(info->name);
        if (info->role == RNNC_ROLE_WEIGHT && length > 2 &&
            strcmp(info->name + length - 2, "/E") == 0)
            return info->dims[0];
    }
    return 1;
}

/// Memory of the session's for tensor `index`, filled from `values` where they are given, bound.
static rnnc_status bind(const Subject *subject, BoundSession *bound, const BenchInput *input,
                        size_t index, const void *values, void **out_memory, int64_t *out_elems)
{
    const rnnc_tensor_info *info = rnnc_module_tensor(subject->module, index);
    int64_t shape[4];
    int32_t ordinal = 0;
    *out_elems = (int64_t)shape_of(subject->module, index, input, shape);
    const size_t bytes = 4 * (size_t)*out_elems;
    rnnc_status status = rnnc_device_alloc(bound->session, bytes, out_memory);
    if (status == RNNC_OK && values)
        status = rnnc_device_write(bound->session, *out_memory, values, bytes);
    const bool on_cuda =
        sscanf(rnnc_session_device(bound->session), "cuda:%" SCNd32, &ordinal) == 1;
    const DLTensor tensor = {.data = *out_memory,
                             .device = {on_cuda ? kDLCUDA : kDLCPU, ordinal},
                             .ndim = info->ndim,
                             .dtype = info->dtype,
                             .shape = shape};
    return status == RNNC_OK ? rnnc_bind(bound->session, info->name, &tensor) : status;
}

/// Weights of the model, where the module has none of its own.
static rnnc_status bind_weights(const Subject *subject, BoundSession *bound)
{
    rnnc_status status = RNNC_OK;
    for (int i = 0; subject->is_bound && i < subject->model->layer_count; i++)
        for (int kind = 0; kind < WEIGHT_COUNT && status == RNNC_OK; kind++) {
            const Weight *weight = &subject->model->layers[i].weights[kind];
            const bool is_vector = kind == WEIGHT_b || kind == WEIGHT_rb || kind == WEIGHT_p;
            int64_t shape[] = {weight->rows, weight->columns};
            const DLTensor tensor = {.data = (void *)(uintptr_t)weight->data,
                                     .device = {kDLCPU, 0},
                                     .ndim = is_vector ? 1 : 2,
                                     .dtype = {kDLFloat, 32, 1},
                                     .shape = shape};
            if (weight->name)
                status = rnnc_bind(bound->session, weight->name, &tensor);
        }
    return status;
}

static rnnc_status bind_all(const Subject *subject, const BenchInput *input, BoundSession *bound)
{
    size_t index = 0;
    int64_t elems;
    rnnc_status status = bind_weights(subject, bound);
    find(subject->module, RNNC_ROLE_INPUT, 0, &index);
    if (status == RNNC_OK)
        status = bind(subject, bound, input, index, input->laid_out, &bound->x, &elems);
    for (int i = 0; i < 2 && status == RNNC_OK; i++)
        if (find(subject->module, RNNC_ROLE_OUTPUT, i, &index))
            status = bind(subject, bound, input, index, NULL, &bound->y[i], &bound->y_elems[i]);
    if (status == RNNC_OK)
        status = rnnc_run(bound->session);
    return status == RNNC_OK ? rnnc_synchronize(bound->session) : status;
}

rnnc_status bound_session_open(Arena *arena, const Subject *subject, const BenchInput *input,
                               const char *device, const char *variant, BoundSession *out)
{
    *out = (BoundSession){0};
    const rnnc_session_options options = {.device = device,
                                          .variant = variant,
                                          .max_batch = input->batch,
                                          .max_timesteps = input->timesteps};
    rnnc_status status = rnnc_session_create(subject->module, &options, &out->session);
    const char *words = status == RNNC_OK ? NULL : rnnc_last_error();
    if (status == RNNC_OK) {
        status = bind_all(subject, input, out);
        words = rnnc_session_error(out->session);
    }
    if (status == RNNC_OK)
        return status;
    const char *fault = arena_copy(arena, words, strlen(words));
    bound_session_close(out);
    out->fault = fault[0] ? fault : rnnc_status_name(status);
    return status;
}

void bound_session_close(BoundSession *bound)
{
    if (!bound->session)
        return;
    rnnc_device_free(bound->session, bound->x);
    for (int i = 0; i < 2; i++)
        rnnc_device_free(bound->session, bound->y[i]);
    rnnc_session_destroy(bound->session);
    *bound = (BoundSession){0};
}

/// Sums of squares over one output.
static void compare(const rnnc_module *module, size_t index, const BenchInput *input,
                    const ReferencePart *part, const ReferenceOutput *reference, const float *y,
                    double *difference, double *norm)
{
    int32_t time_axis;
    rnnc_module_tensor_axes(module, index, NULL, &time_axis);
    const int64_t all = time_axis < 0 ? 1 : input->timesteps;
    for (int64_t r = 0; r < part->row_count; r++)
        for (int64_t step = 0; step < reference->steps; step++) {
            const int64_t row = part->rows[r];
            const int64_t at = time_axis == 0 ? step * input->batch + row : row * all + step;
            for (int64_t i = 0; i < reference->width; i++) {
                const double right =
                    reference->values[(r * reference->steps + step) * reference->width + i];
                const double off = (double)y[at * reference->width + i] - right;
                *difference += off * off;
                *norm += right * right;
            }
        }
}

double bound_session_error(BoundSession *bound, const Subject *subject, const BenchInput *input,
                           const ReferencePart *part, const ReferenceOutput reference[2])
{
    double difference = 0, norm = 0;
    for (int i = 0; i < 2; i++) {
        size_t index = 0;
        if (!bound->y[i] || !reference[i].values ||
            !find(subject->module, RNNC_ROLE_OUTPUT, i, &index))
            continue;
        float *y = malloc(4 * (size_t)bound->y_elems[i]);
        const rnnc_status status =
            y ? rnnc_device_read(bound->session, y, bound->y[i], 4 * (size_t)bound->y_elems[i])
              : RNNC_OUT_OF_MEMORY;
        if (status == RNNC_OK)
            compare(subject->module, index, input, part, &reference[i], y, &difference, &norm);
        free(y);
        if (status != RNNC_OK)
            return NAN;
    }
    return norm > 0 ? sqrt(difference / norm) : difference > 0 ? INFINITY : NAN;
}
