// Tensors of a module in the order of its table: x, y, then for each layer its states and weights.
// One list serves the C tables and the JSON of the ELF note.
#ifndef RNNC_EMIT_HOST_TENSORS_H
#define RNNC_EMIT_HOST_TENSORS_H

#include "model/model.h"
#include "rnnc/module.h"

typedef struct {
    const char *name;
    rnnc_role role;
    bool tokens; ///< int32, else float32
    int ndim;
    int64_t dims[4]; ///< RNNC_DIM_BATCH, RNNC_DIM_TIME where the spec says `any`
    int layer;       ///< -1: x and y
    int kind;        ///< weights: WEIGHT_*; states: their index
    double start;
} HostTensor;

typedef struct {
    HostTensor *items;
    int count;
} HostTensors;

HostTensors host_tensors(Arena *arena, const Model *model);

/// Index of state or weight `kind` of a layer, or -1.
int host_tensor_find(const HostTensors *tensors, rnnc_role role, int layer, int kind);

/// Whether layer `index` gets, and gives, a sequence.
bool host_sequence_in(const Model *model, int index);
bool host_sequence_out(const Model *model, int index);

/// The runtime's kind of a model's weight.
rnnc_weight_kind host_weight_kind(int kind);

#endif
