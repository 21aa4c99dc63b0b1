// The layers of a Keras model in the order in which they run. A Functional graph is taken where it
// is a line: one input, one output, each layer called once on what one layer before it gives.
#ifndef RNNC_IMPORT_KERAS_GRAPH_H
#define RNNC_IMPORT_KERAS_GRAPH_H

#include "import/keras_file.h"

/// Reads the layers of a configuration (Sequential, Functional, Model). Adds E0460 or E0461 and
/// returns false where there are none or they branch.
bool keras_read_graph(const KerasFile *file, const json_t *config, KerasModel *out);

#endif
