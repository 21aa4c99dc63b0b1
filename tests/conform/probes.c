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
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "build/build.h"
#include "conform/check.h"
#include "import/safetensors.h"

enum {
    PROBE_VALUES = 12,
    PROBE_WEIGHTS = 16,
    PROBE_STEPS = 8,
    PROBE_STATES = 8,
    PROBE_BATCH = 4,
    EXIT_SKIPPED = 77
};

/// In place of a value: any finite number.
#define FINITE (-1e300)

/// Values of a tensor; count 0: not given. Inputs repeat them; weights, states and outputs, being
/// equal over units, hold each of them over an equal share.
typedef struct {
    double items[PROBE_VALUES];
    int count;
} Values;

typedef struct {
    const char *id, *cell, *precision, *convention;
    ReferenceActivation activations[3];
    int64_t inputs, units, heads, batch, timesteps;
    int depth; ///< of a stack; 0: one layer
    NetworkDirection direction;
    NetworkMerge merge;
    double clip;
    bool no_bias, cpu_only, last, zero_output;
    struct {
        const char *kind; ///< a canonical name's end ("W", "fw/W") or another convention's
        double items[PROBE_VALUES];
        int count;
    } weights[PROBE_WEIGHTS];
    uint8_t mask[PROBE_VALUES]; ///< 1: valid, 2: masked; 0 first: no mask
    bool has_lengths;
    int32_t lengths[PROBE_BATCH];
    bool counts; ///< y counts up by one from its single value; x does so too, also with count 0
    Values x, initial[PROBE_STATES];
    Values y, states[PROBE_STATES]; ///< what must come out
    Values carried;                 ///< y of a second call of a stateful layer
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

/// Element `index` of `size`.
static double share_at(const double *items, int count, int64_t index, int64_t size)
{
    return items[index * count / size];
}

/// Probes whose specs and weights are the same share a module, which is named by them.
static const char *module_name(Arena *arena, const Probe *probe, const Network *network)
{
    Text text = {.arena = arena};
    network_print(network, probe->convention ? probe->convention : "canonical", &text);
    for (int w = 0; w < PROBE_WEIGHTS && probe->weights[w].kind; w++) {
        text_add(&text, probe->weights[w].kind);
        for (int k = 0; k < probe->weights[w].count; k++)
            text_addf(&text, " %.17g", probe->weights[w].items[k]);
    }
    return arena_format(arena, "probe-%016llx",
                        (unsigned long long)random_seed(text_string(&text)));
}

/// Shapes and names, from which spec and runner follow.
static void make_network(Arena *arena, const Probe *probe, Network *out)
{
    *out = (Network){.name = "probe",
                     .label = probe->id,
                     .precision = probe->precision ? probe->precision : "float32",
                     .inputs = probe->inputs,
                     .batch = probe->carried.count ? probe->batch : 0,
                     .sequences = !probe->last,
                     .bias = !probe->no_bias};
    NetworkCell cell = {.cell = probe->cell,
                        .units = probe->units,
                        .heads = probe->heads,
                        .clip = probe->clip,
                        .direction = probe->direction,
                        .merge = probe->merge,
                        .zero_output_for_mask = probe->zero_output,
                        .depth = probe->depth,
                        .stateful = probe->carried.count > 0};
    memcpy(cell.activations, probe->activations, sizeof cell.activations);
    network_add_recurrent(arena, out, &cell, NULL);
    out->name = module_name(arena, probe, out);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0 &&
           name[length - tail - 1] == '/';
}

static int find_weight(const Probe *probe, const char *name)
{
    for (int k = 0; k < PROBE_WEIGHTS && probe->weights[k].kind; k++)
        if (ends_with(name, probe->weights[k].kind))
            return k;
    return -1;
}

static SafetensorsEntry make_entry(Arena *arena, const Probe *probe, int index, const char *name,
                                   const int64_t *dims, int ndim)
{
    int64_t *own = ARENA_ARRAY(arena, int64_t, ndim), size = 1;
    for (int d = 0; d < ndim; d++)
        size *= own[d] = dims[d];
    float *data = ARENA_ARRAY(arena, float, size);
    for (int64_t k = 0; k < size; k++)
        data[k] =
            (float)share_at(probe->weights[index].items, probe->weights[index].count, k, size);
    return (SafetensorsEntry){name, "F32", own, ndim, data};
}

/// All weights of the network, each by the entry that its name ends with.
static int make_canonical(Arena *arena, const Probe *probe, const Network *network,
                          SafetensorsEntry *entries)
{
    int count = 0;
    for (int l = 0; l < network->layer_count; l++)
        for (int w = 0; w < network->layers[l].weight_count; w++) {
            const NetworkWeight *weight = &network->layers[l].weights[w];
            const int index = find_weight(probe, weight->name);
            const int64_t dims[] = {weight->rows, weight->columns};
            if (index >= 0)
                entries[count++] =
                    make_entry(arena, probe, index, weight->name, dims, weight->columns ? 2 : 1);
        }
    return count;
}

/// The shape of a weight of another convention, whose layer has G*H rows of W; [D, ...] in ONNX'.
static int foreign_shape(const Probe *probe, const Network *network, const char *kind,
                         int64_t dims[3])
{
    const int64_t I = probe->inputs, H = probe->units, D = network->layers[0].direction_count;
    const int64_t rows = network->layers[0].weights[0].rows;
    const struct {
        const char *convention, *kind; ///< a kind begins with
        int ndim;
        int64_t dims[3];
    } shapes[] = {
        {"pytorch", "weight_ih_l0", 2, {rows, I}},
        {"pytorch", "weight_ih_l1", 2, {rows, D * H}},
        {"pytorch", "weight_hh", 2, {rows, H}},
        {"pytorch", "bias", 1, {rows}},
        {"keras", "kernel", 2, {I, rows}},
        {"keras", "recurrent_kernel", 2, {H, rows}},
        {"keras", "bias", 1, {rows}},
        {"onnx", "W", 3, {D, rows, I}},
        {"onnx", "R", 3, {D, rows, H}},
        {"onnx", "B", 2, {D, 2 * rows}},
    };
    const char *slash = strrchr(kind, '/'), *word = slash ? slash + 1 : kind;
    const bool two_rows = strcmp(word, "bias") == 0 && strcmp(probe->cell, "gru") == 0 &&
                          strcmp(probe->convention, "keras") == 0;
    for (size_t k = 0; !two_rows && k < sizeof shapes / sizeof *shapes; k++)
        if (strcmp(shapes[k].convention, probe->convention) == 0 &&
            strncmp(word, shapes[k].kind, strlen(shapes[k].kind)) == 0) {
            memcpy(dims, shapes[k].dims, sizeof shapes[k].dims);
            return shapes[k].ndim;
        }
    dims[0] = 2;
    dims[1] = rows;
    return 2;
}

static int make_foreign(Arena *arena, const Probe *probe, const Network *network,
                        SafetensorsEntry *entries)
{
    const char *dot = strcmp(probe->convention, "pytorch") == 0 ? "." : "/";
    int count = 0;
    for (; count < PROBE_WEIGHTS && probe->weights[count].kind; count++) {
        const char *kind = probe->weights[count].kind;
        int64_t dims[3];
        const int ndim = foreign_shape(probe, network, kind, dims);
        entries[count] =
            make_entry(arena, probe, count, arena_format(arena, "l0%s%s", dot, kind), dims, ndim);
    }
    return count;
}

static bool write_weights(Arena *arena, Diags *diags, const Probe *probe, const Network *network,
                          const char *path)
{
    SafetensorsEntry entries[NETWORK_LAYERS_MAX * NETWORK_WEIGHTS_MAX];
    const int count = probe->convention ? make_foreign(arena, probe, network, entries)
                                        : make_canonical(arena, probe, network, entries);
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

static bool compare_y(const Probe *probe, const Network *network, const char *variant,
                      const Values *wanted, const float *y)
{
    const int64_t count = network_output_elems(network, 0, probe->batch, probe->timesteps);
    bool ok = true;
    for (int64_t k = 0; wanted->count && k < count; k++)
        ok &= expect(probe, variant, "y", k, y[k],
                     probe->counts ? wanted->items[0] + (double)k
                                   : share_at(wanted->items, wanted->count, k, count));
    for (int k = 0; k < PROBE_STEPS && probe->steps[k].step; k++) {
        const int step = probe->steps[k].step;
        ok &= expect(probe, variant, "y at step", step, y[step - 1], probe->steps[k].value);
    }
    return ok;
}

static bool compare_states(const Probe *probe, const Network *network, const char *variant,
                           float *const *final)
{
    const bool cuda = strcmp(variant, "cpu") != 0, cudnn = strcmp(variant, "cudnn") == 0;
    bool ok = true;
    for (int s = 0; s < network->state_count; s++) {
        const Values *wanted = &probe->states[s];
        const int64_t count = probe->batch * network->states[s].size;
        for (int64_t k = 0; wanted->count && k < count; k++) {
            const double other = cuda ? probe->cuda_states[cudnn] : 0.0;
            if (other == 0.0 || (double) final[s][k] != other)
                ok &= expect(probe, variant, network->states[s].name, k, final[s][k],
                             share_at(wanted->items, wanted->count, k, count));
        }
    }
    return ok;
}

/// What one probe is run with, and what it answers.
typedef struct {
    RunnerInput input;
    uint8_t mask[PROBE_VALUES];
    float *y, *initial[NETWORK_STATES_MAX], *final[NETWORK_STATES_MAX];
} Call;

static void make_call(Arena *arena, const Probe *probe, const Network *network, Call *out)
{
    *out = (Call){0};
    const int64_t steps = probe->batch * probe->timesteps, x_count = steps * probe->inputs;
    float *x = ARENA_ARRAY(arena, float, x_count);
    for (int64_t k = 0; k < x_count; k++)
        x[k] = (float)(probe->counts || probe->x.count == 0 ? probe->x.items[0] + (double)k
                                                            : probe->x.items[k % probe->x.count]);
    out->y =
        ARENA_ARRAY(arena, float, network_output_elems(network, 0, probe->batch, probe->timesteps));
    for (int s = 0; s < network->state_count; s++) {
        const int64_t count = probe->batch * network->states[s].size;
        const Values *initial = &probe->initial[s];
        out->final[s] = ARENA_ARRAY(arena, float, count);
        out->initial[s] = initial->count ? ARENA_ARRAY(arena, float, count) : NULL;
        for (int64_t k = 0; initial->count && k < count; k++)
            out->initial[s][k] = (float)share_at(initial->items, initial->count, k, count);
    }
    for (int k = 0; k < PROBE_VALUES; k++)
        out->mask[k] = probe->mask[k] == 1;
    out->input = (RunnerInput){.batch = probe->batch,
                               .timesteps = probe->timesteps,
                               .x = x,
                               .mask = probe->mask[0] ? out->mask : NULL,
                               .lengths = probe->has_lengths ? probe->lengths : NULL,
                               .initial = out->initial};
}

static void skip(const Probe *probe, const char *label, const char *reason, Counts *counts)
{
    printf("skipped: %s %s: %s\n", probe->id, label, reason);
    counts->skipped++;
}

/// One call; of a stateful layer a second one and, after a reset, a third.
static void run_calls(const Probe *probe, Runner *runner, const char *label, Call *call,
                      Counts *counts)
{
    char message[200];
    rnnc_status status = RNNC_OK;
    bool ok = true;
    for (int k = 0; status == RNNC_OK && k < (probe->carried.count ? 3 : 1); k++) {
        call->input.carries = k == 1;
        status = runner_run(runner, &call->input, &call->y, call->final, message);
        if (status == RNNC_OK)
            ok &= compare_y(probe, runner->network, label, k == 1 ? &probe->carried : &probe->y,
                            call->y);
    }
    if (status == RNNC_OK)
        ok &= compare_states(probe, runner->network, label, call->final);
    const bool masks = call->input.mask || call->input.lengths;
    if (status == RNNC_UNAVAILABLE && masks && strcmp(label, "cudnn") == 0) {
        skip(probe, label, message, counts);
        return;
    }
    if (status != RNNC_OK)
        printf("FAIL %s %s: %s\n", probe->id, label, message);
    counts->passed += status == RNNC_OK && ok;
    counts->failed += status != RNNC_OK || !ok;
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
    char message[200];
    Runner runner;
    const char *path = arena_format(arena, "%s/%s.so", folder, network->name);
    const rnnc_status status = runner_open(&runner, network, path, &options, message);
    const char *layer = status == RNNC_OK ? rnnc_session_layer(runner.session, 0) : NULL;
    const char *runs = layer ? rnnc_session_variant(runner.session, layer, NULL) : NULL;
    if (variant && (status == RNNC_UNAVAILABLE || (runs && strcmp(runs, variant) != 0))) {
        skip(probe, label, status == RNNC_OK ? "another variant runs" : message, counts);
    } else if (status != RNNC_OK) {
        printf("FAIL %s %s: %s\n", probe->id, label, message);
        counts->failed++;
    } else {
        Call call;
        make_call(arena, probe, network, &call);
        run_calls(probe, &runner, label, &call, counts);
    }
    runner_close(&runner);
}

static void do_probe(const Probe *probe, bool builds, bool cuda, const char *folder, Counts *counts)
{
    static const char *const variants[] = {
        "stepwise",        "unrolled",        "persistent_cta", "persistent_cluster",
        "persistent_grid", "persistent_wide", "cudnn"};
    Arena *arena = arena_create();
    Network network;
    make_network(arena, probe, &network);
    const char *path = arena_format(arena, "%s/%s.so", folder, network.name);
    const bool is_there = access(path, R_OK) == 0;
    if (!is_there && (cuda && !builds)) {
        printf("FAIL %s: no module in %s\n", probe->id, folder);
        counts->failed++;
    } else if (!is_there && !compile(arena, probe, &network, folder, builds)) {
        printf("FAIL %s: does not compile\n", probe->id);
        counts->failed++;
    } else if (builds) {
        counts->passed++;
    } else if (cuda) {
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
            run(arena, probe, &network, folder, variants[v], counts);
    } else {
        run(arena, probe, &network, folder, NULL, counts);
    }
    arena_destroy(arena);
}

/// Waits for one child that compiles a probe.
static void reap(Counts *counts)
{
    int status;
    if (wait(&status) < 0 || status != 0)
        counts->failed++;
    else
        counts->passed++;
}

/// Compiles all probes into `folder`, as many at a time as there are cores.
static void build_all(const char *folder, Counts *counts)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long running = 0;
    for (int k = 0; k < PROBES; k++) {
        if (probes[k].cpu_only)
            continue;
        if (running >= cores) {
            reap(counts);
            running--;
        }
        const pid_t child = fork();
        if (child == 0) {
            Counts own = {0};
            do_probe(&probes[k], true, false, folder, &own);
            fflush(stdout);
            _exit(own.failed != 0);
        }
        if (child < 0)
            counts->failed++;
        else
            running++;
    }
    for (; running; running--)
        reap(counts);
}

/// Removes all modules of a folder, and the folder.
static void remove_modules(const char *folder)
{
    Arena *arena = arena_create();
    for (int k = 0; k < PROBES; k++) {
        Network network;
        make_network(arena, &probes[k], &network);
        unlink(arena_format(arena, "%s/%s.so", folder, network.name));
    }
    rmdir(folder);
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
    if (build_dir)
        build_all(build_dir, &counts);
    for (int k = 0; k < PROBES && !build_dir; k++)
        if (!probes[k].cpu_only || !run_dir)
            do_probe(&probes[k], false, run_dir != NULL, folder, &counts);
    if (!build_dir && !run_dir)
        remove_modules(folder);
    printf("%d passed, %d failed, %d skipped\n", counts.passed, counts.failed, counts.skipped);
    return counts.failed || !counts.passed ? 1 : 0;
}
