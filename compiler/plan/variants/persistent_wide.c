// Variant persistent_wide: one launch for all steps; groups of CTAs share R and many rows, exchange
// operands through L2 and multiply them by wgmma.
#include "plan/cta.h"
#include "plan/grid.h"
#include "plan/sharing.h"
#include "plan/wide.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    const Layer *layer = context->layer;
    WideLayout layout;
    if (!sharing_check(arena, context, "group", reasons))
        return;
    if (!wide_is_known(context->device))
        reason_add(arena, reasons, (Span){0}, "%s (sm_%d) has no wgmma", context->device->name,
                   context->device->arch);
    else if (operand_bytes(context->precision) != 2)
        reason_add(arena, reasons, context->model->spec->precision_span,
                   "precision: %s (its operands have 16 bits)", precision_name(context->precision));
    else if (!wide_layout(context, &layout))
        reason_add(arena, reasons, layer->spec->units.span,
                   "units: %lld (%d CTAs would share R, each with %lld KB of shared memory beside "
                   "its registers; %s has %d SMs of %lld KB)",
                   (long long)layer->units, layout.ctas, (long long)(layout.shared_bytes / 1024),
                   context->device->name, context->device->sm_count,
                   (long long)(context->device->shared_bytes_per_cta / 1024));
}

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    WideLayout layout;
    wide_layout(context, &layout);
    const int64_t groups = grid_processors(context) / layout.ctas;
    choice->threads = 384;
    choice->rows_per_cta = layout.rows * layout.turns;
    choice->unroll = 1;
    choice->ctas = layout.ctas;
    choice->layout = layout.numbers;
    choice->shared_bytes = layout.shared_bytes;
    choice->packed_bytes = layout.packed_bytes;
    choice->buffer_bytes = layout.buffer_bytes;
    choice->cost_us = 8.0 + input_product_us(context) + (double)context->timesteps * layout.step_us;
    choice->memory_bytes = context->batch * context->timesteps * context->layer->cell->W.count *
                               context->layer->units * 4 +
                           groups * layout.buffer_bytes;
    choice->reason =
        arena_format(arena, "groups of %d CTAs share R, %d x %d rows each; %d%% of it in registers",
                     layout.ctas, layout.turns, layout.rows, layout.held * 100 / layout.blocks);
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    WideLayout layout;
    (void)choice;
    wide_layout(context, &layout);
    text_addf(out,
              "#define RNN_CTAS %d\n#define RNN_SHARE %d\n#define RNN_ROWS %d\n"
              "#define RNN_TURNS %d\n#define RNN_SLICE %d\n#define RNN_SLOTS %d\n"
              "#define RNN_HELD %d\n#define RNN_SHARED_BYTES %lld\n\n"
              "#include \"cuda/persistent_wide.cu\"\n",
              layout.ctas, layout.share, layout.rows, layout.turns, layout.slice, layout.slots,
              layout.held, (long long)layout.shared_bytes);
}

const Variant variant_persistent_wide = {
    .name = "persistent_wide",
    .kind = RNNC_VARIANT_PERSISTENT_WIDE,
    .gpu = true,
    .own_arch = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
