// Variant loop: a launch for each product and each pointwise part of a step, with the optimisations
// of NVIDIA's article on cuDNN 5 to be switched on one after the other (runtime/src/cuda/loop.c).
// What the other variants are compared with; a module holds it only where it is named.
#include "plan/cta.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    const Layer *layer = context->layer;
    const Cell *cell = layer->cell;
    const Span span = layer->spec->cell.span;
    if (cell->phase_count > 1)
        reason_add(arena, reasons, span, "cell '%s' has steps of %d phases, the loop is for one",
                   cell->name, cell->phase_count);
    else if (cell->norm_count > 0)
        reason_add(arena, reasons, span, "cell '%s' has layer_norm, the loop has none", cell->name);
    else if (cell->W.count == 0 || cell->phases[0].row_count == 0)
        reason_add(arena, reasons, span, "cell '%s' has no product of x or h", cell->name);
    if (layer->heads > 1)
        reason_add(arena, reasons, layer->spec->heads.span,
                   "heads: %lld (the loop multiplies full "
                   "matrices)",
                   (long long)layer->heads);
    if (layer->recurrent_dropout > 0)
        reason_add(arena, reasons, layer->spec->recurrent_dropout.span,
                   "recurrent_dropout: %g (the loop has none)", layer->recurrent_dropout);
}

/// Two products and a pointwise kernel a step, of a launch each.
static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    (void)arena;
    const Layer *layer = context->layer;
    const double step_us = 12.0;
    choice->threads = 256;
    choice->cost_us = 8.0 + input_product_us(context) + (double)context->timesteps * step_us;
    choice->packed_bytes =
        layer->cell->R.count * layer->units * layer->units * operand_bytes(context->precision);
    choice->memory_bytes =
        context->batch * (context->timesteps + 1) * layer->cell->W.count * layer->units * 4;
    choice->reason = "for comparison: a launch for each product and pointwise part of a step";
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    (void)choice;
    text_addf(out, "#define RNN_INPUTS %lld\n\n", (long long)context->layer->inputs);
    cell_print_operations(context->layer->cell, out);
    text_add(out, "\n#include \"cuda/loop.cu\"\n");
}

const Variant variant_loop = {
    .name = "loop",
    .kind = RNNC_VARIANT_LOOP,
    .gpu = true,
    .for_comparison = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
