// Activations: the rows of templates/activations.def found by name, and users' expressions. A
// formula is parsed each time it is applied, straight into the graph at hand.
#include "cell/activation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cell/elementwise.h"
#include "cell/expression.h"

typedef struct {
    const char *name, *aliases, *parameters, *formula, *title, *ambiguous, *readings;
} Row;

static const Row rows[] = {
#define ACTIVATION(name, aliases, parameters, formula, title, ambiguous, readings)                 \
    {#name, aliases, parameters, formula, title, ambiguous, readings},
#include "../../templates/activations.def"
#undef ACTIVATION
};
static const char *const row_names[] = {
#define ACTIVATION(name, ...) #name,
#include "../../templates/activations.def"
#undef ACTIVATION
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

static const struct {
    const char *name, *reason;
} refusals[] = {
    {"softmax", "it divides by a sum over all units"},
    {"log_softmax", "it subtracts a sum over all units"},
    {"softmin", "it divides by a sum over all units"},
    {"layer_norm", "it needs the mean and variance over all units; a cell file may call it"},
    {"batch_norm", "it needs statistics over the batch"},
    {"rms_norm", "it needs the mean square over all units"},
    {"norm", "it is a sum over all units"},
    {"sum", "it is a sum over all units"},
    {"mean", "it is a mean over all units"},
    {"argmax", "it compares all units"},
    {"hardmax", "it compares all units"},
    {"sort", "it compares all units"},
    {"cumsum", "it adds up units before it"},
    {"dot", "it is a sum over all units"},
    {"matmul", "it mixes the units; write a gate of R or P: R.n*h"},
    {"maxout", "it compares several units"},
    {"glu", "it multiplies one half of the units by the other"},
    {"prelu", "its slope is a weight; write a parameter of the cell: p.slope"},
    {"rrelu", "its slope is random"},
    {"dropout", "it is random; it is a key of the layer"},
};

const char *elementwise_refusal(const char *name)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (text_equal_ignoring_case(refusals[i].name, name))
            return refusals[i].reason;
    return NULL;
}

const char *elementwise_nearest(Arena *arena, const char *name, const char *const *more, int count)
{
    size_t functions;
    const char *const *function_names = op_function_names(&functions);
    const char **all = ARENA_ARRAY(arena, const char *, ROW_COUNT + functions + (size_t)count);
    memcpy(all, row_names, sizeof row_names);
    memcpy(all + ROW_COUNT, function_names, functions * sizeof *all);
    if (count)
        memcpy(all + ROW_COUNT + functions, more, (size_t)count * sizeof *all);
    return text_nearest(name, all, ROW_COUNT + functions + (size_t)count);
}

/// Whether the blank-separated `list` has `word`, ignoring case.
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (*list) {
        size_t next = strcspn(list, " ");
        if (next == length && length && strncasecmp(list, word, length) == 0)
            return true;
        list += next + (list[next] == ' ');
    }
    return false;
}

static const Row *find_row(const char *name)
{
    for (int i = 0; i < ROW_COUNT; i++)
        if (text_equal_ignoring_case(rows[i].name, name) || has_word(rows[i].aliases, name))
            return &rows[i];
    return NULL;
}

bool activation_is_name(const char *name)
{
    return find_row(name) != NULL;
}

/// Reads the defaults of "slope=0.01 b=1" and returns how many there are.
static int defaults(const Row *row, double *values)
{
    int count = 0;
    for (const char *at = row->parameters; (at = strchr(at, '=')) != NULL; at++)
        values[count++] = strtod(at + 1, NULL);
    return count;
}

static bool unknown_activation(Arena *arena, Diags *diags, Span span, const char *name)
{
    const char *reason = elementwise_refusal(name);
    if (reason) {
        diag_add(diags, DIAG_E0307, span, "'%s' is no activation: %s", name, reason);
        return false;
    }
    Diag *diag = diag_add(diags, DIAG_E0302, span, "unknown activation '%s'", name);
    const char *near = elementwise_nearest(arena, name, NULL, 0);
    if (near)
        diag_help(diag, "did you mean '%s'?", near);
    else
        diag_help(diag, "`rnnc activations` lists them; any other is written as "
                        "{expr: \"x > 0 ? x : 0.05*x\"}");
    return false;
}

static const char *parameter_words(Arena *arena, int count)
{
    return count == 0   ? "no parameter"
           : count == 1 ? "one parameter"
                        : arena_format(arena, "at most %d parameters", count);
}

bool activation_find(Arena *arena, Diags *diags, Span span, const char *name,
                     const double *parameters, int parameter_count, Activation *out)
{
    const Row *row = find_row(name);
    if (!row)
        return unknown_activation(arena, diags, span, name);
    *out = (Activation){.name = row->name, .formula = row->formula, .span = span};
    out->parameter_count = defaults(row, out->parameters);
    if (parameter_count > out->parameter_count) {
        diag_add(diags, DIAG_E0303, span, "activation '%s' takes %s, not %d", row->name,
                 parameter_words(arena, out->parameter_count), parameter_count);
        return false;
    }
    for (int i = 0; i < parameter_count; i++) {
        out->parameters[i] = parameters[i];
        if (!isfinite(parameters[i])) {
            diag_add(diags, DIAG_E0303, span, "parameter %d of activation '%s' is not finite",
                     i + 1, row->name);
            return false;
        }
    }
    Source *source = ARENA_NEW(arena, Source);
    *source = (Source){"activations.def", row->formula, strlen(row->formula)};
    out->source = source;
    if (parameter_count == 0 && has_word(row->ambiguous, name))
        diag_add(diags, DIAG_W0301, span, "frameworks differ on '%s': %s", name, row->readings);
    return true;
}

/// What the names of a formula stand for.
typedef struct {
    int x;
    const Activation *activation;
} FormulaContext;

static Value formula_variable(Parser *parser, const Token *name, bool primed)
{
    static const char *const letters[ACTIVATION_PARAMETERS_MAX] = {"a", "b"};
    const FormulaContext *context = parser->context;
    if (!primed && text_equal(name->text, "x"))
        return expression_value(context->x, DOMAIN_ANY, name->span);
    for (int i = 0; i < context->activation->parameter_count && !primed; i++)
        if (text_equal(name->text, letters[i]))
            return expression_value(
                graph_constant(parser->graph, context->activation->parameters[i]), DOMAIN_ANY,
                name->span);
    return parser_unknown_name(parser, name);
}

/// Parses the formula with x = node `x`; returns the node, or -1 where it has faults.
static int parse_formula(Graph *graph, Diags *diags, const Activation *activation, int x)
{
    static const char *const names[] = {"x"};
    static const Scope scope = {.variable = formula_variable, .names = names, .name_count = 1};
    FormulaContext context = {x, activation};
    size_t errors = diags_error_count(diags);
    Parser parser = {.arena = graph->arena,
                     .diags = diags,
                     .graph = graph,
                     .at = lexer_run(graph->arena, diags, activation->source),
                     .scope = &scope,
                     .context = &context};
    if (diags_error_count(diags) > errors)
        return -1;
    Value value = expression_parse(&parser);
    while (parser.at->kind == TOKEN_NEWLINE)
        parser.at++;
    if (parser.at->kind != TOKEN_END)
        parser_expect(&parser, "an operator");
    return value.kind == VALUE_NODE && diags_error_count(diags) == errors ? value.node : -1;
}

bool activation_from_expression(Arena *arena, Diags *diags, Span span, const char *expression,
                                Activation *out)
{
    Source *source = ARENA_NEW(arena, Source);
    const char *name = span.source ? arena_format(arena, "%s:%d:%d: expr", span.source->path,
                                                  span.line, span.column)
                                   : "expr";
    *source = (Source){name, arena_copy(arena, expression, strlen(expression)), strlen(expression)};
    *out = (Activation){.name = "expr", .formula = source->text, .source = source, .span = span};
    Graph graph = {.arena = arena};
    int x = graph_add(&graph, (Node){.op = OP_ARGUMENT});
    return parse_formula(&graph, diags, out, x) >= 0;
}

int activation_apply(Graph *graph, const Activation *activation, int x)
{
    Diags *ignored = diags_create(graph->arena); // the formula was checked when it was bound
    int node = parse_formula(graph, ignored, activation, x);
    return node < 0 ? x : node;
}

bool activation_equal(const Activation *a, const Activation *b)
{
    if (a->parameter_count != b->parameter_count || !text_equal(a->formula, b->formula))
        return false;
    for (int i = 0; i < a->parameter_count; i++)
        if (a->parameters[i] != b->parameters[i])
            return false;
    return text_equal(a->name, b->name);
}

void activation_print_table(Text *out)
{
    text_addf(out, "%-18s %-11s %-50s %s\n", "name", "parameters", "what it is", "also called");
    for (int i = 0; i < ROW_COUNT; i++) {
        const Row *row = &rows[i];
        text_addf(out, "%-18s %-11s %-50s %s\n", row->name, row->parameters, row->title,
                  row->aliases);
        while (out->length >= 2 && out->data[out->length - 2] == ' ') {
            out->data[--out->length] = '\0';
            out->data[out->length - 1] = '\n';
        }
    }
    text_add(out, "Any other: {expr: \"x > 0 ? x : 0.05*x\"}\n");
}
