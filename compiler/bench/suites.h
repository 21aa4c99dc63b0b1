// Suites: standard sets of cases, from the table of suites.def.
#ifndef RNNC_BENCH_SUITES_H
#define RNNC_BENCH_SUITES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct {
    const char *name;   ///< "lstm_h512_i512_b64_t100_float16"
    const char *module; ///< name of its spec and module; cases that differ in T alone may share it
    const char *cell, *keys, *precision;
    int64_t inputs, units, batch, timesteps;
    int layers, directions;
    bool trains;        ///< training is measured
    bool any_timesteps; ///< of the spec
    double bar;         ///< ratio to cuDNN that it must reach; 0: none
    double most_cost;   ///< times the plain lstm of its sizes, at most; 0: nothing to hold
    const char *plain;  ///< name of that case; NULL with most_cost 0
} SuiteCase;

/// The cases of a suite, or NULL where there is none of that name.
/// With `trains`, as in the suite `training`, they measure training.
const SuiteCase *suite_cases(Arena *arena, const char *suite, bool trains, int *out_count);

/// All names, NULL-ended.
extern const char *const suite_names[];

/// The case's spec as text; weights are drawn.
const char *suite_spec(Arena *arena, const SuiteCase *of);

#endif
