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
//
// PyTorch's gate orders (lstm i f g o, gru r z n) are the canonical ones, so no row moves.
#ifndef RNNC_IMPORT_WEIGHTS_H
#define RNNC_IMPORT_WEIGHTS_H

#include "import/safetensors.h"

enum { WANTED_TENSORS_MAX = 8 };

/// What is wanted of one layer, independent of the model's own types. Gates are named so that the
/// gate order of a convention can be mapped (canonical gru r z n = PyTorch's).
typedef struct {
    const char *layer; ///< "enc" or "enc/0"; a stack's PyTorch names use _l0, _l1 on "enc"
    const char *stack; ///< "enc"; NULL: as `layer`
    int stack_index;
    const char *cell;      ///< "lstm", "gru", ..., "embedding", "dense"
    bool last_only_bias_n; ///< gru with rb: recurrent bias of n stands apart
    struct WantedTensor {
        const char *kind;      ///< "W", "R", "b", "rb", "p", "P", "E"
        int64_t rows, columns; ///< b, rb and p are vectors: columns 1
        int gate_count;
        float *data; ///< filled on success; allocated by the caller
    } tensors[WANTED_TENSORS_MAX];
    int tensor_count;
} WantedLayer;

typedef enum { WEIGHTS_CANONICAL, WEIGHTS_PYTORCH } WeightsConvention;

/// Fills every wanted tensor from `file`. `prefix` (or NULL) stands before every name as it is, its
/// dot included. Adds E04xx (missing, shape differs: name, wanted, found) and warns of tensors no
/// layer uses. False on any error.
bool weights_fill(Arena *arena, Diags *diags, Span span, const Safetensors *file,
                  WeightsConvention convention, const char *prefix, WantedLayer *layers,
                  int layer_count);

/// Draws every wanted tensor as PyTorch initialises its recurrent layers: uniform in
/// (-1/sqrt(H), 1/sqrt(H)) (dense: 1/sqrt(inputs); embedding: normal), from Philox-4x32-10 keyed
/// by (seed, layer, tensor), so that a layer's weights do not depend on the others.
/// `units_of_layer[i]` is layer i's H; dense and embedding do not look at it.
void weights_draw(uint64_t seed, WantedLayer *layers, int layer_count, int64_t units_of_layer[]);

#endif
