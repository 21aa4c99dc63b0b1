// What the variants ask in common whose CTAs share R and a batch row's units.
#ifndef RNNC_PLAN_SHARING_H
#define RNNC_PLAN_SHARING_H

#include "plan/plan.h"

/// Whether the cell's products can be shared by the CTAs of a `group` ("group", "cluster"); adds
/// the reason where they cannot.
bool sharing_check(Arena *arena, const PlanContext *context, const char *group, Reasons *reasons);

#endif
