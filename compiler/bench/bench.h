// Bench: variants of a model or of a suite side by side, measured on this machine.
#ifndef RNNC_BENCH_BENCH_H
#define RNNC_BENCH_BENCH_H

#include "base/diag.h"
#include "bench/results.h"

typedef struct {
    const char *path;     ///< of a spec or module; NULL with a suite
    const char *suite;    ///< its name; NULL with a path
    const char *filter;   ///< suite: only cases with this in their name; NULL: all
    const char *modules;  ///< suite: the folder of its modules, taken where they are there and
                          ///< compiled where not; NULL: a temporary one
    bool compile_only;    ///< suite: fill that folder, measure nothing
    double seconds;       ///< suite: no case begins after that time; 0: no limit
    const char *device;   ///< "cpu", "cuda:0"; NULL: a GPU where there is one, and the CPU (not for
                          ///< suites) or where there is none
    const char *variants; ///< "all", or a list
    bool trains;          ///< training is measured, whatever a spec's mode
    bool ladder;          ///< of a path: the ladder's variants instead, on a GPU
    const char *targets;  ///< what specs are compiled for; NULL: what is measured on
    const int64_t *batches, *timesteps; ///< of a path
    int batch_count, timesteps_count;   ///< 0: the model's own
    struct Trace *trace;                ///< takes what ran on the GPU; NULL: not wanted
    void (*progress)(const char *what); ///< may be NULL
    /// Told after each case, which is the report's last; may be NULL.
    void (*done)(void *context, const BenchReport *so_far);
    void *context;
} BenchOptions;

/// Measures. Adds diagnostics and returns false on a fault; what was measured before it is in
/// `out`.
bool bench_run(Arena *arena, Diags *diags, const BenchOptions *options, BenchReport *out);

/// The part of it that runs a suite.
bool suite_run(Arena *arena, Diags *diags, const BenchOptions *options, BenchReport *out);

#endif
