// Order of a PyTorch model's modules: given by name, or found as the only one in which every
// module takes what the one before it gives. Modules whose names differ in one number stand in the
// order of that number. Where several orders fit, none is taken.
#ifndef RNNC_IMPORT_PYTORCH_ORDER_H
#define RNNC_IMPORT_PYTORCH_ORDER_H

#include "import/pytorch_config.h"

/// A module, or an activation between modules.
typedef struct {
    PytorchModule *module; ///< NULL: an activation
    PytorchKind kind;      ///< as which the module is taken; never PYTORCH_MATRIX
    const char *activation;
} PytorchStep;

typedef struct {
    PytorchStep *items;
    int count;
} PytorchSteps;

/// Looks up "emb=embedding,rnn,relu,fc=linear" among the modules; `kind` is PYTORCH_MATRIX where a
/// matrix is not said to be either. Adds E0413 and returns false for an unknown or repeated name.
bool pytorch_order_parse(Arena *arena, Diags *diags, const char *order,
                         const PytorchModules *modules, PytorchSteps *out);

/// Decides what is open in `steps`, which hold all modules to be taken: with `is_ordered` only
/// kinds, else the order too. Adds E0411 where nothing fits, E0412 where several do.
bool pytorch_order_settle(Arena *arena, Diags *diags, const char *path, bool is_ordered,
                          PytorchSteps *steps);

#endif
