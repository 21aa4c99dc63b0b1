// PyTorch: a state_dict as safetensors, on its way to an imported model. Shapes and names of
// tensors tell modules (pytorch_modules.h), a JSON beside the file and the caller's options what
// they cannot tell (pytorch_config.h); pytorch_order.h finds the order of the modules.
#ifndef RNNC_IMPORT_PYTORCH_READ_H
#define RNNC_IMPORT_PYTORCH_READ_H

#include "import/readers.h"

/// Reads `path`, and config.json beside it where there is one and options->config is NULL. Adds
/// E0401 to E0413, and N0401 for what it took as given; NULL on a fault.
const Imported *pytorch_read(Arena *arena, Diags *diags, const char *path,
                             const ImportOptions *options);

/// The same over a file in memory and the text of a JSON (NULL: none).
const Imported *pytorch_parse(Arena *arena, Diags *diags, const Safetensors *file,
                              const Source *json, const ImportOptions *options);

#endif
