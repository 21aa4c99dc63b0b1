// Variant stepwise: one launch a phase and step, product and pointwise part, in a CUDA graph.
// Always applies: the fallback of every layer.
#include "plan/cta.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    (void)arena, (void)context, (void)reasons;
}

/// Fitted to an H200: rnn, lstm and gru of 64 to 2816 units, B 1 to 64, float16 and float32, within
/// 25 %. A launch in a graph with its pointwise part, a chunk of the CTA's product, what a CTA
/// copies while all SMs do, and the multiply-adds of a float32 product, which is three of tf32.
static const double launch_us = 1.93, chunk_us = 0.20, cta_bytes_per_us = 47e3,
                    split_macs_per_us = 0.28e6;

enum { TILE_ROWS = 64, COLUMNS_STEP = 16, COLUMNS_MAX = 80, CHUNK_BYTES = 256 };

static int64_t quotient(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/// Tiles of `columns` that a phase's units take.
static int64_t tiles_of(const PlanContext *context, const CellPhase *phase, int64_t columns)
{
    const int64_t size = layer_domain_size(context->layer, phase->domain);
    return quotient(size, columns / phase->row_count > 0 ? columns / phase->row_count : 1);
}

/// Columns of a CTA's tile at small B, chosen as templates/cuda/stepwise_tile.cuh does.
static int64_t columns_of(const PlanContext *context, const CellPhase *phase)
{
    int64_t best = 0, least = 0;
    for (int64_t columns = COLUMNS_STEP; columns <= COLUMNS_MAX; columns += COLUMNS_STEP) {
        const int64_t turns =
            quotient(tiles_of(context, phase, columns), context->device->sm_count);
        const int64_t copied = turns * (columns + TILE_ROWS / 2);
        if (best == 0 || copied < least) {
            best = columns;
            least = copied;
        }
    }
    return best;
}

static double phase_us(const PlanContext *context, const CellPhase *phase)
{
    const int64_t row_tiles = quotient(context->batch, TILE_ROWS);
    const double launches = phase->norm_count > 0 ? 2 : 1;
    if (phase->row_count == 0)
        return launches * launch_us;
    const int64_t columns = columns_of(context, phase);
    const int64_t tiles = row_tiles * tiles_of(context, phase, columns);
    const int64_t rows = context->batch < TILE_ROWS ? context->batch : TILE_ROWS;
    const int64_t depth_bytes =
        layer_phase_columns(context->layer, phase) * operand_bytes(context->precision);
    double tile_us = chunk_us * (double)quotient(depth_bytes, CHUNK_BYTES) +
                     (double)((columns + rows) * depth_bytes) / cta_bytes_per_us;
    if (context->precision == PRECISION_FLOAT32)
        tile_us += (double)(columns * rows * depth_bytes) / 4 / split_macs_per_us;
    return launches * launch_us + (double)quotient(tiles, context->device->sm_count) * tile_us;
}

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    (void)arena;
    const Layer *layer = context->layer;
    const Cell *cell = layer->cell;
    double step_us = 0;
    for (int p = 0; p < cell->phase_count; p++) {
        const CellPhase *phase = &cell->phases[p];
        step_us += phase_us(context, phase);
        if (phase->row_count > 0)
            choice->packed_bytes += phase->row_count * layer_domain_size(layer, phase->domain) *
                                    layer_phase_columns(layer, phase) *
                                    operand_bytes(context->precision);
    }
    choice->threads = 256;
    choice->cost_us = 8.0 + input_product_us(context) + (double)context->timesteps * step_us;
    choice->memory_bytes =
        context->batch * (context->timesteps + 2) * cell->W.count * layer->units * 4;
    choice->reason = "a launch a phase and step, any size";
}

static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    (void)choice;
    text_addf(out,
              "#define RNN_SM_COUNT %d\n#define RNN_SHARED_BYTES %lld\n\n"
              "#include \"cuda/stepwise.cu\"\n",
              context->device->sm_count, (long long)context->device->shared_bytes_per_cta);
}

const Variant variant_stepwise = {
    .name = "stepwise",
    .kind = RNNC_VARIANT_STEPWISE,
    .gpu = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
};
