// Tensors of a module in the order of its table: x, y (or y/fw and y/bw), lengths and mask where a
// layer is recurrent, then for each layer its states and weights.
// One list serves the C tables and the JSON of the ELF note.
#ifndef RNNC_EMIT_HOST_TENSORS_H
#define RNNC_EMIT_HOST_TENSORS_H

#include "model/model.h"
#include "rnnc/module.h"

typedef enum { HOST_FLOAT32, HOST_INT32, HOST_UINT8 } HostType;

typedef struct {
    const char *name;
    rnnc_role role;
    HostType dtype;
    int ndim;
    int64_t dims[4]; ///< RNNC_DIM_BATCH, RNNC_DIM_TIME where the spec says `any`
    int layer;       ///< -1: x, y, lengths and mask
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

/// The runtime's kind of a model's weight.
rnnc_weight_kind host_weight_kind(int kind);

#endif
