// Weights from a file: names of each convention, shapes, conversion, and what no layer used.
#include "import/weights.h"

#include <string.h>

#include "base/text.h"
#include "import/npy.h"

enum { NAMES_SHOWN = 6, UNUSED_SHOWN = 8 };

typedef struct {
    Arena *arena;
    Diags *diags;
    Span span;
    const Safetensors *file;
    const char *prefix;
    bool *used; ///< one a tensor of the file
} Filler;

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
static void report_missing(const Filler *filler, const WantedLayer *layer, const char *name,
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
}

static const SafetensorsTensor *find(const Filler *filler, const char *name)
{
    const SafetensorsTensor *tensor = safetensors_find(filler->file, name);
    if (tensor)
        filler->used[tensor - filler->file->tensors] = true;
    return tensor;
}

static bool is_vector(const char *kind)
{
    return kind[0] == 'b' || kind[0] == 'r' || kind[0] == 'p';
}

/// Checks the shape of `tensor` ([rows, columns], or [rows] for a vector) and converts it.
static bool take(const Filler *filler, const WantedLayer *layer, const SafetensorsTensor *tensor,
                 bool vector, int64_t rows, int64_t columns, float *out)
{
    const int64_t wanted[] = {rows, columns};
    int dim_count = vector ? 1 : 2;
    bool fits = tensor->dim_count == dim_count;
    for (int i = 0; i < dim_count && fits; i++)
        fits = tensor->dims[i] == wanted[i];
    if (!fits) {
        Diag *diag = diag_add(filler->diags, DIAG_E0406, filler->span,
                              "'%s': tensor '%s' of layer '%s' (%s) is %s, but %s is wanted",
                              filler->file->path, tensor->name, layer->layer, layer->cell,
                              npy_shape_text(filler->arena, tensor->dims, tensor->dim_count),
                              npy_shape_text(filler->arena, wanted, dim_count));
        if (!vector && tensor->dim_count == 2 && tensor->dims[0] == columns &&
            tensor->dims[1] == rows)
            diag_help(diag, "it is the transpose; is the file of another convention?");
        return false;
    }
    if (safetensors_to_float(tensor, out))
        return true;
    diag_add(filler->diags, DIAG_E0407, filler->span,
             "'%s': tensor '%s' is %s; weights are F32, F64, F16 or BF16", filler->file->path,
             tensor->name, tensor->dtype);
    return false;
}

static bool fill_canonical(const Filler *filler, const WantedLayer *layer)
{
    bool good = true;
    for (int i = 0; i < layer->tensor_count; i++) {
        const struct WantedTensor *want = &layer->tensors[i];
        const char *name =
            arena_format(filler->arena, "%s%s/%s", filler->prefix, layer->layer, want->kind);
        const SafetensorsTensor *tensor = find(filler, name);
        if (!tensor)
            report_missing(filler, layer, name, NULL);
        good &= tensor && take(filler, layer, tensor, is_vector(want->kind), want->rows,
                               want->columns, want->data);
    }
    return good;
}

/// One tensor of a PyTorch module: `<stack>.<word>_l<k>`, for k = 0 also `<stack>.<word>`;
/// modules that are no stack (dense, embedding) have only the latter.
static bool take_pytorch(const Filler *filler, const WantedLayer *layer, const char *word,
                         bool stacked, const struct WantedTensor *want, float *out)
{
    const char *plain = arena_format(filler->arena, "%s%s.%s", filler->prefix, layer->stack, word);
    const char *numbered = arena_format(filler->arena, "%s_l%d", plain, layer->stack_index);
    bool both = stacked && layer->stack_index == 0;
    const SafetensorsTensor *tensor = find(filler, stacked ? numbered : plain);
    if (!tensor && both)
        tensor = find(filler, plain);
    if (!tensor) {
        report_missing(filler, layer, stacked ? numbered : plain, both ? plain : NULL);
        return false;
    }
    return take(filler, layer, tensor, is_vector(want->kind), want->rows, want->columns, out);
}

static const struct WantedTensor *wanted(const WantedLayer *layer, const char *kind)
{
    for (int i = 0; i < layer->tensor_count; i++)
        if (strcmp(layer->tensors[i].kind, kind) == 0)
            return &layer->tensors[i];
    return NULL;
}

/// b = bias_ih + bias_hh. Where the recurrent bias of the last gates stands apart (GRU with its
/// reset after the product), those rows of bias_hh become rb instead.
static bool fill_pytorch_biases(const Filler *filler, const WantedLayer *layer)
{
    const struct WantedTensor *b = wanted(layer, "b"), *rb = wanted(layer, "rb");
    if (!b)
        return true;
    float *recurrent = ARENA_ARRAY(filler->arena, float, b->rows);
    bool good = take_pytorch(filler, layer, "bias_ih", true, b, b->data);
    good &= take_pytorch(filler, layer, "bias_hh", true, b, recurrent);
    if (!good)
        return false;
    int64_t apart = rb ? rb->rows : 0, merged = b->rows - apart;
    for (int64_t i = 0; i < merged; i++)
        b->data[i] += recurrent[i];
    if (rb)
        memcpy(rb->data, recurrent + merged, sizeof(float) * (size_t)apart);
    return true;
}

static bool fits_pytorch(const Filler *filler, const WantedLayer *layer)
{
    const struct WantedTensor *b = wanted(layer, "b"), *rb = wanted(layer, "rb");
    bool gru = layer->last_only_bias_n || strcmp(layer->cell, "gru") == 0;
    bool rb_fits = !rb || (gru && b && rb->rows <= b->rows);
    if (!wanted(layer, "p") && rb_fits)
        return true;
    Diag *diag = diag_add(filler->diags, DIAG_E0408, filler->span,
                          "PyTorch has no name for tensor '%s' of layer '%s' (%s)",
                          rb_fits ? "p" : "rb", layer->layer, layer->cell);
    diag_help(diag,
              "store the weights under canonical names, such as %s/%s, and write "
              "`convention: canonical`",
              layer->layer, rb_fits ? "p" : "rb");
    return false;
}

static bool fill_pytorch(const Filler *filler, const WantedLayer *layer)
{
    static const struct {
        const char *cell; ///< NULL: any cell
        const char *kind, *word;
    } rows[] = {
        {"dense", "W", "weight"}, {"dense", "b", "bias"},   {"embedding", "E", "weight"},
        {NULL, "W", "weight_ih"}, {NULL, "R", "weight_hh"}, {NULL, "P", "weight_hr"},
    };
    bool stacked = strcmp(layer->cell, "dense") != 0 && strcmp(layer->cell, "embedding") != 0;
    if (stacked && !fits_pytorch(filler, layer))
        return false;
    bool good = !stacked || fill_pytorch_biases(filler, layer);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool applies = rows[i].cell ? strcmp(rows[i].cell, layer->cell) == 0 : stacked;
        const struct WantedTensor *want = applies ? wanted(layer, rows[i].kind) : NULL;
        if (want)
            good &= take_pytorch(filler, layer, rows[i].word, stacked, want, want->data);
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
    Filler filler = {.arena = arena,
                     .diags = diags,
                     .span = span,
                     .file = file,
                     .prefix = prefix ? prefix : "",
                     .used = ARENA_ARRAY(arena, bool, file->count + 1)};
    bool good = true;
    for (int i = 0; i < layer_count; i++) {
        if (!layers[i].stack)
            layers[i].stack = layers[i].layer;
        good &= convention == WEIGHTS_PYTORCH ? fill_pytorch(&filler, &layers[i])
                                              : fill_canonical(&filler, &layers[i]);
    }
    if (good)
        warn_unused(&filler);
    return good;
}
