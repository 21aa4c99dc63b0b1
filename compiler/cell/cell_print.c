// Printing: the schedule as text, and the pointwise functions as C. A value is declared by its own
// name, or as t<number> where it is read more than once; what is read once stands in its place.
#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cell/cell.h"
#include "cell/cell_schedule.h"

typedef struct {
    const Graph *graph;
    const Cell *cell; ///< NULL: an activation
    int phase;
    int *uses;                         ///< of each node in this function
    const char **names;                ///< declared names
    int positions[CELL_GATES_MAX + 1]; ///< of a product in this phase's rows
    bool reads[OP_COUNT];              ///< leaves that were printed
    bool reads_carry, writes_carry, writes_state;
    bool is_of_members; ///< the function gives the members of norms
    Text *out;
} Printer;

static int carried(const Printer *printer, int node)
{
    return printer->cell ? cell_carry_before(printer->cell, node, printer->phase) : -1;
}

/// Counts the uses of everything that `node` needs within this function.
static void count_uses(Printer *printer, int node)
{
    if (printer->uses[node]++ > 0 || carried(printer, node) >= 0)
        return;
    for (int k = 0; k < op_arity(printer->graph->nodes[node].op); k++)
        count_uses(printer, printer->graph->nodes[node].args[k]);
}

/// The shortest decimal that reads back as the same float.
static void print_constant(double value, Text *out)
{
    double largest = 3.4028234663852886e38;
    if (isnan(value)) {
        text_add(out, "rnn_const(RNN_INFINITY) - rnn_const(RNN_INFINITY)");
    } else if (fabs(value) > largest) {
        text_addf(out, "rnn_const(%sRNN_INFINITY)", value < 0 ? "-" : "");
    } else {
        char text[40];
        for (int digits = 1; digits <= 9; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtof(text, NULL) == (float)value)
                break;
        }
        text_addf(out, "rnn_const(%s%sf)", text, strpbrk(text, ".e") ? "" : ".0");
    }
}

/// The place of the cell's norm `number` among those of this phase, which is the one that takes it.
static int norm_position(const Printer *printer, int number)
{
    const CellPhase *phase = &printer->cell->phases[printer->phase];
    int at = 0;
    while (at < phase->norm_count && phase->norms[at].number != number)
        at++;
    assert(at < phase->norm_count);
    return at;
}

static void print_leaf(Printer *printer, const Node *node)
{
    int index = node->op == OP_PRODUCT ? printer->positions[node->index] : node->index;
    if (node->op == OP_STATISTIC)
        index = 2 * norm_position(printer, node->index / 2) + node->index % 2;
    printer->reads[node->op] = true;
    for (const char *at = op_format(node->op); *at; at++)
        if (at[0] == '$' && at[1] == 'i') {
            text_addf(printer->out, "%d", index);
            at++;
        } else {
            text_add_bytes(printer->out, at, 1);
        }
}

static void print_value(Printer *printer, int node);

/// The text of the node itself, operands in place of $0 $1 $2. The right operand of an operator is
/// put in parentheses at equal strength too, for the order of float operations is the equation's.
static void print_operation(Printer *printer, const Node *node)
{
    int strength = op_strength(node->op);
    for (const char *at = op_format(node->op); *at; at++) {
        if (at[0] != '$') {
            text_add_bytes(printer->out, at, 1);
            continue;
        }
        int which = *++at - '0';
        int argument = node->args[which];
        const Node *below = &printer->graph->nodes[argument];
        bool in_place = !printer->names[argument] && carried(printer, argument) < 0;
        int inner = in_place ? op_strength(below->op) : 3;
        bool is_nan = below->op == OP_CONST && isnan(below->value);
        bool enclosed = strength < 3 && (inner < strength || (inner == strength && which > 0) ||
                                         (node->op == OP_NEG && inner < 3) || is_nan);
        text_add(printer->out, enclosed ? "(" : "");
        print_value(printer, argument);
        text_add(printer->out, enclosed ? ")" : "");
    }
}

static void print_value(Printer *printer, int index)
{
    const Node *node = &printer->graph->nodes[index];
    int carry = carried(printer, index);
    if (carry >= 0) {
        printer->reads_carry = true;
        text_addf(printer->out, "carry_in[%d]", carry);
    } else if (printer->names[index]) {
        text_add(printer->out, printer->names[index]);
    } else if (node->op == OP_CONST) {
        print_constant(node->value, printer->out);
    } else if (op_arity(node->op) == 0) {
        print_leaf(printer, node);
    } else {
        print_operation(printer, node);
    }
}

static bool is_taken(const Printer *printer, const char *name, int before)
{
    static const char *const words[] = {
        "auto",     "bool",      "break",     "case",     "char",    "const",     "continue",
        "default",  "do",        "double",    "else",     "enum",    "extern",    "float",
        "for",      "goto",      "if",        "inline",   "int",     "long",      "register",
        "restrict", "return",    "short",     "signed",   "sizeof",  "static",    "struct",
        "switch",   "typedef",   "union",     "unsigned", "void",    "volatile",  "while",
        "class",    "delete",    "new",       "operator", "private", "public",    "this",
        "template", "throw",     "try",       "catch",    "true",    "false",     "virtual",
        "using",    "friend",    "and",       "or",       "not",     "xor",       "linux",
        "unix",     "i386",      "asm",       "typeof",   "input",   "product",   "bias",
        "state",    "parameter", "x",         "seed",     "main",    "namespace", "explicit",
        "export",   "nullptr",   "protected", "typename", "mutable", "signbit",   "recurrent_bias",
        "carry_in", "carry_out", "state_out", "half",     "alignas", "alignof",   "constexpr",
        "decltype", "noexcept",  "statistic", "member"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (text_equal(words[i], name))
            return true;
    for (int i = 0; i < before; i++)
        if (printer->names[i] && text_equal(printer->names[i], name))
            return true;
    return false;
}

/// The cell's own name as a C identifier: c' is c_next; capitals and words of C get a tail, for
/// macros are written so.
static const char *identifier(Printer *printer, int index)
{
    Arena *arena = printer->out->arena;
    const char *own = printer->graph->nodes[index].name;
    if (!own)
        return arena_format(arena, "t%d", index);
    size_t length = strlen(own);
    bool is_next = own[length - 1] == '\'';
    const char *name =
        arena_format(arena, "%.*s%s", (int)(length - is_next), own, is_next ? "_next" : "");
    bool special = strncmp(name, "rnn", 3) == 0 || name[0] == '_' ||
                   (name[0] == 't' && isdigit((unsigned char)name[1]));
    for (const char *at = name; *at; at++)
        special |= isupper((unsigned char)*at) != 0;
    return special || is_taken(printer, name, index) ? arena_format(arena, "%s_%d", name, index)
                                                     : name;
}

/// Declares, in order, what has a name or is used more than once.
static void print_declarations(Printer *printer)
{
    for (int i = 0; i < printer->graph->count; i++) {
        const Node *node = &printer->graph->nodes[i];
        bool is_leaf = op_arity(node->op) == 0;
        if (printer->uses[i] == 0 || is_leaf || carried(printer, i) >= 0 ||
            (!node->name && printer->uses[i] < 2))
            continue;
        const char *name = identifier(printer, i);
        text_addf(printer->out, "    const rnn_f %s = ", name);
        print_operation(printer, node);
        text_add(printer->out, ";\n");
        printer->names[i] = name;
    }
}

static Printer printer_of(const Graph *graph, const Cell *cell, int phase, Text *out)
{
    return (Printer){.graph = graph,
                     .cell = cell,
                     .phase = phase,
                     .uses = ARENA_ARRAY(out->arena, int, graph->count + 1),
                     .names = ARENA_ARRAY(out->arena, const char *, graph->count + 1),
                     .out = out};
}

static Printer phase_printer(const Cell *cell, int number, Text *body)
{
    const CellPhase *phase = &cell->phases[number];
    Printer printer = printer_of(&cell->graph, cell, number, body);
    for (int i = 0; i < phase->row_count; i++)
        printer.positions[phase->matrix == MATRIX_P ? CELL_GATES_MAX : phase->rows[i]] = i;
    return printer;
}

/// The body of phase `number`: declarations, then carries and states.
static Printer print_body(const Cell *cell, int number, Text *body)
{
    const CellPhase *phase = &cell->phases[number];
    Printer printer = phase_printer(cell, number, body);
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == number)
            count_uses(&printer, cell->carries[i].node);
    for (int i = 0; i < phase->state_count; i++)
        count_uses(&printer, cell->states[phase->states[i]].next);
    print_declarations(&printer);
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == number) {
            printer.writes_carry = true;
            text_addf(body, "    carry_out[%d] = ", i);
            print_value(&printer, cell->carries[i].node);
            text_add(body, ";\n");
        }
    for (int i = 0; i < phase->state_count; i++) {
        printer.writes_state = true;
        text_addf(body, "    state_out[%d] = ", phase->states[i]);
        print_value(&printer, cell->states[phase->states[i]].next);
        text_add(body, ";\n");
    }
    return printer;
}

/// What the printed body does not use of its arguments.
static void print_unused(const Printer *printer, Text *out)
{
    const struct {
        const char *name;
        bool is_used;
    } arguments[] = {{"input", printer->reads[OP_INPUT]},
                     {"product", printer->reads[OP_PRODUCT]},
                     {"bias", printer->reads[OP_BIAS]},
                     {"recurrent_bias", printer->reads[OP_RECURRENT_BIAS]},
                     {"parameter", printer->reads[OP_PARAMETER]},
                     {"state", printer->reads[OP_STATE]},
                     {"carry_in", printer->reads_carry},
                     {"statistic", printer->reads[OP_STATISTIC] || printer->is_of_members},
                     {"carry_out", printer->writes_carry || printer->is_of_members},
                     {"state_out", printer->writes_state || printer->is_of_members}};
    const char *between = "    ";
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        if (!arguments[i].is_used) {
            text_addf(out, "%s(void)%s", between, arguments[i].name);
            between = ", ";
        }
    text_add(out, text_equal(between, ", ") ? ";\n" : "");
}

static void print_phase(const Cell *cell, int number, Text *out)
{
    Text body = {.arena = out->arena};
    Printer printer = print_body(cell, number, &body);
    text_addf(out,
              "RNN_INLINE void rnn_phase%d(const rnn_f *input, const rnn_f *product,\n"
              "                           const rnn_f *bias, const rnn_f *recurrent_bias,\n"
              "                           const rnn_f *parameter, const rnn_f *state,\n"
              "                           const rnn_f *carry_in, const rnn_f *statistic, rnn_f "
              "*carry_out,\n"
              "                           rnn_f *state_out)\n{\n",
              number);
    print_unused(&printer, out);
    text_addf(out, "%s}\n", text_string(&body));
}

/// What the norms of phase `number` are taken of.
static void print_members(const Cell *cell, int number, Text *out)
{
    const CellPhase *phase = &cell->phases[number];
    Text body = {.arena = out->arena};
    Printer printer = phase_printer(cell, number, &body);
    printer.is_of_members = true;
    for (int i = 0; i < phase->norm_count; i++)
        for (int k = 0; k < phase->norms[i].member_count; k++)
            count_uses(&printer, phase->norms[i].members[k]);
    print_declarations(&printer);
    for (int i = 0, at = 0; i < phase->norm_count; i++)
        for (int k = 0; k < phase->norms[i].member_count; k++) {
            text_addf(&body, "    member[%d] = ", at++);
            print_value(&printer, phase->norms[i].members[k]);
            text_add(&body, ";\n");
        }
    text_addf(out,
              "RNN_INLINE void rnn_members%d(const rnn_f *input, const rnn_f *product,\n"
              "                             const rnn_f *bias, const rnn_f *recurrent_bias,\n"
              "                             const rnn_f *parameter, const rnn_f *state,\n"
              "                             const rnn_f *carry_in, rnn_f *member)\n{\n",
              number);
    print_unused(&printer, out);
    text_addf(out, "%s}\n\n", text_string(&body));
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
    print_value(printer, node);
    text_add(printer->out, ";\n");
    printer->names[node] = arena_format(printer->out->arena, "value[%d]", number);
}

void cell_print_operations(const Cell *cell, Text *out)
{
    const Graph *graph = &cell->graph;
    int *numbers = ARENA_ARRAY(out->arena, int, graph->count), count = 0;
    assert(cell->phase_count == 1 && cell->norm_count == 0);
    Printer printer = phase_printer(cell, 0, out);
    text_add(out, "template <class Column, class States>\n"
                  "RNN_INLINE rnn_f rnn_operate(int number, Column input, Column product,\n"
                  "                             Column bias, Column recurrent_bias,\n"
                  "                             Column parameter, States state, Column value)\n{\n"
                  "    switch (number) {\n");
    for (int i = 0; i < cell->state_count; i++)
        count_uses(&printer, cell->states[i].next);
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
    Printer printer = printer_of(&graph, NULL, 0, out);
    count_uses(&printer, result);
    text_addf(out, "RNN_INLINE rnn_f %s(rnn_f x)\n{\n", name);
    if (printer.uses[0] == 0)
        text_add(out, "    (void)x;\n");
    print_declarations(&printer);
    text_add(out, "    return ");
    print_value(&printer, result);
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

static void print_member(const Cell *cell, int member, Text *out)
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
            print_member(cell, phase->norms[i].members[k], out);
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
