// Variant persistent_grid: one launch for all steps; groups of CTAs share R and exchange what its
// products need through L2.
#include "plan/cta.h"
#include "plan/grid.h"
#include "plan/sharing.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    const Layer *layer = context->layer;
    GridLayout layout;
    if (sharing_check(arena, context, "group", reasons) && !grid_layout(context, &layout))
        reason_add(arena, reasons, layer->spec->units.span,
                   "units: %lld (%d CTAs would share R, each with %lld KB of shared memory beside "
                   "its registers; %s has %d SMs of %lld KB)",
                   (long long)layer->units, layout.ctas, (long long)(layout.shared_bytes / 1024),
                   context->device->name, context->device->sm_count,
                   (long long)(context->device->shared_bytes_per_cta / 1024));
}

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    GridLayout layout;
    grid_layout(context, &layout);
    const int64_t groups = grid_processors(context) / layout.ctas;
    choice->threads = 256;
    choice->rows_per_cta = layout.rows;
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
    choice->reason = arena_format(
        arena, "groups of %d CTAs share R, %d rows each; %d%% of it in registers", layout.ctas,
        layout.rows, layout.fragments ? layout.held * 100 / layout.fragments : 100);
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    GridLayout layout;
    (void)choice;
    grid_layout(context, &layout);
    text_addf(out,
              "#define RNN_CTAS %d\n#define RNN_SHARE %d\n#define RNN_ROWS %d\n"
              "#define RNN_RING %d\n#define RNN_HELD %d\n#define RNN_REPLICAS %d\n\n"
              "#include \"cuda/persistent_grid.cu\"\n",
              layout.ctas, layout.share, layout.rows, layout.ring, layout.held, layout.replicas);
}

const Variant variant_persistent_grid = {
    .name = "persistent_grid",
    .kind = RNNC_VARIANT_PERSISTENT_GRID,
    .gpu = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
