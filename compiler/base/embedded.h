// Embedded: the files of templates/ as the build put them into the program (.incbin), sorted by
// path. Cells and activations are read from here too.
#ifndef RNNC_BASE_EMBEDDED_H
#define RNNC_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct {
    const char *path; ///< below templates/: "cells/lstm.cell"
    const char *text; ///< NUL-terminated
    size_t length;
} EmbeddedFile;

/// All files, sorted by path; the last has a NULL path.
const EmbeddedFile *embedded_files(void);

/// One file, or NULL.
const EmbeddedFile *embedded_find(const char *path);

#endif
