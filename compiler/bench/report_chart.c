// Charts of a bench: see report_chart.h.
#include "bench/report_chart.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 860, LABELS = 270, VALUES = 170, ROW = 24, BAR = 14, TOP = 8 };

/// Bars beyond this many times the fastest are cut.
static const double LONGEST = 12;

const char *chart_escape(Arena *arena, const char *text)
{
    Text out = {.arena = arena};
    text_add(&out, "");
    for (const char *at = text; *at; at++)
        switch (*at) {
        case '&':
            text_add(&out, "&amp;");
            break;
        case '<':
            text_add(&out, "&lt;");
            break;
        case '>':
            text_add(&out, "&gt;");
            break;
        case '"':
            text_add(&out, "&quot;");
            break;
        default:
            text_add_bytes(&out, at, 1);
        }
    return text_string(&out);
}

const char *chart_time(Arena *arena, double us)
{
    static const char *const units[] = {"us", "ms", "s"};
    int unit = 0;
    for (; us >= 1000 && unit < 2; unit++)
        us /= 1000;
    return arena_format(arena,
                        us < 10    ? "%.2f %s"
                        : us < 100 ? "%.1f %s"
                                   : "%.0f %s",
                        us, units[unit]);
}

static const char *class_of(BenchKind kind)
{
    static const char *const names[] = {[BENCH_GENERATED] = "generated",
                                        [BENCH_CUDNN] = "module",
                                        [BENCH_LIBRARY] = "cudnn",
                                        [BENCH_CPU] = "cpu",
                                        [BENCH_CHOSEN] = "chosen"};
    return names[kind];
}

static void open_chart(Text *out, int height, const char *label)
{
    text_addf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", WIDTH, height,
              label);
}

/// 1, 2 or 5 times a power of ten: the least such step that cuts `range` into at most `most` parts.
static double nice_step(double range, int most)
{
    const double power = pow(10, floor(log10(range / most)));
    for (int i = 0; i < 3; i++) {
        const double step = power * (double[]){1, 2, 5}[i];
        if (range / step <= most)
            return step;
    }
    return power * 10;
}

static double bar_x(double value, double longest)
{
    const double room = WIDTH - LABELS - VALUES;
    return LABELS + room * fmin(1, value / longest);
}

static void add_grid(Arena *arena, double longest, int height, bool is_time, Text *out)
{
    const double step = nice_step(longest, 5);
    for (double value = 0; value <= longest * 1.0001; value += step) {
        const double x = bar_x(value, longest);
        text_addf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"%d\"/>\n", x, x,
                  height - 20);
        text_addf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%s</text>\n", x, height - 6,
                  value == 0 ? "0"
                  : is_time  ? chart_time(arena, value)
                             : arena_format(arena, "%g", value));
    }
}

static int by_time(const void *a, const void *b)
{
    const BenchRow *left = *(const BenchRow *const *)a, *right = *(const BenchRow *const *)b;
    if (left->median_us != right->median_us)
        return left->median_us < right->median_us ? -1 : 1;
    return left < right ? -1 : 1;
}

/// One bar with its name before it and its value behind it.
static void add_bar(Arena *arena, const BenchCase *of, const BenchRow *row, int place,
                    double longest, Text *out)
{
    const double y = TOP + ROW * place, middle = y + ROW / 2.0;
    const double end = bar_x(row->median_us, longest), ratio = bench_row_ratio(of, row);
    const bool is_cut = row->median_us > longest;
    const char *name = chart_escape(arena, bench_row_text(arena, of, row));
    const char *time = chart_time(arena, row->median_us);
    text_addf(out, "<g><title>%s: median %s, p10 %s, p90 %s, %d samples of %d runs</title>\n", name,
              time, chart_time(arena, row->p10_us), chart_time(arena, row->p90_us), row->samples,
              row->runs);
    text_addf(out, "<text class=\"name\" x=\"%d\" y=\"%.1f\">%s</text>\n", LABELS - 10, middle + 4,
              name);
    text_addf(
        out, "<rect class=\"bar %s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"3\"/>\n",
        class_of(row->kind), LABELS, middle - BAR / 2.0, end - LABELS, BAR);
    if (is_cut) {
        text_addf(out, "<path class=\"cut\" d=\"M%.1f %.1fl6 %d\"/>\n", end - 16,
                  middle + BAR / 2.0 + 2, -BAR - 4);
    } else {
        const double low = bar_x(row->p10_us, longest), high = bar_x(row->p90_us, longest);
        text_addf(out, "<path class=\"whisker\" d=\"M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8\"/>\n",
                  low, middle, high, low, middle - 4, high, middle - 4);
    }
    const double text_x = fmax(end, is_cut ? 0 : bar_x(row->p90_us, longest)) + 8;
    text_addf(out, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\">%s", text_x, middle + 4, time);
    if (!isnan(ratio))
        text_addf(out, " <tspan class=\"quiet\">%.2fx cuDNN</tspan>", ratio);
    text_add(out, "</text></g>\n");
}

void chart_rows(Arena *arena, const BenchCase *of, Text *out)
{
    const BenchRow **rows = ARENA_ARRAY(arena, const BenchRow *, of->row_count + 1);
    int count = 0;
    for (int i = 0; i < of->row_count; i++)
        if (!of->rows[i].refusal)
            rows[count++] = &of->rows[i];
    if (count == 0)
        return;
    qsort(rows, (size_t)count, sizeof *rows, by_time);
    double longest = 0;
    for (int i = 0; i < count; i++)
        if (rows[i]->median_us <= LONGEST * rows[0]->median_us)
            longest = fmax(longest, fmax(rows[i]->median_us, rows[i]->p90_us));
    longest = fmin(longest, LONGEST * rows[0]->median_us);
    const int height = TOP + ROW * count + 26;
    open_chart(out, height, "time of a run by variant");
    add_grid(arena, longest, height, true, out);
    for (int i = 0; i < count; i++)
        add_bar(arena, of, rows[i], i, longest, out);
    if (of->floor.us > 0 && of->floor.us <= longest) {
        const double x = bar_x(of->floor.us, longest);
        text_addf(out,
                  "<line class=\"floor\" x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"%d\"><title>floor "
                  "%s</title></line>\n",
                  x, x, height - 20, chart_time(arena, of->floor.us));
    }
    text_add(out, "</svg>\n");
}

/// A case's name, with its sizes where others have the same.
static const char *case_label(Arena *arena, const BenchReport *report, int index)
{
    const BenchCase *of = &report->cases[index];
    bool is_alone = true;
    for (int i = 0; i < report->case_count; i++)
        is_alone &= i == index || strcmp(report->cases[i].name, of->name) != 0;
    return is_alone ? of->name
                    : arena_format(arena, "%s B%lld T%lld", of->name, (long long)of->batch,
                                   (long long)of->timesteps);
}

void chart_ratios(Arena *arena, const BenchReport *report, Text *out)
{
    double longest = 1;
    int count = 0, place = 0;
    for (int i = 0; i < report->case_count; i++) {
        const double ratio = bench_ratio(&report->cases[i]);
        longest = fmax(longest, fmax(isnan(ratio) ? 0 : ratio, report->cases[i].bar));
        count += !isnan(ratio);
    }
    const int height = TOP + ROW * count + 26;
    open_chart(out, height, "time of cuDNN over time of the best generated variant, by case");
    add_grid(arena, longest, height, false, out);
    for (int i = 0; i < report->case_count; i++) {
        const BenchCase *of = &report->cases[i];
        const double ratio = bench_ratio(of), middle = TOP + ROW * place + ROW / 2.0;
        if (isnan(ratio))
            continue;
        place++;
        const double end = bar_x(ratio, longest), bar = bar_x(of->bar, longest);
        text_addf(out, "<text class=\"name\" x=\"%d\" y=\"%.1f\">%s</text>\n", LABELS - 10,
                  middle + 4, chart_escape(arena, case_label(arena, report, i)));
        text_addf(out,
                  "<rect class=\"bar %s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" "
                  "rx=\"3\"/>\n",
                  of->bar > 0 && ratio < of->bar ? "missed" : "generated", LABELS,
                  middle - BAR / 2.0, end - LABELS, BAR);
        if (of->bar > 0)
            text_addf(out,
                      "<path class=\"goal\" d=\"M%.1f %.1fv%d\"><title>bar %.2fx</title></path>\n",
                      bar, middle - BAR / 2.0 - 3, BAR + 6, of->bar);
        text_addf(out, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\">%.2fx", fmax(end, bar) + 8,
                  middle + 4, ratio);
        if (of->bar > 0)
            text_addf(out, " <tspan class=\"quiet\">bar %.2fx %s</tspan>", of->bar,
                      ratio >= of->bar ? "met" : "missed");
        text_add(out, "</text>\n");
    }
    const double one = bar_x(1, longest);
    text_addf(out, "<line class=\"floor\" x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"%d\"/>\n</svg>\n",
              one, one, height - 20);
}

static double axis_value(ChartAxis axis, const BenchCase *of)
{
    return (double)(axis == CHART_BATCH       ? of->batch
                    : axis == CHART_TIMESTEPS ? of->timesteps
                                              : of->units);
}

/// Inputs as wide as the layer grow with it.
static int64_t inputs_beside(ChartAxis axis, const BenchCase *of)
{
    return axis == CHART_UNITS && of->inputs == of->units ? -1 : of->inputs;
}

/// Cases of one cell that compares with another thing of cuDNN are of another kind, as leaky_relu
/// beside tanh.
static bool is_plain(const BenchCase *of)
{
    return !of->cudnn || !strstr(of->cudnn, " in place of ");
}

bool chart_same(ChartAxis axis, const BenchCase *a, const BenchCase *b)
{
    return strcmp(a->cell, b->cell) == 0 && strcmp(a->precision, b->precision) == 0 &&
           is_plain(a) == is_plain(b) && a->layers == b->layers && a->directions == b->directions &&
           inputs_beside(axis, a) == inputs_beside(axis, b) &&
           (axis == CHART_BATCH || a->batch == b->batch) &&
           (axis == CHART_TIMESTEPS || a->timesteps == b->timesteps) &&
           (axis == CHART_UNITS || a->units == b->units);
}

/// The frame of a chart of scaling.
typedef struct {
    double least_x, most_x, least_y, most_y;
} Frame;

enum { LEFT = 80, RIGHT = 190, HEIGHT = 300, BOTTOM = 40 };

static double frame_x(const Frame *frame, double value)
{
    const double share = frame->most_x > frame->least_x
                             ? log(value / frame->least_x) / log(frame->most_x / frame->least_x)
                             : 0.5;
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double frame_y(const Frame *frame, double us)
{
    const double share = log(us / frame->least_y) / log(frame->most_y / frame->least_y);
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - 14);
}

/// The time of a series in a case; NaN: none.
static double series_us(int series, const BenchCase *of)
{
    const BenchRow *row =
        series == 1 ? NULL : bench_best(of, series == 0 ? BENCH_GENERATED : BENCH_CPU);
    return series == 1 ? bench_library_us(of) : row ? row->median_us : NAN;
}

typedef struct {
    double x, us;
} Point;

static int by_x(const void *a, const void *b)
{
    const double left = ((const Point *)a)->x, right = ((const Point *)b)->x;
    return (left > right) - (left < right);
}

/// The points of a series, from left to right.
static Point *series_points(Arena *arena, const BenchReport *report, ChartAxis axis,
                            const BenchCase *first, int series, int *out_count)
{
    Point *points = ARENA_ARRAY(arena, Point, report->case_count);
    *out_count = 0;
    for (int i = 0; i < report->case_count; i++) {
        const double us = series_us(series, &report->cases[i]);
        if (chart_same(axis, first, &report->cases[i]) && !isnan(us))
            points[(*out_count)++] = (Point){axis_value(axis, &report->cases[i]), us};
    }
    qsort(points, (size_t)*out_count, sizeof *points, by_x);
    return points;
}

static void add_line(Arena *arena, const Frame *frame, const Point *points, int count, int series,
                     Text *out)
{
    static const char *const classes[] = {"generated", "cudnn", "cpu"};
    static const char *const names[] = {"best generated", "cuDNN alone", "cpu"};
    if (count == 0)
        return;
    text_addf(out, "<polyline class=\"line %s\" points=\"", classes[series]);
    for (int i = 0; i < count; i++)
        text_addf(out, "%.1f,%.1f ", frame_x(frame, points[i].x), frame_y(frame, points[i].us));
    text_add(out, "\"/>\n");
    for (int i = 0; i < count; i++)
        text_addf(out,
                  "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s at %g: "
                  "%s</title></circle>\n",
                  classes[series], frame_x(frame, points[i].x), frame_y(frame, points[i].us),
                  names[series], points[i].x, chart_time(arena, points[i].us));
    const Point *last = &points[count - 1];
    text_addf(out, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
              frame_x(frame, last->x) + 12, frame_y(frame, last->us) + 4, names[series]);
}

/// Lines at 1, 2 and 5 times the powers of ten; at the powers alone where there are many.
static void add_time_grid(Arena *arena, const Frame *frame, Text *out)
{
    const bool is_long = frame->most_y / frame->least_y > 100;
    for (double power = pow(10, floor(log10(frame->least_y))); power <= frame->most_y; power *= 10)
        for (int i = 0; i < (is_long ? 1 : 3); i++) {
            const double us = power * (double[]){1, 2, 5}[i];
            if (us < frame->least_y || us > frame->most_y)
                continue;
            const double y = frame_y(frame, us);
            text_addf(out, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n",
                      LEFT, y, WIDTH - RIGHT, y);
            text_addf(out, "<text class=\"name\" x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT - 8, y + 4,
                      chart_time(arena, us));
        }
}

void chart_scaling(Arena *arena, const BenchReport *report, ChartAxis axis, const BenchCase *first,
                   Text *out)
{
    static const char *const labels[] = {"batch", "time steps", "units"};
    Frame frame = {INFINITY, 0, INFINITY, 0};
    Point *points[3];
    int counts[3];
    for (int s = 0; s < 3; s++) {
        points[s] = series_points(arena, report, axis, first, s, &counts[s]);
        for (int i = 0; i < counts[s]; i++) {
            frame.least_x = fmin(frame.least_x, points[s][i].x);
            frame.most_x = fmax(frame.most_x, points[s][i].x);
            frame.least_y = fmin(frame.least_y, points[s][i].us / 1.3);
            frame.most_y = fmax(frame.most_y, points[s][i].us * 1.3);
        }
    }
    if (frame.most_y <= 0)
        return;
    open_chart(out, HEIGHT, arena_format(arena, "time of a run over %s", labels[axis]));
    add_time_grid(arena, &frame, out);
    double before = 0;
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < counts[s] && (s == 0 || counts[0] == 0); i++) {
            const double x = frame_x(&frame, points[s][i].x);
            if (x - before > 36)
                text_addf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%g</text>\n", x,
                          HEIGHT - BOTTOM + 18, points[s][i].x);
            before = x - before > 36 ? x : before;
        }
    text_addf(out, "<text class=\"tick\" x=\"%d\" y=\"%d\">%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
              HEIGHT - 4, labels[axis]);
    for (int s = 2; s >= 0; s--)
        add_line(arena, &frame, points[s], counts[s], s, out);
    text_add(out, "</svg>\n");
}
