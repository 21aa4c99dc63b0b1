// Making networks: layers, weights drawn so that pre-activations are of order one and a recurrence
// neither dies nor explodes.
#include "conform/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "import/safetensors.h"

double random_uniform(uint64_t *state, double low, double high)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return low + (high - low) * ((double)(z >> 11) + 0.5) * 0x1p-53;
}

/// FNV-1a.
uint64_t random_seed(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

static NetworkLayer *add_layer(Arena *arena, Network *network, NetworkKind kind)
{
    const int index = network->layer_count++;
    NetworkLayer *layer = &network->layers[index];
    layer->kind = kind;
    layer->name = layer->base = arena_format(arena, "l%d", index);
    layer->inputs = index ? network->layers[index - 1].outputs : network->inputs;
    return layer;
}

static float *add_weight(Arena *arena, NetworkLayer *layer, const char *owner, const char *kind,
                         int64_t rows, int64_t columns)
{
    NetworkWeight *weight = &layer->weights[layer->weight_count++];
    weight->name = arena_format(arena, "%s/%s", owner, kind);
    weight->rows = rows;
    weight->columns = columns;
    weight->data = ARENA_ARRAY(arena, float, rows *(columns ? columns : 1));
    return weight->data;
}

/// One direction of a cell layer: `owner` is "l0" or "l0/fw".
static void add_direction(Arena *arena, Network *network, NetworkLayer *layer, int direction,
                          const char *owner)
{
    const NetworkCell *options = &layer->options[direction];
    const ReferenceActivation *own = options->activations;
    const ReferenceFacts *facts = reference_facts(options->cell);
    const int64_t units = options->units, heads = options->heads > 1 ? options->heads : 1;
    ReferenceCell *of = &layer->cells[direction];
    *of = (ReferenceCell){.facts = facts, .inputs = layer->inputs, .units = units};
    of->projection = options->projection;
    of->heads = heads;
    of->clip = options->clip;
    of->input_forget = options->input_forget;
    memcpy(of->zoneout, options->zoneout, sizeof of->zoneout);
    of->activation = own[0].name ? own[0] : (ReferenceActivation){"tanh", 0, 0};
    of->recurrent_activation = own[1].name ? own[1] : (ReferenceActivation){"sigmoid", 0, 0};
    of->output_activation = own[2].name ? own[2] : of->activation;
    of->W = add_weight(arena, layer, owner, "W", facts->gates * units, layer->inputs);
    if (facts->recurrent_gates)
        of->R = add_weight(arena, layer, owner, "R", facts->recurrent_gates * units,
                           reference_outputs(of) / heads);
    if (network->bias)
        of->b = add_weight(arena, layer, owner, "b", facts->biases * units, 0);
    if (network->bias && facts->recurrent_bias)
        of->rb = add_weight(arena, layer, owner, "rb", units, 0);
    if (facts->peepholes)
        of->p = add_weight(arena, layer, owner, "p", facts->peepholes * units, 0);
    if (options->projection)
        of->P = add_weight(arena, layer, owner, "P", options->projection, units);
    for (int k = 0; k < facts->state_count; k++) {
        NetworkState *state = &network->states[network->state_count++];
        state->name = arena_format(arena, "%s/%s", owner, facts->states[k]);
        state->layer = network->layer_count - 1;
        state->direction = direction;
        state->index = k;
        state->size = reference_state_size(of, k);
    }
}

static void add_one_of_stack(Arena *arena, Network *network, const NetworkCell *options,
                             const NetworkCell *backward, int index)
{
    NetworkLayer *layer = add_layer(arena, network, NETWORK_CELL);
    if (index > 0)
        layer->base = (layer - 1)->base;
    if (options->depth > 1)
        layer->name = arena_format(arena, "%s/%d", layer->base, index);
    layer->stack_index = index;
    layer->options[0] = *options;
    layer->options[1] = backward ? *backward : *options;
    layer->own_backward = backward != NULL;
    layer->direction_count = options->direction == NETWORK_BIDIRECTIONAL ? 2 : 1;
    for (int d = 0; d < layer->direction_count; d++) {
        const NetworkCell *own = &layer->options[d];
        if (network->drops && (own->dropout > 0.0 || own->recurrent_dropout > 0.0))
            layer->dropout_index[d] = network->dropout_count++;
        add_direction(arena, network, layer, d,
                      layer->direction_count == 1
                          ? layer->name
                          : arena_format(arena, "%s/%s", layer->name, d ? "bw" : "fw"));
    }
    layer->outputs = reference_outputs(&layer->cells[0]);
    if (layer->direction_count == 2 && options->merge == NETWORK_CONCAT)
        layer->outputs += reference_outputs(&layer->cells[1]);
}

void network_add_recurrent(Arena *arena, Network *network, const NetworkCell *options,
                           const NetworkCell *backward)
{
    for (int index = 0; index < (options->depth > 1 ? options->depth : 1); index++)
        add_one_of_stack(arena, network, options, backward, index);
}

void network_add_cell(Arena *arena, Network *network, const char *cell, int64_t units,
                      int64_t projection, const ReferenceActivation activations[3])
{
    NetworkCell options = {.cell = cell, .units = units, .projection = projection};
    memcpy(options.activations, activations, sizeof options.activations);
    network_add_recurrent(arena, network, &options, NULL);
}

void network_add_embedding(Arena *arena, Network *network, int64_t width, bool mask_zero)
{
    NetworkLayer *layer = add_layer(arena, network, NETWORK_EMBEDDING);
    layer->mask_zero = mask_zero;
    network->own_mask |= mask_zero;
    layer->outputs = width;
    add_weight(arena, layer, layer->name, "E", layer->inputs, width);
}

void network_add_dense(Arena *arena, Network *network, int64_t outputs,
                       ReferenceActivation activation)
{
    NetworkLayer *layer = add_layer(arena, network, NETWORK_DENSE);
    layer->outputs = outputs;
    layer->activation = activation;
    add_weight(arena, layer, layer->name, "W", outputs, layer->inputs);
    add_weight(arena, layer, layer->name, "b", outputs, 0);
}

void network_add_dropout(Arena *arena, Network *network, double rate)
{
    NetworkLayer *layer = add_layer(arena, network, NETWORK_DROPOUT);
    layer->outputs = layer->inputs;
    layer->rate = rate;
    if (network->drops)
        layer->dropout_index[0] = network->dropout_count++;
}

void network_add_activation(Arena *arena, Network *network, ReferenceActivation activation)
{
    NetworkLayer *layer = add_layer(arena, network, NETWORK_ACTIVATION);
    layer->outputs = layer->inputs;
    layer->activation = activation;
}

void network_add_masking(Arena *arena, Network *network, double value)
{
    NetworkLayer *layer = add_layer(arena, network, NETWORK_MASKING);
    layer->outputs = layer->inputs;
    layer->mask_value = value;
    network->own_mask = true;
}

/// Half-width of the uniform draw. W gives W*x a deviation near 1/2 for x in (-1.5, 1.5); R keeps
/// the spectral radius near 0.6; indrnn's p stays below 1.
static double weight_width(const Network *network, const NetworkWeight *weight)
{
    const double columns = (double)(weight->columns ? weight->columns : 1);
    switch (strrchr(weight->name, '/')[1]) {
    case 'W':
        return 1.0 / sqrt(columns);
    case 'R':
        return network->recurrent_scale / sqrt(columns);
    case 'P':
        return 2.0 / sqrt(columns);
    case 'E':
        return 1.5;
    default:
        return 0.5;
    }
}

/// The gains of layer norms lie around 1.
static double weight_middle(const NetworkLayer *layer, const NetworkWeight *weight)
{
    const bool gains = layer->kind == NETWORK_CELL && strrchr(weight->name, '/')[1] == 'p' &&
                       strcmp(layer->options[0].cell, "layer_norm_lstm") == 0;
    return gains ? 1.0 : 0.0;
}

void network_draw(Arena *arena, Network *network)
{
    for (int l = 0; l < network->layer_count; l++) {
        NetworkLayer *layer = &network->layers[l];
        for (int w = 0; w < layer->weight_count; w++) {
            const NetworkWeight *weight = &layer->weights[w];
            const double width = weight_width(network, weight);
            const int64_t count = weight->rows * (weight->columns ? weight->columns : 1);
            uint64_t state = random_seed(arena_format(arena, "%s:%s", network->name, weight->name));
            const double middle = weight_middle(layer, weight);
            for (int64_t k = 0; k < count; k++)
                weight->data[k] = (float)(middle + random_uniform(&state, -width, width));
        }
    }
}

bool network_tokens(const Network *network)
{
    return network->layers[0].kind == NETWORK_EMBEDDING;
}

bool network_layer_sequences(const Network *network, int l)
{
    for (int k = l + 1; k < network->layer_count; k++)
        if (network->layers[k].kind == NETWORK_CELL)
            return true;
    return network->sequences;
}

static const NetworkLayer *last_layer(const Network *network)
{
    return &network->layers[network->layer_count - 1];
}

int network_output_count(const Network *network)
{
    const NetworkLayer *last = last_layer(network);
    return last->direction_count == 2 && last->options[0].merge == NETWORK_NONE ? 2 : 1;
}

const char *network_output_name(const Network *network, int output)
{
    static const char *const both[] = {"y/fw", "y/bw"};
    return network_output_count(network) == 1 ? "y" : both[output];
}

int64_t network_output_width(const Network *network, int output)
{
    const NetworkLayer *last = last_layer(network);
    return network_output_count(network) == 1 ? last->outputs
                                              : reference_outputs(&last->cells[output]);
}

int64_t network_output_elems(const Network *network, int output, int64_t batch, int64_t timesteps)
{
    return batch * (network->sequences ? timesteps : 1) * network_output_width(network, output);
}

bool network_write_weights(Arena *arena, Diags *diags, const Network *network, const char *folder)
{
    SafetensorsEntry entries[NETWORK_LAYERS_MAX * NETWORK_WEIGHTS_MAX];
    int64_t dims[NETWORK_LAYERS_MAX * NETWORK_WEIGHTS_MAX][2];
    int count = 0;
    for (int l = 0; l < network->layer_count; l++)
        for (int w = 0; w < network->layers[l].weight_count; w++) {
            const NetworkWeight *weight = &network->layers[l].weights[w];
            dims[count][0] = weight->rows;
            dims[count][1] = weight->columns;
            entries[count] = (SafetensorsEntry){weight->name, "F32", dims[count],
                                                weight->columns ? 2 : 1, weight->data};
            count++;
        }
    const char *path = arena_format(arena, "%s/%s.safetensors", folder, network->name);
    return safetensors_write(arena, diags, path, entries, count, NULL);
}

const char *network_write(Arena *arena, Diags *diags, const Network *network, const char *folder,
                          const char *convention)
{
    Text spec = {.arena = arena};
    network_print(network, convention, &spec);
    const char *path = arena_format(arena, "%s/%s.yaml", folder, network->name);
    return file_write(arena, diags, path, text_string(&spec), spec.length) ? path : NULL;
}

static bool draws(const NetworkCell *options)
{
    bool zones_out = false;
    for (int k = 0; k < REFERENCE_STATES_MAX; k++)
        zones_out |= options->zoneout[k] > 0.0;
    return options->dropout > 0.0 || options->recurrent_dropout > 0.0 || zones_out;
}

void network_train(Network *network)
{
    network->trains = network->drops = true;
    network->dropout_count = 0;
    for (int l = 0; l < network->layer_count; l++) {
        NetworkLayer *layer = &network->layers[l];
        for (int d = 0; d < layer->direction_count; d++)
            if (draws(&layer->options[d]))
                layer->dropout_index[d] = network->dropout_count++;
        if (layer->kind == NETWORK_DROPOUT && layer->rate > 0.0)
            layer->dropout_index[0] = network->dropout_count++;
    }
}
