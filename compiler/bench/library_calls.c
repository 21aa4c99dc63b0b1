// Library calls: see library_calls.h.
#include "bench/library_calls.h"

#include "plan/plan.h"

enum { MODE_RELU, MODE_TANH, MODE_LSTM, MODE_GRU };

/// cuDNN's cell in the place of one that it has not.
static int nearest_mode(const Cell *cell)
{
    if (cell->state_count > 1)
        return MODE_LSTM;
    return cell->W.count > 1 ? MODE_GRU : MODE_TANH;
}

/// The first reason why cuDNN's own variant cannot run the layer, or NULL.
static const char *criterion(Arena *arena, const Model *model, const Layer *layer)
{
    const PlanContext context = {.model = model,
                                 .layer = layer,
                                 .device = device_find(90),
                                 .precision = model->spec->precision,
                                 .batch = 1,
                                 .timesteps = 1};
    Reasons reasons = {0};
    variant_find("cudnn")->check(arena, &context, &reasons);
    return reasons.count > 0 ? reasons.items[0].text : NULL;
}

static rnnc_cudnn_case call_of(Arena *arena, const Model *model, const Layer *layer)
{
    CudnnDescription own;
    rnnc_cudnn_case call = {.precision = (int32_t)model->spec->precision,
                            .layers = 1,
                            .directions = 1,
                            .inputs = layer->inputs,
                            .units = layer->units,
                            .mode = nearest_mode(layer->cell),
                            .bias = layer->weights[WEIGHT_b].name ? 2 : 0};
    if (!criterion(arena, model, layer) && cudnn_description(arena, layer, &own))
        call.mode = own.mode;
    call.projection =
        call.mode == MODE_LSTM && layer->projection < layer->units ? layer->projection : 0;
    return call;
}

/// Whether `next` goes on where `call` ends: one more layer of a stack, all of whose inputs are
/// its outputs.
static bool continues(const rnnc_cudnn_case *call, const rnnc_cudnn_case *next)
{
    const int64_t outputs = call->projection ? call->projection : call->units;
    return next->mode == call->mode && next->units == call->units &&
           next->projection == call->projection && next->bias == call->bias &&
           next->timesteps == call->timesteps && next->directions == call->directions &&
           next->inputs == outputs * call->directions;
}

static void add_call(LibraryCalls *calls, rnnc_cudnn_case call, bool is_stacked)
{
    rnnc_cudnn_case *last = calls->count ? &calls->calls[calls->count - 1] : NULL;
    if (last && is_stacked && continues(last, &call))
        last->layers++;
    else if (calls->count < LIBRARY_CALLS_MAX)
        calls->calls[calls->count++] = call;
}

static const char *calls_text(Arena *arena, const LibraryCalls *calls, const char *outside)
{
    static const char *const names[] = {"relu RNN", "tanh RNN", "LSTM", "GRU"};
    Text text = {.arena = arena};
    for (int i = 0; i < calls->count; i++) {
        const rnnc_cudnn_case *call = &calls->calls[i];
        text_addf(&text, "%s%s %lld -> %lld", i ? " + " : "", names[call->mode],
                  (long long)call->inputs, (long long)call->units);
        if (call->layers > 1)
            text_addf(&text, " x %d", (int)call->layers);
        if (call->directions > 1)
            text_add(&text, " both directions");
    }
    if (outside)
        text_addf(&text, ", in place of the model's own, which is outside its criteria: %s",
                  outside);
    return text_string(&text);
}

LibraryCalls library_calls(Arena *arena, const Model *model, int32_t ordinal, int64_t batch,
                           int64_t timesteps)
{
    LibraryCalls calls = {0};
    const char *outside = NULL;
    int last = -2;
    for (int i = 0; i < model->layer_count; i++) {
        const Layer *layer = &model->layers[i];
        if (layer->kind != LAYER_CELL)
            continue;
        rnnc_cudnn_case call = call_of(arena, model, layer);
        call.ordinal = ordinal;
        call.batch = batch;
        call.timesteps = layer->sequence_in ? timesteps : 1;
        if (!outside)
            outside = criterion(arena, model, layer);
        const bool is_pair = i + 1 < model->layer_count && model->layers[i + 1].beside &&
                             model->layers[i + 1].kind == LAYER_CELL &&
                             model->layers[i + 1].units == layer->units;
        call.directions = is_pair ? 2 : 1;
        add_call(&calls, call, last == i - 1);
        i += is_pair;
        last = i;
    }
    calls.text = calls.count ? calls_text(arena, &calls, outside) : "no recurrent layer";
    return calls;
}
