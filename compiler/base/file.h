// Files: whole-file reads, read-only maps, and writes that either happen completely or not at all.
#ifndef RNNC_BASE_FILE_H
#define RNNC_BASE_FILE_H

#include "base/diag.h"

/// Reads a text file into the arena. On failure adds E0001 at `from` (the place that named the
/// file) and returns NULL.
const Source *file_read(Arena *arena, Diags *diags, const char *path, Span from);

/// Maps a file read-only until the process ends. On failure adds E0001 and returns false.
/// An empty file gives size 0 and a non-NULL pointer.
bool file_map(Diags *diags, const char *path, Span from, const unsigned char **out_data,
              size_t *out_size_bytes);

/// The name that a write to `path` renames onto: `path`, or what it links to. NULL, with E0002,
/// where that is a device, a pipe or a folder: a rename would put a file in its place.
const char *file_to_replace(Arena *arena, Diags *diags, const char *path);

/// Writes all bytes to a temporary name beside `path` and renames it there. On failure adds E0002,
/// removes the temporary file and returns false: `path` is never left half-written, and a signal
/// that ends the process waits until the temporary file is gone.
bool file_write(Arena *arena, Diags *diags, const char *path, const void *data, size_t size_bytes);

/// Whether file_write could write to `path`; tried with an empty file of another name. Adds E0002
/// and returns false where it could not.
bool file_check_writable(Arena *arena, Diags *diags, const char *path);

/// `name` resolved against the folder that holds `beside` (absolute names stay as they are).
const char *file_beside(Arena *arena, const char *beside, const char *name);

#endif
