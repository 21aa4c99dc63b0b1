// Printing of a model: one block a layer, for --dump model and golden tests.
#include <inttypes.h>

#include "model/model.h"

static const char *size_text(Text *out, int64_t size)
{
    return size ? arena_format(out->arena, "%" PRId64, size) : "any";
}

const char *layer_kind_name(LayerKind kind)
{
    static const char *const names[] = {
        [LAYER_CELL] = "cell",       [LAYER_EMBEDDING] = "embedding",
        [LAYER_DENSE] = "dense",     [LAYER_ACTIVATION] = "activation",
        [LAYER_DROPOUT] = "dropout", [LAYER_MASKING] = "masking",
        [LAYER_MERGE] = "merge",
    };
    return names[kind];
}

static const char *slot_text(Text *out, int slot)
{
    return slot == SLOT_X            ? "x"
           : slot == SLOT_Y          ? "y"
           : slot == SLOT_Y_BACKWARD ? "y/bw"
                                     : arena_format(out->arena, "buffer %d", slot);
}

/// Part of a buffer: `buffer 0, features 4 to 8 of 8`.
static void print_view(const char *word, const View *view, int64_t features, Text *out)
{
    text_addf(out, "  %s %s", word, slot_text(out, view->slot));
    if (view->slot != SLOT_X && view->width != features)
        text_addf(out, ", features %" PRId64 " to %" PRId64 " of %" PRId64, view->offset,
                  view->offset + features, view->width);
    text_add(out, "\n");
}

/// What a layer reads and writes, where that is not the whole output of the layer before and a
/// whole one of its own.
static void print_views(const Layer *layer, const Layer *before, Text *out)
{
    const int chain = before ? before->out.slot : SLOT_X;
    const bool reads_before = layer->in.slot == chain && layer->kind != LAYER_MERGE;
    if (!reads_before)
        print_view("reads", &layer->in, layer->inputs, out);
    if (layer->in2.slot != SLOT_NONE)
        print_view("reads", &layer->in2, layer->inputs, out);
    if (!reads_before || layer->out.width != layer->outputs)
        print_view("writes", &layer->out, layer->outputs, out);
}

/// What the keys of a layer add to its kind.
static void print_facts(const Layer *layer, Text *out)
{
    static const char *const merges[] = {
        [MERGE_SUM] = "sum", [MERGE_MUL] = "mul", [MERGE_AVE] = "ave"};
    if (layer->reversed)
        text_add(out, layer->go_backwards ? "  goes backwards\n" : "  reverse\n");
    if (layer->beside)
        text_add(out, "  beside the layer before\n");
    if (layer->zero_output_for_mask)
        text_add(out, "  masked steps give 0\n");
    if (layer->heads > 1)
        text_addf(out, "  heads %" PRId64 "\n", layer->heads);
    if (layer->recurrent_dropout > 0)
        text_addf(out, "  recurrent dropout %g, draw %d\n", layer->recurrent_dropout,
                  layer->dropout_index);
    if (layer->mask_zero)
        text_add(out, "  token 0 masks its step\n");
    if (layer->kind == LAYER_MASKING)
        text_addf(out, "  masks steps of %g\n", layer->mask_value);
    if (layer->kind == LAYER_DROPOUT)
        text_addf(out, "  rate %g of each %s, draw %d\n", layer->rate,
                  layer->per_sequence ? "sequence" : "element", layer->dropout_index);
    if (layer->kind == LAYER_MERGE)
        text_addf(out, "  %s\n", merges[layer->merge]);
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

static void print_layer(const Layer *layer, const Layer *before, Text *out)
{
    text_addf(out, "layer %s: %s %" PRId64 " -> %" PRId64 "%s\n", layer->name,
              layer->kind == LAYER_CELL ? layer->cell->name : layer_kind_name(layer->kind),
              layer->inputs, layer->outputs,
              !layer->sequence_in    ? " (no sequence)"
              : !layer->sequence_out ? " (last output)"
                                     : "");
    print_views(layer, before, out);
    print_facts(layer, out);
    if (layer->kind == LAYER_CELL) {
        print_activation("activation", &layer->cell->activation, out);
        print_activation("recurrent_activation", &layer->cell->recurrent_activation, out);
        print_activation("output_activation", &layer->cell->output_activation, out);
    } else if (layer->kind == LAYER_DENSE || layer->kind == LAYER_ACTIVATION) {
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
    text_addf(out, "model %s\ninput %s %" PRId64 ", batch %s, timesteps %s%s\n", model->name,
              model->tokens ? "tokens" : "features", model->features, size_text(out, model->batch),
              size_text(out, model->timesteps), model->time_major ? ", time major" : "");
    for (int i = 0; i < model->layer_count; i++)
        print_layer(&model->layers[i], i ? &model->layers[i - 1] : NULL, out);
}
