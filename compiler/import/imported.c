// Imported models and how they are printed: see imported.h.
#include "import/imported.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "import/safetensors.h"

typedef struct {
    const char *key, *value, *comment;
} Setting;

typedef struct {
    Setting *items;
    int count, capacity;
} Settings;

typedef struct {
    const char *name; ///< "enc/W"
    int64_t dims[2];
    int dim_count;
    const float *data;
} Tensor;

struct ImportedLayer {
    Imported *model;
    ImportedLayer *next;
    const char *name, *note;
    Settings settings; ///< the first makes the kind
};

struct Imported {
    Arena *arena;
    const char *path, *found;
    Settings input;
    ImportedLayer *first, *last;
    Tensor *tensors;
    int tensor_count, tensor_capacity;
};

static const char *copy(Arena *arena, const char *text)
{
    return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

/// A text of a file as it can stand in a comment: it must not end the line.
static const char *clean(Arena *arena, const char *text)
{
    char *out = text ? arena_copy(arena, text, strlen(text)) : NULL;
    for (char *at = out; at && *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    return out;
}

static void add_setting(Arena *arena, Settings *to, Setting setting)
{
    if (to->count == to->capacity) {
        const int capacity = to->capacity ? 2 * to->capacity : 8;
        Setting *items = ARENA_ARRAY(arena, Setting, capacity);
        if (to->count > 0)
            memcpy(items, to->items, (size_t)to->count * sizeof *items);
        to->items = items;
        to->capacity = capacity;
    }
    to->items[to->count++] = (Setting){.key = copy(arena, setting.key),
                                       .value = copy(arena, setting.value),
                                       .comment = clean(arena, setting.comment)};
}

Imported *imported_create(Arena *arena, const char *path, const char *found)
{
    Imported *model = ARENA_ARRAY(arena, Imported, 1);
    const char *slash = strrchr(path, '/');
    *model = (Imported){.arena = arena,
                        .path = clean(arena, slash ? slash + 1 : path),
                        .found = clean(arena, found)};
    return model;
}

const char *imported_found(const Imported *model)
{
    return model->found;
}

void imported_input(Imported *model, const char *key, const char *value, const char *comment)
{
    add_setting(model->arena, &model->input, (Setting){key, value, comment});
}

ImportedLayer *imported_add(Imported *model, const char *key, const char *value, const char *name)
{
    ImportedLayer *layer = ARENA_ARRAY(model->arena, ImportedLayer, 1);
    *layer = (ImportedLayer){.model = model, .name = copy(model->arena, name)};
    *(model->last ? &model->last->next : &model->first) = layer;
    model->last = layer;
    imported_set(layer, key, value, NULL);
    if (name)
        imported_set(layer, "name", name, NULL);
    return layer;
}

void imported_set(ImportedLayer *layer, const char *key, const char *value, const char *comment)
{
    add_setting(layer->model->arena, &layer->settings, (Setting){key, value, comment});
}

void imported_note(ImportedLayer *layer, const char *comment)
{
    char *note = arena_copy(layer->model->arena, comment, strlen(comment));
    for (char *at = note; *at; at++)
        if (*at != '\n' && (*at < ' ' || *at > '~'))
            *at = '?';
    layer->note = note;
}

/// Whether the kind, behind "1/" and "fw/", is that of a vector: b, rb or p.
static bool is_vector(const char *kind)
{
    const char *slash = strrchr(kind, '/'), *last = slash ? slash + 1 : kind;
    return text_equal(last, "b") || text_equal(last, "rb") || text_equal(last, "p");
}

void imported_weight(ImportedLayer *layer, const char *kind, int64_t rows, int64_t columns,
                     const float *data)
{
    Imported *model = layer->model;
    if (model->tensor_count == model->tensor_capacity) {
        const int capacity = model->tensor_capacity ? 2 * model->tensor_capacity : 16;
        Tensor *tensors = ARENA_ARRAY(model->arena, Tensor, capacity);
        if (model->tensor_count > 0)
            memcpy(tensors, model->tensors, (size_t)model->tensor_count * sizeof *tensors);
        model->tensors = tensors;
        model->tensor_capacity = capacity;
    }
    model->tensors[model->tensor_count++] =
        (Tensor){.name = arena_format(model->arena, "%s/%s", layer->name, kind),
                 .dims = {rows, columns},
                 .dim_count = is_vector(kind) ? 1 : 2,
                 .data = data};
}

/// A comment on lines of its own, each behind `indent` and "# ".
static void print_comment(Text *out, const char *indent, const char *comment)
{
    for (const char *line = comment; line;) {
        const size_t length = strcspn(line, "\n");
        text_addf(out, "%s# %.*s\n", indent, (int)length, line);
        line = line[length] ? line + length + 1 : NULL;
    }
}

/// `key: value` lines; the first of a layer follows its dash.
static void print_settings(Text *out, const Settings *settings, const char *first,
                           const char *indent)
{
    for (int i = 0; i < settings->count; i++) {
        const Setting *of = &settings->items[i];
        text_addf(out, "%s%s: %s", i ? indent : first, of->key, of->value);
        if (of->comment)
            text_addf(out, " # %s", of->comment);
        text_add(out, "\n");
    }
}

const char *imported_spec(Arena *arena, const Imported *model, const char *weights)
{
    Text out = {.arena = arena};
    text_addf(&out, "# From %s, %s.\nrnnc: 1\ninput:\n", model->path, model->found);
    print_settings(&out, &model->input, "  ", "  ");
    text_add(&out, "layers:\n");
    for (const ImportedLayer *layer = model->first; layer; layer = layer->next) {
        print_comment(&out, "  ", layer->note);
        print_settings(&out, &layer->settings, "  - ", "    ");
    }
    text_addf(&out, "weights: {file: %s, convention: canonical}\n", weights);
    return text_string(&out);
}

const Safetensors *imported_tensors(Arena *arena, const Imported *model, const char *path)
{
    Safetensors *file = ARENA_NEW(arena, Safetensors);
    file->path = copy(arena, path);
    file->count = model->tensor_count;
    file->tensors = ARENA_ARRAY(arena, SafetensorsTensor, model->tensor_count + 1);
    for (int i = 0; i < model->tensor_count; i++) {
        const Tensor *tensor = &model->tensors[i];
        file->tensors[i] = (SafetensorsTensor){
            .name = tensor->name,
            .dtype = "F32",
            .dims = {tensor->dims[0], tensor->dims[1]},
            .dim_count = tensor->dim_count,
            .data = (const unsigned char *)tensor->data,
            .size_bytes = sizeof(float) * (size_t)(tensor->dims[0] * tensor->dims[1])};
    }
    return file;
}

static bool make_folder(Diags *diags, const char *folder)
{
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        return true;
    diag_add(diags, DIAG_E0002, (Span){0}, "cannot make the folder '%s': %s", folder,
             strerror(errno));
    return false;
}

bool imported_write(Arena *arena, Diags *diags, const Imported *model, const char *folder)
{
    const char *spec = imported_spec(arena, model, "model.safetensors");
    SafetensorsEntry *entries = ARENA_ARRAY(arena, SafetensorsEntry, model->tensor_count + 1);
    for (int i = 0; i < model->tensor_count; i++)
        entries[i] = (SafetensorsEntry){.name = model->tensors[i].name,
                                        .dtype = "F32",
                                        .dims = model->tensors[i].dims,
                                        .dim_count = model->tensors[i].dim_count,
                                        .data = model->tensors[i].data};
    return make_folder(diags, folder) &&
           safetensors_write(arena, diags, arena_format(arena, "%s/model.safetensors", folder),
                             entries, model->tensor_count, NULL) &&
           file_write(arena, diags, arena_format(arena, "%s/model.yaml", folder), spec,
                      strlen(spec));
}
