// Spec checks: what two keys must satisfy together.
#ifndef RNNC_SPEC_CHECK_H
#define RNNC_SPEC_CHECK_H

#include "spec/values.h"

/// Checks a spec that was read key by key, and gives it a name where the file gives none. Adds
/// E02xx.
void spec_check(SpecReader *reader, const DocNode *root);

#endif
