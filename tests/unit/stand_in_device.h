// A stand-in for a device, so that the session is tested by itself: it writes down what it is asked
// for, adds 1 to every value of every state at each run, and refuses a masking when told to. Beside
// it three modules without weights, made by hand:
//
//     stack   x [B, T, 3] -> enc/fw and enc/bw, halves of buffer 0 -> mid -> buffer 1 -> top -> y
//     pair    x [T, B, 3] -> both/fw -> y/fw [T, B, 2], both/bw -> y/bw, time-major
//     masked  x [B, T, 3] -> drop_zeros, a masking layer -> l0 -> y [B, T, 2]
#ifndef RNNC_TESTS_STAND_IN_DEVICE_H
#define RNNC_TESTS_STAND_IN_DEVICE_H

#include <stdlib.h>
#include <string.h>

#include "session.h"

enum { STAND_IN_CALLS = 8, STAND_IN_UNITS = 2 };

struct rnnc_device {
    rnnc_device_options options;
};

static struct {
    rnnc_layer_call calls[STAND_IN_CALLS]; ///< of the last run
    int call_count, group_sizes[STAND_IN_CALLS], group_count;
    rnnc_run_inputs inputs; ///< of the last run
    int runs;
    rnnc_masking maskings[STAND_IN_CALLS]; ///< in the order they were set
    int masking_count;
    bool refuses_masking;
    size_t allocated[STAND_IN_CALLS]; ///< bytes, in order
    int allocation_count, blocks;     ///< blocks: that are not freed
    int opened;
} stand_in;

static rnnc_status stand_in_open(const rnnc_device_options *options, rnnc_device **out_device)
{
    *out_device = calloc(1, sizeof **out_device);
    (*out_device)->options = *options;
    stand_in.opened += 1;
    return RNNC_OK;
}

static void stand_in_close(rnnc_device *device)
{
    stand_in.opened -= device != NULL;
    free(device);
}

static const char *stand_in_name(const rnnc_device *device)
{
    (void)device;
    return "cpu";
}

static rnnc_status stand_in_set_weights(rnnc_device *device, int layer,
                                        const float *const weights[RNNC_WEIGHT_COUNT])
{
    (void)device, (void)layer, (void)weights;
    return RNNC_OK;
}

static const char *stand_in_variant(const rnnc_device *device, int layer, const char **out_reason)
{
    (void)device, (void)layer;
    *out_reason = "it stands in";
    return "cpu";
}

static rnnc_status stand_in_set_masking(rnnc_device *device, rnnc_masking masking)
{
    if (stand_in.refuses_masking)
        return rnnc_error_set(device->options.error, RNNC_UNAVAILABLE, "no variant can mask");
    stand_in.maskings[stand_in.masking_count++] = masking;
    return RNNC_OK;
}

static rnnc_status stand_in_begin_run(rnnc_device *device, const rnnc_run_inputs *inputs)
{
    (void)device;
    stand_in.inputs = *inputs;
    stand_in.call_count = stand_in.group_count = 0;
    stand_in.runs += 1;
    return RNNC_OK;
}

static rnnc_status stand_in_run_layers(rnnc_device *device, rnnc_layer_call *calls, int count)
{
    stand_in.group_sizes[stand_in.group_count++] = count;
    for (int i = 0; i < count; i++) {
        const rnnc_layer_desc *layer = &device->options.module->layers[calls[i].layer];
        stand_in.calls[stand_in.call_count++] = calls[i];
        for (int32_t k = 0; k < layer->state_count; k++)
            for (int64_t n = 0; n < calls[i].batch * layer->state_sizes[k]; n++)
                calls[i].states[k][n] += 1;
    }
    return RNNC_OK;
}

static rnnc_status stand_in_fill(rnnc_device *device, float *to, float value, size_t count)
{
    (void)device;
    for (size_t i = 0; i < count; i++)
        to[i] = value;
    return RNNC_OK;
}

static rnnc_status stand_in_alloc(rnnc_device *device, size_t bytes, void **out_memory)
{
    (void)device;
    if (stand_in.allocation_count < STAND_IN_CALLS)
        stand_in.allocated[stand_in.allocation_count++] = bytes;
    *out_memory = calloc(1, bytes);
    stand_in.blocks += 1;
    return RNNC_OK;
}

static void stand_in_free(rnnc_device *device, void *memory)
{
    (void)device;
    stand_in.blocks -= 1;
    free(memory);
}

static rnnc_status stand_in_copy(rnnc_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return RNNC_OK;
}

static rnnc_status stand_in_synchronize(rnnc_device *device)
{
    (void)device;
    return RNNC_OK;
}

const rnnc_device_ops *rnnc_cpu_ops(void)
{
    static const rnnc_device_ops ops = {
        .open = stand_in_open,
        .close = stand_in_close,
        .name = stand_in_name,
        .set_weights = stand_in_set_weights,
        .variant = stand_in_variant,
        .set_masking = stand_in_set_masking,
        .begin_run = stand_in_begin_run,
        .run_layers = stand_in_run_layers,
        .fill = stand_in_fill,
        .alloc = stand_in_alloc,
        .free = stand_in_free,
        .write = stand_in_copy,
        .read = stand_in_copy,
        .synchronize = stand_in_synchronize,
    };
    return &ops;
}

const rnnc_device_ops *rnnc_cuda_ops(void)
{
    return rnnc_cpu_ops();
}

#define STAND_IN_B RNNC_DIM_BATCH
#define STAND_IN_T RNNC_DIM_TIME
#define STAND_IN_ENDS(name, role, a, b, c)                                                         \
    {                                                                                              \
        .info = {name, RNNC_ROLE_##role, {kDLFloat, 32, 1}, (c) ? 3 : 2, {a, b, c}}, .layer = -1   \
    }
#define STAND_IN_MASKS                                                                             \
    {.info = {"lengths", RNNC_ROLE_MASK, {kDLInt, 32, 1}, 1, {STAND_IN_B}}, .layer = -1},          \
    {                                                                                              \
        .info = {"mask", RNNC_ROLE_MASK, {kDLUInt, 8, 1}, 2, {STAND_IN_B, STAND_IN_T}},            \
        .layer = -1                                                                                \
    }
#define STAND_IN_STATE(name, index)                                                                \
    {                                                                                              \
        .info = {name, RNNC_ROLE_STATE, {kDLFloat, 32, 1}, 2, {STAND_IN_B, STAND_IN_UNITS}},       \
        .layer = index                                                                             \
    }
#define STAND_IN_CELL(cell_name, tensor)                                                           \
    .name = cell_name, .kind = RNNC_LAYER_CELL, .units = STAND_IN_UNITS,                           \
    .outputs = STAND_IN_UNITS, .sequence_in = 1, .in2 = {RNNC_SLOT_NONE, 0, 0},                    \
    .weights = {-1, -1, -1, -1, -1, -1, -1}, .state_count = 1, .states = {tensor},                 \
    .state_sizes = {STAND_IN_UNITS}, .input_gates = 4
#define STAND_IN_MODULE(module_name, tensor_table, layer_table)                                    \
    .magic = RNNC_MODULE_MAGIC, .name = module_name,                                               \
    .tensor_count = sizeof(tensor_table) / sizeof(tensor_table)[0], .tensors = tensor_table,       \
    .layer_count = sizeof(layer_table) / sizeof(layer_table)[0], .layers = layer_table

static const rnnc_tensor_desc stack_tensors[] = {
    STAND_IN_ENDS("x", INPUT, STAND_IN_B, STAND_IN_T, 3),
    STAND_IN_ENDS("y", OUTPUT, STAND_IN_B, 2, 0),
    STAND_IN_MASKS,
    STAND_IN_STATE("enc/fw/h", 0),
    STAND_IN_STATE("enc/bw/h", 1),
    STAND_IN_STATE("mid/h", 2),
    {.info = {"top/W", RNNC_ROLE_WEIGHT, {kDLFloat, 32, 1}, 2, {2, 2}}, .layer = 3},
};
static const rnnc_layer_desc stack_layers[] = {
    {STAND_IN_CELL("enc/fw", 4), .inputs = 3, .sequence_out = 1, .in = {RNNC_SLOT_X, 0, 3},
     .out = {0, 0, 4}},
    {STAND_IN_CELL("enc/bw", 5), .inputs = 3, .sequence_out = 1, .in = {RNNC_SLOT_X, 0, 3},
     .out = {0, 2, 4}, .beside = 1, .reversed = 1},
    {STAND_IN_CELL("mid", 6), .inputs = 4, .in = {0, 0, 4}, .out = {1, 0, 2}, .stateful = 1,
     .zero_output_for_mask = 1},
    {.name = "top",
     .kind = RNNC_LAYER_DENSE,
     .inputs = 2,
     .outputs = 2,
     .in = {1, 0, 2},
     .in2 = {RNNC_SLOT_NONE, 0, 0},
     .out = {RNNC_SLOT_Y, 0, 2},
     .weights = {7, -1, -1, -1, -1, -1, -1}},
};
static const int64_t stack_slots[] = {4, 2};
static const rnnc_module_desc stack_desc = {STAND_IN_MODULE("stack", stack_tensors, stack_layers),
                                            .slot_count = 2, .slot_widths = stack_slots};

static const rnnc_tensor_desc pair_tensors[] = {
    STAND_IN_ENDS("x", INPUT, STAND_IN_T, STAND_IN_B, 3),
    STAND_IN_ENDS("y/fw", OUTPUT, STAND_IN_T, STAND_IN_B, 2),
    STAND_IN_ENDS("y/bw", OUTPUT, STAND_IN_T, STAND_IN_B, 2),
    STAND_IN_MASKS,
    STAND_IN_STATE("both/fw/h", 0),
    STAND_IN_STATE("both/bw/h", 1),
};
static const rnnc_layer_desc pair_layers[] = {
    {STAND_IN_CELL("both/fw", 5), .inputs = 3, .sequence_out = 1, .in = {RNNC_SLOT_X, 0, 3},
     .out = {RNNC_SLOT_Y, 0, 2}},
    {STAND_IN_CELL("both/bw", 6), .inputs = 3, .sequence_out = 1, .in = {RNNC_SLOT_X, 0, 3},
     .out = {RNNC_SLOT_Y_BACKWARD, 0, 2}, .beside = 1, .reversed = 1},
};
static const rnnc_module_desc pair_desc = {STAND_IN_MODULE("pair", pair_tensors, pair_layers),
                                           .time_major = 1};

static const rnnc_tensor_desc masked_tensors[] = {
    STAND_IN_ENDS("x", INPUT, STAND_IN_B, STAND_IN_T, 3),
    STAND_IN_ENDS("y", OUTPUT, STAND_IN_B, STAND_IN_T, 2),
    STAND_IN_MASKS,
    STAND_IN_STATE("l0/h", 1),
};
static const rnnc_layer_desc masked_layers[] = {
    {.name = "drop_zeros",
     .kind = RNNC_LAYER_MASKING,
     .inputs = 3,
     .outputs = 3,
     .sequence_in = 1,
     .sequence_out = 1,
     .in = {RNNC_SLOT_X, 0, 3},
     .in2 = {RNNC_SLOT_NONE, 0, 0},
     .out = {0, 0, 3},
     .weights = {-1, -1, -1, -1, -1, -1, -1}},
    {STAND_IN_CELL("l0", 4), .inputs = 3, .sequence_out = 1, .in = {0, 0, 3},
     .out = {RNNC_SLOT_Y, 0, 2}},
};
static const int64_t masked_slots[] = {3};
static const rnnc_module_desc masked_desc = {
    STAND_IN_MODULE("masked", masked_tensors, masked_layers), .slot_count = 1,
    .slot_widths = masked_slots};

#endif
