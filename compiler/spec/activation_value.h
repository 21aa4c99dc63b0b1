// Activation values: the three forms of an activation in a spec.
#ifndef RNNC_SPEC_ACTIVATION_VALUE_H
#define RNNC_SPEC_ACTIVATION_VALUE_H

#include "spec/values.h"

/// Reads `tanh`, `{leaky_relu: 0.05}`, `{affine: [0.5, 0.25]}` or `{expr: "..."}`; which names
/// there are is the cells' matter. Adds E0201, E0203 or E0215 and leaves `out` alone on a fault.
void activation_value_read(const SpecValue *value, SpecActivation *out);

#endif
