// Module: opens a model.so and checks that its tables are ones that this runtime can read.
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "layout.h"
#include "memory.h"

static bool ends_within(uint64_t at, uint64_t bytes, int64_t file_bytes)
{
    return at <= (uint64_t)file_bytes && bytes <= (uint64_t)file_bytes - at;
}

/// Whether the file holds all that its ELF header promises. dlopen does not look: it maps what a
/// truncated file lacks, and the first access ends the process.
static bool is_whole(FILE *file, int64_t file_bytes)
{
    Elf64_Ehdr header;
    if (fread(&header, sizeof header, 1, file) != 1 || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    bool whole =
        ends_within(header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize, file_bytes) &&
        header.e_phentsize == sizeof(Elf64_Phdr) && header.e_phoff <= (uint64_t)file_bytes &&
        fseek(file, (long)header.e_phoff, SEEK_SET) == 0;
    for (int i = 0; i < header.e_phnum && whole; i++) {
        Elf64_Phdr segment;
        whole = fread(&segment, sizeof segment, 1, file) == 1 &&
                ends_within(segment.p_offset, segment.p_filesz, file_bytes);
    }
    return whole;
}

static rnnc_status check_file(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return rnnc_error_set(NULL, RNNC_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return rnnc_error_set(NULL, RNNC_BAD_MODULE, "%s: cannot be loaded: it is no file", path);
    FILE *file = fopen(path, "rb");
    if (!file)
        return rnnc_error_set(NULL, RNNC_NOT_FOUND, "%s: %s", path, strerror(errno));
    bool whole = is_whole(file, facts.st_size);
    fclose(file);
    return whole ? RNNC_OK
                 : rnnc_error_set(NULL, RNNC_BAD_MODULE,
                                  "%s: cannot be loaded: no 64-bit ELF file, or its end is missing",
                                  path);
}

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
    const size_t least_bytes = offsetof(rnnc_module_desc, self_test); // of ABI 2.0
    if (desc->struct_bytes < least_bytes)
        return rnnc_error_set(NULL, RNNC_BAD_MODULE,
                              "%s: its table has %u bytes, expected %zu or more: damaged", path,
                              (unsigned)desc->struct_bytes, least_bytes);
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
    status = check_file(real);
    if (status != RNNC_OK)
        goto done;
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

const rnnc_self_test *rnnc_module_self_test(const rnnc_module *module)
{
    const size_t needed = offsetof(rnnc_module_desc, self_test) + sizeof module->desc->self_test;
    return module && module->desc->struct_bytes >= needed ? module->desc->self_test : NULL;
}

const char *rnnc_module_name(const rnnc_module *module)
{
    return module ? module->desc->name : NULL;
}

void rnnc_module_tensor_axes(const rnnc_module *module, size_t index, int32_t *out_batch,
                             int32_t *out_time)
{
    const rnnc_tensor_info *info = rnnc_module_tensor(module, index);
    const rnnc_axes axes =
        info ? rnnc_tensor_axes(module->desc, info) : (rnnc_axes){.batch = -1, .time = -1};
    if (out_batch)
        *out_batch = axes.batch;
    if (out_time)
        *out_time = axes.time;
}

/// Why a layer gives something else when its steps come in parts; NULL: it gives the same.
static const char *whole_sequence_reason(const rnnc_layer_desc *layer)
{
    if (layer->reversed)
        return "it takes the last step first";
    if (layer->kind == RNNC_LAYER_MASKING || layer->mask_zero)
        return "a step that it masks repeats the output of the step before";
    if (layer->kind == RNNC_LAYER_DROPOUT && layer->sequence_in && !layer->per_sequence)
        return "what it drops depends on the number of the step within a run";
    return NULL;
}

rnnc_status rnnc_module_streaming(const rnnc_module *module, rnnc_streaming *out_streaming)
{
    if (!module || !out_streaming)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT,
                              "rnnc_module_streaming: a pointer is NULL");
    *out_streaming = (rnnc_streaming){0};
    bool is_masked = true;
    for (int32_t i = 0; i < module->desc->layer_count; i++) {
        const rnnc_layer_desc *layer = &module->desc->layers[i];
        if (!out_streaming->whole_layer && whole_sequence_reason(layer)) {
            out_streaming->whole_layer = layer->name;
            out_streaming->reason = whole_sequence_reason(layer);
        }
        if (layer->kind == RNNC_LAYER_CELL && is_masked) {
            out_streaming->repeats_when_masked = !layer->zero_output_for_mask;
            is_masked = layer->sequence_out != 0;
        }
    }
    return RNNC_OK;
}
