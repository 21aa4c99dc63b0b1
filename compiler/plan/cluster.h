// Numbers of persistent_cluster: how many CTAs, warps and rows of the batch a cluster has and what
// of R lies in registers.
#ifndef RNNC_PLAN_CLUSTER_H
#define RNNC_PLAN_CLUSTER_H

#include "plan/plan.h"

typedef struct {
    int ctas;      ///< of a cluster: 2, 4 or 8, in training also 16
    int warps;     ///< of a CTA, that own different units
    int split;     ///< warps that share the K of the same units: 1 or 2
    int rows;      ///< of the batch, of a cluster
    int ring;      ///< steps of W*x in shared memory
    bool halves;   ///< float32 is multiplied as two float16 each: the cell's operands are bounded
    int held;      ///< mma fragments of a thread in registers
    int fragments; ///< all of a thread
    int64_t shared_bytes;
    int64_t packed_bytes; ///< of the recurrent weights
    WorkLayout numbers;   ///< those above that are searched
    double step_us;       ///< estimate, for all rows of the batch
} ClusterLayout;

/// Whether the device has thread-block clusters.
bool cluster_is_known(const Device *device);

/// Clusters that run at once, one CTA an SM. Those of 4 and more do not divide every part of the
/// chip: an H200 has room for 30, 15 and 7 on its 132 SMs.
int64_t clusters_at_once(const Device *device, int ctas);

/// The cheapest layout for the context's batch; false where none fits, with `out` the nearest.
bool cluster_layout(const PlanContext *context, ClusterLayout *out);

/// Adds the reasons why no cluster can share the layer's matrices, and that it does not fit.
void cluster_check(Arena *arena, const PlanContext *context, Reasons *reasons);
void cluster_refuse(Arena *arena, const PlanContext *context, int ctas, int64_t shared_bytes,
                    Reasons *reasons);

/// Prints the layout as the skeleton's numbers.
void cluster_print_numbers(const ClusterLayout *layout, Text *out);

#endif
