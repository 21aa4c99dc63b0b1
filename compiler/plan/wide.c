// Numbers of persistent_wide: tries shares of the units, rows of the batch and slices of K, and
// keeps the cheapest that fits. The shapes are those of templates/cuda/wide_product.cuh, which
// checks the bytes of shared memory; the times are fitted to GRUs, LSTMs and an rnn of 1024 to 2816
// units with 1 to 64 rows in float16 on an H200.
#include "plan/wide.h"

#include "plan/cta.h"
#include "plan/grid.h"

enum {
    WGMMA_ARCH = 90,
    THREADS = 256, // that multiply
    TILE = 64,     // rows of R, and units of K, of a block
    GROUPS = 2,    // warpgroups that take slices by turns
    SHARE_MAX = 128,
    SLICE_MAX = 512,
    SLOTS_MIN = 4,
    SLOTS_MAX = 16,
    FLAG_REPLICAS = 4,
    FLAG_UNIT = 128
};

/// Registers of a thread: those of a warpgroup that multiplies, those for addresses and the
/// pointwise part, those of a block. More blocks than HELD are held where memory needs it: ptxas
/// spills a little then.
enum { REGISTERS = 232, REGISTERS_BASE = 52, BLOCK_REGISTERS = 16, HELD = 6, HELD_MAX = 10 };

static int64_t divide_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit;
}

static int64_t round_up(int64_t value, int64_t unit)
{
    return divide_up(value, unit) * unit;
}

static int64_t share_of(const Layer *layer, const WideLayout *layout, Domain domain)
{
    const int64_t size = layer_domain_size(layer, domain);
    return size == layer->units ? layout->share : round_up(divide_up(size, layout->ctas), 2);
}

/// Shapes of all phases.
typedef struct {
    int64_t blocks;        ///< of a warpgroup
    int64_t block_bytes;   ///< of those blocks, as they lie in shared memory
    int64_t weight_rows;   ///< of R in a CTA, the most of a phase
    int64_t slices;        ///< of all products of a turn
    int64_t operand_bytes; ///< of a turn
    int64_t items;         ///< (unit, row) pairs of a thread
} Shapes;

static Shapes shapes_of(const Layer *layer, const WideLayout *layout)
{
    Shapes shapes = {0};
    for (int p = 0; p < layer->cell->phase_count; p++) {
        const CellPhase *phase = &layer->cell->phases[p];
        const int64_t share = share_of(layer, layout, phase->domain);
        const int64_t items = 2 * divide_up(share / 2 * layout->rows, THREADS);
        shapes.items = items > shapes.items ? items : shapes.items;
        if (phase->row_count == 0)
            continue;
        const int64_t depth = layer_domain_size(layer, phase->operand_domain);
        const int64_t rows = phase->row_count * share;
        const int64_t slices = divide_up(depth, GROUPS * layout->slice); // of a warpgroup
        const int64_t blocks = slices * (layout->slice / TILE);          // of a tile
        shapes.blocks += divide_up(rows, TILE) * blocks;
        shapes.block_bytes += rows * blocks * TILE * 2;
        shapes.weight_rows = rows > shapes.weight_rows ? rows : shapes.weight_rows;
        shapes.slices += GROUPS * slices;
    }
    shapes.operand_bytes = shapes.slices * layout->slice * layout->rows * 2;
    return shapes;
}

/// Bytes of the first `held` blocks of a warpgroup: tiles are whole but for a phase's last.
static int64_t held_bytes(const Layer *layer, const WideLayout *layout)
{
    int64_t bytes = 0, left = layout->held;
    for (int p = 0; p < layer->cell->phase_count; p++) {
        const CellPhase *phase = &layer->cell->phases[p];
        const int64_t rows = phase->row_count * share_of(layer, layout, phase->domain);
        const int64_t depth =
            phase->row_count > 0 ? layer_domain_size(layer, phase->operand_domain) : 0;
        const int64_t blocks = divide_up(depth, GROUPS * layout->slice) * (layout->slice / TILE);
        for (int64_t first = 0; first < rows && left > 0; first += TILE) {
            const int64_t count = blocks < left ? blocks : left;
            bytes += count * (rows - first < TILE ? rows - first : TILE) * TILE * 2;
            left -= count;
        }
    }
    return bytes;
}

/// Blocks that the registers hold beside sums and the items' values; negative: not even those.
static int64_t held_most(const Layer *layer, const WideLayout *layout, const Shapes *shapes)
{
    const Cell *cell = layer->cell;
    const int64_t sums = divide_up(shapes->weight_rows, TILE) * layout->rows / 2;
    const int64_t values = shapes->items * (cell->W.count + cell->carry_count +
                                            (layout->turns + 1) * cell->state_count);
    const int64_t left = REGISTERS - REGISTERS_BASE - sums - values;
    const int64_t held = left < 0 ? -1 : left / BLOCK_REGISTERS;
    return held < HELD_MAX ? held : HELD_MAX;
}

/// Shared memory but for the slots and their barriers.
static int64_t fixed_bytes(const Layer *layer, const WideLayout *layout, const Shapes *shapes)
{
    const Cell *cell = layer->cell;
    const int64_t rest = GROUPS * (shapes->block_bytes - held_bytes(layer, layout));
    const int64_t stride = layout->rows == 8 ? 8 : layout->rows + 8;
    const int64_t vectors = (cell->b.count + cell->rb.count + cell->p.count) * layout->share * 4;
    return round_up(rest, 128) + round_up(4 * shapes->weight_rows * stride * 4 + vectors, 16) + 16;
}

/// Turns that the batch has rows for.
static int64_t turns_of(const PlanContext *context, const WideLayout *layout)
{
    return context->batch > layout->rows ? layout->turns : 1;
}

/// Microseconds of one step of all rows. In a turn slices follow one another as slots are free: a
/// round of all slots takes a trip through L2 and the time to copy a slot, and each slice some time
/// of its own; then partial sums and the pointwise part. The trip of what has been published is
/// hidden where there is another turn.
static double step_us(const PlanContext *context, const WideLayout *layout, const Shapes *shapes)
{
    const int phases = context->layer->cell->phase_count;
    const double l2_bytes_per_us = 5.5e6, shared_bytes_per_us = 225e3, published_us = 1.88;
    const int64_t needed = divide_up(context->batch, (int64_t)layout->rows * layout->turns);
    const int64_t at_once = grid_processors(context) / layout->ctas;
    const int64_t groups = needed < at_once ? needed : at_once;
    const double slot_kb = layout->slice * layout->rows * 2 / 1024.0;
    const double rounds = (double)shapes->slices / layout->slots;
    const double by_rounds = (rounds > phases ? rounds : phases) * (0.57 + 0.0715 * slot_kb);
    const double by_l2 = (double)(groups * layout->ctas * shapes->operand_bytes) / l2_bytes_per_us;
    const double copy = (by_rounds > by_l2 ? by_rounds : by_l2) + 0.083 * (double)shapes->slices;
    const double tiles =
        (double)(GROUPS * (shapes->blocks - layout->held) * TILE * TILE * 2) / shared_bytes_per_us;
    const double sums = 0.445e-3 * (double)(shapes->weight_rows * layout->rows);
    const double spills = layout->held > HELD ? 0.07 * (layout->held - HELD) : 0;
    const double turn = copy + 0.54 * tiles + sums + spills;
    const double busy = (double)turns_of(context, layout) * turn;
    const double chain = published_us * phases + turn;
    return (double)divide_up(needed, groups) * (busy > chain ? busy : chain);
}

/// Completes a layout with as many slots as there is room for; false where it does not fit.
static bool complete(const PlanContext *context, const Shapes *shapes, WideLayout *layout)
{
    const Layer *layer = context->layer;
    const int64_t slot_bytes = (int64_t)layout->slice * layout->rows * 2 + 2 * 8;
    const int64_t fixed = fixed_bytes(layer, layout, shapes);
    const int64_t room = (context->device->shared_bytes_per_cta - fixed) / slot_bytes / 2 * 2;
    int64_t slots = turns_of(context, layout) * shapes->slices;
    slots = slots < SLOTS_MAX ? slots : SLOTS_MAX;
    slots = slots < room ? slots : room;
    layout->slots = (int)(slots > SLOTS_MIN ? slots : SLOTS_MIN);
    layout->blocks = (int)shapes->blocks;
    layout->shared_bytes = fixed + layout->slots * slot_bytes;
    layout->packed_bytes =
        layout->ctas * GROUPS *
        (shapes->block_bytes - held_bytes(layer, layout) + (int64_t)layout->held * TILE * TILE * 2);
    layout->buffer_bytes = 2 * layout->turns * shapes->operand_bytes +
                           (int64_t)4 * layer->cell->phase_count * layout->turns * FLAG_REPLICAS *
                               round_up(layout->ctas, FLAG_UNIT);
    layout->step_us = step_us(context, layout, shapes);
    return room >= SLOTS_MIN;
}

/// The layout with these numbers and the blocks in registers that make it cheapest.
static bool layout_with(const PlanContext *context, WideLayout layout, WideLayout *out)
{
    bool found = false;
    layout.ctas = (int)divide_up(context->layer->units, layout.share);
    layout.numbers = (WorkLayout){{{"share", layout.share},
                                   {"rows", layout.rows},
                                   {"turns", layout.turns},
                                   {"slice", layout.slice}},
                                  4};
    const Shapes shapes = shapes_of(context->layer, &layout);
    const int64_t most = held_most(context->layer, &layout, &shapes);
    *out = (WideLayout){.shared_bytes = INT64_MAX};
    for (int64_t held = most < HELD ? most : HELD; held >= 0 && held <= most; held++) {
        layout.held = (int)(held < shapes.blocks ? held : shapes.blocks);
        const bool fits = complete(context, &shapes, &layout);
        if (fits ? !found || layout.step_us < out->step_us
                 : !found && layout.shared_bytes < out->shared_bytes)
            *out = layout;
        found |= fits;
    }
    return found;
}

bool wide_is_known(const Device *device)
{
    return device->arch == WGMMA_ARCH;
}

bool wide_layout(const PlanContext *context, WideLayout *out)
{
    bool found = false;
    *out = (WideLayout){.shared_bytes = INT64_MAX};
    for (int rows = 8; rows <= 64; rows *= 2)
        for (int turns = 1; turns <= 2; turns++)
            for (int slice = TILE; slice <= SLICE_MAX; slice *= 2)
                for (int share = 2; share <= SHARE_MAX; share += 2) {
                    WideLayout layout;
                    if (divide_up(context->layer->units, share) > grid_processors(context))
                        continue;
                    const bool fits = layout_with(
                        context,
                        (WideLayout){.share = share, .rows = rows, .turns = turns, .slice = slice},
                        &layout);
                    if (!layout_has(&layout.numbers, &context->layout))
                        continue;
                    if (fits ? !found || layout.step_us < out->step_us
                             : !found && layout.shared_bytes < out->shared_bytes)
                        *out = layout;
                    if (fits && context->layouts)
                        layout_list_add(context->layouts, &layout.numbers, layout.step_us);
                    found |= fits;
                }
    return found;
}
