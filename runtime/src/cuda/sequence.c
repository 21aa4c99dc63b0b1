/* Masks, lengths, merges and dropout on the GPU, host side: see sequence.h. */
#include "sequence.h"

#include <string.h>

#include "../layer.h"
#include "../memory.h"
#include "prim/philox.h"

enum { THREADS = 256, BLOCKS_MAX = 4096, WARP = 32, OUT_OF_MEMORY = 2 };
enum { FAULT_NONE, FAULT_LENGTHS, FAULT_MASK, FAULT_TOKEN, FAULT_NOT_FINITE = 5, FAULT_TARGET };

/// The kernels of templates/cuda/sequence.cu.
typedef enum {
    TAKE_MASK,
    ORDER,
    FILL_ZEROS,
    FILL_REPEAT,
    FILL_LAST,
    MASKING,
    TOKENS,
    MERGE,
    DROP,
    DRAW,
    KERNEL_COUNT
} Kernel;
static const struct {
    const char *name;
    rnnc_layer_kind kind; ///< of the layers that run it
} kernels[KERNEL_COUNT] = {
    [TAKE_MASK] = {"rnn_take_mask", RNNC_LAYER_CELL},
    [ORDER] = {"rnn_order", RNNC_LAYER_CELL},
    [FILL_ZEROS] = {"rnn_fill_zeros", RNNC_LAYER_CELL},
    [FILL_REPEAT] = {"rnn_fill_repeat", RNNC_LAYER_CELL},
    [FILL_LAST] = {"rnn_fill_last", RNNC_LAYER_CELL},
    [MASKING] = {"rnn_masking", RNNC_LAYER_MASKING},
    [TOKENS] = {"rnn_tokens", RNNC_LAYER_EMBEDDING},
    [MERGE] = {"rnn_merge", RNNC_LAYER_MERGE},
    [DROP] = {"rnn_drop", RNNC_LAYER_DROPOUT},
    [DRAW] = {"rnn_draw", RNNC_LAYER_CELL}, // with recurrent dropout
};

/// RnnFault, RnnArray and RnnFill of the kernels.
typedef struct {
    int kind, row, step, value;
} Fault;
typedef struct {
    float *at;
    long long row_stride, step_stride;
} Array;
typedef struct {
    Array y;
    long long batch, timesteps, width;
    CUdeviceptr mask, order, rows;
    int reversed, go_backwards, zero;
} Fill;

struct rnnc_cuda_sequence {
    rnnc_cuda_sequence_options options;
    CUfunction kernels[KERNEL_COUNT];
    CUdeviceptr mask;              ///< [B, T] bytes
    CUdeviceptr order[2], rows[2]; ///< by layer->reversed; 0: no such layer
    /// A run for training keeps the orders of before a layer that masks: `versions` of them one
    /// after the other. `version` is that of now, `taken` by layer that which it ran by; -1: none.
    int versions, version, *taken;
    CUdeviceptr *scales;   ///< by layer: recurrent dropout's; 0: none
    volatile Fault *fault; ///< pinned; the kernels write it
    CUdeviceptr device_fault;
    rnnc_run_inputs run;
    bool is_masked;    ///< this run's layers, from where it has come to
    bool masks_itself; ///< a layer of the module does
    bool drops;        ///< dropout draws in this run
};

static rnnc_status check(const rnnc_cuda_sequence *sequence, CUresult result, const char *doing)
{
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    sequence->options.cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(sequence->options.error,
                          result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
                          "CUDA, %s: %s", doing, words ? words : "unknown error");
}

/// One thread for each of `items`, or as many as the grid has.
static rnnc_status start(const rnnc_cuda_sequence *sequence, CUstream stream, Kernel kernel,
                         int64_t items, void **arguments)
{
    const int64_t wanted = (items + THREADS - 1) / THREADS;
    const unsigned blocks = (unsigned)(wanted < BLOCKS_MAX ? wanted : BLOCKS_MAX);
    if (items == 0)
        return RNNC_OK;
    return check(sequence,
                 sequence->options.cuda->cuLaunchKernel(sequence->kernels[kernel], blocks, 1, 1,
                                                        THREADS, 1, 1, 0, stream, arguments, NULL),
                 kernels[kernel].name);
}

/// Whether the mask ends after layer `index`: it is the last of those side by side.
static bool ends_mask(const rnnc_module_desc *module, int index)
{
    const rnnc_layer_desc *layer = &module->layers[index];
    return layer->kind == RNNC_LAYER_CELL && layer->sequence_in && !layer->sequence_out &&
           (index + 1 == module->layer_count || !module->layers[index + 1].beside);
}

bool rnnc_cuda_sequence_is_masked(const rnnc_module_desc *module, int index, rnnc_masking masking)
{
    bool is_masked = masking != RNNC_MASKING_NONE;
    for (int i = 0; i < index; i++)
        is_masked = (is_masked || rnnc_layer_masks(&module->layers[i])) && !ends_mask(module, i);
    return is_masked && module->layers[index].sequence_in;
}

static rnnc_status allocate(rnnc_cuda_sequence *sequence, int64_t bytes, CUdeviceptr *to)
{
    if (*to)
        return RNNC_OK;
    return check(sequence, sequence->options.cuda->cuMemAlloc(to, bytes ? (size_t)bytes : 1),
                 "allocating memory for masks and dropout");
}

/// Whether a layer of the module runs the kernel; its image holds no others.
static bool is_needed(const rnnc_module_desc *module, Kernel kernel)
{
    for (int32_t i = 0; i < module->layer_count; i++)
        if (module->layers[i].kind == kernels[kernel].kind &&
            (kernel != DRAW || module->layers[i].recurrent_dropout > 0))
            return true;
    return false;
}

static rnnc_status open_fault(rnnc_cuda_sequence *sequence)
{
    const rnnc_cuda_driver *cuda = sequence->options.cuda;
    void *memory = NULL;
    CUresult result = cuda->cuMemHostAlloc(&memory, sizeof(Fault), CU_MEMHOSTALLOC_DEVICEMAP);
    if (!result) {
        memset(memory, 0, sizeof(Fault));
        sequence->fault = memory;
        result = cuda->cuMemHostGetDevicePointer(&sequence->device_fault, memory, 0);
    }
    return check(sequence, result, "allocating the record of faults");
}

static rnnc_status open_scales(rnnc_cuda_sequence *sequence)
{
    const rnnc_module_desc *module = sequence->options.module;
    rnnc_status status = RNNC_OK;
    for (int32_t i = 0; i < module->layer_count && status == RNNC_OK; i++) {
        const rnnc_layer_desc *layer = &module->layers[i];
        if (layer->recurrent_dropout > 0 && rnnc_layer_recurrent_size(layer) > 0)
            status = allocate(sequence,
                              sequence->options.max_batch * rnnc_layer_recurrent_size(layer) *
                                  (int64_t)sizeof(float),
                              &sequence->scales[i]);
    }
    return status;
}

rnnc_status rnnc_cuda_sequence_open(const rnnc_cuda_sequence_options *options,
                                    rnnc_cuda_sequence **out_sequence)
{
    *out_sequence = NULL;
    rnnc_cuda_sequence *sequence = rnnc_memory_alloc(sizeof *sequence);
    const size_t layers = (size_t)options->module->layer_count + 1;
    if (sequence) {
        sequence->scales = rnnc_memory_alloc(layers * sizeof *sequence->scales);
        sequence->taken = rnnc_memory_alloc(layers * sizeof *sequence->taken);
    }
    if (!sequence || !sequence->scales || !sequence->taken) {
        if (sequence) {
            rnnc_memory_free(sequence->scales);
            rnnc_memory_free(sequence->taken);
        }
        rnnc_memory_free(sequence);
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for the device");
    }
    sequence->options = *options;
    sequence->masks_itself = rnnc_module_self_masking(options->module) != NULL;
    sequence->versions = 1;
    for (int32_t i = 0; i < options->module->layer_count && options->training; i++)
        sequence->versions += rnnc_layer_masks(&options->module->layers[i]);
    rnnc_status status = RNNC_OK;
    for (int i = 0; options->image && i < KERNEL_COUNT && status == RNNC_OK; i++)
        if (is_needed(options->module, i))
            status = check(sequence,
                           options->cuda->cuModuleGetFunction(&sequence->kernels[i], options->image,
                                                              kernels[i].name),
                           kernels[i].name);
    if (status == RNNC_OK)
        status = open_fault(sequence);
    if (options->image && status == RNNC_OK)
        status = open_scales(sequence);
    if (status == RNNC_OK)
        *out_sequence = sequence;
    else
        rnnc_cuda_sequence_close(sequence);
    return status;
}

void rnnc_cuda_sequence_close(rnnc_cuda_sequence *sequence)
{
    if (!sequence)
        return;
    const rnnc_cuda_driver *cuda = sequence->options.cuda;
    const CUdeviceptr memories[] = {sequence->mask, sequence->order[0], sequence->order[1],
                                    sequence->rows[0], sequence->rows[1]};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            cuda->cuMemFree(memories[i]);
    for (int32_t i = 0; i < sequence->options.module->layer_count; i++)
        if (sequence->scales[i])
            cuda->cuMemFree(sequence->scales[i]);
    if (sequence->fault)
        cuda->cuMemFreeHost((void *)sequence->fault);
    rnnc_memory_free(sequence->scales);
    rnnc_memory_free(sequence->taken);
    rnnc_memory_free(sequence);
}

rnnc_status rnnc_cuda_sequence_set_masking(rnnc_cuda_sequence *sequence, rnnc_masking masking)
{
    const rnnc_module_desc *module = sequence->options.module;
    const int64_t B = sequence->options.max_batch, steps = B * sequence->options.max_timesteps;
    if (!sequence->options.image || (masking == RNNC_MASKING_NONE && !sequence->masks_itself))
        return RNNC_OK;
    rnnc_status status =
        masking == RNNC_MASKING_LENGTHS ? RNNC_OK : allocate(sequence, steps, &sequence->mask);
    for (int32_t i = 0; i < module->layer_count && status == RNNC_OK; i++) {
        const int reversed = module->layers[i].reversed != 0;
        if (module->layers[i].kind != RNNC_LAYER_CELL)
            continue;
        status = allocate(sequence, sequence->versions * steps * (int64_t)sizeof(int32_t),
                          &sequence->order[reversed]);
        if (status == RNNC_OK)
            status = allocate(sequence, sequence->versions * B * (int64_t)sizeof(rnnc_row),
                              &sequence->rows[reversed]);
    }
    return status;
}

/// A version of the orders of one direction, of its rows.
static CUdeviceptr order_at(const rnnc_cuda_sequence *sequence, int reversed, int version)
{
    const int64_t steps = sequence->options.max_batch * sequence->options.max_timesteps;
    return sequence->order[reversed] + (CUdeviceptr)(version * steps * (int64_t)sizeof(int32_t));
}
static CUdeviceptr rows_at(const rnnc_cuda_sequence *sequence, int reversed, int version)
{
    return sequence->rows[reversed] +
           (CUdeviceptr)(version * sequence->options.max_batch * (int64_t)sizeof(rnnc_row));
}

/// Order and rows of both directions, from the mask as it stands or from the lengths.
static rnnc_status make_orders(rnnc_cuda_sequence *sequence)
{
    CUdeviceptr mask = sequence->run.lengths ? 0 : sequence->mask;
    const int32_t *lengths = sequence->run.lengths;
    long long B = sequence->run.batch, T = sequence->run.timesteps;
    rnnc_status status = RNNC_OK;
    sequence->version += sequence->version + 1 < sequence->versions;
    for (int reversed = 0; reversed < 2 && status == RNNC_OK; reversed++) {
        CUdeviceptr order = order_at(sequence, reversed, sequence->version);
        CUdeviceptr rows = rows_at(sequence, reversed, sequence->version);
        void *arguments[] = {&mask, &lengths, &reversed, &order,
                             &rows, &B,       &T,        &sequence->device_fault};
        if (sequence->order[reversed])
            status = start(sequence, sequence->options.stream, ORDER, B * WARP, arguments);
    }
    return status;
}

rnnc_status rnnc_cuda_sequence_begin(rnnc_cuda_sequence *sequence, const rnnc_run_inputs *inputs)
{
    const rnnc_cuda_sequence_options *options = &sequence->options;
    long long B = inputs->batch, T = inputs->timesteps;
    const rnnc_training_desc *training = rnnc_module_training(options->module);
    sequence->run = *inputs;
    sequence->version = -1;
    sequence->drops = inputs->saves || !training || training->drops_at_inference;
    sequence->is_masked = inputs->mask || inputs->lengths;
    if (B == 0 || T == 0)
        return RNNC_OK;
    const bool has_order = sequence->order[0] || sequence->order[1];
    if (options->image && ((inputs->lengths && !has_order) ||
                           ((inputs->mask || sequence->masks_itself) && !sequence->mask)))
        return rnnc_error_set(options->error, RNNC_NOT_READY,
                              "the session was not made ready for a mask or lengths");
    if (inputs->mask && sequence->mask) {
        const uint8_t *mask = inputs->mask;
        long long row_stride = inputs->mask_row_stride, step_stride = inputs->mask_step_stride;
        void *arguments[] = {&mask, &row_stride, &step_stride,           &sequence->mask,
                             &B,    &T,          &sequence->device_fault};
        rnnc_status status = start(sequence, options->stream, TAKE_MASK, B * T, arguments);
        if (status != RNNC_OK)
            return status;
    } else if (sequence->masks_itself && !inputs->lengths) {
        CUresult result =
            options->cuda->cuMemsetD8Async(sequence->mask, 1, (size_t)(B * T), options->stream);
        if (result)
            return check(sequence, result, "opening a mask");
    }
    return sequence->is_masked ? make_orders(sequence) : RNNC_OK;
}

static rnnc_status check_tokens(rnnc_cuda_sequence *sequence, const rnnc_layer_call *call,
                                CUstream stream)
{
    const rnnc_layer_desc *layer = &sequence->options.module->layers[call->layer];
    const void *tokens = call->x;
    CUdeviceptr mask = layer->mask_zero && layer->sequence_in ? sequence->mask : 0;
    long long row_stride = call->x_row_stride, step_stride = call->x_step_stride;
    long long B = call->batch, T = call->timesteps, vocabulary = layer->inputs;
    void *arguments[] = {&tokens, &row_stride, &step_stride, &mask,
                         &B,      &T,          &vocabulary,  &sequence->device_fault};
    rnnc_status status = start(sequence, stream, TOKENS, B * T, arguments);
    if (!mask || status != RNNC_OK)
        return status;
    sequence->is_masked = true;
    return make_orders(sequence);
}

void rnnc_cuda_sequence_again(const rnnc_cuda_sequence *sequence, rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = &sequence->options.module->layers[call->layer];
    const int reversed = layer->reversed != 0, version = sequence->taken[call->layer];
    const bool is_ordered = layer->kind == RNNC_LAYER_CELL && version >= 0;
    call->order = is_ordered ? (const int32_t *)order_at(sequence, reversed, version) : NULL;
    call->rows = is_ordered ? (const rnnc_row *)rows_at(sequence, reversed, version) : NULL;
    call->recurrent_scale = (const float *)sequence->scales[call->layer];
    call->seed = sequence->run.seed;
}

bool rnnc_cuda_sequence_repeats(const rnnc_cuda_sequence *sequence, const rnnc_layer_call *call)
{
    return call->order && !sequence->run.lengths;
}

rnnc_status rnnc_cuda_sequence_before(rnnc_cuda_sequence *sequence, rnnc_layer_call *call,
                                      CUstream stream)
{
    const rnnc_layer_desc *layer = &sequence->options.module->layers[call->layer];
    call->order = NULL;
    call->rows = NULL;
    call->recurrent_scale = NULL;
    call->saves = sequence->run.saves;
    call->seed = sequence->run.seed;
    if (!sequence->options.image)
        return RNNC_OK;
    if (layer->kind == RNNC_LAYER_EMBEDDING)
        return check_tokens(sequence, call, stream);
    if (layer->kind != RNNC_LAYER_CELL)
        return RNNC_OK;
    sequence->taken[call->layer] =
        sequence->is_masked && layer->sequence_in ? sequence->version : -1;
    rnnc_cuda_sequence_again(sequence, call);
    if (!sequence->scales[call->layer])
        return RNNC_OK;
    rnn_dropout draw = rnn_dropout_make(sequence->run.seed, 2 * (unsigned)layer->dropout_index + 1,
                                        sequence->drops ? layer->recurrent_dropout : 0.0f);
    long long B = call->batch, width = rnnc_layer_recurrent_size(layer);
    void *arguments[] = {&sequence->scales[call->layer], &draw, &B, &width};
    return start(sequence, stream, DRAW, B * width, arguments);
}

static Array x_of(const rnnc_layer_call *call)
{
    return (Array){(float *)(uintptr_t)call->x, call->x_row_stride, call->x_step_stride};
}

static Array y_of(const rnnc_layer_call *call)
{
    return (Array){call->y, call->y_row_stride, call->y_step_stride};
}

rnnc_status rnnc_cuda_sequence_after(rnnc_cuda_sequence *sequence, const rnnc_layer_call *call,
                                     CUstream stream)
{
    const rnnc_layer_desc *layer = &sequence->options.module->layers[call->layer];
    if (layer->kind != RNNC_LAYER_CELL || !call->order)
        return RNNC_OK;
    const int64_t B = call->batch, T = call->timesteps;
    Fill fill = {.y = y_of(call),
                 .batch = B,
                 .timesteps = T,
                 .width = layer->outputs,
                 .mask = sequence->run.lengths ? 0 : sequence->mask,
                 .order = (CUdeviceptr)call->order,
                 .rows = (CUdeviceptr)call->rows,
                 .reversed = layer->reversed != 0,
                 .go_backwards = layer->go_backwards != 0,
                 .zero = layer->zero_output_for_mask != 0};
    void *arguments[] = {&fill};
    if (!layer->sequence_out)
        return start(sequence, stream, FILL_LAST, B * layer->outputs, arguments);
    if (!fill.mask || fill.zero)
        return start(sequence, stream, FILL_ZEROS, B * T * layer->outputs, arguments);
    return start(sequence, stream, FILL_REPEAT, B * (T + 1) * WARP, arguments);
}

bool rnnc_cuda_sequence_masks(const rnnc_cuda_sequence *sequence)
{
    return sequence->is_masked;
}

void rnnc_cuda_sequence_passed(rnnc_cuda_sequence *sequence, const rnnc_layer_call *call)
{
    if (ends_mask(sequence->options.module, call->layer))
        sequence->is_masked = false;
}

static rnnc_status run_masking(rnnc_cuda_sequence *sequence, const rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = &sequence->options.module->layers[call->layer];
    Array x = x_of(call), y = y_of(call);
    float value = layer->mask_value;
    long long B = call->batch, T = call->timesteps, width = layer->inputs;
    void *arguments[] = {&x, &y, &value, &sequence->mask, &B, &T, &width};
    rnnc_status status =
        start(sequence, sequence->options.stream, MASKING, B * T * WARP, arguments);
    if (status != RNNC_OK || B * T == 0)
        return status;
    sequence->is_masked = true;
    return make_orders(sequence);
}

rnnc_status rnnc_cuda_sequence_run(rnnc_cuda_sequence *sequence, const rnnc_layer_call *call)
{
    const rnnc_layer_desc *layer = &sequence->options.module->layers[call->layer];
    CUstream stream = sequence->options.stream;
    Array x = x_of(call), y = y_of(call);
    long long B = call->batch, T = call->timesteps, width = layer->outputs;
    if (layer->kind == RNNC_LAYER_MASKING)
        return run_masking(sequence, call);
    if (layer->kind == RNNC_LAYER_DROPOUT) {
        rnn_dropout draw = rnn_dropout_make(sequence->run.seed, 2 * (unsigned)layer->dropout_index,
                                            sequence->drops ? layer->rate : 0.0f);
        int per_sequence = layer->per_sequence != 0;
        void *arguments[] = {&x, &y, &draw, &per_sequence, &B, &T, &width};
        return start(sequence, stream, DROP, B * T * width, arguments);
    }
    const float *x2 = call->x2;
    int how = layer->merge;
    void *arguments[] = {&x, &x2, &y, &how, &B, &T, &width};
    return start(sequence, stream, MERGE, B * T * width, arguments);
}

CUdeviceptr rnnc_cuda_sequence_record(const rnnc_cuda_sequence *sequence)
{
    return sequence->device_fault;
}

rnnc_status rnnc_cuda_sequence_fault(rnnc_cuda_sequence *sequence)
{
    rnnc_error *error = sequence->options.error;
    const rnnc_module_desc *module = sequence->options.module;
    if (!sequence->fault || sequence->fault->kind == FAULT_NONE)
        return RNNC_OK;
    const Fault fault = *sequence->fault;
    sequence->fault->kind = FAULT_NONE;
    if (fault.kind == FAULT_LENGTHS)
        return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                              "lengths: row %d is %d, expected 0 to %d", fault.row, fault.value,
                              fault.step);
    if (fault.kind == FAULT_MASK)
        return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                              "mask: row %d, step %d is %d, expected 0 or 1", fault.row, fault.step,
                              fault.value);
    if (fault.kind == RNNC_CUDA_FAULT_STUCK)
        return rnnc_error_set(error, RNNC_DEVICE_ERROR,
                              "layer %s: the CTAs of its recurrence waited for each other in vain; "
                              "its outputs are not right. Take another variant (stepwise needs no "
                              "CTAs at once)",
                              module->layers[fault.value].name);
    if (fault.kind == FAULT_NOT_FINITE)
        return rnnc_error_set(
            error, RNNC_NOT_FINITE,
            "layer '%s': at step %d of row %d a gradient is infinite or no number",
            module->layers[fault.value].name, fault.step, fault.row);
    if (fault.kind == FAULT_TARGET)
        return rnnc_error_set(
            error, RNNC_INVALID_ARGUMENT,
            "targets: %d of row %d, step %d is outside of the classes, and not -1, "
            "which leaves a step out",
            fault.value, fault.row, fault.step);
    int32_t embedding = 0;
    while (embedding + 1 < module->layer_count &&
           module->layers[embedding].kind != RNNC_LAYER_EMBEDDING)
        embedding++;
    return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                          "token %d of row %d, step %d is outside 0 to %lld", fault.value,
                          fault.row, fault.step, (long long)(module->layers[embedding].inputs - 1));
}
