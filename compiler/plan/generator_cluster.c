// Numbers of text generation by clusters: tries clusters, warps and rows of the batch, and keeps
// the fastest by estimate. 16-bit operands only: the float32 product costs a cluster more than its
// exchange saves. The shapes are those of templates/cuda/generate_cluster.cu and
// cluster_product.cuh.
#include "plan/generator_cluster.h"

#include "plan/cluster.h"
#include "plan/cta.h"

enum {
    CTAS_MAX = 8,
    WARPS_MAX = 8,
    DRAW_WARPS_MAX = 8,
    ROWS_MAX = 8,
    FRAGMENT_BYTES = 16,
    BARRIER_BYTES = 128,
    CANCEL_BYTES = 16,
    GROUP = 8,       // units of one gate in half a tile of mma
    TILE_BLOCKS = 2, // groups of units in its K
    BYTES = 2,       // of an operand
    CHAINS = 2       // independent sums of a tile
};

/// Registers of a thread beside fragments, sums and the values of its units; HELD_MAX fragments.
enum { REGISTERS_BASE = 64, REGISTERS_MAX = 255, HELD_MAX = 40, SCHEDULERS = 4 };

static int64_t divide_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/// Rows of a thread.
static int columns_of(const Generator *of)
{
    return of->rows > 4 ? 2 : 1;
}

/// What the kernel's products come to: fragments of a thread of the cells and of the draw.
typedef struct {
    int64_t groups, k_tiles, fragments, draw_fragments, row_tiles, buffer_bytes;
} Shapes;

static Shapes shapes_of(const Generator *of)
{
    const Cell *cell = of->cell->cell;
    Shapes shapes = {.groups = divide_up(of->cell->units, (int64_t)GROUP * of->ctas * of->warps)};
    shapes.k_tiles = divide_up((int64_t)of->ctas * of->warps * shapes.groups, TILE_BLOCKS);
    shapes.draw_fragments = of->draw_tiles * shapes.k_tiles;
    shapes.row_tiles = of->draw_tiles;
    for (int layer = 0; layer < of->layers; layer++) {
        const int64_t gates =
            cell->phases[0].row_count + (layer + 1 < of->layers ? cell->W.count : 0);
        const int64_t tiles = divide_up(gates * shapes.groups, 2);
        shapes.fragments += tiles * shapes.k_tiles;
        shapes.row_tiles = most(shapes.row_tiles, tiles);
        shapes.buffer_bytes += 2 * shapes.k_tiles * TILE_BLOCKS * 32 * 2 * BYTES;
    }
    return shapes;
}

/// Fragments in registers, beside what a thread keeps of every layer.
static int held_fragments(const Generator *of, const Shapes *shapes, const Plan *plan)
{
    const Cell *cell = of->cell->cell;
    const int64_t items = shapes->groups * columns_of(of);
    const int64_t values =
        items * (of->layers * (cell->state_count + cell->phases[0].row_count) + cell->W.count +
                 cell->state_count) +
        shapes->groups * of->layers * (cell->b.count + cell->rb.count + cell->p.count);
    const int64_t sums = 4 * shapes->row_tiles * (CHAINS + 1);
    const int64_t warps = divide_up(of->warps + of->draw_warps, SCHEDULERS) * SCHEDULERS;
    const int64_t by_threads = plan->device->registers_per_sm / (32 * warps) / 8 * 8;
    const int64_t limit = by_threads < REGISTERS_MAX ? by_threads : REGISTERS_MAX;
    const int64_t held = (limit - REGISTERS_BASE - of->ctas - sums - values) / 4;
    const int64_t count = most(shapes->fragments, shapes->draw_fragments);
    const int64_t bounded = held > HELD_MAX ? HELD_MAX : held > 0 ? held : 0;
    return (int)(bounded < count ? bounded : count);
}

static int64_t spilled(int64_t fragments, const Generator *of, int warps)
{
    return fragments > of->held ? (fragments - of->held) * 32 * warps * FRAGMENT_BYTES : 0;
}

/// Microseconds of a token of all rows: an exchange and a product a layer, and the draw.
static double step_us(const Generator *of, const Shapes *shapes, const Plan *plan)
{
    const int64_t batch = plan->model->batch ? plan->model->batch : 1;
    const int64_t at_once = plan->device->sm_count / of->ctas * 15 / 16;
    const int64_t waves = divide_up(divide_up(batch, of->rows), at_once);
    const double on_one = (double)divide_up(of->warps, SCHEDULERS);
    const double exchange = 0.36 + 0.051 * (double)(of->cell->units * of->rows) / 1e3;
    const double multiply = 0.0035 * (double)shapes->fragments * on_one;
    const int64_t shared = spilled(shapes->fragments, of, of->warps) +
                           spilled(shapes->draw_fragments, of, of->draw_warps);
    const double pointwise = 0.1 * (double)shapes->groups * on_one + 0.45 * (columns_of(of) - 1);
    return (double)waves *
           (of->layers * (exchange + pointwise) + multiply + (double)shared / 450e3 + 0.64);
}

/// The layout with these numbers; `shared_bytes` says whether it fits.
static Generator layout_with(const Generator *model, const Plan *plan, int ctas, int warps,
                             int rows)
{
    const Cell *cell = model->cell->cell;
    const int64_t vocabulary = plan->model->features, tiles = divide_up(vocabulary, 16);
    Generator of = *model;
    of.is_cluster = true;
    of.ctas = ctas;
    of.warps = warps;
    of.rows = rows;
    of.sets = 1;
    of.draw_tiles = (int)divide_up(tiles, DRAW_WARPS_MAX);
    of.draw_warps = (int)divide_up(tiles, of.draw_tiles);
    of.threads = 32 * (of.warps + of.draw_warps);
    const Shapes shapes = shapes_of(&of);
    of.held = held_fragments(&of, &shapes, plan);
    const int64_t table = vocabulary * cell->W.count * GROUP * warps * shapes.groups * 4;
    const int64_t slots = rows > 4 ? 8 : 4;
    const int64_t without = BARRIER_BYTES + shapes.buffer_bytes +
                            spilled(shapes.fragments, &of, of.warps) +
                            spilled(shapes.draw_fragments, &of, of.draw_warps) +
                            slots * of.draw_warps * 8 + CANCEL_BYTES;
    of.table_shared = without + table <= plan->device->shared_bytes_per_cta;
    of.shared_bytes = without + (of.table_shared ? table : 0);
    of.packed_bytes = 32 * FRAGMENT_BYTES *
                      (ctas * of.warps * shapes.fragments + of.draw_warps * shapes.draw_fragments);
    of.step_us = step_us(&of, &shapes, plan);
    return of;
}

bool generator_cluster_plan(const Generator *model, const Plan *plan, Generator *out)
{
    bool found = false;
    if (!cluster_is_known(plan->device) || operand_bytes(plan->model->spec->precision) != BYTES)
        return false;
    for (int ctas = 2; ctas <= CTAS_MAX; ctas *= 2)
        for (int warps = 1; warps <= WARPS_MAX; warps++)
            for (int rows = plan->model->batch ? 1 : 4; rows <= ROWS_MAX; rows *= 2) {
                const Generator layout = layout_with(model, plan, ctas, warps, rows);
                if (layout.shared_bytes > plan->device->shared_bytes_per_cta)
                    continue;
                if (!found || layout.step_us < out->step_us)
                    *out = layout;
                found = true;
            }
    return found;
}
