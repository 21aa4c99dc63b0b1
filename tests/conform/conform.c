// Conformance: every cell x variant x precision x size against the float64 reference.
//
//     conform [--full] [--jobs N] [--filter TEXT]     compiles each case and runs it on the CPU
//     conform --build DIR [--gpu|--full] [--jobs N]   compiles the cases into DIR
//     conform --run DIR [--device cuda]               runs modules that --build made; needs no
//                                                     compiler, and no file but the modules
//     ... --random N [--seed S]                       N models drawn at random in place of those
//                                                     of the matrix
//     ... --repeat N [--load]                         N runs with the same bits, while another
//                                                     session runs on another thread
//
// Cases are compiled and run in forked processes, so that one that crashes is one failure; on CUDA
// all run in this one. Ends with a table and the line `N passed, N failed, N skipped`.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build/build.h"
#include "conform/cases.h"
#include "conform/check.h"

enum { VARIANTS_MAX = 7, PRECISIONS = 4, EXIT_SKIPPED = 77 };

static const char *const precisions[] = {"float32", "tf32", "bfloat16", "float16"};

enum { BRIEF_STEPS = 85 };

typedef struct {
    const char *build_dir, *run_dir, *device, *filter;
    bool full, gpu;
    bool generated; ///< our own variants alone, without cuDNN, the last of cuda_variants
    bool brief;     ///< samples of at most BRIEF_STEPS rows x steps, for runs under a sanitizer
    bool loaded;
    int jobs, repeats, random;
    unsigned long long seed;
} Options;

/// What a device is asked to run; NULL: as planned. CPU code has levels of instruction sets, of
/// which a machine may lack some.
static const char *const cpu_variants[] = {NULL, "cpu:baseline", "cpu:x86-64-v3", "cpu:x86-64-v4"};
static const char *const cuda_variants[] = {
    "stepwise",        "unrolled",        "persistent_cta", "persistent_cluster",
    "persistent_grid", "persistent_wide", "cudnn"};

typedef struct {
    Options options;
    Cases cases;
    const char *folder; ///< of specs and modules
    const char *const *variants;
    int variant_count;
    Tally (*tallies)[VARIANTS_MAX]; ///< one row a case, shared with the forked processes
} Run;

static bool is_cuda(const Options *options)
{
    return strncmp(options->device, "cuda", 4) == 0;
}

static const char *variant_label(const Run *run, int variant)
{
    return run->variants[variant] ? run->variants[variant] : run->options.device;
}

static const char *module_path(Arena *arena, const Run *run, const Network *network)
{
    return arena_format(arena, "%s/%s.so", run->folder, network->name);
}

/// A model drawn at random is known by nothing but its spec and its seed.
static void print_spec(Arena *arena, const Network *network)
{
    Text spec = {.arena = arena};
    if (strcmp(network->label, "random") != 0)
        return;
    network_print(network, "canonical", &spec);
    printf("%sagain: conform --random 1 --seed %s\n", text_string(&spec),
           network->name + strlen("random-"));
    fflush(stdout);
}

/// Writes spec and weights, compiles, and removes them again. False: a diagnostic was printed.
static bool compile(Arena *arena, const Run *run, const Network *network)
{
    Diags *diags = diags_create(arena);
    const char *spec = network_write(arena, diags, network, run->folder, "canonical");
    CompileOptions options = {
        .spec_path = spec,
        .output_path = module_path(arena, run, network),
        .targets = run->options.gpu ? "sm_90" : "cpu",
        .variants = run->options.gpu ? "all" : "auto",
        .jobs = 1,
    };
    const bool ok = spec && network_write_weights(arena, diags, network, run->folder) &&
                    compile_model(arena, diags, &options, NULL);
    if (!ok) {
        printf("FAIL %s: does not compile\n", network->name);
        diags_print(diags, stdout, false);
        print_spec(arena, network);
    } else {
        unlink(spec);
        unlink(arena_format(arena, "%s/%s.safetensors", run->folder, network->name));
    }
    fflush(stdout);
    return ok;
}

/// Whether a sequence may be run in parts: no layer starts at its end, and no draw depends on time.
static bool takes_parts(const Network *network)
{
    for (int l = 0; l < network->layer_count; l++)
        if (network->layers[l].kind == NETWORK_CELL &&
            network->layers[l].options[0].direction != NETWORK_FORWARD)
            return false;
    return !network->drops;
}

static void run_variants(Arena *arena, Run *run, int index, const Sample *samples, int count)
{
    const Network *network = &run->cases.items[index].network;
    int failed = 0;
    for (int v = 0; v < run->variant_count; v++) {
        const char *variant = run->variants[v];
        const bool is_cudnn = variant && strcmp(variant, "cudnn") == 0; // its kernels go by batch
        const CheckRequest request = {
            .network = network,
            .module_path = module_path(arena, run, network),
            .device = run->options.device,
            .variant = variant,
            .required = !variant || strcmp(variant, "stepwise") == 0,
            .rows = !network->drops && !network->batch && !run->options.brief && !is_cudnn,
            .chunks = takes_parts(network),
            .stateful = network->batch > 0,
            .repeats = run->options.repeats,
            .loaded = run->options.loaded,
            .samples = samples,
            .sample_count = count,
        };
        check_module(&request, &run->tallies[index][v]);
        failed += run->tallies[index][v].failed;
    }
    if (failed)
        print_spec(arena, network);
}

static void run_case(Arena *arena, Run *run, int index)
{
    const Case *of = &run->cases.items[index];
    const Network *network = &of->network;
    Sample samples[CASE_SAMPLES], chosen[CASE_SAMPLES];
    if (access(module_path(arena, run, network), R_OK) != 0) {
        printf("FAIL %s: no module in %s\n", network->name, run->folder);
        run->tallies[index][0].failed++;
        return;
    }
    case_samples(of, samples);
    int count = 0;
    for (int k = 0; k < of->shape_count; k++)
        if (!run->options.brief || of->shapes[k].batch * of->shapes[k].timesteps <= BRIEF_STEPS)
            chosen[count++] = samples[k];
    run_variants(arena, run, index, chosen, count);
    for (int k = 0; k < of->shape_count; k++)
        sample_free(network, &samples[k]);
}

/// Everything of one case: compile unless the modules are given, run unless they are only built.
static void do_case(Run *run, int index)
{
    Arena *arena = arena_create();
    const Options *options = &run->options;
    const Network *network = &run->cases.items[index].network;
    if (!options->run_dir && !compile(arena, run, network)) {
        run->tallies[index][0].failed++;
        snprintf(run->tallies[index][0].note, sizeof run->tallies[0][0].note, "does not compile");
    } else if (!options->build_dir) {
        run_case(arena, run, index);
        if (!options->run_dir)
            unlink(module_path(arena, run, network));
    } else {
        run->tallies[index][0].passed++;
    }
    arena_destroy(arena);
}

static bool selected(const Run *run, int index)
{
    const char *filter = run->options.filter;
    return !filter || strstr(run->cases.items[index].network.name, filter) != NULL;
}

/// Waits for one child; a case whose process died has failed.
static void reap(Run *run, const pid_t *children)
{
    int status;
    const pid_t child = wait(&status);
    for (int k = 0; child > 0 && k < run->cases.count; k++)
        if (children[k] == child && status != 0) {
            printf("FAIL %s: its process ended with status %d\n", run->cases.items[k].network.name,
                   status);
            run->tallies[k][0].failed++;
        }
}

static void do_all_forked(Run *run)
{
    pid_t *children = calloc((size_t)run->cases.count + 1, sizeof *children);
    int running = 0;
    for (int k = 0; children && k < run->cases.count; k++) {
        if (!selected(run, k))
            continue;
        if (running == run->options.jobs) {
            reap(run, children);
            running--;
        }
        fflush(stdout);
        children[k] = fork();
        if (children[k] == 0) {
            do_case(run, k);
            fflush(stdout);
            _exit(0);
        }
        if (children[k] < 0)
            run->tallies[k][0].failed++;
        else
            running++;
    }
    for (; running; running--)
        reap(run, children);
    free(children);
}

static void do_all(Run *run)
{
    if (!is_cuda(&run->options)) {
        do_all_forked(run);
        return;
    }
    for (int k = 0; k < run->cases.count; k++)
        if (selected(run, k))
            do_case(run, k);
}

/// Adds the tallies of all cases with this label and variant; `worst` by precision.
static Tally sum_of(const Run *run, const char *label, int variant, double worst[PRECISIONS])
{
    Tally sum = {0};
    for (int k = 0; k < run->cases.count; k++) {
        const Network *network = &run->cases.items[k].network;
        const Tally *tally = &run->tallies[k][variant];
        if (strcmp(network->label, label) != 0)
            continue;
        sum.passed += tally->passed;
        sum.failed += tally->failed;
        sum.skipped += tally->skipped;
        for (int p = 0; p < PRECISIONS; p++)
            if (strcmp(network->precision, precisions[p]) == 0 && tally->passed + tally->failed)
                worst[p] = fmax(worst[p], tally->worst);
    }
    return sum;
}

static bool is_first(const Run *run, int index)
{
    for (int k = 0; k < index; k++)
        if (strcmp(run->cases.items[k].network.label, run->cases.items[index].network.label) == 0)
            return false;
    return true;
}

static void print_row(const Run *run, const char *label, int variant)
{
    double worst[PRECISIONS] = {-1.0, -1.0, -1.0, -1.0};
    const Tally sum = sum_of(run, label, variant, worst);
    if (!sum.passed && !sum.failed)
        return;
    printf("%-14s %-15s %6d %6d %7d", label, variant_label(run, variant), sum.passed, sum.failed,
           sum.skipped);
    for (int p = 0; p < PRECISIONS; p++)
        if (worst[p] >= 0.0)
            printf(" %9.4f", worst[p]);
        else
            printf(" %9s", "-");
    printf("\n");
}

/// One row for each cell and variant; the last columns are the worst error over its bound.
static void print_table(const Run *run)
{
    printf("%-14s %-15s %6s %6s %7s", "cell", "variant", "passed", "failed", "skipped");
    for (int p = 0; p < PRECISIONS; p++)
        printf(" %9s", precisions[p]);
    printf("\n");
    for (int k = 0; k < run->cases.count; k++)
        for (int v = 0; is_first(run, k) && v < run->variant_count; v++)
            print_row(run, run->cases.items[k].network.label, v);
}

/// Each reason for skipping once, with the modules it holds for.
static void print_reasons(const Run *run)
{
    for (int v = 0; v < run->variant_count; v++)
        for (int k = 0; k < run->cases.count; k++) {
            const Tally *tally = &run->tallies[k][v];
            int same = 0;
            bool first = tally->skipped > 0;
            for (int other = 0; first && other < run->cases.count; other++) {
                const Tally *that = &run->tallies[other][v];
                const bool equal = that->skipped && strcmp(that->note, tally->note) == 0;
                first = !(equal && other < k);
                same += equal;
            }
            if (first)
                printf("skipped: %s, %d modules: %s\n", variant_label(run, v), same, tally->note);
        }
}

/// A variant that never ran was not tested, whatever the reasons; cuDNN's libraries and levels of
/// the CPU alone may be missing.
static int variants_without_runs(const Run *run)
{
    int missing = 0;
    const Options *options = &run->options;
    if (options->filter || options->build_dir || options->random)
        return 0;
    for (int v = 0; v < run->variant_count; v++) {
        int passed = 0;
        bool may_lack = !is_cuda(&run->options) && run->variants[v];
        for (int k = 0; k < run->cases.count; k++) {
            passed += run->tallies[k][v].passed;
            may_lack = may_lack || strstr(run->tallies[k][v].note, "libcudnn");
        }
        if (!passed && !may_lack) {
            printf("FAIL %s: passed nowhere\n", variant_label(run, v));
            missing++;
        }
    }
    return missing;
}

static int report(const Run *run)
{
    Tally total = {0};
    for (int k = 0; k < run->cases.count; k++)
        for (int v = 0; v < run->variant_count; v++) {
            total.passed += run->tallies[k][v].passed;
            total.failed += run->tallies[k][v].failed;
            total.skipped += run->tallies[k][v].skipped;
        }
    print_table(run);
    print_reasons(run);
    total.failed += variants_without_runs(run);
    printf("%d passed, %d failed, %d skipped\n", total.passed, total.failed, total.skipped);
    return total.failed || !total.passed ? 1 : 0;
}

static bool read_options(int count, char **arguments, Options *out)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (Options){.device = "cpu", .jobs = cores > 2 ? (int)cores : 2};
    out->repeats = 2;
    out->seed = 1;
    for (int k = 1; k < count; k++) {
        const char *name = arguments[k], *value = k + 1 < count ? arguments[k + 1] : NULL;
        if (strcmp(name, "--full") == 0)
            out->full = true;
        else if (strcmp(name, "--gpu") == 0)
            out->gpu = true;
        else if (strcmp(name, "--generated") == 0)
            out->generated = true;
        else if (strcmp(name, "--brief") == 0)
            out->brief = true;
        else if (strcmp(name, "--load") == 0)
            out->loaded = true;
        else if (value && strcmp(name, "--repeat") == 0)
            out->repeats = atoi(arguments[++k]);
        else if (value && strcmp(name, "--random") == 0)
            out->random = atoi(arguments[++k]);
        else if (value && strcmp(name, "--seed") == 0)
            out->seed = strtoull(arguments[++k], NULL, 10);
        else if (value && strcmp(name, "--build") == 0)
            out->build_dir = arguments[++k];
        else if (value && strcmp(name, "--run") == 0)
            out->run_dir = arguments[++k];
        else if (value && strcmp(name, "--device") == 0)
            out->device = arguments[++k];
        else if (value && strcmp(name, "--filter") == 0)
            out->filter = arguments[++k];
        else if (value && strcmp(name, "--jobs") == 0)
            out->jobs = atoi(arguments[++k]);
        else
            return false;
    }
    const bool cuda = strncmp(out->device, "cuda", 4) == 0;
    return out->jobs > 0 && out->repeats > 0 && out->random >= 0 &&
           !(out->build_dir && out->run_dir) && (!cuda || out->run_dir);
}

/// Whether the device is there; asked with the first module that is selected.
static bool device_is_missing(Arena *arena, const Run *run)
{
    for (int k = 0; k < run->cases.count; k++) {
        if (!selected(run, k))
            continue;
        const rnnc_session_options options = {.device = run->options.device, .max_batch = 1};
        char message[200];
        Runner runner;
        const rnnc_status status =
            runner_open(&runner, &run->cases.items[k].network,
                        module_path(arena, run, &run->cases.items[k].network), &options, message);
        if (status == RNNC_OK)
            runner_close(&runner);
        else
            printf("%s: %s\n", status == RNNC_UNAVAILABLE ? "skipped" : "fault", message);
        return status == RNNC_UNAVAILABLE;
    }
    return false;
}

int main(int argument_count, char **arguments)
{
    Run run = {0};
    if (!read_options(argument_count, arguments, &run.options)) {
        fprintf(stderr, "usage: conform [--full] [--build DIR [--gpu] | --run DIR [--device D]] "
                        "[--generated] [--brief] [--jobs N] [--filter TEXT]\n"
                        "               [--random N [--seed S]] [--repeat N [--load]]\n");
        return 2;
    }
    Arena *arena = arena_create();
    char temporary[] = "/tmp/rnnc-conform-XXXXXX";
    const Options *options = &run.options;
    const bool carried = options->gpu || is_cuda(options);
    run.cases = options->random ? cases_random(arena, options->seed, options->random)
                                : cases_make(arena, carried         ? CASES_GPU
                                                    : options->full ? CASES_FULL
                                                                    : CASES_QUICK);
    run.folder = options->build_dir ? options->build_dir
                 : options->run_dir ? options->run_dir
                                    : mkdtemp(temporary);
    if (!run.folder || (options->build_dir && mkdir(run.folder, 0777) && errno != EEXIST)) {
        fprintf(stderr, "no folder for the modules: %s\n", strerror(errno));
        return 3;
    }
    run.variants = is_cuda(options) ? cuda_variants : cpu_variants;
    run.variant_count = VARIANTS_MAX - (is_cuda(options) && options->generated);
    run.tallies = mmap(NULL, (size_t)run.cases.count * sizeof *run.tallies, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code = EXIT_SKIPPED;
    if (run.tallies != MAP_FAILED && !(is_cuda(options) && device_is_missing(arena, &run))) {
        do_all(&run);
        code = report(&run);
    }
    if (!options->build_dir && !options->run_dir)
        rmdir(run.folder);
    arena_destroy(arena);
    return code;
}
