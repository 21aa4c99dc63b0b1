// Ladder: see ladder.h.
#include "bench/ladder.h"

#include <string.h>

static const struct Rung {
    const char *title, *variant;
    bool in_graph; ///< of the caller's; else plain
} rungs[] = {
    {"naive loop", "loop:naive", false},
    {"+ grouped GEMMs", "loop:grouped", false},
    {"+ streamed GEMMs", "loop:streamed", false},
    {"+ fused pointwise", "loop:fused", false},
    {"+ pre-transposed weights", "loop:transposed", false},
    {"+ input GEMM of 8 steps", "loop:batched", false},
    {"+ layer wavefront", "loop:wavefront", false},
    {"+ one CUDA graph", "loop:wavefront", true},
    {"stepwise", "stepwise", false},
    {"unrolled", "unrolled", false},
    {"persistent_cta", "persistent_cta", false},
    {"persistent_cluster", "persistent_cluster", false},
    {"persistent_grid", "persistent_grid", false},
    {"persistent_wide", "persistent_wide", false},
};
enum { RUNGS = sizeof rungs / sizeof *rungs };

const char *ladder_variants(Arena *arena)
{
    Text list = {.arena = arena};
    for (int i = 0; i < RUNGS; i++)
        if (!rungs[i].in_graph)
            text_addf(&list, "%s%s", i ? "," : "", rungs[i].variant);
    return text_string(&list);
}

/// The measured row of a rung, or NULL.
static const BenchRow *find(const BenchCase *of, const struct Rung *rung)
{
    for (int i = 0; i < of->row_count; i++) {
        const BenchRow *row = &of->rows[i];
        if (row->kind == BENCH_GENERATED && !row->refusal && row->in_graph == rung->in_graph &&
            strcmp(row->variant, rung->variant) == 0)
            return row;
    }
    return NULL;
}

static void print_rung(const BenchCase *of, const char *title, double us, double naive_us,
                       Text *out)
{
    text_addf(out, "  %-28s %11.1f %9.3f", title, us, us / (double)of->timesteps);
    if (of->operations > 0)
        text_addf(out, " %9.3f", of->operations / us / 1e6);
    else
        text_addf(out, " %9s", "-");
    text_addf(out, " %8.1fx\n", naive_us / us);
}

void ladder_print(const BenchCase *of, Text *out)
{
    const BenchRow *naive = find(of, &rungs[0]);
    const double cudnn_us = bench_library_us(of);
    if (!naive)
        return;
    text_addf(out, "  ladder: + is added to the rungs above it; plain runs but for the graph\n");
    text_addf(out, "  %-28s %11s %9s %9s %9s\n", "rung", "median us", "us/step", "TFLOP/s",
              "x naive");
    for (int i = 0; i < RUNGS; i++) {
        const BenchRow *row = find(of, &rungs[i]);
        if (row)
            print_rung(of, rungs[i].title, row->median_us, naive->median_us, out);
    }
    if (!isnan(cudnn_us))
        print_rung(of, "cuDNN alone, its fastest", cudnn_us, naive->median_us, out);
    if (of->layers == 1)
        text_add(out, "  one layer: the wavefront has nothing to run beside it\n");
}
