// Checkpoint: all that training needs to go on, bit for bit: a safetensors file whose tensors are
//
//     weights mean square average [elems]   states [elems]    step (I64)   best (F64)   settings
//     (U8)
//
// It is written beside its place and renamed there, so that a kill at any moment leaves this one or
// the one before.
#ifndef RNNC_TRAIN_CHECKPOINT_H
#define RNNC_TRAIN_CHECKPOINT_H

#include "base/diag.h"

typedef struct {
    int64_t step;         ///< steps that are done
    double best;          ///< bits per held-out character, the lowest so far; infinite: none
    const char *settings; ///< lines `name value`, of all that the steps depend on
    int64_t weight_elems, state_elems;
    float *weights, *mean, *square, *average, *states; ///< the caller's
} Checkpoint;

/// Adds E0002 and returns false where it cannot be written.
bool checkpoint_write(Diags *diags, const char *path, const Checkpoint *checkpoint);

/// Fills step, best and the arrays. `settings` and sizes are those of this run: adds E0818, which
/// names what differs, and returns false where the file is of another; E04xx where it is damaged.
bool checkpoint_read(Arena *arena, Diags *diags, const char *path, Checkpoint *checkpoint);

#endif
