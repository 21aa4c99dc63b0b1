// Gradient of a cell: the backward step, derived from the equations, and what the forward step
// saves for it. The step's products are undone from the last phase to the first, each behind a
// stage:
//
//     lstm        stage 0  adjoints of h' c'   -> those of i f g o before their activation
//                          R^T * them          -> adjoint of h before the step
//     gru_before  stage 0  adjoint of h'       -> that of R.n*(r*h)
//                          R.n^T * it          -> adjoint of r*h
//                 stage 1  both                -> those of R.r*h, R.z*h and of all that x and b
//                 give
//                          R.rz^T * them       -> adjoint of h before the step, its other part
//
// A stage computes what it needs again from what is saved, parameters and states. Which values are
// saved is the minimum cut (cell/cut.h) between the products and what the stages need, at the cost
// of the vectors' sizes; a state saved before each step stands also for its value after the step.
#ifndef RNNC_CELL_CELL_GRADIENT_H
#define RNNC_CELL_CELL_GRADIENT_H

#include "cell/cell.h"

enum { CELL_STAGES_MAX = CELL_PHASES_MAX + 2 };

/// A vector that the forward step saves, and the phase that writes it.
typedef struct {
    int node;
    Domain domain;
    int phase;
} CellSaved;

/// A vector that the backward step leaves for the products over all steps: an adjoint.
typedef struct {
    int node;
    Domain domain;
    int stage;
} CellDelta;

typedef struct {
    int phase;       ///< whose transposed product follows; -1: none does
    int first_delta; ///< of that phase's rows, in their order
    Domain domain;   ///< of the pointwise function
    unsigned states; ///< bit mask: states whose adjoint before the step it computes, products aside
    const CellNorm *norms; ///< whose statistics' adjoints are summed before
    int norm_count;
} CellStage;

/// The graph of the cell holds all nodes. Its OP_SEED leaves are, in this order: the adjoint of
/// each state after the step; of the vector that each phase multiplies (where that is no state);
/// and two for each norm, the sums over units of the adjoints of its mean and of its rstd, divided
/// by the number of values that the norm is taken of.
typedef struct CellGradient {
    bool is_state_saved[CELL_STATES_MAX]; ///< before each step, and after the last one
    CellSaved *saved;
    int saved_count;
    CellDelta *deltas;
    int delta_count;
    int read_deltas; ///< those before are read by products, the others only summed
    /// The delta of each gate, or -1 where nothing depends on it.
    int input[CELL_GATES_MAX], product[CELL_GATES_MAX + 1];
    int bias[CELL_GATES_MAX], recurrent_bias[CELL_GATES_MAX], parameter[CELL_GATES_MAX];
    CellStage stages[CELL_STAGES_MAX];
    int stage_count;
    int adjoints[CELL_STATES_MAX]; ///< nodes: of each state before the step, products aside
    int *statistics;               ///< nodes: adjoints of OP_STATISTIC, two for each norm
    int64_t step_elems;            ///< saved for one step of one row
} CellGradient;

/// Derives a scheduled cell of H units (and P of the projection). Schedule it again afterwards.
void cell_derive(Arena *arena, Cell *cell, int64_t units, int64_t projection);

/// Indices of the OP_SEED leaves.
int cell_seed_of_operand(const Cell *cell, int phase);
int cell_seed_of_norm(const Cell *cell, int norm);
int cell_seed_count(const Cell *cell);

/// What the product of a phase multiplies: a state, or else the place of a saved vector.
int cell_saved_operand(const Cell *cell, int phase);

/// The size of a saved vector or delta.
int64_t cell_domain_size(Domain domain, int64_t units, int64_t projection);

/// Prints what a step saves, in the cell's own names: "h c i f g o".
void cell_print_saved(const Cell *cell, Text *out);

/// Prints the functions of the forward step that saves, one a phase, and of the backward step:
///     rnn_saving<phase>(<as rnn_phase, up to statistic>, draw, carry_out, state_out, saved)
///     rnn_backward<stage>(bias, recurrent_bias, parameter, state, next, saved, statistic, draw,
///                         seed, delta, adjoint)
///     rnn_sums<stage>(<the same, up to seed>, sum)       of a stage with norms
/// `draw` and `next` (after the step) are indexed by state, `saved`, `delta` and `adjoint` (before
/// the step) as above, `statistic` in the backward step by the cell's norms, `sum` by the stage's.
void cell_print_gradient(const Cell *cell, Text *out);

#endif
