// Suite run: the cases of a suite one after the other, each in memory of its own. Specs and modules
// stand in the folder that the user names, or in a temporary one.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "bench/bench.h"
#include "bench/machine.h"
#include "bench/measure.h"
#include "bench/subject.h"
#include "bench/suites.h"

typedef struct {
    Arena *arena;
    Diags *diags;
    const BenchOptions *options;
    BenchMachine machine;
    BenchReport *report;
    const char *folder;
} SuiteRun;

static const SuiteCase *find_cases(SuiteRun *run, int *out_count)
{
    const SuiteCase *cases =
        suite_cases(run->arena, run->options->suite, run->options->trains, out_count);
    if (cases)
        return cases;
    size_t count = 0;
    Text known = {.arena = run->arena};
    for (; suite_names[count]; count++)
        text_addf(&known, "%s%s", count ? ", " : "", suite_names[count]);
    Diag *diag =
        diag_add(run->diags, DIAG_E0808, (Span){0}, "unknown suite '%s'", run->options->suite);
    const char *near = text_nearest(run->options->suite, suite_names, count);
    if (near)
        diag_help(diag, "did you mean '%s'?", near);
    diag_help(diag, "known: %s", text_string(&known));
    return NULL;
}

static bool open_folder(SuiteRun *run)
{
    const char *temporary = getenv("TMPDIR");
    run->folder = run->options->modules;
    if (!run->folder) {
        char *name = arena_format(run->arena, "%s/rnnc_suite.XXXXXX",
                                  temporary && *temporary ? temporary : "/tmp");
        run->folder = mkdtemp(name);
        if (!run->folder)
            diag_add(run->diags, DIAG_E0002, (Span){0}, "cannot write '%s': %s", name,
                     strerror(errno));
        return run->folder != NULL;
    }
    if (mkdir(run->folder, 0755) == 0 || errno == EEXIST)
        return true;
    diag_add(run->diags, DIAG_E0002, (Span){0}, "cannot write '%s': %s", run->folder,
             strerror(errno));
    return false;
}

static const char *path_of(const SuiteRun *run, Arena *arena, const SuiteCase *of,
                           const char *ending)
{
    return arena_format(arena, "%s/%s.%s", run->folder, of->module, ending);
}

/// Spec and module of a temporary folder are of no more use.
static void remove_files(const SuiteRun *run, const SuiteCase *of)
{
    if (run->options->modules)
        return;
    unlink(path_of(run, run->arena, of, "yaml"));
    unlink(path_of(run, run->arena, of, "so"));
}

static bool measure(SuiteRun *run, Arena *scratch, const SuiteCase *of, const Subject *subject)
{
    const MeasureOptions options = {.gpu = run->machine.gpu,
                                    .ordinal = run->machine.ordinal,
                                    .arch = run->report->arch,
                                    .cpu = run->machine.cpu,
                                    .variants = run->options->variants,
                                    .without_module_cudnn = true,
                                    .batch = of->batch,
                                    .timesteps = of->timesteps,
                                    .trains = of->trains,
                                    .trace = run->options->trace,
                                    .progress = run->options->progress};
    BenchCase measured = {
        .name = of->name, .bar = of->bar, .plain = of->plain, .most_cost = of->most_cost};
    if (!measure_case(run->arena, scratch, run->diags, subject, &options, &measured))
        return false;
    ARENA_PUSH(run->arena, run->report->cases, run->report->case_count, measured);
    if (run->options->done)
        run->options->done(run->options->context, run->report);
    return true;
}

static bool run_case(SuiteRun *run, const SuiteCase *of)
{
    Arena *scratch = arena_create();
    const char *spec = suite_spec(scratch, of);
    const SubjectOptions options = {
        .spec_path = path_of(run, scratch, of, "yaml"),
        .module_path = path_of(run, scratch, of, "so"),
        .targets = run->options->targets ? run->options->targets : run->machine.targets,
        .variants = strchr(run->options->variants, ':') ? "all" : run->options->variants,
        .reuse = true,
        .progress = run->options->progress};
    Subject subject = {0};
    bool good = file_write(scratch, run->diags, options.spec_path, spec, strlen(spec));
    if (good && run->options->compile_only)
        good = access(options.module_path, R_OK) == 0 ||
               subject_compile(scratch, run->diags, &options, NULL);
    else if (good)
        good = subject_open(scratch, run->diags, &options, &subject) &&
               measure(run, scratch, of, &subject);
    subject_close(&subject);
    if (good) // a diagnostic of a fault points into the memory
        arena_destroy(scratch);
    return good;
}

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

bool suite_run(Arena *arena, Diags *diags, const BenchOptions *options, BenchReport *out)
{
    SuiteRun run = {.arena = arena, .diags = diags, .options = options, .report = out};
    int count = 0, left = 0;
    out->title = arena_format(arena, "suite %s", options->suite);
    const SuiteCase *cases = find_cases(&run, &count);
    if (!cases || !machine_find(arena, diags, options->device, &run.machine, out) ||
        !open_folder(&run))
        return false;
    if (run.machine.gpu) {
        run.machine.cpu = false;
        run.machine.targets =
            arena_copy(arena, run.machine.targets, strcspn(run.machine.targets, ","));
    }
    const double end = options->seconds > 0 ? now_seconds() + options->seconds : INFINITY;
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        if (options->filter && !strstr(cases[i].name, options->filter))
            continue;
        if (now_seconds() >= end)
            left++;
        else
            good = run_case(&run, &cases[i]);
        const bool is_shared = i + 1 < count && strcmp(cases[i].module, cases[i + 1].module) == 0;
        if (!is_shared)
            remove_files(&run, &cases[i]);
    }
    if (!options->modules)
        rmdir(run.folder);
    if (left > 0)
        diag_add(diags, DIAG_N0803, (Span){0},
                 "%d cases were left out: the time of --seconds is over", left);
    return good;
}
