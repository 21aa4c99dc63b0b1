// Zoneout: see cell_zoneout.h.
#include "cell/cell_zoneout.h"

static void report_unknown(Diags *diags, const Cell *cell, const CellBinding *binding, int index)
{
    Text names = {.arena = cell->graph.arena};
    for (int i = 0; i < cell->state_count; i++)
        text_addf(&names, "%s%s", i ? ", " : "", cell->states[i].name);
    Diag *diag =
        diag_add(diags, DIAG_E0318, binding->zoneout_spans[index],
                 "the cell '%s' has no state '%s'", cell->name, binding->zoneout_states[index]);
    diag_help(diag, "its states: %s", text_string(&names));
}

/// Training: the old value where `draw` is not 0.
static int kept(Graph *graph, int state, int next)
{
    int draw = graph_add(graph, (Node){.op = OP_DRAW, .index = state});
    int old = graph_add(graph, (Node){.op = OP_STATE, .index = state});
    return graph_op(graph, OP_SELECT, draw, old, next);
}

static int zoned_out(Graph *graph, int state, int next, double rate)
{
    int old = graph_add(graph, (Node){.op = OP_STATE, .index = state});
    int old_share = graph_op(graph, OP_MUL, graph_constant(graph, rate), old, 0);
    int share = graph_op(graph, OP_MUL, graph_constant(graph, 1 - rate), next, 0);
    return graph_op(graph, OP_ADD, old_share, share, 0);
}

bool cell_zone_out(Diags *diags, Cell *cell, const CellBinding *binding)
{
    double rates[CELL_STATES_MAX] = {0};
    bool all_known = true;
    for (int i = 0; i < binding->zoneout_count; i++) {
        const char *wanted = binding->zoneout_states[i];
        bool is_known = !wanted;
        for (int k = 0; k < cell->state_count; k++)
            if (!wanted || text_equal(wanted, cell->states[k].name)) {
                rates[k] = binding->zoneout_rates[i];
                is_known = true;
            }
        if (!is_known)
            report_unknown(diags, cell, binding, i);
        all_known &= is_known;
    }
    for (int i = 0; i < cell->state_count; i++) {
        CellState *state = &cell->states[i];
        state->zoneout = rates[i];
        state->trained_next = state->next;
        if (rates[i] == 0)
            continue;
        if (binding->trains)
            state->trained_next = kept(&cell->graph, i, state->next);
        state->next = zoned_out(&cell->graph, i, state->next, rates[i]);
    }
    return all_known;
}
