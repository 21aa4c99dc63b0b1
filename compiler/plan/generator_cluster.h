// Numbers of text generation by clusters (templates/cuda/generate_cluster.cu).
#ifndef RNNC_PLAN_GENERATOR_CLUSTER_H
#define RNNC_PLAN_GENERATOR_CLUSTER_H

#include "plan/generator.h"

/// The fastest layout by estimate of `model`, whose cell and layers are known. False where the
/// device has no clusters, none holds the weights, or operands are of 32 bits.
bool generator_cluster_plan(const Generator *model, const Plan *plan, Generator *out);

#endif
