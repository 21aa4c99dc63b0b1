// Ladder: one model from the naive loop of launches to one launch for all steps. Its rungs are the
// optimisations of NVIDIA's article on cuDNN 5 (variant loop), then the variants that a module
// ships, then cuDNN. The table is made from the rows of a case, so also from a JSON file.
#ifndef RNNC_BENCH_LADDER_H
#define RNNC_BENCH_LADDER_H

#include "base/text.h"
#include "bench/results.h"

/// The variants that are measured, as a list for MeasureOptions.
const char *ladder_variants(Arena *arena);

/// Prints the table of a case that has the naive loop among its rows; nothing of another.
void ladder_print(const BenchCase *of, Text *out);

#endif
