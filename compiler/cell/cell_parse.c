// Cell parsing: one statement a line; names, gates and shapes are checked as they appear.
#include "cell/cell_parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cell/expression.h"

enum { NAMES_MAX = 64, UNKNOWN_DOMAIN = -1 };

/// A value with a name: a state before the step, or what a statement defines.
typedef struct {
    const char *name;
    int node;
    Span span;
    bool used;
} Name;

typedef struct {
    Cell *cell;
    const CellBinding *binding;
    Name names[NAMES_MAX];
    int name_count;
    Span state_spans[CELL_STATES_MAX];
    const char *line_end;
} CellParser;

static CellParser *cell_parser(Parser *parser)
{
    return parser->scope.context;
}

static int fault(Parser *parser, DiagCode code, Span span, const char *message)
{
    diag_add(parser->diags, code, span, "%s", message);
    return -1;
}

static Name *find_name(CellParser *cells, const char *name)
{
    for (int i = 0; i < cells->name_count; i++)
        if (text_equal(cells->names[i].name, name))
            return &cells->names[i];
    return NULL;
}

static int resolve_name(Parser *parser, const char *name, Span span)
{
    CellParser *cells = cell_parser(parser);
    Name *found = find_name(cells, name);
    if (found) {
        found->used = true;
        return found->node;
    }
    if (text_equal(name, "x"))
        return fault(parser, DIAG_E0306, span, "x may only stand in a product: W.i*x");
    const char *known[NAMES_MAX];
    for (int i = 0; i < cells->name_count; i++)
        known[i] = cells->names[i].name;
    Diag *diag =
        diag_add(parser->diags, DIAG_E0302, span, "'%s' is not defined before this place", name);
    const char *nearest = text_nearest(name, known, (size_t)cells->name_count);
    if (nearest)
        diag_help(diag, "did you mean '%s'?", nearest);
    else
        diag_help(diag, "a step is computed from top to bottom; define '%s' above", name);
    return -1;
}

/// The index of a gate in a family, added at its first appearance; -1 after a diagnostic.
static int gate_index(Parser *parser, GateList *gates, const char *name, Span span)
{
    for (int i = 0; i < gates->count; i++)
        if (text_equal(gates->names[i], name))
            return i;
    if (gates->count == CELL_GATES_MAX)
        return fault(parser, DIAG_E0312, span, "a cell may have 16 gates at most");
    gates->names[gates->count] = name;
    return gates->count++;
}

static int add_leaf(Parser *parser, Op op, int index)
{
    return index < 0 ? -1 : graph_add(parser->graph, (Node){.op = op, .index = index});
}

static int resolve_member(Parser *parser, const char *family, const char *member, Span span)
{
    CellParser *cells = cell_parser(parser);
    Cell *cell = cells->cell;
    bool is_bias = text_equal(family, "b") || text_equal(family, "rb");
    if (is_bias && !cells->binding->use_bias)
        return graph_constant(parser->graph, 0);
    if (text_equal(family, "b"))
        return add_leaf(parser, OP_BIAS, gate_index(parser, &cell->b, member, span));
    if (text_equal(family, "rb"))
        return add_leaf(parser, OP_RECURRENT_BIAS, gate_index(parser, &cell->rb, member, span));
    if (text_equal(family, "p"))
        return add_leaf(parser, OP_PARAMETER, gate_index(parser, &cell->p, member, span));
    Diag *diag =
        diag_add(parser->diags, DIAG_E0302, span, "unknown parameter '%s.%s'", family, member);
    diag_help(diag, "matrices are W, R and P; vectors are b, rb and p");
    return -1;
}

static int resolve_product(Parser *parser, const char *family, const char *member, int operand,
                           bool operand_is_x, Span span)
{
    Cell *cell = cell_parser(parser)->cell;
    bool is_w = text_equal(family, "W"), is_r = text_equal(family, "R");
    if ((is_w || is_r) && !member)
        return fault(parser, DIAG_E0306, span, "W and R need a gate: W.i*x, R.i*h");
    if (is_w && !operand_is_x)
        return fault(parser, DIAG_E0306, span, "W multiplies x only; use R for a state");
    if (!is_w && operand_is_x)
        return fault(parser, DIAG_E0306, span, "x is multiplied by W only");
    if (is_w)
        return add_leaf(parser, OP_INPUT, gate_index(parser, &cell->W, member, span));
    if (!is_r && member)
        return fault(parser, DIAG_E0306, span, "P is one matrix, without gates");
    int index = is_r ? gate_index(parser, &cell->R, member, span) : PRODUCT_OF_PROJECTION;
    if (index < 0)
        return -1;
    cell->has_projection |= !is_r;
    for (int i = 0; i < parser->graph->count; i++) {
        const Node *node = &parser->graph->nodes[i];
        if (node->op == OP_PRODUCT && node->index == index && node->args[0] != operand)
            return fault(parser, DIAG_E0306, span, "this matrix already multiplies another vector");
    }
    return graph_add(parser->graph,
                     (Node){.op = OP_PRODUCT, .index = index, .args = {operand}, .span = span});
}

static const Activation *resolve_activation(Parser *parser, const char *name)
{
    const CellBinding *binding = cell_parser(parser)->binding;
    if (text_equal(name, "activation"))
        return &binding->activation;
    if (text_equal(name, "recurrent_activation"))
        return &binding->recurrent_activation;
    return text_equal(name, "output_activation") ? &binding->output_activation : NULL;
}

static void add_name(Parser *parser, const char *name, int node, Span span)
{
    CellParser *cells = cell_parser(parser);
    if (cells->name_count == NAMES_MAX) {
        fault(parser, DIAG_E0312, span, "a cell may define 64 names at most");
        return;
    }
    cells->names[cells->name_count++] = (Name){name, node, span, false};
}

/// `state h, c` or `state m = -inf`.
static bool parse_states(Parser *parser)
{
    CellParser *cells = cell_parser(parser);
    Cell *cell = cells->cell;
    do {
        Span span;
        const char *name = parser_name(parser, &span);
        if (!name)
            return fault(parser, DIAG_E0301, parser_span(parser, parser->at, 1),
                         "a state's name is expected here") == 0;
        if (find_name(cells, name) || text_equal(name, "x"))
            return fault(parser, DIAG_E0308, span, "this name is taken") == 0;
        if (cell->state_count == CELL_STATES_MAX)
            return fault(parser, DIAG_E0312, span, "a cell may have 8 states at most") == 0;
        CellState *state = &cell->states[cell->state_count];
        *state = (CellState){.name = name, .next = -1};
        cells->state_spans[cell->state_count] = span;
        int leaf = add_leaf(parser, OP_STATE, cell->state_count++);
        cell->graph.nodes[leaf].name = name;
        add_name(parser, name, leaf, span);
        if (parser_accept(parser, '=')) {
            char *end = NULL;
            parser_skip(parser);
            state->start = strtod(parser->at, &end);
            if (end == parser->at)
                return fault(parser, DIAG_E0301, parser_span(parser, parser->at, 1),
                             "a number or -inf is expected here") == 0;
            parser->at = end;
        }
    } while (parser_accept(parser, ','));
    return true;
}

static int find_state(const Cell *cell, const char *name)
{
    for (int i = 0; i < cell->state_count; i++)
        if (text_equal(cell->states[i].name, name))
            return i;
    return -1;
}

/// `name = expression` or `state' = expression`.
static bool parse_definition(Parser *parser, const char *name, Span span)
{
    CellParser *cells = cell_parser(parser);
    Cell *cell = cells->cell;
    bool primed = *parser->at == '\'';
    int state = find_state(cell, name);
    if (primed) {
        parser->at++;
        span.length++;
    }
    if (primed && state < 0)
        return fault(parser, DIAG_E0302, span, "only a state may have a ' (declare it above)") == 0;
    if (!primed && state >= 0)
        return fault(parser, DIAG_E0308, span, "a state's new value is written with a '") == 0;
    const char *full = primed ? arena_format(parser->arena, "%s'", name) : name;
    if (find_name(cells, full))
        return fault(parser, DIAG_E0308, span, "this name has a value already") == 0;
    if (!parser_accept(parser, '='))
        return fault(parser, DIAG_E0301, parser_span(parser, parser->at, 1), "a '=' is missing") ==
               0;
    int node = expression_parse(parser);
    if (node < 0)
        return false;
    if (!cell->graph.nodes[node].name)
        cell->graph.nodes[node].name = primed ? arena_format(parser->arena, "%s_new", name) : name;
    if (primed)
        cell->states[state].next = node;
    add_name(parser, full, node, span);
    return true;
}

/// `cell name "title"`.
static bool parse_header(Parser *parser)
{
    Cell *cell = cell_parser(parser)->cell;
    Span span;
    cell->name = parser_name(parser, &span);
    if (!cell->name || !parser_accept(parser, '"'))
        return fault(parser, DIAG_E0313, parser_span(parser, parser->at, 1),
                     "a cell starts with: cell NAME \"TITLE\"") == 0;
    size_t length = strcspn(parser->at, "\"\n");
    cell->title = arena_copy(parser->arena, parser->at, length);
    parser->at += length;
    return parser_accept(parser, '"') ||
           fault(parser, DIAG_E0313, parser_span(parser, parser->at, 1), "a '\"' is missing") == 0;
}

static bool parse_statement(Parser *parser)
{
    Span span;
    const char *name = parser_name(parser, &span);
    if (!name)
        return fault(parser, DIAG_E0301, parser_span(parser, parser->at, 1),
                     "a statement is expected here") == 0;
    bool named = cell_parser(parser)->cell->name != NULL;
    if (text_equal(name, "cell") && !named)
        return parse_header(parser);
    if (!named)
        return fault(parser, DIAG_E0313, span, "a cell starts with: cell NAME \"TITLE\"") == 0;
    if (text_equal(name, "state"))
        return parse_states(parser);
    return parse_definition(parser, name, span);
}

static void parse_lines(Parser *parser)
{
    while (*parser->at) {
        parser_skip(parser);
        if (*parser->at && *parser->at != '\n') {
            bool parsed = parse_statement(parser);
            parser_skip(parser);
            if (parsed && *parser->at && *parser->at != '\n')
                fault(parser, DIAG_E0301, parser_span(parser, parser->at, 1),
                      "the statement should end here");
            if (!cell_parser(parser)->cell->name)
                return;
        }
        parser->at += strcspn(parser->at, "\n");
        parser->at += *parser->at == '\n';
    }
}

static void check_names(Parser *parser)
{
    CellParser *cells = cell_parser(parser);
    Cell *cell = cells->cell;
    for (int i = 0; i < cell->state_count; i++)
        if (cell->states[i].next < 0)
            diag_add(parser->diags, DIAG_E0307, cells->state_spans[i],
                     "the state '%s' never gets a new value (%s' = ...)", cell->states[i].name,
                     cell->states[i].name);
    for (int i = 0; i < cells->name_count; i++) {
        const Name *name = &cells->names[i];
        if (!name->used && !strchr(name->name, '\'') && find_state(cell, name->name) < 0)
            diag_add(parser->diags, DIAG_E0309, name->span, "'%s' is never used", name->name);
    }
    if (cell->state_count == 0)
        diag_add(parser->diags, DIAG_E0307, (Span){.source = parser->source},
                 "the cell has no state; declare one: state h");
    if (cell->W.count == 0)
        diag_add(parser->diags, DIAG_E0307, (Span){.source = parser->source},
                 "the cell never reads its input; use W.n*x");
}

Cell *cell_parse(Arena *arena, Diags *diags, const Source *source, const CellBinding *binding)
{
    size_t errors = diags_error_count(diags);
    Cell *cell = ARENA_NEW(arena, Cell);
    cell->source = source;
    cell->graph.arena = arena;
    cell->activation = binding->activation;
    cell->recurrent_activation = binding->recurrent_activation;
    cell->output_activation = binding->output_activation;
    CellParser *cells = ARENA_NEW(arena, CellParser);
    cells->cell = cell;
    cells->binding = binding;
    Parser parser = {.arena = arena,
                     .diags = diags,
                     .source = source,
                     .at = source->text,
                     .graph = &cell->graph,
                     .scope = {.name = resolve_name,
                               .member = resolve_member,
                               .product = resolve_product,
                               .activation = resolve_activation,
                               .context = cells}};
    graph_constant(&cell->graph, 0);
    parse_lines(&parser);
    if (diags_error_count(diags) == errors)
        check_names(&parser);
    return diags_error_count(diags) == errors ? cell : NULL;
}
