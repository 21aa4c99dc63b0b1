// Texts: what a GPU generates is what the module's CPU code draws:
//
//     texts [--step-by-step] MODULE.so ...
//
// For every module, 21 rows and 1 row, or those of its batch where that is fixed, drawn, greedy,
// with bans, stops and a temperature, and of the likeliest tokens: each token of the GPU's text is
// the one that the CPU draws after the same text, but for one in 2000 in float32 (modules with
// `float32` in their name; a tie within rounding) and one in 20 else; counts and the states at the
// end are those of the text. The GPU has to generate in one launch, or step by step where that is
// said. A text that is cancelled ends soon, with tokens and counts as delivered. Ends with `N
// passed, N failed, N skipped`; 77 where there is no GPU.
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnnc/rnnc.h"

enum { ROWS_MAX = 256, ROWS = 21, STEPS = 30, LONG = 100000 };
enum { STATES_MAX = 1 << 18, EXIT_SKIPPED = 77 };
static const int32_t banned[] = {1, 4}, stops[] = {0, 3};

typedef struct {
    const char *name;
    bool greedy, bans; ///< bans: banned tokens and stops
    float temperature;
    int32_t top_k;
    float top_p;
} Choices;
static const Choices choices[] = {
    {"drawn", false, false, 1, 0, 0},
    {"greedy", true, false, 1, 0, 0},
    {"with bans, stops and a temperature", false, true, 0.7f, 0, 0},
    {"of the 3 likeliest", false, false, 1, 3, 0},
    {"of the likeliest, together half", false, false, 1.5f, 0, 0.5f},
    {"of the 40 likeliest nine tenths, with bans and stops", false, true, 1.2f, 40, 0.9f},
};

static int passed, failed;
static bool is_float32;
static const char *way = "in one launch";

static void judge(bool good, const char *module, const char *what, double value)
{
    passed += good;
    failed += !good;
    if (!good)
        printf("FAIL %s: %s (%g)\n", module, what, value);
}

/// The module's batch; 0: any.
static int64_t fixed_batch(const rnnc_module *module)
{
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(module, i);
        if (info->role == RNNC_ROLE_INPUT && info->dims[0] != RNNC_DIM_BATCH)
            return info->dims[0];
    }
    return 0;
}

static rnnc_session *open_session(const rnnc_module *module, const char *device)
{
    rnnc_session *session = NULL;
    const int64_t batch = fixed_batch(module);
    const rnnc_session_options options = {
        .device = device, .max_batch = batch ? batch : ROWS, .max_timesteps = STEPS};
    if (rnnc_session_create(module, &options, &session) != RNNC_OK) {
        printf("%s\n", rnnc_last_error());
        return NULL;
    }
    return session;
}

/// All states of the session, one after the other; their number.
static size_t states_of(const rnnc_module *module, rnnc_session *session, int64_t rows, float *to)
{
    size_t count = 0;
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(module, i);
        const size_t values = (size_t)(rows * info->dims[1]);
        if (info->role != RNNC_ROLE_STATE || count + values > STATES_MAX)
            continue;
        if (rnnc_state_get(session, info->name, to + count, values) != RNNC_OK)
            printf("%s\n", rnnc_session_error(session));
        count += values;
    }
    return count;
}

/// Tokens of the GPU's text that the CPU does not draw after the same text.
static int64_t count_wrong(rnnc_session *cpu, rnnc_generation generation, const int32_t *text,
                           const int64_t *counts)
{
    int64_t wrong = 0;
    for (int64_t step = 0; step < STEPS; step++) {
        int32_t tokens[ROWS_MAX];
        int64_t lengths[ROWS_MAX];
        for (int64_t row = 0; row < generation.rows; row++)
            lengths[row] = step < counts[row] ? step : 0;
        generation.prompts = text;
        generation.prompt_stride = STEPS;
        generation.prompt_lengths = lengths;
        generation.first_draw = step;
        generation.length = 1;
        generation.tokens = tokens;
        generation.counts = NULL;
        rnnc_state_reset(cpu);
        if (rnnc_generate(cpu, &generation) != RNNC_OK) {
            printf("%s\n", rnnc_session_error(cpu));
            return INT64_MAX;
        }
        for (int64_t row = 0; row < generation.rows; row++)
            wrong += step < counts[row] && tokens[row] != text[row * STEPS + step];
    }
    return wrong;
}

/// The distance of the GPU's states from those that the CPU has after the text.
static double state_error(const rnnc_module *module, rnnc_session *cpu, rnnc_session *gpu,
                          const rnnc_generation *made)
{
    static float of_gpu[STATES_MAX], of_cpu[STATES_MAX];
    const size_t count = states_of(module, gpu, made->rows, of_gpu);
    const rnnc_generation prompt = {.rows = made->rows,
                                    .prompts = made->tokens,
                                    .prompt_stride = STEPS,
                                    .prompt_lengths = made->counts,
                                    .temperature = 1};
    double worst = 0;
    rnnc_state_reset(cpu);
    if (rnnc_generate(cpu, &prompt) != RNNC_OK)
        return INFINITY;
    states_of(module, cpu, made->rows, of_cpu);
    for (size_t i = 0; i < count; i++) {
        const double error = fabs((double)of_gpu[i] - (double)of_cpu[i]);
        worst = error <= worst ? worst : error;
    }
    return worst;
}

static void compare(const char *name, const rnnc_module *module, rnnc_session *cpu,
                    rnnc_session *gpu, rnnc_generation generation, const char *what)
{
    uint64_t seeds[ROWS_MAX];
    int32_t text[ROWS_MAX * STEPS];
    int64_t counts[ROWS_MAX], drawn = 0;
    const char *reason = NULL;
    for (uint64_t row = 0; row < ROWS_MAX; row++)
        seeds[row] = 1000003 * row + 7;
    generation.length = STEPS;
    generation.seeds = seeds;
    generation.tokens = text;
    generation.counts = counts;
    rnnc_state_reset(gpu);
    if (rnnc_generate(gpu, &generation) != RNNC_OK) {
        printf("%s\n", rnnc_session_error(gpu));
        judge(false, name, what, 0);
        return;
    }
    const char *made = rnnc_session_generator(gpu, &reason);
    if (strcmp(made, way) != 0)
        printf("%s: %s: %s\n", name, made, reason);
    judge(strcmp(made, way) == 0, name, way, 0);
    bool is_consistent = true;
    for (int64_t row = 0; row < generation.rows; row++) {
        drawn += counts[row];
        for (int64_t i = 0; i < STEPS; i++)
            is_consistent &= (text[row * STEPS + i] >= 0) == (i < counts[row]);
    }
    judge(is_consistent, name, "tokens and counts", 0);
    const double states = state_error(module, cpu, gpu, &generation);
    judge(states <= (is_float32 ? 1e-4 : 3e-2), name, "states at the end", states);
    const int64_t wrong = count_wrong(cpu, generation, text, counts);
    judge(wrong <= (is_float32 ? drawn / 2000 : drawn / 20 + 1), name, what, (double)wrong);
}

static int stop_at_10(void *context, int64_t step, const int32_t *tokens)
{
    int64_t *calls = context;
    *calls += 1;
    return step >= 10 || tokens[0] < 0;
}

static void cancel(const char *name, rnnc_session *gpu, int64_t rows)
{
    int64_t calls = 0, counts[ROWS_MAX], told = 0;
    int32_t *text = malloc(sizeof *text * (size_t)(rows * LONG));
    const rnnc_generation generation = {.rows = rows,
                                        .length = LONG,
                                        .temperature = 1,
                                        .tokens = text,
                                        .counts = counts,
                                        .on_tokens = stop_at_10,
                                        .context = &calls};
    rnnc_state_reset(gpu);
    const rnnc_status status = rnnc_generate(gpu, &generation);
    while (told < LONG && text[told] >= 0)
        told++;
    judge(status == RNNC_CANCELLED && calls == 11 && counts[0] == told && told >= 11 && told < LONG,
          name, "a text that is cancelled", (double)told);
    free(text);
}

static void run_module(const char *name)
{
    rnnc_module *module = NULL;
    rnnc_session *cpu = NULL, *gpu = NULL;
    if (rnnc_module_open(name, &module) != RNNC_OK) {
        printf("%s\n", rnnc_last_error());
    } else {
        cpu = open_session(module, "cpu");
        gpu = open_session(module, "cuda");
    }
    is_float32 = strstr(name, "float32") != NULL;
    judge(cpu && gpu, name, "is opened", 0);
    const int64_t fixed = cpu && gpu ? fixed_batch(module) : 0;
    const int64_t counts[] = {fixed ? fixed : 1, ROWS};
    judge(fixed <= ROWS_MAX, name, "rows of a test at most", (double)fixed);
    for (int k = 0; k < (fixed ? 1 : 2) && cpu && gpu && fixed <= ROWS_MAX; k++) {
        const int64_t rows = counts[k];
        for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
            const Choices *of = &choices[i];
            rnnc_generation generation = {.rows = rows,
                                          .greedy = of->greedy,
                                          .temperature = of->temperature,
                                          .top_k = of->top_k,
                                          .top_p = of->top_p,
                                          .banned = banned,
                                          .banned_count = of->bans ? 2 : 0,
                                          .stops = stops,
                                          .stop_count = of->bans ? 2 : 0};
            compare(name, module, cpu, gpu, generation, of->name);
        }
    }
    if (gpu)
        cancel(name, gpu, counts[0]);
    rnnc_session_destroy(cpu);
    rnnc_session_destroy(gpu);
    rnnc_module_close(module);
}

int main(int argc, char **argv)
{
    rnnc_module *module = NULL;
    rnnc_session *session = NULL;
    int first = 1;
    if (argc > 1 && strcmp(argv[1], "--step-by-step") == 0) {
        way = "step by step";
        first = 2;
    }
    if (argc > first && rnnc_module_open(argv[first], &module) == RNNC_OK) {
        const rnnc_session_options options = {.device = "cuda", .max_batch = 1, .max_timesteps = 1};
        const bool is_there = rnnc_session_create(module, &options, &session) == RNNC_OK;
        if (!is_there)
            printf("skipped: %s\n", rnnc_last_error());
        rnnc_session_destroy(session);
        rnnc_module_close(module);
        if (!is_there)
            return EXIT_SKIPPED;
    }
    for (int i = first; i < argc; i++)
        run_module(argv[i]);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
