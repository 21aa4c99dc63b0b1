// Configuration of a PyTorch model: see pytorch_config.h. jansson's values do not live in the
// arena, so that what is kept of them is copied and the rest freed before this returns.
#include "import/pytorch_config.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/text.h"

enum { JSON_BYTES_MAX = 1 << 20, KEYS_MAX = 4096 };

/// A key of the whole (owner NULL) or of the object `owner`.
typedef struct {
    const char *owner, *key;
    enum { IS_NUMBER, IS_BOOL, IS_TEXT, IS_OTHER } kind;
    double number; ///< of a bool 0 or 1
    const char *text;
    bool used;
} Entry;

struct PytorchConfig {
    Arena *arena;
    Diags *diags;
    const char *path;
    const char *order;
    Entry *entries;
    int entry_count;
};

static bool fault(const PytorchConfig *config, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fault(const PytorchConfig *config, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    diag_add(config->diags, DIAG_E0413, (Span){0}, "'%s': %s", config->path,
             arena_vformat(config->arena, format, arguments));
    va_end(arguments);
    return false;
}

static const char *copy(Arena *arena, const char *text)
{
    return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

static void add_entry(PytorchConfig *config, const char *owner, const char *key,
                      const json_t *value)
{
    Entry entry = {.owner = owner,
                   .key = copy(config->arena, key),
                   .text = copy(config->arena, json_string_value(value)),
                   .number = json_is_number(value) ? json_number_value(value) : json_is_true(value),
                   .kind = json_is_number(value)    ? IS_NUMBER
                           : json_is_boolean(value) ? IS_BOOL
                           : json_is_string(value)  ? IS_TEXT
                                                    : IS_OTHER};
    ARENA_PUSH(config->arena, config->entries, config->entry_count, entry);
}

static bool add_order(PytorchConfig *config, const json_t *order)
{
    Text text = {.arena = config->arena};
    for (size_t i = 0; i < json_array_size(order); i++) {
        const char *item = json_string_value(json_array_get(order, i));
        if (!item)
            return fault(config, "order: item %zu is no text", i);
        text_addf(&text, "%s%s", i ? "," : "", item);
    }
    if (!json_is_array(order) || json_array_size(order) == 0)
        return fault(config, "order is a list of the modules' names, from input to output");
    config->order = text_string(&text);
    return true;
}

static bool add_all(PytorchConfig *config, json_t *root)
{
    const char *key, *inner;
    json_t *value, *of;
    size_t count = 0;
    json_object_foreach(root, key, value)
    {
        count += json_is_object(value) ? json_object_size(value) : 1;
        if (count > KEYS_MAX)
            return fault(config, "more than %d keys, which are the most that are read", KEYS_MAX);
        if (strcmp(key, "order") == 0) {
            if (!add_order(config, value))
                return false;
        } else if (json_is_object(value)) {
            const char *owner = copy(config->arena, key);
            json_object_foreach(value, inner, of)
            {
                add_entry(config, owner, inner, of);
            }
        } else {
            add_entry(config, NULL, key, value);
        }
    }
    return true;
}

PytorchConfig *pytorch_config(Arena *arena, Diags *diags, const Source *json)
{
    PytorchConfig *config = ARENA_NEW(arena, PytorchConfig);
    *config = (PytorchConfig){.arena = arena, .diags = diags, .path = json ? json->path : ""};
    if (!json)
        return config;
    if (json->length > JSON_BYTES_MAX) {
        fault(config, "%zu bytes are more than %d, the most that are read", json->length,
              JSON_BYTES_MAX);
        return NULL;
    }
    json_error_t error;
    json_t *root = json_loadb(json->text, json->length, JSON_REJECT_DUPLICATES, &error);
    bool good = json_is_object(root);
    if (!root)
        fault(config, "line %d: %s", error.line, error.text);
    else if (!good)
        fault(config, "it is not an object");
    good = good && add_all(config, root);
    json_decref(root);
    return good ? config : NULL;
}

const char *pytorch_config_order(const PytorchConfig *config)
{
    return config->order;
}

/// The module's own key, or that of the whole; NULL: neither. Both count as used.
static const Entry *find(PytorchConfig *config, const PytorchModule *module, const char *key)
{
    const Entry *own = NULL, *common = NULL;
    for (int i = 0; i < config->entry_count; i++) {
        Entry *entry = &config->entries[i];
        if (strcmp(entry->key, key) != 0 ||
            (entry->owner && strcmp(entry->owner, module->path) != 0 &&
             strcmp(entry->owner, module->name) != 0))
            continue;
        entry->used = true;
        *(entry->owner ? &own : &common) = entry;
    }
    return own ? own : common;
}

/// Arguments that shapes tell too. Of the whole they hold for recurrent modules.
static bool agrees(PytorchConfig *config, const PytorchModule *module)
{
    const bool recurrent = module->kind == PYTORCH_RECURRENT, linear = !recurrent;
    const struct {
        const char *key;
        bool applies;
        int64_t value;
    } rows[] = {
        {"input_size", recurrent, module->inputs},
        {"hidden_size", recurrent, module->units},
        {"num_layers", recurrent, module->layers},
        {"bidirectional", recurrent, module->directions == 2},
        {"proj_size", recurrent, module->projection},
        {"bias", recurrent, module->bias},
        {"in_features", linear, module->inputs},
        {"out_features", linear, module->units},
        {"num_embeddings", linear, module->units},
        {"embedding_dim", linear, module->inputs},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const Entry *entry = rows[i].applies ? find(config, module, rows[i].key) : NULL;
        if (!entry)
            continue;
        const bool is_number = entry->kind == IS_NUMBER || entry->kind == IS_BOOL;
        if (!is_number)
            good = fault(config, "%s is not a number, true or false", entry->key);
        else if (entry->number < (double)rows[i].value || entry->number > (double)rows[i].value)
            good = fault(config, "%s of module '%s' is %g, but its tensors say %" PRId64,
                         entry->key, module->path, entry->number, rows[i].value);
    }
    return good;
}

/// "type": the class, which must be one that the tensors can be of.
static bool read_type(PytorchConfig *config, const PytorchModule *module, PytorchArguments *out)
{
    const Entry *entry = find(config, module, "type");
    if (!entry || !entry->owner) // of the whole it is the model's own
        return true;
    const char *const cells[] = {[1] = "RNN", [3] = "GRU", [4] = "LSTM"};
    const char *text = entry->text ? entry->text : "";
    bool fits = false;
    if (module->kind == PYTORCH_RECURRENT)
        fits = strcmp(text, arena_format(config->arena, "%s%s", cells[module->gates],
                                         module->is_cell_module ? "Cell" : "")) == 0;
    out->is_linear = strcmp(text, "Linear") == 0;
    out->is_embedding = strcmp(text, "Embedding") == 0;
    if (module->kind == PYTORCH_LINEAR)
        fits = out->is_linear;
    if (module->kind == PYTORCH_MATRIX)
        fits = out->is_linear || out->is_embedding;
    return fits || fault(config, "type of module '%s' is '%s', but its tensors say %s",
                         module->path, text, pytorch_describe(config->arena, module, module->kind));
}

bool pytorch_config_module(PytorchConfig *config, const PytorchModule *module,
                           PytorchArguments *out)
{
    *out = (PytorchArguments){.dropout = -1};
    bool good = agrees(config, module) && read_type(config, module, out);
    if (module->kind != PYTORCH_RECURRENT)
        return good;
    const Entry *entry = find(config, module, "batch_first");
    if (entry && entry->kind != IS_BOOL)
        good = fault(config, "batch_first is true or false");
    else if (entry)
        out->batch_first = entry->number > 0 ? IMPORT_TRUE : IMPORT_FALSE;
    entry = find(config, module, "nonlinearity");
    if (entry && (!entry->text || (strcmp(entry->text, "tanh") && strcmp(entry->text, "relu"))))
        good = fault(config, "nonlinearity is \"tanh\" or \"relu\"");
    else if (entry)
        out->nonlinearity = entry->text;
    entry = find(config, module, "dropout");
    if (entry && (entry->kind != IS_NUMBER || !(entry->number >= 0 && entry->number < 1)))
        good = fault(config, "dropout is a rate from 0 to below 1");
    else if (entry)
        out->dropout = entry->number;
    return good;
}

void pytorch_config_unused(const PytorchConfig *config)
{
    enum { SHOWN = 8 };
    Text names = {.arena = config->arena};
    int count = 0;
    for (int i = 0; i < config->entry_count; i++) {
        const Entry *entry = &config->entries[i];
        if (entry->used || count++ >= SHOWN)
            continue;
        text_addf(&names, "%s%s%s%s", count > 1 ? ", " : "", entry->owner ? entry->owner : "",
                  entry->owner ? "." : "", entry->key);
    }
    if (count)
        diag_add(config->diags, DIAG_N0401, (Span){0}, "'%s': nothing was made of %s%s",
                 config->path, text_string(&names),
                 count > SHOWN ? arena_format(config->arena, " and %d more", count - SHOWN) : "");
}
