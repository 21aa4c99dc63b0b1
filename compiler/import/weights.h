// Weights: reads, checks and converts a weights file into canonical tensors, or draws them.
// Knows the names and gate orders of each convention; knows nothing of plans or kernels.
//
//     wanted       canonical   pytorch (k: index in a stack; k = 0 also without _l0)
//     W            enc/W       enc.weight_ih_lk          dense: out.weight
//     R            enc/R       enc.weight_hh_lk
//     b            enc/b       enc.bias_ih_lk + enc.bias_hh_lk   dense: out.bias
//     rb           enc/rb      the last rows of enc.bias_hh_lk, which then are not added to b
//     P            enc/P       enc.weight_hr_lk
//     p            enc/p       -
//     E            emb/E       emb.weight
//     enc/1/bw     enc/1/bw/W  enc.weight_ih_l1_reverse
//
//     wanted   keras                                     onnx (D directions)
//     W        enc/kernel [I, G*H]                       enc/W [D, G*H, I]
//     R        enc/recurrent_kernel [H, G*H]             enc/R [D, G*H, H]
//     b, rb    enc/bias [G*H]; gru [2, 3*H]              enc/B [D, 2*G*H]
//     p        -                                         enc/P [D, 3*H], i o f
//     dense    out/kernel [I, O], out/bias               out/W [O, I], out/B
//     E        emb/embeddings                            emb/E
//     enc/bw   enc/bw/kernel or enc/backward_.../kernel  enc/W, direction 1
//
// PyTorch's gate orders (lstm i f g o, gru r z n) are the canonical ones, so no row moves. Keras
// has gru z r n; ONNX lstm i o f g, gru z r n. Under keras one part ending in `_cell` may stand
// before the last, as in Keras 3's variable.path: enc/lstm_cell/kernel.
#ifndef RNNC_IMPORT_WEIGHTS_H
#define RNNC_IMPORT_WEIGHTS_H

#include "import/safetensors.h"

enum { WANTED_TENSORS_MAX = 8 };

/// Which direction of a bidirectional layer a wanted layer is.
typedef enum { SIDE_NONE, SIDE_FORWARD, SIDE_BACKWARD } WantedSide;

/// What is wanted of one layer, independent of the model's own types. Gates are named so that the
/// gate order of a convention can be mapped.
typedef struct {
    const char *layer; ///< "enc", "enc/0", "enc/bw" or "enc/0/bw"
    const char *base;  ///< `layer` without its side: "enc/0"; NULL: as `layer`
    const char *stack; ///< "enc"; NULL: as `base`
    int stack_index;
    WantedSide side;
    const char *cell;      ///< "lstm", "gru", ..., "embedding", "dense"
    bool last_only_bias_n; ///< gru with rb: recurrent bias of n stands apart
    int64_t heads;         ///< above 1: R is [G*H, H / heads]
    struct WantedTensor {
        const char *kind;      ///< "W", "R", "b", "rb", "p", "P", "E"
        int64_t rows, columns; ///< b, rb and p are vectors: columns 1
        int gate_count;
        float *data;              ///< filled on success; allocated by the caller
        const char *const *gates; ///< names of the gates; NULL: none (dense, embedding, P)
        const bool *is_gain;      ///< by gate: drawn as 1, a gain of layer_norm; NULL: none is
    } tensors[WANTED_TENSORS_MAX];
    int tensor_count;
} WantedLayer;

typedef enum { WEIGHTS_CANONICAL, WEIGHTS_PYTORCH, WEIGHTS_KERAS, WEIGHTS_ONNX } WeightsConvention;

/// Fills every wanted tensor from `file`. `prefix` (or NULL) stands before every name as it is, its
/// dot or slash included. Adds E04xx (missing, shape differs: name, wanted, found) and warns of
/// tensors no layer uses. False on any error.
bool weights_fill(Arena *arena, Diags *diags, Span span, const Safetensors *file,
                  WeightsConvention convention, const char *prefix, WantedLayer *layers,
                  int layer_count);

/// Draws every wanted tensor as PyTorch initialises its recurrent layers: uniform in
/// (-1/sqrt(H), 1/sqrt(H)) (dense: 1/sqrt(inputs); embedding: normal; gains: 1), from
/// Philox-4x32-10 keyed by (seed, layer, tensor), so that a layer's weights do not depend on the
/// others. `units_of_layer[i]` is layer i's H; dense and embedding do not look at it.
void weights_draw(uint64_t seed, WantedLayer *layers, int layer_count, int64_t units_of_layer[]);

#endif
