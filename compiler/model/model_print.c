// Printing of a model: one block a layer, for --dump model and golden tests.
#include <inttypes.h>

#include "model/model.h"

static const char *size_text(Text *out, int64_t size)
{
    return size ? arena_format(out->arena, "%" PRId64, size) : "any";
}

static const char *layer_word(const Layer *layer)
{
    static const char *const words[] = {[LAYER_EMBEDDING] = "embedding",
                                        [LAYER_DENSE] = "dense",
                                        [LAYER_ACTIVATION] = "activation"};
    return layer->kind == LAYER_CELL ? layer->cell->name : words[layer->kind];
}

static void print_activation(const char *role, const Activation *activation, Text *out)
{
    text_addf(out, "  %s ", role);
    if (activation->parameter_count == 0)
        text_add(out,
                 text_equal(activation->name, "expr") ? activation->formula : activation->name);
    else
        text_addf(out, "%s(%.9g", activation->name, activation->parameters[0]);
    if (activation->parameter_count > 1)
        text_addf(out, ", %.9g", activation->parameters[1]);
    text_add(out, activation->parameter_count ? ")\n" : "\n");
}

static void print_layer(const Layer *layer, Text *out)
{
    text_addf(out, "layer %s: %s %" PRId64 " -> %" PRId64 "%s\n", layer->name, layer_word(layer),
              layer->inputs, layer->outputs,
              !layer->sequence_in    ? " (no sequence)"
              : !layer->sequence_out ? " (last output)"
                                     : "");
    if (layer->kind == LAYER_CELL) {
        print_activation("activation", &layer->cell->activation, out);
        print_activation("recurrent_activation", &layer->cell->recurrent_activation, out);
        print_activation("output_activation", &layer->cell->output_activation, out);
    } else if (layer->kind != LAYER_EMBEDDING) {
        print_activation("activation", &layer->activation, out);
    }
    for (int i = 0; i < WEIGHT_COUNT; i++)
        if (layer->weights[i].name)
            text_addf(out, "  weight %s [%" PRId64 ", %" PRId64 "]\n", layer->weights[i].name,
                      layer->weights[i].rows, layer->weights[i].columns);
    for (int i = 0; layer->cell && i < layer->cell->state_count; i++) {
        const CellState *state = &layer->cell->states[i];
        text_addf(out, "  state %s/%s [B, %" PRId64 "] starts at %g%s\n", layer->name, state->name,
                  layer_domain_size(layer, state->domain), state->start,
                  layer->stateful ? ", carried over" : "");
    }
    if (layer->kind == LAYER_CELL)
        cell_print_phases(layer->cell, out);
}

void model_print(const Model *model, Text *out)
{
    text_addf(out, "model %s\ninput %s %" PRId64 ", batch %s, timesteps %s\n", model->name,
              model->tokens ? "tokens" : "features", model->features, size_text(out, model->batch),
              size_text(out, model->timesteps));
    for (int i = 0; i < model->layer_count; i++)
        print_layer(&model->layers[i], out);
}
