/* The CUDA device of a session: the driver's context, a stream, the loaded images, and for each
 * layer the row (variant.h) that runs it. A cell layer takes the first of the module's variants, in
 * the plan's order, that can be prepared here; why others were passed over is part of its reason.
 * Knows no variant by its inside. */
#include "../device.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../memory.h"
#include "image.h"
#include "variant.h"

typedef struct {
    const rnnc_cuda_variant *row;
    void *state;
    const char *name;
    char reason[1024];
} DeviceLayer;

struct rnnc_device {
    rnnc_device_options options;
    const rnnc_cuda_driver *cuda;
    CUdevice handle;
    CUcontext context;
    CUstream stream;
    bool owns_stream;
    int arch;
    char name[192];
    CUmodule *images; ///< of the module; NULL until a layer needs it
    DeviceLayer *layers;
};

static rnnc_status fail(rnnc_device *device, CUresult result, const char *doing)
{
    const char *words = NULL;
    device->cuda->cuGetErrorString(result, &words);
    rnnc_status status = result == 2 ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR;
    return rnnc_error_set(device->options.error, status, "CUDA, %s: %s", doing,
                          words ? words : "unknown error");
}

static void enter(const rnnc_device *device)
{
    device->cuda->cuCtxPushCurrent(device->context);
}

static void leave(const rnnc_device *device)
{
    CUcontext unused;
    device->cuda->cuCtxPopCurrent(&unused);
}

/// The context of GPU `ordinal`, its architecture and name, and a stream.
static rnnc_status open_context(rnnc_device *device)
{
    const rnnc_cuda_driver *cuda = device->cuda;
    const int ordinal = device->options.ordinal;
    int count = 0, major = 0, minor = 0;
    cuda->cuDeviceGetCount(&count);
    if (ordinal >= count)
        return rnnc_error_set(device->options.error, RNNC_UNAVAILABLE,
                              "there is no GPU %d here, %d in all", ordinal, count);
    CUresult result = cuda->cuDeviceGet(&device->handle, ordinal);
    if (!result)
        result = cuda->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                            device->handle);
    if (!result)
        result = cuda->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                            device->handle);
    if (!result)
        result = cuda->cuDevicePrimaryCtxRetain(&device->context, device->handle);
    if (result)
        return fail(device, result, "opening the GPU");
    char chip[128] = "";
    cuda->cuDeviceGetName(chip, sizeof chip, device->handle);
    device->arch = 10 * major + minor;
    snprintf(device->name, sizeof device->name, "cuda:%d (%s)", ordinal, chip);
    enter(device);
    device->stream = device->options.stream;
    if (!device->stream) {
        result = cuda->cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING);
        device->owns_stream = !result;
    }
    leave(device);
    return result ? fail(device, result, "making a stream") : RNNC_OK;
}

static rnnc_status load_image(rnnc_device *device, int index, CUmodule *out)
{
    *out = NULL;
    if (index < 0)
        return RNNC_OK;
    if (!device->images[index]) {
        rnnc_status status =
            rnnc_cuda_load_image(device->cuda, &device->options.module->images[index], device->arch,
                                 device->options.error, &device->images[index]);
        if (status)
            return status;
    }
    *out = device->images[index];
    return RNNC_OK;
}

/// Prepares `layer` by `row`; `variant` NULL: a layer without a recurrence.
static rnnc_status prepare(rnnc_device *device, int index, const rnnc_cuda_variant *row,
                           const rnnc_variant_desc *variant)
{
    const rnnc_layer_desc *layer = &device->options.module->layers[index];
    DeviceLayer *to = &device->layers[index];
    rnnc_cuda_layer_options options = {.cuda = device->cuda,
                                       .stream = device->stream,
                                       .module = device->options.module,
                                       .layer = layer,
                                       .variant = variant,
                                       .max_batch = device->options.max_batch,
                                       .max_timesteps =
                                           layer->sequence_in ? device->options.max_timesteps : 1,
                                       .error = device->options.error};
    rnnc_status status =
        load_image(device, variant ? variant->image : layer->pointwise_image, &options.image);
    if (status == RNNC_OK)
        status = row->prepare(&options, &to->state);
    if (status != RNNC_OK)
        return status;
    to->row = row;
    to->name = variant ? variant->name : "pointwise";
    return RNNC_OK;
}

/// Appends "; " and a formatted remark to the layer's reason, as far as it fits.
static void remark(DeviceLayer *layer, const char *first, const char *second)
{
    size_t used = strlen(layer->reason);
    snprintf(layer->reason + used, sizeof layer->reason - used, "%s%s%s%s", used ? "; " : "", first,
             second ? ": " : "", second ? second : "");
}

/// The forced variant, or the first in the plan's order that can run here.
static rnnc_status choose(rnnc_device *device, int index)
{
    const rnnc_layer_desc *layer = &device->options.module->layers[index];
    DeviceLayer *to = &device->layers[index];
    const char *forced = device->options.variant;
    for (int i = 0; i < layer->variant_count; i++) {
        const rnnc_variant_desc *variant = &layer->variants[i];
        if (forced && strcmp(forced, variant->name) != 0)
            continue;
        const rnnc_cuda_variant *row = rnnc_cuda_variant_find(variant->kind);
        rnnc_status status = row ? prepare(device, index, row, variant)
                                 : rnnc_error_set(device->options.error, RNNC_UNAVAILABLE,
                                                  "this runtime has no driver for it");
        if (status == RNNC_OK) {
            const char *chosen = row->reason ? row->reason(to->state) : NULL;
            remark(to, forced ? "asked for by the session" : variant->reason, chosen);
            return RNNC_OK;
        }
        if (status != RNNC_UNAVAILABLE && status != RNNC_OUT_OF_MEMORY)
            return status;
        char passed[96];
        snprintf(passed, sizeof passed, "not %s", variant->name);
        remark(to, passed, device->options.error->message);
    }
    if (to->reason[0] == '\0')
        remark(to,
               layer->variant_count == 0
                   ? "the module holds no GPU code; compile it with --target sm_NN"
                   : "the module does not hold the variant asked for",
               forced);
    return rnnc_error_set(device->options.error, RNNC_UNAVAILABLE, "layer %s: %s", layer->name,
                          to->reason);
}

static rnnc_status prepare_layers(rnnc_device *device)
{
    const rnnc_module_desc *module = device->options.module;
    rnnc_status status = RNNC_OK;
    for (int i = 0; i < module->layer_count && status == RNNC_OK; i++)
        status = module->layers[i].kind == RNNC_LAYER_CELL
                     ? choose(device, i)
                     : prepare(device, i, &rnnc_cuda_pointwise, NULL);
    return status;
}

static void close_device(rnnc_device *device)
{
    if (!device)
        return;
    const rnnc_module_desc *module = device->options.module;
    if (device->context) {
        enter(device);
        if (device->stream)
            device->cuda->cuStreamSynchronize(device->stream);
        for (int i = 0; device->layers && i < module->layer_count; i++)
            if (device->layers[i].row)
                device->layers[i].row->destroy(device->layers[i].state);
        for (int i = 0; device->images && i < module->image_count; i++)
            if (device->images[i])
                device->cuda->cuModuleUnload(device->images[i]);
        if (device->owns_stream)
            device->cuda->cuStreamDestroy(device->stream);
        leave(device);
        device->cuda->cuDevicePrimaryCtxRelease(device->handle);
    }
    rnnc_memory_free(device->images);
    rnnc_memory_free(device->layers);
    rnnc_memory_free(device);
}

static rnnc_status open_device(const rnnc_device_options *options, rnnc_device **out_device)
{
    *out_device = NULL;
    const char *missing;
    const rnnc_cuda_driver *cuda = rnnc_cuda_driver_open(&missing);
    if (!cuda)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE, "%s", missing);
    rnnc_device *device = rnnc_memory_alloc(sizeof *device);
    if (!device)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for the device");
    device->options = *options;
    device->cuda = cuda;
    device->images =
        rnnc_memory_alloc((size_t)(options->module->image_count + 1) * sizeof *device->images);
    device->layers =
        rnnc_memory_alloc((size_t)(options->module->layer_count + 1) * sizeof *device->layers);
    rnnc_status status =
        device->images && device->layers
            ? open_context(device)
            : rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for the device");
    if (status == RNNC_OK) {
        enter(device);
        status = prepare_layers(device);
        leave(device);
    }
    if (status == RNNC_OK)
        *out_device = device;
    else
        close_device(device);
    return status;
}

static const char *name(const rnnc_device *device)
{
    return device->name;
}

static rnnc_status set_weights(rnnc_device *device, int layer,
                               const float *const weights[RNNC_WEIGHT_COUNT])
{
    enter(device);
    rnnc_status status =
        device->layers[layer].row->set_weights(device->layers[layer].state, weights);
    leave(device);
    return status;
}

static const char *variant(const rnnc_device *device, int layer, const char **out_reason)
{
    *out_reason = device->layers[layer].reason;
    return device->layers[layer].name;
}

static rnnc_status run_layer(rnnc_device *device, const rnnc_layer_call *call)
{
    const DeviceLayer *layer = &device->layers[call->layer];
    return layer->row->run(layer->state, call);
}

static rnnc_status run_layers(rnnc_device *device, rnnc_layer_call *calls, int count)
{
    rnnc_status status = RNNC_OK;
    enter(device);
    for (int i = 0; i < count && status == RNNC_OK; i++)
        status = run_layer(device, &calls[i]);
    leave(device);
    return status;
}

static rnnc_status set_masking(rnnc_device *device, rnnc_masking masking)
{
    (void)device, (void)masking;
    return RNNC_OK;
}

static rnnc_status begin_run(rnnc_device *device, const rnnc_run_inputs *inputs)
{
    (void)device, (void)inputs;
    return RNNC_OK;
}

static rnnc_status fill(rnnc_device *device, float *to, float value, size_t count)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    enter(device);
    CUresult result = device->cuda->cuMemsetD32Async((CUdeviceptr)to, bits, count, device->stream);
    leave(device);
    return result ? fail(device, result, "filling memory") : RNNC_OK;
}

static rnnc_status allocate(rnnc_device *device, size_t bytes, void **out_memory)
{
    CUdeviceptr memory = 0;
    enter(device);
    CUresult result = device->cuda->cuMemAlloc(&memory, bytes ? bytes : 1);
    leave(device);
    *out_memory = result ? NULL : (void *)memory;
    return result ? fail(device, result, "allocating memory") : RNNC_OK;
}

static void release(rnnc_device *device, void *memory)
{
    if (!memory)
        return;
    enter(device);
    device->cuda->cuMemFree((CUdeviceptr)memory);
    leave(device);
}

static rnnc_status write_memory(rnnc_device *device, void *to, const void *from, size_t bytes)
{
    enter(device);
    CUresult result = device->cuda->cuStreamSynchronize(device->stream);
    if (!result && bytes)
        result = device->cuda->cuMemcpyHtoD((CUdeviceptr)to, from, bytes);
    leave(device);
    return result ? fail(device, result, "writing memory") : RNNC_OK;
}

static rnnc_status read_memory(rnnc_device *device, void *to, const void *from, size_t bytes)
{
    enter(device);
    CUresult result = device->cuda->cuStreamSynchronize(device->stream);
    if (!result && bytes)
        result = device->cuda->cuMemcpyDtoH(to, (CUdeviceptr)from, bytes);
    leave(device);
    return result ? fail(device, result, "reading memory") : RNNC_OK;
}

static rnnc_status synchronize(rnnc_device *device)
{
    enter(device);
    CUresult result = device->cuda->cuStreamSynchronize(device->stream);
    leave(device);
    return result ? fail(device, result, "running") : RNNC_OK;
}

const rnnc_device_ops *rnnc_cuda_ops(void)
{
    static const rnnc_device_ops ops = {
        .open = open_device,
        .close = close_device,
        .name = name,
        .set_weights = set_weights,
        .variant = variant,
        .set_masking = set_masking,
        .begin_run = begin_run,
        .run_layers = run_layers,
        .fill = fill,
        .alloc = allocate,
        .free = release,
        .write = write_memory,
        .read = read_memory,
        .synchronize = synchronize,
    };
    return &ops;
}
