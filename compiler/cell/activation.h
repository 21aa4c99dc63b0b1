// Activations: names, aliases and parameters from templates/activations.def, whose formulas are
// written in the expression language of cells; and `{expr: ...}` given by a user.
#ifndef RNNC_CELL_ACTIVATION_H
#define RNNC_CELL_ACTIVATION_H

#include "cell/graph.h"

enum { ACTIVATION_PARAMETERS_MAX = 2 };

/// One activation as used by a layer: the formula over `x` with its parameters bound.
typedef struct {
    const char *name;     ///< canonical name; "expr" for a user's expression
    const char *formula;  ///< expression text over x, a, b
    const Source *source; ///< where the formula stands, for diagnostics inside it
    double parameters[ACTIVATION_PARAMETERS_MAX];
    int parameter_count;
    Span span; ///< where the spec names it
} Activation;

/// Finds `name` (case-insensitive, aliases of other frameworks included) and binds `parameters`
/// (missing ones take the row's defaults). Adds E03xx (with a suggestion) and returns false for an
/// unknown name or a wrong parameter count; adds W0301 where frameworks disagree on the default.
bool activation_find(Arena *arena, Diags *diags, Span span, const char *name,
                     const double *parameters, int parameter_count, Activation *out);

/// Binds a user's expression over `x`. Errors carry the column inside the text. What is not
/// elementwise is refused with the reason (softmax, norm, ...).
bool activation_from_expression(Arena *arena, Diags *diags, Span span, const char *expression,
                                Activation *out);

/// Appends the activation of node `x` to the graph and returns its node.
int activation_apply(Graph *graph, const Activation *activation, int x);

/// Whether two uses are the same function (name, parameters, formula).
bool activation_equal(const Activation *a, const Activation *b);

/// Prints the table for `rnnc activations`.
void activation_print_table(Text *out);

#endif
