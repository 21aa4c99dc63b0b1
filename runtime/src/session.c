// Session: a module on a device. Creation allocates all that runs need; a run walks the layers in
// order, each from the buffer that the one before has filled.
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"
#include "layout.h"
#include "loss.h"
#include "memory.h"

rnnc_status rnnc_layer_set_weights(rnnc_session *session, int32_t layer)
{
    const float *weights[RNNC_WEIGHT_COUNT] = {0};
    for (int kind = 0; kind < RNNC_WEIGHT_COUNT; kind++) {
        int32_t tensor = session->desc->layers[layer].weights[kind];
        if (tensor >= 0)
            weights[kind] = session->weights[tensor] ? session->weights[tensor]
                                                     : session->desc->tensors[tensor].data;
    }
    return session->ops->set_weights(session->device, layer, weights);
}

int64_t rnnc_session_batch(const rnnc_session *session)
{
    const rnnc_binding *x = &session->bindings[session->x];
    const int32_t axis =
        rnnc_tensor_axes(session->desc, &session->desc->tensors[session->x].info).batch;
    return x->data ? x->dims[axis] : session->rows ? session->rows : session->max_batch;
}

int64_t rnnc_session_timesteps(const rnnc_session *session)
{
    const rnnc_binding *x = &session->bindings[session->x];
    const int32_t axis =
        rnnc_tensor_axes(session->desc, &session->desc->tensors[session->x].info).time;
    return x->data ? x->dims[axis] : session->max_timesteps;
}

rnnc_status rnnc_session_set_masking(rnnc_session *session, bool mask, bool lengths)
{
    const bool is_masked = mask || rnnc_module_self_masking(session->desc);
    const rnnc_masking wanted = lengths     ? RNNC_MASKING_LENGTHS
                                : is_masked ? RNNC_MASKING_MASK
                                            : RNNC_MASKING_NONE;
    if (wanted == session->masking)
        return RNNC_OK;
    rnnc_status status = session->ops->set_masking(session->device, wanted);
    if (status == RNNC_OK)
        session->masking = wanted;
    return status;
}

/// "cpu", "cuda" or "cuda:N".
static rnnc_status parse_device(rnnc_session *session, const char *text)
{
    if (strcmp(text, "cpu") == 0) {
        session->device_type = kDLCPU;
        return RNNC_OK;
    }
    char *end = NULL;
    bool is_cuda = strncmp(text, "cuda", 4) == 0;
    long ordinal = is_cuda && text[4] == ':' ? strtol(text + 5, &end, 10) : 0;
    if (!is_cuda || (text[4] && (!end || end == text + 5 || *end || ordinal < 0 || ordinal > 999)))
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "device is '%s', expected 'cpu', 'cuda' or 'cuda:N'", text);
    session->device_type = kDLCUDA;
    session->ordinal = (int)ordinal;
    return RNNC_OK;
}

/// The largest B or T: as asked, else the spec's, else 1. Steps and rows are counted in int32.
static rnnc_status resolve_maximum(rnnc_session *session, const char *name, int64_t asked,
                                   int64_t fixed, int64_t *out)
{
    if (fixed && asked && asked < fixed)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "%s is %lld, expected %lld, which the model is compiled for", name,
                              (long long)asked, (long long)fixed);
    if (!fixed && (asked < 0 || asked > INT32_MAX))
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "%s is %lld, expected 1 to %d", name, (long long)asked, INT32_MAX);
    *out = fixed ? fixed : asked ? asked : 1;
    return RNNC_OK;
}

/// No layer may take more than 2^47 bytes, all that a process can address: so that no size which is
/// computed from max_batch and max_timesteps anywhere overflows.
static rnnc_status check_sizes(rnnc_session *session)
{
    const rnnc_module_desc *desc = session->desc;
    const int64_t most = (INT64_C(1) << 47) / (int64_t)sizeof(float);
    for (int32_t i = 0; i < desc->layer_count; i++) {
        const rnnc_layer_desc *layer = &desc->layers[i];
        const int64_t inputs = layer->kind == RNNC_LAYER_EMBEDDING ? 1 : layer->inputs;
        const int64_t values = inputs + layer->outputs + layer->input_gates * layer->units;
        const int64_t steps = layer->sequence_in ? session->max_timesteps : 1;
        if (values > most / session->max_batch / steps)
            return rnnc_error_set(&session->error, RNNC_OUT_OF_MEMORY,
                                  "max_batch %lld and max_timesteps %lld: layer '%s' has %lld "
                                  "values a step, which is more than any memory holds",
                                  (long long)session->max_batch, (long long)steps, layer->name,
                                  (long long)values);
    }
    return RNNC_OK;
}

static rnnc_status open_device(rnnc_session *session, const rnnc_session_options *options)
{
    rnnc_device_options open = {.module = session->desc,
                                .ordinal = session->ordinal,
                                .stream = options->stream,
                                .max_batch = session->max_batch,
                                .max_timesteps = session->max_timesteps,
                                .variant = options->variant,
                                .training = session->training.trains,
                                .error = &session->error};
    bool cuda = session->device_type == kDLCUDA;
    session->ops = cuda ? rnnc_cuda_ops() : rnnc_cpu_ops();
    return session->ops->open(&open, &session->device);
}

/// cuda:0 where there is one; else the CPU, whose failure is told together with CUDA's.
static rnnc_status open_any_device(rnnc_session *session, const rnnc_session_options *options)
{
    session->device_type = kDLCUDA;
    rnnc_status status = open_device(session, options);
    if (status != RNNC_UNAVAILABLE)
        return status;
    rnnc_error cuda = session->error;
    session->device_type = kDLCPU;
    status = open_device(session, options);
    if (status == RNNC_OK) {
        session->error.message[0] = 0;
        return status;
    }
    rnnc_error cpu = session->error;
    return rnnc_error_set(&session->error, status, "cuda:0: %.900s; cpu: %.900s", cuda.message,
                          cpu.message);
}

/// The first tensor of a role at or after `index` with `ndim` dimensions (0: any), or -1.
static int32_t find_role(const rnnc_module_desc *desc, rnnc_role role, int32_t index, int32_t ndim)
{
    for (; index < desc->tensor_count; index++) {
        const rnnc_tensor_info *info = &desc->tensors[index].info;
        if (info->role == role && (ndim == 0 || info->ndim == ndim))
            return index;
    }
    return -1;
}

static rnnc_status create_tables(rnnc_session *session)
{
    size_t count = (size_t)session->desc->tensor_count;
    session->bindings = rnnc_memory_alloc(count * sizeof *session->bindings);
    session->states = rnnc_memory_alloc(count * sizeof *session->states);
    session->weights = rnnc_memory_alloc(count * sizeof *session->weights);
    session->buffers =
        rnnc_memory_alloc((size_t)(session->desc->slot_count + 1) * sizeof *session->buffers);
    if (!session->bindings || !session->states || !session->weights || !session->buffers)
        return rnnc_error_set(&session->error, RNNC_OUT_OF_MEMORY, "no memory for the session");
    session->x = find_role(session->desc, RNNC_ROLE_INPUT, 0, 0);
    session->y = find_role(session->desc, RNNC_ROLE_OUTPUT, 0, 0);
    session->y_backward = find_role(session->desc, RNNC_ROLE_OUTPUT, session->y + 1, 0);
    session->lengths = find_role(session->desc, RNNC_ROLE_MASK, 0, 1);
    session->mask = find_role(session->desc, RNNC_ROLE_MASK, 0, 2);
    if (session->x < 0 || session->y < 0)
        return rnnc_error_set(&session->error, RNNC_BAD_MODULE,
                              "the module has no input or no output");
    return RNNC_OK;
}

int64_t rnnc_slot_timesteps(const rnnc_session *session, int32_t slot)
{
    for (int32_t i = 0; i < session->desc->layer_count; i++)
        if (session->desc->layers[i].out.slot == slot && session->desc->layers[i].sequence_out)
            return session->max_timesteps;
    return 1;
}

static rnnc_status create_buffers(rnnc_session *session)
{
    const rnnc_module_desc *desc = session->desc;
    for (int32_t i = 0; i < desc->slot_count; i++) {
        void *memory = NULL;
        const size_t bytes = rnnc_memory_float_bytes(desc->slot_widths[i], session->max_batch,
                                                     rnnc_slot_timesteps(session, i));
        rnnc_status status = session->ops->alloc(session->device, bytes, &memory);
        if (status != RNNC_OK)
            return status;
        session->buffers[i] = memory;
    }
    return RNNC_OK;
}

static rnnc_status create(rnnc_session *session, const rnnc_session_options *options)
{
    const rnnc_module_desc *desc = session->desc;
    session->training.trains = options->training != 0;
    if (options->training && !rnnc_module_training(desc))
        return rnnc_error_set(&session->error, RNNC_UNAVAILABLE,
                              "module '%s' is for inference: compile it with `mode: training`",
                              desc->name);
    rnnc_status status =
        resolve_maximum(session, "max_batch", options->max_batch, desc->batch, &session->max_batch);
    if (status == RNNC_OK)
        status = resolve_maximum(session, "max_timesteps", options->max_timesteps, desc->timesteps,
                                 &session->max_timesteps);
    if (status == RNNC_OK)
        status = check_sizes(session);
    if (status == RNNC_OK)
        status = create_tables(session);
    if (status == RNNC_OK && options->device)
        status = parse_device(session, options->device);
    if (status == RNNC_OK)
        status =
            options->device ? open_device(session, options) : open_any_device(session, options);
    for (int32_t i = 0; i < desc->layer_count && status == RNNC_OK; i++)
        status = rnnc_layer_set_weights(session, i);
    if (status == RNNC_OK)
        status = rnnc_session_set_masking(session, false, false);
    if (status == RNNC_OK)
        status = rnnc_states_create(session);
    if (status == RNNC_OK)
        status = create_buffers(session);
    if (status == RNNC_OK && session->training.trains)
        status = rnnc_training_create(session);
    if (status == RNNC_OK && session->ops->memory)
        session->memory_bytes = session->ops->memory(session->device);
    return status;
}

rnnc_status rnnc_session_create(const rnnc_module *module, const rnnc_session_options *options,
                                rnnc_session **out_session)
{
    static const rnnc_session_options defaults;
    if (!out_session)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_session_create: out_session is NULL");
    *out_session = NULL;
    if (!module)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "rnnc_session_create: module is NULL");
    rnnc_session *session = rnnc_memory_alloc(sizeof *session);
    if (!session)
        return rnnc_error_set(NULL, RNNC_OUT_OF_MEMORY, "no memory for the session");
    session->desc = module->desc;
    rnnc_status status = create(session, options ? options : &defaults);
    if (status == RNNC_OK) {
        *out_session = session;
        return status;
    }
    rnnc_error_copy_to_thread(&session->error);
    rnnc_session_destroy(session);
    return status;
}

void rnnc_session_destroy(rnnc_session *session)
{
    if (!session)
        return;
    rnnc_training_destroy(session);
    for (int32_t i = 0; i < session->desc->tensor_count; i++) {
        if (session->device && session->states && session->states[i].memory)
            session->ops->free(session->device, session->states[i].memory);
        if (session->weights)
            rnnc_memory_free(session->weights[i]);
    }
    for (int i = 0; i < session->desc->slot_count && session->device && session->buffers; i++)
        if (session->buffers[i])
            session->ops->free(session->device, session->buffers[i]);
    if (session->device)
        session->ops->close(session->device);
    rnnc_memory_free(session->bindings);
    rnnc_memory_free(session->states);
    rnnc_memory_free(session->weights);
    rnnc_memory_free(session->buffers);
    rnnc_memory_free(session);
}

/// The tensor behind a view of x or y; NULL: a buffer of the session.
static const rnnc_binding *bound_view(const rnnc_session *session, const rnnc_view *view)
{
    switch (view->slot) {
    case RNNC_SLOT_X:
        return &session->bindings[session->x];
    case RNNC_SLOT_Y:
        return &session->bindings[session->y];
    case RNNC_SLOT_Y_BACKWARD:
        return &session->bindings[session->y_backward];
    default:
        return NULL;
    }
}

/// Where feature `view->offset` of the first step of the first row lies, and how far rows and steps
/// are apart. Buffers are batch-major: a sequence has `timesteps` steps a row, the rest has one.
static char *find_view(const rnnc_session *session, const rnnc_view *view, int64_t timesteps,
                       int64_t *out_row_stride, int64_t *out_step_stride)
{
    const rnnc_binding *bound = bound_view(session, view);
    *out_row_stride = bound ? bound->row_stride : timesteps * view->width;
    *out_step_stride = bound ? bound->step_stride : view->width;
    return (char *)(bound ? bound->data : session->buffers[view->slot]) +
           view->offset * (int64_t)sizeof(float);
}

/// Where one layer reads and writes.
static void find_ends(const rnnc_session *session, rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = &session->desc->layers[call->layer];
    call->x =
        find_view(session, &layer->in, call->timesteps, &call->x_row_stride, &call->x_step_stride);
    if (layer->in2.slot != RNNC_SLOT_NONE)
        call->x2 = (const float *)(const void *)find_view(
            session, &layer->in2, call->timesteps, &call->x_row_stride, &call->x_step_stride);
    call->y =
        (float *)(void *)find_view(session, &layer->out, layer->sequence_out ? call->timesteps : 1,
                                   &call->y_row_stride, &call->y_step_stride);
}

int32_t rnnc_session_group(rnnc_session *session, int32_t index, rnnc_layer_call *out_calls)
{
    const rnnc_module_desc *desc = session->desc;
    const int64_t timesteps = rnnc_session_timesteps(session);
    const bool is_pair = index + 1 < desc->layer_count && desc->layers[index + 1].beside;
    const int32_t count = is_pair ? 2 : rnnc_layer_stack(desc, index);
    for (int32_t i = 0; i < count; i++) {
        out_calls[i] =
            (rnnc_layer_call){.layer = index + i,
                              .batch = rnnc_session_batch(session),
                              .timesteps = desc->layers[index + i].sequence_in ? timesteps : 1};
        find_ends(session, &out_calls[i]);
    }
    return count;
}

static rnnc_status begin_states(rnnc_session *session, rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = &session->desc->layers[call->layer];
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < layer->state_count && status == RNNC_OK; i++)
        status =
            rnnc_state_begin(session, layer->states[i], layer->stateful != 0, &call->states[i]);
    return status;
}

rnnc_status rnnc_session_prepare(rnnc_session *session, rnnc_layer_call *call)
{
    find_ends(session, call);
    return begin_states(session, call);
}

/// A group of layers, their states made ready.
static rnnc_status run_layers(rnnc_session *session, int32_t index, int32_t *out_count)
{
    rnnc_layer_call calls[RNNC_STACK_MAX];
    rnnc_status status = RNNC_OK;
    *out_count = rnnc_session_group(session, index, calls);
    for (int32_t i = 0; i < *out_count && status == RNNC_OK; i++)
        status = begin_states(session, &calls[i]);
    return status == RNNC_OK ? session->ops->run_layers(session->device, calls, *out_count)
                             : status;
}

rnnc_status rnnc_check_steps(rnnc_session *session, const rnnc_tensor_info *info,
                             const rnnc_binding *binding, int64_t batch, int64_t timesteps)
{
    const rnnc_axes axes = rnnc_tensor_axes(session->desc, info);
    for (int32_t i = 0; binding->data && i < info->ndim; i++) {
        const int64_t wanted = i == axes.batch ? batch : i == axes.time ? timesteps : info->dims[i];
        if (binding->dims[i] != wanted)
            return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                                  "%s: dimension %d is %lld, expected %lld as bound to x",
                                  info->name, (int)i, (long long)binding->dims[i],
                                  (long long)wanted);
    }
    return RNNC_OK;
}

static rnnc_status check_bindings(rnnc_session *session)
{
    const int32_t needed[] = {session->x, session->y, session->y_backward};
    for (int i = 0; i < 3; i++)
        if (needed[i] >= 0 && !session->bindings[needed[i]].data)
            return rnnc_error_set(&session->error, RNNC_NOT_READY, "%s is not bound",
                                  session->desc->tensors[needed[i]].info.name);
    for (int32_t i = 0; i < session->desc->tensor_count; i++) {
        rnnc_status status =
            session->desc->tensors[i].info.role == RNNC_ROLE_WEIGHT
                ? RNNC_OK
                : rnnc_check_steps(session, &session->desc->tensors[i].info, &session->bindings[i],
                                   rnnc_session_batch(session), rnnc_session_timesteps(session));
        if (status != RNNC_OK)
            return status;
    }
    return rnnc_states_check(session);
}

/// What holds for all layers of a run.
static rnnc_run_inputs run_inputs(const rnnc_session *session)
{
    static const rnnc_binding none;
    const rnnc_binding *mask = session->mask < 0 ? &none : &session->bindings[session->mask];
    return (rnnc_run_inputs){
        .batch = rnnc_session_batch(session),
        .timesteps = rnnc_session_timesteps(session),
        .mask = mask->data,
        .mask_row_stride = mask->row_stride,
        .mask_step_stride = mask->step_stride,
        .lengths = session->lengths < 0 ? NULL : session->bindings[session->lengths].data,
        .seed = session->seed};
}

rnnc_status rnnc_session_begin(rnnc_session *session)
{
    session->training.is_saved = false;
    return session->training.trains ? rnnc_training_load_weights(session) : RNNC_OK;
}

rnnc_status rnnc_session_run(rnnc_session *session, int32_t end, bool saves)
{
    rnnc_run_inputs inputs = run_inputs(session);
    inputs.saves = saves;
    rnnc_status status = rnnc_session_begin(session);
    if (status == RNNC_OK)
        status = session->ops->begin_run(session->device, &inputs);
    for (int32_t i = 0, count; i < end && status == RNNC_OK; i += count)
        status = run_layers(session, i, &count);
    return status;
}

rnnc_status rnnc_session_run_all(rnnc_session *session, bool saves)
{
    rnnc_binding y;
    rnnc_status status = rnnc_loss_begin(session, &y);
    if (status == RNNC_OK)
        status = check_bindings(session);
    if (status == RNNC_OK)
        status = rnnc_session_run(session, session->desc->layer_count, saves);
    if (status == RNNC_OK)
        status = rnnc_loss_take(session, saves);
    rnnc_loss_end(session, &y);
    return status;
}

rnnc_status rnnc_run(rnnc_session *session)
{
    if (!session)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "rnnc_run: session is NULL");
    return rnnc_session_run_all(session, false);
}

rnnc_status rnnc_set_seed(rnnc_session *session, uint64_t seed)
{
    if (!session)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "rnnc_set_seed: session is NULL");
    session->seed = seed;
    return RNNC_OK;
}

rnnc_status rnnc_synchronize(rnnc_session *session)
{
    if (!session)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "rnnc_synchronize: session is NULL");
    return session->ops->synchronize(session->device);
}

const char *rnnc_session_layer(const rnnc_session *session, size_t index)
{
    for (int32_t i = 0; session && i < session->desc->layer_count; i++)
        if (session->desc->layers[i].kind == RNNC_LAYER_CELL && index-- == 0)
            return session->desc->layers[i].name;
    return NULL;
}

const char *rnnc_session_variant(const rnnc_session *session, const char *layer_name,
                                 const char **out_reason)
{
    for (int32_t i = 0; session && layer_name && i < session->desc->layer_count; i++)
        if (strcmp(session->desc->layers[i].name, layer_name) == 0) {
            const char *reason = NULL;
            const char *variant = session->ops->variant(session->device, i, &reason);
            if (out_reason)
                *out_reason = reason;
            return variant;
        }
    return NULL;
}

const char *rnnc_session_device(const rnnc_session *session)
{
    return session ? session->ops->name(session->device) : NULL;
}

const char *rnnc_session_error(const rnnc_session *session)
{
    return session ? session->error.message : rnnc_last_error();
}

rnnc_status rnnc_device_alloc(rnnc_session *session, size_t bytes, void **out_memory)
{
    if (!session || !out_memory)
        return rnnc_error_set(session ? &session->error : NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_device_alloc: a pointer is NULL");
    *out_memory = NULL;
    return session->ops->alloc(session->device, bytes, out_memory);
}

void rnnc_device_free(rnnc_session *session, void *memory)
{
    if (session && memory)
        session->ops->free(session->device, memory);
}

rnnc_status rnnc_device_write(rnnc_session *session, void *to, const void *from, size_t bytes)
{
    if (!session || !to || !from)
        return rnnc_error_set(session ? &session->error : NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_device_write: a pointer is NULL");
    return session->ops->write(session->device, to, from, bytes);
}

rnnc_status rnnc_device_read(rnnc_session *session, void *to, const void *from, size_t bytes)
{
    if (!session || !to || !from)
        return rnnc_error_set(session ? &session->error : NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_device_read: a pointer is NULL");
    return session->ops->read(session->device, to, from, bytes);
}
