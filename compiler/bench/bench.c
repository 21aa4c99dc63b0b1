// Bench: see bench.h. A spec whose sizes are `any` is compiled once for all of its cases, another
// once a case; a finished module is taken as it is.
#include "bench/bench.h"

#include <string.h>

#include "bench/ladder.h"
#include "bench/machine.h"
#include "bench/measure.h"
#include "bench/subject.h"

typedef struct {
    Arena *arena;
    Diags *diags;
    const BenchOptions *options;
    BenchMachine machine;
    BenchReport *report;
    bool is_spec, any_batch, any_timesteps, trains;
} Bench;

static bool is_module(const char *path)
{
    const size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".so") == 0;
}

/// Whether the spec's sizes are `any`.
static bool read_sizes(Bench *bench)
{
    bench->is_spec = !is_module(bench->options->path);
    bench->trains = bench->options->trains;
    if (!bench->is_spec)
        return true;
    const Spec *spec = spec_read(bench->arena, bench->diags, bench->options->path);
    if (!spec)
        return false;
    bench->any_batch = spec->batch.any;
    bench->any_timesteps = spec->timesteps.any;
    bench->trains |= spec->mode == MODE_TRAINING;
    return true;
}

/// The subject for one case: a number in place of what the spec fixes.
static bool open_subject(const Bench *bench, int64_t batch, int64_t timesteps, Subject *out)
{
    const BenchOptions *options = bench->options;
    const SubjectOptions open = {
        .spec_path = bench->is_spec ? options->path : NULL,
        .module_path = bench->is_spec ? NULL : options->path,
        .targets = options->targets ? options->targets : bench->machine.targets,
        .variants = options->ladder ? "all,loop" : options->variants,
        .batch = bench->is_spec && !bench->any_batch ? batch : 0,
        .timesteps = bench->is_spec && !bench->any_timesteps ? timesteps : 0,
        .trains = bench->trains,
        .progress = options->progress};
    return subject_open(bench->arena, bench->diags, &open, out);
}

static bool measure(Bench *bench, const Subject *subject, int64_t batch, int64_t timesteps)
{
    const MeasureOptions options = {
        .gpu = bench->machine.gpu,
        .ordinal = bench->machine.ordinal,
        .arch = bench->report->arch,
        .cpu = bench->machine.cpu,
        .variants =
            bench->options->ladder ? ladder_variants(bench->arena) : bench->options->variants,
        .batch = batch,
        .timesteps = timesteps,
        .trains = bench->trains || (subject->model && subject->model->trains),
        .trace = bench->options->trace,
        .progress = bench->options->progress};
    const char *name = rnnc_module_name(subject->module);
    BenchCase of = {.name = arena_copy(bench->arena, name, strlen(name))};
    if (!measure_case(bench->arena, bench->arena, bench->diags, subject, &options, &of))
        return false;
    ARENA_PUSH(bench->arena, bench->report->cases, bench->report->case_count, of);
    if (bench->options->done)
        bench->options->done(bench->options->context, bench->report);
    return true;
}

/// All batches times all numbers of steps.
static bool measure_all(Bench *bench)
{
    static const int64_t own[] = {0};
    const BenchOptions *options = bench->options;
    const int64_t *batches = options->batch_count ? options->batches : own;
    const int64_t *timesteps = options->timesteps_count ? options->timesteps : own;
    Subject subject = {0};
    bool good = true, is_open = false;
    for (int i = 0; i < (options->batch_count ? options->batch_count : 1) && good; i++)
        for (int k = 0; k < (options->timesteps_count ? options->timesteps_count : 1) && good;
             k++) {
            const bool fits = is_open && (!bench->is_spec || ((bench->any_batch || i == 0) &&
                                                              (bench->any_timesteps || k == 0)));
            if (!fits) {
                subject_close(&subject);
                good = is_open = open_subject(bench, batches[i], timesteps[k], &subject);
            }
            good = good && measure(bench, &subject, batches[i], timesteps[k]);
        }
    subject_close(&subject);
    return good;
}

/// Every rung is a launch on a GPU: without one there is nothing to compare.
static bool check_ladder(const Bench *bench)
{
    if (!bench->options->ladder || bench->machine.gpu)
        return true;
    Diag *diag = diag_add(bench->diags, DIAG_E0806, (Span){0}, "the ladder needs a GPU%s%s",
                          bench->report->no_gpu ? ": " : "",
                          bench->report->no_gpu ? bench->report->no_gpu : "");
    diag_help(diag, "without --ladder the model is measured on the CPU");
    return false;
}

bool bench_run(Arena *arena, Diags *diags, const BenchOptions *options, BenchReport *out)
{
    Bench bench = {.arena = arena, .diags = diags, .options = options, .report = out};
    *out = (BenchReport){.title = options->path, .version = RNNC_VERSION};
    if (!measure_check_variants(arena, diags, options->variants))
        return false;
    if (options->suite)
        return suite_run(arena, diags, options, out);
    if (!read_sizes(&bench) || !machine_find(arena, diags, options->device, &bench.machine, out) ||
        !check_ladder(&bench))
        return false;
    return measure_all(&bench);
}
