// Printing of cells: the schedule for people, and the pointwise functions as C for compilers.
// Values with a name in the cell file keep it; others are written into the expression that uses
// them, or become t1, t2, ... where several use them.
#include <string.h>

#include "cell/cell_parse.h"
#include "cell/schedule.h"

enum { CALL_STRENGTH = 3 };

typedef struct {
    const Graph *graph;
    const Cell *cell; ///< NULL for an activation alone
    int phase;
    const int *node_phases;
    bool *needed;
    int *uses;
    Text *out;
} Printer;

static void print_value(Printer *printer, int index, int least_strength);

/// Names that the printed function uses itself.
static const char *const reserved[] = {
    "input", "product", "bias",   "recurrent_bias", "state", "x",     "parameter", "carry_in",
    "int",   "float",   "double", "carry_out",      "if",    "for",   "do",        "state_out",
    "const", "long",    "short",  "return",         "char",  "while", "switch",    "register"};

static void print_name(Printer *printer, int index)
{
    const char *name = printer->graph->nodes[index].name;
    if (!name) {
        text_addf(printer->out, "t%d", index);
        return;
    }
    bool taken = false;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        taken |= text_equal(reserved[i], name);
    text_addf(printer->out, "%s%s", name, taken ? "_" : "");
}

/// A float constant that reads back to the same float; infinities as macros of the preludes.
static void print_constant(Printer *printer, double value)
{
    if (value == (double)__builtin_inff() || value == -(double)__builtin_inff()) {
        text_addf(printer->out, "rnn_const(%sRNN_INFINITY)", value < 0 ? "-" : "");
        return;
    }
    const char *digits = arena_format(printer->out->arena, "%.9g", value);
    text_addf(printer->out, "rnn_const(%s%sf)", digits, strpbrk(digits, ".en") ? "" : ".0");
}

static bool reads_carry(const Printer *printer, int index)
{
    return printer->cell && printer->node_phases[index] >= 0 &&
           printer->node_phases[index] < printer->phase;
}

static int product_position(const Printer *printer, const Node *node)
{
    const CellPhase *phase = &printer->cell->phases[printer->phase];
    for (int row = 0; row < phase->row_count; row++)
        if (node->index == PRODUCT_OF_PROJECTION || phase->rows[row] == node->index)
            return row;
    return 0;
}

/// The place of a leaf in its array: `$i` of ops.def.
static int leaf_index(const Printer *printer, const Node *node)
{
    return node->op == OP_PRODUCT ? product_position(printer, node) : node->index;
}

/// The row's format with operands in place. The right side of an operator binds tighter.
static void print_operation(Printer *printer, int index)
{
    const Node *node = &printer->graph->nodes[index];
    if (reads_carry(printer, index)) {
        text_addf(printer->out, "carry_in[%d]", cell_find_carry(printer->cell, index));
        return;
    }
    if (node->op == OP_CONST) {
        print_constant(printer, node->value);
        return;
    }
    int strength = op_strength(node->op);
    bool is_operator = op_arity(node->op) > 0 && strength < CALL_STRENGTH;
    for (const char *at = op_format(node->op); *at; at++) {
        if (*at != '$') {
            text_add_bytes(printer->out, at, 1);
        } else if (*++at == 'i') {
            text_addf(printer->out, "%d", leaf_index(printer, node));
        } else {
            int operand = *at - '0';
            bool tighter = operand == 1 || op_arity(node->op) == 1;
            print_value(printer, node->args[operand],
                        is_operator ? strength + (tighter ? 1 : 0) : 0);
        }
    }
}

/// Whether a value gets a line of its own: named, or used more than once, and no plain leaf.
static bool has_line(const Printer *printer, int index)
{
    const Node *node = &printer->graph->nodes[index];
    if (node->op == OP_CONST || !printer->needed[index])
        return false;
    bool leaf = op_arity(node->op) == 0 && !reads_carry(printer, index);
    return node->name || (!leaf && printer->uses[index] > 1);
}

static void print_value(Printer *printer, int index, int least_strength)
{
    if (has_line(printer, index)) {
        print_name(printer, index);
        return;
    }
    bool leaf = reads_carry(printer, index) || op_arity(printer->graph->nodes[index].op) == 0;
    bool wrap = !leaf && op_strength(printer->graph->nodes[index].op) < least_strength;
    text_add(printer->out, wrap ? "(" : "");
    print_operation(printer, index);
    text_add(printer->out, wrap ? ")" : "");
}

static void count_uses(Printer *printer)
{
    for (int i = 0; i < printer->graph->count; i++) {
        const Node *node = &printer->graph->nodes[i];
        if (!printer->needed[i] || reads_carry(printer, i))
            continue;
        for (int k = 0; k < op_arity(node->op); k++)
            printer->uses[node->args[k]]++;
    }
}

static void print_lines(Printer *printer)
{
    for (int i = 0; i < printer->graph->count; i++) {
        if (!has_line(printer, i))
            continue;
        text_add(printer->out, "    const rnn_f ");
        print_name(printer, i);
        text_add(printer->out, " = ");
        print_operation(printer, i);
        text_add(printer->out, ";\n");
    }
}

static void print_outputs(Printer *printer)
{
    const Cell *cell = printer->cell;
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == printer->phase) {
            text_addf(printer->out, "    carry_out[%d] = ", i);
            print_value(printer, cell->carries[i].node, 0);
            text_add(printer->out, ";\n");
        }
    const CellPhase *phase = &cell->phases[printer->phase];
    for (int i = 0; i < phase->state_count; i++) {
        text_addf(printer->out, "    state_out[%d] = ", phase->states[i]);
        print_value(printer, cell->states[phase->states[i]].next, 0);
        text_add(printer->out, ";\n");
    }
}

static void print_phase(const Cell *cell, const int *node_phases, int phase, Text *out)
{
    size_t count = (size_t)cell->graph.count;
    Printer printer = {.graph = &cell->graph,
                       .cell = cell,
                       .phase = phase,
                       .node_phases = node_phases,
                       .needed = ARENA_ARRAY(out->arena, bool, count),
                       .uses = ARENA_ARRAY(out->arena, int, count),
                       .out = out};
    cell_phase_nodes(cell, node_phases, phase, printer.needed);
    count_uses(&printer);
    text_addf(out,
              "RNN_INLINE void rnn_phase%d(const rnn_f *input, const rnn_f *product, "
              "const rnn_f *bias,\n    const rnn_f *recurrent_bias, const rnn_f *parameter, "
              "const rnn_f *state,\n    const rnn_f *carry_in, rnn_f *carry_out, "
              "rnn_f *state_out)\n{\n",
              phase);
    text_add(out, "    (void)input, (void)product, (void)bias, (void)recurrent_bias;\n"
                  "    (void)parameter, (void)state, (void)carry_in, (void)carry_out;\n"
                  "    (void)state_out;\n");
    print_lines(&printer);
    print_outputs(&printer);
    text_add(out, "}\n");
}

void cell_print_pointwise(const Cell *cell, Text *out)
{
    const int *node_phases = cell_node_phases(out->arena, cell);
    for (int phase = 0; phase < cell->phase_count; phase++)
        print_phase(cell, node_phases, phase, out);
}

void activation_print_function(const Activation *activation, const char *name, Text *out)
{
    Graph graph = {.arena = out->arena};
    int root = activation_apply(&graph, activation, graph_add(&graph, (Node){.op = OP_ARGUMENT}));
    Printer printer = {.graph = &graph,
                       .needed = ARENA_ARRAY(out->arena, bool, graph.count),
                       .uses = ARENA_ARRAY(out->arena, int, graph.count),
                       .out = out};
    memset(printer.needed, 1, sizeof(bool) * (size_t)graph.count);
    count_uses(&printer);
    text_addf(out, "RNN_INLINE rnn_f %s(rnn_f x)\n{\n", name);
    print_lines(&printer);
    text_add(out, "    return ");
    print_value(&printer, root, 0);
    text_add(out, ";\n}\n");
}

static void print_gates(const char *family, const GateList *gates, Text *out)
{
    if (gates->count == 0)
        return;
    text_addf(out, "  %s:", family);
    for (int i = 0; i < gates->count; i++)
        text_addf(out, " %s", gates->names[i]);
    text_add(out, "\n");
}

static const char *operand_name(const Cell *cell, const CellPhase *phase, Arena *arena)
{
    if (phase->operand_is_state)
        return cell->states[phase->operand].name;
    const char *name = cell->graph.nodes[cell->carries[phase->operand].node].name;
    return name ? name : arena_format(arena, "carry %d", phase->operand);
}

void cell_print(const Cell *cell, Text *out)
{
    text_addf(out, "cell %s \"%s\"\n", cell->name, cell->title);
    for (int i = 0; i < cell->state_count; i++)
        text_addf(out, "  state %s[%s] starts at %g\n", cell->states[i].name,
                  cell->states[i].domain == DOMAIN_PROJECTION ? "P" : "H", cell->states[i].start);
    print_gates("W", &cell->W, out);
    print_gates("R", &cell->R, out);
    print_gates("b", &cell->b, out);
    print_gates("rb", &cell->rb, out);
    print_gates("p", &cell->p, out);
    for (int p = 0; p < cell->phase_count; p++) {
        const CellPhase *phase = &cell->phases[p];
        text_addf(out, "  phase %d:", p);
        for (int row = 0; row < phase->row_count; row++)
            text_addf(out, " %s%s", phase->matrix == MATRIX_P ? "P" : "R.",
                      phase->matrix == MATRIX_P ? "" : cell->R.names[phase->rows[row]]);
        if (phase->row_count)
            text_addf(out, " * %s", operand_name(cell, phase, out->arena));
        text_add(out, " ->");
        for (int i = 0; i < cell->carry_count; i++)
            if (cell->carries[i].first_phase == p)
                text_addf(out, " carry %d", i);
        for (int i = 0; i < phase->state_count; i++)
            text_addf(out, " %s'", cell->states[phase->states[i]].name);
        text_add(out, "\n");
    }
    graph_print(&cell->graph, out);
}
