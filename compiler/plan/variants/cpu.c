// Variant cpu: generated C for the vector units, of any cell. The default where no GPU is found, so
// it refuses nothing.
#include "plan/plan.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    (void)arena, (void)context, (void)reasons;
}

/// Two multiply-adds of 8 lanes a cycle at 3 GHz while the weights are near, else 30 bytes a ns.
static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    (void)arena;
    const Layer *layer = context->layer;
    const double flops_per_us = 50e3, stream_bytes_per_us = 30e3, near_bytes = 1 << 20;
    int64_t recurrent = layer->projection ? layer->projection : layer->units;
    double input = (double)(layer->cell->W.count * layer->units * layer->inputs);
    double recurrence = (double)(layer->cell->R.count * layer->units * recurrent / layer->heads +
                                 layer->projection * layer->units);
    double step_us = 2 * recurrence * (double)context->batch / flops_per_us;
    double stream_us = recurrence * 4 > near_bytes ? recurrence * 4 / stream_bytes_per_us : 0;
    double input_us = 2 * input * (double)context->batch / flops_per_us;
    choice->cost_us =
        (double)context->timesteps * (input_us + (stream_us > step_us ? stream_us : step_us));
    choice->packed_bytes = (int64_t)(input + recurrence) * 4;
    choice->reason = "runs on the CPU";
}

const Variant variant_cpu = {
    .name = "cpu",
    .kind = RNNC_VARIANT_CPU,
    .gpu = false,
    .trains = true,
    .check = check,
    .estimate = estimate,
    .print_stub = NULL,
};
