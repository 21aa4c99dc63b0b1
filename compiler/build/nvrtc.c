// NVRTC: see nvrtc.h.
#include "build/nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Nvrtc {
#define SYMBOL(result, name, parameters) result(*name) parameters;
#include "build/nvrtc_symbols.def"
#undef SYMBOL
};

static const char *const library_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                            "/usr/local/cuda/lib64/libnvrtc.so"};

static void *open_library(void)
{
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof library_names / sizeof *library_names; i++)
        library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

/// Fills the table; the name of the first symbol that is missing, or NULL.
static const char *load_symbols(void *library, Nvrtc *nvrtc)
{
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
#define SYMBOL(result, name, parameters) {#name, &nvrtc->name},
#include "build/nvrtc_symbols.def"
#undef SYMBOL
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return symbols[i].name;
        memcpy(symbols[i].slot, &symbol, sizeof symbol);
    }
    return NULL;
}

const Nvrtc *nvrtc_open(Arena *arena, Diags *diags)
{
    Nvrtc *nvrtc = ARENA_NEW(arena, Nvrtc);
    void *library = open_library();
    const char *missing = library ? load_symbols(library, nvrtc) : "libnvrtc.so";
    if (!missing)
        return nvrtc;
    Diag *diag = diag_add(diags, DIAG_E0701, (Span){0},
                          "cannot compile CUDA kernels: %s is missing", missing);
    diag_help(diag, "install the CUDA toolkit's NVRTC (12 or 13) or put its folder into "
                    "LD_LIBRARY_PATH; for the CPU alone: --target cpu");
    return NULL;
}

typedef int GetSize(void *program, size_t *size);
typedef int GetBytes(void *program, char *bytes);

/// One of the program's products as a NUL-terminated block, or NULL.
static char *get_product(void *program, GetSize *get_size, GetBytes *get_bytes, size_t *out_bytes)
{
    if (get_size(program, out_bytes) != 0)
        return NULL;
    char *bytes = calloc(1, *out_bytes + 1);
    if (bytes && get_bytes(program, bytes) != 0) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

enum { OPTIONS_MAX = 32 };

NvrtcResult nvrtc_compile(const Nvrtc *nvrtc, const char *source, const char *name,
                          const char *const *options, int option_count, const char *arch)
{
    NvrtcResult result = {0};
    size_t size = 0;
    void *program = NULL;
    char arch_option[32];
    const char *all_options[OPTIONS_MAX] = {arch_option};
    snprintf(arch_option, sizeof arch_option, "-arch=%s", arch);
    for (int i = 0; i < option_count && i + 1 < OPTIONS_MAX; i++)
        all_options[i + 1] = options[i];
    int status = nvrtc->nvrtcCreateProgram(&program, source, name, 0, NULL, NULL);
    if (status == 0)
        status = nvrtc->nvrtcCompileProgram(program, option_count + 1, all_options);
    if (program)
        result.log =
            get_product(program, nvrtc->nvrtcGetProgramLogSize, nvrtc->nvrtcGetProgramLog, &size);
    if (status == 0) {
        result.cubin = get_product(program, nvrtc->nvrtcGetCUBINSize, nvrtc->nvrtcGetCUBIN,
                                   &result.cubin_bytes);
        result.ptx = get_product(program, nvrtc->nvrtcGetPTXSize, nvrtc->nvrtcGetPTX, &size);
    } else if (!result.log || !result.log[0]) {
        free(result.log);
        result.log = strdup(nvrtc->nvrtcGetErrorString(status));
    }
    result.compiled = (result.cubin || strncmp(arch, "compute_", 8) == 0) && result.ptx;
    if (program)
        nvrtc->nvrtcDestroyProgram(&program);
    return result;
}

void nvrtc_result_free(NvrtcResult *result)
{
    free(result->cubin);
    free(result->ptx);
    free(result->log);
    *result = (NvrtcResult){0};
}
