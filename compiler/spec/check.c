// Spec checks: one function a rule.
#include "spec/check.h"

#include <stdint.h>
#include <string.h>

/// The file's name without folder and ending; what cannot stand in a name becomes `_`.
static const char *stem(Arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    char *copy = arena_copy(arena, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
    for (char *at = copy + strspn(copy, VALUE_NAME_CHARACTERS); *at;
         at += strspn(at, VALUE_NAME_CHARACTERS))
        *at = '_';
    return copy;
}

static void check_input(SpecReader *reader, const DocNode *root)
{
    const DocEntry *input = doc_find(root, "input");
    if (!input || input->value->kind != DOC_MAPPING)
        return;
    const DocEntry *features = doc_find(input->value, "features");
    const DocEntry *tokens = doc_find(input->value, "tokens");
    if (features && tokens) {
        Diag *diag = diag_add(reader->diags, DIAG_E0211, tokens->key->span,
                              "'tokens' and 'features' exclude each other");
        diag_note(diag, features->key->span, "'features' is here");
    } else if (!features && !tokens) {
        Diag *diag = diag_add(reader->diags, DIAG_E0202, input->key->span,
                              "'input' has neither 'features' nor 'tokens'");
        diag_help(diag, "write `input: {features: 8}` for numbers, `input: {tokens: 66}` for text");
    }
}

/// `l1` may be a name that the file gives to another layer than number 1.
static void check_names(SpecReader *reader)
{
    const Spec *spec = reader->spec;
    for (int i = 0; i < spec->layer_count; i++)
        for (int j = 0; j < i; j++) {
            const SpecLayer *a = &spec->layers[j], *b = &spec->layers[i];
            if (!text_equal(a->name.text, b->name.text))
                continue;
            bool second = b->name.span.source;
            Diag *diag = diag_add(reader->diags, DIAG_E0208, second ? b->name.span : a->name.span,
                                  "two layers have the name '%s'", b->name.text);
            const SpecLayer *other = second ? a : b;
            diag_note(diag, other->name.span.source ? other->name.span : other->span,
                      other->name.span.source ? "the other is here"
                                              : "the other is here, named by its position");
            break;
        }
}

static void check_unroll(SpecReader *reader)
{
    const Spec *spec = reader->spec;
    if (spec->unroll.is_auto || spec->unroll.factor != INT64_MAX || !spec->timesteps.any)
        return;
    Diag *diag = diag_add(reader->diags, DIAG_E0212, spec->unroll.span,
                          "`unroll: true` needs a fixed number of time steps");
    diag_help(diag, "give `timesteps` a number, or `unroll` one");
    if (spec->timesteps.span.source)
        diag_note(diag, spec->timesteps.span, "the time steps are here");
}

static void check_weights(SpecReader *reader, const DocNode *root)
{
    const DocEntry *weights = doc_find(root, "weights");
    if (!weights) {
        if (diags_error_count(reader->diags) == 0)
            diag_add(reader->diags, DIAG_N0201, (Span){.source = reader->spec->source},
                     "no `weights`: they are drawn from seed 0");
        return;
    }
    if (weights->value->kind != DOC_MAPPING)
        return;
    const DocEntry *file = doc_find(weights->value, "file");
    const DocEntry *seed = doc_find(weights->value, "seed");
    if (file && !doc_find(weights->value, "convention")) {
        Diag *diag = diag_add(reader->diags, DIAG_E0202, doc_entry_span(file),
                              "the weights file has no 'convention'");
        diag_help(diag, "add `convention: pytorch` or `convention: canonical`: gate orders cannot "
                        "be told from a shape");
    }
    if (file && seed)
        diag_help(diag_add(reader->diags, DIAG_E0211, doc_entry_span(seed),
                           "'seed' has no effect beside 'file'"),
                  "keep one of them");
    const char *const of_file[] = {"convention", "prefix"};
    for (int i = 0; i < 2 && !file; i++) {
        const DocEntry *entry = doc_find(weights->value, of_file[i]);
        if (entry)
            diag_help(diag_add(reader->diags, DIAG_E0211, doc_entry_span(entry),
                               "'%s' has no effect without 'file'", of_file[i]),
                      "name the file: `file: model.safetensors`");
    }
}

void spec_check(SpecReader *reader, const DocNode *root)
{
    Spec *spec = reader->spec;
    spec->name = spec->model_name.text ? spec->model_name.text : stem(reader->arena, spec->path);
    check_input(reader, root);
    check_names(reader);
    check_unroll(reader);
    check_weights(reader, root);
}
