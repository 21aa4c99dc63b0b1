// CUDA code of one layer: the numbers of the model as defines and the cell's equations as generated
// functions, which specialise the skeletons of templates/cuda.
#include "emit/cell_numbers.h"
#include "emit/emit.h"

void emit_cuda_cell(const Layer *layer, Precision precision, Text *out)
{
    const Cell *cell = layer->cell;
    text_add(out, "#include \"cuda/prelude.cuh\"\n\n");
    emit_number(out, "INPUTS", layer->inputs);
    emit_number(out, "OUTPUTS", layer->outputs);
    emit_number(out, "PRECISION", precision);
    emit_number(out, "INPUT_STRIDE", (cell->W.count * layer->units + 3) / 4 * 4);
    emit_cell_numbers(layer, out);
    cell_print_pointwise(cell, out);
    text_add(out, "\n");
}

void emit_cuda_layer(const Layer *layer, Precision precision, Text *out)
{
    static const char *const identity = "RNN_INLINE rnn_f rnn_activation(rnn_f x)\n{\n"
                                        "    return x;\n}\n";
    if (layer->kind != LAYER_EMBEDDING && layer->kind != LAYER_DENSE &&
        layer->kind != LAYER_ACTIVATION)
        return;
    text_add(out, "#include \"cuda/prelude.cuh\"\n\n");
    emit_number(out, "INPUTS", layer->inputs);
    emit_number(out, "OUTPUTS", layer->outputs);
    emit_number(out, "PRECISION", precision);
    emit_number(out, "DENSE", layer->kind == LAYER_DENSE);
    if (layer->kind == LAYER_EMBEDDING)
        text_add(out, identity);
    else
        activation_print_function(&layer->activation, "rnn_activation", out);
    text_add(out, "\n#include \"cuda/pointwise.cu\"\n");
}
