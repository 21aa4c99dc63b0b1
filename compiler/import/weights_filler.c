// What the conventions share: see weights_filler.h.
#include "import/weights_filler.h"

#include <string.h>

#include "base/text.h"
#include "import/npy.h"

enum { NAMES_SHOWN = 6 };

/// Appends "name, name, ..." of the file's tensors that begin with `start`; returns how many do.
static int list_names(const Filler *filler, const char *start, Text *out)
{
    int count = 0;
    for (int i = 0; i < filler->file->count; i++) {
        const char *name = filler->file->tensors[i].name;
        if (strncmp(name, start, strlen(start)) != 0)
            continue;
        if (count < NAMES_SHOWN)
            text_addf(out, "%s%s", count ? ", " : "", name);
        count += 1;
    }
    if (count > NAMES_SHOWN)
        text_addf(out, " and %d more", count - NAMES_SHOWN);
    return count;
}

/// Tensors that another name has claimed are no candidates for "did you mean".
Diag *filler_report_missing(const Filler *filler, const WantedLayer *layer, const char *name,
                            const char *also)
{
    Diag *diag =
        diag_add(filler->diags, DIAG_E0405, filler->span,
                 "'%s' has no tensor '%s'%s%s%s, which layer '%s' needs", filler->file->path, name,
                 also ? " (or '" : "", also ? also : "", also ? "')" : "", layer->layer);
    const char **names = ARENA_ARRAY(filler->arena, const char *, filler->file->count + 1);
    size_t count = 0;
    for (int i = 0; i < filler->file->count; i++)
        if (!filler->used[i])
            names[count++] = filler->file->tensors[i].name;
    const char *near = text_nearest(name, names, count);
    if (near)
        diag_help(diag, "did you mean '%s'?", near);
    const char *owner = arena_format(filler->arena, "%s%s", filler->prefix, layer->stack);
    Text list = {.arena = filler->arena};
    if (list_names(filler, owner, &list))
        diag_help(diag, "of '%s' the file has: %s", owner, text_string(&list));
    else if (list_names(filler, "", &list))
        diag_help(diag, "the file has: %s", text_string(&list));
    return diag;
}

void filler_report_unknown(const Filler *filler, const WantedLayer *layer, const char *convention,
                           const char *what)
{
    Diag *diag = diag_add(filler->diags, DIAG_E0408, filler->span,
                          "%s has no name for %s of layer '%s' (%s)", convention, what,
                          layer->layer, layer->cell);
    diag_help(diag,
              "store the weights under canonical names, such as %s/%s, and write "
              "`convention: canonical`",
              layer->layer,
              layer->tensor_count ? layer->tensors[layer->tensor_count - 1].kind : "W");
}

void filler_mark_used(const Filler *filler, const SafetensorsTensor *tensor)
{
    filler->used[tensor - filler->file->tensors] = true;
}

const SafetensorsTensor *filler_find(const Filler *filler, const char *name)
{
    const SafetensorsTensor *tensor = safetensors_find(filler->file, name);
    if (tensor)
        filler_mark_used(filler, tensor);
    return tensor;
}

static bool same_dims(const int64_t *a, const int64_t *b, int count)
{
    return count == 0 || memcmp(a, b, sizeof *a * (size_t)count) == 0;
}

/// What a shape other than the wanted one looks like.
static void advise(Diag *diag, const SafetensorsTensor *tensor, const int64_t *wanted,
                   int dim_count)
{
    if (dim_count == 2 && tensor->dim_count == 2 && tensor->dims[0] == wanted[1] &&
        tensor->dims[1] == wanted[0])
        diag_help(diag, "it is the transpose: keras has [inputs, gates * units], pytorch and "
                        "canonical have [gates * units, inputs]; is the file of another "
                        "convention?");
    else if (tensor->dim_count == dim_count + 1 && same_dims(tensor->dims + 1, wanted, dim_count))
        diag_help(diag, "the first dimension looks like onnx's number of directions; is the file "
                        "of another convention?");
    else if (tensor->dim_count == dim_count - 1 &&
             same_dims(tensor->dims, wanted + 1, dim_count - 1))
        diag_help(diag, "the first dimension is missing; is the file of another convention?");
}

bool filler_has_shape(const Filler *filler, const WantedLayer *layer,
                      const SafetensorsTensor *tensor, const int64_t *wanted, int dim_count,
                      const char *advice)
{
    if (tensor->dim_count == dim_count && same_dims(tensor->dims, wanted, dim_count))
        return true;
    Diag *diag = diag_add(filler->diags, DIAG_E0406, filler->span,
                          "'%s': tensor '%s' of layer '%s' (%s) is %s, but %s is wanted",
                          filler->file->path, tensor->name, layer->layer, layer->cell,
                          npy_shape_text(filler->arena, tensor->dims, tensor->dim_count),
                          npy_shape_text(filler->arena, wanted, dim_count));
    if (advice)
        diag_help(diag, "%s", advice);
    else
        advise(diag, tensor, wanted, dim_count);
    return false;
}

bool filler_convert(const Filler *filler, const SafetensorsTensor *tensor, float *out)
{
    if (safetensors_to_float(tensor, out))
        return true;
    diag_add(filler->diags, DIAG_E0407, filler->span,
             "'%s': tensor '%s' is %s; weights are F32, F64, F16 or BF16", filler->file->path,
             tensor->name, tensor->dtype);
    return false;
}

const float *filler_values(Filler *filler, const SafetensorsTensor *tensor)
{
    int64_t elems = 1;
    for (int i = 0; i < tensor->dim_count; i++)
        elems *= tensor->dims[i];
    if (elems > filler->value_count) {
        filler->values = ARENA_ARRAY(filler->arena, float, elems);
        filler->value_count = elems;
    }
    return filler_convert(filler, tensor, filler->values) ? filler->values : NULL;
}

bool wanted_is_vector(const struct WantedTensor *want)
{
    return want->kind[0] == 'b' || want->kind[0] == 'r' || want->kind[0] == 'p';
}

bool filler_take(const Filler *filler, const WantedLayer *layer, const SafetensorsTensor *tensor,
                 const struct WantedTensor *want, float *out)
{
    const int64_t wanted[] = {want->rows, want->columns};
    return filler_has_shape(filler, layer, tensor, wanted, wanted_is_vector(want) ? 1 : 2, NULL) &&
           filler_convert(filler, tensor, out);
}

const struct WantedTensor *wanted_tensor(const WantedLayer *layer, const char *kind)
{
    for (int i = 0; i < layer->tensor_count; i++)
        if (strcmp(layer->tensors[i].kind, kind) == 0)
            return &layer->tensors[i];
    return NULL;
}

/// Index of the gate of that one-letter name, or -1.
static int gate_index(const struct WantedTensor *want, char letter)
{
    for (int i = 0; want->gates && i < want->gate_count; i++)
        if (want->gates[i][0] == letter && !want->gates[i][1])
            return i;
    return -1;
}

static bool knows_gates(const struct WantedTensor *want, const char *gates)
{
    if (!gates || strlen(gates) != (size_t)want->gate_count)
        return false;
    for (const char *gate = gates; *gate; gate++)
        if (gate_index(want, *gate) < 0)
            return false;
    return true;
}

static bool knows_tensor(const GateOrder *order, const struct WantedTensor *want)
{
    if (strcmp(want->kind, "p") == 0)
        return knows_gates(want, order->peepholes);
    if (strcmp(want->kind, "rb") == 0)
        return strcmp(order->cell, "gru") == 0 && knows_gates(want, "n");
    return want->kind[0] != 'P' && knows_gates(want, order->gates);
}

const GateOrder *filler_gate_order(const Filler *filler, const WantedLayer *layer,
                                   const char *convention, const GateOrder *orders, int count)
{
    const GateOrder *order = NULL;
    for (int i = 0; i < count; i++)
        if (strcmp(orders[i].cell, layer->cell) == 0)
            order = &orders[i];
    for (int i = 0; order && i < layer->tensor_count; i++)
        if (!knows_tensor(order, &layer->tensors[i]))
            order = NULL;
    if (!order)
        filler_report_unknown(filler, layer, convention, "the weights of the cell");
    else if (layer->heads > 1)
        filler_report_unknown(filler, layer, convention, "the heads");
    return layer->heads > 1 ? NULL : order;
}

void wanted_place_gates(const struct WantedTensor *want, const char *gates, const float *values)
{
    size_t block = (size_t)(want->rows / want->gate_count * want->columns);
    for (size_t i = 0; gates[i]; i++)
        memcpy(want->data + (size_t)gate_index(want, gates[i]) * block, values + i * block,
               sizeof *values * block);
}

void wanted_place_biases(const struct WantedTensor *b, const struct WantedTensor *rb,
                         const char *gates, const float *input, const float *recurrent)
{
    int64_t units = b->rows / b->gate_count;
    wanted_place_gates(b, gates, input);
    for (int i = 0; gates[i]; i++) {
        int apart = rb ? gate_index(rb, gates[i]) : -1;
        float *out =
            apart >= 0 ? rb->data + apart * units : b->data + gate_index(b, gates[i]) * units;
        for (int64_t u = 0; u < units; u++)
            out[u] = recurrent[i * units + u] + (apart >= 0 ? 0 : out[u]);
    }
}
