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

/// Adds `code` at `span` with a note at the other key.
static Diag *contradiction(SpecReader *reader, DiagCode code, Span span, const char *message,
                           Span other, const char *note)
{
    Diag *diag = diag_add(reader->diags, code, span, "%s", message);
    if (other.source)
        diag_note(diag, other, "%s", note);
    return diag;
}

/// What the keys of one cell layer must satisfy together.
static void check_cell(SpecReader *reader, const SpecLayer *layer)
{
    const Spec *spec = reader->spec;
    if (layer->stateful.value && spec->batch.any)
        diag_help(contradiction(reader, DIAG_E0216, layer->stateful.span,
                                "`stateful: true` needs a fixed batch, not `batch: any`",
                                spec->batch.span, "'batch' is here"),
                  "give the input's `batch` a number: the states of so many rows are kept");
    if (layer->go_backwards.value && layer->direction == DIRECTION_REVERSE)
        diag_help(contradiction(reader, DIAG_E0217, layer->direction_span,
                                "`direction: reverse` and `go_backwards: true` exclude each other",
                                layer->go_backwards.span, "'go_backwards' is here"),
                  "keep `direction` for outputs in the order of time, `go_backwards` for outputs "
                  "in the order they are made");
}

/// A key of a bidirectional layer's direction that turns it round.
static void check_turn(SpecReader *reader, const SpecLayer *whole, const SpecLayer *layer)
{
    const struct {
        bool given;
        Span span;
        const char *words;
    } turns[] = {
        {layer->go_backwards.value, layer->go_backwards.span, "go_backwards: true"},
        {layer->direction == DIRECTION_REVERSE, layer->direction_span, "direction: reverse"},
    };
    for (int i = 0; i < 2; i++) {
        if (!turns[i].given)
            continue;
        const char *message = arena_format(
            reader->arena, "`%s` has no meaning within `bidirectional`", turns[i].words);
        diag_help(contradiction(reader, DIAG_E0217, turns[i].span, message, whole->span,
                                "the bidirectional layer is here"),
                  "remove it: `layer` runs forward, `backward` (or a copy of `layer`) backward");
    }
}

static void check_bidirectional(SpecReader *reader, const SpecLayer *whole)
{
    const SpecLayer *forward = whole->forward, *backward = whole->backward;
    if (!forward)
        return;
    check_turn(reader, whole, forward);
    check_cell(reader, forward);
    if (whole->merge == MERGE_NONE && forward->layers.value > 1)
        diag_help(contradiction(reader, DIAG_E0218, whole->merge_span,
                                "`merge: none` leaves nothing for the next layer of the stack",
                                forward->layers.span, "'layers' is here"),
                  "write the stack as layers of their own; only the last may have `merge: none`");
    if (!backward)
        return;
    check_turn(reader, whole, backward);
    check_cell(reader, backward);
    if (forward->return_sequences.value != backward->return_sequences.value) {
        bool second = backward->return_sequences.span.source;
        Span forward_span = forward->return_sequences.span, at = backward->return_sequences.span;
        diag_help(contradiction(reader, DIAG_E0218, second ? at : backward->span,
                                "'return_sequences' of `layer` and `backward` differ",
                                forward_span.source ? forward_span : forward->span,
                                forward_span.source ? "`layer` has it here" : "`layer` is here"),
                  "give both the same");
    }
    if (forward->layers.value != backward->layers.value)
        diag_help(
            contradiction(reader, DIAG_E0218,
                          backward->layers.span.source ? backward->layers.span : backward->span,
                          "'layers' of `layer` and `backward` differ",
                          forward->layers.span.source ? forward->layers.span : forward->span,
                          "`layer` is here"),
            "give both the same");
}

static void check_layers(SpecReader *reader)
{
    const Spec *spec = reader->spec;
    for (int i = 0; i < spec->layer_count; i++)
        if (spec->layers[i].kind == SPEC_CELL)
            check_cell(reader, &spec->layers[i]);
        else if (spec->layers[i].kind == SPEC_BIDIRECTIONAL)
            check_bidirectional(reader, &spec->layers[i]);
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
        diag_help(diag, "add `convention: pytorch`, `keras`, `onnx` or `canonical`: gate orders "
                        "cannot be told from a shape");
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
    check_layers(reader);
    check_weights(reader, root);
}
