// Schedule. Products with one operand form a group; a group runs as soon as its operand is there,
// one group a phase. A value that depends on a product belongs to the phase of the last product
// under it; a later phase reads it from a carry. What depends on no product is computed where it is
// read.
#include "cell/schedule.h"

#include <string.h>

#include "cell/cell_parse.h"

enum { NEUTRAL = -1, FREE = -1, BLOCKED = -2 };

static int leaf_domain(const Cell *cell, const Node *node)
{
    if (node->op == OP_CONST)
        return NEUTRAL;
    if (node->op == OP_STATE)
        return (int)cell->states[node->index].domain;
    bool projected = node->op == OP_PRODUCT && node->index == PRODUCT_OF_PROJECTION;
    return projected ? DOMAIN_PROJECTION : DOMAIN_UNITS;
}

/// Domains of all nodes; returns the first node whose operands disagree, or -1.
static int infer_domains(const Cell *cell, int *domains)
{
    int conflict = -1;
    for (int i = 0; i < cell->graph.count; i++) {
        const Node *node = &cell->graph.nodes[i];
        domains[i] = op_arity(node->op) ? NEUTRAL : leaf_domain(cell, node);
        for (int k = 0; k < op_arity(node->op); k++) {
            int domain = domains[node->args[k]];
            if (domain != NEUTRAL && domains[i] != NEUTRAL && domain != domains[i] && conflict < 0)
                conflict = i;
            if (domain != NEUTRAL)
                domains[i] = domain;
        }
    }
    return conflict;
}

static bool settle_domains(Diags *diags, Cell *cell, int *domains)
{
    infer_domains(cell, domains);
    for (int i = 0; i < cell->state_count; i++)
        if (domains[cell->states[i].next] == DOMAIN_PROJECTION)
            cell->states[i].domain = DOMAIN_PROJECTION;
    int conflict = infer_domains(cell, domains);
    if (conflict < 0)
        return true;
    const char *name = cell->graph.nodes[conflict].name;
    Diag *diag = diag_add(diags, DIAG_E0310, (Span){.source = cell->source},
                          "'%s' mixes vectors of H units with vectors of P projection units",
                          name ? name : "an expression");
    diag_help(diag, "P*v turns a vector of H units into one of P; a state that it defines has P");
    return false;
}

const int *cell_node_phases(Arena *arena, const Cell *cell)
{
    int *phases = ARENA_ARRAY(arena, int, cell->graph.count);
    for (int i = 0; i < cell->graph.count; i++) {
        const Node *node = &cell->graph.nodes[i];
        phases[i] = FREE;
        for (int k = 0; k < op_arity(node->op); k++) {
            int under = phases[node->args[k]];
            if (under == BLOCKED || phases[i] == BLOCKED)
                phases[i] = BLOCKED;
            else if (under > phases[i])
                phases[i] = under;
        }
        if (node->op != OP_PRODUCT)
            continue;
        phases[i] = BLOCKED;
        bool of_p = node->index == PRODUCT_OF_PROJECTION;
        for (int p = 0; p < cell->phase_count; p++)
            for (int row = 0; row < cell->phases[p].row_count; row++) {
                bool is_p = cell->phases[p].matrix == MATRIX_P;
                if (of_p == is_p && (is_p || cell->phases[p].rows[row] == node->index))
                    phases[i] = p;
            }
    }
    return phases;
}

/// The next product that no phase computes yet and whose operand is there: first one of a state,
/// since it needs nothing before it. -1: none.
static int next_product(const Cell *cell, const int *node_phases)
{
    int found = -1;
    for (int i = 0; i < cell->graph.count; i++) {
        const Node *node = &cell->graph.nodes[i];
        if (node->op != OP_PRODUCT || node_phases[i] != BLOCKED)
            continue;
        if (cell->graph.nodes[node->args[0]].op == OP_STATE)
            return i;
        if (node_phases[node->args[0]] != BLOCKED && found < 0)
            found = i;
    }
    return found;
}

static int add_carry(Cell *cell, int node, Domain domain, int first_phase, int last_phase)
{
    int index = cell_find_carry(cell, node);
    if (index < 0) {
        CellCarry carry = {node, domain, first_phase, last_phase};
        ARENA_PUSH(cell->graph.arena, cell->carries, cell->carry_count, carry);
        return cell->carry_count - 1;
    }
    if (cell->carries[index].last_phase < last_phase)
        cell->carries[index].last_phase = last_phase;
    return index;
}

int cell_find_carry(const Cell *cell, int node)
{
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].node == node)
            return i;
    return -1;
}

/// Appends the phase of all products with the operand of `product`.
static void add_phase(Cell *cell, const int *domains, const int *node_phases, int product)
{
    const Node *first = &cell->graph.nodes[product];
    int operand = first->args[0];
    bool is_p = first->index == PRODUCT_OF_PROJECTION;
    bool is_state = cell->graph.nodes[operand].op == OP_STATE;
    if (!is_state && node_phases[operand] == FREE && cell->phase_count == 0)
        cell->phase_count++; // a phase without product computes the operand
    int index = cell->phase_count++;
    CellPhase *phase = &cell->phases[index];
    *phase = (CellPhase){.matrix = is_p ? MATRIX_P : MATRIX_R,
                         .operand_is_state = is_state,
                         .operand_domain = domains[operand] == DOMAIN_PROJECTION ? DOMAIN_PROJECTION
                                                                                 : DOMAIN_UNITS,
                         .domain = is_p ? DOMAIN_PROJECTION : DOMAIN_UNITS};
    if (is_state)
        phase->operand = cell->graph.nodes[operand].index;
    else
        phase->operand = add_carry(cell, operand, phase->operand_domain,
                                   node_phases[operand] > 0 ? node_phases[operand] : 0, index);
    for (int gate = 0; gate < CELL_GATES_MAX; gate++)
        for (int i = 0; i < cell->graph.count; i++) {
            const Node *node = &cell->graph.nodes[i];
            bool same_matrix =
                node->op == OP_PRODUCT && (node->index == PRODUCT_OF_PROJECTION) == is_p;
            if (same_matrix && node->args[0] == operand && (is_p ? gate == 0 : node->index == gate))
                phase->rows[phase->row_count++] = is_p ? 0 : gate;
        }
}

static void mark(const Cell *cell, const int *node_phases, int phase, int node, bool *needed)
{
    if (needed[node])
        return;
    needed[node] = true;
    bool earlier = node_phases[node] != FREE && node_phases[node] < phase;
    for (int k = 0; !earlier && k < op_arity(cell->graph.nodes[node].op); k++)
        mark(cell, node_phases, phase, cell->graph.nodes[node].args[k], needed);
}

void cell_phase_nodes(const Cell *cell, const int *node_phases, int phase, bool *needed)
{
    memset(needed, 0, sizeof *needed * (size_t)cell->graph.count);
    for (int i = 0; i < cell->phases[phase].state_count; i++)
        mark(cell, node_phases, phase, cell->states[cell->phases[phase].states[i]].next, needed);
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == phase)
            mark(cell, node_phases, phase, cell->carries[i].node, needed);
}

/// Gives each state to the phase that computes it: not before its value of the last step is read
/// for the last time, and in a phase of its own domain.
static void place_states(Cell *cell, const int *node_phases)
{
    for (int s = 0; s < cell->state_count; s++) {
        int at = node_phases[cell->states[s].next];
        for (int p = 0; p < cell->phase_count; p++) {
            const CellPhase *phase = &cell->phases[p];
            bool reads = phase->row_count && phase->operand_is_state && phase->operand == s;
            if ((reads || at < 0) && p > at && phase->domain == cell->states[s].domain)
                at = p;
        }
        for (int i = 0; i < cell->graph.count; i++) {
            const Node *node = &cell->graph.nodes[i];
            for (int k = 0; k < op_arity(node->op); k++) {
                const Node *leaf = &cell->graph.nodes[node->args[k]];
                if (leaf->op == OP_STATE && leaf->index == s && node_phases[i] > at &&
                    cell->phases[node_phases[i]].domain == cell->states[s].domain)
                    at = node_phases[i];
            }
        }
        CellPhase *phase = &cell->phases[at < 0 ? 0 : at];
        phase->states[phase->state_count++] = s;
    }
}

/// Everything that a phase reads from an earlier one becomes a carry. Latest phases first: what
/// they need may need more of those before.
static void find_carries(Cell *cell, const int *domains, const int *node_phases)
{
    bool *needed = ARENA_ARRAY(cell->graph.arena, bool, cell->graph.count);
    for (int phase = cell->phase_count - 1; phase >= 0; phase--) {
        cell_phase_nodes(cell, node_phases, phase, needed);
        for (int i = 0; i < cell->graph.count; i++)
            if (needed[i] && node_phases[i] != FREE && node_phases[i] < phase)
                add_carry(cell, i,
                          domains[i] == DOMAIN_PROJECTION ? DOMAIN_PROJECTION : DOMAIN_UNITS,
                          node_phases[i], phase);
    }
}

bool cell_schedule(Diags *diags, Cell *cell)
{
    Arena *arena = cell->graph.arena;
    int *domains = ARENA_ARRAY(arena, int, cell->graph.count);
    if (!settle_domains(diags, cell, domains))
        return false;
    const int *node_phases = cell_node_phases(arena, cell);
    for (int product; (product = next_product(cell, node_phases)) >= 0;) {
        if (cell->phase_count >= CELL_PHASES_MAX - 1) {
            diag_add(diags, DIAG_E0312, (Span){.source = cell->source},
                     "a step of this cell needs more than %d products one after another",
                     CELL_PHASES_MAX - 1);
            return false;
        }
        add_phase(cell, domains, node_phases, product);
        node_phases = cell_node_phases(arena, cell);
    }
    if (cell->phase_count == 0)
        cell->phase_count = 1; // without any product: one pointwise function
    place_states(cell, node_phases);
    find_carries(cell, domains, node_phases);
    return true;
}
