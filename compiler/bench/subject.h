// Subject: what is benched. A spec is compiled to a module without weights, which are drawn or read
// here and bound, so that the module stays small; a finished module brings its own, and its spec is
// looked for where its provenance says, for the float64 reference and the sizes.
#ifndef RNNC_BENCH_SUBJECT_H
#define RNNC_BENCH_SUBJECT_H

#include "base/diag.h"
#include "model/model.h"
#include "rnnc/rnnc.h"

typedef struct {
    const char *spec_path;       ///< or NULL
    const char *module_path;     ///< of a module; with a spec, where to keep it; NULL: nowhere
    const char *targets;         ///< for compiling
    const char *variants;        ///< "all" or a list
    const struct PlanFile *plan; ///< instead of variants; NULL: none
    int64_t batch, timesteps;    ///< instead of the spec's fixed ones; 0: the spec's
    bool trains;                 ///< for training, whatever the spec's mode
    bool reuse;                  ///< take the module at module_path where there is one
    void (*progress)(const char *stage);
} SubjectOptions;

typedef struct {
    const Model *model;   ///< NULL: the spec of a finished module was not found
    const char *no_model; ///< why
    rnnc_module *module;
    bool is_bound; ///< every weight has to be bound from the model
} Subject;

/// Compiles or opens. Adds diagnostics and returns false on a fault.
bool subject_open(Arena *arena, Diags *diags, const SubjectOptions *options, Subject *out);
void subject_close(Subject *subject);

/// Compiles the spec to module_path and no more. `out_model` takes the model; may be NULL.
bool subject_compile(Arena *arena, Diags *diags, const SubjectOptions *options,
                     const Model **out_model);

#endif
