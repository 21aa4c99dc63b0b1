// Layout: what the axes of a tensor mean, and how rows and steps lie in the memory that is bound to
// it. Knows shapes and strides, nothing of devices.
#ifndef RNNC_RUNTIME_LAYOUT_H
#define RNNC_RUNTIME_LAYOUT_H

#include "session.h"

/// Which axis is the batch and which is time; -1: none.
typedef struct {
    int32_t batch, time;
} rnnc_axes;

/// The axes of a tensor of the module: [B, T, ...], or [T, B, ...] for x and y of a time-major
/// module; [B, size] for states and for outputs without time; a weight has neither.
rnnc_axes rnnc_tensor_axes(const rnnc_module_desc *desc, const rnnc_tensor_info *info);

/// Fills the strides of a binding whose dims are there. x, y and mask may have any positive strides
/// of rows and steps (x and mask also 0 between rows: one row for all), as long as features are
/// contiguous and no two elements of y share memory; all else must be contiguous.
rnnc_status rnnc_layout_take(rnnc_session *session, const rnnc_tensor_info *info,
                             const DLTensor *tensor, rnnc_binding *binding);

#endif
