// Self-test of a module: a small drawn input, and what the model's equations give for it in float64
// (model/reference.h), which the module carries (rnnc_self_test). The numbers go into a file beside
// the module's C file:
//
//     self_test.bin     x, float32 or int32 | at a multiple of 64 bytes: output 0 | output 1
#ifndef RNNC_EMIT_SELF_TEST_H
#define RNNC_EMIT_SELF_TEST_H

#include "model/reference.h"

typedef struct {
    int64_t rows, timesteps; ///< of x, [rows, timesteps, features] or [rows, timesteps]
    const void *x;
    size_t x_bytes;
    ReferenceOutput outputs[2]; ///< values NULL: there is no second
    double tolerance;           ///< of the precision, for ||y - ref|| / ||ref||
} SelfTest;

/// Two rows and five steps where the model leaves B and T open; a model of fixed time steps of
/// which the first cannot be computed alone gets them all. NULL, with `*out_refusal`, for a model
/// without a reference or with one that would take too long or too much room.
const SelfTest *self_test_make(Arena *arena, const Model *model, const char **out_refusal);

/// The bound of the project's tests on ||y - ref|| / ||ref|| of an output, by precision.
double self_test_tolerance(const Model *model, int64_t timesteps);

/// The bytes of self_test.bin.
const void *self_test_bytes(Arena *arena, const SelfTest *test, size_t *out_size_bytes);

/// Prints the definition of `rnnc_test`, of type rnnc_self_test, over the symbol `data`.
void self_test_print(const SelfTest *test, const char *data, Text *out);

#endif
