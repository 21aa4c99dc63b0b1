// Cases: the networks of the conformance matrix, as one list for each purpose. All variants of a
// module meet the same samples.
#ifndef RNNC_CONFORM_CASES_H
#define RNNC_CONFORM_CASES_H

#include "conform/network.h"

typedef enum {
    CASES_QUICK, ///< every cell, every H, I in turn; float32 and a taste of the others
    CASES_FULL,  ///< every cell x H x I x precision
    CASES_GPU    ///< what is carried to a GPU machine: every cell and H, one H in 16 bit and tf32
} CaseSet;

typedef struct {
    Network *items;
    int count;
} Cases;

/// Makes the networks, weights drawn.
Cases cases_make(Arena *arena, CaseSet set);

/// Batches and timesteps that every module runs: B {1, 5, 32} x T {1, 2, 17, 100}.
enum { CASE_SAMPLES = 12 };

/// Computes all samples of a network, on several threads; half of them with initial states.
void cases_samples(const Network *network, Sample samples[CASE_SAMPLES]);

#endif
