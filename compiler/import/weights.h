// Weights: reads, checks and converts a weights file into canonical tensors, or draws them.
// Knows the names and gate orders of each convention; knows nothing of plans or kernels.
#ifndef RNNC_IMPORT_WEIGHTS_H
#define RNNC_IMPORT_WEIGHTS_H

#include "import/safetensors.h"

/// What is wanted of one layer, independent of the model's own types. Gates are named so that the
/// gate order of a convention can be mapped (canonical gru r z n = PyTorch's).
typedef struct {
    const char *layer; ///< "enc" or "enc/0"; a stack's PyTorch names use _l0, _l1 on "enc"
    const char *stack; ///< "enc"
    int stack_index;
    const char *cell;      ///< "lstm", "gru", ..., "embedding", "dense"
    bool last_only_bias_n; ///< gru with rb: recurrent bias of n stands apart
    struct WantedTensor {
        const char *kind; ///< "W", "R", "b", "rb", "p", "P", "E"
        int64_t rows, columns;
        int gate_count;
        float *data; ///< filled on success; allocated by the caller
    } tensors[8];
    int tensor_count;
} WantedLayer;

typedef enum { WEIGHTS_CANONICAL, WEIGHTS_PYTORCH } WeightsConvention;

/// Fills every wanted tensor from `file`. Adds E04xx (missing, shape differs: name, wanted, found)
/// and warns of tensors no layer uses. False on any error.
bool weights_fill(Arena *arena, Diags *diags, Span span, const Safetensors *file,
                  WeightsConvention convention, const char *prefix, WantedLayer *layers,
                  int layer_count);

/// Draws every wanted tensor as PyTorch initialises its recurrent layers: uniform in
/// (-1/sqrt(H), 1/sqrt(H)) (dense: 1/sqrt(inputs); embedding: normal), from Philox-4x32-10 keyed
/// by (seed, layer, tensor), so that a layer's weights do not depend on the others.
void weights_draw(uint64_t seed, WantedLayer *layers, int layer_count, int64_t units_of_layer[]);

#endif
