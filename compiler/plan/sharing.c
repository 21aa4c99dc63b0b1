// Sharing: see sharing.h.
#include "plan/sharing.h"

bool sharing_check(Arena *arena, const PlanContext *context, const char *group, Reasons *reasons)
{
    const Layer *layer = context->layer;
    const Cell *cell = layer->cell;
    int products = 0;
    for (int p = 0; p < cell->phase_count; p++) {
        products += cell->phases[p].row_count;
        if (cell->phases[p].norm_count > 0) {
            reason_add(arena, reasons, layer->spec->cell.span,
                       "cell '%s': layer_norm needs all units of a row, which lie in several CTAs",
                       cell->name);
            return false;
        }
    }
    if (products == 0)
        reason_add(arena, reasons, layer->spec->cell.span,
                   "cell '%s' has no recurrent product, so nothing to share", cell->name);
    else if (layer->heads > 1)
        reason_add(arena, reasons, layer->spec->heads.span,
                   "heads: %lld (the CTAs of a %s share full matrices)", (long long)layer->heads,
                   group);
    return products > 0 && layer->heads <= 1;
}
