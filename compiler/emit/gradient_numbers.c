// Numbers of a cell's gradient, as #defines named RNN_*: see cell_numbers.h.
#include "cell/cell_gradient.h"
#include "emit/cell_numbers.h"

static int64_t size_of(const Layer *layer, Domain domain)
{
    return layer_domain_size(layer, domain);
}

/// `#define RNN_<name>` of a list, 0 where it is empty.
static void print_list(Text *out, const char *name, const int *values, int count)
{
    text_addf(out, "#define RNN_%s", name);
    for (int i = 0; i < count; i++)
        text_addf(out, i ? ", %d" : " %d", values[i]);
    text_add(out, count ? "\n" : " 0\n");
}

static void print_saved(const Layer *layer, const CellGradient *gradient, Text *out)
{
    int *phases = ARENA_ARRAY(out->arena, int, gradient->saved_count + 1);
    Text sizes = {.arena = out->arena}, floats = {.arena = out->arena};
    for (int i = 0; i < gradient->saved_count; i++) {
        const long long size = size_of(layer, gradient->saved[i].domain);
        phases[i] = gradient->saved[i].phase;
        text_addf(&sizes, i ? ", %lld" : "%lld", size);
        text_addf(&floats, " + RNN_PADDED(%lld)", size);
    }
    unsigned states = 0;
    for (int i = 0; i < layer->cell->state_count; i++)
        states |= (unsigned)gradient->is_state_saved[i] << i;
    emit_number(out, "SAVED", gradient->saved_count);
    text_addf(out, "#define RNN_SAVED_SIZES %s\n",
              gradient->saved_count ? text_string(&sizes) : "0");
    text_addf(out, "#define RNN_SAVED_FLOATS (0%s)\n", text_string(&floats));
    print_list(out, "SAVED_PHASES", phases, gradient->saved_count);
    emit_number(out, "STATES_SAVED", states);
}

/// By phase: the state that it multiplies, or the place of the vector among those saved.
static void print_operands(const Layer *layer, Text *out)
{
    const Cell *cell = layer->cell;
    int operands[CELL_PHASES_MAX] = {0};
    int64_t returned = 1;
    Text most = {.arena = out->arena};
    text_add(&most, "0");
    for (int p = 0; p < cell->phase_count; p++) {
        const CellPhase *phase = &cell->phases[p];
        const int64_t depth = size_of(layer, phase->operand_domain);
        if (phase->row_count == 0)
            continue;
        operands[p] = cell_saved_operand(cell, p);
        returned = depth > returned ? depth : returned;
        const int64_t heads = layer_phase_heads(layer, phase);
        text_addf(&most, " + %lld * RNN_MATRIX_FLOATS(INT64_C(%lld), %d * RNN_PADDED(%lld))",
                  (long long)heads, (long long)(depth / heads), phase->row_count,
                  (long long)(size_of(layer, phase->domain) / heads));
    }
    print_list(out, "SAVED_OPERANDS", operands, cell->phase_count);
    emit_number(out, "RETURNED_UNITS", returned);
    text_addf(out, "#define RNN_TRANSPOSED_MOST (%s)\n", text_string(&most));
}

static void print_deltas(const Layer *layer, const CellGradient *gradient, Text *out)
{
    const Cell *cell = layer->cell;
    int *stages = ARENA_ARRAY(out->arena, int, gradient->delta_count + 1);
    Text sizes = {.arena = out->arena}, floats = {.arena = out->arena};
    for (int i = 0; i < gradient->delta_count; i++) {
        const long long size = size_of(layer, gradient->deltas[i].domain);
        stages[i] = gradient->deltas[i].stage;
        text_addf(&sizes, i ? ", %lld" : "%lld", size);
        text_addf(&floats, " + RNN_PADDED(%lld)", size);
    }
    emit_number(out, "DELTAS", gradient->delta_count);
    text_addf(out, "#define RNN_DELTA_SIZES %s\n",
              gradient->delta_count ? text_string(&sizes) : "0");
    text_addf(out, "#define RNN_DELTA_FLOATS (0%s)\n", text_string(&floats));
    print_list(out, "DELTA_STAGES", stages, gradient->delta_count);
    print_list(out, "INPUT_DELTAS", gradient->input, cell->W.count);
    print_list(out, "BIAS_DELTAS", gradient->bias, cell->b.count);
    print_list(out, "RECURRENT_BIAS_DELTAS", gradient->recurrent_bias, cell->rb.count);
    print_list(out, "PARAMETER_DELTAS", gradient->parameter, cell->p.count);
}

static void print_stages(const Layer *layer, const CellGradient *gradient, Text *out)
{
    Text names = {.arena = out->arena}, sums = {.arena = out->arena};
    text_add(out, "#define RNN_STAGE_ROWS");
    for (int i = 0; i < gradient->stage_count; i++) {
        const CellStage *stage = &gradient->stages[i];
        text_addf(out, " \\\n    {%d, %d, %lld, 0x%x, {", stage->phase, stage->first_delta,
                  (long long)size_of(layer, stage->domain), stage->states);
        for (int n = 0; n < stage->norm_count; n++)
            text_addf(out, "%d, ", stage->norms[n].number);
        text_add(out, "0}, {");
        for (int n = 0; n < stage->norm_count; n++)
            text_addf(out, "%d, ", stage->norms[n].member_count);
        text_add(out, "0}},");
        text_addf(&names, " STAGE(%d)", i);
        if (stage->norm_count)
            text_addf(&sums, " STAGE(%d)", i);
    }
    text_addf(out, "\n#define RNN_STAGES(STAGE)%s\n", text_string(&names));
    text_addf(out, "#define RNN_SUM_STAGES(STAGE)%s\n", text_string(&sums));
    emit_number(out, "STAGE_COUNT", gradient->stage_count);
}

static void print_norms(const Cell *cell, Text *out)
{
    text_add(out, "#define RNN_PHASE_NORMS");
    for (int p = 0; p < cell->phase_count; p++) {
        text_add(out, p ? ", {" : " {");
        for (int n = 0; n < cell->phases[p].norm_count; n++)
            text_addf(out, "%d, ", cell->phases[p].norms[n].number);
        text_add(out, "}");
    }
    text_add(out, "\n");
    emit_number(out, "CELL_NORMS", cell->norm_count);
}

void emit_gradient_numbers(const Layer *layer, Text *out)
{
    const Cell *cell = layer->cell;
    bool zoneout = false;
    for (int i = 0; i < cell->state_count && cell->gradient; i++)
        zoneout |= cell->states[i].zoneout > 0;
    emit_number(out, "ZONEOUT", zoneout);
    if (!cell->gradient)
        return;
    text_add(out, "#define RNN_ZONEOUT_RATES");
    for (int i = 0; i < cell->state_count; i++)
        text_addf(out, "%s %.9ef", i ? "," : "", (double)(float)cell->states[i].zoneout);
    text_add(out, "\n");
    emit_number(out, "DROPOUT_INDEX", layer->dropout_index);
    emit_number(out, "SEEDS", cell_seed_count(cell));
    print_saved(layer, cell->gradient, out);
    print_operands(layer, out);
    print_deltas(layer, cell->gradient, out);
    print_stages(layer, cell->gradient, out);
    print_norms(cell, out);
}
