// Reference: a model in float64, by evaluating each cell's elementwise graph and its schedule. What
// the error of a variant is taken against. It shares the cell's equations with the kernels, so it
// finds wrong arithmetic, not wrong equations; tests hold those against references by hand.
#ifndef RNNC_MODEL_REFERENCE_H
#define RNNC_MODEL_REFERENCE_H

#include "model/model.h"

/// What is computed: some rows of the batch, and the first steps only where the rest is not wanted.
typedef struct {
    int64_t *rows; ///< indices in the batch
    int64_t row_count, timesteps;
} ReferencePart;

/// Why a model has no reference, or NULL.
const char *reference_refusal(const Model *model);

/// The first and the last row, and as many steps as `operations` allow; more rows where all steps
/// fit. A model of which the first steps cannot be computed alone gets all of them, one row at
/// least.
ReferencePart reference_choose(Arena *arena, const Model *model, int64_t batch, int64_t timesteps,
                               double operations);

/// Runs the part. `x` [B, T, features] float32 or int32 tokens [B, T], batch-major, whole; masks
/// and carried states there are none. Returns the outputs as [rows, steps, width] for output 0, and
/// those of y/bw for output 1; steps is 1 where the output has no time.
typedef struct {
    double *values;
    int64_t width, steps;
} ReferenceOutput;
void reference_run(Arena *arena, const Model *model, const ReferencePart *part, int64_t timesteps,
                   const void *x, ReferenceOutput out[2]);

#endif
