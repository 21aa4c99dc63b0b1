// Loss: see loss.h.
#include "loss.h"

#include <string.h>

#include "layout.h"
#include "memory.h"

static const rnnc_tensor_info *output(const rnnc_session *session)
{
    return &session->desc->tensors[session->y].info;
}

/// Features of y, which is [B, T, V], [T, B, V] or [B, V].
static int64_t width(const rnnc_session *session)
{
    return output(session)->dims[output(session)->ndim - 1];
}

static bool has_steps(const rnnc_session *session)
{
    return output(session)->ndim == 3;
}

static rnnc_status refuse(rnnc_session *session, const char *name)
{
    if (session->y_backward >= 0)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "%s: module '%s' has two outputs, and the loss is one of y alone",
                              name, session->desc->name);
    return RNNC_OK;
}

static rnnc_status allocate(rnnc_session *session)
{
    void *memory = NULL;
    if (session->training.loss.gradient)
        return RNNC_OK;
    const size_t bytes = rnnc_memory_float_bytes(width(session), session->max_batch,
                                                 has_steps(session) ? session->max_timesteps : 1);
    const rnnc_status status = session->ops->alloc(session->device, bytes, &memory);
    session->training.loss.gradient = memory;
    return status;
}

rnnc_status rnnc_loss_find(rnnc_session *session, const char *name, rnnc_tensor_info *out_info,
                           rnnc_binding **out_binding)
{
    const bool is_targets = strcmp(name, "targets") == 0;
    *out_binding = NULL;
    if (!session->training.trains || (!is_targets && strcmp(name, "loss") != 0))
        return RNNC_OK;
    rnnc_status status = refuse(session, name);
    if (status == RNNC_OK)
        status = allocate(session);
    if (status != RNNC_OK)
        return status;
    *out_info = (rnnc_tensor_info){.name = name, // laid out as a weight is: contiguous, on device
                                   .role = RNNC_ROLE_WEIGHT,
                                   .dtype = {kDLFloat, 32, 1},
                                   .ndim = 1,
                                   .dims = {1}};
    *out_binding = &session->training.loss.loss;
    if (!is_targets)
        return RNNC_OK;
    *out_info = *output(session);
    out_info->name = name;
    out_info->role = has_steps(session) ? RNNC_ROLE_INPUT : RNNC_ROLE_MASK; // as tokens, or lengths
    out_info->dtype = (DLDataType){kDLInt, 32, 1};
    out_info->ndim -= 1;
    *out_binding = &session->training.loss.targets;
    return RNNC_OK;
}

rnnc_binding rnnc_loss_gradient(const rnnc_session *session, int64_t batch, int64_t timesteps)
{
    const rnnc_axes axes = rnnc_tensor_axes(session->desc, output(session));
    const int64_t steps = has_steps(session) ? timesteps : 1, V = width(session);
    rnnc_binding binding = {
        .data = session->training.loss.gradient, .row_stride = steps * V, .step_stride = V};
    for (int32_t i = 0; i < output(session)->ndim; i++)
        binding.dims[i] = i == axes.batch ? batch : i == axes.time ? timesteps : V;
    return binding;
}

rnnc_status rnnc_loss_begin(rnnc_session *session, rnnc_binding *out_y)
{
    rnnc_tensor_info info;
    rnnc_binding *targets;
    *out_y = session->bindings[session->y];
    if (!session->training.loss.targets.data)
        return RNNC_OK;
    const int64_t batch = rnnc_session_batch(session), timesteps = rnnc_session_timesteps(session);
    rnnc_status status = rnnc_loss_find(session, "targets", &info, &targets);
    if (status == RNNC_OK)
        status = rnnc_check_steps(session, &info, targets, batch, timesteps);
    if (status == RNNC_OK && !out_y->data)
        session->bindings[session->y] = rnnc_loss_gradient(session, batch, timesteps);
    return status;
}

rnnc_status rnnc_loss_take(rnnc_session *session, bool saves)
{
    const rnnc_loss *loss = &session->training.loss;
    const rnnc_binding *y = &session->bindings[session->y];
    if (!loss->targets.data)
        return RNNC_OK;
    const int64_t batch = rnnc_session_batch(session), timesteps = rnnc_session_timesteps(session);
    const rnnc_binding gradient = rnnc_loss_gradient(session, batch, timesteps);
    const rnnc_loss_call call = {.batch = batch,
                                 .timesteps = has_steps(session) ? timesteps : 1,
                                 .classes = width(session),
                                 .logits = y->data,
                                 .row_stride = y->row_stride,
                                 .step_stride = y->step_stride,
                                 .targets = loss->targets.data,
                                 .target_row_stride =
                                     has_steps(session) ? loss->targets.row_stride : 1,
                                 .target_step_stride = loss->targets.step_stride,
                                 .loss = loss->loss.data,
                                 .gradient = saves ? gradient.data : NULL,
                                 .gradient_row_stride = gradient.row_stride,
                                 .gradient_step_stride = gradient.step_stride};
    return session->ops->cross_entropy(session->device, &call);
}

void rnnc_loss_end(rnnc_session *session, const rnnc_binding *y)
{
    session->bindings[session->y] = *y;
}

void rnnc_loss_destroy(rnnc_session *session)
{
    if (session->training.loss.gradient)
        session->ops->free(session->device, session->training.loss.gradient);
}
