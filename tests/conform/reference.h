// Reference: recurrent cells, dense and embedding in float64, written by hand from the published
// equations (design section 4, PyTorch's and Keras' documentation). What every variant is measured
// against, so it must not know the compiler: it shares no cell file, no activation table, no code.
#ifndef RNNC_CONFORM_REFERENCE_H
#define RNNC_CONFORM_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { REFERENCE_STATES_MAX = 4 };

/// An activation by name with its parameters (0 where it has none). NULL name: the default.
typedef struct {
    const char *name;
    double a, b;
} ReferenceActivation;

/// How many gates of each weight a cell stacks, and its states in order; the first is the output.
typedef struct {
    const char *name;
    int gates;           ///< of W and b
    int recurrent_gates; ///< of R; 0: none
    int recurrent_bias;  ///< of rb
    int peepholes;       ///< of p
    int state_count;
    const char *states[REFERENCE_STATES_MAX];
} ReferenceFacts;

/// All cells; the last has a NULL name.
extern const ReferenceFacts reference_cells[];
const ReferenceFacts *reference_facts(const char *cell);

/// One cell layer. Weights are canonical, row-major: W [G*H, I], R [G*H, O], b [G*H], rb [H],
/// p [n*H], P [O, H], with O = projection or H. b and rb may be NULL (no bias).
typedef struct {
    const ReferenceFacts *facts;
    int64_t inputs, units, projection; ///< projection 0: none
    ReferenceActivation activation, recurrent_activation, output_activation;
    const float *W, *R, *b, *rb, *p, *P;
} ReferenceCell;

double reference_activation(const ReferenceActivation *activation, double x);

/// Features per step of the output, and the size of state `index`.
int64_t reference_outputs(const ReferenceCell *cell);
int64_t reference_state_size(const ReferenceCell *cell, int index);

/// The value a state starts with where none is given (slstm's m: -infinity; else 0).
double reference_state_start(const ReferenceCell *cell, int index);

/// Runs T steps. `x` [B, T, I]; `states[k]` [B, size_k] hold the initial values and take the final
/// ones; `y` [B, T, O].
void reference_cell_run(const ReferenceCell *cell, int64_t batch, int64_t timesteps,
                        const double *x, double *const states[REFERENCE_STATES_MAX], double *y);

/// y [rows, outputs] = activation(x [rows, inputs] * W' + b); b may be NULL.
void reference_dense(const float *W, const float *b, const ReferenceActivation *activation,
                     int64_t rows, int64_t inputs, int64_t outputs, const double *x, double *y);

/// y [rows, width] = E[tokens].
void reference_embedding(const float *E, int64_t width, int64_t rows, const int32_t *tokens,
                         double *y);

#endif
