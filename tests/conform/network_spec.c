// The spec of a network as text. Keys that hold their defaults are left out.
#include <string.h>

#include "conform/network.h"

static int parameter_count(const ReferenceActivation *activation)
{
    static const char *const with_one[] = {"leaky_relu", "elu", "celu", "thresholded_relu"};
    static const char *const with_two[] = {"affine", "scaled_tanh"};
    for (size_t k = 0; k < sizeof with_one / sizeof *with_one; k++)
        if (strcmp(with_one[k], activation->name) == 0)
            return 1;
    for (size_t k = 0; k < sizeof with_two / sizeof *with_two; k++)
        if (strcmp(with_two[k], activation->name) == 0)
            return 2;
    return 0;
}

static void print_activation(Text *out, const char *key, const ReferenceActivation *activation)
{
    const int parameters = parameter_count(activation);
    text_addf(out, "%s: ", key);
    if (parameters == 0)
        text_addf(out, "%s", activation->name);
    else if (parameters == 2)
        text_addf(out, "{%s: [%.17g, %.17g]}", activation->name, activation->a, activation->b);
    else
        text_addf(out, "{%s: %.17g}", activation->name, activation->a);
}

static void print_other_activation(Text *out, const char *key,
                                   const ReferenceActivation *activation, const char *usual)
{
    if (strcmp(activation->name, usual) == 0)
        return;
    text_add(out, ", ");
    print_activation(out, key, activation);
}

static void print_zoneout(Text *out, const ReferenceCell *cell)
{
    const char *between = ", zoneout: {";
    for (int k = 0; k < cell->facts->state_count; k++) {
        if (cell->zoneout[k] <= 0.0)
            continue;
        text_addf(out, "%s%s: %.17g", between, cell->facts->states[k], cell->zoneout[k]);
        between = ", ";
    }
    if (between[2] == 0)
        text_add(out, "}");
}

static int last_of_stack(const Network *network, int l)
{
    const int depth = network->layers[l].options[0].depth;
    return depth > 1 ? l + depth - 1 : l;
}

/// The keys of one direction, without braces.
static void print_cell(const Network *network, int l, int direction, Text *out)
{
    const NetworkLayer *layer = &network->layers[l];
    const NetworkCell *options = &layer->options[direction], *first = &layer->options[0];
    const ReferenceCell *cell = &layer->cells[direction];
    text_addf(out, "cell: %s, units: %ld", cell->facts->name, (long)cell->units);
    if (cell->projection)
        text_addf(out, ", projection: %ld", (long)cell->projection);
    if (cell->heads > 1)
        text_addf(out, ", heads: %ld", (long)cell->heads);
    if (options->depth > 1)
        text_addf(out, ", layers: %d", options->depth);
    if (network_layer_sequences(network, last_of_stack(network, l)))
        text_add(out, ", return_sequences: true");
    if (!network->bias)
        text_add(out, ", use_bias: false");
    print_other_activation(out, "activation", &cell->activation, "tanh");
    print_other_activation(out, "recurrent_activation", &cell->recurrent_activation, "sigmoid");
    print_other_activation(out, "output_activation", &cell->output_activation,
                           cell->activation.name);
    if (cell->clip > 0.0)
        text_addf(out, ", clip: %.17g", cell->clip);
    if (cell->input_forget)
        text_add(out, ", input_forget: true");
    print_zoneout(out, cell);
    if (options->dropout > 0.0)
        text_addf(out, ", dropout: %.17g", options->dropout);
    if (options->recurrent_dropout > 0.0)
        text_addf(out, ", recurrent_dropout: %.17g", options->recurrent_dropout);
    if (first->direction == NETWORK_REVERSE)
        text_add(out, ", direction: reverse");
    if (first->direction == NETWORK_GO_BACKWARDS)
        text_add(out, ", go_backwards: true");
    if (first->zero_output_for_mask)
        text_addf(out, ", zero_output_for_mask: %s",
                  first->zero_output_for_mask > 0 ? "true" : "false");
    if (first->stateful)
        text_add(out, ", stateful: true");
}

static void print_cell_layer(const Network *network, int l, Text *out)
{
    static const char *const merges[] = {"concat", "sum", "mul", "ave", "none"};
    const NetworkLayer *layer = &network->layers[l];
    if (layer->direction_count == 1) {
        print_cell(network, l, 0, out);
        return;
    }
    text_addf(out, "bidirectional: {merge: %s, layer: {", merges[layer->options[0].merge]);
    print_cell(network, l, 0, out);
    if (layer->own_backward) {
        text_add(out, "}, backward: {");
        print_cell(network, l, 1, out);
    }
    text_add(out, "}}");
}

static void print_layer(const Network *network, int l, Text *out)
{
    const NetworkLayer *layer = &network->layers[l];
    if (layer->stack_index > 0)
        return; // said by the first
    text_add(out, "  - {");
    switch (layer->kind) {
    case NETWORK_CELL:
        print_cell_layer(network, l, out);
        break;
    case NETWORK_EMBEDDING:
        if (layer->mask_zero)
            text_addf(out, "embedding: {units: %ld, mask_zero: true}", (long)layer->outputs);
        else
            text_addf(out, "embedding: %ld", (long)layer->outputs);
        break;
    case NETWORK_DENSE:
        text_addf(out, "dense: {units: %ld, ", (long)layer->outputs);
        print_activation(out, "activation", &layer->activation);
        text_add(out, "}");
        break;
    case NETWORK_DROPOUT:
        text_addf(out, "dropout: %.17g", layer->rate);
        break;
    case NETWORK_ACTIVATION:
        print_activation(out, "activation", &layer->activation);
        break;
    case NETWORK_MASKING:
        text_addf(out, "masking: %.17g", layer->mask_value);
        break;
    }
    text_addf(out, ", name: %s}\n", layer->base);
}

void network_print(const Network *network, const char *convention, Text *out)
{
    text_addf(out, "rnnc: 1\nname: conform\n");
    text_addf(out, "input: {%s: %ld, timesteps: any%s",
              network_tokens(network) ? "tokens" : "features", (long)network->inputs,
              network->time_major ? ", layout: time_major" : "");
    if (network->batch)
        text_addf(out, ", batch: %ld}\nlayers:\n", (long)network->batch);
    else
        text_add(out, ", batch: any}\nlayers:\n");
    for (int l = 0; l < network->layer_count; l++)
        print_layer(network, l, out);
    text_addf(out, "compile: {precision: %s%s}\n", network->precision,
              network->trains  ? ", mode: training"
              : network->drops ? ", dropout_at_inference: true"
                               : "");
    text_addf(out, "weights: {file: %s.safetensors, convention: %s}\n", network->name, convention);
}
