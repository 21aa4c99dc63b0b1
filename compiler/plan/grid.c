// Numbers of persistent_grid: tries shares of the units and rows of the batch, and keeps the
// cheapest that fits. The shapes are those of templates/cuda/persistent_grid.cu; the times come
// from measurements of the exchange through L2 (16 CTAs 0.54 us, 132 CTAs 0.8 to 1 us) and the
// rate of mma.sync (6.2 cycles a tile).
#include "plan/grid.h"

#include "plan/cta.h"

enum { WARPS = 8, THREADS = 256, RING = 4, SHARE_UNIT = 4, SHARE_MAX = 128, FRAGMENT_BYTES = 16 };

/// Registers of a thread: the limit, and those for addresses, the pointwise part and fetching.
enum { REGISTERS = 248, REGISTERS_BASE = 80, REGISTERS_PER_VALUE = 2, HELD_MAX = 40 };

static int64_t divide_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit;
}

static int word_elements(const PlanContext *context)
{
    return operand_bytes(context->precision) == 2 ? 2 : 1;
}

static int64_t share_of(const Layer *layer, const GridLayout *layout, Domain domain)
{
    return domain == DOMAIN_UNITS
               ? layout->share
               : divide_up(divide_up(layer->projection, layout->ctas), SHARE_UNIT) * SHARE_UNIT;
}

/// Shapes of all phases: fragments, the widest partial sums, the registers that a product needs.
typedef struct {
    int64_t fragments, tile_rows, product_registers, buffer_pairs, operand_bytes, items;
} Shapes;

static Shapes shapes_of(const PlanContext *context, const GridLayout *layout)
{
    const Layer *layer = context->layer;
    const int row_tiles = layout->rows / 8, tile_k = 8 * word_elements(context);
    Shapes shapes = {0};
    for (int p = 0; p < layer->cell->phase_count; p++) {
        const CellPhase *phase = &layer->cell->phases[p];
        const int64_t share = share_of(layer, layout, phase->domain);
        const int64_t items = divide_up(share * layout->rows, THREADS);
        shapes.items = items > shapes.items ? items : shapes.items;
        if (phase->row_count == 0)
            continue;
        const int64_t depth = layer_domain_size(layer, phase->operand_domain);
        const int64_t tiles = divide_up(phase->row_count * share, 16);
        const int64_t k_tiles = divide_up(depth, WARPS * tile_k);
        const int64_t registers = 4 * row_tiles * (tiles + k_tiles);
        shapes.fragments += tiles * k_tiles;
        shapes.tile_rows = tiles * 16 > shapes.tile_rows ? tiles * 16 : shapes.tile_rows;
        if (registers > shapes.product_registers)
            shapes.product_registers = registers;
        shapes.buffer_pairs += 2 * layout->replicas * WARPS * k_tiles * row_tiles * 32;
        shapes.operand_bytes += depth * 8 / word_elements(context);
    }
    return shapes;
}

static int held_fragments(const PlanContext *context, const Shapes *shapes)
{
    const Cell *cell = context->layer->cell;
    const int64_t values = shapes->items * (cell->W.count + cell->b.count + cell->rb.count +
                                            cell->p.count + 2 * cell->state_count);
    int64_t held = (REGISTERS - REGISTERS_BASE - shapes->product_registers -
                    REGISTERS_PER_VALUE * values / 2) /
                   4;
    held = held > HELD_MAX ? HELD_MAX : held > 0 ? held : 0;
    return (int)(held < shapes->fragments ? held : shapes->fragments);
}

/// Microseconds of one step of all rows.
static double step_us(const PlanContext *context, const GridLayout *layout, const Shapes *shapes)
{
    const int64_t groups_needed = divide_up(context->batch, layout->rows);
    const int64_t groups = context->device->sm_count / layout->ctas;
    const int64_t waves = divide_up(groups_needed, groups);
    const int64_t rows = context->batch < layout->rows ? context->batch : layout->rows;
    const double products = context->precision == PRECISION_FLOAT32 ? 3.0 : 1.0;
    const double mma_cycles = (double)shapes->fragments * (layout->rows / 8) * products * 2 * 6.2 +
                              (products > 1 ? (double)shapes->fragments * 16 : 0);
    const double shared_cycles =
        (double)(shapes->fragments - layout->held) * THREADS * FRAGMENT_BYTES / 128;
    const double multiply = mma_cycles > shared_cycles ? mma_cycles : shared_cycles;
    const double exchange =
        0.55 + 0.003 * layout->ctas + (double)(rows * shapes->operand_bytes) / 40e3;
    const double reduce = 0.12 + 0.06 * (double)shapes->items;
    return (double)waves * context->layer->cell->phase_count *
           (exchange + reduce + multiply / 1755);
}

static GridLayout layout_with(const PlanContext *context, int share, int rows)
{
    const Layer *layer = context->layer;
    GridLayout layout = {.share = share, .rows = rows, .ring = RING};
    layout.ctas = (int)divide_up(layer->units, share);
    layout.replicas = layout.ctas >= 64 ? 8 : layout.ctas >= 32 ? 4 : layout.ctas >= 8 ? 2 : 1;
    const Shapes shapes = shapes_of(context, &layout);
    layout.held = held_fragments(context, &shapes);
    layout.fragments = (int)shapes.fragments;
    layout.shared_bytes = (int64_t)layout.ring * rows * layer->cell->W.count * share * 4 +
                          2 * WARPS * shapes.tile_rows * rows * 4 +
                          (shapes.fragments - layout.held) * (int64_t)THREADS * FRAGMENT_BYTES +
                          2 * layout.ring * rows * 4;
    layout.packed_bytes = layout.ctas * shapes.fragments * (int64_t)THREADS * FRAGMENT_BYTES;
    layout.buffer_bytes = shapes.buffer_pairs * FRAGMENT_BYTES;
    layout.step_us = step_us(context, &layout, &shapes);
    return layout;
}

bool grid_layout(const PlanContext *context, GridLayout *out)
{
    bool found = false;
    *out = (GridLayout){.shared_bytes = INT64_MAX};
    for (int rows = 8; rows <= 16; rows += 8)
        for (int share = SHARE_UNIT; share <= SHARE_MAX; share += SHARE_UNIT) {
            if (divide_up(context->layer->units, share) > context->device->sm_count)
                continue;
            const GridLayout layout = layout_with(context, share, rows);
            const bool fits = layout.shared_bytes <= context->device->shared_bytes_per_cta;
            if (fits ? !found || layout.step_us < out->step_us
                     : !found && layout.shared_bytes < out->shared_bytes)
                *out = layout;
            found |= fits;
        }
    return found;
}
