// Runs a module as a user's program would, through rnnc.h alone: run_model MODULE [DEVICE].
// Feeds a ramp, runs twice from the start state, and prints shape, device and the variant of each
// layer. Exit 1 where a call fails, an output is not finite or all zero, or the second run differs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnnc/rnnc.h"

enum { BATCH = 2, TIMESTEPS = 5 };

/// A tensor on the heap with B and T put in.
typedef struct {
    DLTensor tensor;
    int64_t shape[4];
    size_t count;
} Array;

static int array_make(const rnnc_module *module, const char *name, int64_t batch, int64_t timesteps,
                      Array *out)
{
    const rnnc_tensor_info *info = NULL;
    for (size_t k = 0; k < rnnc_module_tensor_count(module); k++)
        if (strcmp(rnnc_module_tensor(module, k)->name, name) == 0)
            info = rnnc_module_tensor(module, k);
    if (!info)
        return 0;
    out->count = 1;
    for (int32_t d = 0; d < info->ndim; d++) {
        out->shape[d] = info->dims[d] == RNNC_DIM_BATCH  ? batch
                        : info->dims[d] == RNNC_DIM_TIME ? timesteps
                                                         : info->dims[d];
        out->count *= (size_t)out->shape[d];
    }
    out->tensor = (DLTensor){.data = calloc(out->count, 4),
                             .device = {kDLCPU, 0},
                             .ndim = info->ndim,
                             .dtype = info->dtype,
                             .shape = out->shape};
    return out->tensor.data != NULL;
}

/// Features from -1 to 1; tokens 0, 1, 2, 0, ...
static void fill(Array *x)
{
    for (size_t k = 0; k < x->count; k++)
        if (x->tensor.dtype.code == kDLInt)
            ((int32_t *)x->tensor.data)[k] = (int32_t)(k % 3);
        else
            ((float *)x->tensor.data)[k] = (float)(k % 17) / 8.0f - 1.0f;
}

static int is_sound(const Array *y)
{
    const float *values = y->tensor.data;
    int some = 0;
    for (size_t k = 0; k < y->count; k++) {
        if (!isfinite(values[k]))
            return 0;
        some |= values[k] != 0.0f;
    }
    return some;
}

static int run(rnnc_session *session, Array *x, Array *y)
{
    float *first = malloc(y->count * sizeof *first);
    int ok = first && rnnc_bind(session, "x", &x->tensor) == RNNC_OK &&
             rnnc_bind(session, "y", &y->tensor) == RNNC_OK && rnnc_run(session) == RNNC_OK &&
             rnnc_synchronize(session) == RNNC_OK;
    if (ok) {
        memcpy(first, y->tensor.data, y->count * sizeof *first);
        ok = rnnc_state_reset(session) == RNNC_OK && rnnc_run(session) == RNNC_OK &&
             rnnc_synchronize(session) == RNNC_OK;
    }
    if (!ok)
        fprintf(stderr, "%s\n", rnnc_session_error(session));
    else if (!is_sound(y) || memcmp(first, y->tensor.data, y->count * sizeof *first) != 0)
        fprintf(stderr, "the output is not sound, or differs in the second run\n"), ok = 0;
    free(first);
    return ok;
}

static void describe(rnnc_session *session, const Array *y)
{
    printf("y [");
    for (int32_t d = 0; d < y->tensor.ndim; d++)
        printf(d ? ", %ld" : "%ld", (long)y->shape[d]);
    printf("] on %s\n", rnnc_session_device(session));
    const char *layer, *reason;
    for (size_t k = 0; (layer = rnnc_session_layer(session, k)); k++)
        printf("  %s: %s\n", layer, rnnc_session_variant(session, layer, &reason));
}

/// The sizes of a spec that fixes them, else those above.
static int64_t size_of(const rnnc_module *module, int dimension, int64_t otherwise)
{
    for (size_t k = 0; k < rnnc_module_tensor_count(module); k++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(module, k);
        if (info->role == RNNC_ROLE_INPUT)
            return info->dims[dimension] > 0 ? info->dims[dimension] : otherwise;
    }
    return otherwise;
}

int main(int argument_count, char **arguments)
{
    rnnc_module *module = NULL;
    rnnc_session *session = NULL;
    Array x = {0}, y = {0};
    int ok = 0;
    if (argument_count < 2 || rnnc_module_open(arguments[1], &module) != RNNC_OK) {
        fprintf(stderr, "run_model MODULE [DEVICE]: %s\n", rnnc_last_error());
        return 1;
    }
    const int64_t batch = size_of(module, 0, BATCH), timesteps = size_of(module, 1, TIMESTEPS);
    const rnnc_session_options options = {.device = argument_count > 2 ? arguments[2] : "cpu",
                                          .max_batch = batch,
                                          .max_timesteps = timesteps};
    if (rnnc_session_create(module, &options, &session) != RNNC_OK) {
        fprintf(stderr, "%s\n", rnnc_last_error());
    } else if (array_make(module, "x", batch, timesteps, &x) &&
               array_make(module, "y", batch, timesteps, &y)) {
        fill(&x);
        ok = run(session, &x, &y);
        if (ok)
            describe(session, &y);
    }
    rnnc_session_destroy(session);
    rnnc_module_close(module);
    free(x.tensor.data);
    free(y.tensor.data);
    return ok ? 0 : 1;
}
