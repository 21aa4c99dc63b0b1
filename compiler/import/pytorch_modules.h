// Modules of a PyTorch state_dict: tensors grouped by the module whose names they have, with what
// their shapes say of it. Names are "<path>.<leaf>"; the leaf tells the kind:
//
//     weight_ih_l<k>, weight_hh_l<k>, bias_ih_l<k>, bias_hh_l<k>, weight_hr_l<k>, with _reverse
//                                    RNN, LSTM or GRU by rows over units: 1, 4 or 3
//     weight_ih, weight_hh, ...      RNNCell, LSTMCell, GRUCell: one layer, one direction
//     weight [O, I], bias [O]        Linear
//     weight [R, C] alone            Embedding [V, E], or Linear without bias [O, I]
//
// Anything else is refused by name.
#ifndef RNNC_IMPORT_PYTORCH_MODULES_H
#define RNNC_IMPORT_PYTORCH_MODULES_H

#include "import/safetensors.h"

enum {
    PYTORCH_LAYERS_MAX = 256,
    PYTORCH_MODULES_MAX = 1024, ///< of a file
    PYTORCH_TENSORS_MAX = 16384 ///< behind the prefix
};

/// Tensors of one layer and direction.
typedef enum {
    PYTORCH_W,
    PYTORCH_R,
    PYTORCH_BIAS_IH,
    PYTORCH_BIAS_HH,
    PYTORCH_P,
    PYTORCH_SLOTS
} PytorchSlot;

typedef enum {
    PYTORCH_RECURRENT,
    PYTORCH_LINEAR,
    PYTORCH_MATRIX, ///< Embedding or Linear without bias
    PYTORCH_EMBEDDING
} PytorchKind;

typedef struct {
    const char *path; ///< "encoder.rnn"; "" of a module that was saved alone
    const char *name; ///< unique, as a name in a spec can be
    PytorchKind kind;
    const char *cell; ///< recurrent: "rnn", "lstm", "gru"
    int gates, layers, directions;
    bool bias, is_cell_module; ///< is_cell_module: names without _l0
    int64_t inputs, units;     ///< linear: columns, rows; embedding: rows V, columns E are these
    int64_t projection;        ///< 0: none
    /// Recurrent: [layer][direction][PytorchSlot].
    const SafetensorsTensor *(*tensors)[2][PYTORCH_SLOTS];
    const SafetensorsTensor *weight, *bias_vector; ///< linear, matrix, embedding
    const SafetensorsTensor *odd;                  ///< one that no known module has; NULL: none
} PytorchModule;

typedef struct {
    PytorchModule *items; ///< by name: parts that are numbers by value
    int count;
} PytorchModules;

/// Groups the tensors whose names begin with `prefix` ("" for all); looks at no shape. Adds E0411
/// and returns false where there are none, or too many.
bool pytorch_group(Arena *arena, Diags *diags, const Safetensors *file, const char *prefix,
                   PytorchModules *out);

/// Checks the tensors of one module, and fills what their shapes say. Adds E0407 or E0411 and
/// returns false on a fault.
bool pytorch_check(Arena *arena, Diags *diags, const Safetensors *file, PytorchModule *module);

/// Features that a step of the module's output has, as `kind`.
int64_t pytorch_outputs(const PytorchModule *module, PytorchKind kind);

/// "LSTM 16 -> 2 * 32, 2 layers", in the arena.
const char *pytorch_describe(Arena *arena, const PytorchModule *module, PytorchKind kind);

#endif
