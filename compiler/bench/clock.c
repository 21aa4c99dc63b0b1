// Clock: see clock.h.
#include "bench/clock.h"

#include "bench/statistics.h"

enum { SAMPLES = 25, SAMPLES_LEAST = 3, WARM_SAMPLES = 3, WARM_ROUNDS = 40, RUNS_MAX = 2000 };

/// A sample lasts at least this long, all samples of a row at most about that long, and warming up
/// as well.
static const double SAMPLE_US = 2e3, ROW_US = 1.5e6, WARM_US = 0.5e6, STABLE = 0.03;

static int32_t runs_for(double us, double run_us)
{
    const double runs = run_us > 0 ? us / run_us + 1 : RUNS_MAX;
    return runs < RUNS_MAX ? (int32_t)runs : RUNS_MAX;
}

/// Runs until two medians in a row differ by less than 3 %, or for half a second. Gives the last
/// median.
static rnnc_status warm_up(const Clocked *clocked, bool in_graph, double *out_us)
{
    rnnc_timing timing = {.runs = 1, .samples = 1, .in_graph = in_graph};
    double us[WARM_SAMPLES], before = 0, spent = 0;
    rnnc_status status = clocked->time(clocked->context, &timing, us);
    *out_us = us[0];
    timing.samples = WARM_SAMPLES;
    for (int round = 0; round < WARM_ROUNDS && status == RNNC_OK; round++) {
        if (spent + *out_us > WARM_US)
            break;
        before = *out_us;
        timing.runs = runs_for(SAMPLE_US / 4, before);
        status = clocked->time(clocked->context, &timing, us);
        if (status != RNNC_OK)
            break;
        *out_us = statistics_quantile(us, WARM_SAMPLES, 0.5);
        spent += *out_us * timing.runs * WARM_SAMPLES;
        const double change = *out_us / before - 1;
        if (round > 0 && change < STABLE && change > -STABLE)
            break;
    }
    return status;
}

rnnc_status clock_measure(const Clocked *clocked, bool in_graph, BenchRow *row)
{
    double us[SAMPLES], run_us = 0;
    rnnc_status status = warm_up(clocked, in_graph, &run_us);
    if (status != RNNC_OK)
        return status;
    rnnc_timing timing = {.runs = runs_for(SAMPLE_US, run_us), .in_graph = in_graph};
    const double fitting = ROW_US / (run_us * timing.runs);
    timing.samples = fitting > SAMPLES         ? SAMPLES
                     : fitting > SAMPLES_LEAST ? (int32_t)fitting
                                               : SAMPLES_LEAST;
    status = clocked->time(clocked->context, &timing, us);
    if (status != RNNC_OK)
        return status;
    row->median_us = statistics_quantile(us, timing.samples, 0.5);
    row->p10_us = statistics_quantile(us, timing.samples, 0.1);
    row->p90_us = statistics_quantile(us, timing.samples, 0.9);
    row->samples = timing.samples;
    row->runs = timing.runs;
    row->in_graph = in_graph;
    return RNNC_OK;
}
