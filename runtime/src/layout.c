// Layout: the axes of tensors, and the strides that a run can take. A tensor of one row or one step
// may come with any stride there: it is never used, and set to what a contiguous tensor has.
#include "layout.h"

rnnc_axes rnnc_tensor_axes(const rnnc_module_desc *desc, const rnnc_tensor_info *info)
{
    const bool is_end = info->role == RNNC_ROLE_INPUT || info->role == RNNC_ROLE_OUTPUT;
    const bool has_time = info->role == RNNC_ROLE_INPUT ||
                          (info->role == RNNC_ROLE_OUTPUT && info->ndim == 3) ||
                          (info->role == RNNC_ROLE_MASK && info->ndim == 2);
    if (info->role == RNNC_ROLE_WEIGHT)
        return (rnnc_axes){-1, -1};
    if (is_end && has_time && desc->time_major)
        return (rnnc_axes){.batch = 1, .time = 0};
    return (rnnc_axes){.batch = 0, .time = has_time ? 1 : -1};
}

static rnnc_status check_contiguous(rnnc_session *session, const rnnc_tensor_info *info,
                                    const DLTensor *tensor)
{
    int64_t stride = 1;
    for (int32_t i = info->ndim - 1; i >= 0 && tensor->strides; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
            return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                                  "%s: the stride of dimension %d is %lld, expected %lld: only "
                                  "inputs, outputs and masks need not be contiguous",
                                  info->name, (int)i, (long long)tensor->strides[i],
                                  (long long)stride);
        stride *= tensor->shape[i];
    }
    return RNNC_OK;
}

/// The stride of an axis, or what it is in a contiguous tensor.
static int64_t axis_stride(const rnnc_tensor_info *info, const DLTensor *tensor, int32_t axis)
{
    if (axis >= 0 && tensor->strides && tensor->shape[axis] != 1)
        return tensor->strides[axis];
    int64_t stride = 1;
    for (int32_t i = info->ndim - 1; i > axis && axis >= 0; i--)
        stride *= tensor->shape[i];
    return stride;
}

/// One of the two axes that may be strided, and the least stride at which its elements are apart.
typedef struct {
    int32_t index;
    int64_t count, stride, least;
} StridedAxis;

static rnnc_status refuse_stride(rnnc_session *session, const rnnc_tensor_info *info,
                                 const StridedAxis *axis, int64_t least, const char *reason)
{
    return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                          "%s: the stride of dimension %d is %lld, expected %lld or more: %s",
                          info->name, (int)axis->index, (long long)axis->stride, (long long)least,
                          reason);
}

/// Walks the axes from the smaller stride to the larger; `width` is what one step of one row takes.
static rnnc_status check_reach(rnnc_session *session, const rnnc_tensor_info *info,
                               StridedAxis *axes, int64_t width)
{
    // A stride of 2^58 elements reaches beyond any memory; below it nothing here overflows.
    const int64_t most = INT64_C(1) << 58;
    const bool is_swapped = axes[1].stride < axes[0].stride;
    int64_t reach = width;
    for (int i = 0; i < 2; i++) {
        const StridedAxis *axis = &axes[is_swapped ? 1 - i : i];
        if (axis->count == 1)
            continue;
        if (axis->stride < axis->least)
            return refuse_stride(session, info, axis, axis->least,
                                 "rows and steps may have any positive stride");
        if (info->role == RNNC_ROLE_OUTPUT && axis->stride < reach)
            return refuse_stride(session, info, axis, reach,
                                 "rows and steps of an output must not overlap");
        if (axis->stride > (most - reach) / axis->count)
            return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                                  "%s: the stride of dimension %d is %lld, which no memory holds",
                                  info->name, (int)axis->index, (long long)axis->stride);
        reach += (axis->count - 1) * axis->stride;
    }
    return RNNC_OK;
}

rnnc_status rnnc_layout_take(rnnc_session *session, const rnnc_tensor_info *info,
                             const DLTensor *tensor, rnnc_binding *binding)
{
    const rnnc_axes axes = rnnc_tensor_axes(session->desc, info);
    if (info->role == RNNC_ROLE_WEIGHT || info->role == RNNC_ROLE_STATE ||
        (info->role == RNNC_ROLE_MASK && axes.time < 0))
        return check_contiguous(session, info, tensor);
    const int32_t last = info->ndim - 1;
    const bool has_features = last > axes.batch && last > axes.time;
    const int64_t width = has_features ? tensor->shape[last] : 1;
    if (has_features && axis_stride(info, tensor, last) != 1)
        return rnnc_error_set(&session->error, RNNC_INVALID_ARGUMENT,
                              "%s: the stride of dimension %d is %lld, expected 1: features must "
                              "be contiguous; rows and steps may have any positive stride",
                              info->name, (int)last, (long long)tensor->strides[last]);
    binding->row_stride = axis_stride(info, tensor, axes.batch);
    binding->step_stride = axis_stride(info, tensor, axes.time);
    StridedAxis strided[] = {
        {axes.batch, tensor->shape[axes.batch], binding->row_stride,
         info->role == RNNC_ROLE_OUTPUT ? 1 : 0},
        {axes.time, axes.time < 0 ? 1 : tensor->shape[axes.time], binding->step_stride, 1},
    };
    return check_reach(session, info, strided, width);
}
