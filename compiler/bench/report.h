// Reports: a bench's results as text, as JSON and as a page. All are made from the results alone.
#ifndef RNNC_BENCH_REPORT_H
#define RNNC_BENCH_REPORT_H

#include "base/diag.h"
#include "base/text.h"
#include "bench/results.h"

/// For a terminal: what was measured on, in one line; the table of a case; and for more than one
/// case a summary.
void report_text_head(const BenchReport *report, Text *out);
void report_text_case(Arena *arena, const BenchCase *of, Text *out);
void report_text_summary(Arena *arena, const BenchReport *report, Text *out);

/// The whole as JSON; docs/bench.md has the schema.
void report_json(Arena *arena, const BenchReport *report, Text *out);

/// One self-contained page with charts.
void report_html(Arena *arena, const BenchReport *report, Text *out);

/// Reads what report_json wrote. Adds E0809 and returns false where it is something else.
bool report_read_json(Arena *arena, Diags *diags, const char *path, BenchReport *out);

#endif
