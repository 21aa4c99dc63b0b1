// Numbers of the backward pass of train_cluster: how many CTAs, warps and rows of the batch a
// cluster has and what of the transposed matrices lies in registers.
#ifndef RNNC_PLAN_BACK_H
#define RNNC_PLAN_BACK_H

#include "plan/plan.h"

typedef struct {
    int ctas;      ///< of a cluster: 1, 2, 4, 8 or 16
    int warps;     ///< of a CTA
    int rows;      ///< of the batch, of a cluster
    int held;      ///< mma fragments of a thread in registers
    int fragments; ///< all of a thread
    int64_t shared_bytes;
    double step_us; ///< estimate, for all rows of the batch
} BackLayout;

/// The cheapest layout for the context's batch; false where none fits, with `out` the nearest.
bool back_layout(const PlanContext *context, BackLayout *out);

#endif
