// Charts of a bench as SVG within a page: colours and fonts are the page's, by class. Each is drawn
// in user units and scales with the page's width.
#ifndef RNNC_BENCH_REPORT_CHART_H
#define RNNC_BENCH_REPORT_CHART_H

#include "base/text.h"
#include "bench/results.h"

/// `text` with the characters that HTML takes for its own replaced, in the arena.
const char *chart_escape(Arena *arena, const char *text);

/// "40.0 us", "1.25 ms", "3.1 s", in the arena.
const char *chart_time(Arena *arena, double us);

/// The measured rows of a case as bars, fastest first, with whiskers from p10 to p90 and the floor
/// as a line. Bars much longer than the fastest leave the chart.
void chart_rows(Arena *arena, const BenchCase *of, Text *out);

/// cuDNN's time over the best generated variant's, a bar a case, with the ratio that it must reach.
void chart_ratios(Arena *arena, const BenchReport *report, Text *out);

/// What a chart of scaling runs over.
typedef enum { CHART_BATCH, CHART_TIMESTEPS, CHART_UNITS } ChartAxis;

/// Whether two cases differ in nothing but `axis`.
bool chart_same(ChartAxis axis, const BenchCase *a, const BenchCase *b);

/// Time over `axis`, both logarithmic, a line each for the best generated variant, cuDNN and the
/// CPU, through all cases that differ from `first` in nothing else.
void chart_scaling(Arena *arena, const BenchReport *report, ChartAxis axis, const BenchCase *first,
                   Text *out);

#endif
