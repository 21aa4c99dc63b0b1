// Results: see results.h.
#include "bench/results.h"

#include <string.h>

#include "bench/statistics.h"

const char *bench_kind_name(BenchKind kind)
{
    static const char *const names[] = {[BENCH_GENERATED] = "generated",
                                        [BENCH_CUDNN] = "cudnn",
                                        [BENCH_LIBRARY] = "library",
                                        [BENCH_CPU] = "cpu",
                                        [BENCH_CHOSEN] = "chosen"};
    return names[kind];
}

static const BenchRow *faster(const BenchRow *a, const BenchRow *b)
{
    return !a || (b && b->median_us < a->median_us) ? b : a;
}

const BenchRow *bench_best(const BenchCase *of, BenchKind kind)
{
    const BenchRow *best = NULL;
    for (int i = 0; i < of->row_count; i++)
        if (of->rows[i].kind == kind && !of->rows[i].refusal)
            best = faster(best, &of->rows[i]);
    return best;
}

/// The fastest row that rnnc_run alone could have been, without the caller's graph around it.
static const BenchRow *best_of_session(const BenchCase *of)
{
    const BenchRow *best = NULL;
    for (int i = 0; i < of->row_count; i++) {
        const BenchRow *row = &of->rows[i];
        if (!row->refusal && !row->in_graph &&
            (row->kind == BENCH_GENERATED || row->kind == BENCH_CUDNN))
            best = faster(best, row);
    }
    return best;
}

/// Calls of the library that the case has.
static int call_count(const BenchCase *of)
{
    int count = 0;
    for (int i = 0; i < of->row_count; i++)
        if (of->rows[i].kind == BENCH_LIBRARY && of->rows[i].call >= count)
            count = of->rows[i].call + 1;
    return count;
}

double bench_library_us(const BenchCase *of)
{
    double sum = 0;
    const int calls = call_count(of);
    for (int call = 0; call < calls; call++) {
        double best = NAN;
        for (int i = 0; i < of->row_count; i++) {
            const BenchRow *row = &of->rows[i];
            if (row->kind == BENCH_LIBRARY && row->call == call && !row->refusal)
                best = fmin(best, row->median_us);
        }
        sum += best;
    }
    return calls ? sum : NAN;
}

double bench_ratio(const BenchCase *of)
{
    const BenchRow *best = bench_best(of, BENCH_GENERATED);
    return best ? bench_row_ratio(of, best) : NAN;
}

double bench_cost(const BenchReport *report, const BenchCase *of)
{
    const BenchRow *own = bench_best(of, BENCH_GENERATED);
    for (int i = 0; i < report->case_count && of->plain && own; i++) {
        const BenchCase *plain = &report->cases[i];
        const BenchRow *best = bench_best(plain, BENCH_GENERATED);
        if (strcmp(plain->name, of->plain) == 0 && best)
            return own->median_us / best->median_us;
    }
    return NAN;
}

double bench_regret(const BenchCase *of)
{
    const BenchRow *chosen = bench_best(of, BENCH_CHOSEN), *best = best_of_session(of);
    if (!chosen || !best)
        return NAN;
    // The choice is one of the others, measured once more: where it came out faster, it is the
    // best.
    return statistics_regret(chosen->median_us, fmin(best->median_us, chosen->median_us));
}

double bench_us_a_step(const BenchCase *of, const BenchRow *row)
{
    return row->median_us / (double)of->timesteps;
}

/// Whether a row does only a part of the case.
static bool is_part(const BenchCase *of, const BenchRow *row)
{
    return row->kind == BENCH_LIBRARY && call_count(of) > 1;
}

double bench_tflops(const BenchCase *of, const BenchRow *row)
{
    return of->operations > 0 && !is_part(of, row) ? of->operations / row->median_us / 1e6 : NAN;
}

double bench_floor_share(const BenchCase *of, const BenchRow *row)
{
    return of->floor.us > 0 && row->kind != BENCH_CPU && !is_part(of, row)
               ? of->floor.us / row->median_us
               : NAN;
}

double bench_row_ratio(const BenchCase *of, const BenchRow *row)
{
    return row->refusal || row->median_us <= 0 || is_part(of, row)
               ? NAN
               : bench_library_us(of) / row->median_us;
}

BenchSummary bench_summarise(Arena *arena, const BenchReport *report)
{
    BenchSummary summary = {.worst_regret = NAN, .mean_regret = NAN};
    double *ratios = ARENA_ARRAY(arena, double, report->case_count + 1);
    double *regrets = ARENA_ARRAY(arena, double, report->case_count + 1);
    int regret_count = 0;
    for (int i = 0; i < report->case_count; i++) {
        const BenchCase *of = &report->cases[i];
        const double ratio = bench_ratio(of), regret = bench_regret(of);
        if (!isnan(ratio))
            ratios[summary.ratios++] = ratio;
        if (!isnan(regret))
            regrets[regret_count++] = regret;
        summary.worst_regret = fmax(summary.worst_regret, regret);
        summary.below_one += ratio < 1;
        summary.bars += of->bar > 0;
        summary.met += of->bar > 0 && ratio >= of->bar;
        summary.costs += of->plain != NULL;
        summary.costs_met += bench_cost(report, of) <= of->most_cost;
    }
    summary.geometric_mean = statistics_geometric_mean(ratios, summary.ratios);
    summary.mean_regret = statistics_geometric_mean(regrets, regret_count);
    return summary;
}

const char *bench_trace_text(Arena *arena, const BenchRow *row)
{
    if (isnan(row->kernels))
        return NULL;
    return arena_format(arena, "%g kernels a run, busy %.1f us, %.1f us between them (%.0f%%)",
                        row->kernels, row->busy_us, row->gap_us,
                        100 * row->gap_us / (row->busy_us + row->gap_us));
}

const char *bench_shape_text(Arena *arena, const BenchCase *of)
{
    return arena_format(
        arena, "%s %lld -> %lld%s%s%s", of->cell, (long long)of->inputs, (long long)of->units,
        of->layers > 1 ? arena_format(arena, ", %d layers", of->layers) : "",
        of->directions > 1 ? ", both directions" : "", of->trains ? ", training" : "");
}

/// Whether `name` is `variant`, or one of its ways ("cudnn:standard").
static bool names_variant(const char *name, const char *variant)
{
    const size_t length = strcspn(name, ":");
    return strlen(variant) == length && strncmp(name, variant, length) == 0;
}

const char *bench_row_text(Arena *arena, const BenchCase *of, const BenchRow *row)
{
    const char *name = row->variant;
    const int calls = call_count(of);
    if (row->kind == BENCH_LIBRARY && calls > 1)
        name = arena_format(arena, "cuDNN alone %d/%d: %s", row->call + 1, calls, row->variant);
    else if (row->kind == BENCH_LIBRARY)
        name = arena_format(arena, "cuDNN alone: %s", row->variant);
    else if (row->kind == BENCH_CHOSEN)
        name = row->ran ? arena_format(arena, "chosen: %s", row->ran) : "chosen";
    else if (row->ran && !names_variant(row->variant, row->ran))
        name = arena_format(arena, "%s (%s)", row->variant, row->ran);
    return row->in_graph ? arena_format(arena, "%s, in a graph", name) : name;
}
