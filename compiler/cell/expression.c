// Expressions: recursive descent, one function a level of precedence:
//     choice: comparison ["?" choice ":" choice]     comparison: sum [("<"|...|"!=") sum]
//     sum: term {("+"|"-") term}                     term: unary {("*"|"/") unary}
//     unary: "-" unary | atom                        atom: number | name | call | product | "(" ..
//     ")"
#include "cell/expression.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, ARGUMENTS_MAX = 4 };

static int parse_choice(Parser *parser);

Span parser_span(const Parser *parser, const char *at, size_t length)
{
    Span span = {.source = parser->source, .line = 1, .length = (int)length};
    const char *line = parser->source->text;
    for (const char *next; (next = strchr(line, '\n')) && next < at; line = next + 1)
        span.line++;
    span.column = (int)(at - line) + 1;
    return span;
}

void parser_skip(Parser *parser)
{
    while (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\r')
        parser->at++;
    if (*parser->at == '#')
        parser->at += strcspn(parser->at, "\n");
}

bool parser_accept(Parser *parser, char character)
{
    parser_skip(parser);
    if (*parser->at != character)
        return false;
    parser->at++;
    return true;
}

const char *parser_name(Parser *parser, Span *out_span)
{
    parser_skip(parser);
    const char *start = parser->at;
    if (!isalpha((unsigned char)*start) && *start != '_')
        return NULL;
    while (isalnum((unsigned char)*parser->at) || *parser->at == '_')
        parser->at++;
    size_t length = (size_t)(parser->at - start);
    *out_span = parser_span(parser, start, length);
    return arena_copy(parser->arena, start, length);
}

static int fault(Parser *parser, DiagCode code, const char *message)
{
    parser_skip(parser);
    diag_add(parser->diags, code, parser_span(parser, parser->at, 1), "%s", message);
    return -1;
}

static int add_node(Parser *parser, Op op, int a, int b, int c)
{
    int arity = op_arity(op);
    if (a < 0 || (arity > 1 && b < 0) || (arity > 2 && c < 0))
        return -1;
    return graph_add(parser->graph,
                     (Node){.op = op, .args = {a, arity > 1 ? b : 0, arity > 2 ? c : 0}});
}

static int parse_number(Parser *parser)
{
    char *end = NULL;
    double value = strtod(parser->at, &end);
    if (isalpha((unsigned char)*end))
        return fault(parser, DIAG_E0301, "this is no number");
    parser->at = end;
    return graph_constant(parser->graph, value);
}

static int call_operation(Parser *parser, Op op, const int *arguments, int count, Span span)
{
    int arity = op_arity(op);
    if (count != arity) {
        diag_add(parser->diags, DIAG_E0305, span, "this function takes %d argument%s, not %d",
                 arity, arity == 1 ? "" : "s", count);
        return -1;
    }
    return add_node(parser, op, arguments[0], arguments[1], arguments[2]);
}

/// An activation of the table with its parameters as constant arguments: leaky_relu(x, 0.05).
static int call_activation(Parser *parser, const char *name, const int *arguments, int count,
                           Span span)
{
    double parameters[ARGUMENTS_MAX] = {0};
    Activation activation;
    for (int i = 1; i < count; i++) {
        const Node *node = &parser->graph->nodes[arguments[i]];
        if (node->op != OP_CONST) {
            diag_add(parser->diags, DIAG_E0305, span, "a parameter of '%s' must be a number", name);
            return -1;
        }
        parameters[i - 1] = node->value;
    }
    if (!activation_find(parser->arena, parser->diags, span, name, parameters,
                         count > 0 ? count - 1 : 0, &activation))
        return -1;
    return activation_apply(parser->graph, &activation, arguments[0]);
}

static int call(Parser *parser, const char *name, Span span)
{
    int arguments[ARGUMENTS_MAX] = {0}, count = 0;
    do {
        int argument = parse_choice(parser);
        if (argument < 0)
            return -1;
        if (count == ARGUMENTS_MAX)
            return fault(parser, DIAG_E0305, "too many arguments");
        arguments[count++] = argument;
    } while (parser_accept(parser, ','));
    if (!parser_accept(parser, ')'))
        return fault(parser, DIAG_E0301, "a ')' is missing here");
    const Activation *bound =
        parser->scope.activation ? parser->scope.activation(parser, name) : NULL;
    Op op = op_function(name);
    if (bound && count == 1)
        return activation_apply(parser->graph, bound, arguments[0]);
    if (bound) {
        diag_add(parser->diags, DIAG_E0305, span, "'%s' takes one argument, not %d", name, count);
        return -1;
    }
    if (op != OP_COUNT)
        return call_operation(parser, op, arguments, count, span);
    return call_activation(parser, name, arguments, count, span);
}

static int parse_unary(Parser *parser);

/// `W.k*v` and `P*v`: the family and member are read, the `*` comes next.
static int parse_product(Parser *parser, const char *family, const char *member, Span span)
{
    if (!parser_accept(parser, '*'))
        return fault(parser, DIAG_E0306, "a matrix must be multiplied by a vector: W.i*x, R.i*h");
    const char *before = parser->at;
    Span name_span;
    const char *name = parser_name(parser, &name_span);
    parser_skip(parser);
    if (name && text_equal(name, "x") && *parser->at != '(' && *parser->at != '.')
        return parser->scope.product(parser, family, member, -1, true, span);
    parser->at = before;
    int operand = parse_unary(parser);
    return operand < 0 ? -1 : parser->scope.product(parser, family, member, operand, false, span);
}

static bool is_matrix(const char *family)
{
    return text_equal(family, "W") || text_equal(family, "R") || text_equal(family, "P");
}

static int parse_name(Parser *parser)
{
    Span span, member_span;
    const char *name = parser_name(parser, &span), *member = NULL;
    if (*parser->at == '.') {
        parser->at++;
        member = parser_name(parser, &member_span);
        if (!member)
            return fault(parser, DIAG_E0301, "a gate's name is missing after '.'");
        span.length = member_span.column + member_span.length - span.column;
    }
    if (parser->scope.product && is_matrix(name))
        return parse_product(parser, name, member, span);
    if (member && parser->scope.member)
        return parser->scope.member(parser, name, member, span);
    if (member) {
        diag_add(parser->diags, DIAG_E0302, span, "'%s.%s' has no meaning here", name, member);
        return -1;
    }
    if (parser_accept(parser, '('))
        return call(parser, name, span);
    if (*parser->at == '\'') {
        parser->at++;
        span.length++;
        name = arena_format(parser->arena, "%s'", name);
    }
    return parser->scope.name(parser, name, span);
}

static int parse_atom(Parser *parser)
{
    parser_skip(parser);
    unsigned char first = (unsigned char)*parser->at;
    if (isdigit(first) || first == '.')
        return parse_number(parser);
    if (isalpha(first) || first == '_')
        return parse_name(parser);
    if (!parser_accept(parser, '('))
        return fault(parser, DIAG_E0301, "a value is expected here");
    int inner = parse_choice(parser);
    if (inner >= 0 && !parser_accept(parser, ')'))
        return fault(parser, DIAG_E0301, "a ')' is missing here");
    return inner;
}

static int parse_unary(Parser *parser)
{
    if (parser->depth >= DEPTH_MAX)
        return fault(parser, DIAG_E0301, "this expression is nested too deeply");
    parser->depth++;
    int node = parser_accept(parser, '-') ? add_node(parser, OP_NEG, parse_unary(parser), 0, 0)
                                          : parse_atom(parser);
    parser->depth--;
    return node;
}

static int parse_term(Parser *parser)
{
    int left = parse_unary(parser);
    while (left >= 0) {
        if (parser_accept(parser, '*'))
            left = add_node(parser, OP_MUL, left, parse_unary(parser), 0);
        else if (parser_accept(parser, '/'))
            left = add_node(parser, OP_DIV, left, parse_unary(parser), 0);
        else
            break;
    }
    return left;
}

static int parse_sum(Parser *parser)
{
    int left = parse_term(parser);
    while (left >= 0) {
        if (parser_accept(parser, '+'))
            left = add_node(parser, OP_ADD, left, parse_term(parser), 0);
        else if (parser_accept(parser, '-'))
            left = add_node(parser, OP_SUB, left, parse_term(parser), 0);
        else
            break;
    }
    return left;
}

static const struct {
    const char *sign;
    Op op;
} comparisons[] = {{"<=", OP_LE}, {">=", OP_GE}, {"==", OP_EQ},
                   {"!=", OP_NE}, {"<", OP_LT},  {">", OP_GT}};

static int parse_comparison(Parser *parser)
{
    int left = parse_sum(parser);
    parser_skip(parser);
    for (size_t i = 0; left >= 0 && i < sizeof comparisons / sizeof *comparisons; i++) {
        size_t length = strlen(comparisons[i].sign);
        if (strncmp(parser->at, comparisons[i].sign, length) != 0)
            continue;
        parser->at += length;
        return add_node(parser, comparisons[i].op, left, parse_sum(parser), 0);
    }
    return left;
}

static int parse_choice(Parser *parser)
{
    if (parser->depth >= DEPTH_MAX)
        return fault(parser, DIAG_E0301, "this expression is nested too deeply");
    parser->depth++;
    int node = parse_comparison(parser);
    if (node >= 0 && parser_accept(parser, '?')) {
        int yes = parse_choice(parser), no = -1;
        if (yes >= 0 && !parser_accept(parser, ':'))
            yes = fault(parser, DIAG_E0301, "a ':' is missing here");
        if (yes >= 0)
            no = parse_choice(parser);
        node = add_node(parser, OP_SELECT, node, yes, no);
    }
    parser->depth--;
    return node;
}

int expression_parse(Parser *parser)
{
    parser->depth = 0;
    return parse_choice(parser);
}

typedef struct {
    const char *const *names;
    const int *nodes;
    int count;
} Names;

static int look_up(Parser *parser, const char *name, Span span)
{
    const Names *names = parser->scope.context;
    for (int i = 0; i < names->count; i++)
        if (text_equal(names->names[i], name))
            return names->nodes[i];
    Diag *diag =
        diag_add(parser->diags, DIAG_E0302, span, "'%s' is not known in this expression", name);
    Text known = {.arena = parser->arena};
    for (int i = 0; i < names->count; i++)
        text_addf(&known, "%s%s", i ? ", " : "", names->names[i]);
    diag_help(diag, "known: %s, numbers, and the functions of 'rnnc activations'",
              text_string(&known));
    return -1;
}

int expression_in(Arena *arena, Diags *diags, const Source *source, Graph *graph,
                  const char *const *names, const int *nodes, int count)
{
    Names known = {names, nodes, count};
    Parser parser = {.arena = arena,
                     .diags = diags,
                     .source = source,
                     .at = source->text,
                     .graph = graph,
                     .scope = {.name = look_up, .context = &known}};
    int node = expression_parse(&parser);
    parser_skip(&parser);
    if (node >= 0 && *parser.at)
        return fault(&parser, DIAG_E0301, "the expression should end here");
    return node;
}

int expression_of(Graph *graph, const char *text, const char *const *names, const int *nodes,
                  int count)
{
    Source source = {"table", text, strlen(text)};
    return expression_in(graph->arena, diags_create(graph->arena), &source, graph, names, nodes,
                         count);
}
