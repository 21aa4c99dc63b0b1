// npz: NumPy's archives of arrays: a zip file whose members are npy files, stored or deflated.
#ifndef RNNC_IMPORT_NPZ_H
#define RNNC_IMPORT_NPZ_H

#include "import/npy.h"

typedef struct {
    const char *name; ///< without ".npy"
    NpyArray array;
} NpzMember;

typedef struct {
    const char *path;
    NpzMember *members; ///< in the archive's order
    int count;
} Npz;

/// Maps, checks and inflates `path`; adds E0420 to E0431 at `span` and returns NULL on a fault.
const Npz *npz_open(Arena *arena, Diags *diags, const char *path, Span span);

/// The same over bytes in memory, which must outlive the result; `path` is for messages.
const Npz *npz_parse(Arena *arena, Diags *diags, const char *path, Span span,
                     const unsigned char *bytes, size_t size_bytes);

/// The array of that name, or NULL.
const NpyArray *npz_find(const Npz *archive, const char *name);

/// Writes a file of stored members atomically; the same members give the same bytes. Adds E0002 or,
/// beyond zip's 4 GB, E0431, and returns false on failure.
bool npz_write(Arena *arena, Diags *diags, const char *path, const NpzMember *members, int count);

#endif
