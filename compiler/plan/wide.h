// Numbers of persistent_wide: how many rows and CTAs a group has, what of R lies in registers, and
// how much of an operand is under way at once.
#ifndef RNNC_PLAN_WIDE_H
#define RNNC_PLAN_WIDE_H

#include "plan/plan.h"

typedef struct {
    int ctas;   ///< of a group
    int share;  ///< units of a CTA, even
    int rows;   ///< of the batch, of a product: 8, 16, 32 or 64
    int turns;  ///< products of other rows that a group makes by turns: 1 or 2
    int slice;  ///< units of K that are copied at once, a multiple of 64
    int slots;  ///< slices in shared memory, even
    int held;   ///< blocks of a warpgroup in registers
    int blocks; ///< all of a warpgroup
    int64_t shared_bytes;
    int64_t packed_bytes; ///< of the recurrent weights
    int64_t buffer_bytes; ///< of one group's operand buffers and flags
    WorkLayout numbers;   ///< those above that are searched
    double step_us;       ///< estimate, for all rows of the batch
} WideLayout;

/// Whether the device has wgmma.
bool wide_is_known(const Device *device);

/// The cheapest layout for the context's batch; false where none fits, with `out` the nearest.
bool wide_layout(const PlanContext *context, WideLayout *out);

#endif
