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

/// A launch in a graph, and what a matrix is read at from L2; not fitted yet.
static const double launch_us = 2.0, bytes_per_us = 3.0e6;

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    (void)arena;
    const Layer *layer = context->layer;
    const Cell *cell = layer->cell;
    double step_us = 0;
    int64_t floats = (cell->W.count * layer->units) + cell->gradient->step_elems;
    for (int p = 0; p < cell->phase_count; p++) {
        const CellPhase *phase = &cell->phases[p];
        const int64_t size = layer_domain_size(layer, phase->domain);
        step_us += 2 * launch_us;
        if (phase->row_count > 0)
            step_us +=
                2 * launch_us +
                2.0 * (double)(phase->row_count * size * layer_phase_columns(layer, phase) * 4) /
                    bytes_per_us;
        floats += phase->row_count * size;
    }
    choice->threads = 256;
    choice->cost_us = 3 * input_product_us(context) + (double)context->timesteps * step_us;
    choice->memory_bytes =
        context->batch * context->timesteps * (floats + layer->inputs) * (int64_t)sizeof(float);
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
