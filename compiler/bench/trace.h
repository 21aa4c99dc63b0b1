// Trace: what runs put on the GPU, as a file for Chrome's trace viewer or Perfetto, and summed up:
// how many kernels, how long the GPU worked, and how long it stood idle between them.
#ifndef RNNC_BENCH_TRACE_H
#define RNNC_BENCH_TRACE_H

#include "base/text.h"
#include "rnnc/measure.h"

typedef struct Trace {
    Text events; ///< JSON objects, separated by commas
    int process_count;
    bool is_refused; ///< there can be none here, which was told
} Trace;

/// Of one run, as the mean of all that were traced. Busy is the time in which anything runs, on
/// whatever stream; gaps are the rest between the first start and the last end.
typedef struct {
    double kernels, busy_us, gap_us;
} TraceSummary;

/// Adds the events as one process of the viewer, with a track a stream and one for the gaps. Sorts
/// them.
TraceSummary trace_add(Arena *arena, Trace *trace, const char *name, rnnc_trace *events, int runs);

/// The whole file.
void trace_print(const Trace *trace, Text *out);

#endif
