// Numbers of the one-CTA variants: tries every count of lanes a unit and keeps the cheapest that
// fits. Figures for cycles come from the instructions of the step (templates/cuda/recurrence.cuh).
#include "plan/cta.h"

enum {
    THREADS_MAX = 1024,
    REGISTERS_MAX = 255,
    LANES_MAX = 32,
    RING_MAX = 8,
    RING_BYTES_MAX = 24 * 1024,
    WEIGHTS_IN_LINE_MAX = 1024, ///< of one thread: beyond, a step is too long to write out
    NORM_BYTES = 2048           ///< of shared memory left for the sums of a cell's norms
};

/// Registers of a thread that hold no weights: addresses, sums, the pointwise part.
enum { REGISTERS_BASE = 68, REGISTERS_PER_VALUE = 2 };

int operand_bytes(Precision precision)
{
    return precision == PRECISION_FLOAT16 || precision == PRECISION_BFLOAT16 ? 2 : 4;
}

static int64_t round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static int registers_for_weights(const Layer *layer, int threads)
{
    const Cell *cell = layer->cell;
    // Each of the four schedulers has a quarter of the registers.
    int limit = 65536 / (int)round_up(threads, 128) / 8 * 8;
    limit = limit < REGISTERS_MAX ? limit : REGISTERS_MAX;
    const int values =
        cell->W.count + cell->b.count + cell->rb.count + cell->p.count + cell->state_count;
    const int rest = limit - REGISTERS_BASE - REGISTERS_PER_VALUE * values;
    return rest > 0 ? rest : 0;
}

/// Cycles of one step: issue slots or shared-memory bandwidth, and latency.
static double step_cycles(const PlanContext *context, const CtaLayout *layout,
                          int64_t operand_chunks)
{
    const int bytes = operand_bytes(context->precision);
    const double warps = layout->threads / 32.0;
    const int per_scheduler = (layout->threads / 32 + 3) / 4; // an SM has four
    const double multiply = layout->chunks * 4 * (bytes == 2 ? 2.0 : 1.0);
    const double pointwise = 120.0 * context->layer->cell->phase_count;
    const double shared = warps * ((double)(layout->chunks - layout->register_chunks) * bytes +
                                   (double)operand_chunks * 2);
    double latency = 180;
    for (int lanes = layout->lanes; lanes > 1; lanes /= 2)
        latency += 28;
    latency *= 0.4 + 0.6 * context->layer->cell->phase_count;
    const double issue = per_scheduler * (multiply + pointwise);
    return latency + (issue > shared ? issue : shared);
}

static CtaLayout layout_with(const PlanContext *context, int lanes)
{
    const Layer *layer = context->layer;
    const Cell *cell = layer->cell;
    const int64_t chunk_bytes = 4 * operand_bytes(context->precision);
    const int64_t widest = layer->projection > layer->units ? layer->projection : layer->units;
    CtaLayout layout = {.lanes = lanes, .ring = RING_MAX};
    layout.threads = (int)round_up(widest * lanes, 32);
    const int64_t slot_bytes = round_up(cell->W.count * layer->units, 4) * 4;
    while (layout.ring > 2 && layout.ring * slot_bytes > RING_BYTES_MAX)
        layout.ring /= 2;
    int64_t chunks = 0, operand_chunks = 0;
    for (int p = 0; p < cell->phase_count; p++) {
        const CellPhase *phase = &cell->phases[p];
        if (phase->row_count == 0)
            continue;
        // One unit multiplies the values of its head, and each head's are padded.
        const int64_t depth = round_up(layer_phase_columns(layer, phase), 4 * lanes);
        const int64_t heads = layer_phase_heads(layer, phase);
        chunks += depth / (4 * lanes) * phase->row_count;
        operand_chunks += depth / (4 * lanes);
        layout.shared_bytes += 2 * 4 * depth * heads;
    }
    layout.chunks = (int)chunks;
    layout.register_chunks = registers_for_weights(layer, layout.threads) / (int)(chunk_bytes / 4);
    if (layout.register_chunks > layout.chunks)
        layout.register_chunks = layout.chunks;
    layout.packed_bytes = chunks * chunk_bytes * layout.threads;
    layout.shared_bytes +=
        layout.ring * slot_bytes + (chunks - layout.register_chunks) * chunk_bytes * layout.threads;
    layout.step_us = step_cycles(context, &layout, operand_chunks) / 1755;
    layout.ctas_per_sm = 1;
    layout.numbers = (WorkLayout){{{"lanes", lanes}}, 1};
    return layout;
}

/// CTAs that one SM holds at once, by registers and shared memory.
static int ctas_per_sm(const PlanContext *context, const CtaLayout *layout)
{
    const int64_t chunk_words = operand_bytes(context->precision);
    int64_t registers =
        layout->register_chunks * chunk_words + REGISTERS_BASE + REGISTERS_PER_VALUE * 4;
    int64_t by_registers =
        context->device->registers_per_sm / (layout->threads * round_up(registers, 8));
    int64_t by_shared = context->device->shared_bytes_per_cta / (layout->shared_bytes + 1024);
    int64_t count = by_registers < by_shared ? by_registers : by_shared;
    return count > 1 ? (int)count : 1;
}

static bool has_norms(const Cell *cell)
{
    for (int p = 0; p < cell->phase_count; p++)
        if (cell->phases[p].norm_count > 0)
            return true;
    return false;
}

bool cta_layout(const PlanContext *context, bool registers_only, CtaLayout *out)
{
    const int64_t widest = context->layer->projection > context->layer->units
                               ? context->layer->projection
                               : context->layer->units;
    const int64_t room =
        context->device->shared_bytes_per_cta - (has_norms(context->layer->cell) ? NORM_BYTES : 0);
    bool found = false, any = false;
    *out = (CtaLayout){.shared_bytes = INT64_MAX};
    for (int lanes = 1; lanes <= LANES_MAX && widest * lanes <= THREADS_MAX; lanes *= 2) {
        CtaLayout layout = layout_with(context, lanes);
        if (!layout_has(&layout.numbers, &context->layout))
            continue;
        bool fits = layout.shared_bytes <= room && layout.chunks * 4 <= WEIGHTS_IN_LINE_MAX &&
                    (!registers_only || layout.register_chunks == layout.chunks);
        if (fits ? !found || layout.step_us < out->step_us
                 : !found && (!any || layout.shared_bytes < out->shared_bytes))
            *out = layout;
        if (fits && context->layouts)
            layout_list_add(context->layouts, &layout.numbers, layout.step_us);
        found |= fits;
        any = true;
    }
    if (found)
        out->ctas_per_sm = ctas_per_sm(context, out);
    return found;
}

/// What the product W*x takes: a launch, and a share of the device's peaks: of its float16 tensor
/// cores, by which every precision is multiplied, and of its memory, to which sums are written.
/// Fitted to an H200, 25 to 32000 rows, 256 to 8448 columns, K 64 to 2816.
typedef struct {
    double launch_us, operations, memory;
} ProductRate;

static const ProductRate by_wgmma[] = {
    [PRECISION_FLOAT32] = {12.0, 0.231, 0.26},
    [PRECISION_TF32] = {10.0, 0.590, 0.46},
    [PRECISION_BFLOAT16] = {8.6, 0.610, 0.66},
    [PRECISION_FLOAT16] = {8.6, 0.610, 0.66},
};

static const ProductRate by_mma[] = {
    [PRECISION_FLOAT32] = {5.0, 0.032, 0.46},
    [PRECISION_TF32] = {5.0, 0.120, 0.46},
    [PRECISION_BFLOAT16] = {4.5, 0.230, 0.66},
    [PRECISION_FLOAT16] = {4.5, 0.230, 0.66},
};

double input_product_us(const PlanContext *context)
{
    enum { WGMMA_ARCH = 90, DEPTH_UNIT = 64 }; // one unit of K alone is left to mma.sync
    const Layer *layer = context->layer;
    const Device *device = context->device;
    const bool is_deep = layer->inputs > DEPTH_UNIT && device->arch == WGMMA_ARCH;
    const ProductRate *rate = &(is_deep ? by_wgmma : by_mma)[context->precision];
    const double rows = (double)(context->batch * context->timesteps);
    const double columns = (double)(layer->cell->W.count * layer->units);
    const double depth = (double)(is_deep ? round_up(layer->inputs, DEPTH_UNIT) : layer->inputs);
    const double flops = 2 * rows * columns * depth, bytes = rows * columns * 4;
    return rate->launch_us + flops / (rate->operations * device->fp16_flops_per_ns) / 1e3 +
           bytes / (rate->memory * device->memory_bytes_per_ns) / 1e3;
}

double cta_cost_us(const PlanContext *context, const CtaLayout *layout)
{
    const int64_t at_once =
        (int64_t)context->device->sm_count * layout->ctas_per_sm / context->at_once;
    const int64_t waves = (context->batch + at_once - 1) / at_once;
    const int64_t rows = context->batch * context->at_once;
    double crowding = rows > context->device->sm_count ? layout->ctas_per_sm * 0.7 : 1;
    crowding = crowding > 1 ? crowding : 1;
    return 5.0 + input_product_us(context) +
           (double)(waves * context->timesteps) * layout->step_us * crowding;
}

void cta_fill(const CtaLayout *layout, int unroll, Choice *choice)
{
    choice->threads = layout->threads;
    choice->rows_per_cta = 1;
    choice->unroll = unroll;
    choice->layout = layout->numbers;
    choice->shared_bytes = layout->shared_bytes;
    choice->packed_bytes = layout->packed_bytes;
}

void cta_print_stub(const PlanContext *context, const Choice *choice, bool registers_only,
                    const char *skeleton, Text *out)
{
    CtaLayout layout;
    cta_layout(context, registers_only, &layout);
    text_addf(out,
              "#define RNN_THREADS %d\n#define RNN_LANES %d\n#define RNN_RING %d\n"
              "#define RNN_UNROLL %d\n#define RNN_REGISTER_CHUNKS %d\n\n#include \"%s\"\n",
              layout.threads, layout.lanes, layout.ring, choice->unroll, layout.register_chunks,
              skeleton);
}
