// Variant stepwise: one launch a phase and step, product and pointwise part, in a CUDA graph.
// Always applies: the fallback of every layer.
#include "plan/cta.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    (void)arena, (void)context, (void)reasons;
}

static double phase_us(const PlanContext *context, const CellPhase *phase)
{
    const Layer *layer = context->layer;
    const Device *device = context->device;
    if (phase->row_count == 0)
        return 1.5;
    const double peak = context->precision == PRECISION_FLOAT32 ? device->fp32_flops_per_ns
                        : context->precision == PRECISION_TF32  ? device->fp16_flops_per_ns / 4
                                                                : device->fp16_flops_per_ns / 2;
    const double weights = (double)(phase->row_count * layer_domain_size(layer, phase->domain) *
                                    layer_phase_columns(layer, phase));
    const double bytes = weights * operand_bytes(context->precision);
    const double flops_us = 2.0 * weights * (double)context->batch / (0.5 * peak) / 1e3;
    const double bytes_per_ns = bytes > 0.7 * (double)device->l2_bytes
                                    ? device->memory_bytes_per_ns
                                    : 1.2 * device->memory_bytes_per_ns;
    const double bytes_us = bytes / bytes_per_ns / 1e3;
    return 6.8 + (flops_us > bytes_us ? flops_us : bytes_us);
}

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    (void)arena;
    const Layer *layer = context->layer;
    const Cell *cell = layer->cell;
    double step_us = 0;
    for (int p = 0; p < cell->phase_count; p++) {
        const CellPhase *phase = &cell->phases[p];
        step_us += phase_us(context, phase);
        if (phase->row_count > 0)
            choice->packed_bytes += phase->row_count * layer_domain_size(layer, phase->domain) *
                                    layer_phase_columns(layer, phase) *
                                    operand_bytes(context->precision);
    }
    choice->threads = 128;
    choice->cost_us = 8.0 + input_product_us(context) + (double)context->timesteps * step_us;
    choice->memory_bytes =
        context->batch * (context->timesteps + 2) * cell->W.count * layer->units * 4;
    choice->reason = "a launch a phase and step, any size";
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    (void)choice;
    text_addf(out,
              "#define RNN_SM_COUNT %d\n#define RNN_SHARED_BYTES %lld\n\n"
              "#include \"cuda/stepwise.cu\"\n",
              context->device->sm_count, (long long)context->device->shared_bytes_per_cta);
}

const Variant variant_stepwise = {
    .name = "stepwise",
    .kind = RNNC_VARIANT_STEPWISE,
    .gpu = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
