// Weights drawn by seed, as PyTorch initialises its modules: torch.nn.RNNBase.reset_parameters,
// torch.nn.Linear.reset_parameters and torch.nn.Embedding.reset_parameters. Element i of a tensor
// depends on the seed, the tensor's name and i alone.
#include "import/weights.h"

#include <math.h>
#include <string.h>

#include "prim/philox.h"

/// FNV-1a, 64 bit, over "<layer>/<kind>".
static uint64_t name_hash(const char *layer, const char *kind)
{
    const char *const parts[] = {layer, "/", kind};
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < 3; i++)
        for (const char *at = parts[i]; *at; at++)
            hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return hash;
}

/// Four random words of block `block` of a tensor.
static void draw_block(uint64_t seed, uint64_t tensor, uint64_t block, uint32_t out[4])
{
    out[0] = (uint32_t)block;
    out[1] = (uint32_t)(block >> 32);
    out[2] = (uint32_t)tensor;
    out[3] = (uint32_t)(tensor >> 32);
    rnn_philox(out, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/// In (0, 1), symmetric about 1/2: 24 bits, which float32 holds exactly.
static double unit(uint32_t word)
{
    return ((double)(word >> 8) + 0.5) * 0x1p-24;
}

static void draw_uniform(uint64_t seed, uint64_t tensor, double bound, float *out, int64_t count)
{
    uint32_t words[4];
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            draw_block(seed, tensor, (uint64_t)i / 4, words);
        out[i] = (float)((2 * unit(words[i % 4]) - 1) * bound);
    }
}

/// Two values from two words (Box and Muller 1958).
static void draw_normal(uint64_t seed, uint64_t tensor, float *out, int64_t count)
{
    const double full_turn = 6.283185307179586;
    uint32_t words[4];
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            draw_block(seed, tensor, (uint64_t)i / 4, words);
        const uint32_t *pair = words + (i % 4 & 2);
        double radius = sqrt(-2 * log(unit(pair[0]))), angle = full_turn * unit(pair[1]);
        out[i] = (float)(radius * (i % 2 ? sin(angle) : cos(angle)));
    }
}

static double bound_of(const WantedLayer *layer, int64_t units)
{
    int64_t fan = units;
    for (int i = 0; i < layer->tensor_count && strcmp(layer->cell, "dense") == 0; i++)
        if (strcmp(layer->tensors[i].kind, "W") == 0)
            fan = layer->tensors[i].columns;
    return 1 / sqrt((double)(fan > 0 ? fan : 1));
}

/// The gains of a layer norm start at 1, as torch.nn.LayerNorm's do.
static void set_gains(const struct WantedTensor *want)
{
    const int64_t count = want->rows * want->columns / want->gate_count;
    for (int gate = 0; want->is_gain && gate < want->gate_count; gate++)
        for (int64_t i = 0; want->is_gain[gate] && i < count; i++)
            want->data[gate * count + i] = 1;
}

void weights_draw(uint64_t seed, WantedLayer *layers, int layer_count, int64_t units_of_layer[])
{
    for (int i = 0; i < layer_count; i++) {
        const WantedLayer *layer = &layers[i];
        double bound = bound_of(layer, units_of_layer[i]);
        for (int j = 0; j < layer->tensor_count; j++) {
            const struct WantedTensor *want = &layer->tensors[j];
            uint64_t tensor = name_hash(layer->layer, want->kind);
            int64_t count = want->rows * want->columns;
            if (want->kind[0] == 'E')
                draw_normal(seed, tensor, want->data, count);
            else
                draw_uniform(seed, tensor, bound, want->data, count);
            set_gains(want);
        }
    }
}
