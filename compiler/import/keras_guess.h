// A model for a file of weights alone (.weights.h5, save_weights): what groups and shapes say, as a
// configuration like the one that a whole model has. Layers are recurrent ones, Dense and
// Embedding; legacy files have their order, others the one in which each layer's inputs fit the
// outputs before. What no shape says is as Keras has it by default, and is named in a note.
#ifndef RNNC_IMPORT_KERAS_GUESS_H
#define RNNC_IMPORT_KERAS_GUESS_H

#include "import/keras_file.h"

/// The configuration of a Sequential model, which the caller owns; NULL, with E0463, where the file
/// does not say enough.
json_t *keras_guess(KerasFile *file);

#endif
