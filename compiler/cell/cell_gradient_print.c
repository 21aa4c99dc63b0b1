// Printing of gradients: the phases of a forward step that saves, and the stages of the backward
// step, as C. What a stage needs of the forward step stands in `saved`, `state` and `next`; all
// else it computes again.
#include "cell/cell_gradient.h"
#include "cell/cell_schedule.h"
#include "cell/printer.h"

enum { SAVING_INPUTS = 9, STAGE_INPUTS = 9 };
static const char *const saving_arguments[] = {
    "input",    "product",   "bias", "recurrent_bias", "parameter", "state",
    "carry_in", "statistic", "draw", "carry_out",      "state_out", "saved"};
static const char *const stage_arguments[] = {"bias", "recurrent_bias", "parameter", "state",
                                              "next", "saved",          "statistic", "draw",
                                              "seed", "delta",          "adjoint"};
static const char *const sum_arguments[] = {"bias",  "recurrent_bias", "parameter", "state", "next",
                                            "saved", "statistic",      "draw",      "seed",  "sum"};

static void print_saving(const Cell *cell, int number, Text *out)
{
    const CellPhase *phase = &cell->phases[number];
    const CellGradient *gradient = cell->gradient;
    Text body = {.arena = out->arena};
    Printer printer = printer_of_phase(cell, number, &body);
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == number)
            printer_use(&printer, cell->carries[i].node);
    for (int i = 0; i < phase->state_count; i++)
        printer_use(&printer, cell->states[phase->states[i]].trained_next);
    for (int i = 0; i < gradient->saved_count; i++)
        if (gradient->saved[i].phase == number)
            printer_use(&printer, gradient->saved[i].node);
    printer_declare(&printer);
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == number)
            printer_assign(&printer, "carry_out", i, cell->carries[i].node);
    for (int i = 0; i < phase->state_count; i++)
        printer_assign(&printer, "state_out", phase->states[i],
                       cell->states[phase->states[i]].trained_next);
    for (int i = 0; i < gradient->saved_count; i++)
        if (gradient->saved[i].phase == number)
            printer_assign(&printer, "saved", i, gradient->saved[i].node);
    printer_function(arena_format(out->arena, "rnn_saving%d", number), saving_arguments,
                     SAVING_INPUTS, sizeof saving_arguments / sizeof *saving_arguments,
                     text_string(&body), out);
    text_add(out, "\n");
}

/// A stage's printer: states after the step and what is saved come from outside.
static Printer stage_printer(const Cell *cell, Text *body)
{
    const CellGradient *gradient = cell->gradient;
    Printer printer = printer_of(&cell->graph, body);
    for (int i = 0; i < gradient->saved_count; i++)
        printer.given[gradient->saved[i].node] = arena_format(body->arena, "saved[%d]", i);
    for (int i = 0; i < cell->state_count; i++) {
        const int next = cell->states[i].trained_next;
        if (gradient->is_state_saved[i] && op_arity(cell->graph.nodes[next].op) > 0)
            printer.given[next] = arena_format(body->arena, "next[%d]", i);
    }
    return printer;
}

static void print_sums(const Cell *cell, int number, Text *out)
{
    const CellStage *stage = &cell->gradient->stages[number];
    const int *statistics = cell->gradient->statistics;
    Text body = {.arena = out->arena};
    Printer printer = stage_printer(cell, &body);
    for (int i = 0; i < 2 * stage->norm_count; i++)
        printer_use(&printer, statistics[2 * stage->norms[i / 2].number + i % 2]);
    printer_declare(&printer);
    for (int i = 0; i < 2 * stage->norm_count; i++)
        printer_assign(&printer, "sum", i, statistics[2 * stage->norms[i / 2].number + i % 2]);
    printer_function(arena_format(out->arena, "rnn_sums%d", number), sum_arguments, STAGE_INPUTS,
                     sizeof sum_arguments / sizeof *sum_arguments, text_string(&body), out);
    text_add(out, "\n");
}

static void print_stage(const Cell *cell, int number, Text *out)
{
    const CellGradient *gradient = cell->gradient;
    const unsigned states = gradient->stages[number].states;
    Text body = {.arena = out->arena};
    Printer printer = stage_printer(cell, &body);
    for (int i = 0; i < gradient->delta_count; i++)
        if (gradient->deltas[i].stage == number)
            printer_use(&printer, gradient->deltas[i].node);
    for (int i = 0; i < cell->state_count; i++)
        if (states >> i & 1)
            printer_use(&printer, gradient->adjoints[i]);
    printer_declare(&printer);
    for (int i = 0; i < gradient->delta_count; i++)
        if (gradient->deltas[i].stage == number)
            printer_assign(&printer, "delta", i, gradient->deltas[i].node);
    for (int i = 0; i < cell->state_count; i++)
        if (states >> i & 1)
            printer_assign(&printer, "adjoint", i, gradient->adjoints[i]);
    printer_function(arena_format(out->arena, "rnn_backward%d", number), stage_arguments,
                     STAGE_INPUTS, sizeof stage_arguments / sizeof *stage_arguments,
                     text_string(&body), out);
    text_add(out, "\n");
}

void cell_print_gradient(const Cell *cell, Text *out)
{
    for (int i = 0; i < cell->phase_count; i++)
        print_saving(cell, i, out);
    for (int i = 0; i < cell->gradient->stage_count; i++) {
        if (cell->gradient->stages[i].norm_count > 0)
            print_sums(cell, i, out);
        print_stage(cell, i, out);
    }
}

void cell_print_saved(const Cell *cell, Text *out)
{
    const CellGradient *gradient = cell->gradient;
    const char *between = "";
    for (int i = 0; i < cell->state_count; i++)
        if (gradient->is_state_saved[i]) {
            text_addf(out, "%s%s", between, cell->states[i].name);
            between = " ";
        }
    for (int i = 0; i < gradient->saved_count; i++, between = " ") {
        text_add(out, between);
        cell_print_value_name(cell, gradient->saved[i].node, out);
    }
    for (int i = 0; i < cell->norm_count; i++)
        text_addf(out, "%smean rstd", i || *between ? " " : "");
}
