// Condition: how far a network carries the rounding of what it multiplies.
#ifndef RNNC_CONFORM_CONDITION_H
#define RNNC_CONFORM_CONDITION_H

#include "conform/network.h"

/// ||moved - answer|| / ||answer|| in float64, the largest of all outputs and states, where
/// `moved` is the answer with weights rounded to the operands of the network's precision.
double condition_of(const Network *network, const Sample *sample);

#endif
