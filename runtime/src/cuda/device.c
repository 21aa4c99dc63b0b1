/* The CUDA device of a session: the driver's context, its streams, the loaded images, and for each
 * layer the row (variant.h) that runs it. A cell layer takes the first of the module's variants, in
 * the plan's order, that can be prepared here; why others were passed over is part of its reason.
 * Where that one takes no order of steps, runs with a mask or lengths have a second choice beside
 * it. Two layers side by side go on two streams:
 *
 *     session's stream   ... layer n | fork ---- layer n + 1 ---- join | layer n + 3 ...
 *     second stream                    `-------- layer n + 2 -----'
 *
 * in modules for inference. A stack of layers may run as a wavefront (wavefront.h). Knows no
 * variant by its inside; masks and dropout are sequence.h's, backward passes training.h's. */
#include "../device.h"

#include <stdio.h>
#include <string.h>

#include "../layer.h"
#include "../memory.h"
#include "context.h"
#include "generator.h"
#include "image.h"
#include "timing.h"
#include "training.h"
#include "wavefront.h"

/// A variant made ready for a layer.
typedef struct {
    const rnnc_cuda_variant *row; ///< NULL: none yet
    void *state;
    const char *name;
    char reason[1024];
} Prepared;

typedef struct {
    Prepared plain, masked;                  ///< masked: only where the plain one takes no order
    bool uses_masked;                        ///< in runs of the session's kind of masking
    const float *weights[RNNC_WEIGHT_COUNT]; ///< as last set, host memory of module or session
    bool has_weights;
} DeviceLayer;

struct rnnc_device {
    rnnc_device_options options;
    const rnnc_cuda_driver *cuda;
    rnnc_cuda_context gpu;
    rnnc_cuda_wavefront *wavefront; ///< NULL: no layers run as one
    long long held_before;
    CUmodule *images; ///< of the module; NULL until a layer needs it
    DeviceLayer *layers;
    rnnc_cuda_sequence *sequence;
    rnnc_cuda_generator *generator; ///< NULL until a text is asked for
    bool has_stale_generator;       ///< weights were set since it took them
    rnnc_cuda_training training;    ///< of modules that train
};

static rnnc_status fail(rnnc_device *device, CUresult result, const char *doing)
{
    return rnnc_cuda_context_check(&device->gpu, result, doing);
}

static void enter(const rnnc_device *device)
{
    rnnc_cuda_context_enter(&device->gpu);
}

static void leave(const rnnc_device *device)
{
    rnnc_cuda_context_leave(&device->gpu);
}

static rnnc_status load_image(rnnc_device *device, int index, CUmodule *out)
{
    *out = NULL;
    if (index < 0)
        return RNNC_OK;
    if (!device->images[index]) {
        rnnc_status status =
            rnnc_cuda_load_image(device->cuda, &device->options.module->images[index],
                                 device->gpu.arch, device->options.error, &device->images[index]);
        if (status)
            return status;
    }
    *out = device->images[index];
    return RNNC_OK;
}

/// The masks, merges and draws of the module, and what training takes.
static rnnc_status open_sequence(rnnc_device *device)
{
    rnnc_cuda_sequence_options options = {.cuda = device->cuda,
                                          .stream = device->gpu.stream,
                                          .module = device->options.module,
                                          .max_batch = device->options.max_batch,
                                          .max_timesteps = device->options.max_timesteps,
                                          .training = device->options.training,
                                          .error = device->options.error};
    rnnc_status status = load_image(device, device->options.module->sequence_image, &options.image);
    if (status == RNNC_OK)
        status = rnnc_cuda_sequence_open(&options, &device->sequence);
    if (status != RNNC_OK || !options.image || !rnnc_module_training(device->options.module))
        return status;
    const rnnc_cuda_training_options training = {.cuda = device->cuda,
                                                 .stream = device->gpu.stream,
                                                 .image = options.image,
                                                 .device = &device->options,
                                                 .sequence = device->sequence};
    return rnnc_cuda_training_open(&training, &device->training);
}

/// What stands behind the colon of a forced variant ("cudnn:standard"), or NULL.
static const char *detail_of(const char *forced)
{
    const char *colon = forced ? strchr(forced, ':') : NULL;
    return colon ? colon + 1 : NULL;
}

static bool is_named(const char *forced, const char *name)
{
    const size_t length = strcspn(forced, ":");
    return strlen(name) == length && strncmp(forced, name, length) == 0;
}

/// Prepares layer `index` by `row` in `to`; `variant` NULL: a layer without a recurrence.
static rnnc_status prepare(rnnc_device *device, int index, const rnnc_cuda_variant *row,
                           const rnnc_variant_desc *variant, const char *detail, Prepared *to)
{
    const rnnc_layer_desc *layer = &device->options.module->layers[index];
    rnnc_cuda_layer_options options = {
        .cuda = device->cuda,
        .stream = layer->beside && device->gpu.second ? device->gpu.second : device->gpu.stream,
        .module = device->options.module,
        .layer = layer,
        .variant = variant,
        .detail = detail,
        .fault = rnnc_cuda_sequence_record(device->sequence),
        .max_batch = device->options.max_batch,
        .max_timesteps = layer->sequence_in ? device->options.max_timesteps : 1,
        .training = device->options.training,
        .moves = device->training.moves,
        .blas = device->training.blas,
        .error = device->options.error};
    rnnc_status status = load_image(device, layer->layer_image, &options.layer_image);
    if (status == RNNC_OK && variant)
        status = load_image(device, variant->image, &options.image);
    if (status == RNNC_OK)
        status = row->prepare(&options, &to->state);
    if (status != RNNC_OK)
        return status;
    to->row = row;
    to->name = variant ? variant->name : "pointwise";
    return RNNC_OK;
}

/// Appends "; " and a formatted remark to a reason, as far as it fits.
static void remark(Prepared *to, const char *first, const char *second)
{
    size_t used = strlen(to->reason);
    snprintf(to->reason + used, sizeof to->reason - used, "%s%s%s%s", used ? "; " : "", first,
             second ? ": " : "", second ? second : "");
}

/// `forced`, or where it is NULL the first in the plan's order that can run here, and with `masks`
/// takes an order of steps.
static rnnc_status choose(rnnc_device *device, int index, const char *forced, bool masks,
                          Prepared *to)
{
    const rnnc_layer_desc *layer = &device->options.module->layers[index];
    for (int i = 0; i < layer->variant_count; i++) {
        const rnnc_variant_desc *variant = &layer->variants[i];
        if (forced && !is_named(forced, variant->name))
            continue;
        const rnnc_cuda_variant *row = rnnc_cuda_variant_find(variant->kind);
        if (masks && row && !row->masks) {
            char passed[96];
            snprintf(passed, sizeof passed, "%s takes no mask and no lengths", variant->name);
            remark(to, passed, NULL);
            continue;
        }
        const char *detail = detail_of(forced);
        rnnc_status status;
        if (!row)
            status = rnnc_error_set(device->options.error, RNNC_UNAVAILABLE,
                                    "this runtime has no driver for it");
        else if (detail && !row->takes_detail)
            status = rnnc_error_set(device->options.error, RNNC_UNAVAILABLE,
                                    "it has no '%s' to choose", detail);
        else
            status = prepare(device, index, row, variant, detail, to);
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

/// Dropout, masking and merges have no row: sequence.h runs them.
static bool is_of_sequence(const rnnc_layer_desc *layer)
{
    return layer->kind == RNNC_LAYER_DROPOUT || layer->kind == RNNC_LAYER_MASKING ||
           layer->kind == RNNC_LAYER_MERGE;
}

static rnnc_status prepare_layers(rnnc_device *device)
{
    const rnnc_module_desc *module = device->options.module;
    rnnc_status status = RNNC_OK;
    for (int i = 0; i < module->layer_count && status == RNNC_OK; i++) {
        Prepared *plain = &device->layers[i].plain;
        if (module->layers[i].kind == RNNC_LAYER_CELL)
            status = choose(device, i, device->options.variant, false, plain);
        else if (is_of_sequence(&module->layers[i]))
            plain->name = "pointwise";
        else
            status = prepare(device, i,
                             device->options.training ? &rnnc_cuda_train_pointwise
                                                      : &rnnc_cuda_pointwise,
                             NULL, NULL, plain);
    }
    return status;
}

/// Where the layer's variant takes no order: another beside it, with the layer's weights.
static rnnc_status prepare_masked(rnnc_device *device, int index)
{
    DeviceLayer *layer = &device->layers[index];
    const char *name = device->options.module->layers[index].name;
    if (layer->masked.row)
        return RNNC_OK;
    layer->masked.reason[0] = '\0';
    rnnc_status status = choose(device, index, NULL, true, &layer->masked);
    if (status == RNNC_OK && device->options.variant)
        status = rnnc_error_set(device->options.error, RNNC_UNAVAILABLE,
                                "layer %s: variant %s, asked for by the session, takes no mask and "
                                "no lengths; variant %s does",
                                name, layer->plain.name, layer->masked.name);
    if (status == RNNC_OK && layer->has_weights)
        status = layer->masked.row->set_weights(layer->masked.state, layer->weights);
    if (status != RNNC_OK && layer->masked.row) {
        layer->masked.row->destroy(layer->masked.state);
        layer->masked = (Prepared){0};
    }
    return status;
}

static void destroy_layer(DeviceLayer *layer)
{
    if (layer->plain.row)
        layer->plain.row->destroy(layer->plain.state);
    if (layer->masked.row)
        layer->masked.row->destroy(layer->masked.state);
}

static void close_device(rnnc_device *device)
{
    if (!device)
        return;
    const rnnc_module_desc *module = device->options.module;
    if (device->gpu.context) {
        enter(device);
        rnnc_cuda_context_finish(&device->gpu);
        for (int i = 0; device->layers && i < module->layer_count; i++)
            destroy_layer(&device->layers[i]);
        rnnc_cuda_generator_close(device->generator);
        rnnc_cuda_training_close(&device->training);
        rnnc_cuda_sequence_close(device->sequence);
        rnnc_cuda_wavefront_close(device->wavefront);
        for (int i = 0; device->images && i < module->image_count; i++)
            if (device->images[i])
                device->cuda->cuModuleUnload(device->images[i]);
        leave(device);
        rnnc_cuda_context_close(&device->gpu);
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
    device->held_before = rnnc_cuda_memory_held();
    device->images =
        rnnc_memory_alloc((size_t)(options->module->image_count + 1) * sizeof *device->images);
    device->layers =
        rnnc_memory_alloc((size_t)(options->module->layer_count + 1) * sizeof *device->layers);
    rnnc_status status =
        device->images && device->layers
            ? rnnc_cuda_context_open(cuda, options, &device->gpu)
            : rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for the device");
    if (status == RNNC_OK) {
        enter(device);
        status = rnnc_cuda_wavefront_open(cuda, options, device->gpu.stream, &device->wavefront);
        if (status == RNNC_OK)
            status = open_sequence(device);
        if (status == RNNC_OK)
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
    return device->gpu.name;
}

static rnnc_status set_weights(rnnc_device *device, int layer,
                               const float *const weights[RNNC_WEIGHT_COUNT])
{
    DeviceLayer *of = &device->layers[layer];
    rnnc_status status = RNNC_OK;
    if (device->options.training) // load_weights comes before every run
        return status;
    memcpy(of->weights, weights, sizeof of->weights);
    of->has_weights = true;
    device->has_stale_generator = true;
    enter(device);
    if (of->plain.row)
        status = of->plain.row->set_weights(of->plain.state, weights);
    if (of->masked.row && status == RNNC_OK)
        status = of->masked.row->set_weights(of->masked.state, weights);
    leave(device);
    return status;
}

static rnnc_status load_weights(rnnc_device *device, int layer,
                                const float *const weights[RNNC_WEIGHT_COUNT])
{
    const Prepared *of = &device->layers[layer].plain;
    return of->row ? of->row->load_weights(of->state, weights) : RNNC_OK;
}

static const char *variant(const rnnc_device *device, int layer, const char **out_reason)
{
    const DeviceLayer *of = &device->layers[layer];
    const Prepared *used = of->uses_masked ? &of->masked : &of->plain;
    *out_reason = used->reason;
    return used->name;
}

static rnnc_status set_masking(rnnc_device *device, rnnc_masking masking)
{
    const rnnc_module_desc *module = device->options.module;
    enter(device);
    rnnc_status status = rnnc_cuda_sequence_set_masking(device->sequence, masking);
    if (status == RNNC_OK)
        status = rnnc_cuda_training_set_masking(&device->training, masking);
    for (int i = 0; i < module->layer_count && status == RNNC_OK; i++)
        if (module->layers[i].kind == RNNC_LAYER_CELL && !device->layers[i].plain.row->masks &&
            rnnc_cuda_sequence_is_masked(module, i, masking))
            status = prepare_masked(device, i);
    for (int i = 0; i < module->layer_count && status == RNNC_OK; i++)
        device->layers[i].uses_masked =
            device->layers[i].masked.row && rnnc_cuda_sequence_is_masked(module, i, masking);
    leave(device);
    return status;
}

static rnnc_status begin_run(rnnc_device *device, const rnnc_run_inputs *inputs)
{
    enter(device);
    rnnc_status status = rnnc_cuda_sequence_begin(device->sequence, inputs);
    leave(device);
    return status;
}

static rnnc_status run_layer(rnnc_device *device, rnnc_layer_call *call, CUstream stream)
{
    call->stream = stream;
    const DeviceLayer *layer = &device->layers[call->layer];
    const Prepared *used = layer->uses_masked ? &layer->masked : &layer->plain;
    if (!used->row)
        return rnnc_cuda_sequence_run(device->sequence, call);
    rnnc_status status = rnnc_cuda_sequence_before(device->sequence, call, stream);
    if (status == RNNC_OK)
        status = used->row->run(used->state, call);
    if (status == RNNC_OK)
        status = rnnc_cuda_sequence_after(device->sequence, call, stream);
    return status;
}

/// The streams are joined after a failure too, so that a capture of the session's stays whole.
static rnnc_status run_side_by_side(rnnc_device *device, rnnc_layer_call calls[2])
{
    rnnc_status status = rnnc_cuda_context_fork(&device->gpu);
    if (status != RNNC_OK)
        return status;
    status = run_layer(device, &calls[0], device->gpu.stream);
    if (status == RNNC_OK)
        status = run_layer(device, &calls[1], device->gpu.second);
    rnnc_status joined = rnnc_cuda_context_join(&device->gpu);
    return status == RNNC_OK ? joined : status;
}

/// How many of the layers run at the same time: as many as fit the GPU, in groups of one size; 1
/// where a variant cannot or steps are masked.
static int layers_at_once(const rnnc_device *device, const rnnc_layer_call *calls, int count)
{
    double share = 0;
    int fitting = 0;
    if (!device->wavefront || rnnc_cuda_sequence_masks(device->sequence))
        return 1;
    for (int i = 0; i < count; i++) {
        const Prepared *used = &device->layers[calls[i].layer].plain;
        if (!used->row->share)
            return 1;
        share += used->row->share(used->state, calls[i].batch);
        fitting += share <= 1.0 + 1e-9 && fitting == i;
    }
    const int groups = (count + fitting - 1) / (fitting ? fitting : 1);
    return fitting ? (count + groups - 1) / groups : 1;
}

static rnnc_status run_part(void *device, rnnc_layer_call *part)
{
    return run_layer(device, part, part->stream);
}

static rnnc_status run_stack(rnnc_device *device, rnnc_layer_call *calls, int count)
{
    const int at_once = layers_at_once(device, calls, count);
    rnnc_status status = RNNC_OK;
    for (int i = 0, some; i < count && status == RNNC_OK; i += some) {
        some = count - i < at_once ? count - i : at_once;
        const int64_t chunk = some > 1 ? rnnc_cuda_wavefront_chunk(some, calls[0].timesteps) : 0;
        if (chunk)
            status = rnnc_cuda_wavefront_run(device->wavefront, device->options.module, calls + i,
                                             some, chunk, run_part, device);
        for (int k = i; k < i + some && status == RNNC_OK && !chunk; k++)
            status = run_layer(device, &calls[k], device->gpu.stream);
    }
    return status;
}

static rnnc_status run_layers(rnnc_device *device, rnnc_layer_call *calls, int count)
{
    const bool is_pair =
        count == 2 && device->gpu.second && device->options.module->layers[calls[1].layer].beside;
    enter(device);
    rnnc_status status =
        is_pair ? run_side_by_side(device, calls) : run_stack(device, calls, count);
    leave(device);
    rnnc_cuda_sequence_passed(device->sequence, &calls[count - 1]);
    return status;
}

/// The kernel that generates, made ready with the first text.
static rnnc_status open_generator(rnnc_device *device)
{
    const rnnc_generator_desc *desc = rnnc_module_generator(device->options.module);
    rnnc_cuda_generator_options options = {.cuda = device->cuda,
                                           .stream = device->gpu.stream,
                                           .module = device->options.module,
                                           .desc = desc,
                                           .fault = rnnc_cuda_sequence_record(device->sequence),
                                           .max_rows = device->options.max_batch,
                                           .error = device->options.error};
    if (device->options.training)
        return rnnc_error_set(device->options.error, RNNC_UNAVAILABLE,
                              "the weights of a session for training change with every step");
    if (!desc || desc->refusal || desc->image < 0)
        return rnnc_error_set(device->options.error, RNNC_UNAVAILABLE, "%s",
                              desc && desc->refusal ? desc->refusal
                                                    : "the module holds no kernel for it");
    rnnc_status status = load_image(device, desc->image, &options.image);
    return status == RNNC_OK ? rnnc_cuda_generator_open(&options, &device->generator) : status;
}

static rnnc_status generate(rnnc_device *device, const rnnc_device_generation *generation)
{
    const int32_t layer_count = device->options.module->layer_count;
    rnnc_status status = RNNC_OK;
    enter(device);
    if (!device->generator) {
        status = open_generator(device);
        device->has_stale_generator = true;
    }
    for (int32_t i = 0; i < layer_count && status == RNNC_OK && device->has_stale_generator; i++)
        status = rnnc_cuda_generator_set_weights(device->generator, i, device->layers[i].weights);
    if (status == RNNC_OK && device->has_stale_generator)
        status = rnnc_cuda_generator_pack(device->generator);
    if (status == RNNC_OK) {
        device->has_stale_generator = false;
        status = rnnc_cuda_generator_run(device->generator, generation);
    }
    leave(device);
    if (status != RNNC_OK)
        return status;
    return rnnc_cuda_sequence_fault(device->sequence);
}

static rnnc_status begin_backward(rnnc_device *device, bool find_nan)
{
    device->training.finds_nan = find_nan;
    return RNNC_OK;
}

/// Side by side in their order; a stack from its last layer to the first.
static rnnc_status backward_layers(rnnc_device *device, rnnc_backward_call *calls, int count)
{
    const bool is_pair =
        count == 2 && device->options.module->layers[calls[1].forward.layer].beside;
    rnnc_status status = RNNC_OK;
    enter(device);
    for (int i = 0; i < count && status == RNNC_OK; i++) {
        const rnnc_backward_call *call = &calls[is_pair ? i : count - 1 - i];
        const Prepared *of = &device->layers[call->forward.layer].plain;
        status = rnnc_cuda_training_backward(&device->training, of->row, of->state, call);
    }
    leave(device);
    return status;
}

static rnnc_status cross_entropy(rnnc_device *device, const rnnc_loss_call *call)
{
    enter(device);
    rnnc_status status = rnnc_cuda_cross_entropy_run(&device->training.loss, call);
    leave(device);
    return status;
}

static rnnc_status fill(rnnc_device *device, float *to, float value, size_t count)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    enter(device);
    CUresult result =
        device->cuda->cuMemsetD32Async((CUdeviceptr)to, bits, count, device->gpu.stream);
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
    CUresult result =
        bytes ? rnnc_cuda_write(device->cuda, device->gpu.stream, (CUdeviceptr)to, from, bytes) : 0;
    leave(device);
    return result ? fail(device, result, "writing memory") : RNNC_OK;
}

static rnnc_status read_memory(rnnc_device *device, void *to, const void *from, size_t bytes)
{
    enter(device);
    CUresult result = device->cuda->cuStreamSynchronize(device->gpu.stream);
    if (!result && bytes)
        result = device->cuda->cuMemcpyDtoH(to, (CUdeviceptr)from, bytes);
    leave(device);
    return result ? fail(device, result, "reading memory") : RNNC_OK;
}

static rnnc_status synchronize(rnnc_device *device)
{
    enter(device);
    CUresult result = device->cuda->cuStreamSynchronize(device->gpu.stream);
    leave(device);
    return result ? fail(device, result, "running") : rnnc_cuda_sequence_fault(device->sequence);
}

static rnnc_status time_runs(rnnc_device *device, const rnnc_timing *timing,
                             rnnc_status (*run)(void *context), void *context, double *out_us)
{
    enter(device);
    rnnc_status status = rnnc_cuda_time(device->cuda, device->gpu.stream, timing, run, context,
                                        device->options.error, out_us);
    leave(device);
    return status;
}

static int64_t memory(const rnnc_device *device)
{
    return rnnc_cuda_memory_held() - device->held_before;
}

const rnnc_device_ops *rnnc_cuda_ops(void)
{
    static const rnnc_device_ops ops = {
        .open = open_device,
        .close = close_device,
        .name = name,
        .set_weights = set_weights,
        .load_weights = load_weights,
        .variant = variant,
        .set_masking = set_masking,
        .begin_run = begin_run,
        .run_layers = run_layers,
        .generate = generate,
        .begin_backward = begin_backward,
        .backward_layers = backward_layers,
        .cross_entropy = cross_entropy,
        .fill = fill,
        .alloc = allocate,
        .free = release,
        .write = write_memory,
        .read = read_memory,
        .synchronize = synchronize,
        .time = time_runs,
        .memory = memory,
    };
    return &ops;
}
