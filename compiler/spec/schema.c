// Schema: the rows of schema.def, look-ups, suggestions, and the reference page.
#include "spec/schema.h"

#include <stddef.h>
#include <string.h>

#define NOWHERE SCHEMA_NOWHERE, SCHEMA_NOWHERE
#define SPEC(member) (int)offsetof(Spec, member), SCHEMA_NOWHERE
#define LAYER(member) (int)offsetof(SpecLayer, member), SCHEMA_NOWHERE
#define SPEC_PLACED(member) (int)offsetof(Spec, member), (int)offsetof(Spec, member##_span)
#define LAYER_PLACED(member)                                                                       \
    (int)offsetof(SpecLayer, member), (int)offsetof(SpecLayer, member##_span)
#define SCHEMA_KEY(places, name, type, status, default_text, words, field, help)                   \
    {places, name, TYPE_##type, STATUS_##status, default_text, words, field, help},

const SchemaKey schema_keys[] = {
#include "spec/schema.def"
    {.name = NULL},
};

const SchemaKind schema_kinds[] = {
    {"cell", AT_CELL_LAYER, SPEC_CELL},
    {"bidirectional", AT_BIDIRECTIONAL_LAYER, SPEC_BIDIRECTIONAL},
    {"embedding", AT_EMBEDDING_LAYER, SPEC_EMBEDDING},
    {"dense", AT_DENSE_LAYER, SPEC_DENSE},
    {"masking", AT_MASKING_LAYER, SPEC_MASKING},
    {"dropout", AT_DROPOUT_LAYER, SPEC_DROPOUT},
    {"activation", AT_ACTIVATION_LAYER, SPEC_ACTIVATION},
    {.key = NULL},
};

static const struct {
    unsigned place;
    const char *home, *title;
} places[] = {
    {AT_TOP, "the top level", "Top level"},
    {AT_INPUT, "`input`", "`input`"},
    {AT_CELL_LAYER, "a cell layer", "A cell layer: `{cell: lstm, units: 64}`"},
    {AT_BIDIRECTIONAL_LAYER, "a bidirectional layer",
     "A bidirectional layer: `{bidirectional: {layer: ...}}`"},
    {AT_BIDIRECTIONAL, "`bidirectional`", "`bidirectional`"},
    {AT_EMBEDDING_LAYER, "an embedding layer", "An embedding layer: `{embedding: 64}`"},
    {AT_EMBEDDING, "`embedding: {...}`", "`embedding: {...}`"},
    {AT_DENSE_LAYER, "a dense layer", "A dense layer: `{dense: 8}`"},
    {AT_DENSE, "`dense: {...}`", "`dense: {...}`"},
    {AT_DROPOUT_LAYER, "a dropout layer", "A dropout layer: `{dropout: 0.2}`"},
    {AT_ACTIVATION_LAYER, "an activation layer", "An activation layer: `{activation: relu}`"},
    {AT_MASKING_LAYER, "a masking layer", "A masking layer: `{masking: 0}`"},
    {AT_COMPILE, "`compile`", "`compile`"},
    {AT_WEIGHTS, "`weights`", "`weights`"},
};

enum { PLACE_COUNT = sizeof places / sizeof places[0], MOST_KEYS = 64 };

static const char *const type_words[] = {
    [TYPE_VERSION] = "1",
    [TYPE_TEXT] = "text",
    [TYPE_NAME] = "letters, digits, `_`, `-`, `.`",
    [TYPE_SIZE] = "whole number from 1",
    [TYPE_SIZE_OR_ANY] = "whole number from 1, or `any`",
    [TYPE_DEPTH] = "whole number from 1 to 1000",
    [TYPE_SEED] = "whole number from 0",
    [TYPE_BOOL] = "`true` or `false`",
    [TYPE_RATE] = "number in [0, 1)",
    [TYPE_NUMBER] = "number",
    [TYPE_POSITIVE] = "number above 0",
    [TYPE_ZONEOUT] = "number in [0, 1], or `{h: 0.1, c: 0.05}`",
    [TYPE_ACTIVATION] = "`tanh`, `{leaky_relu: 0.05}`, `{affine: [0.5, 0.25]}`, `{expr: \"...\"}`",
    [TYPE_WORD] = "",
    [TYPE_UNROLL] = "`true`, `false`, `auto` or a whole number from 1",
    [TYPE_TARGETS] = "list",
    [TYPE_INPUT] = "mapping",
    [TYPE_LAYERS] = "list of mappings",
    [TYPE_COMPILE] = "mapping",
    [TYPE_WEIGHTS] = "mapping",
    [TYPE_EMBEDDING] = "whole number from 1, or mapping",
    [TYPE_DENSE] = "whole number from 1, or mapping",
    [TYPE_BIDIRECTIONAL] = "mapping",
    [TYPE_DIRECTION] = "mapping: a cell layer",
};

const SchemaKey *schema_find(unsigned place, const char *name)
{
    for (const SchemaKey *key = schema_keys; key->name; key++)
        if (key->places & place && text_equal(key->name, name))
            return key;
    return NULL;
}

/// Other frameworks' words for a key.
static const struct {
    const char *word, *key;
} foreign_words[] = {
    {"batch_size", "batch"},      {"bias", "use_bias"},
    {"hidden", "units"},          {"hidden_size", "units"},
    {"input_size", "features"},   {"nonlinearity", "activation"},
    {"num_embeddings", "tokens"}, {"num_layers", "layers"},
    {"num_units", "units"},       {"output_dim", "units"},
    {"proj_size", "projection"},  {"sequence_length", "timesteps"},
    {"seq_len", "timesteps"},     {"type", "cell"},
    {"vocabulary", "tokens"},     {"linear_before_reset", "reset_after"},
};

const char *schema_nearest(unsigned place, const char *name)
{
    const char *words[MOST_KEYS], *keys[MOST_KEYS];
    size_t count = 0;
    for (const SchemaKey *key = schema_keys; key->name && count < MOST_KEYS; key++)
        if (key->places & place)
            words[count] = key->name, keys[count++] = key->name;
    for (size_t i = 0; i < sizeof foreign_words / sizeof foreign_words[0] && count < MOST_KEYS; i++)
        if (schema_find(place, foreign_words[i].key))
            words[count] = foreign_words[i].word, keys[count++] = foreign_words[i].key;
    const char *nearest = text_nearest(name, words, count);
    for (size_t i = 0; nearest && i < count; i++)
        if (words[i] == nearest)
            return keys[i];
    return NULL;
}

const char *schema_home(const char *name)
{
    for (int i = 0; i < PLACE_COUNT; i++)
        if (schema_find(places[i].place, name))
            return places[i].home;
    return NULL;
}

/// `a`, `b`.
static void print_words(Text *out, const char *words)
{
    const char *separator = "";
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        text_addf(out, "%s`%.*s`", separator, (int)length, at), separator = ", ";
        at += length;
    }
}

static void print_key(Text *out, const SchemaKey *key)
{
    text_addf(out, "| `%s` | ", key->name);
    if (key->words)
        print_words(out, key->words);
    else
        text_add(out, type_words[key->type]);
    const char *standard = key->status == STATUS_NEEDED ? "needed" : "";
    if (key->default_text)
        text_addf(out, " | `%s` | ", key->default_text);
    else
        text_addf(out, " | %s | ", standard);
    text_addf(out, "%s |\n", key->help);
}

void spec_print_reference(Text *out)
{
    text_add(out, "# Keys of a spec\n\nMade from `compiler/spec/schema.def`.\n");
    for (int i = 0; i < PLACE_COUNT; i++) {
        text_addf(out,
                  "\n## %s\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n",
                  places[i].title);
        for (const SchemaKey *key = schema_keys; key->name; key++)
            if (key->places & places[i].place)
                print_key(out, key);
    }
}
