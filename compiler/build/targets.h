// Targets: which machines a module is for, from the command line, the spec, or the default.
#ifndef RNNC_BUILD_TARGETS_H
#define RNNC_BUILD_TARGETS_H

#include "spec/spec.h"

enum { TARGET_ARCHES_MAX = 16 };

typedef struct {
    int arches[TARGET_ARCHES_MAX]; ///< 90 for sm_90, in the order given, without repetition
    int arch_count;
    bool cpu;
} Targets;

/// `words` ("sm_90,cpu"), else the spec's `targets`, else "sm_90,cpu" in a build with CUDA and
/// "cpu" in one without. Adds E0790 for a word that is neither `cpu` nor `sm_NN`.
bool targets_parse(Arena *arena, Diags *diags, const Spec *spec, const char *words, Targets *out);

/// Planning for a GPU needs no CUDA; building does: adds E0791 for a GPU target in a build without.
bool targets_buildable(Diags *diags, const Targets *targets);

#endif
