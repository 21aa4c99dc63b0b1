// Tune: measures every variant of every layer of a model, and of those with layouts to choose the
// few that are cheapest by estimate, and fills a plan file with what is fastest.
#ifndef RNNC_BENCH_TUNE_H
#define RNNC_BENCH_TUNE_H

#include "base/diag.h"
#include "plan/plan_file.h"

typedef struct {
    const char *path;     ///< of the spec
    const char *device;   ///< "cuda:0"; NULL: the first GPU
    const char *target;   ///< compile_only: "sm_90"
    const char *variants; ///< "all" or a list; NULL: the spec's, and all where that is `auto`
    int layouts;          ///< of a variant, at most
    const char *modules;  ///< folder that holds the candidates' modules; NULL: none is kept
    bool compile_only;    ///< only fill that folder
    void (*progress)(const char *what); ///< may be NULL
} TuneOptions;

/// Layers that are alike are tuned together, since they run at the same time; the others run what
/// the plan has for them so far. Where a model has several kinds of layers, each is tuned once, in
/// order. Adds diagnostics and returns false on a fault.
bool tune_run(Arena *arena, Diags *diags, const TuneOptions *options, PlanFile *out);

/// The measurements as a table for people.
void tune_print(Arena *arena, const PlanFile *file, Text *out);

#endif
