// Probes: compiles a one-layer model for each row of probes.def and compares what it answers with
// the values of the page.
//
//     probes                compiles and runs on the CPU
//     probes --build DIR    compiles for sm_90 into DIR
//     probes --run DIR      runs those on CUDA, once for each GPU variant that holds them
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "build/build.h"
#include "conform/check.h"
#include "import/safetensors.h"

enum { PROBE_VALUES = 8, PROBE_WEIGHTS = 4, PROBE_STEPS = 8, EXIT_SKIPPED = 77 };

/// In place of a value: any finite number.
#define FINITE (-1e300)

/// Values that repeat over a tensor; count 0: not given.
typedef struct {
    double items[PROBE_VALUES];
    int count;
} Values;

typedef struct {
    const char *id, *cell, *precision, *convention;
    ReferenceActivation activations[3];
    int64_t inputs, units, batch, timesteps;
    bool no_bias, cpu_only;
    struct {
        const char *kind; ///< canonical ("W") or PyTorch's ("weight_ih_l0")
        double items[PROBE_VALUES];
        int count;
    } weights[PROBE_WEIGHTS];
    Values x, initial[2];
    Values y, states[2]; ///< what must come out
    struct {
        int step; ///< from 1; 0: end of the list
        double value;
    } steps[PROBE_STEPS];  ///< single outputs, where the sequence is long
    double cuda_states[2]; ///< final states that are right on CUDA too: generated, cuDNN
} Probe;

static const Probe probes[] = {
#define PROBE(name, ...) {.id = name, __VA_ARGS__},
#include "conform/probes.def"
#undef PROBE
};
enum { PROBES = sizeof probes / sizeof *probes };

typedef struct {
    int passed, failed, skipped;
} Counts;

static double value_at(const Values *values, int64_t index)
{
    return values->items[index % values->count];
}

/// Shapes and names, from which spec and runner follow.
static void make_network(Arena *arena, const Probe *probe, Network *out)
{
    *out = (Network){.name = arena_format(arena, "probe-%s", probe->id),
                     .label = probe->id,
                     .precision = probe->precision ? probe->precision : "float32",
                     .inputs = probe->inputs,
                     .sequences = true,
                     .bias = !probe->no_bias};
    network_add_cell(arena, out, probe->cell, probe->units, 0, probe->activations);
}

/// Weights under the names of the convention. PyTorch's have the shapes of W, R, b and b.
static bool write_weights(Arena *arena, Diags *diags, const Probe *probe, const Network *network,
                          const char *path)
{
    SafetensorsEntry entries[PROBE_WEIGHTS];
    int64_t dims[PROBE_WEIGHTS][2];
    int count = 0;
    for (; count < PROBE_WEIGHTS && probe->weights[count].kind; count++) {
        const char *kind = probe->weights[count].kind;
        const bool pytorch = probe->convention != NULL;
        const NetworkWeight *shapes = network->layers[0].weights;
        const int like = !pytorch ? count : strncmp(kind, "bias", 4) == 0 ? 2 : count;
        dims[count][0] = shapes[like].rows;
        dims[count][1] = shapes[like].columns;
        const int64_t size = dims[count][0] * (dims[count][1] ? dims[count][1] : 1);
        float *data = ARENA_ARRAY(arena, float, size);
        for (int64_t k = 0; k < size; k++)
            data[k] = (float)probe->weights[count].items[k % probe->weights[count].count];
        const char *name = arena_format(arena, pytorch ? "l0.%s" : "l0/%s", kind);
        entries[count] = (SafetensorsEntry){name, "F32", dims[count], dims[count][1] ? 2 : 1, data};
    }
    return safetensors_write(arena, diags, path, entries, count, NULL);
}

static bool compile(Arena *arena, const Probe *probe, const Network *network, const char *folder,
                    bool gpu)
{
    Diags *diags = diags_create(arena);
    const char *spec = network_write(arena, diags, network, folder,
                                     probe->convention ? probe->convention : "canonical");
    const char *weights = arena_format(arena, "%s/%s.safetensors", folder, network->name);
    CompileOptions options = {.spec_path = spec,
                              .output_path = arena_format(arena, "%s/%s.so", folder, network->name),
                              .targets = gpu ? "sm_90" : "cpu",
                              .variants = gpu ? "all" : "auto",
                              .jobs = 2};
    const bool ok = spec && write_weights(arena, diags, probe, network, weights) &&
                    compile_model(arena, diags, &options, NULL);
    diags_print(diags, stdout, false);
    if (spec)
        unlink(spec);
    unlink(weights);
    return ok;
}

static bool is_near(double found, double wanted)
{
    if (wanted == FINITE)
        return isfinite(found);
    if (isnan(wanted))
        return isnan(found);
    if (isinf(wanted))
        return found == wanted;
    return fabs(found - wanted) <= 1e-6 + 1e-5 * fabs(wanted);
}

static bool expect(const Probe *probe, const char *variant, const char *what, int64_t index,
                   float found, double wanted)
{
    const bool ok = is_near((double)found, wanted);
    if (!ok)
        printf("FAIL %s %s %s[%ld]: %.9g, must be %.9g\n", probe->id, variant, what, (long)index,
               (double)found, wanted);
    return ok;
}

static bool compare(const Probe *probe, const Network *network, const char *variant, const float *y,
                    float *const *final)
{
    bool ok = true;
    for (int64_t k = 0; probe->y.count && k < probe->batch * probe->timesteps * probe->units; k++)
        ok &= expect(probe, variant, "y", k, y[k], value_at(&probe->y, k));
    for (int k = 0; k < PROBE_STEPS && probe->steps[k].step; k++) {
        const int step = probe->steps[k].step;
        ok &= expect(probe, variant, "y at step", step, y[step - 1], probe->steps[k].value);
    }
    const bool cuda = strcmp(variant, "cpu") != 0, cudnn = strcmp(variant, "cudnn") == 0;
    for (int s = 0; s < network->state_count; s++)
        for (int64_t k = 0; probe->states[s].count && k < probe->batch * probe->units; k++) {
            const double other = cuda ? probe->cuda_states[cudnn] : 0.0;
            if (other == 0.0 || (double) final[s][k] != other)
                ok &= expect(probe, variant, network->states[s].name, k, final[s][k],
                             value_at(&probe->states[s], k));
        }
    return ok;
}

static float *fill(Arena *arena, const Values *values, int64_t count)
{
    float *data = ARENA_ARRAY(arena, float, count);
    for (int64_t k = 0; values->count && k < count; k++)
        data[k] = (float)value_at(values, k);
    return data;
}

/// Runs one probe on one variant (NULL: the CPU).
static void run(Arena *arena, const Probe *probe, const Network *network, const char *folder,
                const char *variant, Counts *counts)
{
    const rnnc_session_options options = {.device = variant ? "cuda" : "cpu",
                                          .variant = variant,
                                          .max_batch = probe->batch,
                                          .max_timesteps = probe->timesteps};
    const char *label = variant ? variant : "cpu";
    const int64_t steps = probe->batch * probe->timesteps;
    float *x = fill(arena, &probe->x, steps * probe->inputs);
    float *y = fill(arena, &(Values){0}, steps * probe->units);
    float *initial[NETWORK_STATES_MAX] = {NULL}, *final[NETWORK_STATES_MAX] = {NULL};
    for (int s = 0; s < network->state_count; s++) {
        final[s] = fill(arena, &(Values){0}, probe->batch * probe->units);
        if (probe->initial[0].count)
            initial[s] = fill(arena, &probe->initial[s], probe->batch * probe->units);
    }
    const RunnerInput input = {
        .batch = probe->batch, .timesteps = probe->timesteps, .x = x, .initial = initial};
    char message[200];
    Runner runner;
    const char *path = arena_format(arena, "%s/%s.so", folder, network->name);
    const rnnc_status status = runner_open(&runner, network, path, &options, message);
    const char *layer = status == RNNC_OK ? rnnc_session_layer(runner.session, 0) : NULL;
    const char *runs = layer ? rnnc_session_variant(runner.session, layer, NULL) : NULL;
    if (variant && (status == RNNC_UNAVAILABLE || (runs && strcmp(runs, variant) != 0))) {
        counts->skipped++;
    } else if (status != RNNC_OK ||
               runner_run(&runner, &input, (float *const[]){y}, final, message) != RNNC_OK) {
        printf("FAIL %s %s: %s\n", probe->id, label, message);
        counts->failed++;
    } else if (compare(probe, network, label, y, final)) {
        counts->passed++;
    } else {
        counts->failed++;
    }
    runner_close(&runner);
}

static void do_probe(const Probe *probe, const char *build_dir, const char *run_dir,
                     const char *folder, Counts *counts)
{
    static const char *const variants[] = {"stepwise", "unrolled", "persistent_cta", "cudnn"};
    Arena *arena = arena_create();
    Network network;
    make_network(arena, probe, &network);
    if (!run_dir && !compile(arena, probe, &network, folder, build_dir != NULL)) {
        printf("FAIL %s: does not compile\n", probe->id);
        counts->failed++;
    } else if (build_dir) {
        counts->passed++;
    } else if (run_dir && access(arena_format(arena, "%s/%s.so", folder, network.name), R_OK)) {
        printf("FAIL %s: no module in %s\n", probe->id, folder);
        counts->failed++;
    } else if (run_dir) {
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
            run(arena, probe, &network, folder, variants[v], counts);
    } else {
        run(arena, probe, &network, folder, NULL, counts);
        unlink(arena_format(arena, "%s/%s.so", folder, network.name));
    }
    arena_destroy(arena);
}

/// Whether CUDA is there, asked of the first module.
static bool cuda_is_missing(const char *folder)
{
    Arena *arena = arena_create();
    Network network;
    make_network(arena, &probes[0], &network);
    char message[200];
    Runner runner;
    const rnnc_status status = runner_open(
        &runner, &network, arena_format(arena, "%s/%s.so", folder, network.name),
        &(rnnc_session_options){.device = "cuda", .max_batch = 1, .max_timesteps = 1}, message);
    if (status != RNNC_OK)
        printf("%s: %s\n", status == RNNC_UNAVAILABLE ? "skipped" : "fault", message);
    runner_close(&runner);
    arena_destroy(arena);
    return status == RNNC_UNAVAILABLE;
}

int main(int argument_count, char **arguments)
{
    const bool takes_folder = argument_count == 3;
    const char *build_dir =
        takes_folder && strcmp(arguments[1], "--build") == 0 ? arguments[2] : NULL;
    const char *run_dir = takes_folder && strcmp(arguments[1], "--run") == 0 ? arguments[2] : NULL;
    if (argument_count != 1 && !build_dir && !run_dir) {
        fprintf(stderr, "usage: probes [--build DIR | --run DIR]\n");
        return 2;
    }
    char temporary[] = "/tmp/rnnc-probes-XXXXXX";
    const char *folder = build_dir ? build_dir : run_dir ? run_dir : mkdtemp(temporary);
    if (!folder || (build_dir && mkdir(folder, 0777) && errno != EEXIST)) {
        fprintf(stderr, "no folder for the modules: %s\n", strerror(errno));
        return 3;
    }
    if (run_dir && cuda_is_missing(run_dir))
        return EXIT_SKIPPED;
    Counts counts = {0};
    for (int k = 0; k < PROBES; k++)
        if (!probes[k].cpu_only || (!build_dir && !run_dir))
            do_probe(&probes[k], build_dir, run_dir, folder, &counts);
    if (!build_dir && !run_dir)
        rmdir(folder);
    printf("%d passed, %d failed, %d skipped\n", counts.passed, counts.failed, counts.skipped);
    return counts.failed || !counts.passed ? 1 : 0;
}
