// Schedule: products with the same vector form a group, each group a phase, in an order in which
// every vector is there before its product. A value belongs to the phase of the last product that
// it needs. What a later phase reads of it is carried; what needs no product at all is computed
// again where it is read, which is cheaper than memory. A state is written no earlier than the last
// phase that reads its old value, so that one place in memory serves both.
//
// A norm is taken in the first phase before whose pointwise function its members are there, and its
// statistics belong to that phase: what they give is a value of the phase like any other, carried
// to later ones. A norm of what a pointwise function makes, layer_norm(c'), needs a further phase,
// without product where there is none to share.
//
//     lstmp:  phase 0  R.ifgo*h -> i f g o c'  v = o*tanh(c')        phase 1  P*v -> h'
//             carry v ------------------------------^ operand of phase 1
#include "cell/cell_schedule.h"

#include "cell/cell_gradient.h"
#include "cell/expression.h"

enum { NOT_YET = 1000 }; ///< phase of a value whose product has none so far

typedef struct {
    Matrix matrix;
    int operand;
    int gates[CELL_GATES_MAX];
    int gate_count;
    int phase; ///< -1: none so far
} Group;

typedef struct {
    Arena *arena;
    Cell *cell;
    const int *domains;
    Group groups[CELL_GATES_MAX + 1];
    int group_count;
    int *norm_phases; ///< of the cell's norms; -1: none so far
    int *earliest;    ///< phase of the last product or norm that a node needs; -1: none
    int *before;      ///< phase before whose function a node can be had; -1: any
    bool *is_carried; ///< and by which phases written and last read
    int *first, *last;
    const bool *reached;            ///< whether any state needs the node
    bool *needed;                   ///< [phase][node]
    int placement[CELL_STATES_MAX]; ///< phase that writes the state
    bool too_many;
} Schedule;

const int *cell_node_domains(Arena *arena, const Cell *cell)
{
    int *domains = ARENA_ARRAY(arena, int, cell->graph.count + 1);
    for (int i = 0; i < cell->graph.count; i++) {
        const Node *node = &cell->graph.nodes[i];
        domains[i] = op_arity(node->op) || node->op == OP_CONST ? DOMAIN_ANY : DOMAIN_UNITS;
        if (node->op == OP_STATISTIC)
            domains[i] = domains[cell->norms[node->index / 2].members[0]];
        if (node->op == OP_PRODUCT && node->index == CELL_GATES_MAX)
            domains[i] = DOMAIN_PROJECTION;
        if (node->op == OP_STATE || node->op == OP_DRAW)
            domains[i] = (int)cell->states[node->index].domain;
        for (int k = 0; k < op_arity(node->op); k++)
            if (domains[i] == DOMAIN_ANY)
                domains[i] = domains[node->args[k]];
    }
    return domains;
}

int cell_carry_before(const Cell *cell, int node, int phase)
{
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].node == node && cell->carries[i].first_phase < phase)
            return i;
    return -1;
}

static Domain domain_of(const Schedule *schedule, int node)
{
    return schedule->domains[node] == DOMAIN_PROJECTION ? DOMAIN_PROJECTION : DOMAIN_UNITS;
}

static void enter_product(Schedule *schedule, Matrix matrix, int gate, int operand)
{
    int at = 0;
    while (at < schedule->group_count &&
           (schedule->groups[at].matrix != matrix || schedule->groups[at].operand != operand))
        at++;
    Group *group = &schedule->groups[at];
    if (at == schedule->group_count) {
        schedule->group_count++;
        *group = (Group){.matrix = matrix, .operand = operand, .phase = -1};
    }
    group->gates[group->gate_count++] = gate;
}

static void reach(const Cell *cell, bool *reached, int node)
{
    if (reached[node])
        return;
    const Node *at = &cell->graph.nodes[node];
    reached[node] = true;
    for (int k = 0; k < op_arity(at->op); k++)
        reach(cell, reached, at->args[k]);
    if (at->op == OP_PRODUCT)
        reach(cell, reached, cell->product_operands[at->index]);
    const CellNorm *norm = at->op == OP_STATISTIC ? &cell->norms[at->index / 2] : NULL;
    for (int i = 0; norm && i < norm->member_count; i++)
        reach(cell, reached, norm->members[i]);
}

/// Nodes that some state needs. A gate that input_forget replaced has products that none does.
static const bool *find_reached(Arena *arena, const Cell *cell)
{
    bool *reached = ARENA_ARRAY(arena, bool, cell->graph.count);
    for (int i = 0; i < cell->state_count; i++)
        reach(cell, reached, cell->states[i].next);
    return reached;
}

static bool is_leaf_reached(const Schedule *schedule, Op op, int index)
{
    const Graph *graph = &schedule->cell->graph;
    for (int i = 0; i < graph->count; i++)
        if (graph->nodes[i].op == op && graph->nodes[i].index == index)
            return schedule->reached[i];
    return false;
}

static void group_products(Schedule *schedule)
{
    const Cell *cell = schedule->cell;
    for (int gate = 0; gate < cell->R.count; gate++)
        if (is_leaf_reached(schedule, OP_PRODUCT, gate))
            enter_product(schedule, MATRIX_R, gate, cell->product_operands[gate]);
    if (cell->has_projection && is_leaf_reached(schedule, OP_PRODUCT, CELL_GATES_MAX))
        enter_product(schedule, MATRIX_P, 0, cell->product_operands[CELL_GATES_MAX]);
}

static int phase_of_product(const Schedule *schedule, int index)
{
    Matrix matrix = index == CELL_GATES_MAX ? MATRIX_P : MATRIX_R;
    int gate = matrix == MATRIX_P ? 0 : index;
    for (int i = 0; i < schedule->group_count; i++)
        for (int k = 0; k < schedule->groups[i].gate_count; k++)
            if (schedule->groups[i].matrix == matrix && schedule->groups[i].gates[k] == gate)
                return schedule->groups[i].phase < 0 ? NOT_YET : schedule->groups[i].phase;
    return NOT_YET;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/// Phases of all nodes, as far as products and norms have theirs.
static void find_earliest(Schedule *schedule)
{
    const Graph *graph = &schedule->cell->graph;
    for (int i = 0; i < graph->count; i++) {
        const Node *node = &graph->nodes[i];
        int earliest = -1, before = -1;
        if (node->op == OP_PRODUCT)
            earliest = before = phase_of_product(schedule, node->index);
        if (node->op == OP_STATISTIC) {
            int phase = schedule->norm_phases[node->index / 2];
            earliest = phase < 0 ? NOT_YET : phase;
            before = phase < 0 ? NOT_YET : phase + 1;
        }
        for (int k = 0; k < op_arity(node->op); k++) {
            earliest = larger(earliest, schedule->earliest[node->args[k]]);
            before = larger(before, schedule->before[node->args[k]]);
        }
        schedule->earliest[i] = earliest;
        schedule->before[i] = before;
    }
}

/// The first phase not before `from` whose function runs over `domain`, or -1.
static int phase_with(const Schedule *schedule, int from, Domain domain)
{
    for (int i = from < 0 ? 0 : from; i < schedule->cell->phase_count; i++)
        if (schedule->cell->phases[i].domain == domain)
            return i;
    return -1;
}

static bool is_state(const Schedule *schedule, int node)
{
    return schedule->cell->graph.nodes[node].op == OP_STATE;
}

/// Appends a phase without a product; -1 where there is no room.
static int add_phase(Schedule *schedule, Domain domain)
{
    Cell *cell = schedule->cell;
    if (cell->phase_count == CELL_PHASES_MAX) {
        schedule->too_many = true;
        return -1;
    }
    cell->phases[cell->phase_count] = (CellPhase){.domain = domain, .operand_domain = domain};
    return cell->phase_count++;
}

static void add_group_phase(Schedule *schedule, Group *group)
{
    int phase = add_phase(schedule, group->matrix == MATRIX_P ? DOMAIN_PROJECTION : DOMAIN_UNITS);
    if (phase < 0)
        return;
    group->phase = phase;
    CellPhase *at = &schedule->cell->phases[phase];
    at->matrix = group->matrix;
    at->row_count = group->gate_count;
    for (int i = 0; i < group->gate_count; i++)
        at->rows[i] = group->gates[i];
    at->operand_domain = domain_of(schedule, group->operand);
}

/// The first group whose vector is there before a phase appended now; else the first whose vector
/// only lacks a phase that computes it (`*out_missing`); NULL where all groups have their phase.
static Group *next_group(Schedule *schedule, bool *out_missing)
{
    Group *lacking = NULL;
    for (int i = 0; i < schedule->group_count; i++) {
        Group *group = &schedule->groups[i];
        int needs = schedule->earliest[group->operand];
        if (group->phase >= 0 || needs == NOT_YET)
            continue;
        *out_missing = false;
        if (is_state(schedule, group->operand) ||
            phase_with(schedule, needs, domain_of(schedule, group->operand)) >= 0)
            return group;
        lacking = lacking ? lacking : group;
    }
    *out_missing = lacking != NULL;
    return lacking;
}

/// A norm without a phase whose members can be had, or NULL; `*out_phase` is the first there is
/// for it, or -1. Norms with such a phase come first.
static const CellNorm *next_norm(const Schedule *schedule, int *out_phase)
{
    const Cell *cell = schedule->cell;
    const CellNorm *lacking = NULL;
    *out_phase = -1;
    for (int i = 0; i < cell->norm_count; i++) {
        const CellNorm *norm = &cell->norms[i];
        int ready = -1;
        for (int k = 0; k < norm->member_count; k++)
            ready = larger(ready, schedule->before[norm->members[k]]);
        if (schedule->norm_phases[i] >= 0 || ready >= NOT_YET ||
            !is_leaf_reached(schedule, OP_STATISTIC, 2 * i))
            continue;
        const Domain domain = domain_of(schedule, norm->members[0]);
        int phase = phase_with(schedule, ready, domain);
        while (phase >= 0 && cell->phases[phase].norm_count == CELL_NORMS_MAX)
            phase = phase_with(schedule, phase + 1, domain);
        *out_phase = phase;
        if (phase >= 0)
            return norm;
        lacking = lacking ? lacking : norm;
    }
    return lacking;
}

static void place_norm(Schedule *schedule, const CellNorm *norm, int phase)
{
    CellPhase *at = &schedule->cell->phases[phase];
    at->norms[at->norm_count++] = *norm;
    schedule->norm_phases[norm->number] = phase;
}

/// Gives every product and norm its phase: a norm goes into one that is there, then come products,
/// and only what these leave waiting gets a phase without product.
static void order_groups(Schedule *schedule)
{
    while (!schedule->too_many) {
        bool is_missing = false;
        int phase;
        find_earliest(schedule);
        const CellNorm *norm = next_norm(schedule, &phase);
        Group *group = next_group(schedule, &is_missing);
        if (norm && phase >= 0)
            place_norm(schedule, norm, phase);
        else if (group && !is_missing)
            add_group_phase(schedule, group);
        else if (norm)
            add_phase(schedule, domain_of(schedule, norm->members[0]));
        else if (group)
            add_phase(schedule, domain_of(schedule, group->operand));
        else
            break;
    }
    if (schedule->cell->phase_count == 0)
        add_phase(schedule, DOMAIN_UNITS);
}

static void carry(Schedule *schedule, int node, int first, int last)
{
    if (!schedule->is_carried[node]) {
        schedule->is_carried[node] = true;
        schedule->first[node] = first;
        schedule->last[node] = last;
    }
    if (last > schedule->last[node])
        schedule->last[node] = last;
}

/// Whether a value that an earlier phase could compute is cheaper to compute again from the one
/// operand that is carried anyhow: 1 - z and z*h share the carry z.
static bool is_cheap(const Schedule *schedule, int index)
{
    const Node *node = &schedule->cell->graph.nodes[index];
    int from_products = 0;
    for (int k = 0; k < op_arity(node->op); k++)
        from_products += schedule->earliest[node->args[k]] >= 0;
    bool is_simple =
        node->op == OP_ADD || node->op == OP_SUB || node->op == OP_MUL || node->op == OP_NEG;
    return is_simple && !node->name && from_products == 1;
}

/// Marks what phase `phase` computes for `node`, and carries what comes from earlier phases.
static void need(Schedule *schedule, int phase, int node)
{
    const Graph *graph = &schedule->cell->graph;
    bool *mark = &schedule->needed[phase * graph->count + node];
    if (*mark)
        return;
    int earliest = schedule->earliest[node];
    if (earliest >= 0 && earliest < phase && !is_cheap(schedule, node))
        carry(schedule, node, earliest, phase);
    if (schedule->is_carried[node] && schedule->first[node] < phase) {
        carry(schedule, node, schedule->first[node], phase);
        return;
    }
    *mark = true;
    for (int k = 0; k < op_arity(graph->nodes[node].op); k++)
        need(schedule, phase, graph->nodes[node].args[k]);
}

/// From the last phase to the first, for a phase's needs are the earlier ones' work.
static void find_needs(Schedule *schedule)
{
    Cell *cell = schedule->cell;
    int count = cell->graph.count;
    for (int i = 0; i < count; i++)
        schedule->is_carried[i] = false;
    for (int i = 0; i < CELL_PHASES_MAX * count; i++)
        schedule->needed[i] = false;
    for (int i = 0; i < schedule->group_count; i++) {
        int operand = schedule->groups[i].operand;
        if (!is_state(schedule, operand))
            carry(schedule, operand,
                  phase_with(schedule, schedule->earliest[operand], domain_of(schedule, operand)),
                  schedule->groups[i].phase);
    }
    for (int phase = cell->phase_count - 1; phase >= 0; phase--) {
        for (int i = 0; i < cell->state_count; i++)
            if (schedule->placement[i] == phase) {
                need(schedule, phase, cell->states[i].next);
                need(schedule, phase, cell->states[i].trained_next);
            }
        for (int i = 0; cell->gradient && i < cell->gradient->saved_count; i++)
            if (cell->gradient->saved[i].phase == phase)
                need(schedule, phase, cell->gradient->saved[i].node);
        for (int i = 0; i < count; i++)
            if (schedule->is_carried[i] && schedule->first[i] == phase)
                need(schedule, phase, i);
        for (int i = 0; i < cell->phases[phase].norm_count; i++)
            for (int k = 0; k < cell->phases[phase].norms[i].member_count; k++)
                need(schedule, phase, cell->phases[phase].norms[i].members[k]);
    }
}

/// The last phase that reads the old value of a state, alone or as the vector of its product.
static int last_reader(const Schedule *schedule, int state)
{
    const Cell *cell = schedule->cell;
    int last = -1;
    for (int i = 0; i < schedule->group_count; i++) {
        const Node *operand = &cell->graph.nodes[schedule->groups[i].operand];
        if (operand->op == OP_STATE && operand->index == state && schedule->groups[i].phase > last)
            last = schedule->groups[i].phase;
    }
    for (int phase = last + 1; phase < cell->phase_count; phase++)
        for (int i = 0; i < cell->graph.count; i++) {
            const Node *node = &cell->graph.nodes[i];
            if (node->op == OP_STATE && node->index == state &&
                schedule->needed[phase * cell->graph.count + i])
                last = phase;
        }
    return last;
}

/// The phase that writes `state`, not before `from`; a further phase where none is left.
static int place_state(Schedule *schedule, int state, int from)
{
    Domain domain = schedule->cell->states[state].domain;
    int phase = phase_with(schedule, from, domain);
    return phase >= 0 ? phase : add_phase(schedule, domain);
}

static void place_states(Schedule *schedule)
{
    Cell *cell = schedule->cell;
    for (int i = 0; i < cell->state_count; i++)
        schedule->placement[i] = place_state(schedule, i, schedule->earliest[cell->states[i].next]);
    for (bool moved = true; moved && !schedule->too_many;) {
        moved = false;
        find_needs(schedule);
        for (int i = 0; i < cell->state_count; i++) {
            int reader = last_reader(schedule, i);
            if (reader <= schedule->placement[i])
                continue;
            schedule->placement[i] = place_state(schedule, i, reader);
            moved = true;
        }
    }
}

static void write_cell(Schedule *schedule)
{
    Cell *cell = schedule->cell;
    for (int phase = 0; phase < cell->phase_count; phase++)
        for (int i = 0; i < cell->graph.count; i++)
            if (schedule->is_carried[i] && schedule->first[i] == phase) {
                CellCarry one = {i, domain_of(schedule, i), phase, schedule->last[i]};
                ARENA_PUSH(schedule->arena, cell->carries, cell->carry_count, one);
            }
    for (int i = 0; i < schedule->group_count; i++) {
        const Group *group = &schedule->groups[i];
        CellPhase *phase = &cell->phases[group->phase];
        phase->operand_is_state = is_state(schedule, group->operand);
        phase->operand = phase->operand_is_state
                             ? cell->graph.nodes[group->operand].index
                             : cell_carry_before(cell, group->operand, group->phase);
    }
    for (int i = 0; i < cell->state_count; i++) {
        CellPhase *phase = &cell->phases[schedule->placement[i]];
        phase->states[phase->state_count++] = i;
    }
}

bool cell_schedule(Arena *arena, Diags *diags, Cell *cell)
{
    int count = cell->graph.count;
    Schedule schedule = {.arena = arena,
                         .cell = cell,
                         .domains = cell_node_domains(arena, cell),
                         .reached = find_reached(arena, cell),
                         .norm_phases = ARENA_ARRAY(arena, int, cell->norm_count + 1),
                         .before = ARENA_ARRAY(arena, int, count),
                         .earliest = ARENA_ARRAY(arena, int, count),
                         .is_carried = ARENA_ARRAY(arena, bool, count),
                         .first = ARENA_ARRAY(arena, int, count),
                         .last = ARENA_ARRAY(arena, int, count),
                         .needed = ARENA_ARRAY(arena, bool, CELL_PHASES_MAX *count)};
    cell->phase_count = cell->carry_count = 0;
    for (int i = 0; i < cell->norm_count; i++)
        schedule.norm_phases[i] = -1;
    group_products(&schedule);
    order_groups(&schedule);
    if (!schedule.too_many)
        place_states(&schedule);
    if (schedule.too_many) {
        diag_add(diags, DIAG_E0315, (Span){cell->source, 0, 0, 0},
                 "cell '%s' needs more than %d products%s one after the other", cell->name,
                 CELL_PHASES_MAX, cell->norm_count ? " and norms" : "");
        return false;
    }
    write_cell(&schedule);
    return true;
}
