// Numbers of persistent_cluster: tries clusters, warps and rows of the batch, and keeps the
// cheapest that fits. The shapes are those of templates/cuda/persistent_cluster.cu, which checks
// the bytes of shared memory; the times are fitted to LSTMs of 64 to 512 units on an H200, in all
// precisions and some twenty layouts.
#include "plan/cluster.h"

#include "cell/bounds.h"
#include "plan/cta.h"
#include "plan/sharing.h"

enum {
    RING = 4,
    CTAS_MAX = 8, // that every device with clusters has: "portable" in the CUDA programming guide
    CTAS_MAX_TRAINING = 16, // the runtime asks for them
    THREADS_MAX = 512,
    FRAGMENT_BYTES = 16,
    BARRIER_BYTES = 128,
    GROUP = 8,        // units of one gate in half a tile of mma
    CHAINS = 2,       // independent sums of a tile
    CTA_BYTES = 1024, // of shared memory that every CTA takes beside its own
    CLUSTER_ARCH = 90,
    SHARED_BYTES_PER_US = 450 * 1024 // that one SM loads, beside what else goes on
};

/// Registers of a thread beside fragments, sums and the values of its units.
enum { REGISTERS_BASE = 60, REGISTERS_BASE_TRAINING = 34, REGISTERS_MAX = 255, HELD_MAX = 48 };

static int64_t divide_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit;
}

/// Shapes of all phases, as rnn_row_tiles, rnn_k_tiles, ... of the skeleton have them.
typedef struct {
    int64_t factors; ///< of halves: rows of R and P of one unit
    int64_t room;    ///< units of the widest phase
    int64_t fragments, row_tiles, buffer_bytes, given_floats, items, groups;
    int64_t operand_bytes;  ///< that a CTA sends in a step, to each of the cluster
    int64_t multiply_bytes; ///< of operands, that a warp reads in a step
} Shapes;

static int row_tiles_of(const ClusterLayout *layout)
{
    return (layout->rows + 7) / 8;
}

/// Rows of a thread in a tile.
static int columns_of(const ClusterLayout *layout)
{
    return layout->split == 1 && layout->rows > 4 ? 2 : 1;
}

static int64_t groups_of(const ClusterLayout *layout, int64_t size)
{
    return divide_up(size, (int64_t)GROUP * layout->ctas * layout->warps);
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static Shapes shapes_of(const PlanContext *context, const ClusterLayout *layout)
{
    const Layer *layer = context->layer;
    const int bytes = operand_bytes(context->precision);
    const int tile_blocks = bytes == 2 || layout->halves ? 2 : 1;
    const int tiles = row_tiles_of(layout), columns = columns_of(layout);
    Shapes shapes = {.groups = groups_of(layout, layer->units)};
    for (int p = 0; p < layer->cell->phase_count; p++) {
        const CellPhase *phase = &layer->cell->phases[p];
        const int64_t groups = groups_of(layout, layer_domain_size(layer, phase->domain));
        shapes.groups = most(shapes.groups, groups);
        shapes.room = most(shapes.room, layer_domain_size(layer, phase->domain));
        if (phase->row_count == 0)
            continue;
        const int64_t depth = layer_domain_size(layer, phase->operand_domain);
        const int64_t share = GROUP * layout->warps * groups_of(layout, depth);
        const int64_t k_tiles =
            divide_up(layout->ctas * share / GROUP, (int64_t)tile_blocks * layout->split);
        const int64_t row_tiles = divide_up(phase->row_count * groups, 2);
        const int64_t block_bytes = (int64_t)tile_blocks * tiles * 32 * 2 * bytes;
        shapes.fragments += row_tiles * k_tiles * (layout->halves ? 2 : 1);
        shapes.factors += phase->row_count;
        shapes.row_tiles = most(shapes.row_tiles, row_tiles);
        shapes.buffer_bytes += 2 * layout->split * k_tiles * block_bytes;
        shapes.operand_bytes += share * layout->rows * bytes;
        shapes.multiply_bytes += k_tiles * block_bytes;
        if (layout->split > 1)
            shapes.given_floats = most(shapes.given_floats, phase->row_count * groups * tiles * 32);
    }
    shapes.items = shapes.groups * tiles * columns;
    return shapes;
}

/// Registers of a thread beside its fragments.
static int64_t other_registers(const PlanContext *context, const ClusterLayout *layout,
                               const Shapes *shapes)
{
    const Cell *cell = context->layer->cell;
    const int64_t values =
        shapes->items * (cell->W.count + 2 * cell->state_count + cell->carry_count) +
        shapes->groups * (cell->b.count + cell->rb.count + cell->p.count);
    const int64_t ranges =
        layout->halves ? shapes->groups * shapes->factors + 2 * shapes->items / shapes->groups : 0;
    const int parts =
        context->precision == PRECISION_FLOAT32 && !layout->halves ? 2 : 1; // of a tile of R
    const int64_t sums = 4 * shapes->row_tiles * (row_tiles_of(layout) * CHAINS + parts);
    const int peers = layout->ctas / (3 - columns_of(layout));
    const int base = context->layer->trains ? REGISTERS_BASE_TRAINING : REGISTERS_BASE;
    return base + peers + sums + values + ranges;
}

static int held_fragments(const PlanContext *context, const ClusterLayout *layout,
                          const Shapes *shapes)
{
    const int threads = 32 * layout->warps * layout->split;
    const int64_t by_threads = context->device->registers_per_sm / threads / 8 * 8;
    const int64_t limit = by_threads < REGISTERS_MAX ? by_threads : REGISTERS_MAX;
    int64_t held = (limit - other_registers(context, layout, shapes)) / 4;
    held = held > HELD_MAX ? HELD_MAX : held > 0 ? held : 0;
    return (int)(held < shapes->fragments ? held : shapes->fragments);
}

/// The skeleton's rnn_shared_bytes.
static int64_t shared_bytes_of(const PlanContext *context, const ClusterLayout *layout,
                               const Shapes *shapes)
{
    const Layer *layer = context->layer;
    const int warps = layout->warps * layout->split, tiles = row_tiles_of(layout);
    const int64_t line = layer->cell->W.count * GROUP * groups_of(layout, layer->units);
    const int64_t stride = line + (columns_of(layout) == 2 ? 4 : line / GROUP % 2 == 0 ? 8 : 0);
    return BARRIER_BYTES + shapes->buffer_bytes + 2 * warps * shapes->given_floats * 4 +
           (int64_t)warps * layout->ring * (4 * tiles * columns_of(layout)) * stride * 4 +
           (int64_t)warps * 2 * layout->ring * 8 * tiles * 4 +
           (shapes->fragments - layout->held) * 32 * warps * FRAGMENT_BYTES;
}

int64_t clusters_at_once(const Device *device, int ctas)
{
    const int64_t clusters = device->sm_count / ctas;
    return ctas <= 2 ? clusters : clusters - divide_up(clusters, 16);
}

/// CTAs that one SM holds, as registers, threads and shared memory allow.
static int64_t ctas_per_sm(const PlanContext *context, const ClusterLayout *layout,
                           const Shapes *shapes)
{
    const Device *device = context->device;
    const int64_t threads = 32 * layout->warps * layout->split;
    const int64_t registers = other_registers(context, layout, shapes) + 4 * layout->held;
    const int64_t rounded = registers < REGISTERS_MAX ? divide_up(registers, 8) * 8 : 256;
    const int64_t by_registers = device->registers_per_sm / (rounded * threads);
    const int64_t by_shared = device->shared_bytes_per_cta / (layout->shared_bytes + CTA_BYTES);
    return most(by_registers < by_shared ? by_registers : by_shared, 1);
}

/// Microseconds of one mma tile with a fragment of R, on one of the SM's four tensor cores. float32
/// multiplies two or three times, which halves share between their two fragments; without halves
/// it splits the fragment first.
static double tile_us(const PlanContext *context, const ClusterLayout *layout)
{
    if (layout->halves)
        return layout->rows <= 4 ? 0.0020 : 0.0030;
    return context->precision == PRECISION_FLOAT32 ? 0.0160 : 0.0020;
}

/// Microseconds of one step of all rows. Clusters of this layer and of those beside it spread over
/// the SMs first, then share them, then wait.
static double step_us(const PlanContext *context, const ClusterLayout *layout, const Shapes *shapes)
{
    const int phases = context->layer->cell->phase_count;
    const int64_t clusters = divide_up(context->batch, layout->rows) * context->at_once;
    const int64_t alone = clusters_at_once(context->device, layout->ctas);
    const int64_t wanted = divide_up(clusters, alone);
    const int64_t most_ctas = ctas_per_sm(context, layout, shapes);
    const int64_t ctas = wanted < most_ctas ? wanted : most_ctas; // of an SM
    const int64_t waves = divide_up(clusters, alone * ctas);
    const int64_t warps = layout->warps * layout->split * ctas;
    const double on_one = (double)divide_up(warps, 4); // of the tensor cores and schedulers
    const double sent_kb = (double)(shapes->operand_bytes * layout->ctas) / 1e3;
    const double far = layout->ctas > CTAS_MAX ? 0.12 : 0;
    const double exchange = (0.29 + far + 0.003 * layout->ctas) * phases + 0.0255 * sent_kb;
    const double multiply =
        tile_us(context, layout) * (double)(shapes->fragments * row_tiles_of(layout)) * on_one;
    const double spilled_bytes =
        (double)((shapes->fragments - layout->held) * 32 * warps * FRAGMENT_BYTES);
    const double pointwise = 0.11 * (double)shapes->items * on_one;
    const double reduce = layout->split > 1 ? 0.095 * phases : 0;
    return (double)waves *
           (exchange + multiply + spilled_bytes / SHARED_BYTES_PER_US + pointwise + reduce);
}

static ClusterLayout layout_with(const PlanContext *context, ClusterLayout layout)
{
    const Shapes shapes = shapes_of(context, &layout);
    layout.ring = RING;
    layout.held = held_fragments(context, &layout, &shapes);
    layout.fragments = (int)shapes.fragments;
    layout.shared_bytes = shared_bytes_of(context, &layout, &shapes);
    const int64_t factor_bytes = layout.halves ? shapes.groups * shapes.factors * 4 : 0;
    layout.packed_bytes = layout.ctas * (int64_t)(32 * layout.warps) * layout.split *
                              (shapes.fragments * FRAGMENT_BYTES + factor_bytes) +
                          (layout.halves ? shapes.factors * shapes.room * 4 : 0);
    layout.step_us = step_us(context, &layout, &shapes);
    layout.numbers = (WorkLayout){{{"ctas", layout.ctas},
                                   {"warps", layout.warps},
                                   {"split", layout.split},
                                   {"rows", layout.rows}},
                                  4};
    return layout;
}

bool cluster_is_known(const Device *device)
{
    return device->arch >= CLUSTER_ARCH;
}

bool cluster_layout(const PlanContext *context, ClusterLayout *out)
{
    bool found = false;
    const bool halves =
        context->precision == PRECISION_FLOAT32 && cell_operands_are_bounded(context->layer->cell);
    *out = (ClusterLayout){.shared_bytes = INT64_MAX};
    const int ctas_max = context->layer->trains ? CTAS_MAX_TRAINING : CTAS_MAX;
    for (int ctas = 2; ctas <= ctas_max; ctas *= 2)
        for (int split = 1; split <= 2; split++)
            for (int warps = 1; 32 * warps * split <= THREADS_MAX && warps <= 8; warps++)
                for (int rows = split; rows <= 16; rows *= 2) {
                    const ClusterLayout layout =
                        layout_with(context, (ClusterLayout){.ctas = ctas,
                                                             .warps = warps,
                                                             .split = split,
                                                             .rows = rows,
                                                             .halves = halves});
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

void cluster_check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    ClusterLayout layout;
    if (!sharing_check(arena, context, "cluster", reasons))
        return;
    if (!cluster_is_known(context->device))
        reason_add(arena, reasons, (Span){0}, "%s (sm_%d) has no thread-block clusters",
                   context->device->name, context->device->arch);
    else if (!cluster_layout(context, &layout))
        cluster_refuse(arena, context, layout.ctas, layout.shared_bytes, reasons);
}

void cluster_refuse(Arena *arena, const PlanContext *context, int ctas, int64_t shared_bytes,
                    Reasons *reasons)
{
    const Layer *layer = context->layer;
    reason_add(arena, reasons, layer->spec->units.span,
               "units: %lld (each of the %d CTAs of a cluster would need %lld KB of shared memory "
               "beside its registers; %s has %lld KB)",
               (long long)layer->units, ctas, (long long)(shared_bytes / 1024),
               context->device->name, (long long)(context->device->shared_bytes_per_cta / 1024));
}

void cluster_print_numbers(const ClusterLayout *layout, Text *out)
{
    text_addf(out,
              "#define RNN_CTAS %d\n#define RNN_WARPS %d\n#define RNN_SPLIT %d\n"
              "#define RNN_ROWS %d\n#define RNN_RING %d\n#define RNN_HELD %d\n"
              "#define RNN_HALVES %d\n#define RNN_SHARED_BYTES %lld\n",
              layout->ctas, layout->warps, layout->split, layout->rows, layout->ring, layout->held,
              layout->halves, (long long)layout->shared_bytes);
}
