// Making networks: layers, weights drawn so that pre-activations are of order one and a recurrence
// neither dies nor explodes, the spec as text, and the float64 answer for a sample.
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
    layer->name = arena_format(arena, "l%d", index);
    layer->inputs = index ? network->layers[index - 1].outputs : network->inputs;
    return layer;
}

static float *add_weight(Arena *arena, NetworkLayer *layer, const char *kind, int64_t rows,
                         int64_t columns)
{
    NetworkWeight *weight = &layer->weights[layer->weight_count++];
    weight->name = arena_format(arena, "%s/%s", layer->name, kind);
    weight->rows = rows;
    weight->columns = columns;
    weight->data = ARENA_ARRAY(arena, float, rows *(columns ? columns : 1));
    return weight->data;
}

void network_add_cell(Arena *arena, Network *network, const char *cell, int64_t units,
                      int64_t projection, const ReferenceActivation activations[3])
{
    NetworkLayer *layer = add_layer(arena, network, NETWORK_CELL);
    const ReferenceFacts *facts = reference_facts(cell);
    const int64_t outputs = projection ? projection : units;
    ReferenceCell *of = &layer->cell;
    *of = (ReferenceCell){.facts = facts, .inputs = layer->inputs, .units = units};
    of->projection = projection;
    of->activation = activations[0].name ? activations[0] : (ReferenceActivation){"tanh", 0, 0};
    of->recurrent_activation =
        activations[1].name ? activations[1] : (ReferenceActivation){"sigmoid", 0, 0};
    of->output_activation = activations[2].name ? activations[2] : of->activation;
    layer->outputs = outputs;
    of->W = add_weight(arena, layer, "W", facts->gates * units, layer->inputs);
    if (facts->recurrent_gates)
        of->R = add_weight(arena, layer, "R", facts->recurrent_gates * units, outputs);
    if (network->bias)
        of->b = add_weight(arena, layer, "b", facts->gates * units, 0);
    if (network->bias && facts->recurrent_bias)
        of->rb = add_weight(arena, layer, "rb", units, 0);
    if (facts->peepholes)
        of->p = add_weight(arena, layer, "p", facts->peepholes * units, 0);
    if (projection)
        of->P = add_weight(arena, layer, "P", projection, units);
    for (int k = 0; k < facts->state_count; k++) {
        NetworkState *state = &network->states[network->state_count++];
        state->name = arena_format(arena, "%s/%s", layer->name, facts->states[k]);
        state->layer = network->layer_count - 1;
        state->index = k;
        state->size = reference_state_size(of, k);
    }
}

void network_add_embedding(Arena *arena, Network *network, int64_t width)
{
    NetworkLayer *layer = add_layer(arena, network, NETWORK_EMBEDDING);
    layer->outputs = width;
    add_weight(arena, layer, "E", layer->inputs, width);
}

void network_add_dense(Arena *arena, Network *network, int64_t outputs,
                       ReferenceActivation activation)
{
    NetworkLayer *layer = add_layer(arena, network, NETWORK_DENSE);
    layer->outputs = outputs;
    layer->activation = activation;
    add_weight(arena, layer, "W", outputs, layer->inputs);
    add_weight(arena, layer, "b", outputs, 0);
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

void network_draw(Arena *arena, Network *network)
{
    for (int l = 0; l < network->layer_count; l++) {
        NetworkLayer *layer = &network->layers[l];
        for (int w = 0; w < layer->weight_count; w++) {
            const NetworkWeight *weight = &layer->weights[w];
            const double width = weight_width(network, weight);
            const int64_t count = weight->rows * (weight->columns ? weight->columns : 1);
            uint64_t state = random_seed(arena_format(arena, "%s:%s", network->name, weight->name));
            for (int64_t k = 0; k < count; k++)
                weight->data[k] = (float)random_uniform(&state, -width, width);
        }
    }
}

bool network_tokens(const Network *network)
{
    return network->layers[0].kind == NETWORK_EMBEDDING;
}

int64_t network_outputs(const Network *network)
{
    return network->layers[network->layer_count - 1].outputs;
}

int64_t network_output_count(const Network *network, int64_t batch, int64_t timesteps)
{
    return batch * (network->sequences ? timesteps : 1) * network_outputs(network);
}

static bool has_parameters(const ReferenceActivation *activation)
{
    static const char *const with_one[] = {"leaky_relu", "elu", "celu", "thresholded_relu"};
    static const char *const with_two[] = {"affine", "scaled_tanh"};
    for (size_t k = 0; k < sizeof with_one / sizeof *with_one; k++)
        if (strcmp(with_one[k], activation->name) == 0)
            return true;
    for (size_t k = 0; k < sizeof with_two / sizeof *with_two; k++)
        if (strcmp(with_two[k], activation->name) == 0)
            return true;
    return false;
}

static void print_activation(Text *out, const char *key, const ReferenceActivation *activation)
{
    const bool two =
        strcmp(activation->name, "affine") == 0 || strcmp(activation->name, "scaled_tanh") == 0;
    if (!has_parameters(activation))
        text_addf(out, ", %s: %s", key, activation->name);
    else if (two)
        text_addf(out, ", %s: {%s: [%.17g, %.17g]}", key, activation->name, activation->a,
                  activation->b);
    else
        text_addf(out, ", %s: {%s: %.17g}", key, activation->name, activation->a);
}

/// Whether a later layer is a cell: then this one must return its sequence.
static bool cell_follows(const Network *network, int l)
{
    for (int k = l + 1; k < network->layer_count; k++)
        if (network->layers[k].kind == NETWORK_CELL)
            return true;
    return false;
}

static void print_layer(const Network *network, int l, Text *out)
{
    const NetworkLayer *layer = &network->layers[l];
    if (layer->kind == NETWORK_EMBEDDING) {
        text_addf(out, "  - {embedding: %ld, name: %s}\n", (long)layer->outputs, layer->name);
        return;
    }
    if (layer->kind == NETWORK_DENSE) {
        text_addf(out, "  - {dense: {units: %ld", (long)layer->outputs);
        print_activation(out, "activation", &layer->activation);
        text_addf(out, "}, name: %s}\n", layer->name);
        return;
    }
    const ReferenceCell *cell = &layer->cell;
    text_addf(out, "  - {cell: %s, units: %ld, name: %s", cell->facts->name, (long)cell->units,
              layer->name);
    if (cell->projection)
        text_addf(out, ", projection: %ld", (long)cell->projection);
    if (network->sequences || cell_follows(network, l))
        text_add(out, ", return_sequences: true");
    if (!network->bias)
        text_add(out, ", use_bias: false");
    if (strcmp(cell->activation.name, "tanh") != 0)
        print_activation(out, "activation", &cell->activation);
    if (strcmp(cell->recurrent_activation.name, "sigmoid") != 0)
        print_activation(out, "recurrent_activation", &cell->recurrent_activation);
    if (strcmp(cell->output_activation.name, cell->activation.name) != 0)
        print_activation(out, "output_activation", &cell->output_activation);
    text_add(out, "}\n");
}

static void print_spec(const Network *network, const char *convention, Text *out)
{
    text_addf(out, "rnnc: 1\nname: conform\n");
    text_addf(out, "input: {%s: %ld, batch: any, timesteps: any}\nlayers:\n",
              network_tokens(network) ? "tokens" : "features", (long)network->inputs);
    for (int l = 0; l < network->layer_count; l++)
        print_layer(network, l, out);
    text_addf(out, "compile: {precision: %s}\n", network->precision);
    text_addf(out, "weights: {file: %s.safetensors, convention: %s}\n", network->name, convention);
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
    print_spec(network, convention, &spec);
    const char *path = arena_format(arena, "%s/%s.yaml", folder, network->name);
    return file_write(arena, diags, path, text_string(&spec), spec.length) ? path : NULL;
}
