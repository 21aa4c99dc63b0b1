// Order of modules: see pytorch_order.h. A depth-first search over chains of modules; it ends when
// it has seen a second one, or after a number of steps that no real model needs.
#include "import/pytorch_order.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cell/activation.h"

enum { SEARCHED_MAX = 64, TRIES_MAX = 1000000, FOUND_MAX = 3 };

static PytorchModule *find_module(const PytorchModules *modules, const char *name)
{
    for (int i = 0; i < modules->count; i++)
        if (strcmp(modules->items[i].path, name) == 0 || strcmp(modules->items[i].name, name) == 0)
            return &modules->items[i];
    return NULL;
}

static bool is_activation(Arena *arena, const char *name)
{
    Activation unused;
    return activation_find(arena, diags_create(arena), (Span){0}, name, NULL, 0, &unused);
}

static bool report_item(Arena *arena, Diags *diags, const char *item, const PytorchModules *modules)
{
    Text names = {.arena = arena};
    const char **candidates = ARENA_ARRAY(arena, const char *, modules->count + 1);
    for (int i = 0; i < modules->count; i++) {
        candidates[i] = modules->items[i].name;
        if (i < 12)
            text_addf(&names, "%s%s", i ? ", " : "", modules->items[i].name);
    }
    Diag *diag = diag_add(diags, DIAG_E0413, (Span){0},
                          "order: '%s' is neither a module nor an activation", item);
    const char *near = text_nearest(item, candidates, (size_t)modules->count);
    if (near)
        diag_help(diag, "did you mean '%s'?", near);
    else
        diag_help(diag, "the modules are: %s%s", text_string(&names),
                  modules->count > 12 ? ", ..." : "");
    return false;
}

/// "fc=linear": cuts the kind off the name. False for another word.
static bool cut_kind(Diags *diags, char *item, PytorchKind *out)
{
    char *equals = strchr(item, '=');
    *out = PYTORCH_MATRIX;
    if (!equals)
        return true;
    *equals = '\0';
    if (strcmp(equals + 1, "embedding") == 0)
        *out = PYTORCH_EMBEDDING;
    else if (strcmp(equals + 1, "linear") == 0)
        *out = PYTORCH_LINEAR;
    else
        diag_add(diags, DIAG_E0413, (Span){0}, "order: '%s=%s': after = stands embedding or linear",
                 item, equals + 1);
    return *out != PYTORCH_MATRIX;
}

static bool add_item(Arena *arena, Diags *diags, char *item, const PytorchModules *modules,
                     PytorchSteps *out)
{
    PytorchStep step = {0};
    if (!cut_kind(diags, item, &step.kind))
        return false;
    step.module = find_module(modules, item);
    if (!step.module && !is_activation(arena, item))
        return report_item(arena, diags, item, modules);
    for (int i = 0; i < out->count && step.module; i++)
        if (out->items[i].module == step.module) {
            diag_add(diags, DIAG_E0413, (Span){0}, "order: module '%s' is named twice", item);
            return false;
        }
    if (!step.module)
        step.activation = item;
    ARENA_PUSH(arena, out->items, out->count, step);
    return true;
}

bool pytorch_order_parse(Arena *arena, Diags *diags, const char *order,
                         const PytorchModules *modules, PytorchSteps *out)
{
    *out = (PytorchSteps){0};
    for (const char *at = order;;) {
        const size_t length = strcspn(at, ",");
        if (!add_item(arena, diags, arena_copy(arena, at, length), modules, out))
            return false;
        if (at[length] == '\0')
            return true;
        at += length + 1;
    }
}

/// The kinds that a step may be.
static int kinds_of(const PytorchStep *step, PytorchKind kinds[2])
{
    if (step->module->kind != PYTORCH_MATRIX)
        kinds[0] = step->module->kind;
    else if (step->kind != PYTORCH_MATRIX)
        kinds[0] = step->kind;
    else {
        kinds[0] = PYTORCH_EMBEDDING;
        kinds[1] = PYTORCH_LINEAR;
        return 2;
    }
    return 1;
}

/// Below 0 where `a` stands before `b` by the one number that tells them apart, above 0 behind it;
/// 0 where names do not say.
static int by_number(const char *a, const char *b)
{
    int order = 0;
    while (*a || *b) {
        const size_t m = strspn(a, "0123456789"), n = strspn(b, "0123456789");
        if (m && n && (m != n || memcmp(a, b, m) != 0)) {
            if (order)
                return 0;
            order = m != n ? (m < n ? -1 : 1) : memcmp(a, b, m);
        } else if (!m || !n) {
            if (*a != *b)
                return 0;
            a++;
            b++;
            continue;
        }
        a += m;
        b += n;
    }
    return order;
}

typedef struct {
    const PytorchSteps *steps;
    bool is_ordered;
    bool used[SEARCHED_MAX];
    PytorchStep chain[SEARCHED_MAX], found[FOUND_MAX][SEARCHED_MAX];
    int found_count, tries;
} Search;

/// Whether no module that by its number stands before this one is still to come.
static bool is_turn(const Search *search, int index)
{
    const PytorchModule *module = search->steps->items[index].module;
    for (int i = 0; i < search->steps->count; i++) {
        const PytorchModule *other = search->steps->items[i].module;
        if (!search->used[i] && i != index && by_number(other->path, module->path) < 0)
            return false;
    }
    return true;
}

/// Extends the chain by every module that takes `width` features (0: anything, at the start).
static void extend(Search *search, int depth, int64_t width)
{
    const int count = search->steps->count;
    if (depth == count) {
        if (search->found_count < FOUND_MAX)
            memcpy(search->found[search->found_count], search->chain, sizeof search->chain);
        search->found_count++;
        return;
    }
    for (int i = 0; i < count && search->found_count < FOUND_MAX; i++) {
        const PytorchStep *step = &search->steps->items[i];
        if (search->used[i] || (search->is_ordered && i != depth))
            continue;
        if (step->activation) {
            search->chain[depth] = *step;
            search->used[i] = true;
            extend(search, depth + 1, width);
            search->used[i] = false;
            continue;
        }
        if (search->tries++ > TRIES_MAX || (!search->is_ordered && !is_turn(search, i)))
            continue;
        PytorchKind kinds[2];
        for (int k = 0, n = kinds_of(step, kinds); k < n; k++) {
            const bool fits = kinds[k] == PYTORCH_EMBEDDING
                                  ? depth == 0
                                  : depth == 0 || step->module->inputs == width;
            if (!fits)
                continue;
            search->chain[depth] = (PytorchStep){.module = step->module, .kind = kinds[k]};
            search->used[i] = true;
            extend(search, depth + 1, pytorch_outputs(step->module, kinds[k]));
            search->used[i] = false;
        }
    }
}

static const char *chain_text(Arena *arena, const PytorchStep *chain, int count)
{
    Text text = {.arena = arena};
    for (int i = 0; i < count; i++) {
        const PytorchModule *module = chain[i].module;
        text_addf(&text, "%s%s%s", i ? "," : "", module ? module->name : chain[i].activation,
                  !module || module->kind != PYTORCH_MATRIX ? ""
                  : chain[i].kind == PYTORCH_LINEAR         ? "=linear"
                                                            : "=embedding");
    }
    return text_string(&text);
}

static bool report_none(Arena *arena, Diags *diags, const char *path, const PytorchSteps *steps)
{
    Text all = {.arena = arena};
    for (int i = 0; i < steps->count; i++)
        if (steps->items[i].module)
            text_addf(
                &all, "%s%s = %s", i ? ", " : "", steps->items[i].module->name,
                pytorch_describe(arena, steps->items[i].module, steps->items[i].module->kind));
    Diag *diag = diag_add(diags, DIAG_E0411, (Span){0},
                          "'%s': in no order does every module take what the one before it gives: "
                          "%s",
                          path, text_string(&all));
    diag_help(diag, "import a part of the model by --prefix, or by --order with the modules of "
                    "that part");
    return false;
}

static bool report_several(Arena *arena, Diags *diags, const char *path, const Search *search)
{
    Diag *diag = diag_add(diags, DIAG_E0412, (Span){0},
                          "'%s': more than one order of its modules fits their shapes", path);
    const int shown = search->found_count < FOUND_MAX ? search->found_count : FOUND_MAX;
    for (int i = 0; i < shown; i++)
        diag_help(diag, "%s --order %s", i ? "or" : "say which:",
                  chain_text(arena, search->found[i], search->steps->count));
    return false;
}

/// Two Linear in a row would be one, so something stood between them that no tensor tells of.
static bool has_no_gap(Arena *arena, Diags *diags, const char *path, const PytorchStep *chain,
                       int count)
{
    for (int i = 1; i < count; i++) {
        if (chain[i].kind != PYTORCH_LINEAR || chain[i - 1].kind != PYTORCH_LINEAR ||
            !chain[i].module || !chain[i - 1].module)
            continue;
        Diag *diag = diag_add(diags, DIAG_E0412, (Span){0},
                              "'%s': the file does not say what stands between '%s' and '%s', two "
                              "Linear in a row",
                              path, chain[i - 1].module->name, chain[i].module->name);
        diag_help(diag, "name it, as in --order %s,relu,%s; `linear` is nothing",
                  chain_text(arena, chain, i), chain_text(arena, chain + i, count - i));
        return false;
    }
    return true;
}

bool pytorch_order_settle(Arena *arena, Diags *diags, const char *path, bool is_ordered,
                          PytorchSteps *steps)
{
    if (steps->count > SEARCHED_MAX) {
        diag_add(diags, DIAG_E0411, (Span){0},
                 "'%s' has %d modules, of which at most %d are put in order; name fewer by "
                 "--prefix or --order",
                 path, steps->count, SEARCHED_MAX);
        return false;
    }
    Search *search = ARENA_NEW(arena, Search);
    search->steps = steps;
    search->is_ordered = is_ordered;
    extend(search, 0, 0);
    if (search->found_count == 0)
        return report_none(arena, diags, path, steps);
    if (search->found_count > 1 || search->tries > TRIES_MAX)
        return report_several(arena, diags, path, search);
    memcpy(steps->items, search->found[0], sizeof *steps->items * (size_t)steps->count);
    return is_ordered || has_no_gap(arena, diags, path, steps->items, steps->count);
}
