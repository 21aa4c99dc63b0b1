// Numbers of the backward pass of train_cluster: tries clusters, warps and rows of the batch, and
// keeps the cheapest that fits. The shapes are those of templates/cuda/back_product.cuh, which
// checks the bytes of shared memory; the times are those of persistent_cluster's parts, not fitted.
#include "plan/back.h"

#include "cell/cell_gradient.h"
#include "plan/cluster.h"

enum {
    CTAS_MAX = 16,
    WARPS_MAX = 8,
    ROWS_MAX = 16,
    FRAGMENT_BYTES = 16,
    BARRIER_BYTES = 128,
    GROUP = 8, // units of one vector that a warp has together
    TILE = 16, // deltas, or units that they return to, of one mma
    SHARED_BYTES_PER_US = 450 * 1024
};

/// Registers of a thread beside fragments, sums and the values of its units.
enum { REGISTERS_BASE = 32, REGISTERS_MAX = 255, HELD_MAX = 40, CHUNK = 8 };

/// Shapes of all phases, as the skeleton has them.
typedef struct {
    int64_t fragments, most_tiles, operand_bytes, returned_bytes, groups, products;
    int64_t sent_bytes; ///< by a CTA in a step, to all of the cluster
} Shapes;

static int64_t divide_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int row_tiles_of(const BackLayout *layout)
{
    return (layout->rows + 7) / 8;
}

static int parts_of(const PlanContext *context)
{
    return context->precision == PRECISION_FLOAT32 ? 2 : 1;
}

static int64_t groups_of(const BackLayout *layout, int64_t size)
{
    return divide_up(size, (int64_t)GROUP * layout->ctas * layout->warps);
}

static Shapes shapes_of(const PlanContext *context, const BackLayout *layout)
{
    const Layer *layer = context->layer;
    const int parts = parts_of(context), row_tiles = row_tiles_of(layout);
    Shapes shapes = {.groups = groups_of(layout, layer->units)};
    for (int p = 0; p < layer->cell->phase_count; p++) {
        const CellPhase *phase = &layer->cell->phases[p];
        const int64_t groups = groups_of(layout, layer_domain_size(layer, phase->domain));
        shapes.groups = most(shapes.groups, groups);
        if (phase->row_count == 0)
            continue;
        const int64_t depth = layer_domain_size(layer, phase->operand_domain);
        const int64_t own = layout->warps * groups_of(layout, depth) * GROUP / TILE;
        const int64_t k_tiles = phase->row_count * layout->warps * groups * GROUP / TILE;
        const int64_t tiles = divide_up(layout->ctas * own, layout->warps);
        shapes.products++;
        shapes.fragments += tiles * k_tiles * parts;
        shapes.most_tiles = most(shapes.most_tiles, tiles);
        shapes.operand_bytes += k_tiles * 2 * row_tiles * 32 * 4 * parts;
        shapes.returned_bytes += 2 * layout->ctas * own * TILE * GROUP * row_tiles * 4;
        shapes.sent_bytes += layout->ctas * own * TILE * layout->rows * 4;
    }
    return shapes;
}

static int64_t items_of(const BackLayout *layout, const Shapes *shapes)
{
    return shapes->groups * row_tiles_of(layout) * 2;
}

static int64_t other_registers(const PlanContext *context, const BackLayout *layout,
                               const Shapes *shapes)
{
    const Cell *cell = context->layer->cell;
    const CellGradient *gradient = cell->gradient;
    const int64_t values = gradient->saved_count + gradient->delta_count + 4 * cell->state_count;
    const int64_t sums = at_most(shapes->most_tiles, CHUNK / parts_of(context));
    return REGISTERS_BASE + sums * row_tiles_of(layout) * parts_of(context) * 4 +
           items_of(layout, shapes) * values + shapes->groups * (cell->p.count + shapes->products) +
           6 * row_tiles_of(layout);
}

static int held_fragments(const PlanContext *context, const BackLayout *layout,
                          const Shapes *shapes)
{
    const int64_t by_threads =
        context->device->registers_per_sm / (32 * (int64_t)layout->warps) / 8 * 8;
    const int64_t limit = by_threads < REGISTERS_MAX ? by_threads : REGISTERS_MAX;
    int64_t held = (limit - other_registers(context, layout, shapes)) / 4;
    held = held > HELD_MAX ? HELD_MAX : held > 0 ? held : 0;
    return (int)(held < shapes->fragments ? held : shapes->fragments);
}

/// The skeleton's rnn_back_shared_bytes.
static int64_t shared_bytes_of(const PlanContext *context, const BackLayout *layout,
                               const Shapes *shapes)
{
    const bool is_scaled = context->precision != PRECISION_BFLOAT16;
    return BARRIER_BYTES + shapes->operand_bytes + shapes->returned_bytes +
           (is_scaled ? (int64_t)GROUP * row_tiles_of(layout) * layout->warps * 4 : 0) +
           (shapes->fragments - layout->held) * 32 * layout->warps * FRAGMENT_BYTES;
}

/// Microseconds of one step of all rows, which wait for each other where the clusters are too many.
static double step_us(const PlanContext *context, const BackLayout *layout, const Shapes *shapes)
{
    const int64_t clusters = divide_up(context->batch, layout->rows) * context->at_once;
    const int64_t waves = divide_up(clusters, clusters_at_once(context->device, layout->ctas));
    const double on_one = (double)divide_up(layout->warps, 4); // of the tensor cores
    const bool is_scaled = context->precision != PRECISION_BFLOAT16;
    const double exchange =
        (0.35 + 0.003 * layout->ctas + (is_scaled ? 0.12 : 0.05)) * (double)shapes->products +
        0.0255 * (double)shapes->sent_bytes / 1e3;
    const double multiply = 0.0022 * (double)(shapes->fragments * row_tiles_of(layout)) * on_one;
    const double spilled_bytes =
        (double)((shapes->fragments - layout->held) * 32 * layout->warps * FRAGMENT_BYTES);
    const double pointwise = 0.12 * (double)items_of(layout, shapes) * on_one;
    return (double)waves * (exchange + multiply + spilled_bytes / SHARED_BYTES_PER_US + pointwise);
}

bool back_layout(const PlanContext *context, BackLayout *out)
{
    bool found = false;
    *out = (BackLayout){.shared_bytes = INT64_MAX};
    for (int ctas = 1; ctas <= CTAS_MAX; ctas *= 2)
        for (int warps = 2; warps <= WARPS_MAX; warps += 2)
            for (int rows = 2; rows <= ROWS_MAX; rows *= 2) {
                BackLayout layout = {.ctas = ctas, .warps = warps, .rows = rows};
                const Shapes shapes = shapes_of(context, &layout);
                layout.held = held_fragments(context, &layout, &shapes);
                layout.fragments = (int)shapes.fragments;
                layout.shared_bytes = shared_bytes_of(context, &layout, &shapes);
                layout.step_us = step_us(context, &layout, &shapes);
                const bool fits = layout.shared_bytes <= context->device->shared_bytes_per_cta;
                if (fits ? !found || layout.step_us < out->step_us
                         : !found && layout.shared_bytes < out->shared_bytes)
                    *out = layout;
                found |= fits;
            }
    return found;
}
