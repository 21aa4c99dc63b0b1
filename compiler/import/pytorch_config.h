// What a JSON says of a PyTorch model: an object of the constructors' arguments. Those of the
// object under a module's name hold for that module, those of the whole for all:
//
//     {"batch_first": true, "order": ["emb", "rnn", "fc1", "relu", "fc2"],
//      "rnn": {"type": "RNN", "nonlinearity": "relu", "num_layers": 2, "dropout": 0.1}}
//
// What the shapes say too must agree; what rnnc has no use for is named in a note.
#ifndef RNNC_IMPORT_PYTORCH_CONFIG_H
#define RNNC_IMPORT_PYTORCH_CONFIG_H

#include "import/pytorch_modules.h"
#include "import/readers.h"

/// Of one module.
typedef struct {
    ImportSwitch batch_first;
    const char *nonlinearity;     ///< "tanh", "relu"; NULL: not said
    double dropout;               ///< -1: not said
    bool is_embedding, is_linear; ///< by "type"
} PytorchArguments;

typedef struct PytorchConfig PytorchConfig;

/// Parses the text; NULL gives a configuration that says nothing. Adds E0413 and returns NULL on a
/// fault.
PytorchConfig *pytorch_config(Arena *arena, Diags *diags, const Source *json);

/// "order" as the option --order has it, or NULL.
const char *pytorch_config_order(const PytorchConfig *config);

/// What is said of a module whose shapes are known. Adds E0413 and returns false where the two
/// disagree.
bool pytorch_config_module(PytorchConfig *config, const PytorchModule *module,
                           PytorchArguments *out);

/// Adds N0401 for the keys that were not asked for. Call last.
void pytorch_config_unused(const PytorchConfig *config);

#endif
