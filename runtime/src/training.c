// Training: the forward pass that saves, and the backward pass. Between the layers lie gradients of
// the buffers, one each; what several layers read gets the sum of theirs:
//
//     x -> enc/fw \             grad/y -> head -> gradient of buffer 0 -> enc/bw: grad/x  =
//     x -> enc/bw -> buffer 0 -> head -> y                            -> enc/fw: grad/x +=
//
// A buffer's first reader in the backward pass writes its gradient, the others add to it.
#include <string.h>

#include "layer.h"
#include "layout.h"
#include "loss.h"
#include "memory.h"
#include "session.h"

static size_t tensor_bytes(const rnnc_tensor_info *info)
{
    size_t bytes = sizeof(float);
    for (int32_t i = 0; i < info->ndim; i++)
        bytes *= (size_t)info->dims[i];
    return bytes;
}

static rnnc_status allocate(rnnc_session *session, size_t bytes, float **out)
{
    void *memory = NULL;
    const rnnc_status status = session->ops->alloc(session->device, bytes, &memory);
    *out = memory;
    return status;
}

static rnnc_status create_tensors(rnnc_session *session)
{
    rnnc_training *training = &session->training;
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < session->desc->tensor_count && status == RNNC_OK; i++) {
        const rnnc_tensor_desc *tensor = &session->desc->tensors[i];
        if (tensor->info.role == RNNC_ROLE_STATE)
            status = allocate(session,
                              rnnc_memory_float_bytes(tensor->info.dims[1], session->max_batch, 1),
                              &training->states[i]);
        if (tensor->info.role != RNNC_ROLE_WEIGHT)
            continue;
        const size_t bytes = tensor_bytes(&tensor->info);
        status = allocate(session, bytes, &training->weights[i]);
        if (status == RNNC_OK)
            status =
                session->ops->write(session->device, training->weights[i], tensor->data, bytes);
    }
    return status;
}

rnnc_status rnnc_training_create(rnnc_session *session)
{
    rnnc_training *training = &session->training;
    const size_t tensors = (size_t)session->desc->tensor_count;
    const size_t slots = (size_t)session->desc->slot_count + 1;
    training->gradients = rnnc_memory_alloc(tensors * sizeof *training->gradients);
    training->weights = rnnc_memory_alloc(tensors * sizeof *training->weights);
    training->states = rnnc_memory_alloc(tensors * sizeof *training->states);
    training->buffers = rnnc_memory_alloc(slots * sizeof *training->buffers);
    training->is_written = rnnc_memory_alloc(slots * sizeof *training->is_written);
    if (!training->gradients || !training->weights || !training->states || !training->buffers ||
        !training->is_written)
        return rnnc_error_set(&session->error, RNNC_OUT_OF_MEMORY, "no memory for the session");
    rnnc_status status = create_tensors(session);
    for (int32_t i = 0; i < session->desc->slot_count && status == RNNC_OK; i++)
        status = allocate(session,
                          rnnc_memory_float_bytes(session->desc->slot_widths[i], session->max_batch,
                                                  rnnc_slot_timesteps(session, i)),
                          &training->buffers[i]);
    return status;
}

static void free_all(rnnc_session *session, float **items, int32_t count)
{
    for (int32_t i = 0; items && i < count; i++)
        if (items[i])
            session->ops->free(session->device, items[i]);
    rnnc_memory_free(items);
}

void rnnc_training_destroy(rnnc_session *session)
{
    rnnc_training *training = &session->training;
    rnnc_loss_destroy(session);
    free_all(session, training->weights, session->desc->tensor_count);
    free_all(session, training->states, session->desc->tensor_count);
    free_all(session, training->buffers, session->desc->slot_count);
    rnnc_memory_free(training->gradients);
    rnnc_memory_free(training->is_written);
}

int32_t rnnc_gradient_find(rnnc_session *session, const char *name, rnnc_tensor_info *out_info)
{
    const int32_t index = rnnc_tensor_find(session, name + strlen("grad/"));
    if (index < 0)
        return index;
    *out_info = session->desc->tensors[index].info;
    const bool has_gradient =
        out_info->role != RNNC_ROLE_MASK && out_info->dtype.code == (uint8_t)kDLFloat;
    if (!has_gradient) {
        rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT, "%s: %s has no gradient", name,
                       out_info->name);
        return -1;
    }
    out_info->name = name;
    if (out_info->role == RNNC_ROLE_INPUT) // written, so that no two elements may share memory
        out_info->role = RNNC_ROLE_OUTPUT;
    return index;
}

/// Where weight `kind` of a layer lies on the device; NULL: it has none.
static const float *weight_of(const rnnc_session *session, const rnnc_layer_desc *layer, int kind)
{
    const int32_t tensor = layer->weights[kind];
    if (tensor < 0)
        return NULL;
    return session->bindings[tensor].data ? session->bindings[tensor].data
                                          : session->training.weights[tensor];
}

rnnc_status rnnc_training_load_weights(rnnc_session *session)
{
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < session->desc->layer_count && status == RNNC_OK; i++) {
        const float *weights[RNNC_WEIGHT_COUNT];
        for (int kind = 0; kind < RNNC_WEIGHT_COUNT; kind++)
            weights[kind] = weight_of(session, &session->desc->layers[i], kind);
        status = session->ops->load_weights(session->device, i, weights);
    }
    return status;
}

static rnnc_status refuse(rnnc_session *session, const char *call)
{
    if (!session)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "%s: session is NULL", call);
    return session->training.trains
               ? RNNC_OK
               : rnnc_error_set(&session->error, RNNC_NOT_READY,
                                "%s: the session was not created for training", call);
}

rnnc_status rnnc_forward(rnnc_session *session)
{
    rnnc_status status = refuse(session, "rnnc_forward");
    if (status == RNNC_OK)
        status = rnnc_session_run_all(session, true);
    if (status != RNNC_OK)
        return status;
    rnnc_training *training = &session->training;
    training->is_saved = true;
    training->has_loss = training->loss.targets.data != NULL;
    training->batch = rnnc_session_batch(session);
    training->timesteps = rnnc_session_timesteps(session);
    training->x = session->bindings[session->x];
    return RNNC_OK;
}

/// Whether what is bound to gradients fits the forward pass.
static rnnc_status check_gradients(rnnc_session *session)
{
    const rnnc_training *training = &session->training;
    if (training->has_loss && training->gradients[session->y].data)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "grad/y: the forward pass had targets, from whose loss the backward "
                              "pass starts: bind NULL to grad/y, or to targets before the forward "
                              "pass");
    const int32_t needed[] = {session->y, session->y_backward};
    for (int i = 0; i < 2; i++)
        if (needed[i] >= 0 && !training->gradients[needed[i]].data && !training->has_loss)
            return rnnc_error_set(&session->error, RNNC_NOT_READY, "grad/%s is not bound",
                                  session->desc->tensors[needed[i]].info.name);
    for (int32_t i = 0; i < session->desc->tensor_count; i++) {
        const rnnc_tensor_info *info = &session->desc->tensors[i].info;
        rnnc_status status = RNNC_OK;
        if (info->role != RNNC_ROLE_WEIGHT)
            status = rnnc_check_steps(session, info, &training->gradients[i], training->batch,
                                      training->timesteps);
        if (status != RNNC_OK) {
            const rnnc_error found = session->error;
            return rnnc_error_set(&session->error, status, "grad/%.1900s", found.message);
        }
    }
    return RNNC_OK;
}

/// The gradient of what a view shows; NULL: of x, where none is wanted.
static float *find_gradient(const rnnc_session *session, const rnnc_view *view, int64_t timesteps,
                            int64_t *out_row_stride, int64_t *out_step_stride)
{
    const int32_t tensor = view->slot == RNNC_SLOT_X   ? session->x
                           : view->slot == RNNC_SLOT_Y ? session->y
                                                       : session->y_backward;
    const rnnc_binding *bound = view->slot < 0 ? &session->training.gradients[tensor] : NULL;
    *out_row_stride = bound ? bound->row_stride : timesteps * view->width;
    *out_step_stride = bound ? bound->step_stride : view->width;
    float *base = bound ? bound->data : session->training.buffers[view->slot];
    return base ? base + view->offset : NULL;
}

/// The gradient of a state: as bound, or zeros.
static rnnc_status begin_state(rnnc_session *session, int32_t index, float **out)
{
    const rnnc_binding *bound = &session->training.gradients[index];
    *out = bound->data ? bound->data : session->training.states[index];
    if (bound->data)
        return RNNC_OK;
    return session->ops->fill(
        session->device, *out, 0,
        (size_t)(session->desc->tensors[index].info.dims[1] * session->training.batch));
}

/// Marks the gradient of what a view shows as written; whether it was before.
static bool mark_written(rnnc_session *session, const rnnc_view *view)
{
    bool *written =
        &session->training.is_written[view->slot < 0 ? session->desc->slot_count : view->slot];
    const bool before = *written;
    *written = true;
    return before;
}

static rnnc_status prepare_call(rnnc_session *session, rnnc_backward_call *call)
{
    const rnnc_layer_desc *layer = &session->desc->layers[call->forward.layer];
    const int64_t timesteps = call->forward.timesteps;
    call->dy = find_gradient(session, &layer->out, layer->sequence_out ? timesteps : 1,
                             &call->dy_row_stride, &call->dy_step_stride);
    if (layer->in2.slot != RNNC_SLOT_NONE) {
        call->dx2 = find_gradient(session, &layer->in2, timesteps, &call->dx_row_stride,
                                  &call->dx_step_stride);
        mark_written(session, &layer->in2);
    }
    if (layer->kind != RNNC_LAYER_EMBEDDING)
        call->dx = find_gradient(session, &layer->in, timesteps, &call->dx_row_stride,
                                 &call->dx_step_stride);
    call->adds_dx = mark_written(session, &layer->in);
    for (int kind = 0; kind < RNNC_WEIGHT_COUNT; kind++)
        if (layer->weights[kind] >= 0)
            call->weights[kind] = session->training.gradients[layer->weights[kind]].data;
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < layer->state_count && status == RNNC_OK; i++)
        status = begin_state(session, layer->states[i], &call->states[i]);
    return status;
}

/// The group of layers that starts at `index`.
static rnnc_status run_backward(rnnc_session *session, int32_t index)
{
    rnnc_layer_call forward[RNNC_STACK_MAX];
    rnnc_backward_call calls[RNNC_STACK_MAX];
    const int32_t count = rnnc_session_group(session, index, forward);
    const bool is_pair = count == 2 && session->desc->layers[index + 1].beside;
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < count && status == RNNC_OK; i++) {
        const int32_t at = is_pair ? i : count - 1 - i;
        calls[at] = (rnnc_backward_call){.forward = forward[at]};
        calls[at].forward.y = NULL;
        status = prepare_call(session, &calls[at]);
    }
    return status == RNNC_OK ? session->ops->backward_layers(session->device, calls, count)
                             : status;
}

/// Weights' gradients are added to, so those to overwrite start from 0.
static rnnc_status clear_weights(rnnc_session *session)
{
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < session->desc->tensor_count && status == RNNC_OK; i++) {
        const rnnc_tensor_info *info = &session->desc->tensors[i].info;
        float *gradient = session->training.gradients[i].data;
        if (info->role == RNNC_ROLE_WEIGHT && gradient)
            status = session->ops->fill(session->device, gradient, 0,
                                        tensor_bytes(info) / sizeof(float));
    }
    return status;
}

/// All groups of layers, the last first.
static rnnc_status run_all(rnnc_session *session)
{
    int32_t end = session->desc->layer_count;
    rnnc_status status = RNNC_OK;
    while (end > 0 && status == RNNC_OK) {
        rnnc_layer_call calls[RNNC_STACK_MAX];
        int32_t start = 0;
        for (int32_t count = rnnc_session_group(session, start, calls); start + count < end;
             count = rnnc_session_group(session, start, calls))
            start += count;
        status = run_backward(session, start);
        end = start;
    }
    return status;
}

rnnc_status rnnc_backward(rnnc_session *session, const rnnc_backward_options *options)
{
    static const rnnc_backward_options defaults;
    const rnnc_backward_options *asked = options ? options : &defaults;
    rnnc_status status = refuse(session, "rnnc_backward");
    if (status != RNNC_OK)
        return status;
    rnnc_training *training = &session->training;
    if (!training->is_saved)
        return rnnc_error_set(&session->error, RNNC_NOT_READY,
                              "rnnc_backward: no rnnc_forward before it whose values are still "
                              "there: each backward pass needs its own");
    status = check_gradients(session);
    if (status != RNNC_OK)
        return status;
    const rnnc_binding x = session->bindings[session->x], dy = training->gradients[session->y];
    session->bindings[session->x] = training->x; // as the forward pass had it
    if (training->has_loss)
        training->gradients[session->y] =
            rnnc_loss_gradient(session, training->batch, training->timesteps);
    training->is_saved = false;
    memset(training->is_written, 0,
           ((size_t)session->desc->slot_count + 1) * sizeof *training->is_written);
    if (!asked->accumulate)
        status = clear_weights(session);
    if (status == RNNC_OK)
        status = session->ops->begin_backward(session->device, asked->find_nan != 0);
    if (status == RNNC_OK)
        status = run_all(session);
    session->bindings[session->x] = x;
    training->gradients[session->y] = dy;
    return status;
}
