// The note of a module: its descriptor as JSON in an ELF note (owner "rnnc", type 1, section
// .note.rnnc), so that a module can be read without loading it or having a GPU.
#ifndef RNNC_BUILD_MODULE_NOTE_H
#define RNNC_BUILD_MODULE_NOTE_H

#include "base/diag.h"

/// Finds the note in the bytes of an ELF file, which are taken as hostile. Adds E0802 and returns
/// false where it is no 64-bit little-endian ELF file, is damaged, or has no such note.
/// `*out_text` points into `bytes` and has no NUL.
bool module_note_find(Diags *diags, const char *path, const unsigned char *bytes, size_t size_bytes,
                      const char **out_text, size_t *out_length);

#endif
