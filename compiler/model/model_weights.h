// Weights of a model: which tensors each layer has, and their values from a file or a seed.
#ifndef RNNC_MODEL_MODEL_WEIGHTS_H
#define RNNC_MODEL_MODEL_WEIGHTS_H

#include "model/model.h"

/// Names and shapes of the layer's weights (design: canonical weights); data stays NULL.
void model_name_weights(Arena *arena, Layer *layer);

/// Loads or draws the data of all weights. Adds E04xx and returns false on a fault.
bool model_fill_weights(Arena *arena, Diags *diags, Model *model);

#endif
