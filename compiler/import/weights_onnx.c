// Weights as the inputs of ONNX' nodes LSTM, GRU and RNN: W, R, B and P, each with the number of
// directions as its first dimension (1, or 2 for bidirectional: forward, backward). Nodes that ONNX
// has none of, dense and embedding, are W [O, I] (a Gemm's B with transB), B [O] and E.
#include <string.h>

#include "import/weights_filler.h"

static const GateOrder orders[] = {
    {"lstm", "iofg", NULL}, {"peephole_lstm", "iofg", "iof"},
    {"gru", "zrn", NULL},   {"gru_before", "zrn", NULL},
    {"rnn", "n", NULL},
};

static const SafetensorsTensor *find(const Filler *filler, const WantedLayer *layer,
                                     const char *word)
{
    const char *name = arena_format(filler->arena, "%s%s/%s", filler->prefix, layer->base, word);
    const SafetensorsTensor *tensor = filler_find(filler, name);
    if (tensor)
        return tensor;
    Diag *diag = filler_report_missing(filler, layer, name, NULL);
    if (word[0] == 'B')
        diag_help(diag, "a node without B is `use_bias: false`");
    return NULL;
}

/// The values of this layer's direction, of shape [D, rows, columns] ([D, rows] for columns 0).
static const float *direction_values(Filler *filler, const WantedLayer *layer, const char *word,
                                     int64_t rows, int64_t columns)
{
    const SafetensorsTensor *tensor = find(filler, layer, word);
    int dim_count = columns ? 3 : 2;
    int64_t directions = layer->side == SIDE_NONE ? 1 : 2;
    const int64_t shape[] = {directions, rows, columns};
    if (!tensor)
        return NULL;
    const char *advice = NULL;
    if (tensor->dim_count == dim_count && tensor->dims[0] != directions &&
        memcmp(tensor->dims + 1, shape + 1, sizeof(int64_t) * (size_t)(dim_count - 1)) == 0)
        advice = directions == 1 ? "the first dimension is the number of directions; the layer "
                                   "has one: write bidirectional"
                                 : "the first dimension is the number of directions; the layer "
                                   "has two";
    if (!filler_has_shape(filler, layer, tensor, shape, dim_count, advice))
        return NULL;
    const float *values = filler_values(filler, tensor);
    int64_t elems = rows * (columns ? columns : 1);
    return values && layer->side == SIDE_BACKWARD ? values + elems : values;
}

static bool take_gates(Filler *filler, const WantedLayer *layer, const char *kind,
                       const char *gates)
{
    const struct WantedTensor *want = wanted_tensor(layer, kind);
    if (!want)
        return true;
    const char *word = kind[0] == 'p' ? "P" : kind;
    const float *values = direction_values(filler, layer, word, want->rows,
                                           wanted_is_vector(want) ? 0 : want->columns);
    if (values)
        wanted_place_gates(want, gates, values);
    return values != NULL;
}

static bool take_biases(Filler *filler, const WantedLayer *layer, const char *gates)
{
    const struct WantedTensor *b = wanted_tensor(layer, "b");
    if (!b)
        return true;
    const float *values = direction_values(filler, layer, "B", 2 * b->rows, 0);
    if (values)
        wanted_place_biases(b, wanted_tensor(layer, "rb"), gates, values, values + b->rows);
    return values != NULL;
}

static bool fill_other(const Filler *filler, const WantedLayer *layer)
{
    bool good = true;
    for (int i = 0; i < layer->tensor_count; i++) {
        const struct WantedTensor *want = &layer->tensors[i];
        const SafetensorsTensor *tensor =
            find(filler, layer, want->kind[0] == 'b' ? "B" : want->kind);
        good &= tensor && filler_take(filler, layer, tensor, want, want->data);
    }
    return good;
}

bool weights_fill_onnx(Filler *filler, const WantedLayer *layer)
{
    if (strcmp(layer->cell, "dense") == 0 || strcmp(layer->cell, "embedding") == 0)
        return fill_other(filler, layer);
    const GateOrder *order =
        filler_gate_order(filler, layer, "ONNX", orders, (int)(sizeof orders / sizeof orders[0]));
    if (!order)
        return false;
    bool good = take_gates(filler, layer, "W", order->gates);
    good &= take_gates(filler, layer, "R", order->gates);
    good &= take_gates(filler, layer, "p", order->peepholes);
    return take_biases(filler, layer, order->gates) && good;
}
