// Variant persistent_cluster: one launch for all steps; a thread-block cluster shares R and some
// rows of the batch, and exchanges what its products need through distributed shared memory.
#include "plan/cluster.h"
#include "plan/cta.h"
#include "rnnc/module.h"

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
    cluster_print_numbers(&layout, out);
    text_add(out, "\n#include \"cuda/persistent_cluster.cu\"\n");
}

const Variant variant_persistent_cluster = {
    .name = "persistent_cluster",
    .kind = RNNC_VARIANT_PERSISTENT_CLUSTER,
    .gpu = true,
    .check = cluster_check,
    .estimate = estimate,
    .print_stub = print_stub,
};
