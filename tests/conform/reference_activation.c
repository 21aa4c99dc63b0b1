// Activations of the reference, in float64 by the formulas of the frameworks' documentation
// (design section 3). Formulas are rows: name, value over x with parameters a and b.
#include "conform/reference.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double softplus(double x)
{
    return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

#define ACTIVATIONS(ROW)                                                                           \
    ROW(tanh, tanh(x))                                                                             \
    ROW(sigmoid, x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x)))                       \
    ROW(relu, x > 0.0 || isnan(x) ? x : 0.0)                                                       \
    ROW(leaky_relu, x >= 0.0 ? x : a * x)                                                          \
    ROW(elu, x > 0.0 ? x : a * expm1(x))                                                           \
    ROW(selu, 1.0507009873554804934 * (x > 0.0 ? x : 1.6732632423543772848 * expm1(x)))            \
    ROW(celu, x > 0.0 ? x : a * expm1(x / a))                                                      \
    ROW(gelu, 0.5 * x * erfc(-x / sqrt(2.0)))                                                      \
    ROW(gelu_tanh, 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x))))    \
    ROW(silu, x / (1.0 + exp(-x)))                                                                 \
    ROW(mish, x *tanh(softplus(x)))                                                                \
    ROW(softplus, softplus(x))                                                                     \
    ROW(softsign, x / (1.0 + fabs(x)))                                                             \
    ROW(exponential, exp(x))                                                                       \
    ROW(linear, x)                                                                                 \
    ROW(relu6, clamp(x, 0.0, 6.0))                                                                 \
    ROW(hard_tanh, clamp(x, -1.0, 1.0))                                                            \
    ROW(hard_sigmoid, clamp(x / 6.0 + 0.5, 0.0, 1.0))                                              \
    ROW(hard_sigmoid_k2, clamp(0.2 * x + 0.5, 0.0, 1.0))                                           \
    ROW(affine, a *x + b)                                                                          \
    ROW(scaled_tanh, a *tanh(b *x))                                                                \
    ROW(thresholded_relu, x >= a ? x : 0.0)

#define FUNCTION(name, formula)                                                                    \
    static double value_##name(double x, double a, double b)                                       \
    {                                                                                              \
        (void)a, (void)b;                                                                          \
        return formula;                                                                            \
    }
ACTIVATIONS(FUNCTION)

static const struct {
    const char *name;
    double (*value)(double x, double a, double b);
} activations[] = {
#define ENTRY(name, formula) {#name, value_##name},
    ACTIVATIONS(ENTRY)};

double reference_activation(const ReferenceActivation *activation, double x)
{
    for (size_t k = 0; k < sizeof activations / sizeof *activations; k++)
        if (strcmp(activations[k].name, activation->name) == 0)
            return activations[k].value(x, activation->a, activation->b);
    assert(!"an activation that the reference knows");
    return NAN;
}
