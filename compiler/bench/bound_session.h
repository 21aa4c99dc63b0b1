// Bound session: a session of a subject with input, outputs and weights bound, ready to be run and
// timed; and the error of its outputs against a reference.
#ifndef RNNC_BENCH_BOUND_SESSION_H
#define RNNC_BENCH_BOUND_SESSION_H

#include "bench/subject.h"
#include "model/reference.h"

/// What all sessions of a case share.
typedef struct {
    int64_t batch, timesteps;
    const void *x;        ///< batch-major: float32 [B, T, features], or int32 tokens [B, T]
    const void *laid_out; ///< the same in the module's layout
    bool training;        ///< sessions are for training, with weights and gradients bound
} BenchInput;

/// B and T of a module: as asked (0: not), else what it is compiled for, else 1 and 100. Adds E0805
/// and returns false where it is compiled for another number.
bool bench_sizes(Diags *diags, const rnnc_module *module, int64_t *batch, int64_t *timesteps);

/// Rows of the module's embedding; 0: its input is no tokens.
int64_t bench_vocabulary(const rnnc_module *module);

/// Draws the input, uniform in (-1, 1); tokens from 1 on, for 0 may be a mask. Adds E0806 and
/// returns false where input and outputs need more memory than this machine has. `vocabulary` 0:
/// no tokens.
bool bench_input(Arena *arena, Diags *diags, const rnnc_module *module, int64_t vocabulary,
                 BenchInput *input);

typedef struct {
    rnnc_session *session;
    void *x, *y[2]; ///< device memory
    int64_t y_elems[2];
    void **memories; ///< all device memory, in the arena
    int memory_count;
    const char *fault; ///< why it could not be opened; in the arena
} BoundSession;

/// Creates the session on `device` ("cuda:0") by `variant` (NULL: its own choice), binds all, and
/// runs once. RNNC_OK, or the status with `fault` set and nothing held.
rnnc_status bound_session_open(Arena *arena, const Subject *subject, const BenchInput *input,
                               const char *device, const char *variant, BoundSession *out);
void bound_session_close(BoundSession *bound);

/// ||y - ref|| / ||ref|| over the part of the outputs that the reference has; NaN where one cannot
/// be read.
double bound_session_error(BoundSession *bound, const Subject *subject, const BenchInput *input,
                           const ReferencePart *part, const ReferenceOutput reference[2]);

#endif
