// Report as text. A case is a table of its rows, fastest first, then what could not run and why;
// several cases that have a ratio end with one line each and what they come to.
#include <stdlib.h>
#include <string.h>

#include "bench/floors.h"
#include "bench/ladder.h"
#include "bench/report.h"

static void add_number(Text *out, int width, const char *format, double value)
{
    char text[32];
    if (isnan(value))
        text_addf(out, " %*s", width, "-");
    else {
        snprintf(text, sizeof text, format, value);
        text_addf(out, " %*s", width, text);
    }
}

/// "12.0 KB"; "-" below 0.
static void add_bytes(Text *out, int width, double bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB"};
    int unit = 0;
    char text[32] = "-";
    for (; bytes >= 1024 && unit < 3; unit++)
        bytes /= 1024;
    if (bytes >= 0)
        snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    text_addf(out, " %*s", width, text);
}

static int by_time(const void *a, const void *b)
{
    const BenchRow *left = *(const BenchRow *const *)a, *right = *(const BenchRow *const *)b;
    if (left->median_us != right->median_us)
        return left->median_us < right->median_us ? -1 : 1;
    return left < right ? -1 : 1;
}

/// The measured rows, fastest first.
static const BenchRow **sorted_rows(Arena *arena, const BenchCase *of, int *out_count)
{
    const BenchRow **rows = ARENA_ARRAY(arena, const BenchRow *, of->row_count + 1);
    *out_count = 0;
    for (int i = 0; i < of->row_count; i++)
        if (!of->rows[i].refusal)
            rows[(*out_count)++] = &of->rows[i];
    qsort(rows, (size_t)*out_count, sizeof *rows, by_time);
    return rows;
}

static void add_row(Arena *arena, const BenchCase *of, const BenchRow *row, Text *out)
{
    char range[48];
    snprintf(range, sizeof range, "%.1f - %.1f", row->p10_us, row->p90_us);
    const double share = bench_floor_share(of, row);
    text_addf(out, "  %-44s", bench_row_text(arena, of, row));
    add_number(out, 11, "%.1f", row->median_us);
    text_addf(out, " %21s", range);
    add_number(out, 9, "%.3f", bench_us_a_step(of, row));
    add_number(out, 9, "%.3f", bench_tflops(of, row));
    add_number(out, 7, "%.0f%%", 100 * share);
    add_bytes(out, 9, (double)row->memory_bytes);
    add_number(out, 8, "%.1e", row->error);
    add_number(out, 9, "%.2fx", bench_row_ratio(of, row));
    text_add(out, "\n");
}

/// Once a variant and reason, plain and in a graph together.
static void add_refusals(Arena *arena, const BenchCase *of, Text *out)
{
    bool is_first = true;
    for (int i = 0; i < of->row_count; i++) {
        const BenchRow *row = &of->rows[i];
        if (!row->refusal)
            continue;
        text_addf(out, "%s    %-42s %s\n", is_first ? "  not run:\n" : "",
                  bench_row_text(arena, of, row), row->refusal);
        is_first = false;
    }
}

void report_text_case(Arena *arena, const BenchCase *of, Text *out)
{
    text_addf(out, "\n%s: %s, B %lld, T %lld, %s", of->name, bench_shape_text(arena, of),
              (long long)of->batch, (long long)of->timesteps, of->precision);
    if (of->operations > 0)
        text_addf(out, ", %.4g Gflop", of->operations / 1e9);
    text_add(out, "\n");
    if (of->floor.us > 0)
        text_addf(out, "  floor: %s\n", floors_text(arena, &of->floor));
    if (of->cudnn)
        text_addf(out, "  cuDNN: %s\n", of->cudnn);
    if (of->reference)
        text_addf(out, "  error: %s\n", of->reference);
    text_addf(out, "  %-44s %11s %21s %9s %9s %7s %9s %8s %9s\n", "variant", "median us",
              "p10 - p90", "us/step", "TFLOP/s", "floor", "memory", "error", "x cuDNN");
    int count;
    const BenchRow **rows = sorted_rows(arena, of, &count);
    for (int i = 0; i < count; i++)
        add_row(arena, of, rows[i], out);
    for (int i = 0; i < count; i++) {
        const char *traced = bench_trace_text(arena, rows[i]);
        if (traced)
            text_addf(out, "  on the GPU: %s: %s\n", bench_row_text(arena, of, rows[i]), traced);
    }
    add_refusals(arena, of, out);
    ladder_print(of, out);
}

static void add_summary_row(Arena *arena, const BenchCase *of, Text *out)
{
    const BenchRow *best = bench_best(of, BENCH_GENERATED);
    const double ratio = bench_ratio(of);
    text_addf(out, "  %-30s %6lld %6lld %-9s", of->name, (long long)of->batch,
              (long long)of->timesteps, of->precision);
    add_number(out, 10, "%.1f", bench_library_us(of));
    add_number(out, 10, "%.1f", best ? best->median_us : NAN);
    add_number(out, 8, "%.2fx", ratio);
    add_number(out, 7, "%.2fx", of->bar > 0 ? of->bar : NAN);
    text_addf(out, " %-6s", of->bar <= 0 ? "" : ratio >= of->bar ? "met" : "missed");
    add_number(out, 7, "%.0f%%", best ? 100 * bench_floor_share(of, best) : NAN);
    add_number(out, 7, "%.2f", bench_regret(of));
    text_addf(out, "  %s\n", best ? bench_row_text(arena, of, best) : "-");
}

/// Cells outside cuDNN's criteria against the plain lstm of their sizes.
static void add_costs(const BenchReport *report, Text *out)
{
    for (int i = 0; i < report->case_count; i++) {
        const BenchCase *of = &report->cases[i];
        const double cost = bench_cost(report, of);
        if (!isnan(cost))
            text_addf(out, "  %s costs %.2f times %s, at most %.2f: %s\n", of->name, cost,
                      of->plain, of->most_cost, cost <= of->most_cost ? "met" : "missed");
    }
}

void report_text_summary(Arena *arena, const BenchReport *report, Text *out)
{
    const BenchSummary summary = bench_summarise(arena, report);
    if (summary.ratios == 0 || report->case_count < 2)
        return;
    text_addf(out, "\nsummary: best generated variant against cuDNN's best algorithm\n");
    text_addf(out, "  %-30s %6s %6s %-9s %10s %10s %8s %7s %-6s %7s %7s  %s\n", "case", "B", "T",
              "precision", "cuDNN us", "best us", "ratio", "bar", "", "floor", "regret", "variant");
    for (int i = 0; i < report->case_count; i++)
        add_summary_row(arena, &report->cases[i], out);
    text_addf(out, "  geometric mean of %d ratios: %.2fx; below 1: %d\n", summary.ratios,
              summary.geometric_mean, summary.below_one);
    if (summary.bars > 0)
        text_addf(out, "  bars: %d of %d met\n", summary.met, summary.bars);
    add_costs(report, out);
    if (!isnan(summary.worst_regret))
        text_addf(out, "  regret of the session's own choice: geometric mean %.2f, at worst %.2f\n",
                  summary.mean_regret, summary.worst_regret);
}

void report_text_head(const BenchReport *report, Text *out)
{
    text_addf(out, "%s; rnnc %s; ", report->title, report->version);
    if (report->gpu)
        text_addf(out, "%s (sm_%d, %d SMs, %d MHz, driver for CUDA %d.%d); ", report->gpu,
                  report->arch, report->multiprocessors, report->clock_mhz,
                  report->driver_cuda / 1000, report->driver_cuda % 1000 / 10);
    else if (report->no_gpu)
        text_addf(out, "no GPU: %s; ", report->no_gpu);
    text_addf(out, "%s\n", report->cpu);
}
