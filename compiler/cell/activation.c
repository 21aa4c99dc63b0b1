// Activations: the table, the binding of a use, and its formula's nodes.
#include "cell/activation.h"

#include <ctype.h>
#include <string.h>

#include "cell/expression.h"

typedef struct {
    const char *name;
    int parameter_count;
    double defaults[ACTIVATION_PARAMETERS_MAX];
    const char *formula, *aliases, *doc;
} Row;

static const Row rows[] = {
#define ACTIVATION(name, count, a, b, formula, aliases, doc)                                       \
    {#name, count, {a, b}, formula, aliases, doc},
#include "../../templates/activations.def"
#undef ACTIVATION
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

/// Functions that a user may expect and why they cannot be a unit's activation.
static const char *const not_elementwise[] = {"softmax", "log_softmax", "softmin", "layer_norm",
                                              "norm",    "glu",         "maxout",  "cumsum",
                                              "sum",     "mean",        "argmax",  "normalize"};

/// Whether two names are equal but for case and underscores.
static bool same_name(const char *a, size_t a_length, const char *b)
{
    size_t i = 0;
    for (;; i++, b++) {
        while (i < a_length && a[i] == '_')
            i++;
        while (*b == '_')
            b++;
        if (i == a_length || *b == '\0')
            return i == a_length && *b == '\0';
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)*b))
            return false;
    }
}

static bool has_alias(const Row *row, const char *name)
{
    for (const char *at = row->aliases; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (same_name(at, length, name))
            return true;
        at += length;
    }
    return false;
}

static const Row *find_row(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (same_name(rows[i].name, strlen(rows[i].name), name) || has_alias(&rows[i], name))
            return &rows[i];
    return NULL;
}

static void refuse_name(Diags *diags, Span span, const char *name)
{
    for (size_t i = 0; i < sizeof not_elementwise / sizeof *not_elementwise; i++)
        if (same_name(name, strlen(name), not_elementwise[i])) {
            Diag *diag = diag_add(diags, DIAG_E0304, span, "'%s' is not elementwise", name);
            diag_help(diag, "an activation maps each unit by itself; '%s' needs them all", name);
            return;
        }
    const char *names[ROW_COUNT];
    for (size_t i = 0; i < ROW_COUNT; i++)
        names[i] = rows[i].name;
    Diag *diag = diag_add(diags, DIAG_E0303, span, "unknown activation '%s'", name);
    const char *nearest = text_nearest(name, names, ROW_COUNT);
    if (nearest)
        diag_help(diag, "did you mean '%s'?", nearest);
    else
        diag_help(diag, "'rnnc activations' lists them; {expr: \"...\"} takes any formula over x");
}

bool activation_find(Arena *arena, Diags *diags, Span span, const char *name,
                     const double *parameters, int parameter_count, Activation *out)
{
    const Row *row = find_row(name);
    if (!row) {
        refuse_name(diags, span, name);
        return false;
    }
    if (parameter_count > row->parameter_count) {
        diag_add(diags, DIAG_E0305, span, "'%s' takes %d parameter%s, not %d", row->name,
                 row->parameter_count, row->parameter_count == 1 ? "" : "s", parameter_count);
        return false;
    }
    if (parameter_count == 0 && text_equal(row->name, "leaky_relu"))
        diag_help(diag_add(diags, DIAG_W0301, span, "leaky_relu without a slope is 0.01 here"),
                  "frameworks disagree (Keras 3: 0.2, Keras 2: 0.3); write leaky_relu: 0.01");
    Source *source = ARENA_NEW(arena, Source);
    *source = (Source){"activations.def", row->formula, strlen(row->formula)};
    *out = (Activation){.name = row->name,
                        .formula = row->formula,
                        .source = source,
                        .parameter_count = row->parameter_count,
                        .span = span};
    for (int i = 0; i < row->parameter_count; i++)
        out->parameters[i] = i < parameter_count ? parameters[i] : row->defaults[i];
    return true;
}

/// Parses the formula into `graph` over the nodes x, a, b.
static int parse_formula(Arena *arena, Diags *diags, Graph *graph, const Activation *activation,
                         int x)
{
    static const char *const names[] = {"x", "a", "b"};
    int nodes[] = {x, 0, 0};
    for (int i = 0; i < activation->parameter_count; i++)
        nodes[1 + i] = graph_constant(graph, activation->parameters[i]);
    return expression_in(arena, diags, activation->source, graph, names, nodes,
                         1 + activation->parameter_count);
}

bool activation_from_expression(Arena *arena, Diags *diags, Span span, const char *expression,
                                Activation *out)
{
    Source *source = ARENA_NEW(arena, Source);
    const char *text = arena_copy(arena, expression, strlen(expression));
    *source =
        (Source){arena_format(arena, "%s:%d:%d: in the expression",
                              span.source ? span.source->path : "expr", span.line, span.column),
                 text, strlen(text)};
    *out = (Activation){.name = "expr", .formula = text, .source = source, .span = span};
    Graph graph = {.arena = arena};
    return parse_formula(arena, diags, &graph, out, graph_add(&graph, (Node){.op = OP_ARGUMENT})) >=
           0;
}

int activation_apply(Graph *graph, const Activation *activation, int x)
{
    return parse_formula(graph->arena, diags_create(graph->arena), graph, activation, x);
}

bool activation_equal(const Activation *a, const Activation *b)
{
    bool equal = text_equal(a->name, b->name) && text_equal(a->formula, b->formula) &&
                 a->parameter_count == b->parameter_count;
    for (int i = 0; equal && i < a->parameter_count; i++)
        equal = a->parameters[i] == b->parameters[i];
    return equal;
}

void activation_print_table(Text *out)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const Row *row = &rows[i];
        const char *parameters = "";
        if (row->parameter_count == 1)
            parameters = arena_format(out->arena, "a=%g", row->defaults[0]);
        if (row->parameter_count == 2)
            parameters = arena_format(out->arena, "a=%g b=%g", row->defaults[0], row->defaults[1]);
        text_addf(out, "%-17s %-9s %s", row->name, parameters, row->doc);
        text_addf(out, row->aliases[0] ? " (also: %s)\n" : "\n", row->aliases);
    }
}
