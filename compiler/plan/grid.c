// Numbers of persistent_grid: tries shares of the units and rows of the batch, and keeps the
// cheapest that fits. The shapes are those of templates/cuda/grid_product.cuh; the times are fitted
// to 108 layouts that benchmarks/cost_models.py measured on an H200, and to 128 bytes a cycle of
// shared memory. Waits have become shorter since, most for one row of float32: GRU 1024 takes
// 1.2 us a step, input product included, where 2.1 are estimated.
#include "plan/grid.h"

#include "plan/cta.h"

enum { WARPS = 8, THREADS = 256, RING = 4, SHARE_UNIT = 4, SHARE_MAX = 128, FRAGMENT_BYTES = 16 };

/// Registers of a thread: the limit, and those for addresses, the pointwise part and fetching.
enum { REGISTERS = 248, REGISTERS_BASE = 72, HELD_MAX = 40 };

/// As RNN_LOAD and RNN_LOADS_MAX of the skeleton.
enum { LOAD = 4, LOADS_MAX = 12 };

static int64_t divide_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit;
}

static int word_elements(Precision precision)
{
    return operand_bytes(precision) == 2 ? 2 : 1;
}

GridTiles grid_tiles(Precision precision, int rows)
{
    const int word = word_elements(precision), lanes = rows > 1 || word == 2 ? 4 : 8;
    const bool on_cores = lanes == 4;
    return (GridTiles){.on_cores = on_cores,
                       .tile_rows = on_cores ? 16 : 4,
                       .load_elements = lanes * LOAD,
                       .load_tiles = on_cores ? 2 / word : 1,
                       .loads_apart = lanes * (rows < 8 ? rows : 8)};
}

static int64_t share_of(const Layer *layer, const GridLayout *layout, Domain domain)
{
    return domain == DOMAIN_UNITS
               ? layout->share
               : divide_up(divide_up(layer->projection, layout->ctas), SHARE_UNIT) * SHARE_UNIT;
}

/// Shapes of all phases: fragments, the widest partial sums, the registers that a product needs.
typedef struct {
    int64_t fragments, tile_rows, product_registers, buffer_loads, operand_bytes, items;
} Shapes;

int64_t grid_product_registers(Precision precision, int rows, int64_t tiles, int64_t loads)
{
    const int64_t row_tiles = divide_up(rows, 8);
    const int64_t half = LOADS_MAX / 2 / row_tiles, lot = half > 1 ? half : 1;
    const int64_t under_way = loads * row_tiles <= LOADS_MAX ? loads : 2 * lot;
    if (!grid_tiles(precision, rows).on_cores)
        return tiles + 4 * under_way;
    return 4 * row_tiles * (tiles + under_way) + (precision == PRECISION_FLOAT32 ? 8 * tiles : 0);
}

static Shapes shapes_of(const PlanContext *context, const GridLayout *layout)
{
    const Layer *layer = context->layer;
    const int64_t row_tiles = divide_up(layout->rows, 8);
    const GridTiles of = grid_tiles(context->precision, layout->rows);
    Shapes shapes = {0};
    for (int p = 0; p < layer->cell->phase_count; p++) {
        const CellPhase *phase = &layer->cell->phases[p];
        const int64_t share = share_of(layer, layout, phase->domain);
        const int64_t items = divide_up(share * layout->rows, THREADS);
        shapes.items = items > shapes.items ? items : shapes.items;
        if (phase->row_count == 0)
            continue;
        const int64_t depth = layer_domain_size(layer, phase->operand_domain);
        const int64_t tiles = divide_up(phase->row_count * share, of.tile_rows);
        const int64_t loads = divide_up(depth, (int64_t)WARPS * of.load_elements);
        const int64_t registers =
            grid_product_registers(context->precision, layout->rows, tiles, loads);
        shapes.fragments += tiles * loads * of.load_tiles;
        if (tiles * of.tile_rows > shapes.tile_rows)
            shapes.tile_rows = tiles * of.tile_rows;
        if (registers > shapes.product_registers)
            shapes.product_registers = registers;
        shapes.buffer_loads += 2 * layout->replicas * WARPS * loads * row_tiles * of.loads_apart;
        shapes.operand_bytes += depth * 4;
    }
    return shapes;
}

static int held_fragments(const PlanContext *context, const Shapes *shapes)
{
    const Cell *cell = context->layer->cell;
    const int64_t values = shapes->items * (cell->W.count + cell->b.count + cell->rb.count +
                                            cell->p.count + 2 * cell->state_count);
    int64_t held = (REGISTERS - REGISTERS_BASE - shapes->product_registers - values) / 4;
    held = held > HELD_MAX ? HELD_MAX : held > 0 ? held : 0;
    return (int)(held < shapes->fragments ? held : shapes->fragments);
}

int grid_processors(const PlanContext *context)
{
    return context->device->sm_count / context->at_once;
}

/// What a step costs: microseconds of a phase, and more for each CTA that takes part, for each
/// kilobyte of the operand and for each cycle's worth of partial sums; cycles of a fragment of R
/// with a tile of rows.
typedef struct {
    double phase, cta, kilobyte, sums, fragment;
} Rates;

static Rates rates_of(const PlanContext *context, const GridLayout *layout)
{
    if (!grid_tiles(context->precision, layout->rows).on_cores)
        return (Rates){1.28, 0, 0.058, 0, 47.4};
    if (word_elements(context->precision) == 2)
        return (Rates){0.85, 0.0031, 0.023, 1.8, layout->rows <= 2 ? 13.9 : 8.3};
    const double products = context->precision == PRECISION_FLOAT32 ? 3 : 1;
    return (Rates){0.91, 0.0072, 0.0385, 0, 16.6 * products};
}

/// What a phase gains by waiting before it asks for its operand, as rnn_patience does.
static double patience_us(const PlanContext *context, const GridLayout *layout, int64_t rows)
{
    if (rows < 4 && word_elements(context->precision) == 2)
        return 0;
    if (layout->share * layout->rows < THREADS)
        return 0.3;
    return rows >= 16 ? 0.25 : 0;
}

/// Microseconds of one step of all rows.
static double step_us(const PlanContext *context, const GridLayout *layout, const Shapes *shapes)
{
    const Rates rates = rates_of(context, layout);
    const int64_t groups_needed = divide_up(context->batch, layout->rows);
    const int64_t groups = grid_processors(context) / layout->ctas;
    const int64_t waves = divide_up(groups_needed, groups);
    const int64_t rows = context->batch < layout->rows ? context->batch : layout->rows;
    const double row_tiles = (double)divide_up(layout->rows, 8);
    const double shared_cycles =
        (double)(shapes->fragments - layout->held) * THREADS * FRAGMENT_BYTES / 128;
    const double core_cycles = (double)shapes->fragments * row_tiles * rates.fragment;
    const double multiply = core_cycles > shared_cycles ? core_cycles : shared_cycles;
    const double sums = (double)(2 * WARPS * shapes->tile_rows * layout->rows * 4) / 128;
    const double exchange = rates.phase - patience_us(context, layout, rows) +
                            rates.cta * layout->ctas +
                            rates.kilobyte * (double)(rows * shapes->operand_bytes) / 1e3;
    return (double)waves * context->layer->cell->phase_count *
           (exchange + (rates.sums * sums + multiply) / 1755);
}

/// Copies of the operand, so that not all CTAs read the same lines; each row is written to all.
static int replicas_of(int ctas, int rows)
{
    const int wanted = ctas >= 64 ? 8 : ctas >= 32 ? 4 : ctas >= 8 ? 2 : 1;
    const int written = 32 / rows;
    return wanted < written ? wanted : written;
}

static GridLayout layout_with(const PlanContext *context, int share, int rows)
{
    const Layer *layer = context->layer;
    GridLayout layout = {.share = share, .rows = rows, .ring = RING};
    layout.ctas = (int)divide_up(layer->units, share);
    layout.replicas = replicas_of(layout.ctas, rows);
    const Shapes shapes = shapes_of(context, &layout);
    layout.held = held_fragments(context, &shapes);
    layout.fragments = (int)shapes.fragments;
    layout.shared_bytes = (int64_t)layout.ring * rows * layer->cell->W.count * share * 4 +
                          2 * WARPS * shapes.tile_rows * rows * 4 +
                          (shapes.fragments - layout.held) * (int64_t)THREADS * FRAGMENT_BYTES +
                          2 * layout.ring * rows * 4;
    layout.packed_bytes = layout.ctas * shapes.fragments * (int64_t)THREADS * FRAGMENT_BYTES;
    layout.buffer_bytes = shapes.buffer_loads * FRAGMENT_BYTES;
    layout.step_us = step_us(context, &layout, &shapes);
    layout.numbers = (WorkLayout){{{"share", share}, {"rows", rows}}, 2};
    return layout;
}

bool grid_layout(const PlanContext *context, GridLayout *out)
{
    bool found = false;
    *out = (GridLayout){.shared_bytes = INT64_MAX};
    // A module for any batch gets whole tiles of rows; two units of a word lie in one warp.
    const int rows_max = 32 / word_elements(context->precision);
    for (int rows = context->model->batch ? 1 : 8; rows <= rows_max; rows *= 2)
        for (int share = SHARE_UNIT; share <= SHARE_MAX; share += SHARE_UNIT) {
            if (divide_up(context->layer->units, share) > grid_processors(context))
                continue;
            const GridLayout layout = layout_with(context, share, rows);
            if (!layout_has(&layout.numbers, &context->layout))
                continue;
            const bool fits = layout.shared_bytes <= context->device->shared_bytes_per_cta;
            if (fits ? !found || layout.step_us < out->step_us
                     : !found && layout.shared_bytes < out->shared_bytes)
                *out = layout;
            if (fits && context->layouts)
                layout_list_add(context->layouts, &layout.numbers, layout.step_us);
            found |= fits;
        }
    return found;
}
