// Variant cudnn: cuDNN's own RNN (9.x), the best of its algorithms, where a layer is one of the
// four cells that it knows. Each criterion that is not met is a reason at the key responsible.
// Nothing is generated: the runtime's driver packs the weights and asks the library, whose refusal
// of a size is data there. Its only device code are the copies of templates/cuda/cudnn_copy.cu.
#include <string.h>

#include "plan/plan.h"
#include "rnnc/module.h"

enum { FIRST_REFUSED_TIMESTEPS = 65536 };

/// cudnnRNNMode_t, as rnnc_cudnn_desc.mode.
enum { MODE_RELU, MODE_TANH, MODE_LSTM, MODE_GRU };

/// A built-in cell that cuDNN knows, with the functions it has for it. "tanh|relu": either.
static const struct KnownCell {
    const char *name, *called;
    int mode;
    const char *activation, *recurrent_activation, *output_activation; ///< NULL: has none
} known_cells[] = {
    {"rnn", "cuDNN's plain RNN", MODE_TANH, "tanh|relu", NULL, NULL},
    {"lstm", "cuDNN's LSTM", MODE_LSTM, "tanh", "sigmoid", "tanh"},
    {"lstmp", "cuDNN's LSTM", MODE_LSTM, "tanh", "sigmoid", "tanh"},
    {"gru", "cuDNN's GRU", MODE_GRU, "tanh", "sigmoid", NULL},
};

/// Built-in cells that it does not know, and why.
static const struct {
    const char *name, *because;
} unknown_cells[] = {
    {"gru_before", "cuDNN's GRU resets after the recurrent product, not before"},
    {"peephole_lstm", "cuDNN's LSTM has no peepholes"},
    {"cifg_lstm", "cuDNN's LSTM does not couple the input and forget gates"},
    {"layer_norm_lstm", "cuDNN's LSTM has no layer normalisation"},
    {"indrnn", "cuDNN's RNN has a full recurrent matrix, not a vector"},
    {"mgu", "cuDNN has no minimal gated unit"},
    {"slstm", "cuDNN has no exponential gating"},
};

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

/// The line's text that a span underlines; "" without a place.
static const char *span_text(Arena *arena, Span span)
{
    if (!span.source || !span.source->text || span.line < 1)
        return "";
    const char *at = span.source->text;
    for (int line = 1; line < span.line; line++) {
        at = strchr(at, '\n');
        if (!at)
            return "";
        at++;
    }
    size_t length = strcspn(at, "\r\n"), start = (size_t)(span.column - 1);
    if (start >= length)
        return "";
    size_t wanted = (size_t)span.length;
    return arena_copy(arena, at + start, wanted < length - start ? wanted : length - start);
}

static bool is_user_file(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && text_equal_ignoring_case(name + length - 5, ".cell");
}

static const struct KnownCell *known_cell(const Layer *layer)
{
    for (int i = 0; i < COUNT(known_cells) && !is_user_file(layer->spec->cell.text); i++)
        if (text_equal(layer->cell->name, known_cells[i].name))
            return &known_cells[i];
    return NULL;
}

/// Whether `activation` is one of `allowed` ("tanh|relu").
static bool is_allowed(Arena *arena, const Activation *activation, const char *allowed)
{
    Diags *unused = diags_create(arena);
    for (const char *at = allowed; *at;) {
        size_t length = strcspn(at, "|");
        Activation one;
        const char *name = arena_copy(arena, at, length);
        if (activation_find(arena, unused, (Span){0}, name, NULL, 0, &one) &&
            activation_equal(activation, &one))
            return true;
        at += length + (at[length] == '|');
    }
    return false;
}

static void check_activation(Arena *arena, const Activation *activation, const char *allowed,
                             const SpecActivation *key, const char *key_name, const char *called,
                             Reasons *reasons)
{
    if (!allowed || is_allowed(arena, activation, allowed))
        return;
    const char *shown = span_text(arena, key->span);
    if (!*shown)
        shown = arena_format(arena, "%s: %s", key_name, activation->name);
    const char *bar = strchr(allowed, '|');
    const char *functions =
        bar ? arena_format(arena, "%.*s and %s", (int)(bar - allowed), allowed, bar + 1) : allowed;
    reason_add(arena, reasons, key->span, "%s (%s has %s only)", shown, called, functions);
}

static void check_cell(Arena *arena, const Layer *layer, Reasons *reasons)
{
    const SpecLayer *spec = layer->spec;
    if (is_user_file(spec->cell.text)) {
        reason_add(arena, reasons, spec->cell.span,
                   "cell: %s (cuDNN knows rnn, lstm and gru, no cell of your own)",
                   spec->cell.text);
        return;
    }
    const char *because = "cuDNN knows rnn, lstm and gru only";
    for (int i = 0; i < COUNT(unknown_cells); i++)
        if (text_equal(layer->cell->name, unknown_cells[i].name))
            because = unknown_cells[i].because;
    bool by_reset = text_equal(layer->cell->name, "gru_before") && spec->reset_after.span.source;
    if (by_reset)
        reason_add(arena, reasons, spec->reset_after.span, "reset_after: false (%s)", because);
    else
        reason_add(arena, reasons, spec->cell.span, "cell: %s (%s)", layer->cell->name, because);
}

static void check_activations(Arena *arena, const Layer *layer, const struct KnownCell *known,
                              Reasons *reasons)
{
    const SpecLayer *spec = layer->spec;
    const Cell *cell = layer->cell;
    check_activation(arena, &cell->activation, known->activation, &spec->activation, "activation",
                     known->called, reasons);
    check_activation(arena, &cell->recurrent_activation, known->recurrent_activation,
                     &spec->recurrent_activation, "recurrent_activation", known->called, reasons);
    if (spec->output_activation.span.source)
        check_activation(arena, &cell->output_activation, known->output_activation,
                         &spec->output_activation, "output_activation", known->called, reasons);
}

/// Keys that rewrite a cell's equations, cut its matrix or drop what it multiplies.
static void check_keys(Arena *arena, const Layer *layer, Reasons *reasons)
{
    const SpecLayer *spec = layer->spec;
    if (spec->clip.value > 0)
        reason_add(arena, reasons, spec->clip.span,
                   "clip: %g (cuDNN clips the cell state, not the arguments of activations)",
                   spec->clip.value);
    if (spec->input_forget.value)
        reason_add(arena, reasons, spec->input_forget.span,
                   "input_forget: true (cuDNN's LSTM does not couple the input and forget gates)");
    for (int i = 0; i < spec->zoneout_count; i++) {
        const SpecZoneout *zoneout = &spec->zoneouts[i];
        if (zoneout->rate > 0)
            reason_add(arena, reasons, zoneout->span, "zoneout%s%s: %g (cuDNN has no zoneout)",
                       zoneout->state ? " of " : "", zoneout->state ? zoneout->state : "",
                       zoneout->rate);
    }
    if (layer->heads > 1)
        reason_add(arena, reasons, spec->heads.span,
                   "heads: %lld (cuDNN's recurrent matrices are full)", (long long)layer->heads);
    if (layer->recurrent_dropout > 0)
        reason_add(arena, reasons, spec->recurrent_dropout.span,
                   "recurrent_dropout: %g (cuDNN has none, and the spec has "
                   "`dropout_at_inference: true`)",
                   layer->recurrent_dropout);
}

static void check(Arena *arena, const PlanContext *context, Reasons *reasons)
{
    const Layer *layer = context->layer;
    const SpecLayer *spec = layer->spec;
    const Model *model = context->model;
    if (model->spec->cudnn == CUDNN_NEVER)
        reason_add(arena, reasons, model->spec->cudnn_span, "cudnn: never (the spec forbids it)");
    const struct KnownCell *known = known_cell(layer);
    if (known)
        check_activations(arena, layer, known, reasons);
    else
        check_cell(arena, layer, reasons);
    if (known && layer->projection > 0 && layer->projection >= layer->units)
        reason_add(arena, reasons, spec->projection.span,
                   "projection: %lld (cuDNN projects to fewer than the %lld units only)",
                   (long long)layer->projection, (long long)layer->units);
    check_keys(arena, layer, reasons);
    if (model->timesteps >= FIRST_REFUSED_TIMESTEPS && layer->sequence_in)
        reason_add(arena, reasons, model->spec->timesteps.span,
                   "timesteps: %lld (cuDNN takes fewer than %d)", (long long)model->timesteps,
                   FIRST_REFUSED_TIMESTEPS);
}

bool cudnn_description(Arena *arena, const Layer *layer, CudnnDescription *out)
{
    const struct KnownCell *known = known_cell(layer);
    if (!known)
        return false;
    bool relu = known->mode == MODE_TANH && is_allowed(arena, &layer->cell->activation, "relu");
    *out = (CudnnDescription){
        .mode = relu ? MODE_RELU : known->mode,
        .projection = (int)layer->projection,
        .bias = layer->weights[WEIGHT_b].name ? 2 : 0,
    };
    return true;
}

/// Time of one step, fitted within a factor of two to cuDNN 9.19 on an H200 (LSTM, GRU and RNN of
/// H 64 to 2816, B 1 to 64): the best of the small-H kernels, the persistent ones and one GEMM and
/// pointwise kernel a step out of a CUDA graph.
static double step_us(const PlanContext *context, double flops, double weight_bytes, bool is_gated)
{
    const Device *device = context->device;
    const double peak = context->precision == PRECISION_FLOAT32 ? device->fp32_flops_per_ns
                        : context->precision == PRECISION_TF32  ? device->fp16_flops_per_ns / 4
                                                                : device->fp16_flops_per_ns / 2;
    const double batch = (double)context->batch;
    double product_us = flops / (0.5 * peak) / 1e3;
    const double stream_us = weight_bytes / device->memory_bytes_per_ns / 1e3;
    // A GRU of 2816 units, 48 MB of weights, streams them beside L2's 50 MB.
    if (weight_bytes > 0.75 * (double)device->l2_bytes && product_us < stream_us)
        product_us = stream_us;
    double best = 6.0 + product_us;
    bool has_persistent = context->precision != PRECISION_BFLOAT16 && !context->layer->projection;
    if (has_persistent && context->layer->units <= (is_gated ? 192 : 384)) {
        double small = 0.4 + weight_bytes / 1e5;
        best = small < best ? small : best;
    }
    // cuDNN refuses 25 MB, and with 13 MB it is slower than a GEMM a step.
    double registers_bytes = 0.35 * 4.0 * (double)device->registers_per_sm * device->sm_count;
    if (has_persistent && weight_bytes < registers_bytes) {
        double per_row = context->precision == PRECISION_FLOAT16 ? 0.075 : 0.3;
        double persistent = 1.5 + per_row * batch;
        best = persistent < best ? persistent : best;
    }
    return best;
}

/// What a run has around the steps: the launch, and the copies between the module's tensors and
/// cuDNN's, 12 to 28 us where it was measured.
static const double copies_us = 25;

static void estimate(Arena *arena, const PlanContext *context, Choice *choice)
{
    const Layer *layer = context->layer;
    const int gates = layer->cell->W.count;
    const int element_bytes =
        context->precision == PRECISION_FLOAT16 || context->precision == PRECISION_BFLOAT16 ? 2 : 4;
    const int64_t recurrent = layer->projection ? layer->projection : layer->units;
    const int64_t columns = layer->inputs + recurrent;
    const int64_t weights = gates * layer->units * (columns + 2) + layer->projection * layer->units;
    const double flops = 2.0 * (double)context->batch * (double)(gates * layer->units * columns);
    const double recurrent_bytes = (double)(gates * layer->units * recurrent * element_bytes);
    choice->cost_us = copies_us + (double)context->timesteps *
                                      step_us(context, flops, recurrent_bytes, gates > 1);
    choice->packed_bytes = weights * element_bytes;
    choice->memory_bytes =
        context->batch * context->timesteps * (gates + 1) * layer->units * element_bytes;
    const SpecNumber *dropout = &layer->spec->recurrent_dropout;
    if (dropout->value > 0)
        choice->reason = arena_format(
            arena, "recurrent_dropout: %g is no obstacle, it does nothing at inference",
            dropout->value);
    else if (element_bytes == 2)
        choice->reason = "keeps its states in the layer's 16-bit type";
}

/// Only the copies between the module's tensors and cuDNN's.
static void print_stub(const PlanContext *context, const Choice *choice, Text *out)
{
    (void)choice;
    const int bits = context->precision == PRECISION_FLOAT16    ? 16
                     : context->precision == PRECISION_BFLOAT16 ? 17
                                                                : 32;
    text_addf(out, "#define RNN_BITS %d\n#include \"cuda/cudnn_copy.cu\"\n", bits);
}

const Variant variant_cudnn = {
    .name = "cudnn",
    .kind = RNNC_VARIANT_CUDNN,
    .gpu = true,
    .check = check,
    .estimate = estimate,
    .print_stub = print_stub,
    .stub_alone = true,
};
