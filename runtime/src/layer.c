// Layer: see layer.h.
#include "layer.h"

#include <stddef.h>

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

/// What keeps a layer out of a module that generates text; NULL: nothing.
static const char *generation_obstacle(const rnnc_module_desc *desc, int32_t index)
{
    const rnnc_layer_desc *layer = &desc->layers[index];
    const int32_t before = index > 0 ? desc->layers[index - 1].out.slot : RNNC_SLOT_X;
    if (layer->kind == RNNC_LAYER_MERGE || layer->reversed || layer->beside)
        return "a layer goes backwards in time, from a token that is not drawn yet";
    if (rnnc_layer_masks(layer))
        return "a layer masks steps";
    if (layer->kind == RNNC_LAYER_DROPOUT || layer->recurrent_dropout > 0)
        return "a layer drops at inference";
    if (layer->in.slot != before || (layer->kind == RNNC_LAYER_EMBEDDING) != (index == 0))
        return "its layers are no chain from an embedding on";
    return NULL;
}

int32_t rnnc_module_last_cell(const rnnc_module_desc *desc, const char **out_reason)
{
    int32_t last_cell = -1;
    *out_reason = desc->tokens ? NULL : "its input is not tokens";
    for (int32_t i = 0; i < desc->layer_count && !*out_reason; i++) {
        *out_reason = generation_obstacle(desc, i);
        if (desc->layers[i].kind == RNNC_LAYER_CELL)
            last_cell = i;
    }
    const rnnc_layer_desc *last = &desc->layers[desc->layer_count - 1];
    if (!*out_reason && last_cell < 0)
        *out_reason = "it has no recurrent layer";
    if (!*out_reason && last_cell == desc->layer_count - 1)
        *out_reason = "its last layer is a cell, and no dense layer gives a logit for each token";
    if (!*out_reason && last->outputs != desc->layers[0].inputs)
        *out_reason = "its outputs are not as many as its tokens";
    return *out_reason ? -1 : last_cell;
}

const rnnc_training_desc *rnnc_module_training(const rnnc_module_desc *desc)
{
    const size_t end = offsetof(rnnc_module_desc, training) + sizeof desc->training;
    return desc->struct_bytes >= end ? desc->training : NULL;
}

const rnnc_generator_desc *rnnc_module_generator(const rnnc_module_desc *desc)
{
    const size_t end = offsetof(rnnc_module_desc, generator) + sizeof desc->generator;
    return desc->struct_bytes >= end ? desc->generator : NULL;
}
