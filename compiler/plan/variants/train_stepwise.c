// Variant train_stepwise: training a step at a time, products by cuBLAS and the pointwise parts
// fused between them, each pass over the steps in a CUDA graph. Applies to every cell in models
// that train.
#include "cell/cell_gradient.h"
#include "plan/cta.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    (void)arena, (void)context, (void)reasons;
}

/// A launch and a product in a graph, on an H200, and what a matrix is read at from L2.
static const double launch_us = 2.0, product_us = 4.0, bytes_per_us = 3.0e6;

int64_t training_memory_bytes(const PlanContext *context)
{
    const Layer *layer = context->layer;
    const int64_t floats =
        layer->cell->W.count * layer->units + layer->cell->gradient->step_elems + layer->inputs;
    return context->batch * context->timesteps * floats * (int64_t)sizeof(float);
}

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    (void)arena;
    const Layer *layer = context->layer;
    double step_us = 0;
    for (int p = 0; p < layer->cell->phase_count; p++) {
        const CellPhase *phase = &layer->cell->phases[p];
        const int64_t size = layer_domain_size(layer, phase->domain);
        step_us += 2 * launch_us;
        if (phase->row_count > 0)
            step_us +=
                2 * product_us +
                2.0 * (double)(phase->row_count * size * layer_phase_columns(layer, phase) * 4) /
                    bytes_per_us;
    }
    choice->threads = 256;
    choice->cost_us = 3 * input_product_us(context) + (double)context->timesteps * step_us;
    choice->memory_bytes = training_memory_bytes(context);
    choice->reason = "a product and a launch a phase and step, any size";
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    (void)context, (void)choice;
    text_add(out, "\n#include \"cuda/training.cu\"\n");
}

const Variant variant_train_stepwise = {
    .name = "train_stepwise",
    .kind = RNNC_VARIANT_TRAIN_STEPWISE,
    .gpu = true,
    .trains = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
