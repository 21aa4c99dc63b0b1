// Keras' layers, one by one, to layers of an imported model.
#ifndef RNNC_IMPORT_KERAS_LAYERS_H
#define RNNC_IMPORT_KERAS_LAYERS_H

#include "import/keras_file.h"

/// Adds every layer of `model`, its input first, to file->model. Adds E0461 or E0462 and returns
/// false where one cannot be taken.
bool keras_take_layers(KerasFile *file, const KerasModel *model);

#endif
