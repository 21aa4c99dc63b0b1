// Templates: the files of templates/, embedded in the program, and their inclusion into generated
// sources so that what is compiled (and embedded in a module) stands alone.
#ifndef RNNC_EMIT_TEMPLATE_H
#define RNNC_EMIT_TEMPLATE_H

#include "base/text.h"

/// The content of a template by its path below templates/ ("cuda/stepwise.cu"), or NULL.
const char *template_find(const char *path);

/// `source` with every `#include "path"` of a template replaced by its content, once each, with
/// #line directives before and after, recursively. Paths are looked up below templates/ and then
/// beside the including template. Other includes stay.
const char *template_resolve(Arena *arena, const char *source);

#endif
