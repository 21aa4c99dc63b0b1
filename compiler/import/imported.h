// Imported: a model read from another framework's file, on its way to model.yaml and
// model.safetensors. A reader adds layers in order, each with the keys of the spec that it was
// found to need and its tensors in canonical names, shapes and gate order; what it cannot take it
// refuses with a diagnostic and drops nothing in silence. Knows nothing of file formats.
//
//     Imported *model = imported_create(arena, path, "a PyTorch state_dict");
//     ImportedLayer *layer = imported_add(model, "cell", "lstm", "enc");
//     imported_set(layer, "units", "64", NULL);
//     imported_set(layer, "bidirectional", "concat", "from weight_ih_l0_reverse");
//     imported_weight(layer, "fw/W", 256, 16, data);
//     imported_write(arena, diags, model, "DIR");
#ifndef RNNC_IMPORT_IMPORTED_H
#define RNNC_IMPORT_IMPORTED_H

#include "import/safetensors.h"

typedef struct Imported Imported;
typedef struct ImportedLayer ImportedLayer;

/// `path` and `found`, as "a PyTorch state_dict", are for the head comment of model.yaml.
Imported *imported_create(Arena *arena, const char *path, const char *found);

/// `found` of imported_create.
const char *imported_found(const Imported *model);

/// A key of the spec's `input:` ("features", "tokens", "batch", "timesteps", "layout"),
/// with its value as YAML flow text. `comment` may be NULL; here and below it is one line, and what
/// is not printable ASCII in it becomes '?'.
void imported_input(Imported *model, const char *key, const char *value, const char *comment);

/// Appends a layer: `key` is what makes the kind in a spec ("cell", "dense", "embedding",
/// "dropout", "masking", "activation"), `value` its value as YAML flow text ("lstm", "{units: 10}",
/// "0.2"). `name` NULL: the layer gets none. The strings are copied.
ImportedLayer *imported_add(Imported *model, const char *key, const char *value, const char *name);

/// A further key of the layer, value as YAML flow text, in the order of the calls.
void imported_set(ImportedLayer *layer, const char *key, const char *value, const char *comment);

/// A remark on the layer as a whole, printed above it.
void imported_note(ImportedLayer *layer, const char *comment);

/// A tensor of the layer: `kind` is what stands behind the layer's name in canonical weights: "W",
/// "R", "b", "rb", "p", "P", "E"; "1/R" in a stack; "fw/W", "1/bw/b" in both directions. `data`,
/// row-major [rows, columns], lives in the arena; columns 1 for vectors.
void imported_weight(ImportedLayer *layer, const char *kind, int64_t rows, int64_t columns,
                     const float *data);

/// The text of model.yaml; `weights` is the file that its `weights:` names.
const char *imported_spec(Arena *arena, const Imported *model, const char *weights);

/// The tensors as a file in memory of the name `path`; nothing is copied.
const Safetensors *imported_tensors(Arena *arena, const Imported *model, const char *path);

/// Writes `folder`/model.yaml and `folder`/model.safetensors, each whole or not at all, and makes
/// the folder where there is none. False, with a diagnostic, where one cannot be written.
bool imported_write(Arena *arena, Diags *diags, const Imported *model, const char *folder);

#endif
