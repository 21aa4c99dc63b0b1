// Model: the spec with every shape, name, cell and weight resolved; stacks flattened to single
// layers, a bidirectional layer to its two directions and, where they are not concatenated, their
// merge. `dropout` is nothing (identity at inference) unless the model trains or drops at
// inference. What plan and emit read. A layer reads a buffer (or x) and writes another (or y):
//
//     x -> enc/fw -> buffer 0, features 0 to H      -> out -> y
//     x -> enc/bw -> buffer 0, features H to 2H
#ifndef RNNC_MODEL_MODEL_H
#define RNNC_MODEL_MODEL_H

#include "base/text.h"
#include "cell/cell.h"
#include "spec/spec.h"

typedef enum {
    LAYER_CELL,
    LAYER_EMBEDDING,
    LAYER_DENSE,
    LAYER_ACTIVATION,
    LAYER_DROPOUT, ///< only in training, or where the spec drops at inference
    LAYER_MASKING,
    LAYER_MERGE
} LayerKind;

/// Where a layer reads or writes: the fields of rnnc_view (rnnc/module.h), with its SLOT_ numbers.
enum { SLOT_X = -1, SLOT_Y = -2, SLOT_Y_BACKWARD = -3, SLOT_NONE = -4 };
typedef struct {
    int slot;
    int64_t offset, width;
} View;

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
    bool sequence_out;         ///< [B, T, outputs]; cells: return_sequences
    bool return_state, stateful;
    View in, in2, out; ///< in2: a merge's other input; else SLOT_NONE
    bool beside;       ///< the layer before it does not feed it: both may run at the same time
    bool reversed;     ///< cells: takes the last step first
    bool go_backwards; ///< with reversed: outputs in the order they are made, not of time
    bool zero_output_for_mask, mask_zero;
    int64_t heads;            ///< diagonal blocks of R; 1: full
    bool trains;              ///< the model's
    double recurrent_dropout; ///< 0 unless the model trains, or drops at inference
    double rate, mask_value;  ///< dropout; masking
    bool per_sequence;        ///< dropout: one draw for all steps of a row and feature
    int dropout_index;        ///< numbers the layers that draw
    Merge merge;              ///< merge
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
    bool time_major;          ///< x and y are [T, B, ...]
    bool trains;              ///< `mode: training`: every value has a buffer of its own
    int64_t *slot_widths;     ///< features of each buffer between layers
    int slot_count;
    Layer *layers;
    int layer_count;
} Model;

/// Size of a state or product vector of this layer.
int64_t layer_domain_size(const Layer *layer, Domain domain);

/// Diagonal blocks of a phase's matrix, and its stored columns: the operand's values of one block.
int64_t layer_phase_heads(const Layer *layer, const CellPhase *phase);
int64_t layer_phase_columns(const Layer *layer, const CellPhase *phase);

/// "cell", "embedding", ...
const char *layer_kind_name(LayerKind kind);

/// Resolves the spec, loads or draws the weights. Adds E03xx to E05xx; NULL on any error.
const Model *model_build(Arena *arena, Diags *diags, const Spec *spec);

/// The same without weights (data stays NULL), for `explain`.
const Model *model_build_shapes(Arena *arena, Diags *diags, const Spec *spec);

/// Prints the model as text (`--dump model`).
void model_print(const Model *model, Text *out);

#endif
