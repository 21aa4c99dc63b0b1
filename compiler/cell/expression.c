// Expressions: the recursive descent of expression.h.
#include "cell/expression.h"

#include <math.h>
#include <string.h>

#include "cell/elementwise.h"

enum { DEPTH_MOST = 100, NODES_MOST = 4096, ARGUMENTS_MOST = 4 };

Value expression_value(int node, int domain, Span span)
{
    return (Value){.kind = VALUE_NODE, .node = node, .domain = domain, .span = span};
}

Value expression_poison(Span span)
{
    return (Value){.kind = VALUE_POISON, .domain = DOMAIN_ANY, .span = span};
}

bool parser_is(const Parser *parser, const char *sign)
{
    return parser->at->kind == TOKEN_SIGN && text_equal(parser->at->text, sign);
}

bool parser_take(Parser *parser, const char *sign)
{
    if (!parser_is(parser, sign))
        return false;
    parser->at++;
    return true;
}

void parser_expect(Parser *parser, const char *what)
{
    if (parser->failed)
        return;
    parser->failed = true;
    const Token *token = parser->at;
    const char *found = token->kind == TOKEN_END       ? "the end"
                        : token->kind == TOKEN_NEWLINE ? "the end of the line"
                                                       : NULL;
    Diag *diag = found ? diag_add(parser->diags, DIAG_E0304, token->span, "expected %s before %s",
                                  what, found)
                       : diag_add(parser->diags, DIAG_E0304, token->span, "expected %s before '%s'",
                                  what, token->text);
    if (parser_is(parser, "^") || parser_is(parser, "**"))
        diag_help(diag, "there is no power; write x*x, or exp(n*log(x)) where x > 0");
    else if (parser_is(parser, "&&") || parser_is(parser, "||"))
        diag_help(diag, "combine conditions by nesting: a ? (b ? yes : no) : no");
}

Value parser_unknown_name(Parser *parser, const Token *name)
{
    Diag *diag = diag_add(parser->diags, DIAG_E0305, name->span, "unknown name '%s'", name->text);
    const Scope *scope = parser->scope;
    const char *near = text_nearest(name->text, scope->names, (size_t)scope->name_count);
    if (near)
        diag_help(diag, "did you mean '%s'?", near);
    return expression_poison(name->span);
}

/// From the start of `a` to the end of `b` where both are on one line.
static Span joined(Span a, Span b)
{
    if (a.line == b.line && b.column + b.length > a.column)
        a.length = b.column + b.length - a.column;
    return a;
}

static const char *domain_name(int domain)
{
    return domain == 0 ? "units" : "the projection";
}

bool expression_check(Parser *parser, const Value *values, int count, int *out_domain)
{
    *out_domain = DOMAIN_ANY;
    bool good = true;
    for (int i = 0; i < count; i++) {
        if (values[i].kind == VALUE_INPUT) {
            Diag *diag = diag_add(parser->diags, DIAG_E0314, values[i].span,
                                  "the input x is not of the units' size");
            diag_help(diag, "multiply it with a gate of W: W.n*x");
            good = false;
        } else if (values[i].kind == VALUE_POISON) {
            good = false;
        } else if (*out_domain == DOMAIN_ANY) {
            *out_domain = values[i].domain;
        } else if (values[i].domain != DOMAIN_ANY && values[i].domain != *out_domain) {
            diag_add(parser->diags, DIAG_E0313, values[i].span,
                     "a vector over %s meets one over %s", domain_name(values[i].domain),
                     domain_name(*out_domain));
            good = false;
        }
    }
    if (good && parser->graph->count >= NODES_MOST && !parser->too_large) {
        diag_add(parser->diags, DIAG_E0315, values[0].span,
                 "the equations need more than %d operations", NODES_MOST);
        parser->too_large = true;
    }
    return good && !parser->too_large;
}

static Value operate(Parser *parser, Op op, const Value *values, int count)
{
    Span span = joined(values[0].span, values[count - 1].span);
    int domain;
    if (!expression_check(parser, values, count, &domain)) {
        Value poison = expression_poison(span); // its size still tells that of a state
        for (int i = 0; i < count; i++)
            poison.domain = values[i].domain > poison.domain ? values[i].domain : poison.domain;
        return poison;
    }
    Node node = {.op = op, .span = span};
    for (int i = 0; i < count; i++)
        node.args[i] = values[i].node;
    return expression_value(graph_add(parser->graph, node), domain, span);
}

static Value parse_choice(Parser *parser);
static Value parse_primary(Parser *parser);

static int parse_arguments(Parser *parser, Value *arguments)
{
    int count = 0;
    if (parser_take(parser, ")"))
        return 0;
    do {
        Value value = parse_choice(parser);
        if (count < ARGUMENTS_MOST)
            arguments[count] = value;
        count++;
    } while (!parser->failed && parser_take(parser, ","));
    if (!parser_take(parser, ")"))
        parser_expect(parser, "')'");
    return count;
}

static Value wrong_count(Parser *parser, const Token *name, const char *wanted, int count)
{
    diag_add(parser->diags, DIAG_E0308, name->span, "'%s' takes %s, not %d", name->text, wanted,
             count);
    return expression_poison(name->span);
}

/// The argument of an activation within the scope's clip. NaN stays NaN.
static int bounded(Parser *parser, int node)
{
    Graph *graph = parser->graph;
    const double clip = parser->scope->clip;
    if (!(clip > 0))
        return node;
    node = graph_op(graph, OP_MIN, node, graph_constant(graph, clip), 0);
    return graph_op(graph, OP_MAX, node, graph_constant(graph, -clip), 0);
}

Value expression_activate(Parser *parser, const Activation *activation, const Value *argument,
                          int domain, Span span)
{
    int node = activation_apply(parser->graph, activation, bounded(parser, argument->node));
    Value value = expression_value(node, domain, span);
    value.origin = ORIGIN_ACTIVATION;
    return value;
}

/// tanh and sigmoid, which are activations as well.
static Value call_activating_operation(Parser *parser, Op op, const Value *argument)
{
    Value within = *argument;
    if (within.kind == VALUE_NODE)
        within.node = bounded(parser, within.node);
    Value value = operate(parser, op, &within, 1);
    value.origin = ORIGIN_ACTIVATION;
    return value;
}

static Value call_operation(Parser *parser, const Token *name, Op op, const Value *arguments,
                            int count)
{
    if (count == 1 && op_arity(op) == 1 && activation_is_name(name->text))
        return call_activating_operation(parser, op, arguments);
    if (count == op_arity(op))
        return operate(parser, op, arguments, count);
    const char *wanted = op_arity(op) == 1 ? "one argument" : "two arguments";
    return wrong_count(parser, name, wanted, count);
}

/// An activation of the table, with its parameters as further, constant arguments.
static Value call_activation(Parser *parser, const Token *name, const Value *arguments, int count)
{
    if (count < 1 || count > 1 + ACTIVATION_PARAMETERS_MAX)
        return wrong_count(parser, name, "one argument and its parameters", count);
    double parameters[ACTIVATION_PARAMETERS_MAX] = {0};
    int domain;
    if (!expression_check(parser, arguments, count, &domain))
        return expression_poison(name->span);
    for (int i = 1; i < count; i++) {
        const Node *node = &parser->graph->nodes[arguments[i].node];
        if (node->op != OP_CONST) {
            diag_add(parser->diags, DIAG_E0308, arguments[i].span,
                     "a parameter of '%s' must be a number", name->text);
            return expression_poison(name->span);
        }
        parameters[i - 1] = node->value;
    }
    Activation activation;
    if (!activation_find(parser->arena, parser->diags, name->span, name->text, parameters,
                         count - 1, &activation))
        return expression_poison(name->span);
    return expression_activate(parser, &activation, &arguments[0], domain, name->span);
}

static Value unknown_function(Parser *parser, const Token *name)
{
    const char *reason = elementwise_refusal(name->text);
    if (reason) {
        diag_add(parser->diags, DIAG_E0307, name->span, "'%s' is not elementwise: %s", name->text,
                 reason);
        return expression_poison(name->span);
    }
    Diag *diag =
        diag_add(parser->diags, DIAG_E0306, name->span, "unknown function '%s'", name->text);
    const char *near = elementwise_nearest(parser->arena, name->text, parser->scope->functions,
                                           parser->scope->function_count);
    if (near)
        diag_help(diag, "did you mean '%s'?", near);
    return expression_poison(name->span);
}

static Value parse_call(Parser *parser, const Token *name)
{
    Value arguments[ARGUMENTS_MOST] = {{0}}, value;
    int count = parse_arguments(parser, arguments);
    if (parser->failed)
        return expression_poison(name->span);
    if (count > ARGUMENTS_MOST)
        return wrong_count(parser, name, "fewer arguments", count);
    if (parser->scope->call && parser->scope->call(parser, name, arguments, count, &value))
        return value;
    Op op = op_function(name->text);
    if (op != OP_COUNT)
        return call_operation(parser, name, op, arguments, count);
    if (activation_is_name(name->text))
        return call_activation(parser, name, arguments, count);
    return unknown_function(parser, name);
}

/// Behind `family.`: a gate, and for a matrix the vector that it multiplies.
static Value parse_gate(Parser *parser, const Token *family)
{
    const Token *gate = parser->at;
    if (gate->kind != TOKEN_NAME) {
        parser_expect(parser, "the name of a gate");
        return expression_poison(family->span);
    }
    parser->at++;
    if (!parser->scope->gate)
        return parser_unknown_name(parser, family);
    Value operand = expression_poison(gate->span), value;
    bool is_product = parser->scope->is_matrix(parser, family->text) && parser_take(parser, "*");
    if (is_product)
        operand = parse_primary(parser);
    if (parser->failed)
        return expression_poison(family->span);
    value = parser->scope->gate(parser, family, gate, is_product ? &operand : NULL);
    value.span = joined(family->span, operand.span);
    return value;
}

static Value parse_name(Parser *parser)
{
    const Token *name = parser->at++;
    if (parser_take(parser, "("))
        return parse_call(parser, name);
    if (parser_take(parser, "."))
        return parse_gate(parser, name);
    if (text_equal(name->text, "inf"))
        return expression_value(graph_constant(parser->graph, INFINITY), DOMAIN_ANY, name->span);
    if (parser->scope->is_matrix && parser->scope->is_matrix(parser, name->text)) {
        Value operand;
        bool multiplies = parser_take(parser, "*");
        if (multiplies)
            operand = parse_primary(parser);
        if (parser->failed)
            return expression_poison(name->span);
        return parser->scope->gate(parser, name, NULL, multiplies ? &operand : NULL);
    }
    return parser->scope->variable(parser, name, parser_take(parser, "'"));
}

static Value parse_primary(Parser *parser)
{
    const Token *token = parser->at;
    if (parser->failed)
        return expression_poison(token->span);
    if (token->kind == TOKEN_NUMBER) {
        parser->at++;
        return expression_value(graph_constant(parser->graph, token->number), DOMAIN_ANY,
                                token->span);
    }
    if (token->kind == TOKEN_NAME)
        return parse_name(parser);
    if (parser_take(parser, "(")) {
        Value value = parse_choice(parser);
        if (!parser_take(parser, ")"))
            parser_expect(parser, "')'");
        return value;
    }
    parser_expect(parser, "a value");
    return expression_poison(token->span);
}

static Value parse_sign(Parser *parser)
{
    const Token *sign = parser->at;
    bool negative = false;
    while (parser_is(parser, "-") || parser_is(parser, "+"))
        negative ^= text_equal((parser->at++)->text, "-");
    Value value = parse_primary(parser);
    if (!negative)
        return value;
    value.span = joined(sign->span, value.span);
    return operate(parser, OP_NEG, &value, 1);
}

static Value parse_product(Parser *parser)
{
    Value pair[2] = {parse_sign(parser)};
    while (!parser->failed && (parser_is(parser, "*") || parser_is(parser, "/"))) {
        Op op = text_equal((parser->at++)->text, "*") ? OP_MUL : OP_DIV;
        pair[1] = parse_sign(parser);
        pair[0] = operate(parser, op, pair, 2);
    }
    return pair[0];
}

static Value parse_sum(Parser *parser)
{
    Value pair[2] = {parse_product(parser)};
    while (!parser->failed && (parser_is(parser, "+") || parser_is(parser, "-"))) {
        Op op = text_equal((parser->at++)->text, "+") ? OP_ADD : OP_SUB;
        pair[1] = parse_product(parser);
        pair[0] = operate(parser, op, pair, 2);
    }
    return pair[0];
}

static bool take_comparison(Parser *parser, Op *out_op)
{
    static const struct {
        const char *sign;
        Op op;
    } comparisons[] = {{"<", OP_LT},  {"<=", OP_LE}, {">", OP_GT},
                       {">=", OP_GE}, {"==", OP_EQ}, {"!=", OP_NE}};
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++)
        if (parser_take(parser, comparisons[i].sign)) {
            *out_op = comparisons[i].op;
            return true;
        }
    return false;
}

static Value parse_compare(Parser *parser)
{
    Value pair[2] = {parse_sum(parser)};
    Op op;
    if (parser->failed || !take_comparison(parser, &op))
        return pair[0];
    pair[1] = parse_sum(parser);
    const Token *again = parser->at;
    if (!parser->failed && take_comparison(parser, &(Op){0})) {
        diag_add(parser->diags, DIAG_E0304, again->span, "comparisons do not chain");
        parser->failed = true;
    }
    return operate(parser, op, pair, 2);
}

static Value parse_choice(Parser *parser)
{
    if (++parser->depth > DEPTH_MOST) {
        if (!parser->failed)
            diag_add(parser->diags, DIAG_E0315, parser->at->span,
                     "the expression is nested deeper than %d levels", DEPTH_MOST);
        parser->failed = true;
        parser->depth--;
        return expression_poison(parser->at->span);
    }
    Value parts[3] = {parse_compare(parser)};
    if (!parser->failed && parser_take(parser, "?")) {
        parts[1] = parse_choice(parser);
        if (!parser_take(parser, ":"))
            parser_expect(parser, "':'");
        else
            parts[2] = parse_choice(parser);
        parts[0] = parser->failed ? expression_poison(parts[0].span)
                                  : operate(parser, OP_SELECT, parts, 3);
    }
    parser->depth--;
    return parts[0];
}

Value expression_parse(Parser *parser)
{
    return parse_choice(parser);
}
