// CUDA code of one layer: the numbers of the model as defines and the cell's equations as generated
// functions, which specialise the skeletons of templates/cuda.
#include "emit/emit.h"

static void print_number(Text *out, const char *name, int64_t value)
{
    text_addf(out, "#define RNN_%s %lld\n", name, (long long)value);
}

/// The row of one phase, in the order of RnnPhase in templates/cuda/cell.cuh.
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
    text_addf(out, " \\\n    {%d, %d, {", multiplies && phase->matrix == MATRIX_P,
              phase->row_count);
    for (int i = 0; i < phase->row_count; i++)
        text_addf(out, i ? ", %d" : "%d", phase->rows[i]);
    text_addf(out, "%s}, %d, %d, %lld, %lld, 0x%x, 0x%x},", multiplies ? "" : "0",
              multiplies && phase->operand_is_state, multiplies ? phase->operand : 0,
              multiplies ? (long long)layer_domain_size(layer, phase->operand_domain) : 0,
              (long long)layer_domain_size(layer, phase->domain), states, carries);
}

static void print_phases(const Layer *layer, Text *out)
{
    const Cell *cell = layer->cell;
    print_number(out, "PHASE_COUNT", cell->phase_count);
    text_add(out, "#define RNN_PHASES(PHASE)");
    for (int i = 0; i < cell->phase_count; i++)
        text_addf(out, " PHASE(%d)", i);
    text_add(out, "\n#define RNN_PHASE_ROWS");
    for (int i = 0; i < cell->phase_count; i++)
        print_phase(layer, i, out);
    text_add(out, "\n");
}

static void print_sizes(Text *out, const char *counter, const char *name, const int64_t *sizes,
                        int count)
{
    print_number(out, counter, count);
    text_addf(out, "#define RNN_%s", name);
    for (int i = 0; i < count; i++)
        text_addf(out, i ? ", %lld" : " %lld", (long long)sizes[i]);
    text_add(out, count ? "\n" : " 0\n");
}

void emit_cuda_cell(const Layer *layer, Precision precision, Text *out)
{
    const Cell *cell = layer->cell;
    int64_t *sizes = ARENA_ARRAY(out->arena, int64_t, CELL_STATES_MAX + cell->carry_count);
    text_add(out, "#include \"cuda/prelude.cuh\"\n\n");
    print_number(out, "INPUTS", layer->inputs);
    print_number(out, "UNITS", layer->units);
    print_number(out, "OUTPUTS", layer->outputs);
    print_number(out, "SEQUENCE_OUT", layer->sequence_out);
    print_number(out, "PRECISION", precision);
    print_number(out, "GATES", cell->W.count);
    print_number(out, "INPUT_STRIDE", (cell->W.count * layer->units + 3) / 4 * 4);
    print_number(out, "BIASES", cell->b.count);
    print_number(out, "RECURRENT_BIASES", cell->rb.count);
    print_number(out, "PARAMETERS", cell->p.count);
    for (int i = 0; i < cell->state_count; i++)
        sizes[i] = layer_domain_size(layer, cell->states[i].domain);
    print_sizes(out, "STATES", "STATE_SIZES", sizes, cell->state_count);
    for (int i = 0; i < cell->carry_count; i++)
        sizes[i] = layer_domain_size(layer, cell->carries[i].domain);
    print_sizes(out, "CARRIES", "CARRY_SIZES", sizes, cell->carry_count);
    print_phases(layer, out);
    cell_print_pointwise(cell, out);
    text_add(out, "\n");
}

void emit_cuda_layer(const Layer *layer, Precision precision, Text *out)
{
    static const char *const identity = "RNN_INLINE rnn_f rnn_activation(rnn_f x)\n{\n"
                                        "    return x;\n}\n";
    if (layer->kind == LAYER_CELL)
        return;
    text_add(out, "#include \"cuda/prelude.cuh\"\n\n");
    print_number(out, "INPUTS", layer->inputs);
    print_number(out, "OUTPUTS", layer->outputs);
    print_number(out, "PRECISION", precision);
    if (layer->kind == LAYER_EMBEDDING)
        text_add(out, identity);
    else
        activation_print_function(&layer->activation, "rnn_activation", out);
    text_add(out, "\n#include \"cuda/pointwise.cu\"\n");
}
