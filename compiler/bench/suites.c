// Suites: see suites.h.
#include "bench/suites.h"

#include <string.h>

#include "base/text.h"

const char *const suite_names[] = {"headline",  "training",           "cudnn5",
                                   "deepbench", "deepbench_training", "deepbench_inference",
                                   NULL};

#define LEAKY "activation: {leaky_relu: 0.05}"
#define LEAKY_DROPPED LEAKY ", recurrent_dropout: 0.2"

static const struct {
    const char *suite;
    SuiteCase of;
} rows[] = {
#define SUITE_CASE(suite_, cell_, keys_, inputs_, units_, layers_, directions_, batch_,            \
                   timesteps_, precision_, bar_, cost_)                                            \
    {#suite_,                                                                                      \
     {.cell = #cell_,                                                                              \
      .keys = keys_,                                                                               \
      .precision = #precision_,                                                                    \
      .inputs = inputs_,                                                                           \
      .units = units_,                                                                             \
      .layers = layers_,                                                                           \
      .directions = directions_,                                                                   \
      .batch = batch_,                                                                             \
      .timesteps = timesteps_,                                                                     \
      .bar = bar_,                                                                                 \
      .most_cost = cost_}},
#define DEEPBENCH_ROW(suite_, cell_, units_, batch_, timesteps_, precision_)                       \
    {suite_,                                                                                       \
     {.cell = #cell_,                                                                              \
      .keys = "",                                                                                  \
      .precision = precision_,                                                                     \
      .inputs = units_,                                                                            \
      .units = units_,                                                                             \
      .layers = 1,                                                                                 \
      .directions = 1,                                                                             \
      .batch = batch_,                                                                             \
      .timesteps = timesteps_,                                                                     \
      .any_timesteps = true}},
#define DEEPBENCH_TRAINING(cell, units, batch, timesteps)                                          \
    DEEPBENCH_ROW("deepbench_training", cell, units, batch, timesteps, "float16")
#define DEEPBENCH_INFERENCE(cell, units, batch, timesteps)                                         \
    DEEPBENCH_ROW("deepbench_inference", cell, units, batch, timesteps, "float16")
#include "bench/suites.def"
#undef SUITE_CASE
#undef DEEPBENCH_TRAINING
#undef DEEPBENCH_INFERENCE
#define SUITE_CASE(...)
#define DEEPBENCH_TRAINING(cell, units, batch, timesteps)                                          \
    DEEPBENCH_ROW("deepbench_training", cell, units, batch, timesteps, "float32")
#define DEEPBENCH_INFERENCE(cell, units, batch, timesteps)                                         \
    DEEPBENCH_ROW("deepbench_inference", cell, units, batch, timesteps, "float32")
#include "bench/suites.def"
#undef SUITE_CASE
#undef DEEPBENCH_TRAINING
#undef DEEPBENCH_INFERENCE
};

/// "lstm_h512_i64_l3_bi_b64_t100_float16"; steps are left out where they are `any`.
static const char *name_of(Arena *arena, const SuiteCase *of, const char *cell, bool has_steps)
{
    Text name = {.arena = arena};
    text_addf(&name, "%s_h%lld_i%lld", cell, (long long)of->units, (long long)of->inputs);
    if (of->layers > 1)
        text_addf(&name, "_l%d", of->layers);
    text_addf(&name, "%s_b%lld", of->directions > 1 ? "_bi" : "", (long long)of->batch);
    if (has_steps)
        text_addf(&name, "_t%lld", (long long)of->timesteps);
    text_addf(&name, "_%s", of->precision);
    return text_string(&name);
}

/// The cell's name in a case's: keys that change it belong to it.
static const char *cell_of(Arena *arena, const SuiteCase *of)
{
    static const struct {
        const char *keys, *prefix;
    } changes[] = {{LEAKY, "leaky"}, {LEAKY_DROPPED, "leaky_dropped"}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (strcmp(of->keys, changes[i].keys) == 0)
            return arena_format(arena, "%s_%s", changes[i].prefix, of->cell);
    return of->cell;
}

const SuiteCase *suite_cases(Arena *arena, const char *suite, bool trains, int *out_count)
{
    SuiteCase *cases = NULL;
    *out_count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].suite, suite) != 0)
            continue;
        SuiteCase of = rows[i].of;
        const char *cell = cell_of(arena, &of);
        of.name = name_of(arena, &of, cell, true);
        of.trains = trains || strcmp(suite, "training") == 0;
        of.module = arena_format(arena, "%s%s", name_of(arena, &of, cell, !of.any_timesteps),
                                 of.trains ? "_training" : "");
        of.plain = of.most_cost > 0 ? name_of(arena, &of, "lstm", true) : NULL;
        ARENA_PUSH(arena, cases, *out_count, of);
    }
    return cases;
}

const char *suite_spec(Arena *arena, const SuiteCase *of)
{
    Text text = {.arena = arena};
    text_addf(&text,
              "rnnc: 1\nname: %s\ninput: {features: %lld, batch: %lld, timesteps: ", of->module,
              (long long)of->inputs, (long long)of->batch);
    if (of->any_timesteps)
        text_add(&text, "any}\nlayers:\n");
    else
        text_addf(&text, "%lld}\nlayers:\n", (long long)of->timesteps);
    text_addf(&text, "  - %s{cell: %s, units: %lld, layers: %d%s%s, return_sequences: true}%s\n",
              of->directions > 1 ? "{bidirectional: {merge: concat, layer: " : "", of->cell,
              (long long)of->units, of->layers, of->keys[0] ? ", " : "", of->keys,
              of->directions > 1 ? "}}" : "");
    text_addf(&text, "compile: {precision: %s%s}\nweights: {seed: 1}\n", of->precision,
              of->trains ? ", mode: training" : "");
    return text_string(&text);
}
