// Printing: the schedule as text, and the pointwise functions as C.
#include <assert.h>

#include "cell/cell.h"
#include "cell/cell_gradient.h"
#include "cell/cell_schedule.h"
#include "cell/printer.h"

Printer printer_of_phase(const Cell *cell, int number, Text *body)
{
    const CellPhase *phase = &cell->phases[number];
    Printer printer = printer_of(&cell->graph, body);
    int *products = ARENA_ARRAY(body->arena, int, CELL_GATES_MAX + 1);
    int *statistics = ARENA_ARRAY(body->arena, int, 2 * cell->norm_count + 1);
    for (int i = 0; i < phase->row_count; i++)
        products[phase->matrix == MATRIX_P ? CELL_GATES_MAX : phase->rows[i]] = i;
    for (int i = 0; i < phase->norm_count; i++)
        for (int k = 0; k < 2; k++)
            statistics[2 * phase->norms[i].number + k] = 2 * i + k;
    for (int i = 0; i < cell->graph.count; i++) {
        const int carry = cell_carry_before(cell, i, number);
        if (carry >= 0)
            printer.given[i] = arena_format(body->arena, "carry_in[%d]", carry);
    }
    printer.products = products;
    printer.statistics = statistics;
    return printer;
}

enum { PHASE_INPUTS = 8, MEMBER_INPUTS = 7 };
static const char *const phase_arguments[] = {"input",     "product",  "bias",     "recurrent_bias",
                                              "parameter", "state",    "carry_in", "statistic",
                                              "carry_out", "state_out"};
static const char *const member_arguments[] = {"input",     "product", "bias",     "recurrent_bias",
                                               "parameter", "state",   "carry_in", "member"};

/// Phase `number`: declarations, then carries and states.
static void print_phase(const Cell *cell, int number, Text *out)
{
    const CellPhase *phase = &cell->phases[number];
    Text body = {.arena = out->arena};
    Printer printer = printer_of_phase(cell, number, &body);
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == number)
            printer_use(&printer, cell->carries[i].node);
    for (int i = 0; i < phase->state_count; i++)
        printer_use(&printer, cell->states[phase->states[i]].next);
    printer_declare(&printer);
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == number)
            printer_assign(&printer, "carry_out", i, cell->carries[i].node);
    for (int i = 0; i < phase->state_count; i++)
        printer_assign(&printer, "state_out", phase->states[i],
                       cell->states[phase->states[i]].next);
    printer_function(arena_format(out->arena, "rnn_phase%d", number), phase_arguments, PHASE_INPUTS,
                     sizeof phase_arguments / sizeof *phase_arguments, text_string(&body), out);
}

/// What the norms of phase `number` are taken of.
static void print_members(const Cell *cell, int number, Text *out)
{
    const CellPhase *phase = &cell->phases[number];
    Text body = {.arena = out->arena};
    Printer printer = printer_of_phase(cell, number, &body);
    for (int i = 0; i < phase->norm_count; i++)
        for (int k = 0; k < phase->norms[i].member_count; k++)
            printer_use(&printer, phase->norms[i].members[k]);
    printer_declare(&printer);
    for (int i = 0, at = 0; i < phase->norm_count; i++)
        for (int k = 0; k < phase->norms[i].member_count; k++)
            printer_assign(&printer, "member", at++, phase->norms[i].members[k]);
    printer_function(arena_format(out->arena, "rnn_members%d", number), member_arguments,
                     MEMBER_INPUTS, sizeof member_arguments / sizeof *member_arguments,
                     text_string(&body), out);
    text_add(out, "\n");
}

void cell_print_pointwise(const Cell *cell, Text *out)
{
    for (int i = 0; i < cell->phase_count; i++) {
        text_add(out, i ? "\n" : "");
        if (cell->phases[i].norm_count > 0)
            print_members(cell, i, out);
        print_phase(cell, i, out);
    }
}

/// One operation; its value is called value[number] from here on.
static void print_case(Printer *printer, int node, int number)
{
    text_addf(printer->out, "    case %d:\n        return ", number);
    printer_value(printer, node);
    text_add(printer->out, ";\n");
    printer->names[node] = arena_format(printer->out->arena, "value[%d]", number);
}

void cell_print_operations(const Cell *cell, Text *out)
{
    const Graph *graph = &cell->graph;
    int *numbers = ARENA_ARRAY(out->arena, int, graph->count), count = 0;
    assert(cell->phase_count == 1 && cell->norm_count == 0);
    Printer printer = printer_of_phase(cell, 0, out);
    text_add(out, "template <class Column, class States>\n"
                  "RNN_INLINE rnn_f rnn_operate(int number, Column input, Column product,\n"
                  "                             Column bias, Column recurrent_bias,\n"
                  "                             Column parameter, States state, Column value)\n{\n"
                  "    switch (number) {\n");
    for (int i = 0; i < cell->state_count; i++)
        printer_use(&printer, cell->states[i].next);
    for (int i = 0; i < graph->count; i++)
        if (printer.uses[i] > 0 && op_arity(graph->nodes[i].op) > 0)
            print_case(&printer, i, numbers[i] = count++);
    for (int i = 0; i < cell->state_count; i++) // those that are a leaf
        if (!printer.names[cell->states[i].next])
            print_case(&printer, cell->states[i].next, numbers[cell->states[i].next] = count++);
    text_addf(out, "    }\n    return 0.0f;\n}\n#define RNN_OPERATIONS %d\n#define RNN_RESULTS",
              count);
    for (int i = 0; i < cell->state_count; i++)
        text_addf(out, "%s %d", i ? "," : "", numbers[cell->states[i].next]);
    text_add(out, "\n");
}

void activation_print_function(const Activation *activation, const char *name, Text *out)
{
    Graph graph = {.arena = out->arena};
    int result = activation_apply(&graph, activation, graph_add(&graph, (Node){.op = OP_ARGUMENT}));
    Printer printer = printer_of(&graph, out);
    printer_use(&printer, result);
    text_addf(out, "RNN_INLINE rnn_f %s(rnn_f x)\n{\n", name);
    if (printer.uses[0] == 0)
        text_add(out, "    (void)x;\n");
    printer_declare(&printer);
    text_add(out, "    return ");
    printer_value(&printer, result);
    text_add(out, ";\n}\n");
}

void activation_print_slope(const Activation *activation, const char *name, Text *out)
{
    Graph graph = {.arena = out->arena};
    const int x = graph_add(&graph, (Node){.op = OP_ARGUMENT});
    const int result = activation->name ? activation_apply(&graph, activation, x) : x;
    const int seed = graph_add(&graph, (Node){.op = OP_SEED});
    int slope;
    graph_differentiate(&graph, &result, &seed, 1, &x, 1, &slope);
    Printer printer = printer_of(&graph, out);
    printer.given[seed] = "seed";
    printer_use(&printer, slope);
    text_addf(out, "RNN_INLINE rnn_f %s(rnn_f x, rnn_f seed)\n{\n    (void)x, (void)seed;\n", name);
    printer_declare(&printer);
    text_add(out, "    return ");
    printer_value(&printer, slope);
    text_add(out, ";\n}\n");
}

static void print_family(const char *family, const GateList *list, Text *out)
{
    if (!list->count)
        return;
    text_addf(out, "  %s:", family);
    for (int i = 0; i < list->count; i++)
        text_addf(out, " %s", list->names[i]);
    text_add(out, "\n");
}

static const char *carry_name(const Cell *cell, int carry)
{
    const char *name = cell->graph.nodes[cell->carries[carry].node].name;
    return name ? name : "";
}

void cell_print_value_name(const Cell *cell, int member, Text *out)
{
    const Node *node = &cell->graph.nodes[member];
    if (node->op == OP_INPUT)
        text_addf(out, "W.%s", cell->W.names[node->index]);
    else if (node->op == OP_PRODUCT && node->index == CELL_GATES_MAX)
        text_add(out, "P");
    else if (node->op == OP_PRODUCT)
        text_addf(out, "R.%s", cell->R.names[node->index]);
    else if (node->op == OP_STATE)
        text_add(out, cell->states[node->index].name);
    else if (node->name)
        text_add(out, node->name);
    else
        text_addf(out, "%%%d", member);
}

static void print_norms(const Cell *cell, const CellPhase *phase, Text *out)
{
    for (int i = 0; i < phase->norm_count; i++)
        for (int k = 0; k < phase->norms[i].member_count; k++) {
            text_add(out, k ? " " : " norm(");
            cell_print_value_name(cell, phase->norms[i].members[k], out);
            text_add(out, k + 1 == phase->norms[i].member_count ? ")" : "");
        }
}

static void print_schedule(const Cell *cell, int number, Text *out)
{
    const CellPhase *phase = &cell->phases[number];
    text_addf(out, "  phase %d:", number);
    for (int i = 0; i < phase->row_count; i++) {
        text_add(out, i ? " " : " [");
        text_add(out, phase->matrix == MATRIX_P ? "P" : "R.");
        text_add(out, phase->matrix == MATRIX_P ? "" : cell->R.names[phase->rows[i]]);
    }
    if (phase->row_count && phase->operand_is_state)
        text_addf(out, "] * %s", cell->states[phase->operand].name);
    else if (phase->row_count)
        text_addf(out, "] * carry %d", phase->operand);
    print_norms(cell, phase, out);
    text_add(out, " ->");
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == number) {
            const char *name = carry_name(cell, i);
            text_addf(out, " carry %d%s%s%s", i, *name ? " (" : "", name, *name ? ")" : "");
        }
    for (int i = 0; i < phase->state_count; i++)
        text_addf(out, " %s'", cell->states[phase->states[i]].name);
    text_add(out, "\n");
}

void cell_print_phases(const Cell *cell, Text *out)
{
    for (int i = 0; i < cell->phase_count; i++)
        print_schedule(cell, i, out);
}

void cell_print(const Cell *cell, Text *out)
{
    text_addf(out, "cell %s \"%s\"\n", cell->name, cell->title);
    for (int i = 0; i < cell->state_count; i++) {
        const CellState *state = &cell->states[i];
        text_addf(out, "  state %s [%s]", state->name,
                  state->domain == DOMAIN_UNITS ? "units" : "projection");
        if (state->start != 0)
            text_addf(out, " = %g", state->start);
        text_addf(out, ", after the step %%%d\n", state->next);
    }
    print_family("W", &cell->W, out);
    print_family("R", &cell->R, out);
    print_family("b", &cell->b, out);
    print_family("rb", &cell->rb, out);
    print_family("p", &cell->p, out);
    cell_print_phases(cell, out);
    graph_print(&cell->graph, out);
}
