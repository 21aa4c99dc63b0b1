// Weights as torch.nn.LSTM, GRU, RNN, their cells, Linear and Embedding name them.
#include <string.h>

#include "import/weights_filler.h"

/// One tensor of a PyTorch module: `<stack>.<word>_l<k>` (the backward direction's with _reverse),
/// for k = 0 also `<stack>.<word>`; modules that are no stack (dense, embedding) have only the
/// latter.
static bool take(const Filler *filler, const WantedLayer *layer, const char *word, bool stacked,
                 const struct WantedTensor *want, float *out)
{
    const char *reverse = layer->side == SIDE_BACKWARD ? "_reverse" : "";
    const char *plain = arena_format(filler->arena, "%s%s.%s", filler->prefix, layer->stack, word);
    const char *numbered =
        arena_format(filler->arena, "%s_l%d%s", plain, layer->stack_index, reverse);
    bool both = stacked && layer->stack_index == 0 && layer->side == SIDE_NONE;
    const SafetensorsTensor *tensor = filler_find(filler, stacked ? numbered : plain);
    if (!tensor && both)
        tensor = filler_find(filler, plain);
    if (!tensor) {
        filler_report_missing(filler, layer, stacked ? numbered : plain, both ? plain : NULL);
        return false;
    }
    return filler_take(filler, layer, tensor, want, out);
}

/// b = bias_ih + bias_hh. Where the recurrent bias of the last gates stands apart (GRU with its
/// reset after the product), those rows of bias_hh become rb instead.
static bool fill_biases(const Filler *filler, const WantedLayer *layer)
{
    const struct WantedTensor *b = wanted_tensor(layer, "b"), *rb = wanted_tensor(layer, "rb");
    if (!b)
        return true;
    float *recurrent = ARENA_ARRAY(filler->arena, float, b->rows);
    bool good = take(filler, layer, "bias_ih", true, b, b->data);
    good &= take(filler, layer, "bias_hh", true, b, recurrent);
    if (!good)
        return false;
    int64_t apart = rb ? rb->rows : 0, merged = b->rows - apart;
    for (int64_t i = 0; i < merged; i++)
        b->data[i] += recurrent[i];
    if (rb)
        memcpy(rb->data, recurrent + merged, sizeof(float) * (size_t)apart);
    return true;
}

static bool fits(const Filler *filler, const WantedLayer *layer)
{
    const struct WantedTensor *b = wanted_tensor(layer, "b"), *rb = wanted_tensor(layer, "rb");
    bool gru = layer->last_only_bias_n || strcmp(layer->cell, "gru") == 0;
    bool rb_fits = !rb || (gru && b && rb->rows <= b->rows);
    bool whole = layer->heads <= 1;
    if (!wanted_tensor(layer, "p") && rb_fits && whole)
        return true;
    filler_report_unknown(filler, layer, "PyTorch",
                          !whole    ? "the heads"
                          : rb_fits ? "tensor 'p'"
                                    : "tensor 'rb'");
    return false;
}

bool weights_fill_pytorch(Filler *filler, const WantedLayer *layer)
{
    static const struct {
        const char *cell; ///< NULL: any cell
        const char *kind, *word;
    } rows[] = {
        {"dense", "W", "weight"}, {"dense", "b", "bias"},   {"embedding", "E", "weight"},
        {NULL, "W", "weight_ih"}, {NULL, "R", "weight_hh"}, {NULL, "P", "weight_hr"},
    };
    bool stacked = strcmp(layer->cell, "dense") != 0 && strcmp(layer->cell, "embedding") != 0;
    if (stacked && !fits(filler, layer))
        return false;
    bool good = !stacked || fill_biases(filler, layer);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool applies = rows[i].cell ? strcmp(rows[i].cell, layer->cell) == 0 : stacked;
        const struct WantedTensor *want = applies ? wanted_tensor(layer, rows[i].kind) : NULL;
        if (want)
            good &= take(filler, layer, rows[i].word, stacked, want, want->data);
    }
    return good;
}
