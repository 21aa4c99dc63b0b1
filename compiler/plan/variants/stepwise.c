// Variant stepwise: one launch a phase and step, product and pointwise part, in a CUDA graph.
// Always applies: the fallback of every layer.
#include "plan/cta.h"
#include "rnnc/module.h"

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    (void)arena, (void)context, (void)reasons;
}

/// Fitted to an H200: LSTM of 64 to 2048 units, B 32 and 64, all precisions, within 10 %. A launch
/// in a graph with its pointwise part, and what a CTA loads while all SMs do.
static const double launch_us = 2.9, cta_bytes_per_us = 21.6e3;

static int64_t quotient(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/// The tile of templates/cuda/stepwise.cu: columns of R and rows of the operand, K long.
static double phase_us(const PlanContext *context, const CellPhase *phase)
{
    enum { TILE_ROWS = 64, COLUMNS_MIN = 16, COLUMNS_MAX = 64 };
    const Layer *layer = context->layer;
    const int64_t size = layer_domain_size(layer, phase->domain), sms = context->device->sm_count;
    const int64_t row_tiles = quotient(context->batch, TILE_ROWS);
    const double launches = phase->norm_count > 0 ? 2 : 1;
    if (phase->row_count == 0)
        return launches * launch_us;
    int64_t columns = COLUMNS_MIN, tiles;
    for (;; columns *= 2) {
        tiles = row_tiles * quotient(size * phase->row_count, columns);
        if (tiles <= sms || columns >= COLUMNS_MAX)
            break;
    }
    const int64_t rows = context->batch < TILE_ROWS ? context->batch : TILE_ROWS;
    const double bytes = (double)((columns + rows) * layer_phase_columns(layer, phase) *
                                  operand_bytes(context->precision));
    return launches * launch_us + (double)quotient(tiles, sms) * bytes / cta_bytes_per_us;
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
