// Cells: a `.cell` file parsed, checked and scheduled. A step is a list of phases; each phase is
// one matrix product with one operand vector (exchanged between the units) and then a pointwise
// function over units:
//
//     phase 0: [R.i R.f R.g R.o] * h      -> pointwise: i f g o c' h'            (lstm: one phase)
//     phase 0: [R.r R.z] * h              -> r z r*h
//     phase 1: [R.n] * (r*h)              -> n h'                                (gru_before: two)
//
// Products with x (W.k*x) do not depend on the state: they are computed for all steps beforehand.
//
// layer_norm(v) = (v - mean) / sqrt(variance + 1e-5), taken over the units of v (of P*v: over the
// projection's); where v is a product itself, over the stack of all products of that matrix and
// operand in a layer_norm (Ba et al. 2016 normalise the stacked pre-activations). So a phase may
// need the mean and variance of vectors, its norms, which are taken between its product and its
// pointwise function.
#ifndef RNNC_CELL_CELL_H
#define RNNC_CELL_CELL_H

#include "cell/activation.h"

enum { CELL_STATES_MAX = 8, CELL_PHASES_MAX = 8, CELL_GATES_MAX = 16, CELL_NORMS_MAX = 4 };

/// The size of a vector: units H, or projection units P.
typedef enum { DOMAIN_UNITS, DOMAIN_PROJECTION } Domain;

typedef enum { MATRIX_W, MATRIX_R, MATRIX_P } Matrix;

/// A named, stacked parameter family: gates of W, R, b, rb, p in order of first appearance.
typedef struct {
    const char *names[CELL_GATES_MAX];
    int count;
} GateList;

typedef struct {
    const char *name;
    double start; ///< 0 unless the cell says otherwise (slstm's m: -infinity)
    Domain domain;
    int next;         ///< node of its value after the step
    int trained_next; ///< the same in training, where zoneout draws
    double zoneout;   ///< its rate
} CellState;

/// A value that one phase leaves in memory for a later one (or for its own matrix product).
typedef struct {
    int node;
    Domain domain;
    int first_phase, last_phase; ///< written by, last read by
} CellCarry;

/// Vectors over which one mean and one variance are taken; nodes that are there before the phase's
/// pointwise function: inputs, products, states, carries, and what they give elementwise.
typedef struct {
    int members[CELL_GATES_MAX];
    int member_count;
    int number;    ///< in the cell: its OP_STATISTICs are 2*number and 2*number + 1
    bool is_stack; ///< of products as they stand
} CellNorm;

typedef struct {
    Matrix matrix;            ///< MATRIX_R or MATRIX_P; meaningless when row_count is 0
    int rows[CELL_GATES_MAX]; ///< gate indices within the matrix, in order (P: {0})
    int row_count;            ///< 0: no product in this phase (indrnn)
    bool operand_is_state;
    int operand; ///< index of the state (its value before the step) or of the carry
    Domain operand_domain, domain; ///< of the operand; of the pointwise function and the product
    int states[CELL_STATES_MAX];   ///< states whose new value this phase computes
    int state_count;
    CellNorm norms[CELL_NORMS_MAX];
    int norm_count;
} CellPhase;

/// Leaves of the graph and what Node.index means: OP_INPUT (W gate), OP_PRODUCT (gate of R, or
/// CELL_GATES_MAX for P), OP_BIAS (b gate), OP_RECURRENT_BIAS (rb gate),
/// OP_PARAMETER (p gate), OP_STATE (state, value before the step), OP_STATISTIC (2n: mean, 2n + 1:
/// 1 / sqrt(variance + 1e-5) of norm n of the cell, which one phase takes and alone reads), OP_DRAW
/// (state: 1 where zoneout keeps its value, in training), OP_SEED (see cell_gradient.h).
typedef struct {
    const char *name, *title;
    const Source *source;
    GateList W, R, b, rb, p;
    bool has_projection;
    CellState states[CELL_STATES_MAX];
    int state_count;
    CellPhase phases[CELL_PHASES_MAX];
    int phase_count;
    CellCarry *carries;
    int carry_count;
    CellNorm *norms; ///< by number; those of a phase are copies
    int norm_count;
    Graph graph;
    int product_operands[CELL_GATES_MAX + 1]; ///< node that each product multiplies, by its index
    bool is_gain[CELL_GATES_MAX];             ///< gates of p that multiply a layer_norm
    bool is_builtin;                          ///< from templates/cells, not a user's file
    const struct CellGradient *gradient;      ///< NULL: for inference alone
    Activation activation, recurrent_activation, output_activation; ///< as bound
} Cell;

/// What a layer gives a cell when it binds it: `output_activation` is used for the last use of
/// `activation` on a cell state (h' = o*activation(c')) where the cell file calls
/// output_activation(...); `use_bias` false drops b and rb; `clip` > 0 bounds the argument of every
/// activation to [-clip, clip] (ONNX); `input_forget` sets f = 1 - i with all weights kept, and is
/// refused by cells without gates named i and f; `zoneouts` make each new state
/// rate*old + (1 - rate)*new, where the other equations see the new one.
typedef struct {
    Activation activation, recurrent_activation, output_activation;
    bool use_bias;
    double clip;
    Span clip_span;
    bool input_forget;
    Span input_forget_span;
    const char *const *zoneout_states; ///< NULL items: every state
    const double *zoneout_rates;
    const Span *zoneout_spans;
    int zoneout_count;
    bool trains;               ///< derives the gradient too; then the sizes must be there
    int64_t units, projection; ///< H, and P or 0
} CellBinding;

/// Parses and checks the cell `name`: built in (case-insensitive) or, where it ends in ".cell", a
/// file relative to `beside` (the spec's path). Adds E03xx and returns NULL on any fault.
const Cell *cell_load(Arena *arena, Diags *diags, Span span, const char *name, const char *beside,
                      const CellBinding *binding);

/// Names of the built-in cells in alphabetical order.
const char *const *cell_names(Arena *arena, size_t *out_count);

/// Prints `rnnc cells`: name, title, states, gates, phases.
void cell_print_table(Arena *arena, Text *out);

/// Prints what each phase multiplies and what comes out of it, a line a phase, for --dump model.
void cell_print_phases(const Cell *cell, Text *out);

/// Prints the schedule and graph in readable form, for golden tests.
void cell_print(const Cell *cell, Text *out);

/// Prints the pointwise functions as C/CUDA source, one per phase, with the cell's own names:
///     RNN_INLINE void rnn_phase0(const rnn_f *input, const rnn_f *product, const rnn_f *bias,
///         const rnn_f *recurrent_bias, const rnn_f *parameter, const rnn_f *state,
///         const rnn_f *carry_in, const rnn_f *statistic, rnn_f *carry_out, rnn_f *state_out)
/// `input` is indexed by W gate, `product` by position in the phase's rows, the others by gate,
/// state or carry. Only entries that the phase reads are read; all that it owns are written. The
/// text uses rnn_f, rnn_const(c), rnn_select(cond, a, b), rnn_exp, rnn_tanh, ... of the target's
/// prelude. A function whose arrays have constant indices compiles to registers. For a phase with
/// norms it also prints what they are taken of, the members of one norm after those of another;
/// statistic[2n] and [2n + 1] are those of the phase's n-th norm:
///     RNN_INLINE void rnn_members0(<the same, up to carry_in>, rnn_f *member)
void cell_print_pointwise(const Cell *cell, Text *out);

/// Prints the step of a cell of one phase without norms an operation at a time, for variant loop:
///     RNN_INLINE rnn_f rnn_operate(int number, input, product, bias, recurrent_bias, parameter,
///                                  state, value)
/// computes operation `number` of RNN_OPERATIONS; `value` is indexed by the numbers of those before
/// it. RNN_RESULTS lists those that are the new states.
void cell_print_operations(const Cell *cell, Text *out);

/// Prints the derivative at x times a seed, as `RNN_INLINE rnn_f NAME(rnn_f x, rnn_f seed)`.
void activation_print_slope(const Activation *activation, const char *name, Text *out);

/// Prints one activation as `RNN_INLINE rnn_f NAME(rnn_f x)`.
void activation_print_function(const Activation *activation, const char *name, Text *out);

#endif
