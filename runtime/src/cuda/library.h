/* Libraries opened at run time: a table of functions filled from a shared library by name. */
#ifndef RNNC_CUDA_LIBRARY_H
#define RNNC_CUDA_LIBRARY_H

#include <stddef.h>

/* One function: its exported name, and where its pointer lies in the table. */
typedef struct {
    const char *name;
    size_t offset;
    int is_optional; /* stays NULL where the library lacks it */
} rnnc_symbol;

enum { RNNC_REASON_BYTES = 256 };

/* Opens the first of `file_names` (NULL-ended) that is there and fills `table`. `what` names the
 * library in the reason. Returns 1; or 0 with why not in `reason` (RNNC_REASON_BYTES). The library
 * stays open until the process ends. */
int rnnc_library_open(const char *what, const char *const *file_names, const rnnc_symbol *symbols,
                      size_t symbol_count, void *table, char *reason);

#endif
