// Stack: layers that can run at the same time, each some steps behind the one that feeds it, and
// how many of them do best so: all of them share the GPU's SMs and finish together, or a few after
// the others with more SMs each. The runtime runs them (runtime/src/cuda/wavefront.h).
#ifndef RNNC_PLAN_STACK_H
#define RNNC_PLAN_STACK_H

#include "plan/plan.h"

enum { STACK_MAX = 8 }; // as RNNC_STACK_MAX of the runtime

/// Layers of the stack that begins at `index`, at most STACK_MAX: cells that take time forward,
/// each reading the whole sequence that the one before writes. 1: the layer itself.
int stack_count(const Model *model, int index);

/// Microseconds of `count` layers over `timesteps` steps, `at_once` of them at a time, where each
/// takes `layer_us` with its share of the GPU.
double stack_us(const double *layer_us, int count, int at_once, int64_t timesteps);

#endif
