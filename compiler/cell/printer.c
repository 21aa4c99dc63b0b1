// Printer: see printer.h. What is read once stands in its place.
#include "cell/printer.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void printer_use(Printer *printer, int node)
{
    if (printer->uses[node]++ > 0 || printer->given[node])
        return;
    for (int k = 0; k < op_arity(printer->graph->nodes[node].op); k++)
        printer_use(printer, printer->graph->nodes[node].args[k]);
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

static void print_leaf(Printer *printer, const Node *node)
{
    const int *positions = node->op == OP_PRODUCT     ? printer->products
                           : node->op == OP_STATISTIC ? printer->statistics
                                                      : NULL;
    const int index = positions ? positions[node->index] : node->index;
    for (const char *at = op_format(node->op); *at; at++)
        if (at[0] == '$' && at[1] == 'i') {
            text_addf(printer->out, "%d", index);
            at++;
        } else {
            text_add_bytes(printer->out, at, 1);
        }
}

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
        bool in_place = !printer->names[argument] && !printer->given[argument];
        int inner = in_place ? op_strength(below->op) : 3;
        bool is_nan = below->op == OP_CONST && isnan(below->value);
        bool enclosed = strength < 3 && (inner < strength || (inner == strength && which > 0) ||
                                         (node->op == OP_NEG && inner < 3) || is_nan);
        text_add(printer->out, enclosed ? "(" : "");
        printer_value(printer, argument);
        text_add(printer->out, enclosed ? ")" : "");
    }
}

void printer_value(Printer *printer, int index)
{
    const Node *node = &printer->graph->nodes[index];
    if (printer->given[index]) {
        text_add(printer->out, printer->given[index]);
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
        "decltype", "noexcept",  "statistic", "member",   "draw",    "saved",     "next",
        "delta",    "adjoint",   "sum"};
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
void printer_declare(Printer *printer)
{
    for (int i = 0; i < printer->graph->count; i++) {
        const Node *node = &printer->graph->nodes[i];
        bool is_leaf = op_arity(node->op) == 0;
        if (printer->uses[i] == 0 || is_leaf || printer->given[i] ||
            (!node->name && printer->uses[i] < 2))
            continue;
        const char *name = identifier(printer, i);
        text_addf(printer->out, "    const rnn_f %s = ", name);
        print_operation(printer, node);
        text_add(printer->out, ";\n");
        printer->names[i] = name;
    }
}

Printer printer_of(const Graph *graph, Text *out)
{
    return (Printer){.graph = graph,
                     .uses = ARENA_ARRAY(out->arena, int, graph->count + 1),
                     .given = ARENA_ARRAY(out->arena, const char *, graph->count + 1),
                     .names = ARENA_ARRAY(out->arena, const char *, graph->count + 1),
                     .out = out};
}

void printer_assign(Printer *printer, const char *array, int index, int node)
{
    text_addf(printer->out, "    %s[%d] = ", array, index);
    printer_value(printer, node);
    text_add(printer->out, ";\n");
}

/// Whether `name` stands in `body` as a word of its own.
static bool is_read(const char *name, const char *body)
{
    const size_t length = strlen(name);
    for (const char *at = strstr(body, name); at; at = strstr(at + 1, name))
        if ((at == body || !(isalnum((unsigned char)at[-1]) || at[-1] == '_')) && at[length] == '[')
            return true;
    return false;
}

void printer_function(const char *name, const char *const *arguments, int inputs, int count,
                      const char *body, Text *out)
{
    Text head = {.arena = out->arena}, unused = {.arena = out->arena};
    text_addf(&head, "RNN_INLINE void %s(", name);
    const int indent = (int)strlen(text_string(&head));
    int column = indent;
    text_add(out, text_string(&head));
    for (int i = 0; i < count; i++) {
        const char *type = i < inputs ? "const rnn_f *" : "rnn_f *";
        const int width = (int)(strlen(type) + strlen(arguments[i]) + 2);
        if (i > 0 && column + width > 99) {
            text_addf(out, ",\n%*s", indent, "");
            column = indent;
        } else if (i > 0) {
            text_add(out, ", ");
        }
        text_addf(out, "%s%s", type, arguments[i]);
        column += width;
        if (!is_read(arguments[i], body))
            text_addf(&unused, "%s(void)%s", text_string(&unused)[0] ? ", " : "    ", arguments[i]);
    }
    text_addf(out, ")\n{\n%s%s%s}\n", text_string(&unused), text_string(&unused)[0] ? ";\n" : "",
              body);
}
