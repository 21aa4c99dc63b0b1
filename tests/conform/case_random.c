// Whole models drawn at random: one to three cell layers of any kind, size, direction and merge,
// with what may stand before, between and behind them. Left out is what has no bound on its error
// (jumps as of thresholded_relu, growth as of exponential) and what the compiler refuses.
#include <string.h>

#include "conform/cases.h"

static int64_t pick(uint64_t *seed, int64_t low, int64_t high)
{
    return (int64_t)random_uniform(seed, (double)low, (double)high + 1.0);
}

static bool chance(uint64_t *seed, double p)
{
    return random_uniform(seed, 0.0, 1.0) < p;
}

static const ReferenceActivation outer[] = {
    {"tanh", 0, 0},      {"relu", 0, 0}, {"leaky_relu", 0.1, 0},
    {"softsign", 0, 0},  {"silu", 0, 0}, {"scaled_tanh", 1.2, 0.6},
    {"hard_tanh", 0, 0}, {"gelu", 0, 0}, {"elu", 1.0, 0},
};
static const ReferenceActivation gates[] = {
    {"sigmoid", 0, 0}, {"hard_sigmoid", 0, 0}, {"hard_sigmoid_k2", 0, 0}};
enum { OUTER = sizeof outer / sizeof *outer, GATES = sizeof gates / sizeof *gates };

static bool has_forget_gate(const char *cell)
{
    return strcmp(cell, "lstm") == 0 || strcmp(cell, "peephole_lstm") == 0 ||
           strcmp(cell, "lstmp") == 0 || strcmp(cell, "layer_norm_lstm") == 0;
}

/// A number of heads that divides both sizes; 1 most of the time.
static int64_t pick_heads(uint64_t *seed, int64_t units, int64_t outputs)
{
    const int64_t heads = chance(seed, 0.3) ? pick(seed, 2, 5) : 1;
    return units % heads == 0 && outputs % heads == 0 ? heads : 1;
}

static NetworkCell draw_cell(uint64_t *seed, bool drops)
{
    int count = 0;
    while (reference_cells[count].name)
        count++;
    NetworkCell cell = {.cell = reference_cells[pick(seed, 0, count - 1)].name};
    const bool slstm = strcmp(cell.cell, "slstm") == 0, indrnn = strcmp(cell.cell, "indrnn") == 0;
    const bool normed = strcmp(cell.cell, "layer_norm_lstm") == 0;
    cell.units = pick(seed, normed ? 4 : 1, 40);
    cell.projection = strcmp(cell.cell, "lstmp") == 0 ? pick(seed, 1, 20) : 0;
    if (!indrnn)
        cell.heads = pick_heads(seed, cell.units, cell.projection ? cell.projection : cell.units);
    if (chance(seed, 0.4))
        cell.activations[0] = outer[pick(seed, 0, OUTER - 1)];
    if (chance(seed, 0.3) && !indrnn && strcmp(cell.cell, "rnn") != 0)
        cell.activations[1] = gates[pick(seed, 0, GATES - 1)];
    if (chance(seed, 0.2) && has_forget_gate(cell.cell))
        cell.activations[2] = outer[pick(seed, 0, OUTER - 1)];
    if (chance(seed, 0.2) && !slstm) // whose exponential gates ONNX knows nothing of
        cell.clip = random_uniform(seed, 0.2, 1.5);
    if (chance(seed, 0.2))
        cell.input_forget = has_forget_gate(cell.cell);
    if (chance(seed, 0.2) && !slstm) // whose m starts at -infinity
        for (int k = 0; k < reference_facts(cell.cell)->state_count; k++)
            cell.zoneout[k] = random_uniform(seed, 0.05, 0.5);
    if (drops && chance(seed, 0.5))
        cell.dropout = random_uniform(seed, 0.1, 0.5);
    if (drops && chance(seed, 0.6) && !indrnn)
        cell.recurrent_dropout = random_uniform(seed, 0.1, 0.5);
    return cell;
}

/// `last`: no cell follows, so that the two directions may stay apart.
static void draw_recurrent(Arena *arena, Network *network, uint64_t *seed, bool last)
{
    NetworkCell cell = draw_cell(seed, network->drops);
    NetworkCell backward = draw_cell(seed, network->drops);
    cell.direction = (NetworkDirection)pick(seed, NETWORK_FORWARD, NETWORK_BIDIRECTIONAL);
    cell.merge = (NetworkMerge)pick(seed, NETWORK_CONCAT, last ? NETWORK_NONE : NETWORK_AVE);
    cell.zero_output_for_mask = chance(seed, 0.5) ? (int)pick(seed, -1, 1) : 0;
    cell.stateful = network->batch > 0;
    const bool joint = cell.direction != NETWORK_BIDIRECTIONAL || cell.merge != NETWORK_NONE;
    cell.depth =
        joint && last && network->layer_count < NETWORK_LAYERS_MAX - 1 && chance(seed, 0.1) ? 2 : 0;
    backward.depth = cell.depth;
    const int64_t outputs = cell.projection ? cell.projection : cell.units;
    const bool same = outputs == (backward.projection ? backward.projection : backward.units);
    const bool both = cell.direction == NETWORK_BIDIRECTIONAL;
    const bool fits = cell.merge == NETWORK_CONCAT || cell.merge == NETWORK_NONE || same;
    network_add_recurrent(arena, network, &cell,
                          both && fits && chance(seed, 0.4) ? &backward : NULL);
}

static void draw_between(Arena *arena, Network *network, uint64_t *seed)
{
    if (chance(seed, 0.2))
        network_add_dropout(arena, network, random_uniform(seed, 0.1, 0.5));
    else if (chance(seed, 0.2))
        network_add_activation(arena, network, outer[pick(seed, 0, OUTER - 1)]);
}

static void draw_layers(Arena *arena, Network *network, uint64_t *seed)
{
    if (chance(seed, 0.2))
        network_add_embedding(arena, network, pick(seed, 1, 12), chance(seed, 0.6));
    else if (chance(seed, 0.2))
        network_add_masking(arena, network, chance(seed, 0.5) ? 0.0 : -0.5);
    const int64_t cells = chance(seed, 0.2) ? 3 : chance(seed, 0.4) ? 2 : 1;
    for (int64_t k = 0; k < cells; k++) {
        draw_recurrent(arena, network, seed, k == cells - 1);
        if (network_output_count(network) == 1 && network->layer_count < NETWORK_LAYERS_MAX - 2)
            draw_between(arena, network, seed);
    }
    if (network_output_count(network) == 1 && chance(seed, 0.3) &&
        network->layer_count < NETWORK_LAYERS_MAX)
        network_add_dense(arena, network, pick(seed, 1, 20), outer[pick(seed, 0, OUTER - 1)]);
}

static void draw_shapes(Case *of, uint64_t *seed)
{
    for (int k = 0; k < 5; k++) {
        const int64_t batch = pick(seed, 1, 6);
        SampleShape shape = {of->network.batch ? of->network.batch : batch, pick(seed, 1, 20),
                             chance(seed, 0.5), (SampleMasking)((k + 1) / 2), chance(seed, 0.2)};
        if (shape.masking != SAMPLE_LENGTHS || !of->network.own_mask)
            of->shapes[of->shape_count++] = shape;
    }
}

Cases cases_random(Arena *arena, uint64_t seed, int count)
{
    static const char *const precisions[] = {"tf32", "bfloat16", "float16"};
    Cases cases = {NULL, 0};
    for (int k = 0; k < count; k++) {
        const char *name =
            arena_format(arena, "random-%llu", (unsigned long long)(seed + (uint64_t)k));
        uint64_t state = random_seed(name);
        const char *precision = chance(&state, 0.7) ? "float32" : precisions[pick(&state, 0, 2)];
        Case *of = case_add(arena, &cases, name, "random", precision, pick(&state, 1, 40));
        Network *network = &of->network;
        network->sequences = chance(&state, 0.6);
        network->bias = chance(&state, 0.85);
        network->time_major = chance(&state, 0.2);
        network->drops = chance(&state, 0.3);
        network->batch = chance(&state, 0.1) ? pick(&state, 1, 6) : 0;
        draw_layers(arena, network, &state);
        network_draw(arena, network);
        draw_shapes(of, &state);
    }
    return cases;
}
