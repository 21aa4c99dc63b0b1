// Weights as keras.layers.LSTM, GRU, SimpleRNN, Dense and Embedding keep them: kernels transposed
// ([inputs, gates * units]), and with reset_after a bias of two rows, input and recurrent.
#include <string.h>

#include "import/weights_filler.h"

static const GateOrder orders[] = {
    {"lstm", "ifgo", NULL},
    {"gru", "zrn", NULL},
    {"gru_before", "zrn", NULL},
    {"rnn", "n", NULL},
};

/// Moves `*at` past a part of a name and its slash where the part ends in `end`.
static bool skip_part_ending(const char **at, const char *end)
{
    const char *slash = strchr(*at, '/');
    size_t length = slash ? (size_t)(slash - *at) : 0, end_length = strlen(end);
    if (length < end_length || memcmp(slash - end_length, end, end_length) != 0)
        return false;
    *at = slash + 1;
    return true;
}

/// Moves `*at` past the part that says a side: `fw` and `bw`, Keras' own `forward_lstm` and
/// `backward_lstm`, and for the backward side any other name, since Keras leaves a backward layer
/// that it is given its own.
static bool skip_side(const char **at, WantedSide side)
{
    const char *part = *at, *slash = strchr(part, '/');
    if (side == SIDE_NONE)
        return true;
    if (!slash)
        return false;
    bool forward = strncmp(part, "fw/", 3) == 0 || strncmp(part, "forward_", 8) == 0;
    if (forward != (side == SIDE_FORWARD) || skip_part_ending(&part, "_cell"))
        return false;
    *at = slash + 1;
    return true;
}

/// Whether `name` is `<owner>/<word>`, with the side's part and a part such as `lstm_cell` in
/// between.
static bool is_named(const char *name, const char *owner, WantedSide side, const char *word)
{
    size_t length = strlen(owner);
    if (strncmp(name, owner, length) != 0 || name[length] != '/')
        return false;
    const char *at = name + length + 1;
    if (!skip_side(&at, side))
        return false;
    skip_part_ending(&at, "_cell");
    return strcmp(at, word) == 0;
}

/// The one tensor of this name; adds E0405 where there is none, E0409 where there are several.
static const SafetensorsTensor *find(const Filler *filler, const WantedLayer *layer,
                                     const char *word)
{
    const char *owner = arena_format(filler->arena, "%s%s", filler->prefix, layer->base);
    const SafetensorsTensor *found = NULL;
    for (int i = 0; i < filler->file->count; i++) {
        const SafetensorsTensor *tensor = &filler->file->tensors[i];
        if (!is_named(tensor->name, owner, layer->side, word))
            continue;
        if (found) {
            Diag *diag =
                diag_add(filler->diags, DIAG_E0409, filler->span,
                         "'%s': both '%s' and '%s' could be the %s of layer '%s'",
                         filler->file->path, found->name, tensor->name, word, layer->layer);
            diag_help(diag, "name the tensor '%s%s/%s' and remove the other", filler->prefix,
                      layer->layer, word);
            return NULL;
        }
        found = tensor;
    }
    if (found)
        filler_mark_used(filler, found);
    else
        filler_report_missing(
            filler, layer,
            arena_format(filler->arena, "%s%s/%s", filler->prefix, layer->layer, word), NULL);
    return found;
}

/// A kernel [columns, rows] of the file, transposed to [rows, columns], gates in canonical order.
static bool take_kernel(Filler *filler, const WantedLayer *layer, const char *word,
                        const struct WantedTensor *want, const char *gates)
{
    const SafetensorsTensor *tensor = find(filler, layer, word);
    const int64_t shape[] = {want->columns, want->rows};
    if (!tensor || !filler_has_shape(filler, layer, tensor, shape, 2, NULL))
        return false;
    const float *values = filler_values(filler, tensor);
    if (!values)
        return false;
    float *turned = ARENA_ARRAY(filler->arena, float, want->rows * want->columns);
    for (int64_t column = 0; column < want->columns; column++)
        for (int64_t row = 0; row < want->rows; row++)
            turned[row * want->columns + column] = values[column * want->rows + row];
    if (gates)
        wanted_place_gates(want, gates, turned);
    else
        memcpy(want->data, turned, sizeof(float) * (size_t)(want->rows * want->columns));
    return true;
}

static const char *bias_advice(const SafetensorsTensor *tensor, bool two_rows, int64_t rows)
{
    if (tensor->dim_count == 1 && tensor->dims[0] == 2 * rows)
        return "a bias of this length is of Keras' CuDNN layers, whose kernels have another layout "
               "too: load them into a keras.layers.GRU or LSTM and save that";
    if (two_rows && tensor->dim_count == 1 && tensor->dims[0] == rows)
        return "a bias of one row is of a GRU with `reset_after: false`";
    if (!two_rows && tensor->dim_count == 2 && tensor->dims[0] == 2 && tensor->dims[1] == rows)
        return "a bias of two rows is of a GRU with `reset_after: true`";
    return NULL;
}

static bool take_bias(Filler *filler, const WantedLayer *layer, const GateOrder *order)
{
    const struct WantedTensor *b = wanted_tensor(layer, "b"), *rb = wanted_tensor(layer, "rb");
    if (!b)
        return true;
    const SafetensorsTensor *tensor = find(filler, layer, "bias");
    const int64_t two[] = {2, b->rows};
    if (!tensor || !filler_has_shape(filler, layer, tensor, rb ? two : two + 1, rb ? 2 : 1,
                                     bias_advice(tensor, rb != NULL, b->rows)))
        return false;
    const float *values = filler_values(filler, tensor);
    if (values && rb)
        wanted_place_biases(b, rb, order->gates, values, values + b->rows);
    else if (values)
        wanted_place_gates(b, order->gates, values);
    return values != NULL;
}

static bool fill_dense(Filler *filler, const WantedLayer *layer)
{
    const struct WantedTensor *W = wanted_tensor(layer, "W"), *b = wanted_tensor(layer, "b");
    const SafetensorsTensor *bias = b ? find(filler, layer, "bias") : NULL;
    bool good = !W || take_kernel(filler, layer, "kernel", W, NULL);
    return (!b || (bias && filler_take(filler, layer, bias, b, b->data))) && good;
}

bool weights_fill_keras(Filler *filler, const WantedLayer *layer)
{
    const struct WantedTensor *E = wanted_tensor(layer, "E");
    if (E) {
        const SafetensorsTensor *tensor = find(filler, layer, "embeddings");
        return tensor && filler_take(filler, layer, tensor, E, E->data);
    }
    if (strcmp(layer->cell, "dense") == 0)
        return fill_dense(filler, layer);
    const GateOrder *order =
        filler_gate_order(filler, layer, "Keras", orders, (int)(sizeof orders / sizeof orders[0]));
    if (!order)
        return false;
    const struct WantedTensor *W = wanted_tensor(layer, "W"), *R = wanted_tensor(layer, "R");
    bool good = !W || take_kernel(filler, layer, "kernel", W, order->gates);
    good &= !R || take_kernel(filler, layer, "recurrent_kernel", R, order->gates);
    return take_bias(filler, layer, order) && good;
}
