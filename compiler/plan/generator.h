// Numbers of text generation in one launch (templates/cuda/generate.cu, generate_cluster.cu):
// whether a model can be generated from so, and how its weights are spread over the CTAs of a
// group.
#ifndef RNNC_PLAN_GENERATOR_H
#define RNNC_PLAN_GENERATOR_H

#include "plan/plan.h"

typedef struct Generator {
    const char *refusal;        ///< why steps are run one by one; NULL: the rest holds
    const Layer *cell;          ///< the first of the cells' layers, which have equal cells
    int layers;                 ///< of cells, from the model's layer 1 on
    bool is_cluster;            ///< the group is one, and runs generate_cluster.cu
    int threads;                ///< of a CTA
    int ctas, share;            ///< of a group; of a CTA in every layer, not of a cluster
    int warps;                  ///< of a cluster's CTA, that own units
    int draw_warps, draw_tiles; ///< of a cluster's CTA; tiles of 16 logits of each
    int rows;                   ///< of the batch, multiplied at once: a power of 2
    int sets;                   ///< of so many rows, of a group, whose stages take turns
    int logits;                 ///< of a CTA, at most
    int held, replicas;         ///< as GridLayout
    bool table_shared;          ///< a CTA's part of the table lies in its shared memory
    int64_t shared_bytes, packed_bytes;
    int64_t buffer_bytes; ///< of one group
    double step_us;       ///< estimate of a token of all rows
} Generator;

/// For the plan's batch and device; a plan for the CPU alone is refused.
Generator generator_plan(Arena *arena, const Plan *plan);

#endif
