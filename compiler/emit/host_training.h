// Host training: the tables of rnnc_training_desc, which a module for training has.
#ifndef RNNC_EMIT_HOST_TRAINING_H
#define RNNC_EMIT_HOST_TRAINING_H

#include "model/model.h"

/// Prints `static const rnnc_training_desc rnnc_training` and the table before it.
void host_print_training(const Model *model, Text *out);

#endif
