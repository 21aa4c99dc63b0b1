/* Images: see image.h. */
#include "image.h"

#include <stdio.h>

#include "../memory.h"
#include "cubin_cache.h"
#include "nvrtc.h"

enum { LOG_BYTES = 1024 };

static const char *words_of(const rnnc_cuda_driver *cuda, CUresult result)
{
    const char *text = NULL;
    return cuda->cuGetErrorString(result, &text) == 0 && text ? text : "unknown error";
}

/* A cubin runs on its own arch and on later ones of the same major version. */
static const rnnc_cubin_desc *fitting_cubin(const rnnc_image_desc *image, int arch)
{
    const rnnc_cubin_desc *best = NULL;
    for (int i = 0; i < image->cubin_count; i++) {
        const rnnc_cubin_desc *cubin = &image->cubins[i];
        if (cubin->arch / 10 == arch / 10 && cubin->arch <= arch &&
            (!best || cubin->arch > best->arch))
            best = cubin;
    }
    return best;
}

static CUresult load(const rnnc_cuda_driver *cuda, const void *code, CUmodule *out_module)
{
    return cuda->cuModuleLoadDataEx(out_module, code, 0, NULL, NULL);
}

/* From the cache or by NVRTC. 1 when loaded; 0 with what went wrong in `log`. */
static int load_rebuilt(const rnnc_cuda_driver *cuda, const rnnc_image_desc *image, int arch,
                        char *log, CUmodule *out_module)
{
    const rnnc_nvrtc *nvrtc = rnnc_nvrtc_open();
    if (!nvrtc || !image->source) {
        snprintf(log, LOG_BYTES, "NVRTC (libnvrtc.so.13 or .12) is not installed here");
        return 0;
    }
    size_t bytes = 0;
    uint64_t key = rnnc_cubin_key(image->source, image->options, arch, nvrtc->version);
    void *cubin = rnnc_cubin_cache_read(key);
    if (!cubin) {
        cubin =
            rnnc_nvrtc_compile(nvrtc, image->source, image->options, arch, &bytes, log, LOG_BYTES);
        if (cubin)
            rnnc_cubin_cache_write(key, cubin, bytes);
    }
    CUresult result = cubin ? load(cuda, cubin, out_module) : 1;
    if (cubin && result)
        snprintf(log, LOG_BYTES, "%s", words_of(cuda, result));
    rnnc_memory_free(cubin);
    return cubin && !result;
}

rnnc_status rnnc_cuda_load_image(const rnnc_cuda_driver *cuda, const rnnc_image_desc *image,
                                 int arch, rnnc_error *error, CUmodule *out_module)
{
    char log[LOG_BYTES] = "";
    const rnnc_cubin_desc *cubin = fitting_cubin(image, arch);
    *out_module = NULL;
    if (cubin) {
        CUresult result = load(cuda, cubin->data, out_module);
        if (!result)
            return RNNC_OK;
        return rnnc_error_set(error, RNNC_DEVICE_ERROR, "%s: the driver refuses the cubin: %s",
                              image->name, words_of(cuda, result));
    }
    if (load_rebuilt(cuda, image, arch, log, out_module))
        return RNNC_OK;
    CUresult result = image->ptx ? load(cuda, image->ptx, out_module) : 1;
    if (image->ptx && !result)
        return RNNC_OK;
    return rnnc_error_set(error, RNNC_UNAVAILABLE,
                          "%s: the module has no code for sm_%d (PTX: %s; rebuilding: %s); compile "
                          "it with --target sm_%d",
                          image->name, arch, image->ptx ? words_of(cuda, result) : "none", log,
                          arch);
}
