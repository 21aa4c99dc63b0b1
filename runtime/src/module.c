// Module: opens a model.so and checks that its tables are ones that this runtime can read.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "memory.h"
#include "session.h"

static rnnc_status check_tables(const char *path, const rnnc_module_desc *desc)
{
    if (!desc)
        return rnnc_error_set(NULL, RNNC_BAD_MODULE, "%s: needs a runtime of an ABI newer than %d",
                              path, RNNC_ABI_MAJOR);
    if (desc->magic != RNNC_MODULE_MAGIC)
        return rnnc_error_set(NULL, RNNC_BAD_MODULE,
                              "%s: magic is 0x%08x, expected 0x%08x: not a module made by rnnc",
                              path, (unsigned)desc->magic, RNNC_MODULE_MAGIC);
    if (desc->abi_major != RNNC_ABI_MAJOR)
        return rnnc_error_set(NULL, RNNC_BAD_MODULE,
                              "%s: ABI %d.%d, this runtime reads %d.x: compile the model again",
                              path, desc->abi_major, desc->abi_minor, RNNC_ABI_MAJOR);
    if (desc->struct_bytes < sizeof *desc)
        return rnnc_error_set(NULL, RNNC_BAD_MODULE,
                              "%s: its table has %u bytes, expected %zu or more: damaged", path,
                              (unsigned)desc->struct_bytes, sizeof *desc);
    return RNNC_OK;
}

static rnnc_status load(const char *path, void *library, const rnnc_module_desc **out_desc)
{
    void *symbol = dlsym(library, "rnnc_module_query");
    if (!symbol)
        return rnnc_error_set(NULL, RNNC_BAD_MODULE,
                              "%s: no symbol rnnc_module_query: not a module made by rnnc", path);
    rnnc_module_query_fn query;
    memcpy(&query, &symbol, sizeof query);
    *out_desc = query(RNNC_ABI_MAJOR, NULL);
    return check_tables(path, *out_desc);
}

rnnc_status rnnc_module_open(const char *path, rnnc_module **out_module)
{
    if (!out_module)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "rnnc_module_open: out_module is NULL");
    *out_module = NULL;
    if (!path)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "rnnc_module_open: path is NULL");
    // A name without a slash would be looked for in the system's library folders.
    char *real = realpath(path, NULL);
    if (!real)
        return rnnc_error_set(NULL, RNNC_NOT_FOUND, "%s: %s", path, strerror(errno));
    rnnc_module *module = rnnc_memory_alloc(sizeof *module);
    rnnc_status status = RNNC_OUT_OF_MEMORY;
    if (!module) {
        rnnc_error_set(NULL, status, "%s: no memory for the module", path);
        goto done;
    }
    module->library = dlopen(real, RTLD_NOW | RTLD_LOCAL);
    status = module->library ? load(path, module->library, &module->desc)
                             : rnnc_error_set(NULL, RNNC_BAD_MODULE, "%s: cannot be loaded: %s",
                                              path, dlerror());
    if (status == RNNC_OK)
        *out_module = module;
done:
    if (status != RNNC_OK)
        rnnc_module_close(module);
    free(real);
    return status;
}

void rnnc_module_close(rnnc_module *module)
{
    if (!module)
        return;
    if (module->library)
        dlclose(module->library);
    rnnc_memory_free(module);
}

size_t rnnc_module_tensor_count(const rnnc_module *module)
{
    return module ? (size_t)module->desc->tensor_count : 0;
}

const rnnc_tensor_info *rnnc_module_tensor(const rnnc_module *module, size_t index)
{
    if (!module || index >= (size_t)module->desc->tensor_count)
        return NULL;
    return &module->desc->tensors[index].info;
}

const char *rnnc_module_name(const rnnc_module *module)
{
    return module ? module->desc->name : NULL;
}
