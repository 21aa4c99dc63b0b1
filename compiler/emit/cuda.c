// CUDA code of one layer: the numbers of the model as defines and the cell's equations as generated
// functions, which specialise the skeletons of templates/cuda.
#include <stdint.h>

#include "cell/cell_gradient.h"
#include "emit/cell_numbers.h"
#include "emit/emit.h"
#include "plan/generator.h"

/// Columns of W*x.
static int64_t input_columns(const Layer *layer)
{
    return layer->cell->W.count * layer->units;
}

/// Floats from one row of W*x to the next.
static int64_t input_stride(const Layer *layer)
{
    return (input_columns(layer) + 3) / 4 * 4;
}

enum { BLOCKS_DEPTH = 64 }; ///< a product of no more K is bound by writing its result

bool emit_cuda_blocks(const Layer *layer)
{
    return (layer->kind == LAYER_CELL || layer->kind == LAYER_DENSE) &&
           layer->inputs > BLOCKS_DEPTH;
}

void emit_cuda_cell(const Layer *layer, Precision precision, Text *out)
{
    const Cell *cell = layer->cell;
    emit_number(out, "PRECISION", precision);
    text_add(out, "#include \"cuda/prelude.cuh\"\n\n");
    emit_number(out, "OUTPUTS", layer->outputs);
    emit_number(out, "INPUT_STRIDE", input_stride(layer));
    emit_cell_numbers(layer, out);
    cell_print_pointwise(cell, out);
    text_add(out, "\n");
    if (!cell->gradient)
        return;
    emit_gradient_numbers(layer, out);
    cell_print_gradient(cell, out);
}

/// Names nothing but sizes, so that layers of one shape print the same.
static void emit_input_product(const Layer *layer, Precision precision, Text *out)
{
    emit_number(out, "INPUTS", layer->inputs);
    emit_number(out, "COLUMNS", input_columns(layer));
    emit_number(out, "INPUT_STRIDE", input_stride(layer));
    emit_number(out, "PRECISION", precision);
    emit_number(out, "BLOCKS", emit_cuda_blocks(layer));
    text_add(out, "\n#include \"cuda/input_product.cu\"\n");
}

static void emit_pointwise(const Layer *layer, Precision precision, Text *out)
{
    static const char *const identity = "RNN_INLINE rnn_f rnn_activation(rnn_f x)\n{\n"
                                        "    return x;\n}\n";
    text_add(out, "#include \"cuda/prelude.cuh\"\n\n");
    emit_number(out, "INPUTS", layer->inputs);
    emit_number(out, "OUTPUTS", layer->outputs);
    emit_number(out, "PRECISION", precision);
    emit_number(out, "DENSE", layer->kind == LAYER_DENSE);
    emit_number(out, "BLOCKS", emit_cuda_blocks(layer));
    emit_number(out, "TRAINING", layer->trains && layer->kind != LAYER_EMBEDDING);
    if (layer->kind == LAYER_EMBEDDING)
        text_add(out, identity);
    else
        activation_print_function(&layer->activation, "rnn_activation", out);
    if (layer->trains && layer->kind != LAYER_EMBEDDING)
        activation_print_slope(&layer->activation, "rnn_slope", out);
    text_add(out, "\n#include \"cuda/pointwise.cu\"\n");
}

void emit_cuda_layer(const Layer *layer, Precision precision, Text *out)
{
    if (layer->kind == LAYER_CELL)
        emit_input_product(layer, precision, out);
    else if (layer->kind == LAYER_EMBEDDING || layer->kind == LAYER_DENSE ||
             layer->kind == LAYER_ACTIVATION)
        emit_pointwise(layer, precision, out);
}

void emit_cuda_sequence(const Model *model, Text *out)
{
    static const struct {
        LayerKind kind;
        const char *number;
    } kinds[] = {
        {LAYER_CELL, "CELLS"},   {LAYER_EMBEDDING, "EMBEDDINGS"}, {LAYER_MASKING, "MASKINGS"},
        {LAYER_MERGE, "MERGES"}, {LAYER_DROPOUT, "DROPOUTS"},
    };
    int counts[sizeof kinds / sizeof *kinds] = {0};
    int total = 0, recurrent = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const Layer *layer = &model->layers[i];
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            counts[k] += layer->kind == kinds[k].kind;
            total += layer->kind == kinds[k].kind;
        }
        recurrent += layer->recurrent_dropout > 0.0;
    }
    if (total == 0 && !model->trains)
        return;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        emit_number(out, kinds[k].number, counts[k] > 0);
    emit_number(out, "RECURRENT_DROPOUTS", recurrent > 0);
    emit_number(out, "TRAINING", model->trains);
    text_add(out, "\n#include \"cuda/sequence.cu\"\n");
}

/// What multiplies each layer's output, as a phase: R, and W of the layer behind it.
static void emit_generator_products(const Generator *generator, Text *out)
{
    const CellPhase *recurrent = &generator->cell->cell->phases[0];
    const long long units = generator->cell->units;
    text_add(out, "#undef RNN_PHASE_COUNT\n#undef RNN_PHASE_ROWS\n");
    emit_number(out, "PHASE_COUNT", generator->layers);
    text_add(out, "#define RNN_PHASE_ROWS");
    for (int layer = 0; layer < generator->layers; layer++) {
        const int behind = layer + 1 < generator->layers ? generator->cell->cell->W.count : 0;
        text_addf(out, " \\\n    {RNN_MATRIX_R, %d, {", recurrent->row_count + behind);
        for (int g = 0; g < recurrent->row_count; g++)
            text_addf(out, g ? ", %d" : "%d", recurrent->rows[g]);
        for (int g = 0; g < behind; g++)
            text_addf(out, ", %d", g);
        text_addf(out, "}, 1, %d, %lld, %lld, 0x%x, 0x0, 1, {0}},", layer, units, units,
                  1u << layer);
    }
    text_add(out, "\n");
    emit_number(out, "RECURRENT_ROWS", recurrent->row_count);
}

static void emit_cluster_numbers(const Generator *generator, Text *out)
{
    emit_number(out, "WARPS", generator->warps);
    emit_number(out, "SPLIT", 1);
    emit_number(out, "HALVES", 0);
    emit_number(out, "RING", 2);
    emit_number(out, "DRAW_WARPS", generator->draw_warps);
    emit_number(out, "DRAW_TILES", generator->draw_tiles);
    text_addf(out, "#define RNN_GENERATOR_BYTES %lld\n", (long long)generator->shared_bytes);
}

static void emit_grid_numbers(const Generator *generator, Text *out)
{
    emit_number(out, "SHARE", generator->share);
    emit_number(out, "SETS", generator->sets);
    emit_number(out, "RING", 1);
    emit_number(out, "REPLICAS", generator->replicas);
    emit_number(out, "MORE_ROWS", generator->logits);
}

void emit_cuda_generator(const Plan *plan, Text *out)
{
    const Generator *generator = plan->generator;
    emit_cuda_cell(generator->cell, plan->model->spec->precision, out);
    emit_generator_products(generator, out);
    emit_number(out, "VOCABULARY", plan->model->features);
    emit_number(out, "CTAS", generator->ctas);
    emit_number(out, "ROWS", generator->rows);
    emit_number(out, "HELD", generator->held);
    emit_number(out, "TABLE_SHARED", generator->table_shared);
    if (generator->is_cluster)
        emit_cluster_numbers(generator, out);
    else
        emit_grid_numbers(generator, out);
    text_addf(out, "\n#include \"cuda/%s.cu\"\n",
              generator->is_cluster ? "generate_cluster" : "generate");
}
