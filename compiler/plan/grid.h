// Numbers of persistent_grid: how many rows and CTAs a group has and what of R lies in registers.
#ifndef RNNC_PLAN_GRID_H
#define RNNC_PLAN_GRID_H

#include "plan/plan.h"

typedef struct {
    int ctas;      ///< of a group
    int share;     ///< units of a CTA, a multiple of 4
    int rows;      ///< of the batch, of a group: a power of 2
    int ring;      ///< steps of W*x in shared memory
    int held;      ///< mma fragments of a thread in registers
    int fragments; ///< all of a thread
    int replicas;  ///< of each operand buffer
    int64_t shared_bytes;
    int64_t packed_bytes; ///< of the recurrent weights
    int64_t buffer_bytes; ///< of one group's operand buffers
    WorkLayout numbers;   ///< those above that are searched
    double step_us;       ///< estimate, for all rows of the batch
} GridLayout;

/// How a warp's fragments lie, as in templates/cuda/grid_product.cuh: on tensor cores, or without
/// them for one row alone of words of 32 bits.
typedef struct {
    bool on_cores;
    int tile_rows;     ///< of R
    int load_elements; ///< of the operand, that a warp loads at once
    int load_tiles;    ///< fragments of such a load, for a tile of rows
    int loads_apart;   ///< loads of 16 bytes of those elements and a tile of rows of the batch
} GridTiles;
GridTiles grid_tiles(Precision precision, int rows);

/// Registers of a thread for a product of `tiles` tiles of R and `loads` loads of a lane: its sums,
/// the loads under way, and what float32 is split into.
int64_t grid_product_registers(Precision precision, int rows, int64_t tiles, int64_t loads);

/// SMs that the layer has: all, or its share where layers run at the same time.
int grid_processors(const PlanContext *context);

/// The cheapest layout for the context's batch; false where none fits, with `out` the nearest.
bool grid_layout(const PlanContext *context, GridLayout *out);

#endif
