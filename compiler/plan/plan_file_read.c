// Plan file, reading: see plan_file.h.
#include <errno.h>
#include <stdlib.h>

#include "base/file.h"
#include "plan/plan_file.h"
#include "spec/doc.h"

typedef struct {
    Arena *arena;
    Diags *diags;
    bool failed;
} Reader;

static void refuse(Reader *reader, Span span, const char *text, const char *key)
{
    Diag *diag = diag_add(reader->diags, DIAG_E0606, span, text, key);
    diag_help(diag, "write the plan anew: rnnc tune MODEL.yaml -o FILE");
    reader->failed = true;
}

/// The value of `key`, of that kind; NULL, with a diagnostic, where there is none.
static const DocNode *take(Reader *reader, const DocNode *mapping, const char *key, DocKind kind)
{
    const DocEntry *entry = doc_find(mapping, key);
    if (!entry)
        refuse(reader, mapping->span, "the plan has no '%s' here", key);
    else if (entry->value->kind != kind)
        refuse(reader, entry->value->span, "'%s' of the plan is of another kind", key);
    else
        return entry->value;
    return NULL;
}

static const char *take_text(Reader *reader, const DocNode *mapping, const char *key)
{
    const DocNode *node = take(reader, mapping, key, DOC_SCALAR);
    return node ? node->text : "";
}

static bool is_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && !errno && *out >= 0;
}

static int64_t take_number(Reader *reader, const DocNode *mapping, const char *key, int64_t most)
{
    const DocNode *node = take(reader, mapping, key, DOC_SCALAR);
    int64_t value = 0;
    if (node && (!is_number(node->text, &value) || value > most))
        refuse(reader, node->span, "'%s' of the plan is no such number", key);
    return value;
}

/// A number, or `any`, which is 0.
static int64_t take_size(Reader *reader, const DocNode *mapping, const char *key)
{
    const DocEntry *entry = doc_find(mapping, key);
    const bool any =
        entry && entry->value->kind == DOC_SCALAR && text_equal(entry->value->text, "any");
    return any ? 0 : take_number(reader, mapping, key, INT64_MAX);
}

static WorkLayout read_layout(Reader *reader, const DocNode *node)
{
    WorkLayout layout = {0};
    for (int i = 0; i < node->count && !reader->failed; i++) {
        const char *name = node->entries[i].key->text;
        if (layout.count == LAYOUT_NUMBERS_MAX) {
            refuse(reader, node->entries[i].key->span, "'%s' is one number too many of a layout",
                   name);
            break;
        }
        layout.numbers[layout.count++] = (struct LayoutNumber){
            .name = name, .value = (int)take_number(reader, node, name, INT32_MAX)};
    }
    return layout;
}

static PlannedLayer read_layer(Reader *reader, const DocEntry *entry)
{
    const DocNode *node = entry->value;
    PlannedLayer layer = {.name = entry->key->text,
                          .span = entry->key->span,
                          .variant_span = entry->key->span,
                          .cell = take_text(reader, node, "cell"),
                          .inputs = take_number(reader, node, "inputs", INT64_MAX),
                          .units = take_number(reader, node, "units", INT64_MAX)};
    const DocNode *variant = take(reader, node, "variant", DOC_SCALAR);
    const DocEntry *layout = doc_find(node, "layout");
    if (variant) {
        layer.variant = variant_find(variant->text);
        layer.variant_span = variant->span;
    }
    if (variant && !layer.variant)
        refuse(reader, variant->span, "unknown variant '%s'", variant->text);
    if (layout && take(reader, node, "layout", DOC_MAPPING))
        layer.layout = read_layout(reader, layout->value);
    return layer;
}

const PlanFile *plan_file_read(Arena *arena, Diags *diags, const char *path)
{
    Reader reader = {.arena = arena, .diags = diags};
    const Source *source = file_read(arena, diags, path, (Span){0});
    const DocNode *root = source ? doc_read(arena, diags, source) : NULL;
    if (!root)
        return NULL;
    const DocEntry *version = root->kind == DOC_MAPPING ? doc_find(root, "rnnc_plan") : NULL;
    if (!version)
        refuse(&reader, root->span, "this is no plan: it has no '%s'", "rnnc_plan");
    else if (take_number(&reader, root, "rnnc_plan", INT64_MAX) != PLAN_FILE_VERSION)
        refuse(&reader, version->value->span, "'%s' is of another version than this rnnc reads",
               "rnnc_plan");
    if (reader.failed)
        return NULL;
    PlanFile *file = ARENA_NEW(arena, PlanFile);
    *file = (PlanFile){.model = take_text(&reader, root, "model"),
                       .precision = take_text(&reader, root, "precision"),
                       .device = take_text(&reader, root, "device"),
                       .arch = (int)take_number(&reader, root, "arch", INT32_MAX),
                       .batch = take_size(&reader, root, "batch"),
                       .timesteps = take_size(&reader, root, "timesteps"),
                       .span = root->span};
    const DocNode *layers = take(&reader, root, "layers", DOC_MAPPING);
    for (int i = 0; layers && i < layers->count; i++)
        if (take(&reader, layers, layers->entries[i].key->text, DOC_MAPPING))
            ARENA_PUSH(arena, file->layers, file->layer_count,
                       read_layer(&reader, &layers->entries[i]));
    return reader.failed ? NULL : file;
}
