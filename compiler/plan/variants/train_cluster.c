// Variant train_cluster: training in one launch for all steps forward and one back; a thread-block
// cluster shares the matrices and some rows of the batch in each.
#include "cell/cell_gradient.h"
#include "plan/back.h"
#include "plan/cluster.h"
#include "plan/cta.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    BackLayout back;
    const int before = reasons->count;
    cluster_check(arena, context, reasons);
    if (reasons->count == before && context->layer->cell->gradient && !back_layout(context, &back))
        cluster_refuse(arena, context, back.ctas, back.shared_bytes, reasons);
}

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    ClusterLayout layout;
    BackLayout back;
    cluster_layout(context, &layout);
    back_layout(context, &back);
    choice->threads = 32 * layout.warps * layout.split;
    choice->rows_per_cta = layout.rows;
    choice->unroll = 1;
    choice->ctas = layout.ctas;
    choice->layout = layout.numbers;
    choice->shared_bytes = layout.shared_bytes;
    choice->packed_bytes = layout.packed_bytes;
    choice->cost_us = 20.0 + 3 * input_product_us(context) +
                      (double)context->timesteps * (layout.step_us + back.step_us);
    choice->memory_bytes = training_memory_bytes(context);
    choice->reason = arena_format(arena,
                                  "clusters of %d CTAs share R, %d rows each; of %d, %d rows each, "
                                  "in the backward pass",
                                  layout.ctas, layout.rows, back.ctas, back.rows);
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    ClusterLayout layout;
    BackLayout back;
    (void)choice;
    cluster_layout(context, &layout);
    back_layout(context, &back);
    cluster_print_numbers(&layout, out);
    text_addf(out,
              "#define RNN_BACK_CTAS %d\n#define RNN_BACK_WARPS %d\n#define RNN_BACK_ROWS %d\n"
              "#define RNN_BACK_HELD %d\n#define RNN_BACK_SHARED_BYTES %lld\n\n"
              "#include \"cuda/train_cluster.cu\"\n",
              back.ctas, back.warps, back.rows, back.held, (long long)back.shared_bytes);
}

const Variant variant_train_cluster = {
    .name = "train_cluster",
    .kind = RNNC_VARIANT_TRAIN_CLUSTER,
    .gpu = true,
    .trains = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
