// Measure: all rows of one case: the module's variants, its own choice, the CPU, and cuDNN alone.
#ifndef RNNC_BENCH_MEASURE_H
#define RNNC_BENCH_MEASURE_H

#include "base/diag.h"
#include "bench/results.h"
#include "bench/subject.h"

typedef struct {
    const char *gpu; ///< "cuda:0"; NULL: no GPU
    int32_t ordinal, arch;
    bool cpu;
    const char *variants;      ///< "all", or a list such as "unrolled,cudnn:standard"
    bool without_module_cudnn; ///< cuDNN alone is enough
    bool without_library;
    int64_t batch, timesteps; ///< 0: the module's
    bool trains;              ///< a run is rnnc_forward and rnnc_backward
    struct Trace *trace;      ///< takes what ran on the GPU; NULL: not wanted
    /// Told before each row; may be NULL.
    void (*progress)(const char *what);
} MeasureOptions;

/// Measures all rows. `out` has its name set by the caller, and all that it names is in `arena`;
/// `scratch` takes the arrays, and may be the same. Adds diagnostics and returns false only
/// where nothing can be measured; a variant that cannot run is a row with its reason.
bool measure_case(Arena *arena, Arena *scratch, Diags *diags, const Subject *subject,
                  const MeasureOptions *options, BenchCase *out);

/// Whether every name of a list is a variant, "all", or an algorithm of one ("cudnn:standard").
/// Adds E0602 for the first that is not.
bool measure_check_variants(Arena *arena, Diags *diags, const char *names);

#endif
