// Layer: see layer.h.
#include "layer.h"

bool rnnc_layer_masks(const rnnc_layer_desc *layer)
{
    return layer->kind == RNNC_LAYER_MASKING ||
           (layer->kind == RNNC_LAYER_EMBEDDING && layer->mask_zero);
}

const rnnc_layer_desc *rnnc_module_self_masking(const rnnc_module_desc *desc)
{
    for (int32_t i = 0; i < desc->layer_count; i++)
        if (rnnc_layer_masks(&desc->layers[i]))
            return &desc->layers[i];
    return NULL;
}

int64_t rnnc_layer_recurrent_size(const rnnc_layer_desc *layer)
{
    for (int32_t p = 0; p < layer->phase_count; p++)
        if (layer->phases[p].row_count > 0 && layer->phases[p].matrix == RNNC_WEIGHT_R)
            return layer->phases[p].operand_size;
    return 0;
}
