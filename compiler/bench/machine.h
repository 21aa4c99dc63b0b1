// Machine: what a bench runs on, and which devices it was asked to use.
#ifndef RNNC_BENCH_MACHINE_H
#define RNNC_BENCH_MACHINE_H

#include "base/diag.h"
#include "bench/results.h"

typedef struct {
    const char *gpu; ///< "cuda:0"; NULL: none
    int32_t ordinal;
    bool cpu;
    const char *targets; ///< for compiling: "sm_90,cpu"
} BenchMachine;

/// `device`: "cpu", "cuda", "cuda:N", or NULL: GPU 0 where there is one, and the CPU. Fills the
/// machine's part of the report. Adds E0806 and returns false where the GPU that was named is not
/// there, E0805 where the name is none.
bool machine_find(Arena *arena, Diags *diags, const char *device, BenchMachine *out,
                  BenchReport *report);

#endif
