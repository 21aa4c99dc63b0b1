// Cases: networks and the shapes of the samples that they meet, as one list for each purpose. All
// variants of a module meet the same samples.
#ifndef RNNC_CONFORM_CASES_H
#define RNNC_CONFORM_CASES_H

#include "conform/network.h"

typedef enum {
    CASES_QUICK, ///< every cell in two sizes, I in turn; float32 and a taste of the others
    CASES_FULL,  ///< every cell x H x I x precision
    CASES_GPU    ///< what is carried to a GPU machine: a few sizes of every cell and precision
} CaseSet;

enum { CASE_SAMPLES = 16 };

typedef struct {
    Network network;
    SampleShape shapes[CASE_SAMPLES];
    int shape_count;
} Case;

typedef struct {
    Case *items;
    int count;
} Cases;

/// Makes the networks of the matrix, weights drawn.
Cases cases_make(Arena *arena, CaseSet set);

/// `count` whole models drawn from the seeds `seed`, `seed` + 1, ...: each is the same wherever and
///
Cases cases_random(Arena *arena, uint64_t seed, int count);

/// Computes all samples of a case, on several threads.
void case_samples(const Case *of, Sample samples[CASE_SAMPLES]);

/// Appends a case without layers and shapes; float32 and biases unless they are changed.
Case *case_add(Arena *arena, Cases *cases, const char *name, const char *label,
               const char *precision, int64_t features);

/// B {1, 5, 32} x T {1, 2, 17, 100 (32 rows: 33)}; masks and, where the network does not mask by
/// itself, lengths of 6 x 14 and 32 x 2; the network's batch where that is fixed.
void case_add_shapes(Case *of);

/// Appends the networks with directions, masks, heads and all else that is asked of layers.
void cases_add_options(Arena *arena, Cases *cases);

#endif
