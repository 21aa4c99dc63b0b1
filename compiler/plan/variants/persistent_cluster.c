// Variant persistent_cluster: one launch for all steps; a thread-block cluster shares R and some
// rows of the batch, and exchanges what its products need through distributed shared memory.
#include "plan/cluster.h"
#include "plan/cta.h"
#include "plan/sharing.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    const Layer *layer = context->layer;
    ClusterLayout layout;
    if (!sharing_check(arena, context, "cluster", reasons))
        return;
    if (!cluster_is_known(context->device))
        reason_add(arena, reasons, (Span){0}, "%s (sm_%d) has no thread-block clusters",
                   context->device->name, context->device->arch);
    else if (!cluster_layout(context, &layout))
        reason_add(arena, reasons, layer->spec->units.span,
                   "units: %lld (each of the %d CTAs of a cluster would need %lld KB of shared "
                   "memory beside its registers; %s has %lld KB)",
                   (long long)layer->units, layout.ctas, (long long)(layout.shared_bytes / 1024),
                   context->device->name,
                   (long long)(context->device->shared_bytes_per_cta / 1024));
}

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    ClusterLayout layout;
    cluster_layout(context, &layout);
    choice->threads = 32 * layout.warps * layout.split;
    choice->rows_per_cta = layout.rows;
    choice->unroll = 1;
    choice->ctas = layout.ctas;
    choice->layout = layout.numbers;
    choice->shared_bytes = layout.shared_bytes;
    choice->packed_bytes = layout.packed_bytes;
    choice->cost_us = 7.0 + input_product_us(context) + (double)context->timesteps * layout.step_us;
    choice->memory_bytes = context->batch * context->timesteps * context->layer->cell->W.count *
                           context->layer->units * 4;
    choice->reason = arena_format(
        arena, "clusters of %d CTAs share R, %d rows each; %d%% of it in registers", layout.ctas,
        layout.rows, layout.fragments ? layout.held * 100 / layout.fragments : 100);
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    ClusterLayout layout;
    (void)choice;
    cluster_layout(context, &layout);
    text_addf(out,
              "#define RNN_CTAS %d\n#define RNN_WARPS %d\n#define RNN_SPLIT %d\n"
              "#define RNN_ROWS %d\n#define RNN_RING %d\n#define RNN_HELD %d\n"
              "#define RNN_HALVES %d\n#define RNN_SHARED_BYTES %lld\n\n#include "
              "\"cuda/persistent_cluster.cu\"\n",
              layout.ctas, layout.warps, layout.split, layout.rows, layout.ring, layout.held,
              layout.halves, (long long)layout.shared_bytes);
}

const Variant variant_persistent_cluster = {
    .name = "persistent_cluster",
    .kind = RNNC_VARIANT_PERSISTENT_CLUSTER,
    .gpu = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
