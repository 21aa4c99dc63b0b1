// Cell numbers: see cell_numbers.h.
#include "emit/cell_numbers.h"

void emit_number(Text *out, const char *name, int64_t value)
{
    text_addf(out, "#define RNN_%s %lld\n", name, (long long)value);
}

static void print_phase(const Layer *layer, int number, Text *out)
{
    const Cell *cell = layer->cell;
    const CellPhase *phase = &cell->phases[number];
    const bool multiplies = phase->row_count > 0;
    unsigned states = 0, carries = 0;
    for (int i = 0; i < phase->state_count; i++)
        states |= 1u << phase->states[i];
    for (int i = 0; i < cell->carry_count; i++)
        if (cell->carries[i].first_phase == number)
            carries |= 1u << i;
    text_addf(out, " \\\n    {%s, %d, {",
              multiplies && phase->matrix == MATRIX_P ? "RNN_MATRIX_P" : "RNN_MATRIX_R",
              phase->row_count);
    for (int i = 0; i < phase->row_count; i++)
        text_addf(out, i ? ", %d" : "%d", phase->rows[i]);
    text_addf(out, "%s}, %d, %d, %lld, %lld, 0x%x, 0x%x, %lld, {", multiplies ? "" : "0",
              multiplies && phase->operand_is_state, multiplies ? phase->operand : 0,
              multiplies ? (long long)layer_domain_size(layer, phase->operand_domain) : 0,
              (long long)layer_domain_size(layer, phase->domain), states, carries,
              multiplies && phase->matrix == MATRIX_R ? (long long)layer->heads : 1);
    for (int i = 0; i < phase->norm_count; i++)
        text_addf(out, "%d, ", phase->norms[i].member_count);
    text_add(out, "0}},");
}

/// The most norms of a phase, and the most members of all its norms.
static void print_norms(const Cell *cell, Text *out)
{
    int norms = 0, members = 0;
    for (int i = 0; i < cell->phase_count; i++) {
        const CellPhase *phase = &cell->phases[i];
        int count = 0;
        for (int n = 0; n < phase->norm_count; n++)
            count += phase->norms[n].member_count;
        norms = phase->norm_count > norms ? phase->norm_count : norms;
        members = count > members ? count : members;
    }
    emit_number(out, "NORMS", norms);
    emit_number(out, "MEMBERS", members);
}

static void print_phases(const Layer *layer, Text *out)
{
    const Cell *cell = layer->cell;
    emit_number(out, "PHASE_COUNT", cell->phase_count);
    text_add(out, "#define RNN_PHASES(PHASE)");
    for (int i = 0; i < cell->phase_count; i++)
        text_addf(out, " PHASE(%d)", i);
    text_add(out, "\n#define RNN_PHASE_ROWS");
    for (int i = 0; i < cell->phase_count; i++)
        print_phase(layer, i, out);
    text_add(out, "\n");
}

static void print_sizes(Text *out, const char *name, const Layer *layer, const Domain *domains,
                        int count)
{
    text_addf(out, "#define RNN_%s", name);
    for (int i = 0; i < count; i++)
        text_addf(out, i ? ", %lld" : " %lld", (long long)layer_domain_size(layer, domains[i]));
    text_add(out, count ? "\n" : " 0\n");
}

void emit_cell_numbers(const Layer *layer, Text *out)
{
    const Cell *cell = layer->cell;
    Domain *domains = ARENA_ARRAY(out->arena, Domain, CELL_STATES_MAX + cell->carry_count);
    emit_number(out, "UNITS", layer->units);
    emit_number(out, "SEQUENCE_OUT", layer->sequence_out);
    emit_number(out, "REVERSED", layer->reversed);
    emit_number(out, "GO_BACKWARDS", layer->go_backwards);
    emit_number(out, "RECURRENT_DROPOUT", layer->recurrent_dropout > 0);
    print_norms(cell, out);
    emit_number(out, "GATES", cell->W.count);
    emit_number(out, "BIASES", cell->b.count);
    emit_number(out, "RECURRENT_BIASES", cell->rb.count);
    emit_number(out, "PARAMETERS", cell->p.count);
    emit_number(out, "STATES", cell->state_count);
    emit_number(out, "CARRIES", cell->carry_count);
    for (int i = 0; i < cell->state_count; i++)
        domains[i] = cell->states[i].domain;
    print_sizes(out, "STATE_SIZES", layer, domains, cell->state_count);
    for (int i = 0; i < cell->carry_count; i++)
        domains[i] = cell->carries[i].domain;
    print_sizes(out, "CARRY_SIZES", layer, domains, cell->carry_count);
    print_phases(layer, out);
}
