// Report as a page: self-contained, light and dark by the reader's setting. Tiles with what the
// cases come to, the ratios of all, scaling where cases differ in one size, then each case with its
// chart and the same numbers as a table.
#include <string.h>

#include "bench/floors.h"
#include "bench/report.h"
#include "bench/report_chart.h"

enum { SCALING_MAX = 24 };

static const char style[] =
    ":root{color-scheme:light dark;--page:#fbfbf9;--card:#fff;--ink:#1d2126;--quiet:#676d76;"
    "--rule:#e4e5e1;--generated:#2f74c8;--cudnn:#d9772b;--module:#ecb98c;--chosen:#16917c;"
    "--cpu:#9197a0;--missed:#b9454f}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#15181c;--card:#1c2025;--ink:#e8eaec;"
    "--quiet:#9aa1aa;--rule:#31363d;--generated:#62a3ee;--cudnn:#f0975a;--module:#8d6142;"
    "--chosen:#3fbfa6;--cpu:#7d848e;--missed:#e07a80}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:980px;padding:32px 20px 64px;background:var(--page);"
    "color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}\n"
    "h1{font-size:26px;margin:0 0 4px}h2{font-size:19px;margin:40px 0 8px}"
    "h3{font-size:16px;margin:0}\n"
    "p{margin:4px 0}.quiet{color:var(--quiet);fill:var(--quiet)}\n"
    ".tiles{display:flex;flex-wrap:wrap;gap:12px;margin:20px 0}"
    ".tile{flex:1 1 150px;background:var(--card);border:1px solid var(--rule);border-radius:10px;"
    "padding:12px 16px}.tile b{display:block;font-size:24px;font-weight:650}\n"
    ".card{background:var(--card);border:1px solid var(--rule);border-radius:10px;"
    "padding:16px 18px;margin:14px 0}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:12px 0;font-size:13px}"
    ".legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}\n"
    "svg{width:100%;height:auto;display:block;margin:10px 0}"
    "svg text{font-size:12.5px;fill:var(--ink)}"
    "svg .name{text-anchor:end}svg .tick{text-anchor:middle;fill:var(--quiet);font-size:11.5px}"
    "svg .grid{stroke:var(--rule)}"
    "svg .floor{stroke:var(--ink);stroke-dasharray:3 4}"
    "svg .whisker,svg .goal{stroke:var(--ink);stroke-width:1.2;fill:none}"
    "svg .goal{stroke-width:2.5}"
    "svg .cut{stroke:var(--card);stroke-width:4}"
    "svg .line{fill:none;stroke-width:2}svg .dot{stroke:var(--card);stroke-width:2}\n"
    ".generated{fill:var(--generated);stroke:var(--generated);background:var(--generated)}"
    ".cudnn{fill:var(--cudnn);stroke:var(--cudnn);background:var(--cudnn)}"
    ".module{fill:var(--module);background:var(--module)}"
    ".chosen{fill:var(--chosen);background:var(--chosen)}"
    ".cpu{fill:var(--cpu);stroke:var(--cpu);background:var(--cpu)}"
    ".missed{fill:var(--missed);background:var(--missed)}svg .bar{stroke:none}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px;"
    "font-variant-numeric:tabular-nums}"
    "th,td{padding:4px 10px;text-align:right;border-bottom:1px solid var(--rule);"
    "white-space:nowrap}th{color:var(--quiet);font-weight:500}"
    "th:first-child,td:first-child{text-align:left;padding-left:0}\n"
    "details{margin-top:8px}summary{cursor:pointer;color:var(--quiet)}\n";

static void add_cell(Text *out, const char *format, double value)
{
    char text[32] = "&ndash;";
    if (!isnan(value))
        snprintf(text, sizeof text, format, value);
    text_addf(out, "<td>%s</td>", text);
}

static void add_table_row(Arena *arena, const BenchCase *of, const BenchRow *row, Text *out)
{
    text_addf(out, "<tr><td>%s</td>", chart_escape(arena, bench_row_text(arena, of, row)));
    add_cell(out, "%.1f", row->median_us);
    text_addf(out, "<td>%.1f &ndash; %.1f</td>", row->p10_us, row->p90_us);
    add_cell(out, "%.3f", bench_us_a_step(of, row));
    add_cell(out, "%.3f", bench_tflops(of, row));
    add_cell(out, "%.0f %%", 100 * bench_floor_share(of, row));
    add_cell(out, "%.2f", row->memory_bytes < 0 ? NAN : (double)row->memory_bytes / 1048576);
    add_cell(out, "%.1e", row->error);
    add_cell(out, "%.2fx", bench_row_ratio(of, row));
    text_add(out, "</tr>\n");
}

/// The numbers behind the chart, and what was not run.
static void add_table(Arena *arena, const BenchCase *of, Text *out)
{
    bool has_refusals = false;
    text_add(out, "<details><summary>numbers</summary><div class=\"wide\"><table>\n<tr>"
                  "<th>variant</th><th>median us</th><th>p10 &ndash; p90</th><th>us/step</th>"
                  "<th>TFLOP/s</th><th>of floor</th><th>MiB</th><th>error</th><th>x cuDNN</th>"
                  "</tr>\n");
    for (int i = 0; i < of->row_count; i++) {
        has_refusals |= of->rows[i].refusal != NULL;
        if (!of->rows[i].refusal)
            add_table_row(arena, of, &of->rows[i], out);
    }
    text_add(out, "</table></div>\n");
    for (int i = 0; i < of->row_count; i++) {
        const char *traced = bench_trace_text(arena, &of->rows[i]);
        if (traced)
            text_addf(out, "<p class=\"quiet\">on the GPU: %s: %s</p>\n",
                      chart_escape(arena, bench_row_text(arena, of, &of->rows[i])), traced);
    }
    if (has_refusals)
        text_add(out, "<p class=\"quiet\">not run:</p><ul>\n");
    for (int i = 0; i < of->row_count; i++)
        if (of->rows[i].refusal)
            text_addf(out, "<li>%s: <span class=\"quiet\">%s</span></li>\n",
                      chart_escape(arena, bench_row_text(arena, of, &of->rows[i])),
                      chart_escape(arena, of->rows[i].refusal));
    text_add(out, has_refusals ? "</ul></details>\n" : "</details>\n");
}

static void add_case(Arena *arena, const BenchCase *of, Text *out)
{
    text_addf(out, "<section class=\"card\"><h3>%s</h3>\n", chart_escape(arena, of->name));
    text_addf(out, "<p class=\"quiet\">%s, batch %lld, %lld steps, %s",
              chart_escape(arena, bench_shape_text(arena, of)), (long long)of->batch,
              (long long)of->timesteps, of->precision);
    if (of->operations > 0)
        text_addf(out, ", %.4g Gflop", of->operations / 1e9);
    text_add(out, "</p>\n");
    chart_rows(arena, of, out);
    if (of->floor.us > 0)
        text_addf(out, "<p class=\"quiet\">floor (dashed): %s</p>\n",
                  chart_escape(arena, floors_text(arena, &of->floor)));
    if (of->cudnn)
        text_addf(out, "<p class=\"quiet\">cuDNN: %s</p>\n", chart_escape(arena, of->cudnn));
    if (of->reference)
        text_addf(out, "<p class=\"quiet\">error: %s</p>\n", chart_escape(arena, of->reference));
    if (!isnan(bench_regret(of)))
        text_addf(out,
                  "<p class=\"quiet\">the session's own choice: %.2f times the best of the "
                  "module's variants</p>\n",
                  bench_regret(of));
    add_table(arena, of, out);
    text_add(out, "</section>\n");
}

static void add_tile(Text *out, const char *value, const char *what)
{
    text_addf(out, "<div class=\"tile\"><b>%s</b><span class=\"quiet\">%s</span></div>\n", value,
              what);
}

static void add_summary(Arena *arena, const BenchReport *report, Text *out)
{
    const BenchSummary summary = bench_summarise(arena, report);
    if (summary.ratios == 0)
        return;
    text_add(out, "<div class=\"tiles\">\n");
    add_tile(out, arena_format(arena, "%.2fx", summary.geometric_mean),
             summary.ratios == 1 ? "cuDNN's time over the best generated variant's"
                                 : "cuDNN's time over the best generated variant's, geometric "
                                   "mean");
    if (summary.bars > 0)
        add_tile(out, arena_format(arena, "%d of %d", summary.met, summary.bars), "bars met");
    if (summary.costs > 0)
        add_tile(out, arena_format(arena, "%d of %d", summary.costs_met, summary.costs),
                 "bounds on the cost of other cells met");
    add_tile(out, arena_format(arena, "%d", summary.below_one), "cases slower than cuDNN");
    if (!isnan(summary.worst_regret))
        add_tile(out, arena_format(arena, "%.2f / %.2f", summary.mean_regret, summary.worst_regret),
                 "regret of the session's own choice, geometric mean / worst");
    text_add(out, "</div>\n");
    if (report->case_count < 2)
        return;
    text_add(out, "<h2>All cases</h2>\n<p class=\"quiet\">Time of cuDNN's best algorithm over that "
                  "of the best generated variant; dashed at 1, a stroke at the bar.</p>\n"
                  "<div class=\"card\">\n");
    chart_ratios(arena, report, out);
    text_add(out, "</div>\n");
}

/// Whether case `index` is the first of two or more that differ in `axis` alone.
static bool begins_scaling(const BenchReport *report, ChartAxis axis, int index)
{
    int others = 0;
    for (int i = 0; i < report->case_count; i++) {
        const bool is_same = chart_same(axis, &report->cases[index], &report->cases[i]);
        if (is_same && i < index)
            return false;
        others += is_same && i > index;
    }
    return others > 0;
}

static const char *scaling_title(Arena *arena, ChartAxis axis, const BenchCase *of)
{
    const char *steps = arena_format(arena, "%lld steps", (long long)of->timesteps);
    const char *batch = arena_format(arena, "batch %lld", (long long)of->batch);
    if (axis == CHART_UNITS)
        return arena_format(arena, "%s over units, %s, %s, %s", of->cell, batch, steps,
                            of->precision);
    return arena_format(arena, "%s over %s, %s, %s", bench_shape_text(arena, of),
                        axis == CHART_BATCH ? "batch" : "time steps",
                        axis == CHART_BATCH ? steps : batch, of->precision);
}

static void add_scaling(Arena *arena, const BenchReport *report, Text *out)
{
    int count = 0;
    for (int axis = CHART_BATCH; axis <= CHART_UNITS; axis++)
        for (int i = 0; i < report->case_count && count < SCALING_MAX; i++) {
            if (!begins_scaling(report, (ChartAxis)axis, i))
                continue;
            if (count++ == 0)
                text_add(out, "<h2>Scaling</h2>\n<p class=\"quiet\">Time of a run, both axes "
                              "logarithmic.</p>\n");
            text_addf(
                out, "<div class=\"card\"><h3>%s</h3>\n",
                chart_escape(arena, scaling_title(arena, (ChartAxis)axis, &report->cases[i])));
            chart_scaling(arena, report, (ChartAxis)axis, &report->cases[i], out);
            text_add(out, "</div>\n");
        }
}

static void add_legend(Text *out)
{
    static const struct {
        const char *name, *text;
    } entries[] = {
        {"generated", "generated"},
        {"chosen", "what a session chooses"},
        {"cudnn", "cuDNN alone"},
        {"module", "cuDNN in the module, with copies"},
        {"cpu", "CPU"},
    };
    text_add(out, "<div class=\"legend\">");
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        text_addf(out, "<span><i class=\"%s\"></i>%s</span>", entries[i].name, entries[i].text);
    text_add(out, "</div>\n");
}

void report_html(Arena *arena, const BenchReport *report, Text *out)
{
    const char *title = chart_escape(arena, report->title);
    text_addf(out,
              "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
              "<title>rnnc bench: %s</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>%s</h1>\n",
              title, style, title);
    if (report->gpu)
        text_addf(out, "<p>%s, sm_%d, %d SMs, %d MHz</p>\n", chart_escape(arena, report->gpu),
                  report->arch, report->multiprocessors, report->clock_mhz);
    else if (report->no_gpu)
        text_addf(out, "<p>no GPU: %s</p>\n", chart_escape(arena, report->no_gpu));
    text_addf(out, "<p class=\"quiet\">%s; rnnc %s</p>\n", chart_escape(arena, report->cpu),
              chart_escape(arena, report->version));
    add_summary(arena, report, out);
    add_scaling(arena, report, out);
    text_add(out, "<h2>Variants</h2>\n<p class=\"quiet\">Median time of a run with whiskers from "
                  "p10 to p90, fastest first. A bar with a slanted gap is longer than the chart."
                  "</p>\n");
    add_legend(out);
    for (int i = 0; i < report->case_count; i++)
        add_case(arena, &report->cases[i], out);
    text_add(out, "</body>\n</html>\n");
}
