// Activations of ONNX, as operators and within RNN, GRU and LSTM, in the words of a spec.
#ifndef RNNC_IMPORT_ONNX_ACTIVATION_H
#define RNNC_IMPORT_ONNX_ACTIVATION_H

#include "import/onnx_graph.h"

/// The activations of a recurrent node's attributes. alpha and beta are consumed in the order of
/// the functions, each by those that have one; what is left out has ONNX' defaults.
typedef struct {
    const OnnxNode *node;
    size_t at, alpha_at, beta_at;
} OnnxActivations;

/// The next function as YAML ("tanh", "{leaky_relu: 0.05}"), or `otherwise` where the node names
/// none. NULL, refused by name, where it is unknown.
const char *onnx_next_activation(OnnxReader *reader, OnnxActivations *from, const char *otherwise);

/// `value` with as many digits as float32 needs.
const char *onnx_number_text(Arena *arena, double value);

#endif
