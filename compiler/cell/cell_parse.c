// Cell files: one pass over the lines, straight into the graph. Whether a state has the size of the
// units or of the projection shows only where it is assigned, so the file is read again with what
// the last reading found until nothing changes; only the last reading's faults are reported.
#include "cell/cell_parse.h"

#include "cell/cell_norm.h"
#include "cell/expression.h"

enum { NAMES_MOST = 512 };

typedef struct {
    const char *name;
    Value value;
    Span span;
} Local;

typedef struct {
    Parser parser;
    Cell *cell;
    const CellBinding *binding;
    Local *locals;
    int local_count;
    Span state_spans[CELL_STATES_MAX];
    Value next[CELL_STATES_MAX];
    bool is_assigned[CELL_STATES_MAX];
    Value operands[CELL_GATES_MAX + 1]; ///< of R's products; the last is P's
    int recurrent_domain;               ///< of the vectors that R multiplies
    const Token *current;               ///< name of the statement being read, or NULL
    const Token *tokens;
    const char *names[NAMES_MOST]; ///< in scope, for suggestions
    Scope scope;
    bool is_coupled; ///< f = 1 - i stands, as input_forget wants
    int forgotten;   ///< what f was before, whose weights are kept; -1: nothing
} Reader;

static const char *const families[] = {"W", "R", "P", "b", "rb", "p"};
static const char *const bound_functions[] = {"activation", "recurrent_activation",
                                              "output_activation", "layer_norm"};
enum { FUNCTION_COUNT = sizeof bound_functions / sizeof *bound_functions };

static bool is_reserved(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (text_equal(families[i], name))
            return true;
    return text_equal(name, "x") || text_equal(name, "inf");
}

static void know_name(Reader *reader, const char *name)
{
    if (reader->scope.name_count < NAMES_MOST)
        reader->names[reader->scope.name_count++] = name;
}

static int find_state(const Reader *reader, const char *name)
{
    for (int i = 0; i < reader->cell->state_count; i++)
        if (text_equal(reader->cell->states[i].name, name))
            return i;
    return -1;
}

static const Local *find_local(const Reader *reader, const char *name)
{
    for (int i = 0; i < reader->local_count; i++)
        if (text_equal(reader->locals[i].name, name))
            return &reader->locals[i];
    return NULL;
}

/// The statement behind `from` that assigns `name` (or `name'`), or NULL.
static const Token *later_definition(const Token *from, const char *name, bool primed)
{
    for (; from->kind != TOKEN_END; from++) {
        if (from->kind != TOKEN_NEWLINE || from[1].kind != TOKEN_NAME ||
            !text_equal(from[1].text, name))
            continue;
        const Token *behind = from + 2;
        bool has_prime = behind->kind == TOKEN_SIGN && text_equal(behind->text, "'");
        behind += has_prime;
        if (has_prime == primed && behind->kind == TOKEN_SIGN && text_equal(behind->text, "="))
            return from + 1;
    }
    return NULL;
}

/// E0312 where `name` is this or a later statement's; true if it was.
static bool report_early_use(Reader *reader, const Token *name, bool primed)
{
    const char *prime = primed ? "'" : "";
    bool current_primed = reader->current && reader->current[1].kind == TOKEN_SIGN &&
                          text_equal(reader->current[1].text, "'");
    if (reader->current && text_equal(reader->current->text, name->text) &&
        current_primed == primed) {
        Diag *diag = diag_add(reader->parser.diags, DIAG_E0312, name->span,
                              "'%s%s' depends on itself", name->text, prime);
        if (primed)
            diag_help(diag, "%s without the prime is its value before the step", name->text);
        return true;
    }
    const Token *later = later_definition(reader->parser.at, name->text, primed);
    if (!later)
        return false;
    Diag *diag = diag_add(reader->parser.diags, DIAG_E0312, name->span,
                          "'%s%s' is used before its definition", name->text, prime);
    diag_note(diag, later->span, "it is defined here");
    return true;
}

static Value new_state_value(Reader *reader, const Token *name)
{
    int state = find_state(reader, name->text);
    if (state < 0) {
        Diag *diag = diag_add(reader->parser.diags, DIAG_E0305, name->span,
                              "'%s' is no state, so there is no %s'", name->text, name->text);
        diag_help(diag, "declare it: state %s", name->text);
        return expression_poison(name->span);
    }
    if (reader->is_assigned[state])
        return reader->next[state];
    report_early_use(reader, name, true); // else it is never assigned, which is said at the end
    return expression_poison(name->span);
}

static Value cell_variable(Parser *parser, const Token *name, bool primed)
{
    Reader *reader = parser->context;
    if (text_equal(name->text, "x") && !primed)
        return (Value){.kind = VALUE_INPUT, .domain = DOMAIN_ANY, .span = name->span};
    if (primed)
        return new_state_value(reader, name);
    const Local *local = find_local(reader, name->text);
    if (local) {
        Value value = local->value;
        value.span = name->span;
        return value;
    }
    int state = find_state(reader, name->text);
    if (state >= 0) {
        Node node = {.op = OP_STATE, .index = state, .span = name->span};
        return expression_value(graph_add(parser->graph, node),
                                (int)reader->cell->states[state].domain, name->span);
    }
    if (is_reserved(name->text)) {
        diag_add(parser->diags, DIAG_E0305, name->span, "'%s' needs the name of a gate: %s.i",
                 name->text, name->text);
        return expression_poison(name->span);
    }
    if (report_early_use(reader, name, false))
        return expression_poison(name->span);
    return parser_unknown_name(parser, name);
}

static bool cell_is_matrix(const Parser *parser, const char *name)
{
    (void)parser;
    return text_equal(name, "W") || text_equal(name, "R") || text_equal(name, "P");
}

/// The gate's index in the family, entered at its first appearance; -1 where there are too many.
static int gate_index(Reader *reader, GateList *list, const Token *gate)
{
    for (int i = 0; i < list->count; i++)
        if (text_equal(list->names[i], gate->text))
            return i;
    if (list->count == CELL_GATES_MAX) {
        diag_add(reader->parser.diags, DIAG_E0315, gate->span, "more than %d gates of one kind",
                 CELL_GATES_MAX);
        return -1;
    }
    list->names[list->count] = gate->text;
    return list->count++;
}

static Value leaf_value(Reader *reader, Op op, int index, int domain, Span span)
{
    if (index < 0)
        return expression_poison(span);
    Node node = {.op = op, .index = index, .span = span};
    Value value = expression_value(graph_add(reader->parser.graph, node), domain, span);
    value.origin = op == OP_INPUT || op == OP_PRODUCT ? ORIGIN_PRODUCT : ORIGIN_OTHER;
    return value;
}

static Value input_product(Reader *reader, const Token *gate, const Value *operand)
{
    if (operand->kind != VALUE_INPUT) {
        if (operand->kind != VALUE_POISON) {
            Diag *diag = diag_add(reader->parser.diags, DIAG_E0314, operand->span,
                                  "W.%s multiplies the input x only", gate->text);
            diag_help(diag, "the matrix of states and computed vectors is R: R.%s*...", gate->text);
        }
        return expression_poison(gate->span);
    }
    return leaf_value(reader, OP_INPUT, gate_index(reader, &reader->cell->W, gate), DOMAIN_UNITS,
                      gate->span);
}

/// Whether `operand` can be multiplied by `matrix`; reports why not.
static bool check_operand(Reader *reader, const char *matrix, const Value *operand)
{
    Diags *diags = reader->parser.diags;
    if (operand->kind == VALUE_INPUT) {
        Diag *diag =
            diag_add(diags, DIAG_E0314, operand->span, "%s does not multiply the input x", matrix);
        diag_help(diag, "the matrix of the input is W: W.i*x");
    } else if (operand->kind == VALUE_NODE && operand->domain == DOMAIN_ANY) {
        diag_add(diags, DIAG_E0314, operand->span, "%s multiplies a vector, not a number", matrix);
    }
    return operand->kind == VALUE_NODE && operand->domain != DOMAIN_ANY;
}

/// Enters the vector that product `index` multiplies; it is one and the same in the whole cell.
static bool enter_operand(Reader *reader, int index, Span span, const Value *operand)
{
    Value *known = &reader->operands[index];
    if (known->kind == VALUE_POISON) {
        *known = *operand;
        reader->cell->product_operands[index] = operand->node;
        return true;
    }
    if (known->node == operand->node)
        return true;
    Diag *diag = diag_add(reader->parser.diags, DIAG_E0314, span,
                          "one matrix multiplies two different vectors");
    diag_note(diag, known->span, "the first is here");
    diag_help(diag, "use a gate of its own for each product");
    return false;
}

static Value recurrent_product(Reader *reader, const Token *gate, const Value *operand)
{
    if (!check_operand(reader, "R", operand))
        return expression_poison(gate->span);
    if (reader->recurrent_domain == DOMAIN_ANY)
        reader->recurrent_domain = operand->domain;
    if (reader->recurrent_domain != operand->domain) {
        diag_add(reader->parser.diags, DIAG_E0313, operand->span,
                 "R multiplies vectors of the units' size here, of the projection's elsewhere");
        return expression_poison(gate->span);
    }
    int index = gate_index(reader, &reader->cell->R, gate);
    if (index < 0 || !enter_operand(reader, index, gate->span, operand))
        return expression_poison(gate->span);
    return leaf_value(reader, OP_PRODUCT, index, DOMAIN_UNITS, gate->span);
}

static Value projection_product(Reader *reader, const Token *name, const Value *operand)
{
    if (!check_operand(reader, "P", operand))
        return expression_poison(name->span);
    if (operand->domain != DOMAIN_UNITS) {
        diag_add(reader->parser.diags, DIAG_E0313, operand->span,
                 "P multiplies a vector of the units' size, not of the projection's");
        return expression_poison(name->span);
    }
    if (!enter_operand(reader, CELL_GATES_MAX, name->span, operand))
        return expression_poison(name->span);
    reader->cell->has_projection = true;
    return leaf_value(reader, OP_PRODUCT, CELL_GATES_MAX, DOMAIN_PROJECTION, name->span);
}

static Value matrix_product(Reader *reader, const Token *name, const Token *gate,
                            const Value *operand)
{
    Diags *diags = reader->parser.diags;
    bool is_projection = text_equal(name->text, "P");
    const char *example = text_equal(name->text, "W")   ? "W.i*x"
                          : text_equal(name->text, "R") ? "R.i*h"
                                                        : "P*(o*c')";
    if (!operand || is_projection == (gate != NULL)) {
        Diag *diag = diag_add(diags, DIAG_E0314, name->span, "%s",
                              !operand        ? "a matrix must multiply a vector"
                              : is_projection ? "P has no gates"
                                              : "the product needs the name of a gate");
        diag_help(diag, "write it as in %s", example);
        return expression_poison(name->span);
    }
    if (is_projection)
        return projection_product(reader, name, operand);
    return text_equal(name->text, "W") ? input_product(reader, gate, operand)
                                       : recurrent_product(reader, gate, operand);
}

static Value cell_gate(Parser *parser, const Token *name, const Token *gate, const Value *operand)
{
    Reader *reader = parser->context;
    Cell *cell = reader->cell;
    if (cell_is_matrix(parser, name->text))
        return matrix_product(reader, name, gate, operand);
    bool is_bias = text_equal(name->text, "b") || text_equal(name->text, "rb");
    if (is_bias && !reader->binding->use_bias)
        return expression_value(graph_constant(parser->graph, 0), DOMAIN_UNITS, gate->span);
    if (text_equal(name->text, "b"))
        return leaf_value(reader, OP_BIAS, gate_index(reader, &cell->b, gate), DOMAIN_UNITS,
                          gate->span);
    if (text_equal(name->text, "rb"))
        return leaf_value(reader, OP_RECURRENT_BIAS, gate_index(reader, &cell->rb, gate),
                          DOMAIN_UNITS, gate->span);
    if (text_equal(name->text, "p"))
        return leaf_value(reader, OP_PARAMETER, gate_index(reader, &cell->p, gate), DOMAIN_UNITS,
                          gate->span);
    Diag *diag = diag_add(parser->diags, DIAG_E0305, name->span, "'%s' has no gates", name->text);
    diag_help(diag, "gates are those of W, R, b, rb and p");
    return expression_poison(name->span);
}

static Value layer_norm(Reader *reader, const Token *name, const Value *argument, int domain)
{
    if (domain == DOMAIN_ANY) {
        diag_add(reader->parser.diags, DIAG_E0308, argument->span,
                 "'layer_norm' takes a vector, not a number");
        return expression_poison(name->span);
    }
    const bool is_product = argument->origin == ORIGIN_PRODUCT;
    return expression_value(cell_layer_norm(reader->cell, argument->node, is_product), domain,
                            name->span);
}

static bool cell_call(Parser *parser, const Token *name, const Value *arguments, int count,
                      Value *out)
{
    Reader *reader = parser->context;
    const CellBinding *binding = reader->binding;
    const Activation *bound[FUNCTION_COUNT] = {&binding->activation, &binding->recurrent_activation,
                                               &binding->output_activation};
    int which = 0;
    while (which < FUNCTION_COUNT && !text_equal(bound_functions[which], name->text))
        which++;
    if (which == FUNCTION_COUNT)
        return false;
    *out = expression_poison(name->span);
    int domain;
    if (count != 1)
        diag_add(parser->diags, DIAG_E0308, name->span, "'%s' takes one argument, not %d",
                 name->text, count);
    else if (!expression_check(parser, arguments, 1, &domain))
        out->domain = arguments[0].domain;
    else if (bound[which])
        *out = expression_activate(parser, bound[which], &arguments[0], domain, name->span);
    else
        *out = layer_norm(reader, name, &arguments[0], domain);
    return true;
}

static void skip_line(Parser *parser)
{
    while (parser->at->kind != TOKEN_NEWLINE && parser->at->kind != TOKEN_END)
        parser->at++;
    parser->failed = false;
    parser->depth = 0;
}

static void end_line(Parser *parser)
{
    if (parser->at->kind != TOKEN_NEWLINE && parser->at->kind != TOKEN_END)
        parser_expect(parser, "an operator or the end of the line");
    skip_line(parser);
}

static const Token *take_word(Parser *parser, const char *what)
{
    if (parser->at->kind == TOKEN_NAME)
        return parser->at++;
    parser_expect(parser, what);
    return NULL;
}

static void read_header(Reader *reader)
{
    Parser *parser = &reader->parser;
    while (parser->at->kind == TOKEN_NEWLINE)
        parser->at++;
    if (parser->at->kind != TOKEN_NAME || !text_equal(parser->at->text, "cell")) {
        parser_expect(parser, "'cell NAME \"title\"'");
        parser->failed = false; // the equations may be read all the same
        return;
    }
    parser->at++;
    const Token *name = take_word(parser, "the cell's name");
    reader->cell->name = name ? name->text : "";
    if (parser->at->kind == TOKEN_STRING)
        reader->cell->title = (parser->at++)->text;
    end_line(parser);
}

/// Whether a new name may be entered; reports why not.
static bool check_new_name(Reader *reader, const Token *name)
{
    Diags *diags = reader->parser.diags;
    const Local *local = find_local(reader, name->text);
    int state = find_state(reader, name->text);
    if (is_reserved(name->text)) {
        diag_add(diags, DIAG_E0316, name->span, "'%s' has a fixed meaning", name->text);
        return false;
    }
    if (local || state >= 0) {
        Diag *diag = diag_add(diags, DIAG_E0311, name->span, "'%s' is already defined", name->text);
        diag_note(diag, local ? local->span : reader->state_spans[state], "it is defined here");
        return false;
    }
    return true;
}

static double read_start(Reader *reader)
{
    Parser *parser = &reader->parser;
    Value value = expression_parse(parser);
    if (value.kind == VALUE_POISON)
        return 0;
    if (value.kind == VALUE_INPUT || parser->graph->nodes[value.node].op != OP_CONST) {
        diag_add(parser->diags, DIAG_E0304, value.span, "a state starts at a number");
        return 0;
    }
    return parser->graph->nodes[value.node].value;
}

static void read_states(Reader *reader, const Domain *domains)
{
    Parser *parser = &reader->parser;
    Cell *cell = reader->cell;
    do {
        const Token *name = take_word(parser, "the state's name");
        if (!name)
            break;
        double start = parser_take(parser, "=") ? read_start(reader) : 0;
        if (!check_new_name(reader, name))
            continue;
        if (cell->state_count == CELL_STATES_MAX) {
            diag_add(parser->diags, DIAG_E0315, name->span, "more than %d states", CELL_STATES_MAX);
            break;
        }
        int index = cell->state_count++;
        reader->state_spans[index] = name->span;
        cell->states[index] =
            (CellState){.name = name->text, .start = start, .domain = domains[index]};
        know_name(reader, name->text);
    } while (!parser->failed && parser_take(parser, ","));
    end_line(parser);
}

/// Gives the node the cell's own name, unless it is a leaf or has one.
static void name_node(Reader *reader, const Value *value, const char *name)
{
    if (value->kind != VALUE_NODE)
        return;
    Node *node = &reader->parser.graph->nodes[value->node];
    if (op_arity(node->op) > 0 && !node->name)
        node->name = name;
}

static void assign_state(Reader *reader, const Token *name, Value value)
{
    Parser *parser = &reader->parser;
    int state = find_state(reader, name->text);
    if (state < 0) {
        Diag *diag =
            diag_add(parser->diags, DIAG_E0316, name->span, "'%s' is no state", name->text);
        diag_help(diag, "declare it: state %s; or leave the prime out", name->text);
        return;
    }
    if (reader->is_assigned[state]) {
        diag_add(parser->diags, DIAG_E0311, name->span, "'%s'' is assigned twice", name->text);
        return;
    }
    int domain = value.domain;
    if (value.kind != VALUE_POISON && !expression_check(parser, &value, 1, &domain))
        value = expression_poison(value.span);
    value.domain = domain;
    reader->is_assigned[state] = true;
    reader->next[state] = value;
    name_node(reader, &value, arena_format(parser->arena, "%s'", name->text));
}

/// With input_forget the gate f is 1 - i, whatever its equation says.
static Value coupled(Reader *reader, const Token *name, Value value)
{
    Graph *graph = reader->parser.graph;
    const Local *input = find_local(reader, "i");
    if (!reader->binding->input_forget || !text_equal(name->text, "f") ||
        value.kind != VALUE_NODE || !input || input->value.origin != ORIGIN_ACTIVATION)
        return value;
    int node = graph_op(graph, OP_SUB, graph_constant(graph, 1), input->value.node, 0);
    if (value.origin != ORIGIN_ACTIVATION && value.node != node)
        return value;
    reader->is_coupled = true;
    reader->forgotten = value.node;
    value.node = node;
    return value;
}

static void assign_local(Reader *reader, const Token *name, Value value)
{
    Parser *parser = &reader->parser;
    int state = find_state(reader, name->text), domain;
    if (state >= 0) {
        Diag *diag = diag_add(parser->diags, DIAG_E0316, name->span,
                              "'%s' is a state, whose value before the step is given", name->text);
        diag_help(diag, "its value after the step is %s' = ...", name->text);
        return;
    }
    if (!check_new_name(reader, name))
        return;
    if (value.kind != VALUE_POISON && !expression_check(parser, &value, 1, &domain))
        value = expression_poison(value.span);
    value = coupled(reader, name, value);
    Local local = {name->text, value, name->span};
    ARENA_PUSH(parser->arena, reader->locals, reader->local_count, local);
    know_name(reader, name->text);
    name_node(reader, &value, name->text);
}

static void read_statement(Reader *reader)
{
    Parser *parser = &reader->parser;
    const Token *name = take_word(parser, "an equation");
    if (!name) {
        skip_line(parser);
        return;
    }
    bool primed = parser_take(parser, "'");
    reader->current = name;
    Value value = expression_poison(name->span);
    if (parser_take(parser, "="))
        value = expression_parse(parser);
    else
        parser_expect(parser, "'='");
    end_line(parser);
    reader->current = NULL;
    if (primed)
        assign_state(reader, name, value);
    else
        assign_local(reader, name, value);
}

/// Marks what `node` is computed from, the operands of its products included.
static void mark(const Reader *reader, bool *reached, int node)
{
    if (reached[node])
        return;
    reached[node] = true;
    const Node *at = &reader->parser.graph->nodes[node];
    for (int i = 0; i < op_arity(at->op); i++)
        mark(reader, reached, at->args[i]);
    if (at->op == OP_PRODUCT)
        mark(reader, reached, reader->operands[at->index].node);
    const CellNorm *norm = at->op == OP_STATISTIC ? &reader->cell->norms[at->index / 2] : NULL;
    for (int i = 0; norm && i < norm->member_count; i++)
        mark(reader, reached, norm->members[i]);
}

static void check_use(Reader *reader)
{
    Parser *parser = &reader->parser;
    const Graph *graph = parser->graph;
    bool *reached = ARENA_ARRAY(parser->arena, bool, graph->count + 1);
    for (int i = 0; i < reader->cell->state_count; i++)
        mark(reader, reached, reader->next[i].node);
    if (reader->forgotten >= 0)
        mark(reader, reached, reader->forgotten);
    bool any = false;
    for (int i = 0; i < reader->local_count; i++) {
        const Node *node = &graph->nodes[reader->locals[i].value.node];
        if (reached[reader->locals[i].value.node] || node->op == OP_CONST)
            continue;
        any = true;
        diag_add(parser->diags, DIAG_E0309, reader->locals[i].span, "'%s' is not used",
                 reader->locals[i].name);
    }
    for (int i = 0; i < graph->count && !any; i++) {
        const Node *node = &graph->nodes[i];
        bool is_weight = op_arity(node->op) == 0 && node->op != OP_CONST && node->op != OP_STATE &&
                         node->op != OP_STATISTIC;
        if (is_weight && !reached[i])
            diag_add(parser->diags, DIAG_E0309, node->span, "this gate is not used");
    }
}

static void check_states(Reader *reader)
{
    Parser *parser = &reader->parser;
    if (reader->cell->state_count == 0)
        diag_add(parser->diags, DIAG_E0310, reader->tokens->span,
                 "the cell has no state; its first state is its output: state h");
    for (int i = 0; i < reader->cell->state_count; i++)
        if (!reader->is_assigned[i]) {
            const char *name = reader->cell->states[i].name;
            Diag *diag = diag_add(parser->diags, DIAG_E0310, reader->state_spans[i],
                                  "state '%s' is never assigned", name);
            diag_help(diag, "add its value after the step: %s' = ...", name);
        }
}

static void check_coupling(Reader *reader)
{
    const CellBinding *binding = reader->binding;
    if (!binding->input_forget || reader->is_coupled)
        return;
    Diag *diag = diag_add(reader->parser.diags, DIAG_E0317, binding->input_forget_span,
                          "the cell '%s' has no gate f that a gate i before it could replace",
                          reader->cell->name);
    const Local *input = find_local(reader, "i"), *forget = find_local(reader, "f");
    if (input && forget)
        diag_note(diag, forget->span, "%s",
                  forget->value.origin == ORIGIN_ACTIVATION &&
                          input->value.origin == ORIGIN_ACTIVATION
                      ? "f is defined here, before i"
                      : "i and f are not what an activation gives, so they are no gates");
    diag_help(diag, "remove it; lstm, lstmp, peephole_lstm and layer_norm_lstm have both gates");
}

/// Writes what was read into the cell.
static void finish(Reader *reader)
{
    Cell *cell = reader->cell;
    for (int i = 0; i < cell->state_count; i++)
        cell->states[i].next = reader->next[i].node;
    cell_find_gains(cell);
}

/// One reading with the states' sizes as given; returns the sizes found in `out_domains`.
static Cell *read_cell(Arena *arena, Diags *diags, const Source *source, const CellBinding *binding,
                       const Domain *domains, Domain *out_domains)
{
    Reader *reader = ARENA_NEW(arena, Reader);
    Cell *cell = reader->cell = ARENA_NEW(arena, Cell);
    *cell = (Cell){.name = "", .title = "", .source = source, .graph = {.arena = arena}};
    cell->activation = binding->activation;
    cell->recurrent_activation = binding->recurrent_activation;
    cell->output_activation = binding->output_activation;
    reader->binding = binding;
    reader->recurrent_domain = DOMAIN_ANY;
    reader->scope = (Scope){.variable = cell_variable,
                            .gate = cell_gate,
                            .is_matrix = cell_is_matrix,
                            .call = cell_call,
                            .names = reader->names,
                            .functions = bound_functions,
                            .function_count = FUNCTION_COUNT,
                            .clip = binding->clip};
    reader->forgotten = -1;
    size_t errors = diags_error_count(diags);
    reader->tokens = lexer_run(arena, diags, source);
    reader->parser = (Parser){.arena = arena,
                              .diags = diags,
                              .graph = &cell->graph,
                              .at = reader->tokens,
                              .scope = &reader->scope,
                              .context = reader};
    Parser *parser = &reader->parser;
    read_header(reader);
    while (parser->at->kind != TOKEN_END) {
        if (parser->at->kind == TOKEN_NEWLINE) {
            parser->at++;
        } else if (parser->at->kind == TOKEN_NAME && text_equal(parser->at->text, "state") &&
                   parser->at[1].kind == TOKEN_NAME) {
            parser->at++;
            read_states(reader, domains);
        } else {
            read_statement(reader);
        }
    }
    check_states(reader);
    for (int i = 0; i < cell->state_count; i++)
        out_domains[i] =
            reader->next[i].domain == DOMAIN_PROJECTION ? DOMAIN_PROJECTION : DOMAIN_UNITS;
    if (diags_error_count(diags) == errors) {
        check_use(reader);
        check_coupling(reader);
    }
    if (diags_error_count(diags) > errors)
        return NULL;
    finish(reader);
    return cell;
}

Cell *cell_parse(Arena *arena, Diags *diags, const Source *source, const CellBinding *binding)
{
    Domain domains[CELL_STATES_MAX] = {DOMAIN_UNITS};
    for (int reading = 0; reading <= CELL_STATES_MAX; reading++) {
        Domain found[CELL_STATES_MAX] = {DOMAIN_UNITS};
        read_cell(arena, diags_create(arena), source, binding, domains, found);
        bool stable = true;
        for (int i = 0; i < CELL_STATES_MAX; i++) {
            stable &= found[i] == domains[i] || domains[i] == DOMAIN_PROJECTION;
            if (found[i] == DOMAIN_PROJECTION)
                domains[i] = found[i];
        }
        if (stable)
            break;
    }
    Domain ignored[CELL_STATES_MAX];
    return read_cell(arena, diags, source, binding, domains, ignored);
}
