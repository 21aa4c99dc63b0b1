// Bench: variants of a model or of a suite side by side, measured on this machine.
#ifndef RNNC_BENCH_BENCH_H
#define RNNC_BENCH_BENCH_H

#include "base/diag.h"
#include "bench/results.h"

typedef struct {
    const char *path;     ///< of a spec or module; NULL with a suite
    const char *device;   ///< "cpu", "cuda:0"; NULL: a GPU where there is one, and the CPU
    const char *variants; ///< "all", or a list
    const char *targets;  ///< what specs are compiled for; NULL: what is measured on
    const int64_t *batches, *timesteps;
    int batch_count, timesteps_count;   ///< 0: the model's own
    void (*progress)(const char *what); ///< may be NULL
} BenchOptions;

/// Measures. Adds diagnostics and returns false where nothing was measured.
bool bench_run(Arena *arena, Diags *diags, const BenchOptions *options, BenchReport *out);

#endif
