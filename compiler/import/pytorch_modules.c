// Modules of a state_dict: see pytorch_modules.h.
#include "import/pytorch_modules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "import/npy.h"

enum { NAME_LENGTH_MAX = 63 };

static const char *const slot_words[PYTORCH_SLOTS] = {[PYTORCH_W] = "weight_ih",
                                                      [PYTORCH_R] = "weight_hh",
                                                      [PYTORCH_BIAS_IH] = "bias_ih",
                                                      [PYTORCH_BIAS_HH] = "bias_hh",
                                                      [PYTORCH_P] = "weight_hr"};

/// A leaf such as "weight_ih_l1_reverse".
typedef struct {
    PytorchSlot slot;
    int layer, direction;
    bool numbered; ///< has _l<k>
} Leaf;

/// False where it is no tensor of a recurrent module.
static bool parse_leaf(const char *leaf, Leaf *out)
{
    for (int slot = 0; slot < PYTORCH_SLOTS; slot++) {
        const size_t length = strlen(slot_words[slot]);
        if (strncmp(leaf, slot_words[slot], length) != 0)
            continue;
        *out = (Leaf){.slot = (PytorchSlot)slot};
        const char *at = leaf + length;
        if (*at == '\0')
            return true;
        const size_t digits = strncmp(at, "_l", 2) == 0 ? strspn(at + 2, "0123456789") : 0;
        if (digits == 0 || digits > 3 || (digits > 1 && at[2] == '0'))
            return false;
        out->numbered = true;
        out->layer = atoi(at + 2);
        at += 2 + digits;
        out->direction = strcmp(at, "_reverse") == 0;
        return out->layer < PYTORCH_LAYERS_MAX && (out->direction || *at == '\0');
    }
    return false;
}

static PytorchModule *find_or_add(Arena *arena, PytorchModules *modules, const char *path,
                                  size_t length)
{
    for (int i = modules->count - 1; i >= 0; i--)
        if (strlen(modules->items[i].path) == length &&
            memcmp(modules->items[i].path, path, length) == 0)
            return &modules->items[i];
    if (modules->count == PYTORCH_MODULES_MAX)
        return NULL;
    PytorchModule module = {.path = arena_copy(arena, path, length)};
    ARENA_PUSH(arena, modules->items, modules->count, module);
    return &modules->items[modules->count - 1];
}

static void place(Arena *arena, PytorchModule *module, const char *name,
                  const SafetensorsTensor *tensor)
{
    Leaf leaf;
    const SafetensorsTensor **at = &module->odd;
    if (parse_leaf(name, &leaf)) {
        if (!module->tensors)
            module->tensors =
                arena_alloc(arena, sizeof *module->tensors * (size_t)PYTORCH_LAYERS_MAX);
        at = &module->tensors[leaf.layer][leaf.direction][leaf.slot];
        module->is_cell_module |= !leaf.numbered;
        module->layers = leaf.layer >= module->layers ? leaf.layer + 1 : module->layers;
        module->directions = leaf.direction || module->directions == 2 ? 2 : 1;
    } else if (strcmp(name, "weight") == 0) {
        at = &module->weight;
    } else if (strcmp(name, "bias") == 0) {
        at = &module->bias_vector;
    }
    *(*at ? &module->odd : at) = tensor; // weight_ih beside weight_ih_l0
}

/// Orders text by its characters, numbers within it by their value.
static int by_name(const void *left, const void *right)
{
    const char *a = ((const PytorchModule *)left)->path, *b = ((const PytorchModule *)right)->path;
    for (;;) {
        const size_t m = strspn(a, "0123456789"), n = strspn(b, "0123456789");
        if (m && n) {
            const size_t p = strspn(a, "0"), q = strspn(b, "0");
            if (m - p != n - q)
                return m - p < n - q ? -1 : 1;
            const int order = strncmp(a + p, b + q, m - p);
            if (order || m != n)
                return order ? order : m < n ? -1 : 1;
            a += m;
            b += n;
        }
        if (*a != *b || *a == '\0')
            return (unsigned char)*a - (unsigned char)*b;
        a++;
        b++;
    }
}

static bool name_is_taken(const PytorchModules *modules, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(modules->items[i].name, name) == 0)
            return true;
    return false;
}

/// The end of a path is what tells modules apart; what a spec's name cannot hold becomes '_'.
static void name_modules(Arena *arena, PytorchModules *modules)
{
    for (int i = 0; i < modules->count; i++) {
        const char *path = modules->items[i].path[0] ? modules->items[i].path : "rnn";
        const size_t length = strlen(path);
        char *name = arena_format(arena, "%s", path + (length > 56 ? length - 56 : 0));
        for (char *at = name; *at; at++)
            if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", *at))
                *at = '_';
        if (*name == '-' || *name == '.')
            *name = '_';
        if (strcasecmp(name, "null") == 0) // which YAML takes for no value
            name = arena_format(arena, "%s_", name);
        modules->items[i].name = name;
        for (int k = 2; name_is_taken(modules, i, modules->items[i].name); k++)
            modules->items[i].name = arena_format(arena, "%s_%d", name, k);
    }
}

bool pytorch_group(Arena *arena, Diags *diags, const Safetensors *file, const char *prefix,
                   PytorchModules *out)
{
    *out = (PytorchModules){0};
    const size_t skipped = strlen(prefix);
    int taken = 0;
    for (int i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].name;
        if (strncmp(name, prefix, skipped) != 0)
            continue;
        name += skipped;
        const char *dot = strrchr(name, '.');
        PytorchModule *module = taken++ < PYTORCH_TENSORS_MAX
                                    ? find_or_add(arena, out, name, dot ? (size_t)(dot - name) : 0)
                                    : NULL;
        if (!module) {
            diag_add(diags, DIAG_E0411, (Span){0},
                     "'%s' has more than %d tensors or %d modules, which are the most that are "
                     "read",
                     file->path, PYTORCH_TENSORS_MAX, PYTORCH_MODULES_MAX);
            return false;
        }
        place(arena, module, dot ? dot + 1 : name, &file->tensors[i]);
    }
    if (out->count == 0) {
        Diag *diag =
            diag_add(diags, DIAG_E0411, (Span){0}, "'%s' has no tensor%s%s%s", file->path,
                     *prefix ? " whose name begins with '" : "", prefix, *prefix ? "'" : "");
        if (*prefix && file->count)
            diag_help(diag, "its first is '%s'", file->tensors[0].name);
        return false;
    }
    qsort(out->items, (size_t)out->count, sizeof *out->items, by_name);
    name_modules(arena, out);
    return true;
}

/// What a check needs to report.
typedef struct {
    Arena *arena;
    Diags *diags;
    const Safetensors *file;
    PytorchModule *module;
} Check;

static bool fault(const Check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fault(const Check *check, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    diag_add(check->diags, DIAG_E0411, (Span){0}, "'%s': %s", check->file->path,
             arena_vformat(check->arena, format, arguments));
    va_end(arguments);
    return false;
}

static const char *shape_of(const Check *check, const SafetensorsTensor *tensor)
{
    return npy_shape_text(check->arena, tensor->dims, tensor->dim_count);
}

static bool is_float(const Check *check, const SafetensorsTensor *tensor)
{
    for (const char *const *at = (const char *const[]){"F32", "F64", "F16", "BF16", NULL}; *at;
         at++)
        if (strcmp(tensor->dtype, *at) == 0)
            return true;
    diag_add(check->diags, DIAG_E0407, (Span){0},
             "'%s': tensor '%s' is %s; weights are F32, F64, F16 or BF16", check->file->path,
             tensor->name, tensor->dtype);
    return false;
}

static bool has_shape(const Check *check, const SafetensorsTensor *tensor, int64_t rows,
                      int64_t columns)
{
    const bool fits =
        tensor->dims[0] == rows &&
        (columns ? tensor->dim_count == 2 && tensor->dims[1] == columns : tensor->dim_count == 1);
    if (fits)
        return is_float(check, tensor);
    return fault(check, "tensor '%s' is %s, not %s", tensor->name, shape_of(check, tensor),
                 npy_shape_text(check->arena, (const int64_t[]){rows, columns}, columns ? 2 : 1));
}

/// [rows, columns], neither of them 0.
static bool is_matrix(const Check *check, const SafetensorsTensor *tensor)
{
    if (tensor->dim_count == 2 && tensor->dims[0] > 0 && tensor->dims[1] > 0)
        return true;
    return fault(check, "tensor '%s' is %s, not a matrix", tensor->name, shape_of(check, tensor));
}

/// Whether every layer and direction has just the tensors that the first one has.
static bool is_complete(const Check *check)
{
    const PytorchModule *module = check->module;
    const SafetensorsTensor *const *first = module->tensors[0][0];
    bool good = true;
    for (int layer = 0; layer < module->layers; layer++)
        for (int side = 0; side < module->directions; side++)
            for (int slot = 0; slot < PYTORCH_SLOTS; slot++) {
                const bool wanted = slot <= PYTORCH_R || first[slot] ||
                                    (slot == PYTORCH_BIAS_IH && first[slot + 1]) ||
                                    (slot == PYTORCH_BIAS_HH && first[slot - 1]);
                const SafetensorsTensor *found = module->tensors[layer][side][slot];
                const char *number =
                    module->is_cell_module ? "" : arena_format(check->arena, "_l%d", layer);
                if (wanted && !found)
                    good = fault(check, "module '%s' has no tensor %s%s%s", module->path,
                                 slot_words[slot], number, side ? "_reverse" : "");
                if (!wanted && found)
                    good = fault(check, "tensor '%s' has no like in layer 0 of its module",
                                 found->name);
            }
    return good;
}

/// Cell, inputs, units and projection by the first layer's matrices.
static bool read_sizes(const Check *check)
{
    static const char *const cells[] = {[1] = "rnn", [3] = "gru", [4] = "lstm"};
    PytorchModule *module = check->module;
    const SafetensorsTensor *const *first = module->tensors[0][0];
    if (!is_matrix(check, first[PYTORCH_W]) || !is_matrix(check, first[PYTORCH_R]) ||
        (first[PYTORCH_P] && !is_matrix(check, first[PYTORCH_P])))
        return false;
    module->inputs = first[PYTORCH_W]->dims[1];
    module->units = first[first[PYTORCH_P] ? PYTORCH_P : PYTORCH_R]->dims[1];
    module->projection = first[PYTORCH_P] ? first[PYTORCH_P]->dims[0] : 0;
    module->bias = first[PYTORCH_BIAS_IH] != NULL;
    const int64_t rows = first[PYTORCH_R]->dims[0], gates = rows / module->units;
    if (rows % module->units || (gates != 1 && gates != 3 && gates != 4))
        return fault(check,
                     "tensor '%s' is %s: %" PRId64 " rows are not 1 (RNN), 3 (GRU) or 4 (LSTM) "
                     "times %" PRId64 " units",
                     first[PYTORCH_R]->name, shape_of(check, first[PYTORCH_R]), rows,
                     module->units);
    module->gates = (int)gates;
    module->cell = cells[gates];
    if (module->projection && gates != 4)
        return fault(check, "tensor '%s': only an LSTM has a projection, and this is no LSTM",
                     first[PYTORCH_P]->name);
    return true;
}

static bool check_recurrent(const Check *check)
{
    PytorchModule *module = check->module;
    module->kind = PYTORCH_RECURRENT;
    if (module->weight || module->bias_vector)
        return fault(check, "module '%s' has tensors of a recurrent module and '%s'", module->path,
                     (module->weight ? module->weight : module->bias_vector)->name);
    if (!is_complete(check) || !read_sizes(check))
        return false;
    bool good = true;
    const int64_t rows = module->gates * module->units;
    const int64_t fed_back = module->projection ? module->projection : module->units;
    for (int layer = 0; layer < module->layers; layer++)
        for (int side = 0; side < module->directions; side++) {
            const SafetensorsTensor *const *at = module->tensors[layer][side];
            good &= has_shape(check, at[PYTORCH_W], rows,
                              layer ? module->directions * fed_back : module->inputs) &&
                    has_shape(check, at[PYTORCH_R], rows, fed_back);
            good &= !at[PYTORCH_P] ||
                    has_shape(check, at[PYTORCH_P], module->projection, module->units);
            good &= !module->bias || (has_shape(check, at[PYTORCH_BIAS_IH], rows, 0) &&
                                      has_shape(check, at[PYTORCH_BIAS_HH], rows, 0));
        }
    return good;
}

bool pytorch_check(Arena *arena, Diags *diags, const Safetensors *file, PytorchModule *module)
{
    const Check check = {arena, diags, file, module};
    const SafetensorsTensor *odd = module->odd;
    if (!odd && !module->tensors && module->weight && module->weight->dim_count != 2)
        odd = module->weight; // of a norm or a convolution
    if (!odd && !module->tensors && !module->weight)
        odd = module->bias_vector;
    if (odd)
        return fault(&check,
                     "tensor '%s' %s is of no module that is imported (RNN, LSTM, GRU, their "
                     "cells, Linear, Embedding)",
                     odd->name, shape_of(&check, odd));
    if (module->tensors)
        return check_recurrent(&check);
    if (!is_matrix(&check, module->weight) || !is_float(&check, module->weight))
        return false;
    module->units = module->weight->dims[0];
    module->inputs = module->weight->dims[1];
    module->kind = module->bias_vector ? PYTORCH_LINEAR : PYTORCH_MATRIX;
    return !module->bias_vector || has_shape(&check, module->bias_vector, module->units, 0);
}

int64_t pytorch_outputs(const PytorchModule *module, PytorchKind kind)
{
    if (kind == PYTORCH_EMBEDDING)
        return module->inputs;
    if (kind != PYTORCH_RECURRENT)
        return module->units;
    return module->directions * (module->projection ? module->projection : module->units);
}

const char *pytorch_describe(Arena *arena, const PytorchModule *module, PytorchKind kind)
{
    if (kind == PYTORCH_EMBEDDING)
        return arena_format(arena, "Embedding(%" PRId64 ", %" PRId64 ")", module->units,
                            module->inputs);
    if (kind != PYTORCH_RECURRENT)
        return arena_format(arena, "Linear(%" PRId64 ", %" PRId64 "%s)", module->inputs,
                            module->units, module->bias_vector ? "" : ", bias=False");
    const char *const words[] = {[1] = "RNN", [3] = "GRU", [4] = "LSTM"};
    return arena_format(
        arena, "%s%s(%" PRId64 ", %" PRId64 "%s%s%s%s)", words[module->gates],
        module->is_cell_module ? "Cell" : "", module->inputs, module->units,
        module->layers > 1 ? arena_format(arena, ", num_layers=%d", module->layers) : "",
        module->directions > 1 ? ", bidirectional=True" : "",
        module->projection ? arena_format(arena, ", proj_size=%" PRId64, module->projection) : "",
        module->bias ? "" : ", bias=False");
}
