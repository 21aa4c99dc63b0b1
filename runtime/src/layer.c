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

static bool runs_forward(const rnnc_module_desc *desc, int32_t index)
{
    const rnnc_layer_desc *layer = &desc->layers[index];
    return layer->kind == RNNC_LAYER_CELL && layer->sequence_in && !layer->reversed &&
           !layer->beside && !(index + 1 < desc->layer_count && desc->layers[index + 1].beside);
}

/// Whether two views lie in different buffers, or have their steps at the same places.
static bool agree(const rnnc_view *a, const rnnc_view *b)
{
    return a->slot != b->slot || (a->width == b->width && a->offset == b->offset);
}

int32_t rnnc_layer_stack(const rnnc_module_desc *desc, int32_t index)
{
    int32_t count = 1;
    if (!runs_forward(desc, index))
        return count;
    for (; count < RNNC_STACK_MAX && index + count < desc->layer_count; count++) {
        const rnnc_layer_desc *last = &desc->layers[index + count - 1];
        const rnnc_layer_desc *next = &desc->layers[index + count];
        bool fits = runs_forward(desc, index + count) && last->sequence_out &&
                    last->out.slot == next->in.slot && agree(&last->out, &next->in) &&
                    agree(&next->out, &desc->layers[index].in);
        for (int32_t i = index; i < index + count && fits; i++)
            fits = agree(&next->out, &desc->layers[i].out);
        if (!fits || next->out.slot == next->in.slot)
            break;
    }
    return count;
}

int64_t rnnc_layer_recurrent_size(const rnnc_layer_desc *layer)
{
    for (int32_t p = 0; p < layer->phase_count; p++)
        if (layer->phases[p].row_count > 0 && layer->phases[p].matrix == RNNC_WEIGHT_R)
            return layer->phases[p].operand_size;
    return 0;
}
