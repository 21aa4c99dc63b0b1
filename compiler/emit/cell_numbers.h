// Cell numbers: what the skeletons of every target know of a layer, as #defines named RNN_*.
#ifndef RNNC_EMIT_CELL_NUMBERS_H
#define RNNC_EMIT_CELL_NUMBERS_H

#include "base/text.h"
#include "model/model.h"

/// `#define RNN_<name> <value>`.
void emit_number(Text *out, const char *name, int64_t value);

/// UNITS, SEQUENCE_OUT, the counts of gates, biases, parameters, states and carries, STATE_SIZES
/// and CARRY_SIZES as lists (0 where empty), and the phases: PHASE_COUNT, PHASES(PHASE) that
/// applies PHASE to every number, and PHASE_ROWS, one row each:
///     {matrix (RNN_MATRIX_R or RNN_MATRIX_P), row count, {rows}, operand is a state, operand,
///      operand size, size, states computed (bit mask), carries computed (bit mask),
///      heads, {members of each norm, 0}},
/// REVERSED, GO_BACKWARDS and RECURRENT_DROPOUT are 0 or 1; NORMS and MEMBERS the most of a phase.
void emit_cell_numbers(const Layer *layer, Text *out);

/// What the skeletons of training know of a cell's gradient: ZONEOUT alone without one. Of vectors
/// saved and deltas the counts, sizes, phases or stages, and padded floats; of the stages one row
/// each,
///     {phase or -1, first delta of its rows, size, states (bit mask), {norms}, {their members}},
/// and for each family of gates its deltas.
void emit_gradient_numbers(const Layer *layer, Text *out);

#endif
