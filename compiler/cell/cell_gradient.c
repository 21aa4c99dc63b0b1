// Gradient: see cell_gradient.h. All adjoints come from one differentiation of the step's graph,
// whose outputs are the states after the step, the vectors that products multiply, and the members
// of norms. A seed is there from some stage on; so is what depends on it.
#include "cell/cell_gradient.h"

#include <assert.h>

#include "cell/cell_schedule.h"
#include "cell/cut.h"
#include "cell/expression.h"

typedef struct {
    Arena *arena;
    Cell *cell;
    CellGradient *gradient;
    int64_t units, projection;
    int *adjoints; ///< of those that are leaves; constant 0 for the others
    int *ready;    ///< first stage in which a node can be had; -1: depends on no seed
    CellStage stages[CELL_STAGES_MAX]; ///< one for each phase, and two more
    int placed[CELL_STAGES_MAX];       ///< the place of each among those that are used
} Derivation;

int64_t cell_domain_size(Domain domain, int64_t units, int64_t projection)
{
    return domain == DOMAIN_PROJECTION ? projection : units;
}

int cell_seed_of_operand(const Cell *cell, int phase)
{
    return cell->state_count + phase;
}

int cell_seed_of_norm(const Cell *cell, int norm)
{
    return cell->state_count + cell->phase_count + 2 * norm;
}

int cell_seed_count(const Cell *cell)
{
    return cell_seed_of_norm(cell, cell->norm_count);
}

int cell_saved_operand(const Cell *cell, int phase)
{
    const CellPhase *of = &cell->phases[phase];
    int at = 0;
    if (of->operand_is_state)
        return of->operand;
    while (cell->gradient->saved[at].node != cell->carries[of->operand].node)
        at++; // it is among them, see keep_operands
    return at;
}

static int seed_node(Cell *cell, int index)
{
    return graph_add(&cell->graph, (Node){.op = OP_SEED, .index = index});
}

static int statistic_node(Cell *cell, int index)
{
    return graph_add(&cell->graph, (Node){.op = OP_STATISTIC, .index = index});
}

/// The adjoint of a norm's member v: M - S*(v - mean)*rstd^3 (see graph_differentiate).
static int member_seed(Cell *cell, const CellNorm *norm, int member)
{
    Graph *graph = &cell->graph;
    const int sum = cell_seed_of_norm(cell, norm->number);
    const int mean = statistic_node(cell, 2 * norm->number);
    const int scale = statistic_node(cell, 2 * norm->number + 1);
    const int cube = graph_op(graph, OP_MUL, graph_op(graph, OP_MUL, scale, scale, 0), scale, 0);
    const int apart = graph_op(graph, OP_SUB, member, mean, 0);
    const int share = graph_op(graph, OP_MUL, seed_node(cell, sum + 1),
                               graph_op(graph, OP_MUL, apart, cube, 0), 0);
    return graph_op(graph, OP_SUB, seed_node(cell, sum), share, 0);
}

/// What the adjoints start from.
typedef struct {
    int *nodes, *seeds;
    int count;
} Outputs;

static void add_output(const Derivation *of, Outputs *outputs, int node, int seed)
{
    int count = outputs->count;
    ARENA_PUSH(of->arena, outputs->nodes, count, node);
    ARENA_PUSH(of->arena, outputs->seeds, outputs->count, seed);
}

static Outputs find_outputs(Derivation *of)
{
    Cell *cell = of->cell;
    Outputs outputs = {0};
    for (int i = 0; i < cell->state_count; i++)
        add_output(of, &outputs, cell->states[i].trained_next, seed_node(cell, i));
    for (int p = 0; p < cell->phase_count; p++)
        if (cell->phases[p].row_count && !cell->phases[p].operand_is_state)
            add_output(of, &outputs, cell->carries[cell->phases[p].operand].node,
                       seed_node(cell, cell_seed_of_operand(cell, p)));
    for (int n = 0; n < cell->norm_count; n++)
        for (int k = 0; k < cell->norms[n].member_count; k++)
            add_output(of, &outputs, cell->norms[n].members[k],
                       member_seed(cell, &cell->norms[n], cell->norms[n].members[k]));
    return outputs;
}

static bool is_derived_by(const Node *node)
{
    return op_arity(node->op) == 0 && node->op != OP_CONST && node->op != OP_SEED &&
           node->op != OP_DRAW;
}

static void differentiate(Derivation *of)
{
    Graph *graph = &of->cell->graph;
    const Outputs outputs = find_outputs(of);
    int *leaves = ARENA_ARRAY(of->arena, int, graph->count);
    int *found = ARENA_ARRAY(of->arena, int, graph->count);
    int count = 0;
    for (int i = 0; i < graph->count; i++)
        if (is_derived_by(&graph->nodes[i]))
            leaves[count++] = i;
    const int zero = graph_constant(graph, 0), known = graph->count;
    of->adjoints = ARENA_ARRAY(of->arena, int, known);
    for (int i = 0; i < known; i++)
        of->adjoints[i] = zero;
    const bool complete = graph_differentiate(graph, outputs.nodes, outputs.seeds, outputs.count,
                                              leaves, count, found);
    assert(complete); // every statistic is among the leaves
    (void)complete;
    for (int i = 0; i < count; i++)
        of->adjoints[leaves[i]] = found[i];
}

static int stage_of_phase(const Derivation *of, int phase)
{
    return of->cell->phase_count - 1 - phase;
}

/// The stage from which on a seed is there.
static int seed_stage(const Derivation *of, int index)
{
    const Cell *cell = of->cell;
    if (index < cell->state_count)
        return 0;
    if (index < cell_seed_of_norm(cell, 0))
        return stage_of_phase(of, index - cell->state_count) + 1;
    for (int p = 0; p < cell->phase_count; p++)
        for (int n = 0; n < cell->phases[p].norm_count; n++)
            if (cell->phases[p].norms[n].number == (index - cell_seed_of_norm(cell, 0)) / 2)
                return stage_of_phase(of, p);
    return 0;
}

static void find_ready(Derivation *of)
{
    const Graph *graph = &of->cell->graph;
    of->ready = ARENA_ARRAY(of->arena, int, graph->count);
    for (int i = 0; i < graph->count; i++) {
        const Node *node = &graph->nodes[i];
        of->ready[i] = node->op == OP_SEED ? seed_stage(of, node->index) : -1;
        for (int k = 0; k < op_arity(node->op); k++)
            if (of->ready[node->args[k]] > of->ready[i])
                of->ready[i] = of->ready[node->args[k]];
    }
}

static bool is_zero(const Derivation *of, int node)
{
    const Node *at = &of->cell->graph.nodes[node];
    return at->op == OP_CONST && at->value == 0;
}

/// The adjoint of a leaf; 0 where the cell has no such leaf.
static int adjoint_of(const Derivation *of, Op op, int index)
{
    const Graph *graph = &of->cell->graph;
    for (int i = 0; i < graph->count; i++) {
        if (graph->nodes[i].op == op && graph->nodes[i].index == index &&
            is_derived_by(&graph->nodes[i]))
            return of->adjoints[i];
    }
    return graph_constant(&of->cell->graph, 0);
}

/// The first stage over `domain` in which the node can be had.
static int stage_for(const Derivation *of, int node, Domain domain)
{
    const int phases = of->cell->phase_count;
    for (int i = of->ready[node] < 0 ? 0 : of->ready[node]; i < phases; i++)
        if (of->stages[i].domain == domain)
            return i;
    return domain == DOMAIN_UNITS ? phases : phases + 1;
}

static int push_delta(Derivation *of, int node, Domain domain, int stage)
{
    CellGradient *gradient = of->gradient;
    const CellDelta delta = {node, domain, stage};
    ARENA_PUSH(of->arena, gradient->deltas, gradient->delta_count, delta);
    return gradient->delta_count - 1;
}

/// The deltas of the phases' products, each phase's together.
static void add_products(Derivation *of)
{
    const Cell *cell = of->cell;
    for (int p = cell->phase_count - 1; p >= 0; p--) {
        const CellPhase *phase = &cell->phases[p];
        CellStage *stage = &of->stages[stage_of_phase(of, p)];
        *stage = (CellStage){.phase = phase->row_count ? p : -1,
                             .first_delta = of->gradient->delta_count,
                             .domain = phase->domain,
                             .norms = phase->norms,
                             .norm_count = phase->norm_count};
        for (int i = 0; i < phase->row_count; i++) {
            const int index = phase->matrix == MATRIX_P ? CELL_GATES_MAX : phase->rows[i];
            of->gradient->product[index] = push_delta(of, adjoint_of(of, OP_PRODUCT, index),
                                                      phase->domain, stage_of_phase(of, p));
        }
    }
    for (int i = 0; i < 2; i++)
        of->stages[cell->phase_count + i] =
            (CellStage){.phase = -1, .domain = i ? DOMAIN_PROJECTION : DOMAIN_UNITS};
}

/// The deltas of one family of leaves, which are those of products where they are the same.
static void add_family(Derivation *of, Op op, int count, int *out)
{
    for (int gate = 0; gate < count; gate++) {
        const int node = adjoint_of(of, op, gate);
        out[gate] = -1;
        for (int i = 0; i < of->gradient->delta_count && out[gate] < 0; i++)
            if (of->gradient->deltas[i].node == node &&
                of->gradient->deltas[i].domain == DOMAIN_UNITS && !is_zero(of, node))
                out[gate] = i;
        if (out[gate] < 0 && !is_zero(of, node))
            out[gate] = push_delta(of, node, DOMAIN_UNITS, stage_for(of, node, DOMAIN_UNITS));
    }
}

static void add_states(Derivation *of)
{
    for (int i = 0; i < of->cell->state_count; i++) {
        const int node = adjoint_of(of, OP_STATE, i);
        of->gradient->adjoints[i] = node;
        of->stages[stage_for(of, node, of->cell->states[i].domain)].states |= 1u << i;
    }
}

static bool is_used(const Derivation *of, int stage)
{
    const CellStage *at = &of->stages[stage];
    bool used = at->phase >= 0 || at->states || at->norm_count > 0;
    for (int i = 0; i < of->gradient->delta_count; i++)
        used |= of->gradient->deltas[i].stage == stage;
    return used;
}

static void keep_used_stages(Derivation *of)
{
    CellGradient *gradient = of->gradient;
    for (int i = 0; i < of->cell->phase_count + 2; i++) {
        of->placed[i] = gradient->stage_count;
        if (is_used(of, i))
            gradient->stages[gradient->stage_count++] = of->stages[i];
    }
    for (int i = 0; i < gradient->delta_count; i++)
        gradient->deltas[i].stage = of->placed[gradient->deltas[i].stage];
}

static void add_deltas(Derivation *of)
{
    const Cell *cell = of->cell;
    CellGradient *gradient = of->gradient;
    for (int i = 0; i <= CELL_GATES_MAX; i++)
        gradient->product[i] = -1;
    gradient->statistics = ARENA_ARRAY(of->arena, int, 2 * cell->norm_count + 1);
    for (int i = 0; i < 2 * cell->norm_count; i++)
        gradient->statistics[i] = adjoint_of(of, OP_STATISTIC, i);
    add_products(of);
    add_family(of, OP_INPUT, cell->W.count, gradient->input);
    gradient->read_deltas = gradient->delta_count;
    add_family(of, OP_BIAS, cell->b.count, gradient->bias);
    add_family(of, OP_RECURRENT_BIAS, cell->rb.count, gradient->recurrent_bias);
    add_family(of, OP_PARAMETER, cell->p.count, gradient->parameter);
    add_states(of);
    keep_used_stages(of);
}

/// Marks what must come from the forward step for `node`: values that depend on no seed.
static void want(const Derivation *of, int node, bool *wanted, bool *visited)
{
    const Node *at = &of->cell->graph.nodes[node];
    if (visited[node])
        return;
    visited[node] = true;
    if (of->ready[node] < 0)
        wanted[node] = at->op != OP_CONST;
    for (int k = 0; of->ready[node] >= 0 && k < op_arity(at->op); k++)
        want(of, at->args[k], wanted, visited);
}

static const bool *find_wanted(const Derivation *of)
{
    const CellGradient *gradient = of->gradient;
    const int count = of->cell->graph.count;
    bool *wanted = ARENA_ARRAY(of->arena, bool, count),
         *visited = ARENA_ARRAY(of->arena, bool, count);
    for (int i = 0; i < gradient->delta_count; i++)
        want(of, gradient->deltas[i].node, wanted, visited);
    for (int i = 0; i < of->cell->state_count; i++)
        want(of, gradient->adjoints[i], wanted, visited);
    for (int i = 0; i < 2 * of->cell->norm_count; i++)
        want(of, gradient->statistics[i], wanted, visited);
    return wanted;
}

/// The phase from which on each node can be had; 0 for what needs no product.
static const int *find_phases(const Derivation *of)
{
    const Cell *cell = of->cell;
    int *phases = ARENA_ARRAY(of->arena, int, cell->graph.count);
    for (int i = 0; i < cell->graph.count; i++) {
        const Node *node = &cell->graph.nodes[i];
        for (int p = 0; p < cell->phase_count; p++) {
            const CellPhase *phase = &cell->phases[p];
            for (int r = 0; r < phase->row_count && node->op == OP_PRODUCT; r++)
                if (node->index == (phase->matrix == MATRIX_P ? CELL_GATES_MAX : phase->rows[r]))
                    phases[i] = p;
            for (int n = 0; n < phase->norm_count && node->op == OP_STATISTIC; n++)
                if (phase->norms[n].number == node->index / 2)
                    phases[i] = p;
        }
        for (int k = 0; k < op_arity(node->op); k++)
            if (phases[node->args[k]] > phases[i])
                phases[i] = phases[node->args[k]];
    }
    return phases;
}

/// The first phase, not before `from`, over that domain, or -1.
static int phase_for(const Cell *cell, int from, int domain)
{
    for (int p = from; p < cell->phase_count; p++)
        if ((int)cell->phases[p].domain == domain)
            return p;
    return -1;
}

/// Sets what is free while the states of `mask` are saved.
static void set_free(const Derivation *of, unsigned mask, bool *is_free)
{
    const Cell *cell = of->cell;
    for (int i = 0; i < cell->graph.count; i++) {
        const Node *node = &cell->graph.nodes[i];
        is_free[i] = node->op == OP_CONST || node->op == OP_BIAS || node->op == OP_RECURRENT_BIAS ||
                     node->op == OP_PARAMETER || node->op == OP_STATISTIC || node->op == OP_DRAW ||
                     (node->op == OP_STATE && (mask >> node->index & 1));
    }
    for (int i = 0; i < cell->state_count; i++)
        if (mask >> i & 1)
            is_free[cell->states[i].trained_next] = true;
}

/// States that products multiply: their matrices' gradients need them.
static unsigned operand_states(const Cell *cell)
{
    unsigned states = 0;
    for (int p = 0; p < cell->phase_count; p++)
        if (cell->phases[p].row_count && cell->phases[p].operand_is_state)
            states |= 1u << cell->phases[p].operand;
    return states;
}

static int64_t state_elems(const Derivation *of, unsigned mask)
{
    int64_t elems = 0;
    for (int i = 0; i < of->cell->state_count; i++)
        if (mask >> i & 1)
            elems += cell_domain_size(of->cell->states[i].domain, of->units, of->projection);
    return elems;
}

/// Vectors that products multiply and that are no states are needed by their matrices' gradients.
static void keep_operands(const Derivation *of, bool *is_kept)
{
    const Cell *cell = of->cell;
    for (int p = 0; p < cell->phase_count; p++)
        if (cell->phases[p].row_count && !cell->phases[p].operand_is_state)
            is_kept[cell->carries[cell->phases[p].operand].node] = true;
}

static void choose_saved(Derivation *of)
{
    const Cell *cell = of->cell;
    const int count = cell->graph.count;
    const bool *wanted = find_wanted(of);
    const int *domains = cell_node_domains(of->arena, cell), *phases = find_phases(of);
    bool *is_free = ARENA_ARRAY(of->arena, bool, count),
         *kept = ARENA_ARRAY(of->arena, bool, count);
    bool *best = ARENA_ARRAY(of->arena, bool, count), *always = ARENA_ARRAY(of->arena, bool, count);
    int64_t *costs = ARENA_ARRAY(of->arena, int64_t, count), least = -1;
    const unsigned needed = operand_states(cell);
    keep_operands(of, always);
    for (int i = 0; i < count; i++) {
        const bool can = cell->graph.nodes[i].op != OP_STATE && of->ready[i] < 0 &&
                         phase_for(cell, phases[i], domains[i]) >= 0;
        costs[i] = can ? cell_domain_size((Domain)domains[i], of->units, of->projection) : -1;
    }
    for (unsigned mask = 1u << cell->state_count; mask-- > 0;) {
        if ((mask & needed) != needed)
            continue;
        set_free(of, mask, is_free);
        for (int i = 0; i < count; i++)
            is_free[i] |= always[i];
        const Cut cut = {&cell->graph, wanted, is_free, costs};
        const int64_t cost = graph_cut(&cut, kept), total = cost + state_elems(of, mask);
        if (cost < 0 || (least >= 0 && total >= least))
            continue;
        least = total;
        for (int i = 0; i < count; i++)
            best[i] = kept[i] || always[i];
        for (int i = 0; i < cell->state_count; i++)
            of->gradient->is_state_saved[i] = mask >> i & 1;
    }
    assert(least >= 0); // all states and products can be saved
    of->gradient->step_elems = least + 2 * cell->norm_count;
    for (int i = 0; i < count; i++) {
        if (!best[i])
            continue;
        const CellSaved saved = {i, (Domain)domains[i], phase_for(cell, phases[i], domains[i])};
        ARENA_PUSH(of->arena, of->gradient->saved, of->gradient->saved_count, saved);
        if (always[i])
            of->gradient->step_elems += costs[i];
    }
}

void cell_derive(Arena *arena, Cell *cell, int64_t units, int64_t projection)
{
    Derivation of = {.arena = arena,
                     .cell = cell,
                     .gradient = ARENA_NEW(arena, CellGradient),
                     .units = units,
                     .projection = projection};
    differentiate(&of);
    find_ready(&of);
    add_deltas(&of);
    choose_saved(&of);
    cell->gradient = of.gradient;
}
