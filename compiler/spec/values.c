// Values: scalars read strictly. YAML 1.1 would take `yes` for true, 010 for 8 and 1_0 for 10; here
// a value that two readers could understand differently is an error that says what to write.
#include "spec/values.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "spec/activation_value.h"

enum { DEEPEST_STACK = 1000, LONGEST_SHOWN = 40 };

static void *field(const SpecValue *value)
{
    return (char *)value->target + value->key->offset;
}

static bool is_null(const DocNode *node)
{
    return node->kind == DOC_SCALAR && node->plain &&
           (!*node->text || text_equal(node->text, "~") ||
            text_equal_ignoring_case(node->text, "null"));
}

const char *value_describe(Arena *arena, const DocNode *node)
{
    if (node->kind != DOC_SCALAR)
        return node->kind == DOC_SEQUENCE ? "a list" : "a mapping";
    if (is_null(node))
        return "nothing";
    bool is_long = strlen(node->text) > LONGEST_SHOWN;
    return arena_format(arena, node->plain ? "'%.*s%s'" : "the text \"%.*s%s\"", LONGEST_SHOWN,
                        node->text, is_long ? "..." : "");
}

/// A place for a complaint about the value: itself, or the key where the value is empty.
static Span place_of(const SpecValue *value)
{
    const DocNode *node = value->entry->value;
    return node->span.length > 0 ? node->span : value->entry->key->span;
}

static Diag *wrong_type(const SpecValue *value, const char *wanted)
{
    Diag *diag = diag_add(value->reader->diags, DIAG_E0201, place_of(value),
                          "'%s' %s takes %s, not %s", value->key->name, value->where, wanted,
                          value_describe(value->reader->arena, value->entry->value));
    if (is_null(value->entry->value) && value->key->status != STATUS_NEEDED)
        diag_help(diag, "leave the key out for its default");
    return diag;
}

static Diag *out_of_range(const SpecValue *value, const char *text)
{
    return diag_add(value->reader->diags, DIAG_E0203, place_of(value),
                    "'%s' %s is %.*s: out of range", value->key->name, value->where, LONGEST_SHOWN,
                    text);
}

static const char *scalar(const SpecValue *value, const char *wanted)
{
    const DocNode *node = value->entry->value;
    if (node->kind == DOC_SCALAR && !is_null(node))
        return node->text;
    wrong_type(value, wanted);
    return NULL;
}

/// Whether the text is a decimal whole number; beyond int64 it saturates and errno is ERANGE.
static bool parse_integer(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    size_t count = strspn(digits, "0123456789");
    if (!count || digits[count] || (count > 1 && *digits == '0'))
        return false;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return true;
}

bool value_parse_number(const DocNode *node, double *out)
{
    if (node->kind != DOC_SCALAR || !node->plain || !*node->text)
        return false;
    const char *text = node->text, *digits = text + (*text == '-' || *text == '+');
    bool is_word =
        text_equal_ignoring_case(digits, ".nan") || text_equal_ignoring_case(digits, ".inf");
    if (is_word) {
        *out = digits[1] == 'n' || digits[1] == 'N' ? NAN : *text == '-' ? -INFINITY : INFINITY;
        return true;
    }
    char *end;
    *out = strtod(text, &end);
    return !text[strspn(text, "0123456789+-.eE")] && !*end;
}

/// A whole number in [least, most] at the scalar; false after a complaint.
static bool integer_within(const SpecValue *value, int64_t least, int64_t most, const char *wanted,
                           int64_t *out)
{
    const char *text = scalar(value, wanted);
    if (!text)
        return false;
    int64_t number;
    if (!value->entry->value->plain || !parse_integer(text, &number)) {
        diag_help(wrong_type(value, wanted),
                  "write it in digits alone, like `%s: 64`: no quotes, "
                  "point or exponent",
                  value->key->name);
        return false;
    }
    if (number < least || number > most || errno == ERANGE) {
        diag_help(out_of_range(value, text), "give a whole number from %lld to %lld",
                  (long long)least, (long long)most);
        return false;
    }
    *out = number;
    return true;
}

static void read_integer(const SpecValue *value, int64_t least, int64_t most, const char *wanted)
{
    int64_t number;
    if (integer_within(value, least, most, wanted, &number))
        *(SpecInteger *)field(value) = (SpecInteger){number, value->entry->value->span};
}

static void read_version(const SpecValue *value)
{
    int64_t number;
    if (!integer_within(value, INT64_MIN, INT64_MAX, "the schema's version", &number) ||
        number == 1)
        return;
    Diag *diag = diag_add(value->reader->diags, DIAG_E0210, place_of(value),
                          "schema version %lld is not known", (long long)number);
    diag_help(diag, "this program reads version 1: write `rnnc: 1`");
}

static void read_size(const SpecValue *value)
{
    read_integer(value, 1, INT32_MAX, "a whole number");
}

static void read_depth(const SpecValue *value)
{
    read_integer(value, 1, DEEPEST_STACK, "a whole number");
}

static void read_seed(const SpecValue *value)
{
    read_integer(value, 0, INT64_MAX, "a whole number");
}

static void read_size_or_any(const SpecValue *value)
{
    const DocNode *node = value->entry->value;
    SpecSize size = {.span = node->span};
    size.any = node->kind == DOC_SCALAR && text_equal(node->text, "any");
    if (size.any || integer_within(value, 1, INT32_MAX, "a whole number or `any`", &size.value))
        *(SpecSize *)field(value) = size;
}

static void read_text(const SpecValue *value)
{
    const char *text = scalar(value, "a text");
    if (text && *text)
        *(SpecText *)field(value) = (SpecText){text, value->entry->value->span};
    else if (text)
        wrong_type(value, "a text that is not empty");
}

/// Names become parts of tensor names (`enc/W`) and of the generated C.
static void read_name(const SpecValue *value)
{
    const char *text = scalar(value, "a name");
    if (!text)
        return;
    size_t good = strspn(text, VALUE_NAME_CHARACTERS);
    if (*text && !text[good] && good < 64) {
        *(SpecText *)field(value) = (SpecText){text, value->entry->value->span};
        return;
    }
    Diag *diag = diag_add(value->reader->diags, DIAG_E0213, place_of(value), "%s cannot be a name",
                          value_describe(value->reader->arena, value->entry->value));
    diag_help(diag, "use at most 63 letters, digits, `_`, `-` and `.`");
}

static bool parse_bool(const DocNode *node, bool *out)
{
    static const char *const words[] = {"false", "False", "FALSE", "true", "True", "TRUE"};
    for (int i = 0; node->kind == DOC_SCALAR && node->plain && i < 6; i++)
        if (text_equal(node->text, words[i])) {
            *out = i >= 3;
            return true;
        }
    return false;
}

static void read_bool(const SpecValue *value)
{
    bool truth;
    if (parse_bool(value->entry->value, &truth)) {
        *(SpecBool *)field(value) = (SpecBool){truth, value->entry->value->span};
        return;
    }
    Diag *diag = wrong_type(value, "true or false");
    diag_help(diag, "write `%s: true` or `%s: false`", value->key->name, value->key->name);
}

static void read_rate(const SpecValue *value)
{
    const char *text = scalar(value, "a number");
    double number;
    if (!text)
        return;
    if (!value_parse_number(value->entry->value, &number)) {
        diag_help(wrong_type(value, "a number"), "write it like `%s: 0.2`", value->key->name);
        return;
    }
    if (number >= 0 && number < 1) {
        *(SpecNumber *)field(value) = (SpecNumber){number, value->entry->value->span};
        return;
    }
    diag_help(out_of_range(value, text),
              "a rate is the share that is dropped: at least 0, less than 1");
}

/// A number, or false with a complaint.
static bool read_any_number(const SpecValue *value, double *out)
{
    if (!scalar(value, "a number"))
        return false;
    if (value_parse_number(value->entry->value, out))
        return true;
    diag_help(wrong_type(value, "a number"), "write it like `%s: 0.5`", value->key->name);
    return false;
}

/// Compared with float32 features, so it must be one.
static void read_number(const SpecValue *value)
{
    double number;
    if (!read_any_number(value, &number))
        return;
    if (isnan(number) || (isfinite(number) && fabs(number) > FLT_MAX))
        diag_help(out_of_range(value, value->entry->value->text),
                  "no feature equals it: give a number that float32 can hold");
    else
        *(SpecNumber *)field(value) = (SpecNumber){number, value->entry->value->span};
}

static void read_positive(const SpecValue *value)
{
    double number;
    if (!read_any_number(value, &number))
        return;
    if (number > 0 && number <= FLT_MAX)
        *(SpecNumber *)field(value) = (SpecNumber){number, value->entry->value->span};
    else
        diag_help(out_of_range(value, value->entry->value->text),
                  "give a finite number above 0, or leave the key out for no bound");
}

/// `entry` is the value of `zoneout`, or one state's within it, `state`.
static void add_zoneout(const SpecValue *value, const DocEntry *entry, const char *state)
{
    SchemaKey key = *value->key;
    SpecLayer *layer = value->target;
    SpecValue rate = {value->reader, &key, entry, value->where, layer};
    double number;
    if (state)
        key.name = arena_format(value->reader->arena, "%s: %.40s", value->key->name, state);
    if (!read_any_number(&rate, &number))
        return;
    if (!(number >= 0 && number <= 1)) {
        diag_help(out_of_range(&rate, entry->value->text),
                  "a rate of zoneout is the share of the old state that is kept: 0 to 1");
        return;
    }
    SpecZoneout zoneout = {state, number, state ? entry->key->span : entry->value->span};
    if (state || number > 0)
        ARENA_PUSH(value->reader->arena, layer->zoneouts, layer->zoneout_count, zoneout);
}

static void read_zoneout(const SpecValue *value)
{
    const DocNode *node = value->entry->value;
    SpecLayer *layer = value->target;
    layer->zoneouts = NULL;
    layer->zoneout_count = 0;
    if (node->kind == DOC_SEQUENCE || (node->kind == DOC_MAPPING && node->count == 0))
        diag_help(wrong_type(value, "a number, or one for each state"),
                  "write `zoneout: 0.1` or `zoneout: {h: 0.1, c: 0.05}`");
    else if (node->kind == DOC_SCALAR)
        add_zoneout(value, value->entry, NULL);
    for (int i = 0; node->kind == DOC_MAPPING && i < node->count; i++)
        add_zoneout(value, &node->entries[i], node->entries[i].key->text);
}

enum { MOST_WORDS = 16, WORD_BYTES = 128 };

static int split_words(Arena *arena, const char *words, const char **out)
{
    int count = 0;
    char *copy = arena_copy(arena, words, strlen(words)), *rest = NULL;
    for (char *word = strtok_r(copy, " ", &rest); word && count < MOST_WORDS;
         word = strtok_r(NULL, " ", &rest))
        out[count++] = word;
    return count;
}

static void read_word(const SpecValue *value)
{
    const char *words[MOST_WORDS], *text = scalar(value, "a word");
    Arena *arena = value->reader->arena;
    int count = split_words(arena, value->key->words, words), at = 0;
    if (!text)
        return;
    while (at < count && !text_equal(words[at], text))
        at++;
    if (at == count) {
        Diag *diag = diag_add(value->reader->diags, DIAG_E0207, place_of(value),
                              "'%s' cannot be '%.*s'", value->key->name, LONGEST_SHOWN, text);
        const char *nearest = text_nearest(text, words, (size_t)count);
        Text list = {.arena = arena};
        for (int i = 0; i < count; i++)
            text_addf(&list, "%s`%s`", i ? ", " : "", words[i]);
        if (nearest)
            diag_help(diag, "did you mean '%s'?", nearest);
        diag_help(diag, "known: %s", text_string(&list));
        return;
    }
    if (value->key->offset == SCHEMA_NOWHERE)
        return;
    memcpy(field(value), &at, sizeof at);
    *(Span *)((char *)value->target + value->key->span_offset) = value->entry->value->span;
}

static void read_unroll(const SpecValue *value)
{
    const DocNode *node = value->entry->value;
    SpecUnroll unroll = {.span = node->span};
    bool truth;
    if (node->kind == DOC_SCALAR && text_equal(node->text, "auto"))
        unroll.is_auto = true;
    else if (parse_bool(node, &truth))
        unroll.factor = truth ? INT64_MAX : 0;
    else if (!integer_within(value, 1, INT32_MAX, "true, false, auto or a whole number",
                             &unroll.factor))
        return;
    *(SpecUnroll *)field(value) = unroll;
}

static bool is_target(const char *text)
{
    if (text_equal(text, "cpu"))
        return true;
    size_t digits = strncmp(text, "sm_", 3) == 0 ? strspn(text + 3, "0123456789") : 0;
    return digits >= 2 && digits <= 3 && !text[3 + digits];
}

static void read_target(const SpecValue *value, const DocNode *item)
{
    Spec *spec = value->reader->spec;
    Diags *diags = value->reader->diags;
    if (item->kind != DOC_SCALAR || !is_target(item->text)) {
        Diag *diag = diag_add(diags, DIAG_E0214, item->span, "%s is not a target",
                              value_describe(value->reader->arena, item));
        diag_help(diag, "a target is `cpu` or a GPU architecture like `sm_90`");
        return;
    }
    for (int i = 0; i < spec->target_count; i++)
        if (text_equal(spec->targets[i].text, item->text)) {
            Diag *diag =
                diag_add(diags, DIAG_E0214, item->span, "target '%s' is named twice", item->text);
            diag_note(diag, spec->targets[i].span, "the first time is here");
            return;
        }
    SpecText target = {item->text, item->span};
    ARENA_PUSH(value->reader->arena, spec->targets, spec->target_count, target);
}

static void read_targets(const SpecValue *value)
{
    const DocNode *node = value->entry->value;
    if (node->kind != DOC_SEQUENCE || node->count == 0) {
        diag_help(wrong_type(value, "a list that is not empty"), "write `targets: [cpu, sm_90]`");
        return;
    }
    for (int i = 0; i < node->count; i++)
        read_target(value, node->items[i]);
}

static void read_activation(const SpecValue *value)
{
    activation_value_read(value, (SpecActivation *)field(value));
}

static void (*const readers[])(const SpecValue *) = {
    [TYPE_VERSION] = read_version,
    [TYPE_TEXT] = read_text,
    [TYPE_NAME] = read_name,
    [TYPE_SIZE] = read_size,
    [TYPE_SIZE_OR_ANY] = read_size_or_any,
    [TYPE_DEPTH] = read_depth,
    [TYPE_SEED] = read_seed,
    [TYPE_BOOL] = read_bool,
    [TYPE_RATE] = read_rate,
    [TYPE_NUMBER] = read_number,
    [TYPE_POSITIVE] = read_positive,
    [TYPE_ZONEOUT] = read_zoneout,
    [TYPE_ACTIVATION] = read_activation,
    [TYPE_WORD] = read_word,
    [TYPE_UNROLL] = read_unroll,
    [TYPE_TARGETS] = read_targets,
};

void value_read(const SpecValue *value)
{
    readers[value->key->type](value);
}

void value_default(SpecReader *reader, const SchemaKey *key, void *target)
{
    if (!key->default_text || key->offset == SCHEMA_NOWHERE)
        return;
    DocNode node = {.text = key->default_text, .plain = true};
    DocEntry entry = {&node, &node};
    value_read(&(SpecValue){reader, key, &entry, "by default", target});
}
