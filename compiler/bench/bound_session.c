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

/// What binding needs.
typedef struct {
    Arena *arena;
    const Subject *subject;
    const BenchInput *input;
    BoundSession *bound;
} Binding;

/// Memory of the session's for tensor `index`, or with "grad/" before its name for its gradient,
/// filled from `values` where they are given, bound.
static rnnc_status bind(const Binding *binding, const char *prefix, size_t index,
                        const void *values, void **out_memory, int64_t *out_elems)
{
    const rnnc_tensor_info *info = rnnc_module_tensor(binding->subject->module, index);
    BoundSession *bound = binding->bound;
    int64_t shape[4];
    int32_t ordinal = 0;
    *out_elems = (int64_t)shape_of(binding->subject->module, index, binding->input, shape);
    const size_t bytes = 4 * (size_t)*out_elems;
    rnnc_status status = rnnc_device_alloc(bound->session, bytes, out_memory);
    if (status == RNNC_OK)
        ARENA_PUSH(binding->arena, bound->memories, bound->memory_count, *out_memory);
    if (status == RNNC_OK && values)
        status = rnnc_device_write(bound->session, *out_memory, values, bytes);
    const bool on_cuda =
        sscanf(rnnc_session_device(bound->session), "cuda:%" SCNd32, &ordinal) == 1;
    const DLTensor tensor = {.data = *out_memory,
                             .device = {on_cuda ? kDLCUDA : kDLCPU, ordinal},
                             .ndim = info->ndim,
                             .dtype = info->dtype,
                             .shape = shape};
    const char *name = arena_format(binding->arena, "%s%s", prefix, info->name);
    return status == RNNC_OK ? rnnc_bind(bound->session, name, &tensor) : status;
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

static const float *values_of(const Model *model, const char *name)
{
    for (int i = 0; i < model->layer_count; i++)
        for (int kind = 0; kind < WEIGHT_COUNT; kind++) {
            const Weight *weight = &model->layers[i].weights[kind];
            if (weight->name && strcmp(weight->name, name) == 0)
                return weight->data;
        }
    return NULL;
}

/// Small random numbers, as gradients are; the caller frees them. NULL: there is no memory.
static float *draw_gradient(int64_t elems)
{
    float *values = malloc(4 * (size_t)elems);
    uint32_t state = 1;
    for (int64_t i = 0; values && i < elems; i++)
        values[i] = (float)(2e-4 * draw(&state) - 1e-4);
    return values;
}

/// For training: weights on the device, where it reads them, and the gradients of all that has
/// one but states.
static rnnc_status bind_training(const Binding *binding)
{
    const Subject *subject = binding->subject;
    rnnc_status status = RNNC_OK;
    for (size_t i = 0; i < rnnc_module_tensor_count(subject->module) && status == RNNC_OK; i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(subject->module, i);
        const bool is_weight = info->role == RNNC_ROLE_WEIGHT;
        int64_t shape[4], elems;
        void *memory;
        if (is_weight && subject->is_bound)
            status = bind(binding, "", i, values_of(subject->model, info->name), &memory, &elems);
        if (status != RNNC_OK || info->dtype.code != kDLFloat || info->role == RNNC_ROLE_STATE ||
            info->role == RNNC_ROLE_MASK)
            continue;
        float *values = NULL;
        if (info->role == RNNC_ROLE_OUTPUT) {
            values = draw_gradient((int64_t)shape_of(subject->module, i, binding->input, shape));
            status = values ? RNNC_OK : RNNC_OUT_OF_MEMORY;
        }
        if (status == RNNC_OK)
            status = bind(binding, "grad/", i, values, &memory, &elems);
        free(values);
    }
    return status;
}

static rnnc_status bind_all(const Binding *binding)
{
    const Subject *subject = binding->subject;
    BoundSession *bound = binding->bound;
    size_t index = 0;
    int64_t elems;
    rnnc_status status =
        binding->input->training ? bind_training(binding) : bind_weights(subject, bound);
    find(subject->module, RNNC_ROLE_INPUT, 0, &index);
    if (status == RNNC_OK)
        status = bind(binding, "", index, binding->input->laid_out, &bound->x, &elems);
    for (int i = 0; i < 2 && status == RNNC_OK; i++)
        if (find(subject->module, RNNC_ROLE_OUTPUT, i, &index))
            status = bind(binding, "", index, NULL, &bound->y[i], &bound->y_elems[i]);
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
                                          .max_timesteps = input->timesteps,
                                          .training = input->training};
    rnnc_status status = rnnc_session_create(subject->module, &options, &out->session);
    const char *words = status == RNNC_OK ? NULL : rnnc_last_error();
    if (status == RNNC_OK) {
        const Binding binding = {arena, subject, input, out};
        status = bind_all(&binding);
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
    for (int i = 0; i < bound->memory_count; i++)
        rnnc_device_free(bound->session, bound->memories[i]);
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
