// Model: the spec with every shape, name, cell and weight resolved; stacks flattened to single
// layers, `dropout` kept as nothing (identity at inference). What plan and emit read.
#ifndef RNNC_MODEL_MODEL_H
#define RNNC_MODEL_MODEL_H

#include "base/text.h"
#include "cell/cell.h"
#include "spec/spec.h"

typedef enum { LAYER_CELL, LAYER_EMBEDDING, LAYER_DENSE, LAYER_ACTIVATION } LayerKind;

/// A weight in canonical form: float32, row-major, `rows` x `columns` (a vector: columns 1).
typedef struct {
    const char *name; ///< "enc/W"
    int64_t rows, columns;
    const float *data; ///< rows * columns values, 64-byte aligned
} Weight;

enum { WEIGHT_W, WEIGHT_R, WEIGHT_b, WEIGHT_rb, WEIGHT_p, WEIGHT_P, WEIGHT_E, WEIGHT_COUNT };

typedef struct {
    LayerKind kind;
    const char *name; ///< "enc", or "enc/0" within a stack
    const SpecLayer *spec;
    int64_t inputs, outputs;   ///< features per step; an embedding's inputs is the vocabulary
    int64_t units, projection; ///< projection 0: none
    int stack_index;           ///< 0 outside a stack
    bool sequence_in;          ///< [B, T, inputs]; false: [B, inputs]
    bool sequence_out;         ///< cells: return_sequences
    bool return_state, stateful;
    const Cell *cell;
    Activation activation;        ///< dense, activation layers
    Weight weights[WEIGHT_COUNT]; ///< name NULL: the layer has none of this kind
} Layer;

typedef struct {
    const Spec *spec;
    const char *name;
    bool tokens;      ///< input is int32 tokens [B, T]; else float32 features [B, T, features]
    int64_t features; ///< or the vocabulary
    int64_t batch, timesteps; ///< 0: any
    Layer *layers;
    int layer_count;
} Model;

/// Size of a state or product vector of this layer.
int64_t layer_domain_size(const Layer *layer, Domain domain);

/// Resolves the spec, loads or draws the weights. Adds E03xx to E05xx; NULL on any error.
const Model *model_build(Arena *arena, Diags *diags, const Spec *spec);

/// The same without weights (data stays NULL), for `explain`.
const Model *model_build_shapes(Arena *arena, Diags *diags, const Spec *spec);

/// Prints the model as text (`--dump model`).
void model_print(const Model *model, Text *out);

#endif
