// Host training: see host_training.h. The fields are explained in rnnc/module.h.
#include "emit/host_training.h"

#include "cell/cell_gradient.h"

static void print_field(Text *out, const char *name, const int *values, int count)
{
    text_addf(out, "     .%s = {", name);
    for (int i = 0; i < count; i++)
        text_addf(out, "%d, ", values[i]);
    text_add(out, "},\n");
}

static void print_vectors(const Layer *layer, Text *out)
{
    const CellGradient *gradient = layer->cell->gradient;
    text_addf(out, "     .saved_count = %d, .saved_sizes = {", gradient->saved_count);
    for (int i = 0; i < gradient->saved_count; i++)
        text_addf(out, "%lld, ", (long long)layer_domain_size(layer, gradient->saved[i].domain));
    text_addf(out, "},\n     .delta_count = %d, .read_deltas = %d, .delta_sizes = {",
              gradient->delta_count, gradient->read_deltas);
    for (int i = 0; i < gradient->delta_count; i++)
        text_addf(out, "%lld, ", (long long)layer_domain_size(layer, gradient->deltas[i].domain));
    text_add(out, "},\n");
}

static void print_stages(const Layer *layer, Text *out)
{
    const CellGradient *gradient = layer->cell->gradient;
    text_addf(out, "     .stage_count = %d, .stages = {\n", gradient->stage_count);
    for (int i = 0; i < gradient->stage_count; i++) {
        const CellStage *stage = &gradient->stages[i];
        text_addf(out, "        {%d, %d, %d, %lld, 0x%x, %d, {", stage->phase,
                  stage->phase < 0 ? 0 : cell_saved_operand(layer->cell, stage->phase),
                  stage->first_delta, (long long)layer_domain_size(layer, stage->domain),
                  stage->states, stage->norm_count);
        for (int n = 0; n < stage->norm_count; n++)
            text_addf(out, "%d, ", stage->norms[n].number);
        text_add(out, "}, {");
        for (int n = 0; n < stage->norm_count; n++)
            text_addf(out, "%d, ", stage->norms[n].member_count);
        text_add(out, "}},\n");
    }
    text_add(out, "     },\n");
}

static void print_layer(const Layer *layer, Text *out)
{
    const Cell *cell = layer->cell;
    const CellGradient *gradient = cell->gradient;
    int stages[CELL_GATES_MAX * 5 + 1] = {0};
    unsigned states = 0;
    for (int i = 0; i < cell->state_count; i++)
        states |= (unsigned)gradient->is_state_saved[i] << i;
    for (int i = 0; i < gradient->delta_count; i++)
        stages[i] = gradient->deltas[i].stage;
    text_addf(out, "    {.step_bytes = %lld, .states = 0x%x, .norm_count = %d,\n",
              (long long)(gradient->step_elems * (int64_t)sizeof(float)), states, cell->norm_count);
    print_vectors(layer, out);
    print_field(out, "delta_stages", stages, gradient->delta_count);
    print_field(out, "input", gradient->input, cell->W.count);
    print_field(out, "recurrent", gradient->product, cell->R.count);
    text_addf(out, "     .projection = %d,\n", gradient->product[CELL_GATES_MAX]);
    print_field(out, "bias", gradient->bias, cell->b.count);
    print_field(out, "recurrent_bias", gradient->recurrent_bias, cell->rb.count);
    print_field(out, "parameter", gradient->parameter, cell->p.count);
    print_stages(layer, out);
    text_add(out, "     .zoneout = {");
    for (int i = 0; i < cell->state_count; i++)
        text_addf(out, "%.9g, ", (double)(float)cell->states[i].zoneout);
    text_add(out, "}},\n");
}

void host_print_training(const Model *model, Text *out)
{
    text_add(out, "static const rnnc_layer_training rnnc_layers_training[] = {\n");
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind == LAYER_CELL)
            print_layer(&model->layers[i], out);
        else
            text_add(out, "    {0},\n");
    text_addf(out,
              "};\nstatic const rnnc_training_desc rnnc_training = {%d, rnnc_layers_training};\n\n",
              (int)model->spec->dropout_at_inference.value);
}
