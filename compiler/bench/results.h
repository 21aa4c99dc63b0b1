// Results: what a bench has measured, and what follows from it by arithmetic alone. The reports are
// made from this and nothing else, so that they can be made again from a JSON file.
//
//     BenchReport   a machine, and
//       BenchCase   a model at one batch and number of steps, and
//         BenchRow  one way to run it, plain or in a CUDA graph: a time, or why there is none
#ifndef RNNC_BENCH_RESULTS_H
#define RNNC_BENCH_RESULTS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/// Who runs a row.
typedef enum {
    BENCH_GENERATED, ///< a kernel of ours, in the module
    BENCH_CUDNN,   ///< the module's variant cudnn, with the copies between its tensors and cuDNN's
    BENCH_LIBRARY, ///< cudnnRNNForward alone, on tensors of its own: what ratios are taken to
    BENCH_CPU,
    BENCH_CHOSEN ///< what a session takes by itself
} BenchKind;

typedef struct {
    BenchKind kind;
    const char *variant; ///< "unrolled", "cudnn:standard", "standard" of the library, "cpu"
    const char *ran;     ///< what the layers ran; NULL: what `variant` says
    int call;            ///< library: which of the case's calls
    bool in_graph;
    const char *refusal; ///< why it was not measured; NULL: it was
    double median_us, p10_us, p90_us;
    int samples, runs;               ///< each sample is the mean of that many runs
    int64_t memory_bytes;            ///< of the session or call; -1: not known
    double error;                    ///< ||y - ref|| / ||ref|| against float64; NaN: not known
    double kernels, busy_us, gap_us; ///< traced, of one run; see trace.h; NaN: not traced
} BenchRow;

/// The least time that a model could take; see floors.h.
typedef struct {
    double us, launch_us, operations_us, memory_us, streaming_us, chain_us; ///< us 0: not known
    double step_us;                                                         ///< of the chain
    int64_t steps;                                                          ///< in the chain
} BenchFloor;

typedef struct {
    const char *name, *cell, *precision;
    int64_t inputs, units; ///< of the first cell layer
    int layers, directions;
    bool trains; ///< a run is the forward pass that saves, and the backward pass
    int64_t batch, timesteps;
    double operations;     ///< multiplications and additions of all products in one run
    const char *cudnn;     ///< what of cuDNN it is compared with, and why
    const char *reference; ///< how the error was taken, or why it was not
    BenchFloor floor;
    double bar;        ///< of a suite: the ratio to reach; 0: none
    const char *plain; ///< of a suite: the case that it may cost most_cost times; NULL: none
    double most_cost;
    BenchRow *rows;
    int row_count;
} BenchCase;

typedef struct {
    const char *title; ///< "suite headline", or the model's name
    const char *version;
    const char *gpu, *cpu; ///< "NVIDIA H200"; gpu NULL: none is there, or none was asked for
    const char *no_gpu;    ///< why there is none
    int arch, multiprocessors, clock_mhz, driver_cuda;
    BenchCase *cases;
    int case_count;
} BenchReport;

const char *bench_kind_name(BenchKind kind);

/// The fastest measured row of a kind, plain or in a graph; NULL: there is none.
const BenchRow *bench_best(const BenchCase *of, BenchKind kind);

/// cuDNN's time for the case: the sum over its calls of each one's fastest algorithm, plain or in a
/// graph. NaN where a call was not measured.
double bench_library_us(const BenchCase *of);

/// cuDNN's time over the best generated one's; NaN where either is missing.
double bench_ratio(const BenchCase *of);

/// The best generated one's time over that of the case `plain`; NaN where either is missing.
double bench_cost(const BenchReport *report, const BenchCase *of);

/// What the session's own choice costs over the best of the module's variants, all without a graph
/// of the caller's around them; NaN where it is not known.
double bench_regret(const BenchCase *of);

/// Of one row. NaN where what they need is missing, or where the row is one of several calls.
double bench_us_a_step(const BenchCase *of, const BenchRow *row);
double bench_tflops(const BenchCase *of, const BenchRow *row);
double bench_floor_share(const BenchCase *of, const BenchRow *row);
double bench_row_ratio(const BenchCase *of, const BenchRow *row);

/// Over all cases: the geometric mean of the ratios that there are, the worst regret, and how many
/// bars and bounds of cost there are and are met.
typedef struct {
    double geometric_mean, worst_regret, mean_regret;
    int ratios, bars, met, below_one, costs, costs_met;
} BenchSummary;
BenchSummary bench_summarise(Arena *arena, const BenchReport *report);

/// "101 kernels a run, busy 350.0 us, 62.0 us between them (15%)", in the arena; NULL: not traced.
const char *bench_trace_text(Arena *arena, const BenchRow *row);

/// "lstm 512 -> 512, 4 layers, both directions", in the arena.
const char *bench_shape_text(Arena *arena, const BenchCase *of);

/// "cuDNN alone: standard, in a graph": a row's name for a reader.
const char *bench_row_text(Arena *arena, const BenchCase *of, const BenchRow *row);

#endif
