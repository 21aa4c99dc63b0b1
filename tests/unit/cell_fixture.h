// Fixture of the cell tests: cells from text, their faults as text, and one step of a cell of one
// unit in float64, straight over the graph.
#ifndef RNNC_TESTS_CELL_FIXTURE_H
#define RNNC_TESTS_CELL_FIXTURE_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell/cell.h"

/// Loads a cell whose file has the content `text`.
static inline const Cell *cell_from(Arena *arena, Diags *diags, const char *text, size_t length,
                                    const CellBinding *binding)
{
    char path[] = "/tmp/rnnc_cell_XXXXXX.cell";
    int file = mkstemps(path, 5);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, length), (ssize_t)length);
    close(file);
    const char *kept = arena_copy(arena, path, strlen(path));
    const Cell *cell = cell_load(arena, diags, (Span){0}, kept, NULL, binding);
    unlink(path);
    return cell;
}

/// The diagnostics as printed.
static inline const char *printed_diagnostics(Arena *arena, const Diags *diags)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&bytes, &length);
    diags_print(diags, out, false);
    fclose(out);
    const char *copy = arena_copy(arena, bytes, length);
    free(bytes);
    return copy;
}

static inline void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        ck_abort_msg("'%s' is not in:\n%s", part, text);
}

/// Everything that a step of one unit reads: a number for each gate and state.
typedef struct {
    double input[CELL_GATES_MAX]; ///< W*x
    double R[CELL_GATES_MAX], P;
    double b[CELL_GATES_MAX], rb[CELL_GATES_MAX], p[CELL_GATES_MAX];
    double state[CELL_STATES_MAX];
    double product[CELL_GATES_MAX + 1]; ///< filled by cell_step from R, P and the operands
    double statistic[32];               ///< and from the members of the norms
} StepData;

static inline double step_leaf(const void *context, const Node *node)
{
    const StepData *data = context;
    const double *family = node->op == OP_INPUT            ? data->input
                           : node->op == OP_PRODUCT        ? data->product
                           : node->op == OP_BIAS           ? data->b
                           : node->op == OP_RECURRENT_BIAS ? data->rb
                           : node->op == OP_PARAMETER      ? data->p
                           : node->op == OP_STATISTIC      ? data->statistic
                                                           : data->state;
    return family[node->index];
}

/// out[0] the mean and out[1] 1/sqrt(variance + 1e-5) of `count` values, the variance biased.
static inline void mean_and_rstd(const double *values, int count, double *out)
{
    double variance = out[0] = 0;
    for (int i = 0; i < count; i++)
        out[0] += values[i] / count;
    for (int i = 0; i < count; i++)
        variance += (values[i] - out[0]) * (values[i] - out[0]) / count;
    out[1] = 1 / sqrt(variance + 1e-5);
}

/// One step: all products and statistics from what they are taken of, as often as one depends on
/// another.
static inline void cell_step(Arena *arena, const Cell *cell, StepData *data)
{
    double *values = ARENA_ARRAY(arena, double, cell->graph.count);
    for (int round = 0; round <= 2 * CELL_PHASES_MAX; round++) {
        graph_evaluate(&cell->graph, step_leaf, data, values);
        for (int gate = 0; gate < cell->R.count; gate++)
            data->product[gate] = data->R[gate] * values[cell->product_operands[gate]];
        if (cell->has_projection)
            data->product[CELL_GATES_MAX] =
                data->P * values[cell->product_operands[CELL_GATES_MAX]];
        for (int i = 0; i < cell->norm_count; i++) {
            double members[CELL_GATES_MAX] = {0};
            for (int k = 0; k < cell->norms[i].member_count; k++)
                members[k] = values[cell->norms[i].members[k]];
            mean_and_rstd(members, cell->norms[i].member_count, &data->statistic[2 * i]);
        }
    }
    double next[CELL_STATES_MAX];
    for (int i = 0; i < cell->state_count; i++)
        next[i] = values[cell->states[i].next];
    memcpy(data->state, next, sizeof next);
}

#endif
