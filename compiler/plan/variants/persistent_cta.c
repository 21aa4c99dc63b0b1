// Variant persistent_cta: one launch for all steps, a CTA per batch row, R in registers and shared
// memory.
#include "plan/cta.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    const Layer *layer = context->layer;
    CtaLayout layout;
    if (cta_layout(context, false, &layout))
        return;
    if (layout.shared_bytes == INT64_MAX || layout.chunks * 4 > 1024)
        reason_add(arena, reasons, layer->spec->units.span,
                   "units: %lld (one CTA has 1024 threads, each with at most 1024 weights)",
                   (long long)layer->units);
    else
        reason_add(arena, reasons, layer->spec->units.span,
                   "units: %lld (beside registers, one CTA would need %lld KB of shared memory; "
                   "%s has %lld KB)",
                   (long long)layer->units, (long long)(layout.shared_bytes / 1024),
                   context->device->name,
                   (long long)(context->device->shared_bytes_per_cta / 1024));
}

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    CtaLayout layout;
    cta_layout(context, false, &layout);
    cta_fill(&layout, 1, choice);
    choice->cost_us = cta_cost_us(context, &layout);
    choice->memory_bytes = context->batch * context->timesteps * context->layer->cell->W.count *
                           context->layer->units * 4;
    choice->reason =
        arena_format(arena, "%d%% of the recurrent weights in registers, the rest in shared memory",
                     layout.chunks ? layout.register_chunks * 100 / layout.chunks : 100);
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    cta_print_stub(context, choice, false, "cuda/persistent_cta.cu", out);
}

const Variant variant_persistent_cta = {
    .name = "persistent_cta",
    .kind = RNNC_VARIANT_PERSISTENT_CTA,
    .gpu = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
