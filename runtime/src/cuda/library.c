/* Libraries opened at run time: see library.h. */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int rnnc_library_open(const char *what, const char *const *file_names, const rnnc_symbol *symbols,
                      size_t symbol_count, void *table, char *reason)
{
    void *handle = NULL;
    for (size_t i = 0; !handle && file_names[i]; i++)
        handle = dlopen(file_names[i], RTLD_NOW | RTLD_GLOBAL);
    if (!handle) {
        snprintf(reason, RNNC_REASON_BYTES, "%s is not installed here (%s cannot be opened)", what,
                 file_names[0]);
        return 0;
    }
    for (size_t i = 0; i < symbol_count; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol && !symbols[i].is_optional) {
            snprintf(reason, RNNC_REASON_BYTES, "%s is too old: it has no %s", what,
                     symbols[i].name);
            return 0;
        }
        memcpy((char *)table + symbols[i].offset, &symbol, sizeof symbol);
    }
    return 1;
}
