// Reference: recurrent cells in any order of steps, dense, embedding and dropout in float64,
// written by hand from the published equations (design sections 4 and 5, PyTorch's, Keras' and
// ONNX' documentation). What every variant is measured against, so it must not know the compiler:
// it shares no cell file, no activation table, no code.
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
    int gates;           ///< of W
    int biases;          ///< of b
    int recurrent_gates; ///< of R; 0: none
    int recurrent_bias;  ///< of rb
    int peepholes;       ///< of p
    int state_count;
    const char *states[REFERENCE_STATES_MAX];
} ReferenceFacts;

/// All cells; the last has a NULL name.
extern const ReferenceFacts reference_cells[];
const ReferenceFacts *reference_facts(const char *cell);

/// One cell layer. Weights are canonical, row-major: W [G*H, I], R [G*H, O/heads], b [G*H], rb [H],
/// p [n*H], P [O, H], with O = projection or H. b and rb may be NULL (no bias). With heads unit u
/// of a gate sees only block u / (H/heads) of what R multiplies.
typedef struct {
    const ReferenceFacts *facts;
    int64_t inputs, units, projection; ///< projection 0: none
    int64_t heads;                     ///< 0 or 1: a full R
    ReferenceActivation activation, recurrent_activation, output_activation;
    double clip;                          ///< bounds the argument of every activation; 0: none
    bool input_forget;                    ///< f = 1 - i
    double zoneout[REFERENCE_STATES_MAX]; ///< rate by state
    const float *W, *R, *b, *rb, *p, *P;
} ReferenceCell;

/// Which steps each row takes, in which order, and where its outputs go. At most one of `mask`
/// [B, T] (0: masked) and `lengths` [B] is there.
typedef struct {
    bool reversed;             ///< the last step first
    bool go_backwards;         ///< with reversed: outputs in processing order
    bool zero_output_for_mask; ///< masked steps give 0; else the output before them
    bool last;                 ///< y is [B, O], the last step's in processing order
    const uint8_t *mask;
    const int32_t *lengths;
    const double *recurrent_scale; ///< [B, O]: factors of what R multiplies; NULL: none
    bool zones_out;                ///< zoneout draws, as in training; else it mixes
    uint64_t seed;                 ///< of these draws, and their layer
    int layer;
} ReferenceSequence;

double reference_activation(const ReferenceActivation *activation, double x);

/// Features per step of the output, and the size of state `index`.
int64_t reference_outputs(const ReferenceCell *cell);
int64_t reference_state_size(const ReferenceCell *cell, int index);

/// The value a state starts with where none is given (slstm's m: -infinity; else 0).
double reference_state_start(const ReferenceCell *cell, int index);

/// Runs T steps. `x` [B, T, I]; `states[k]` [B, size_k] hold the initial values and take the final
/// ones; `y` [B, T, O] or [B, O]. `sequence` NULL: all steps forward.
void reference_cell_run(const ReferenceCell *cell, const ReferenceSequence *sequence, int64_t batch,
                        int64_t timesteps, const double *x,
                        double *const states[REFERENCE_STATES_MAX], double *y);

/// y [rows, outputs] = activation(x [rows, inputs] * W' + b); b may be NULL.
void reference_dense(const float *W, const float *b, const ReferenceActivation *activation,
                     int64_t rows, int64_t inputs, int64_t outputs, const double *x, double *y);

/// y [rows, width] = E[tokens].
void reference_embedding(const float *E, int64_t width, int64_t rows, const int32_t *tokens,
                         double *y);

/// Philox-4x32-10 (Salmon et al. 2011): ten rounds over `counter` under `key`.
void reference_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/// Whose bits: unit of the vector, row of the batch, dropout layer, and time (0 where one draw
/// holds for all steps).
typedef struct {
    uint32_t unit, row, layer, time;
    bool recurrent;   ///< of the state, not of the input
    uint32_t zoneout; ///< 1 + the number of the state that it keeps; 0: no zoneout
} ReferenceDraw;

/// The factor of dropout: 0, or 1 / (1 - rate) where it is kept.
double reference_dropout(uint64_t seed, const ReferenceDraw *draw, double rate);

#endif
