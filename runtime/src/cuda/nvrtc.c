/* NVRTC at load time: see nvrtc.h. */
#include "nvrtc.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../memory.h"
#include "library.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static rnnc_nvrtc nvrtc_library;
static int is_open;

static const rnnc_symbol symbols[] = {
#define NVRTC_SYMBOL(name, parameters) {#name, offsetof(rnnc_nvrtc, name), 0},
#include "nvrtc_symbols.def"
#undef NVRTC_SYMBOL
};

static void open_library(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    char reason[RNNC_REASON_BYTES];
    int major = 0, minor = 0;
    if (!rnnc_library_open("NVRTC", names, symbols, sizeof symbols / sizeof *symbols,
                           &nvrtc_library, reason) ||
        nvrtc_library.nvrtcVersion(&major, &minor) != 0)
        return;
    nvrtc_library.version = major * 100 + minor * 10;
    is_open = 1;
}

const rnnc_nvrtc *rnnc_nvrtc_open(void)
{
    pthread_once(&once, open_library);
    return is_open ? &nvrtc_library : NULL;
}

enum { OPTIONS_MAX = 32, OPTIONS_BYTES = 2048 };

/* Splits lines in place into options[1..]; options[0] is the arch. */
static int split_options(char *lines, const char **options)
{
    int count = 1;
    char *rest = NULL;
    for (char *at = strtok_r(lines, "\n", &rest); at && count < OPTIONS_MAX;
         at = strtok_r(NULL, "\n", &rest))
        options[count++] = at;
    return count;
}

static void read_log(const rnnc_nvrtc *nvrtc, void *program, char *log, size_t log_bytes)
{
    size_t bytes = 0;
    char *whole =
        nvrtc->nvrtcGetProgramLogSize(program, &bytes) == 0 ? rnnc_memory_alloc(bytes + 1) : NULL;
    if (whole && nvrtc->nvrtcGetProgramLog(program, whole) == 0)
        snprintf(log, log_bytes, "%s", whole);
    rnnc_memory_free(whole);
}

void *rnnc_nvrtc_compile(const rnnc_nvrtc *nvrtc, const char *source, const char *options, int arch,
                         size_t *out_bytes, char *log, size_t log_bytes)
{
    char lines[OPTIONS_BYTES], arch_option[32];
    const char *list[OPTIONS_MAX] = {arch_option};
    void *program = NULL, *cubin = NULL;
    log[0] = '\0';
    snprintf(lines, sizeof lines, "%s", options);
    snprintf(arch_option, sizeof arch_option, "-arch=sm_%d%s", arch, arch == 90 ? "a" : "");
    int count = split_options(lines, list);
    if (nvrtc->nvrtcCreateProgram(&program, source, "/rnnc/module.cu", 0, NULL, NULL) != 0)
        return NULL;
    if (nvrtc->nvrtcCompileProgram(program, count, list) != 0)
        read_log(nvrtc, program, log, log_bytes);
    else if (nvrtc->nvrtcGetCUBINSize(program, out_bytes) == 0 &&
             (cubin = rnnc_memory_alloc(*out_bytes)) != NULL &&
             nvrtc->nvrtcGetCUBIN(program, cubin) != 0) {
        rnnc_memory_free(cubin);
        cubin = NULL;
    }
    nvrtc->nvrtcDestroyProgram(&program);
    return cubin;
}
