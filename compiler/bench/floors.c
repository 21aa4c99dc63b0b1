// Floors: see floors.h, which has the formula.
#include "bench/floors.h"

#include <math.h>

static const double LAUNCH_US = 2.0, LATENCY_US = 0.19, CLUSTER_US = 0.33, GRID_US = 0.54;
enum { CLUSTER_SMS = 16, REGISTER_BYTES = 4 };

/// Multiplications of one row and step.
static double layer_products(const Layer *layer)
{
    double products = 0;
    for (int kind = 0; kind < WEIGHT_COUNT; kind++)
        if (kind == WEIGHT_W || kind == WEIGHT_R || kind == WEIGHT_P)
            products += (double)layer->weights[kind].rows * (double)layer->weights[kind].columns;
    return products;
}

double floors_operations(const Model *model, int64_t batch, int64_t timesteps)
{
    double products = 0;
    for (int i = 0; i < model->layer_count; i++)
        products += layer_products(&model->layers[i]) *
                    (double)(model->layers[i].sequence_in ? timesteps : 1);
    return 2 * products * (double)batch;
}

static double operand_bytes(Precision precision)
{
    return precision == PRECISION_BFLOAT16 || precision == PRECISION_FLOAT16 ? 2 : 4;
}

static double peak_flops_per_ns(const Device *device, Precision precision)
{
    switch (precision) {
    case PRECISION_FLOAT32:
        return device->fp32_flops_per_ns;
    case PRECISION_TF32:
        return device->fp16_flops_per_ns / 2;
    default:
        return device->fp16_flops_per_ns;
    }
}

/// Bytes of x, y and the weights.
static double all_bytes(const Model *model, int64_t batch, int64_t timesteps)
{
    const double rows = (double)batch * (double)timesteps;
    double bytes = rows * 4 * (model->tokens ? 1 : (double)model->features);
    for (int i = 0; i < model->layer_count; i++) {
        const Layer *layer = &model->layers[i];
        if (layer->out.slot < 0)
            bytes += 4 * (double)layer->outputs * (layer->sequence_out ? rows : (double)batch);
        bytes += layer_products(layer) * operand_bytes(model->spec->precision);
    }
    return bytes;
}

/// Bytes of what multiplies a state.
static double recurrent_bytes(const Model *model, const Layer *layer)
{
    const Weight *R = &layer->weights[WEIGHT_R], *P = &layer->weights[WEIGHT_P];
    return ((double)R->rows * (double)R->columns + (double)P->rows * (double)P->columns) *
           operand_bytes(model->spec->precision);
}

static double exchange_us(double bytes, double sm_bytes)
{
    return bytes <= sm_bytes ? 0 : bytes <= CLUSTER_SMS * sm_bytes ? CLUSTER_US : GRID_US;
}

BenchFloor floors_of(const Model *model, int64_t batch, int64_t timesteps, const Device *device)
{
    BenchFloor floor = {0};
    if (!device)
        return floor;
    const Precision precision = model->spec->precision;
    const double sm_bytes =
        (double)device->shared_bytes_per_cta + REGISTER_BYTES * (double)device->registers_per_sm;
    double widest_us = 0, all_recurrent = 0;
    int depth = 0;
    bool is_serial = false;
    for (int i = 0; i < model->layer_count; i++) {
        const Layer *layer = &model->layers[i];
        if (layer->kind != LAYER_CELL)
            continue;
        const double bytes = recurrent_bytes(model, layer);
        depth += !layer->beside;
        is_serial |= layer->reversed;
        all_recurrent += bytes;
        widest_us = fmax(widest_us, exchange_us(bytes, sm_bytes));
    }
    floor.steps = depth == 0 ? 0 : is_serial ? timesteps * depth : timesteps + depth - 1;
    floor.launch_us = LAUNCH_US;
    floor.step_us = LATENCY_US + widest_us;
    floor.chain_us = (double)floor.steps * floor.step_us;
    floor.operations_us =
        floors_operations(model, batch, timesteps) / peak_flops_per_ns(device, precision) / 1e3;
    floor.memory_us = all_bytes(model, batch, timesteps) / device->memory_bytes_per_ns / 1e3;
    const double beyond = fmax(0, all_recurrent - sm_bytes * device->sm_count);
    const double bytes_per_ns =
        device->memory_bytes_per_ns * (beyond > (double)device->l2_bytes ? 1 : 2);
    floor.streaming_us = (double)timesteps * beyond / bytes_per_ns / 1e3;
    floor.us = floor.launch_us + fmax(fmax(floor.operations_us, floor.memory_us),
                                      fmax(floor.streaming_us, floor.chain_us));
    return floor;
}

const char *floors_text(Arena *arena, const BenchFloor *floor)
{
    if (floor->us <= 0)
        return "not known for this device";
    return arena_format(arena,
                        "%.1f us = launch %.1f + the longest of chain %.1f (%lld steps of %.2f), "
                        "operations %.1f, memory %.1f, streaming %.1f",
                        floor->us, floor->launch_us, floor->chain_us, (long long)floor->steps,
                        floor->step_us, floor->operations_us, floor->memory_us,
                        floor->streaming_us);
}
