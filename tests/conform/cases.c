// The matrix: cells x sizes x precisions, the activations in groups of four stacked rnn layers, and
// a few stacks as people write them. What else a layer can be asked is in case_options.c.
#include "conform/cases.h"

#include <pthread.h>
#include <string.h>

static const int64_t units[] = {1, 7, 64, 75, 130};
static const int64_t inputs[] = {1, 3, 70};
static const char *const precisions[] = {"float32", "tf32", "bfloat16", "float16"};
enum { UNITS = 5, INPUTS = 3, PRECISIONS = 4 };

static const ReferenceActivation defaults[3] = {{NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}};

static const ReferenceActivation activations[] = {
    {"tanh", 0, 0},
    {"sigmoid", 0, 0},
    {"relu", 0, 0},
    {"leaky_relu", 0.2, 0},
    {"elu", 1.5, 0},
    {"selu", 0, 0},
    {"celu", 0.7, 0},
    {"gelu", 0, 0},
    {"gelu_tanh", 0, 0},
    {"silu", 0, 0},
    {"mish", 0, 0},
    {"softplus", 0, 0},
    {"softsign", 0, 0},
    {"exponential", 0, 0},
    {"linear", 0, 0},
    {"relu6", 0, 0},
    {"hard_tanh", 0, 0},
    {"hard_sigmoid", 0, 0},
    {"hard_sigmoid_k2", 0, 0},
    {"affine", 0.5, 0.25},
    {"scaled_tanh", 1.2, 0.6},
    {"thresholded_relu", 0.3, 0},
};
enum { ACTIVATIONS = sizeof activations / sizeof *activations, GROUP = 4 };

static void add_shape(Case *of, int64_t batch, int64_t timesteps, bool has_initial,
                      SampleMasking masking)
{
    const bool strided = of->shape_count % 5 == 2;
    const int64_t fixed = of->network.batch;
    of->shapes[of->shape_count++] =
        (SampleShape){fixed ? fixed : batch, timesteps, has_initial, masking, strided};
}

void case_add_shapes(Case *of)
{
    static const int64_t batches[] = {1, 5, 32}, timesteps[] = {1, 2, 17, 100};
    for (int b = 0; b < 3; b++)
        for (int t = 0; t < 4; t++)
            add_shape(of, batches[b], b == 2 && t == 3 ? 33 : timesteps[t], (b + t) % 2 == 0,
                      SAMPLE_PLAIN);
    add_shape(of, 6, 14, true, SAMPLE_MASK);
    add_shape(of, 32, 2, false, SAMPLE_MASK);
    if (of->network.own_mask)
        return;
    add_shape(of, 6, 14, false, SAMPLE_LENGTHS);
    add_shape(of, 32, 2, true, SAMPLE_LENGTHS);
}

Case *case_add(Arena *arena, Cases *cases, const char *name, const char *label,
               const char *precision, int64_t features)
{
    const Case one = {.network = {.name = name,
                                  .label = label,
                                  .precision = precision,
                                  .inputs = features,
                                  .sequences = true,
                                  .bias = true,
                                  .recurrent_scale = 1.0}};
    ARENA_PUSH(arena, cases->items, cases->count, one);
    return &cases->items[cases->count - 1];
}

static Network *add(Arena *arena, Cases *cases, const char *name, const char *label,
                    const char *precision, int64_t features)
{
    return &case_add(arena, cases, name, label, precision, features)->network;
}

/// One cell at one size; whether it returns its sequence and has biases varies with the sizes.
static void add_cell(Arena *arena, Cases *cases, int cell, int h, int i, const char *precision)
{
    const char *name = reference_cells[cell].name;
    Network *network = add(arena, cases, NULL, name, precision, inputs[i]);
    network->sequences = (cell + h + i) % 3 != 0;
    network->bias = (cell + 2 * h + i) % 5 != 0;
    network->name =
        arena_format(arena, "%s-H%ld-I%ld-%s", name, (long)units[h], (long)inputs[i], precision);
    const int64_t projection = strcmp(name, "lstmp") == 0 ? (units[h] + 1) / 2 : 0;
    network_add_cell(arena, network, name, units[h], projection, defaults);
    network_draw(arena, network);
}

/// exponential and linear recurrences stay tame with a small R.
static void add_activations(Arena *arena, Cases *cases, const char *precision)
{
    for (int first = 0; first < ACTIVATIONS; first += GROUP) {
        const char *name = arena_format(arena, "activations-%d-%s", first / GROUP, precision);
        Network *network = add(arena, cases, name, "activations", precision, 3);
        network->recurrent_scale = 0.1;
        for (int k = first; k < first + GROUP && k < ACTIVATIONS; k++) {
            const ReferenceActivation own[3] = {activations[k], {NULL, 0, 0}, {NULL, 0, 0}};
            network_add_cell(arena, network, "rnn", 7, 0, own);
        }
        network_draw(arena, network);
    }
}

static void add_stacks(Arena *arena, Cases *cases, const char *precision)
{
    Network *text =
        add(arena, cases, arena_format(arena, "stack-text-%s", precision), "stack", precision, 66);
    network_add_embedding(arena, text, 16, false);
    network_add_cell(arena, text, "gru", 24, 0, defaults);
    network_add_dense(arena, text, 66, (ReferenceActivation){"linear", 0, 0});
    network_draw(arena, text);

    Network *leaky =
        add(arena, cases, arena_format(arena, "stack-leaky-%s", precision), "stack", precision, 8);
    const ReferenceActivation own[3] = {
        {"leaky_relu", 0.05, 0}, {NULL, 0, 0}, {"leaky_relu", 0.05, 0}};
    leaky->sequences = false;
    network_add_cell(arena, leaky, "lstm", 64, 0, own);
    network_add_cell(arena, leaky, "lstm", 32, 0, defaults);
    network_add_dense(arena, leaky, 8, (ReferenceActivation){"tanh", 0, 0});
    network_draw(arena, leaky);

    Network *mixed =
        add(arena, cases, arena_format(arena, "stack-mixed-%s", precision), "stack", precision, 5);
    const ReferenceActivation gates[3] = {
        {"softsign", 0, 0}, {"hard_sigmoid", 0, 0}, {"scaled_tanh", 1.2, 0.6}};
    network_add_cell(arena, mixed, "indrnn", 9, 0, defaults);
    network_add_cell(arena, mixed, "slstm", 12, 0, defaults);
    network_add_cell(arena, mixed, "peephole_lstm", 10, 0, gates);
    network_draw(arena, mixed);
}

/// Whether a cell of the matrix belongs to the set.
static bool wanted(CaseSet set, int cell, int h, int i, int precision)
{
    if (set == CASES_FULL)
        return true;
    // A small and a large size in float32, inputs in turn; a taste of the others, which on the CPU
    // are float32 too.
    if (set == CASES_QUICK)
        return (cell + h) % INPUTS == i &&
               (precision == 0 ? h == cell % 2 || h == 2 + cell % 3 : cell == precision && h == 3);
    const bool sizes = h == cell % 2 || h == 2 + (cell + 1) % 2 || h == 4;
    // GPU: I = 1 differs from I = 3 on the CPU only, the input product is a library's. The larger
    // sizes, of which one is odd, stand for tf32 and 16 bit.
    return (cell + h) % 2 + 1 == i && (precision == 0 ? sizes : h == 3 + (cell + precision) % 2);
}

Cases cases_make(Arena *arena, CaseSet set)
{
    Cases cases = {NULL, 0};
    for (int cell = 0; reference_cells[cell].name; cell++)
        for (int precision = 0; precision < PRECISIONS; precision++)
            for (int h = 0; h < UNITS; h++)
                for (int i = 0; i < INPUTS; i++)
                    if (wanted(set, cell, h, i, precision))
                        add_cell(arena, &cases, cell, h, i, precisions[precision]);
    add_activations(arena, &cases, "float32");
    add_stacks(arena, &cases, "float32");
    cases_add_options(arena, &cases);
    for (int k = 0; k < cases.count; k++)
        case_add_shapes(&cases.items[k]);
    return cases;
}

typedef struct {
    const Network *network;
    const SampleShape *shape;
    Sample *out;
} Task;

static void *make(void *argument)
{
    const Task *task = argument;
    sample_make(task->network, task->shape, task->out);
    return NULL;
}

void case_samples(const Case *of, Sample samples[CASE_SAMPLES])
{
    Task tasks[CASE_SAMPLES];
    pthread_t threads[CASE_SAMPLES];
    for (int k = 0; k < of->shape_count; k++) {
        tasks[k] = (Task){&of->network, &of->shapes[k], &samples[k]};
        if (pthread_create(&threads[k], NULL, make, &tasks[k]) != 0) {
            make(&tasks[k]);
            tasks[k].network = NULL;
        }
    }
    for (int k = 0; k < of->shape_count; k++)
        if (tasks[k].network)
            pthread_join(threads[k], NULL);
}
