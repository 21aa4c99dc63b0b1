// Variant unrolled: one launch, the time loop written out several times, all of R in registers.
// For small H, and whenever the spec asks for `unroll`.
#include "plan/cta.h"
#include "rnnc/module.h"

enum { UNROLL_AUTO = 8, UNROLL_MAX = 32, CODE_MAX = 4096, STEP_INSTRUCTIONS = 200 };

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    const Layer *layer = context->layer;
    CtaLayout layout;
    if (context->unroll == 0)
        reason_add(arena, reasons, context->model->spec->unroll.span,
                   "unroll: false (the spec forbids it)");
    if (!cta_layout(context, true, &layout))
        reason_add(arena, reasons, layer->spec->units.span,
                   "units: %lld (the recurrent weights do not fit the registers of one SM)",
                   (long long)layer->units);
}

/// The factor asked for, at most what keeps the loop within the instruction cache.
static int factor(const PlanContext *context, const CtaLayout *layout)
{
    int64_t most = CODE_MAX / (layout->chunks * 4 + STEP_INSTRUCTIONS);
    most = most > UNROLL_MAX ? UNROLL_MAX : most < 1 ? 1 : most;
    int64_t asked = context->unroll > 0 ? context->unroll : UNROLL_AUTO;
    return (int)(asked < most ? asked : most);
}

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    (void)arena;
    CtaLayout layout;
    cta_layout(context, true, &layout);
    cta_fill(&layout, factor(context, &layout), choice);
    choice->cost_us = 0.97 * cta_cost_us(context, &layout);
    choice->memory_bytes = context->batch * context->timesteps * context->layer->cell->W.count *
                           context->layer->units * 4;
    choice->reason = "the recurrent weights fit the registers";
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    cta_print_stub(context, choice, true, "cuda/unrolled.cu", out);
}

const Variant variant_unrolled = {
    .name = "unrolled",
    .kind = RNNC_VARIANT_UNROLLED,
    .gpu = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
