// CPU device: runs the module's own code, at the best instruction-set level that this machine has.
// Packed weights lie in host memory; one scratch block serves all layers by turns. Layers that may
// run side by side run one after the other here.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "layer.h"
#include "memory.h"
#include "order.h"
#include "prim/philox.h"

typedef struct {
    const rnnc_cpu_code *code;
    void *packed;
    void *tape;       ///< of training
    rnnc_order order; ///< of the last run that saved
    const float *weights[RNNC_WEIGHT_COUNT];
    char reason[64];
} CpuLayer;

struct rnnc_device {
    rnnc_device_options options;
    CpuLayer *layers;
    void *scratch;
    bool self_masking; ///< layers of the module mask steps
    rnnc_order order;
    uint64_t seed;
    bool saves, drops; ///< this run
    bool finds_nan;
    float *folded; ///< gradient of y under a mask: [B, T, the widest]
    float *scales; ///< of the recurrent operand that drops: [B, the widest]
    float *table;  ///< of layer 0, an embedding, times W of layer 1, see fold; NULL: none
    int64_t held_before;
};

/// The level named in "cpu:LEVEL", or NULL for "cpu" and no variant: the best supported.
static rnnc_status wanted_level(const rnnc_device_options *options, const char **out_level)
{
    *out_level = NULL;
    if (!options->variant || strcmp(options->variant, "cpu") == 0)
        return RNNC_OK;
    if (strncmp(options->variant, "cpu:", 4) != 0)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                              "variant '%s' does not run on the CPU, only 'cpu' does",
                              options->variant);
    *out_level = options->variant + 4;
    return RNNC_OK;
}

static rnnc_status choose_code(rnnc_device *device, int32_t index, const char *level)
{
    const rnnc_layer_desc *layer = &device->options.module->layers[index];
    CpuLayer *chosen = &device->layers[index];
    for (int32_t i = 0; i < layer->cpu_code_count && !chosen->code; i++) {
        const rnnc_cpu_code *code = layer->cpu_codes[i];
        if ((!level || strcmp(level, code->isa) == 0) && code->supported())
            chosen->code = code;
    }
    if (!chosen->code && layer->cpu_code_count == 0)
        return rnnc_error_set(device->options.error, RNNC_UNAVAILABLE,
                              "module '%s' has no CPU code: compile it with --target cpu",
                              device->options.module->name);
    if (!chosen->code)
        return rnnc_error_set(device->options.error, RNNC_UNAVAILABLE,
                              "layer '%s' has no CPU code for level '%s' that this machine runs",
                              layer->name, level ? level : "any");
    snprintf(chosen->reason, sizeof chosen->reason, "compiled for %s", chosen->code->isa);
    chosen->packed = rnnc_memory_alloc(chosen->code->packed_bytes);
    return chosen->packed ? RNNC_OK
                          : rnnc_error_set(device->options.error, RNNC_OUT_OF_MEMORY,
                                           "layer '%s': no memory for %zu bytes of weights",
                                           layer->name, chosen->code->packed_bytes);
}

static void cpu_close(rnnc_device *device)
{
    if (!device)
        return;
    for (int32_t i = 0; device->layers && i < device->options.module->layer_count; i++) {
        rnnc_memory_free(device->layers[i].packed);
        rnnc_memory_free(device->layers[i].tape);
        rnnc_order_close(&device->layers[i].order);
    }
    rnnc_memory_free(device->layers);
    rnnc_memory_free(device->scratch);
    rnnc_memory_free(device->scales);
    rnnc_memory_free(device->table);
    rnnc_memory_free(device->folded);
    rnnc_order_close(&device->order);
    rnnc_memory_free(device);
}

/// Room for the factors of the widest recurrent operand that drops.
static rnnc_status prepare_scales(rnnc_device *device)
{
    const rnnc_device_options *options = &device->options;
    int64_t widest = 0;
    for (int32_t i = 0; i < options->module->layer_count; i++) {
        const rnnc_layer_desc *layer = &options->module->layers[i];
        if (layer->recurrent_dropout > 0 && rnnc_layer_recurrent_size(layer) > widest)
            widest = rnnc_layer_recurrent_size(layer);
    }
    if (widest == 0)
        return RNNC_OK;
    device->scales = rnnc_memory_alloc(rnnc_memory_float_bytes(widest, options->max_batch, 1));
    return device->scales
               ? RNNC_OK
               : rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for dropout");
}

/// The layer's tape, and what its backward pass takes of the scratch.
static rnnc_status prepare_training(rnnc_device *device, int32_t index, size_t *out_scratch_bytes)
{
    const rnnc_device_options *options = &device->options;
    const rnnc_cpu_training *training = device->layers[index].code->training;
    const size_t bytes = training->tape_bytes(options->max_batch, options->max_timesteps);
    const size_t scratch = training->scratch_bytes(options->max_batch, options->max_timesteps);
    *out_scratch_bytes = scratch > *out_scratch_bytes ? scratch : *out_scratch_bytes;
    device->layers[index].tape = rnnc_memory_alloc(bytes);
    return device->layers[index].tape
               ? RNNC_OK
               : rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY,
                                "layer '%s': no memory for the %zu bytes that training saves",
                                options->module->layers[index].name, bytes);
}

static rnnc_status prepare(rnnc_device *device, const char *level)
{
    const rnnc_device_options *options = &device->options;
    int32_t count = options->module->layer_count;
    device->layers = rnnc_memory_alloc((size_t)count * sizeof *device->layers);
    if (!device->layers)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for the layers");
    size_t scratch_bytes = 0;
    for (int32_t i = 0; i < count; i++) {
        rnnc_status status = choose_code(device, i, level);
        if (status != RNNC_OK)
            return status;
        size_t bytes =
            device->layers[i].code->scratch_bytes(options->max_batch, options->max_timesteps);
        scratch_bytes = bytes > scratch_bytes ? bytes : scratch_bytes;
        if (options->training)
            status = prepare_training(device, i, &scratch_bytes);
        if (status != RNNC_OK)
            return status;
    }
    device->scratch = rnnc_memory_alloc(scratch_bytes);
    if (!device->scratch)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY,
                              "no memory for %zu bytes of scratch", scratch_bytes);
    return prepare_scales(device);
}

static rnnc_status cpu_open(const rnnc_device_options *options, rnnc_device **out_device)
{
    *out_device = NULL;
    const char *level;
    rnnc_status status = wanted_level(options, &level);
    if (status != RNNC_OK)
        return status;
    const int64_t held_before = rnnc_memory_held();
    rnnc_device *device = rnnc_memory_alloc(sizeof *device);
    if (!device)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for the device");
    device->options = *options;
    device->held_before = held_before;
    device->self_masking = rnnc_module_self_masking(options->module) != NULL;
    status = prepare(device, level);
    if (status == RNNC_OK)
        *out_device = device;
    else
        cpu_close(device);
    return status;
}

static const char *cpu_name(const rnnc_device *device)
{
    (void)device;
    return "cpu";
}

static rnnc_status cpu_set_weights(rnnc_device *device, int layer,
                                   const float *const weights[RNNC_WEIGHT_COUNT])
{
    device->layers[layer].code->pack(weights, device->layers[layer].packed);
    if (layer <= 1) {
        rnnc_memory_free(device->table);
        device->table = NULL;
    }
    return RNNC_OK;
}

/// A larger table would not stay in any cache.
enum { TABLE_BYTES_MAX = 64 << 20 };

/// Whether a cell's code knows single steps: modules of ABI 2.2 on.
static bool has_steps(const rnnc_device *device, int32_t layer)
{
    const rnnc_module_desc *module = device->options.module;
    return module->abi_minor >= 2 && module->layers[layer].kind == RNNC_LAYER_CELL;
}

static rnnc_status cpu_fold(rnnc_device *device, bool *out_folded)
{
    const rnnc_module_desc *module = device->options.module;
    const rnnc_cpu_code *code = device->layers[1].code;
    const int64_t tokens = module->layers[0].inputs;
    *out_folded = has_steps(device, 1) && code->table_floats > 0 &&
                  code->table_floats <= TABLE_BYTES_MAX / sizeof(float) / (size_t)tokens;
    if (!*out_folded || device->table)
        return RNNC_OK;
    device->table =
        rnnc_memory_alloc(rnnc_memory_float_bytes(tokens, (int64_t)code->table_floats, 1));
    if (!device->table)
        return rnnc_error_set(device->options.error, RNNC_OUT_OF_MEMORY,
                              "no memory for a table of %lld tokens", (long long)tokens);
    code->fold(device->layers[1].packed, device->layers[0].packed, tokens, device->table);
    return RNNC_OK;
}

/// The weights are read here, and again by the backward pass.
static rnnc_status cpu_load_weights(rnnc_device *device, int layer,
                                    const float *const weights[RNNC_WEIGHT_COUNT])
{
    memcpy(device->layers[layer].weights, weights, sizeof device->layers[layer].weights);
    return cpu_set_weights(device, layer, weights);
}

static const char *cpu_variant(const rnnc_device *device, int layer, const char **out_reason)
{
    *out_reason = device->layers[layer].reason;
    return "cpu";
}

/// Tokens are the one input that can lead outside of a table.
static rnnc_status check_tokens(rnnc_device *device, const rnnc_layer_call *call)
{
    const int32_t *tokens = call->x;
    int64_t vocabulary = device->options.module->layers[call->layer].inputs;
    for (int64_t row = 0; row < call->batch; row++)
        for (int64_t step = 0; step < call->timesteps; step++) {
            const int32_t token = tokens[row * call->x_row_stride + step * call->x_step_stride];
            if (token < 0 || token >= vocabulary)
                return rnnc_error_set(device->options.error, RNNC_INVALID_ARGUMENT,
                                      "token %d of row %lld, step %lld is outside 0 to %lld",
                                      (int)token, (long long)row, (long long)step,
                                      (long long)(vocabulary - 1));
        }
    return RNNC_OK;
}

/// Draws the factors of what R multiplies.
static void draw_scales(rnnc_device *device, const rnnc_layer_desc *layer, rnnc_layer_call *call)
{
    const int64_t size = rnnc_layer_recurrent_size(layer);
    const rnn_dropout draw = rnn_dropout_make(device->seed, 2 * (unsigned)layer->dropout_index + 1,
                                              layer->recurrent_dropout);
    for (int64_t row = 0; row < call->batch; row++)
        for (int64_t unit = 0; unit < size; unit++)
            device->scales[row * size + unit] =
                device->drops ? rnn_dropout_scale(&draw, (unsigned)unit, (unsigned)row, 0) : 1;
    call->recurrent_scale = device->scales;
}

static rnnc_cpu_args arguments(rnnc_device *device, const rnnc_layer_call *call)
{
    const CpuLayer *layer = &device->layers[call->layer];
    rnnc_cpu_args args = {.x = call->x,
                          .x2 = call->x2,
                          .y = call->y,
                          .x_row_stride = call->x_row_stride,
                          .x_step_stride = call->x_step_stride,
                          .y_row_stride = call->y_row_stride,
                          .y_step_stride = call->y_step_stride,
                          .order = call->order,
                          .rows = call->rows,
                          .recurrent_scale = call->recurrent_scale,
                          .mask = device->order.mask,
                          .seed = device->seed,
                          .packed = layer->packed,
                          .scratch = device->scratch,
                          .batch = call->batch,
                          .timesteps = call->timesteps,
                          .tape = device->saves ? layer->tape : NULL,
                          .drops = device->drops};
    memcpy(args.states, call->states, sizeof args.states);
    return args;
}

static rnnc_status run_layer(rnnc_device *device, rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = &device->options.module->layers[call->layer];
    if (layer->kind == RNNC_LAYER_CELL)
        rnnc_order_apply(&device->order, layer, call);
    if (layer->kind == RNNC_LAYER_CELL && device->saves)
        rnnc_order_copy(&device->layers[call->layer].order, &device->order);
    if (layer->recurrent_dropout > 0)
        draw_scales(device, layer, call);
    if (layer->kind == RNNC_LAYER_EMBEDDING) {
        rnnc_status status = check_tokens(device, call);
        if (status != RNNC_OK)
            return status;
    }
    const rnnc_cpu_args args = arguments(device, call);
    const rnnc_cpu_code *code = device->layers[call->layer].code;
    if (call->step > 0 && has_steps(device, call->layer))
        code->step(&args, call->folded ? device->table : NULL, (int)(call->step & 1));
    else
        code->run(&args);
    if (rnnc_layer_masks(layer))
        rnnc_order_change(&device->order);
    if (layer->kind == RNNC_LAYER_CELL)
        rnnc_order_fill(&device->order, layer, call);
    return RNNC_OK;
}

static rnnc_status cpu_run_layers(rnnc_device *device, rnnc_layer_call *calls, int count)
{
    rnnc_status status = RNNC_OK;
    for (int i = 0; i < count && status == RNNC_OK; i++)
        status = run_layer(device, &calls[i]);
    const rnnc_layer_desc *last = &device->options.module->layers[calls[count - 1].layer];
    if (last->kind == RNNC_LAYER_CELL && !last->sequence_out) // only the last of a stack may
        device->order.kind = RNNC_MASKING_NONE;
    return status;
}

/// What layers keep of a run's masks for the backward pass.
static rnnc_status open_orders(rnnc_device *device)
{
    const rnnc_device_options *options = &device->options;
    int64_t widest = 1;
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < options->module->layer_count && status == RNNC_OK; i++) {
        const rnnc_layer_desc *layer = &options->module->layers[i];
        widest = layer->outputs > widest ? layer->outputs : widest;
        if (layer->kind == RNNC_LAYER_CELL)
            status = rnnc_order_open(&device->layers[i].order, options->max_batch,
                                     options->max_timesteps, options->error);
    }
    if (status == RNNC_OK && !device->folded)
        device->folded = rnnc_memory_alloc(
            rnnc_memory_float_bytes(options->max_batch, options->max_timesteps, widest));
    return status != RNNC_OK || device->folded
               ? status
               : rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for masks");
}

static rnnc_status cpu_set_masking(rnnc_device *device, rnnc_masking masking)
{
    const rnnc_device_options *options = &device->options;
    if (masking == RNNC_MASKING_NONE)
        return RNNC_OK;
    const rnnc_status status =
        rnnc_order_open(&device->order, options->max_batch, options->max_timesteps, options->error);
    return status == RNNC_OK && options->training ? open_orders(device) : status;
}

static rnnc_status cpu_begin_run(rnnc_device *device, const rnnc_run_inputs *inputs)
{
    const rnnc_training_desc *training = rnnc_module_training(device->options.module);
    device->seed = inputs->seed;
    device->saves = inputs->saves;
    device->drops = inputs->saves || !training || training->drops_at_inference;
    return rnnc_order_begin(&device->order, inputs, device->self_masking, device->options.error);
}

/// How many targets count; -1 with a message: one is outside of the classes.
static int64_t count_targets(rnnc_device *device, const rnnc_loss_call *call)
{
    int64_t count = 0;
    for (int64_t row = 0; row < call->batch; row++)
        for (int64_t step = 0; step < call->timesteps; step++) {
            const int32_t target =
                call->targets[row * call->target_row_stride + step * call->target_step_stride];
            if (target < -1 || target >= call->classes) {
                rnnc_error_set(device->options.error, RNNC_INVALID_ARGUMENT,
                               "targets: %d of row %lld, step %lld is outside 0 to %lld, and not "
                               "-1, which leaves a step out",
                               (int)target, (long long)row, (long long)step,
                               (long long)(call->classes - 1));
                return -1;
            }
            count += target >= 0;
        }
    return count;
}

/// -log softmax(logits)[target] of one step; its gradient times `scale`, which may take the place
/// of the logits. A step that is left out has a gradient of 0.
static double cross_entropy_step(const float *logits, int64_t classes, int32_t target, float scale,
                                 float *gradient)
{
    if (target < 0) {
        for (int64_t k = 0; k < classes && gradient; k++)
            gradient[k] = 0;
        return 0;
    }
    float most = logits[0];
    double sum = 0;
    for (int64_t k = 1; k < classes; k++)
        most = logits[k] > most ? logits[k] : most;
    const float wanted = logits[target];
    for (int64_t k = 0; k < classes; k++) {
        const float term = expf(logits[k] - most);
        sum += (double)term;
        if (gradient)
            gradient[k] = term;
    }
    for (int64_t k = 0; k < classes && gradient; k++)
        gradient[k] = (float)((double)gradient[k] / sum - (k == target)) * scale;
    return log(sum) - ((double)wanted - (double)most);
}

static rnnc_status cpu_cross_entropy(rnnc_device *device, const rnnc_loss_call *call)
{
    const int64_t count = count_targets(device, call);
    const double scale = count > 0 ? 1 / (double)count : 0;
    double sum = 0;
    if (count < 0)
        return RNNC_INVALID_ARGUMENT;
    for (int64_t row = 0; row < call->batch; row++)
        for (int64_t step = 0; step < call->timesteps; step++) {
            float *gradient = call->gradient ? call->gradient + row * call->gradient_row_stride +
                                                   step * call->gradient_step_stride
                                             : NULL;
            sum += cross_entropy_step(
                call->logits + row * call->row_stride + step * call->step_stride, call->classes,
                call->targets[row * call->target_row_stride + step * call->target_step_stride],
                (float)scale, gradient);
        }
    if (call->loss)
        *call->loss = (float)(sum * scale);
    return RNNC_OK;
}

static rnnc_status cpu_begin_backward(rnnc_device *device, bool find_nan)
{
    device->finds_nan = find_nan;
    return RNNC_OK;
}

static rnnc_status backward_layer(rnnc_device *device, rnnc_backward_call *call)
{
    rnnc_layer_call *forward = &call->forward;
    const rnnc_layer_desc *layer = &device->options.module->layers[forward->layer];
    CpuLayer *of = &device->layers[forward->layer];
    rnnc_cpu_backward_args args = {.dy = call->dy,
                                   .dy_row_stride = call->dy_row_stride,
                                   .dy_step_stride = call->dy_step_stride,
                                   .dx = call->dx,
                                   .dx2 = call->dx2,
                                   .dx_row_stride = call->dx_row_stride,
                                   .dx_step_stride = call->dx_step_stride,
                                   .adds_dx = call->adds_dx,
                                   .finds_nan = device->finds_nan,
                                   .nan_step = -1,
                                   .nan_row = -1};
    if (layer->kind == RNNC_LAYER_CELL)
        rnnc_order_apply(&of->order, layer, forward);
    if (layer->recurrent_dropout > 0)
        draw_scales(device, layer, forward);
    if (layer->kind == RNNC_LAYER_CELL && of->order.kind == RNNC_MASKING_MASK) {
        rnnc_order_fold(&of->order, layer, call->dy, call->dy_row_stride, call->dy_step_stride,
                        device->folded);
        args.dy = device->folded;
        args.dy_step_stride = layer->outputs;
        args.dy_row_stride = layer->outputs * (layer->sequence_out ? forward->timesteps : 1);
    }
    args.forward = arguments(device, forward);
    memcpy(args.states, call->states, sizeof args.states);
    memcpy(args.weights, call->weights, sizeof args.weights);
    memcpy(args.canonical, of->weights, sizeof args.canonical);
    of->code->training->backward(&args);
    return args.nan_step < 0
               ? RNNC_OK
               : rnnc_error_set(device->options.error, RNNC_NOT_FINITE,
                                "layer '%s': at step %lld of row %lld a gradient is infinite or "
                                "no number",
                                layer->name, (long long)args.nan_step, (long long)args.nan_row);
}

/// Side by side in their order; a stack from its last layer to the first.
static rnnc_status cpu_backward_layers(rnnc_device *device, rnnc_backward_call *calls, int count)
{
    const bool is_pair =
        count == 2 && device->options.module->layers[calls[1].forward.layer].beside;
    rnnc_status status = RNNC_OK;
    for (int i = 0; i < count && status == RNNC_OK; i++)
        status = backward_layer(device, &calls[is_pair ? i : count - 1 - i]);
    return status;
}

static rnnc_status cpu_fill(rnnc_device *device, float *to, float value, size_t count)
{
    (void)device;
    for (size_t i = 0; i < count; i++)
        to[i] = value;
    return RNNC_OK;
}

static rnnc_status cpu_alloc(rnnc_device *device, size_t bytes, void **out_memory)
{
    *out_memory = rnnc_memory_alloc(bytes);
    return *out_memory ? RNNC_OK
                       : rnnc_error_set(device->options.error, RNNC_OUT_OF_MEMORY,
                                        "no memory for %zu bytes", bytes);
}

static void cpu_free(rnnc_device *device, void *memory)
{
    (void)device;
    rnnc_memory_free(memory);
}

static rnnc_status cpu_copy(rnnc_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memmove(to, from, bytes);
    return RNNC_OK;
}

static rnnc_status cpu_synchronize(rnnc_device *device)
{
    (void)device;
    return RNNC_OK;
}

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static rnnc_status cpu_time(rnnc_device *device, const rnnc_timing *timing,
                            rnnc_status (*run)(void *context), void *context, double *out_us)
{
    if (timing->in_graph)
        return rnnc_error_set(device->options.error, RNNC_UNAVAILABLE,
                              "the CPU has no CUDA graphs");
    for (int32_t i = 0; i < timing->samples; i++) {
        const double start = now_us();
        for (int32_t k = 0; k < timing->runs; k++) {
            const rnnc_status status = run(context);
            if (status != RNNC_OK)
                return status;
        }
        out_us[i] = (now_us() - start) / timing->runs;
    }
    return RNNC_OK;
}

static int64_t cpu_memory(const rnnc_device *device)
{
    return rnnc_memory_held() - device->held_before;
}

const rnnc_device_ops *rnnc_cpu_ops(void)
{
    static const rnnc_device_ops ops = {
        .open = cpu_open,
        .close = cpu_close,
        .name = cpu_name,
        .set_weights = cpu_set_weights,
        .load_weights = cpu_load_weights,
        .variant = cpu_variant,
        .set_masking = cpu_set_masking,
        .begin_run = cpu_begin_run,
        .run_layers = cpu_run_layers,
        .fold = cpu_fold,
        .cross_entropy = cpu_cross_entropy,
        .begin_backward = cpu_begin_backward,
        .backward_layers = cpu_backward_layers,
        .fill = cpu_fill,
        .alloc = cpu_alloc,
        .free = cpu_free,
        .write = cpu_copy,
        .read = cpu_copy,
        .synchronize = cpu_synchronize,
        .time = cpu_time,
        .memory = cpu_memory,
    };
    return &ops;
}
