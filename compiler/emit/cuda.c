// CUDA code of one layer: the numbers of the model as defines and the cell's equations as generated
// functions, which specialise the skeletons of templates/cuda.
#include <stdint.h>

#include "emit/cell_numbers.h"
#include "emit/emit.h"

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
    if (layer->kind == LAYER_EMBEDDING)
        text_add(out, identity);
    else
        activation_print_function(&layer->activation, "rnn_activation", out);
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
    if (total == 0)
        return;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        emit_number(out, kinds[k].number, counts[k] > 0);
    emit_number(out, "RECURRENT_DROPOUTS", recurrent > 0);
    text_add(out, "\n#include \"cuda/sequence.cu\"\n");
}
