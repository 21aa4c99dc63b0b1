// Imported models on the command line: what `import` and compiling have in common.
#ifndef RNNC_CLI_IMPORT_H
#define RNNC_CLI_IMPORT_H

#include "import/readers.h"

/// import_read, or NULL where it added an error.
const Imported *cli_import_model(Arena *arena, Diags *diags, const char *path,
                                 const ImportOptions *options);

/// The text of model.yaml, which names model.safetensors, as that of a file `path`.
const Source *cli_import_spec(Arena *arena, const Imported *model, const char *path);

#endif
