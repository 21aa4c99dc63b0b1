// Weights from a file: canonical names, the table of conventions, and what no layer used.
#include <string.h>

#include "import/weights_filler.h"

enum { UNUSED_SHOWN = 8 };

static bool fill_canonical(Filler *filler, const WantedLayer *layer)
{
    bool good = true;
    for (int i = 0; i < layer->tensor_count; i++) {
        const struct WantedTensor *want = &layer->tensors[i];
        const char *name =
            arena_format(filler->arena, "%s%s/%s", filler->prefix, layer->layer, want->kind);
        const SafetensorsTensor *tensor = filler_find(filler, name);
        if (!tensor)
            filler_report_missing(filler, layer, name, NULL);
        good &= tensor && filler_take(filler, layer, tensor, want, want->data);
    }
    return good;
}

static void warn_unused(const Filler *filler)
{
    int count = 0;
    for (int i = 0; i < filler->file->count; i++) {
        if (filler->used[i])
            continue;
        if (count++ < UNUSED_SHOWN)
            diag_add(filler->diags, DIAG_W0401, filler->span, "'%s': no layer uses tensor '%s'",
                     filler->file->path, filler->file->tensors[i].name);
    }
    if (count > UNUSED_SHOWN)
        diag_add(filler->diags, DIAG_W0401, filler->span, "'%s': no layer uses %d more tensors",
                 filler->file->path, count - UNUSED_SHOWN);
}

bool weights_fill(Arena *arena, Diags *diags, Span span, const Safetensors *file,
                  WeightsConvention convention, const char *prefix, WantedLayer *layers,
                  int layer_count)
{
    static bool (*const fill[])(Filler *, const WantedLayer *) = {
        [WEIGHTS_CANONICAL] = fill_canonical,
        [WEIGHTS_PYTORCH] = weights_fill_pytorch,
        [WEIGHTS_KERAS] = weights_fill_keras,
        [WEIGHTS_ONNX] = weights_fill_onnx,
    };
    Filler filler = {.arena = arena,
                     .diags = diags,
                     .span = span,
                     .file = file,
                     .prefix = prefix ? prefix : "",
                     .used = ARENA_ARRAY(arena, bool, file->count + 1)};
    bool good = true;
    for (int i = 0; i < layer_count; i++) {
        if (!layers[i].base)
            layers[i].base = layers[i].layer;
        if (!layers[i].stack)
            layers[i].stack = layers[i].base;
        good &= fill[convention](&filler, &layers[i]);
    }
    if (good)
        warn_unused(&filler);
    return good;
}
