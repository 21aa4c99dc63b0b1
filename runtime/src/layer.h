// Layer: what the runtime asks of a layer's table that stands in no single field of it.
#ifndef RNNC_RUNTIME_LAYER_H
#define RNNC_RUNTIME_LAYER_H

#include <stdbool.h>

#include "rnnc/module.h"

/// Whether the layer masks steps for those after it: masking, or an embedding with mask_zero.
bool rnnc_layer_masks(const rnnc_layer_desc *layer);

/// The first layer of a module that masks steps, or NULL.
const rnnc_layer_desc *rnnc_module_self_masking(const rnnc_module_desc *desc);

/// Layers from `index` on that can run as a wavefront, each some steps behind the one before: cells
/// that take time forward, each reading the whole sequence that the one before writes, in buffers
/// that no two of them lay out differently. 1: none but the layer itself. At most RNNC_STACK_MAX.
enum { RNNC_STACK_MAX = 8 };
int32_t rnnc_layer_stack(const rnnc_module_desc *desc, int32_t index);

/// The last cell of a module that generates text; -1, with the reason, for any other.
int32_t rnnc_module_last_cell(const rnnc_module_desc *desc, const char **out_reason);

/// The size of the vectors that R multiplies; 0: the layer has no product with R.
int64_t rnnc_layer_recurrent_size(const rnnc_layer_desc *layer);

/// What the module says of training, or NULL.
const rnnc_training_desc *rnnc_module_training(const rnnc_module_desc *desc);

/// How the module generates text in one launch, or NULL.
const rnnc_generator_desc *rnnc_module_generator(const rnnc_module_desc *desc);

#endif
