// Spec reader: walks the document along the schema table. What a key means to its value is in the
// table and in values.c; here is what mappings, layers and the whole spec must satisfy.
#include "spec/spec.h"

#include "base/file.h"
#include "spec/check.h"
#include "spec/values.h"

static void read_mapping(SpecReader *reader, const DocNode *mapping, unsigned place,
                         const char *where, void *target);

const char *precision_name(Precision precision)
{
    static const char *const names[] = {[PRECISION_FLOAT32] = "float32",
                                        [PRECISION_TF32] = "tf32",
                                        [PRECISION_BFLOAT16] = "bfloat16",
                                        [PRECISION_FLOAT16] = "float16"};
    return names[precision];
}

static void unknown_key(SpecReader *reader, unsigned place, const char *where, const DocNode *key)
{
    const char *home = schema_home(key->text), *nearest = schema_nearest(place, key->text);
    Diag *diag = diag_add(reader->diags, home ? DIAG_E0209 : DIAG_E0204, key->span,
                          home ? "key '%.60s' has no meaning %s" : "unknown key '%.60s' %s",
                          key->text, where);
    if (home)
        diag_help(diag, "'%s' is a key of %s", key->text, home);
    else if (nearest)
        diag_help(diag, "did you mean '%s'?", nearest);
}

static void wrong_node(SpecReader *reader, const DocEntry *entry, const char *wanted)
{
    Diag *diag = diag_add(reader->diags, DIAG_E0201,
                          entry->value->span.length > 0 ? entry->value->span : entry->key->span,
                          "'%s' takes %s, not %s", entry->key->text, wanted,
                          value_describe(reader->arena, entry->value));
    diag_help(diag, "docs/spec.md shows the form of every key");
}

/// The mapping after `input:`, `compile:` or `weights:`.
static void read_section(SpecReader *reader, const DocEntry *entry, unsigned place)
{
    const char *where = arena_format(reader->arena, "in `%s`", entry->key->text);
    if (entry->value->kind == DOC_MAPPING)
        read_mapping(reader, entry->value, place, where, reader->spec);
    else
        wrong_node(reader, entry, "a mapping");
}

/// `dense: 8` is short for `dense: {units: 8}`.
static void read_units_or_mapping(SpecReader *reader, const DocEntry *entry, unsigned place,
                                  const char *where, SpecLayer *layer)
{
    for (const SchemaKey *key = schema_keys; key->name; key++)
        if (key->places & place)
            value_default(reader, key, layer);
    if (entry->value->kind == DOC_MAPPING) {
        read_mapping(reader, entry->value, place, where, layer);
        return;
    }
    SchemaKey units = *schema_find(place, "units");
    units.name = entry->key->text;
    value_read(&(SpecValue){reader, &units, entry, where, layer});
}

static void refuse_mixture(SpecReader *reader, const DocNode *mapping, const SchemaKind *first,
                           const SchemaKind *second, const char *where)
{
    Diag *diag =
        diag_add(reader->diags, DIAG_E0206, doc_find(mapping, second->key)->key->span,
                 "'%s' and '%s' %s: a layer is one or the other", first->key, second->key, where);
    diag_help(diag, "make them two items of `layers`");
    if (first->place == AT_DENSE_LAYER && schema_find(AT_DENSE, second->key))
        diag_help(diag, "or put the key inside: `dense: {units: ..., %s: ...}`", second->key);
}

/// The kind whose key the mapping has. NULL, with a diagnostic, where there is none or are two.
static const SchemaKind *kind_of(SpecReader *reader, const DocNode *mapping, const char *where)
{
    const SchemaKind *found = NULL;
    for (const SchemaKind *kind = schema_kinds; kind->key; kind++) {
        if (!doc_find(mapping, kind->key) || (found && schema_find(found->place, kind->key)))
            continue;
        if (found) {
            refuse_mixture(reader, mapping, found, kind, where);
            return NULL;
        }
        found = kind;
    }
    if (found)
        return found;
    Text list = {.arena = reader->arena};
    for (const SchemaKind *kind = schema_kinds; kind->key; kind++)
        text_addf(&list, "%s`%s`", kind == schema_kinds ? "" : ", ", kind->key);
    Diag *diag = diag_add(reader->diags, DIAG_E0206,
                          mapping->count ? mapping->entries[0].key->span : mapping->span,
                          "nothing %s says what kind of layer it is", where);
    diag_help(diag, "a layer has one of the keys %s", text_string(&list));
    const char *nearest = NULL;
    for (int i = 0; i < mapping->count && !nearest; i++)
        for (const SchemaKind *kind = schema_kinds; kind->key && !nearest; kind++)
            nearest = text_nearest(mapping->entries[i].key->text, &kind->key, 1);
    if (nearest)
        diag_help(diag, "did you mean '%s'?", nearest);
    return NULL;
}

/// One direction of a bidirectional layer: a cell layer that has the name of the whole.
static void read_direction(SpecReader *reader, const DocEntry *entry, const char *where,
                           SpecLayer **out)
{
    const DocNode *node = entry->value;
    SpecLayer *layer = ARENA_NEW(reader->arena, SpecLayer);
    *layer = (SpecLayer){.kind = SPEC_CELL, .layers = {.value = 1}, .span = node->span};
    if (node->kind != DOC_MAPPING) {
        wrong_node(reader, entry, "a cell layer");
        return;
    }
    if (node->count)
        layer->span = node->entries[0].key->span;
    where = arena_format(reader->arena, "in `%s` %s", entry->key->text, where);
    read_mapping(reader, node, AT_CELL_LAYER, where, layer);
    const DocEntry *name = doc_find(node, "name");
    if (name)
        diag_help(diag_add(reader->diags, DIAG_E0209, name->key->span,
                           "key 'name' has no meaning %s", where),
                  "name both directions at once, beside `bidirectional:`");
    *out = layer;
}

/// The mapping after `bidirectional:`.
static void read_bidirectional(SpecReader *reader, const DocEntry *entry, const char *where,
                               SpecLayer *layer)
{
    if (entry->value->kind != DOC_MAPPING) {
        wrong_node(reader, entry, "a mapping");
        return;
    }
    read_mapping(reader, entry->value, AT_BIDIRECTIONAL,
                 arena_format(reader->arena, "in `bidirectional` %s", where), layer);
}

static void read_layer(SpecReader *reader, const DocNode *node, int index)
{
    const char *where = arena_format(reader->arena, "in layer %d", index);
    SpecLayer layer = {.layers = {.value = 1}, .span = node->span, .return_sequences = {true, {0}}};
    const SchemaKind *kind = NULL;
    if (node->kind == DOC_MAPPING) {
        kind = kind_of(reader, node, where);
    } else {
        Diag *diag =
            diag_add(reader->diags, DIAG_E0201, node->span, "layer %d is a mapping, not %s", index,
                     value_describe(reader->arena, node));
        diag_help(diag, "write it like `- {cell: lstm, units: 64}` or `- {dense: 8}`");
    }
    layer.name.text = arena_format(reader->arena, "l%d", index);
    if (kind) {
        layer.kind = kind->kind;
        layer.span = node->entries[0].key->span;
        read_mapping(reader, node, kind->place, where, &layer);
    }
    if (layer.forward)
        layer.forward->name = layer.name;
    if (layer.backward)
        layer.backward->name = layer.name;
    ARENA_PUSH(reader->arena, reader->spec->layers, reader->spec->layer_count, layer);
}

static void read_layers(SpecReader *reader, const DocEntry *entry)
{
    if (entry->value->kind != DOC_SEQUENCE || entry->value->count == 0) {
        wrong_node(reader, entry,
                   entry->value->kind == DOC_SEQUENCE ? "at least one layer" : "a list of layers");
        return;
    }
    for (int i = 0; i < entry->value->count; i++)
        read_layer(reader, entry->value->items[i], i);
}

static void read_entry(SpecReader *reader, const SchemaKey *key, const DocEntry *entry,
                       const char *where, void *target)
{
    switch (key->type) {
    case TYPE_INPUT:
        read_section(reader, entry, AT_INPUT);
        break;
    case TYPE_COMPILE:
        read_section(reader, entry, AT_COMPILE);
        break;
    case TYPE_WEIGHTS:
        read_section(reader, entry, AT_WEIGHTS);
        break;
    case TYPE_LAYERS:
        read_layers(reader, entry);
        break;
    case TYPE_EMBEDDING:
        read_units_or_mapping(reader, entry, AT_EMBEDDING, where, target);
        break;
    case TYPE_DENSE:
        read_units_or_mapping(reader, entry, AT_DENSE, where, target);
        break;
    case TYPE_BIDIRECTIONAL:
        read_bidirectional(reader, entry, where, target);
        break;
    case TYPE_DIRECTION:
        read_direction(reader, entry, where, (SpecLayer **)((char *)target + key->offset));
        break;
    default:
        value_read(&(SpecValue){reader, key, entry, where, target});
    }
}

/// Whether an unknown key of the mapping was already answered with "did you mean" this one.
static bool is_misspelt(const DocNode *mapping, unsigned place, const SchemaKey *key)
{
    for (int i = 0; i < mapping->count; i++) {
        const char *name = mapping->entries[i].key->text;
        const char *nearest = schema_home(name) ? NULL : schema_nearest(place, name);
        if (nearest && text_equal(nearest, key->name))
            return true;
    }
    return false;
}

static void report_missing(SpecReader *reader, const DocNode *mapping, const SchemaKey *key,
                           const char *where)
{
    Span span = mapping->count ? mapping->entries[0].key->span : mapping->span;
    Diag *diag =
        diag_add(reader->diags, DIAG_E0202, span, "key '%s' is missing %s", key->name, where);
    diag_help(diag, "%s: %s", key->name, key->help);
}

static void read_mapping(SpecReader *reader, const DocNode *mapping, unsigned place,
                         const char *where, void *target)
{
    for (const SchemaKey *key = schema_keys; key->name; key++)
        if (key->places & place)
            value_default(reader, key, target);
    for (int i = 0; i < mapping->count; i++) {
        const DocEntry *entry = &mapping->entries[i];
        const SchemaKey *key = schema_find(place, entry->key->text);
        if (!key)
            unknown_key(reader, place, where, entry->key);
        else
            read_entry(reader, key, entry, where, target);
    }
    for (const SchemaKey *key = schema_keys; key->name; key++)
        if (key->places & place && key->status == STATUS_NEEDED && !doc_find(mapping, key->name) &&
            !is_misspelt(mapping, place, key))
            report_missing(reader, mapping, key, where);
}

/// Defaults of sections that the file may leave out.
static void set_defaults(SpecReader *reader)
{
    for (const SchemaKey *key = schema_keys; key->name; key++)
        if (key->places & (AT_INPUT | AT_COMPILE | AT_WEIGHTS))
            value_default(reader, key, reader->spec);
}

const Spec *spec_parse(Arena *arena, Diags *diags, const Source *source)
{
    size_t errors = diags_error_count(diags);
    const DocNode *root = doc_read(arena, diags, source);
    if (!root)
        return NULL;
    Spec *spec = ARENA_NEW(arena, Spec);
    spec->path = source->path;
    spec->source = source;
    SpecReader reader = {arena, diags, spec};
    set_defaults(&reader);
    if (root->kind != DOC_MAPPING) {
        Diag *diag = diag_add(diags, DIAG_E0201, root->span, "a spec is a mapping, not %s",
                              value_describe(arena, root));
        diag_help(diag, "begin with `rnnc: 1`, `input:` and `layers:`");
        return NULL;
    }
    read_mapping(&reader, root, AT_TOP, "at the top level", spec);
    spec_check(&reader, root);
    return diags_error_count(diags) == errors ? spec : NULL;
}

const Spec *spec_read(Arena *arena, Diags *diags, const char *path)
{
    const Source *source = file_read(arena, diags, path, (Span){0});
    return source ? spec_parse(arena, diags, source) : NULL;
}
