// Bind: checks a DLTensor against the module's tensor of that name, and says exactly what does not
// fit. Weights are copied and packed at once; everything else is used in place by each run.
#include <stdio.h>
#include <string.h>

#include "layer.h"
#include "layout.h"
#include "loss.h"
#include "memory.h"

/// Appends to a fixed buffer; what does not fit is cut.
static void append(char *text, size_t room, const char *addition)
{
    size_t length = strlen(text);
    if (length + 1 < room)
        snprintf(text + length, room - length, "%s", addition);
}

/// DLPack's code of booleans, which its headers name from version 0.8 on.
enum { DLPACK_BOOL = 6 };

static bool is_listed(const rnnc_tensor_info *info)
{
    return info->role != RNNC_ROLE_WEIGHT;
}

int32_t rnnc_tensor_find(rnnc_session *session, const char *name)
{
    const rnnc_module_desc *desc = session->desc;
    char names[1024] = "";
    for (int32_t i = 0; i < desc->tensor_count; i++) {
        const rnnc_tensor_info *info = &desc->tensors[i].info;
        if (strcmp(info->name, name) == 0)
            return i;
        if (is_listed(info)) {
            append(names, sizeof names, *names ? ", " : "");
            append(names, sizeof names, info->name);
        }
    }
    rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                   "no tensor '%s' in module '%s'; it has %s and its weights", name, desc->name,
                   names);
    return -1;
}

static void describe_type(DLDataType type, char *text, size_t room)
{
    const char *code = type.code == kDLFloat      ? "float"
                       : type.code == kDLInt      ? "int"
                       : type.code == kDLUInt     ? "uint"
                       : type.code == kDLBfloat   ? "bfloat"
                       : type.code == DLPACK_BOOL ? "bool"
                                                  : "type";
    if (type.lanes == 1)
        snprintf(text, room, "%s%d", code, type.bits);
    else
        snprintf(text, room, "%s%dx%d", code, type.bits, type.lanes);
}

/// "[B, T, 8]".
static void describe_shape(const int64_t *dims, int32_t ndim, char *text, size_t room)
{
    snprintf(text, room, "[");
    for (int32_t i = 0; i < ndim; i++) {
        char dim[32];
        if (dims[i] == RNNC_DIM_BATCH || dims[i] == RNNC_DIM_TIME)
            snprintf(dim, sizeof dim, "%s", dims[i] == RNNC_DIM_BATCH ? "B" : "T");
        else
            snprintf(dim, sizeof dim, "%lld", (long long)dims[i]);
        append(text, room, i ? ", " : "");
        append(text, room, dim);
    }
    append(text, room, "]");
}

static rnnc_status check_type(rnnc_session *session, const rnnc_tensor_info *info,
                              const DLTensor *tensor)
{
    const bool is_mask = info->role == RNNC_ROLE_MASK && info->ndim == 2;
    const DLDataType boolean = {DLPACK_BOOL, 8, 1};
    if (memcmp(&tensor->dtype, &info->dtype, sizeof info->dtype) == 0 ||
        (is_mask && memcmp(&tensor->dtype, &boolean, sizeof boolean) == 0))
        return RNNC_OK;
    char found[48], wanted[48];
    describe_type(tensor->dtype, found, sizeof found);
    describe_type(info->dtype, wanted, sizeof wanted);
    if (is_mask)
        append(wanted, sizeof wanted, " or bool");
    return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT, "%s: dtype is %s, expected %s",
                          info->name, found, wanted);
}

static rnnc_status check_device(rnnc_session *session, const rnnc_tensor_info *info,
                                const DLTensor *tensor)
{
    int type = (int)tensor->device.device_type;
    bool host = type == kDLCPU || type == kDLCUDAHost;
    bool fits = session->device_type == kDLCPU
                    ? host || type == kDLCUDAManaged
                    : (type == kDLCUDA && tensor->device.device_id == session->ordinal) ||
                          type == kDLCUDAManaged;
    if (fits || (info->role == RNNC_ROLE_WEIGHT && host && !session->training.trains))
        return RNNC_OK;
    return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                          "%s: lies on DLPack device type %d, number %d; the session runs on %s",
                          info->name, type, (int)tensor->device.device_id,
                          session->ops->name(session->device));
}

/// The first layer that keeps its states from run to run, or NULL.
static const rnnc_layer_desc *stateful_layer(const rnnc_module_desc *desc)
{
    for (int32_t i = 0; i < desc->layer_count; i++)
        if (desc->layers[i].stateful)
            return &desc->layers[i];
    return NULL;
}

/// A dimension that the module fixes.
static rnnc_status refuse_dim(rnnc_session *session, const rnnc_tensor_info *info, int32_t index,
                              int64_t found)
{
    const rnnc_layer_desc *stateful =
        rnnc_tensor_axes(session->desc, info).batch == index ? stateful_layer(session->desc) : NULL;
    return rnnc_error_set(
        &session->error, RNNC_INVALID_ARGUMENT, "%s: dimension %d is %lld, expected %lld%s%s%s",
        info->name, (int)index, (long long)found, (long long)info->dims[index],
        stateful ? ": layer '" : "", stateful ? stateful->name : "",
        stateful ? "' is stateful, and the model is compiled for that batch" : "");
}

static rnnc_status check_dim(rnnc_session *session, const rnnc_tensor_info *info, int32_t index,
                             int64_t found)
{
    int64_t wanted = info->dims[index];
    bool is_batch = wanted == RNNC_DIM_BATCH;
    if (!is_batch && wanted != RNNC_DIM_TIME)
        return found == wanted ? RNNC_OK : refuse_dim(session, info, index, found);
    int64_t most = is_batch ? session->max_batch : session->max_timesteps;
    if (found >= 1 && found <= most)
        return RNNC_OK;
    return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                          "%s: dimension %d (%s) is %lld, expected 1 to %lld, the session's %s",
                          info->name, (int)index, is_batch ? "batch" : "timesteps",
                          (long long)found, (long long)most,
                          is_batch ? "max_batch" : "max_timesteps");
}

static rnnc_status check_shape(rnnc_session *session, const rnnc_tensor_info *info,
                               const DLTensor *tensor)
{
    if (tensor->ndim != info->ndim || !tensor->shape) {
        char wanted[160];
        describe_shape(info->dims, info->ndim, wanted, sizeof wanted);
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "%s: has %d dimensions, expected %d: %s", info->name,
                              tensor->shape ? (int)tensor->ndim : 0, (int)info->ndim, wanted);
    }
    for (int32_t i = 0; i < info->ndim; i++) {
        rnnc_status status = check_dim(session, info, i, tensor->shape[i]);
        if (status != RNNC_OK)
            return status;
    }
    return RNNC_OK;
}

/// Keeps a host copy and packs the layer again; NULL data puts the module's own weights back.
static rnnc_status bind_weight(rnnc_session *session, int32_t index, const DLTensor *tensor,
                               const void *data)
{
    const rnnc_tensor_desc *desc = &session->desc->tensors[index];
    float *copy = NULL;
    if (tensor) {
        size_t bytes = sizeof(float);
        for (int32_t i = 0; i < desc->info.ndim; i++)
            bytes *= (size_t)desc->info.dims[i];
        copy = rnnc_memory_alloc(bytes);
        if (!copy)
            return rnnc_error_set(&session->error, RNNC_OUT_OF_MEMORY,
                                  "%s: no memory for a copy of %zu bytes", desc->info.name, bytes);
        bool host =
            tensor->device.device_type == kDLCPU || tensor->device.device_type == kDLCUDAHost;
        rnnc_status status = RNNC_OK;
        if (host)
            memcpy(copy, data, bytes);
        else
            status = session->ops->read(session->device, copy, data, bytes);
        if (status != RNNC_OK) {
            rnnc_memory_free(copy);
            return status;
        }
    }
    rnnc_memory_free(session->weights[index]);
    session->weights[index] = copy;
    return rnnc_layer_set_weights(session, desc->layer);
}

/// Holds a tensor against the module's and fills the binding.
static rnnc_status take_tensor(rnnc_session *session, const rnnc_tensor_info *info,
                               const DLTensor *tensor, rnnc_binding *binding)
{
    rnnc_status status = check_type(session, info, tensor);
    if (status == RNNC_OK)
        status = check_device(session, info, tensor);
    if (status == RNNC_OK)
        status = check_shape(session, info, tensor);
    if (status == RNNC_OK)
        status = rnnc_layout_take(session, info, tensor, binding);
    if (status == RNNC_OK && !tensor->data)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT, "%s: data is NULL",
                              info->name);
    if (status != RNNC_OK)
        return status;
    binding->data = (char *)tensor->data + tensor->byte_offset;
    memcpy(binding->dims, tensor->shape, (size_t)info->ndim * sizeof *binding->dims);
    const uintptr_t bytes = info->dtype.bits / 8u;
    if ((uintptr_t)binding->data % bytes == 0)
        return RNNC_OK;
    return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                          "%s: data is not aligned to its elements of %d bytes", info->name,
                          (int)bytes);
}

/// Lengths and masks end a row's steps in different ways, so that a run takes one of them.
static rnnc_status change_masking(rnnc_session *session, int32_t index, bool is_bound)
{
    const bool is_lengths = index == session->lengths;
    const int32_t other = is_lengths ? session->mask : session->lengths;
    const bool other_is_bound = other >= 0 && session->bindings[other].data;
    const rnnc_layer_desc *masking = rnnc_module_self_masking(session->desc);
    const char *name = session->desc->tensors[index].info.name;
    if (is_bound && other_is_bound)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "%s: %s is bound too, and a run takes one of the two: bind NULL to "
                              "%s first",
                              name, session->desc->tensors[other].info.name,
                              session->desc->tensors[other].info.name);
    if (is_bound && is_lengths && masking)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "%s: layer '%s' masks steps, and a run takes either a mask or "
                              "lengths: bind a mask instead, which is combined with the layer's",
                              name, masking->name);
    return rnnc_session_set_masking(session, is_lengths ? other_is_bound : is_bound,
                                    is_lengths ? is_bound : other_is_bound);
}

/// A gradient is used in place, as all but weights are.
static rnnc_status bind_gradient(rnnc_session *session, const char *name, const DLTensor *tensor)
{
    rnnc_tensor_info info;
    rnnc_binding binding = {0};
    const int32_t index = rnnc_gradient_find(session, name, &info);
    if (index < 0)
        return RNNC_INVALID_ARGUMENT;
    const rnnc_status status = tensor ? take_tensor(session, &info, tensor, &binding) : RNNC_OK;
    if (status == RNNC_OK)
        session->training.gradients[index] = binding;
    return status;
}

/// What the loss reads and writes, in place too. `*out_is_of_loss` false: name is none of that.
static rnnc_status bind_loss(rnnc_session *session, const char *name, const DLTensor *tensor,
                             bool *out_is_of_loss)
{
    rnnc_tensor_info info;
    rnnc_binding binding = {0}, *bound;
    rnnc_status status = rnnc_loss_find(session, name, &info, &bound);
    *out_is_of_loss = bound || status != RNNC_OK;
    if (status == RNNC_OK && bound && tensor)
        status = take_tensor(session, &info, tensor, &binding);
    if (status == RNNC_OK && bound)
        *bound = binding;
    return status;
}

rnnc_status rnnc_bind(rnnc_session *session, const char *name, const DLTensor *tensor)
{
    if (!session || !name)
        return rnnc_error_set(session ? &session->error : NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_bind: %s is NULL", session ? "name" : "session");
    if (session->training.trains && strncmp(name, "grad/", strlen("grad/")) == 0)
        return bind_gradient(session, name, tensor);
    bool is_of_loss;
    rnnc_status status = bind_loss(session, name, tensor, &is_of_loss);
    if (is_of_loss)
        return status;
    int32_t index = rnnc_tensor_find(session, name);
    if (index < 0)
        return RNNC_INVALID_ARGUMENT;
    const rnnc_tensor_info *info = &session->desc->tensors[index].info;
    rnnc_binding binding = {0};
    status = tensor ? take_tensor(session, info, tensor, &binding) : RNNC_OK;
    if (status == RNNC_OK && info->role == RNNC_ROLE_WEIGHT && !session->training.trains)
        return bind_weight(session, index, tensor, binding.data);
    if (status == RNNC_OK && info->role == RNNC_ROLE_MASK)
        status = change_masking(session, index, tensor != NULL);
    if (status == RNNC_OK)
        session->bindings[index] = binding;
    return status;
}
