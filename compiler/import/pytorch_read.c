// PyTorch state_dicts: see pytorch_read.h. Gate orders are the canonical ones (weights.h), so that
// tensors only change their names; the two biases become one, but for the gates whose recurrent
// bias stands within the reset of a GRU.
#include "import/pytorch_read.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "import/pytorch_order.h"

typedef struct {
    Arena *arena;
    Diags *diags;
    const Safetensors *file;
    const ImportOptions *options;
    PytorchConfig *config;
    PytorchSteps steps;
    PytorchArguments *arguments; ///< one a step
    Imported *model;
} Reading;

static const float *values_of(const Reading *reading, const SafetensorsTensor *tensor)
{
    int64_t elems = 1;
    for (int i = 0; i < tensor->dim_count; i++)
        elems *= tensor->dims[i];
    float *values = ARENA_ARRAY(reading->arena, float, elems);
    safetensors_to_float(tensor, values); // pytorch_check has seen the dtype
    return values;
}

/// One layer and direction; `place` is "", "fw/", "1/" or "1/bw/".
static void add_weights(const Reading *reading, const PytorchModule *module, int layer, int side,
                        ImportedLayer *to, const char *place)
{
    Arena *arena = reading->arena;
    const SafetensorsTensor *const *from = module->tensors[layer][side];
    const int64_t rows = module->gates * module->units, units = module->units;
    imported_weight(to, arena_format(arena, "%sW", place), rows, from[PYTORCH_W]->dims[1],
                    values_of(reading, from[PYTORCH_W]));
    imported_weight(to, arena_format(arena, "%sR", place), rows, from[PYTORCH_R]->dims[1],
                    values_of(reading, from[PYTORCH_R]));
    if (module->projection)
        imported_weight(to, arena_format(arena, "%sP", place), module->projection, units,
                        values_of(reading, from[PYTORCH_P]));
    if (!module->bias)
        return;
    const float *input = values_of(reading, from[PYTORCH_BIAS_IH]);
    const float *recurrent = values_of(reading, from[PYTORCH_BIAS_HH]);
    const int64_t merged = module->gates == 3 ? rows - units : rows;
    float *b = ARENA_ARRAY(arena, float, rows);
    for (int64_t i = 0; i < rows; i++)
        b[i] = input[i] + (i < merged ? recurrent[i] : 0);
    imported_weight(to, arena_format(arena, "%sb", place), rows, 1, b);
    if (merged < rows)
        imported_weight(to, arena_format(arena, "%srb", place), units, 1, recurrent + merged);
}

/// "cell: lstm, units: 4, ...", of `layers` layers.
static const char *cell_keys(const Reading *reading, const PytorchModule *module,
                             const char *nonlinearity, int layers, bool sequences)
{
    Text text = {.arena = reading->arena};
    text_addf(&text, "cell: %s, units: %" PRId64, module->cell, module->units);
    if (module->projection)
        text_addf(&text, ", projection: %" PRId64, module->projection);
    if (nonlinearity && strcmp(nonlinearity, "tanh") != 0)
        text_addf(&text, ", activation: %s", nonlinearity);
    if (layers > 1)
        text_addf(&text, ", layers: %d", layers);
    if (!module->bias)
        text_add(&text, ", use_bias: false");
    if (sequences)
        text_add(&text, ", return_sequences: true");
    return text_string(&text);
}

/// The keys of cell_keys as those of a layer, one a line.
static ImportedLayer *add_flat(const Reading *reading, const char *keys, const char *name)
{
    ImportedLayer *layer = NULL;
    for (const char *at = keys; *at;) {
        const size_t length = strcspn(at, ","), colon = strcspn(at, ":");
        const char *key = arena_copy(reading->arena, at, colon);
        const char *value = arena_copy(reading->arena, at + colon + 2, length - colon - 2);
        if (layer)
            imported_set(layer, key, value, NULL);
        else
            layer = imported_add(reading->model, key, value, name);
        at += length + (at[length] ? 2 : 0);
    }
    return layer;
}

/// The layers [first, first + count) of a module as one layer of the spec.
static ImportedLayer *add_stack(const Reading *reading, const PytorchModule *module,
                                const char *nonlinearity, const char *name, int first, int count,
                                bool sequences)
{
    Arena *arena = reading->arena;
    const char *keys = cell_keys(reading, module, nonlinearity, count, sequences);
    ImportedLayer *layer = module->directions == 1
                               ? add_flat(reading, keys, name)
                               : imported_add(reading->model, "bidirectional",
                                              arena_format(arena, "{layer: {%s}}", keys), name);
    for (int i = 0; i < count; i++)
        for (int side = 0; side < module->directions; side++)
            add_weights(reading, module, first + i, side, layer,
                        arena_format(arena, "%s%s", count > 1 ? arena_format(arena, "%d/", i) : "",
                                     module->directions == 1 ? ""
                                     : side                  ? "bw/"
                                                             : "fw/"));
    return layer;
}

/// False, with E0412, where the nonlinearity of an RNN is not said.
static bool find_nonlinearity(const Reading *reading, int index, const char **out)
{
    const PytorchModule *module = reading->steps.items[index].module;
    *out = NULL;
    if (module->gates != 1)
        return true;
    *out = reading->options->nonlinearity ? reading->options->nonlinearity
                                          : reading->arguments[index].nonlinearity;
    if (*out)
        return true;
    Diag *diag = diag_add(reading->diags, DIAG_E0412, (Span){0},
                          "'%s': the file does not say whether the RNN '%s' has tanh (PyTorch's "
                          "default) or relu",
                          reading->file->path, module->name);
    diag_help(diag, "say it: --nonlinearity tanh, or --nonlinearity relu");
    return false;
}

static bool add_recurrent(const Reading *reading, int index, bool sequences)
{
    Arena *arena = reading->arena;
    const PytorchModule *module = reading->steps.items[index].module;
    const double dropout = reading->arguments[index].dropout;
    const char *nonlinearity;
    if (!find_nonlinearity(reading, index, &nonlinearity))
        return false;
    const char *note =
        arena_format(arena, "%s%s%s", pytorch_describe(arena, module, PYTORCH_RECURRENT),
                     nonlinearity ? ", nonlinearity " : "", nonlinearity ? nonlinearity : "");
    if (!(dropout > 0) || module->layers == 1) {
        imported_note(
            add_stack(reading, module, nonlinearity, module->name, 0, module->layers, sequences),
            note);
        return true;
    }
    for (int i = 0; i < module->layers; i++) { // what drops stands between the layers
        const char *name = arena_format(arena, "%s_l%d", module->name, i);
        if (i > 0)
            imported_add(reading->model, "dropout", arena_format(arena, "%.9g", dropout), NULL);
        ImportedLayer *layer = add_stack(reading, module, nonlinearity, name, i, 1,
                                         sequences || i + 1 < module->layers);
        imported_note(layer, arena_format(arena, "layer %d of %s, dropout %.9g", i, note, dropout));
    }
    return true;
}

static void add_matrix(const Reading *reading, const PytorchStep *step)
{
    const PytorchModule *module = step->module;
    const bool embedding = step->kind == PYTORCH_EMBEDDING;
    const int64_t width = embedding ? module->inputs : module->units;
    const char *value = arena_format(
        reading->arena,
        embedding || module->bias_vector ? "%" PRId64 : "{units: %" PRId64 ", use_bias: false}",
        width);
    ImportedLayer *layer =
        imported_add(reading->model, embedding ? "embedding" : "dense", value, module->name);
    imported_note(layer, pytorch_describe(reading->arena, module, step->kind));
    imported_weight(layer, embedding ? "E" : "W", module->units, module->inputs,
                    values_of(reading, module->weight));
    if (module->bias_vector)
        imported_weight(layer, "b", module->units, 1, values_of(reading, module->bias_vector));
}

/// What the modules and the options say together. False, with E0413, where modules disagree.
static bool find_batch_first(const Reading *reading, ImportSwitch *out)
{
    *out = reading->options->batch_first;
    ImportSwitch said = IMPORT_UNSAID;
    for (int i = 0; i < reading->steps.count; i++) {
        const ImportSwitch own = reading->arguments[i].batch_first;
        if (own != IMPORT_UNSAID && said != IMPORT_UNSAID && own != said && *out == IMPORT_UNSAID) {
            Diag *diag = diag_add(reading->diags, DIAG_E0413, (Span){0},
                                  "'%s': batch_first is true for one module and false for another",
                                  reading->file->path);
            diag_help(diag, "say how the model's input is: --batch-first true|false");
            return false;
        }
        said = own != IMPORT_UNSAID ? own : said;
    }
    if (*out == IMPORT_UNSAID)
        *out = said;
    return true;
}

static bool add_input(const Reading *reading)
{
    Arena *arena = reading->arena;
    const PytorchStep *first = &reading->steps.items[0];
    const bool tokens = first->kind == PYTORCH_EMBEDDING;
    ImportSwitch batch_first;
    if (!find_batch_first(reading, &batch_first))
        return false;
    imported_input(
        reading->model, tokens ? "tokens" : "features",
        arena_format(arena, "%" PRId64, tokens ? first->module->units : first->module->inputs),
        NULL);
    imported_input(reading->model, "layout",
                   batch_first == IMPORT_FALSE ? "time_major" : "batch_major",
                   batch_first == IMPORT_FALSE  ? "batch_first=False"
                   : batch_first == IMPORT_TRUE ? "batch_first=True"
                                                : "as if batch_first=True: nothing said it");
    if (batch_first == IMPORT_UNSAID)
        diag_help(diag_add(reading->diags, DIAG_N0401, (Span){0},
                           "'%s' does not say batch_first: x is taken as [B, T%s]",
                           reading->file->path, tokens ? "" : ", features"),
                  "--batch-first false makes it [T, B%s], PyTorch's default",
                  tokens ? "" : ", features");
    return true;
}

static int last_recurrent(const PytorchSteps *steps)
{
    int last = -1;
    for (int i = 0; i < steps->count; i++)
        if (steps->items[i].module && steps->items[i].kind == PYTORCH_RECURRENT)
            last = i;
    return last;
}

static bool add_layers(const Reading *reading)
{
    const int last = last_recurrent(&reading->steps);
    bool good = true;
    for (int i = 0; i < reading->steps.count; i++) {
        const PytorchStep *step = &reading->steps.items[i];
        if (step->activation)
            imported_add(reading->model, "activation", step->activation, NULL);
        else if (step->kind == PYTORCH_RECURRENT)
            good &= add_recurrent(reading, i,
                                  i != last || reading->options->return_sequences != IMPORT_FALSE);
        else
            add_matrix(reading, step);
    }
    return good;
}

/// What --order does not name is not taken, and told.
static void note_left_out(const Reading *reading, const PytorchModules *modules)
{
    enum { SHOWN = 8 };
    Text names = {.arena = reading->arena};
    int count = 0;
    for (int i = 0; i < modules->count; i++) {
        bool taken = false;
        for (int k = 0; k < reading->steps.count; k++)
            taken |= reading->steps.items[k].module == &modules->items[i];
        if (!taken && count++ < SHOWN)
            text_addf(&names, "%s%s", count > 1 ? ", " : "", modules->items[i].name);
    }
    if (count)
        diag_add(reading->diags, DIAG_N0401, (Span){0}, "'%s': left out, as the order has it: %s%s",
                 reading->file->path, text_string(&names),
                 count > SHOWN ? arena_format(reading->arena, " and %d more", count - SHOWN) : "");
}

/// Which modules are taken, checked, in an order or not.
static bool choose_modules(Reading *reading, PytorchModules *modules, const char *order)
{
    if (order) {
        if (!pytorch_order_parse(reading->arena, reading->diags, order, modules, &reading->steps))
            return false;
        note_left_out(reading, modules);
    } else {
        for (int i = 0; i < modules->count; i++) {
            const PytorchStep step = {.module = &modules->items[i], .kind = PYTORCH_MATRIX};
            ARENA_PUSH(reading->arena, reading->steps.items, reading->steps.count, step);
        }
    }
    bool good = true;
    for (int i = 0; i < reading->steps.count; i++)
        if (reading->steps.items[i].module)
            good &= pytorch_check(reading->arena, reading->diags, reading->file,
                                  reading->steps.items[i].module);
    return good;
}

/// The arguments of every step; before the order is settled they say what a matrix is, after it
/// they stand beside the steps.
static bool read_arguments(Reading *reading)
{
    reading->arguments = ARENA_ARRAY(reading->arena, PytorchArguments, reading->steps.count + 1);
    bool good = true;
    for (int i = 0; i < reading->steps.count; i++) {
        PytorchStep *step = &reading->steps.items[i];
        PytorchArguments *arguments = &reading->arguments[i];
        arguments->dropout = -1;
        if (!step->module)
            continue;
        good &= pytorch_config_module(reading->config, step->module, arguments);
        if (step->kind == PYTORCH_MATRIX && (arguments->is_embedding || arguments->is_linear))
            step->kind = arguments->is_linear ? PYTORCH_LINEAR : PYTORCH_EMBEDDING;
    }
    return good;
}

/// What was given for a kind of module that is not there.
static bool options_fit(const Reading *reading)
{
    const int last = last_recurrent(&reading->steps);
    if (last < 0) {
        diag_add(reading->diags, DIAG_E0411, (Span){0},
                 "'%s': none of the modules taken is an RNN, LSTM or GRU", reading->file->path);
        return false;
    }
    bool has_rnn = false;
    for (int i = 0; i <= last; i++)
        has_rnn |= reading->steps.items[i].module && reading->steps.items[i].module->gates == 1;
    if (!reading->options->nonlinearity || has_rnn)
        return true;
    diag_add(reading->diags, DIAG_E0413, (Span){0},
             "--nonlinearity %s: the model has no RNN, and LSTM and GRU have their activations "
             "fixed",
             reading->options->nonlinearity);
    return false;
}

const Imported *pytorch_parse(Arena *arena, Diags *diags, const Safetensors *file,
                              const Source *json, const ImportOptions *options)
{
    Reading reading = {.arena = arena, .diags = diags, .file = file, .options = options};
    reading.config = pytorch_config(arena, diags, json);
    if (!reading.config)
        return NULL;
    const char *order = options->order ? options->order : pytorch_config_order(reading.config);
    PytorchModules modules;
    if (!pytorch_group(arena, diags, file, options->prefix ? options->prefix : "", &modules) ||
        !choose_modules(&reading, &modules, order) || !read_arguments(&reading) ||
        !pytorch_order_settle(arena, diags, file->path, order != NULL, &reading.steps) ||
        !read_arguments(&reading) || !options_fit(&reading))
        return NULL;
    reading.model = imported_create(arena, file->path, "a PyTorch state_dict");
    if (!add_input(&reading) || !add_layers(&reading))
        return NULL;
    pytorch_config_unused(reading.config);
    return reading.model;
}

/// Tensors that do not begin with the prefix.
static void note_prefix(Arena *arena, Diags *diags, const Safetensors *file, const char *prefix)
{
    int others = 0;
    const char *one = NULL;
    for (int i = 0; i < file->count; i++)
        if (strncmp(file->tensors[i].name, prefix, strlen(prefix)) != 0) {
            one = file->tensors[i].name;
            others++;
        }
    if (others)
        diag_add(diags, DIAG_N0401, (Span){0}, "'%s': --prefix %s leaves out %s%s", file->path,
                 prefix, one,
                 others > 1 ? arena_format(arena, " and %d more tensors", others - 1) : "");
}

const Imported *pytorch_read(Arena *arena, Diags *diags, const char *path,
                             const ImportOptions *options)
{
    const Safetensors *file = safetensors_open(arena, diags, path, (Span){0});
    if (!file)
        return NULL;
    const char *beside = file_beside(arena, path, "config.json");
    const char *config = options->config             ? options->config
                         : access(beside, F_OK) == 0 ? beside
                                                     : NULL;
    const Source *json = config ? file_read(arena, diags, config, (Span){0}) : NULL;
    if (config && !json)
        return NULL;
    if (options->prefix)
        note_prefix(arena, diags, file, options->prefix);
    return pytorch_parse(arena, diags, file, json, options);
}
