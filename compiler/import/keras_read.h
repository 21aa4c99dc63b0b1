// Keras: a saved model on its way to an imported model: `.keras`, legacy `.h5`, `.weights.h5`, of
// Keras 2 and 3. Sequential models, and Functional graphs in which each layer reads the one before.
// Nothing of a file is run or unpickled, and nothing outside it is opened.
//
//     what is there        read from
//     the model            config.json, or the attribute model_config       keras_graph.h
//     its layers           a table of classes                                keras_layers.c
//     weights              layers/lstm_1/cell/vars/0 (.keras), or            keras_weights.h
//                          [model_weights/]lstm_1/lstm_1/lstm_cell/kernel:0 (legacy)
#ifndef RNNC_IMPORT_KERAS_READ_H
#define RNNC_IMPORT_KERAS_READ_H

#include "import/imported.h"

/// Whether the bytes are an HDF5 file, or a zip archive with a config.json.
bool keras_recognises(const unsigned char *bytes, size_t size_bytes);

/// Reads a model. Adds E0001, E0430 to E0441 or E0460 to E0463 and returns NULL on a fault.
const Imported *keras_read(Arena *arena, Diags *diags, const char *path);

/// The same over bytes in memory, which must outlive the result.
const Imported *keras_parse(Arena *arena, Diags *diags, const char *path,
                            const unsigned char *bytes, size_t size_bytes);

#endif
