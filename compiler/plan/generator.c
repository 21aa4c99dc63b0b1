// Numbers of text generation in one launch: tries shares of the units and rows of the batch, and
// keeps the fastest by estimate. Shapes are those of templates/cuda/grid_product.cuh and
// generate.cu;
#include "plan/generator.h"

#include <string.h>

#include "plan/cta.h"
#include "plan/generator_cluster.h"
#include "plan/grid.h"
#include "rnnc/module.h"

enum { WARPS = 8, SHARE_UNIT = 4, SHARE_MAX = 128, FRAGMENT_BYTES = 16 };
enum { GENERATOR_THREADS = 256, TOKENS_BYTES = 64 * 4, SETS_MAX = 2 };
enum { COPIES_MAX = 32 }; // of a row of the operands: more replicas of many rows do not pay

/// Registers of a thread: the limit, and those for addresses, the pointwise part and the draw.
enum { REGISTERS = 248, REGISTERS_BASE = 84, HELD_MAX = 40 };

/// The table of the embedding times W: of the device, and of a CTA's shared memory.
static const int64_t table_bytes_max = (int64_t)1 << 28, table_shared_max = 96 * 1024;

static int64_t divide_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit;
}

/// Whether one kernel's pointwise part serves both layers.
static bool is_same_cell(Arena *arena, const Layer *a, const Layer *b)
{
    Text of_a = {.arena = arena}, of_b = {.arena = arena};
    cell_print_pointwise(a->cell, &of_a);
    cell_print_pointwise(b->cell, &of_b);
    return a->units == b->units && a->cell->W.count == b->cell->W.count &&
           a->cell->R.count == b->cell->R.count && a->cell->b.count == b->cell->b.count &&
           a->cell->rb.count == b->cell->rb.count && a->cell->p.count == b->cell->p.count &&
           strcmp(text_string(&of_a), text_string(&of_b)) == 0;
}

static const char *refuse_cell(Arena *arena, const Layer *layer)
{
    const Cell *cell = layer->cell;
    const CellPhase *phase = &cell->phases[0];
    if (cell->phase_count != 1 || phase->row_count == 0 || !phase->operand_is_state ||
        phase->operand != 0)
        return arena_format(arena, "the products of layer '%s' do not all take its output alone",
                            layer->name);
    if (cell->norm_count > 0 || layer->heads > 1 || layer->reversed)
        return arena_format(arena, "layer '%s' has layer_norm, heads or goes backwards",
                            layer->name);
    if (phase->row_count + cell->W.count > CELL_GATES_MAX)
        return arena_format(arena, "layer '%s' has more than %d products", layer->name,
                            CELL_GATES_MAX);
    return NULL;
}

/// Fills `cell` and `layers`; why the model is none of embedding, equal cells and dense, or NULL.
static const char *refuse_model(Arena *arena, const Plan *plan, Generator *generator)
{
    const Model *model = plan->model;
    const int last = model->layer_count - 1;
    if (!plan->device || model->trains)
        return "the module holds no GPU code for it";
    if (last < 2 || model->layers[0].kind != LAYER_EMBEDDING ||
        model->layers[last].kind != LAYER_DENSE)
        return "the model is not an embedding, cells and a dense layer";
    const Layer *dense = &model->layers[last];
    generator->cell = &model->layers[1];
    generator->layers = last - 1;
    for (int i = 1; i < last; i++) {
        const Layer *layer = &model->layers[i];
        if (layer->kind != LAYER_CELL || layer->beside)
            return arena_format(arena, "layer '%s' is no cell in a stack", layer->name);
        const char *refusal = refuse_cell(arena, layer);
        if (refusal)
            return refusal;
        if (!is_same_cell(arena, generator->cell, layer))
            return arena_format(arena, "layers '%s' and '%s' have different cells",
                                generator->cell->name, layer->name);
    }
    if (generator->layers > CELL_PHASES_MAX)
        return arena_format(arena, "%d layers of cells, at most %d", generator->layers,
                            CELL_PHASES_MAX);
    if (strcmp(dense->activation.name, "linear") != 0 || dense->outputs != model->features)
        return arena_format(arena, "layer '%s' does not give the logits as they are", dense->name);
    if (model->features * generator->cell->cell->W.count * generator->cell->units * 4 >
        table_bytes_max)
        return "the table of the embedding times W is too large";
    return NULL;
}

/// What the kernel's products come to.
typedef struct {
    int64_t fragments, tile_rows, product_registers, buffer_loads;
} Shapes;

static Shapes shapes_of(const Generator *of, Precision precision)
{
    const Cell *cell = of->cell->cell;
    const GridTiles fragment = grid_tiles(precision, of->rows);
    const int64_t row_tiles = divide_up(of->rows, 8);
    const int64_t loads = divide_up(of->cell->units, (int64_t)WARPS * fragment.load_elements);
    Shapes shapes = {0};
    for (int layer = 0; layer < of->layers; layer++) {
        const bool is_last = layer + 1 == of->layers;
        const int64_t gates = cell->phases[0].row_count + (is_last ? 0 : cell->W.count);
        const int64_t tiles =
            divide_up(gates * of->share + (is_last ? of->logits : 0), fragment.tile_rows);
        const int64_t registers = grid_product_registers(precision, of->rows, tiles, loads);
        shapes.fragments += tiles * loads * fragment.load_tiles;
        shapes.buffer_loads += 2 * of->replicas * WARPS * loads * row_tiles * fragment.loads_apart;
        if (tiles * fragment.tile_rows > shapes.tile_rows)
            shapes.tile_rows = tiles * fragment.tile_rows;
        if (registers > shapes.product_registers)
            shapes.product_registers = registers;
    }
    return shapes;
}

/// Fragments in registers, beside what a thread keeps of every layer.
static int held_fragments(const Generator *of, const Shapes *shapes)
{
    const Cell *cell = of->cell->cell;
    const int64_t items = divide_up((int64_t)of->share * of->rows, GENERATOR_THREADS);
    const int64_t values = items * (of->layers * (cell->b.count + cell->rb.count + cell->p.count +
                                                  cell->state_count + cell->phases[0].row_count) +
                                    cell->W.count + cell->state_count);
    int64_t held = (REGISTERS - REGISTERS_BASE - shapes->product_registers - values) / 4;
    held = held > HELD_MAX ? HELD_MAX : held > 0 ? held : 0;
    return (int)(held < shapes->fragments ? held : shapes->fragments);
}

/// A token of all rows, as measured on an H200 with 23 layouts, within 12 %: the draw, and an
/// exchange and a product a layer. Of several sets one multiplies while another's packets are under
/// way; they share the time that a group alone waits for its slowest CTA.
static double step_us(const Generator *of, const Shapes *shapes, Precision precision,
                      int64_t vocabulary, int64_t batch, int sm_count)
{
    const int64_t sets = divide_up(batch, of->rows), groups = sm_count / of->ctas;
    const int64_t waves = divide_up(sets, of->sets * groups);
    const double in_turn = (double)(sets < of->sets ? sets : of->sets);
    const double row_tiles = (double)divide_up(of->rows, 8);
    const double cycles = !grid_tiles(precision, of->rows).on_cores ? 8
                          : precision == PRECISION_FLOAT32          ? 3 * 12.4 * row_tiles
                                                                    : 12.4 * row_tiles;
    const double shared_cycles =
        (double)(shapes->fragments - of->held) * GENERATOR_THREADS * FRAGMENT_BYTES / 128;
    const double core_cycles = (double)shapes->fragments * cycles;
    const double multiply = core_cycles > shared_cycles ? core_cycles : shared_cycles;
    const double sums = of->layers * (double)(2 * WARPS * shapes->tile_rows * of->rows * 4) / 128;
    const double bytes = (double)(of->rows * of->cell->units * operand_bytes(precision));
    const double exchange = 0.43 + 0.005 * of->ctas + bytes / 70e3;
    const double draw = 1.94 + 0.004 * (double)divide_up(vocabulary, of->logits);
    const double alone = draw + of->layers * exchange + (0.5 * sums + 1.58 * multiply) / 1755;
    const double busy = alone - 0.006 * of->ctas * of->layers;
    return (double)waves * (in_turn * busy > alone ? in_turn * busy : alone);
}

/// The layout with these numbers; `shared_bytes` says whether it fits.
static Generator layout_with(const Generator *model, const Plan *plan, int share, int rows,
                             int sets)
{
    const Precision precision = plan->model->spec->precision;
    const Cell *cell = model->cell->cell;
    const int64_t vocabulary = plan->model->features;
    Generator of = *model;
    of.share = share;
    of.threads = GENERATOR_THREADS;
    of.rows = rows;
    of.sets = sets;
    of.ctas = (int)divide_up(of.cell->units, share);
    of.replicas = of.ctas >= 64 ? 8 : of.ctas >= 32 ? 4 : of.ctas >= 8 ? 2 : 1;
    if (of.replicas > COPIES_MAX / rows)
        of.replicas = COPIES_MAX / rows;
    // The logits fill the last tile of 16 rows, so that few CTAs have any.
    const int64_t units = (int64_t)cell->phases[0].row_count * share;
    of.logits = (int)(divide_up(units + divide_up(vocabulary, of.ctas), 16) * 16 - units);
    const Shapes shapes = shapes_of(&of, precision);
    of.held = held_fragments(&of, &shapes);
    const int64_t table = vocabulary * cell->W.count * share * 4;
    const int64_t items = divide_up((int64_t)share * rows, GENERATOR_THREADS);
    const int64_t values = items * (cell->state_count + cell->phases[0].row_count);
    const int64_t kept = sets > 1 ? sets * of.layers * values * GENERATOR_THREADS * 4 : 0;
    const int64_t without = 2 * WARPS * shapes.tile_rows * rows * 4 +
                            (shapes.fragments - of.held) * GENERATOR_THREADS * FRAGMENT_BYTES +
                            TOKENS_BYTES + kept;
    of.table_shared =
        table <= table_shared_max && without + table <= plan->device->shared_bytes_per_cta;
    of.shared_bytes = without + (of.table_shared ? table : 0);
    of.packed_bytes = of.ctas * shapes.fragments * GENERATOR_THREADS * FRAGMENT_BYTES;
    of.buffer_bytes =
        (shapes.buffer_loads + 2 * (int64_t)of.replicas * rows * divide_up(vocabulary, of.logits)) *
        sets * FRAGMENT_BYTES;
    const int64_t batch = plan->model->batch ? plan->model->batch : 1;
    of.step_us = step_us(&of, &shapes, precision, vocabulary, batch, plan->device->sm_count);
    return of;
}

Generator generator_plan(Arena *arena, const Plan *plan)
{
    Generator best = {0};
    best.refusal = refuse_model(arena, plan, &best);
    if (best.refusal)
        return best;
    const Generator model = best;
    const int rows_max = operand_bytes(plan->model->spec->precision) == 2 ? 16 : 32;
    bool found = false;
    for (int rows = plan->model->batch ? 1 : 8; rows <= rows_max; rows *= 2)
        for (int share = SHARE_UNIT; share <= SHARE_MAX; share += SHARE_UNIT) {
            if (divide_up(model.cell->units, share) > plan->device->sm_count)
                continue;
            for (int sets = 1; sets <= SETS_MAX; sets++) {
                const Generator layout = layout_with(&model, plan, share, rows, sets);
                const bool fits = layout.shared_bytes <= plan->device->shared_bytes_per_cta;
                if (fits && (!found || layout.step_us < best.step_us))
                    best = layout;
                found |= fits;
            }
        }
    Generator cluster;
    if (generator_cluster_plan(&model, plan, &cluster) &&
        (!found || cluster.step_us < best.step_us))
        return cluster;
    if (!found)
        best.refusal = arena_format(arena, "the weights do not fit the %d SMs of %s",
                                    plan->device->sm_count, plan->device->name);
    return best;
}
