// Clock: samples of anything that can time a number of its runs. Warms up until two medians in a
// row agree, then takes samples that last long enough for the clock to be exact.
#ifndef RNNC_BENCH_CLOCK_H
#define RNNC_BENCH_CLOCK_H

#include "bench/results.h"
#include "rnnc/measure.h"

typedef struct {
    /// Gives timing->samples means of timing->runs runs each, in microseconds.
    rnnc_status (*time)(void *context, const rnnc_timing *timing, double *out_us);
    void *context;
} Clocked;

/// Fills times, samples and runs of `row`. Returns what the clock did on failure, and leaves the
/// row as it was.
rnnc_status clock_measure(const Clocked *clocked, bool in_graph, BenchRow *row);

#endif
