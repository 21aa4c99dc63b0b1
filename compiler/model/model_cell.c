// Cell of a layer: see model_cell.h.
#include "model/model_cell.h"

#include <string.h>

bool model_bind_activation(Arena *arena, Diags *diags, const SpecActivation *given,
                           const char *fallback, Activation *out)
{
    if (given->expression)
        return activation_from_expression(arena, diags, given->value_span, given->expression, out);
    return activation_find(arena, diags, given->value_span, given->name ? given->name : fallback,
                           given->parameters, given->parameter_count, out);
}

static bool is_cell(const SpecLayer *spec, const char *name)
{
    return text_equal_ignoring_case(spec->cell.text, name);
}

/// The cell's name after the keys that choose a relative of it: reset_after, projection.
static const char *cell_name(Diags *diags, const SpecLayer *spec)
{
    bool fits = is_cell(spec, "gru") || (is_cell(spec, "gru_before") && !spec->reset_after.value);
    if (is_cell(spec, "gru") && !spec->reset_after.value)
        return "gru_before";
    if (!fits && spec->reset_after.span.source)
        diag_help(diag_add(diags, DIAG_E0505, spec->reset_after.span,
                           "reset_after has no meaning for the cell '%s'", spec->cell.text),
                  "it belongs to gru; remove it here");
    return spec->projection.value && is_cell(spec, "lstm") ? "lstmp" : spec->cell.text;
}

static void check_projection(Diags *diags, const SpecLayer *spec, const Cell *cell)
{
    if (cell->has_projection && !spec->projection.value)
        diag_help(diag_add(diags, DIAG_E0506, spec->cell.span,
                           "the cell '%s' projects its output but 'projection' is missing",
                           cell->name),
                  "give the number of projection units: projection: 64");
    if (!cell->has_projection && spec->projection.value)
        diag_help(diag_add(diags, DIAG_E0506, spec->projection.span,
                           "the cell '%s' has no projection", cell->name),
                  "lstm and lstmp take one; a cell file does by h' = P*(...)");
}

/// Whether the cell's file calls `function`, comments aside.
static bool calls(const Cell *cell, const char *function)
{
    size_t length = strlen(function);
    for (const char *at = cell->source->text; *at; at++) {
        if (*at == '#')
            at += strcspn(at, "\n");
        size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
        if (word == length && memcmp(at, function, length) == 0 && at[length] == '(')
            return true;
        at += word;
        if (!*at)
            return false;
    }
    return false;
}

/// A key that is given and has no effect is named: its writer expects one.
static void warn_of_unused(Diags *diags, const SpecLayer *spec, const Cell *cell)
{
    const struct {
        const char *key;
        Span span;
    } given[] = {{"activation", spec->activation.span},
                 {"recurrent_activation", spec->recurrent_activation.span},
                 {"output_activation", spec->output_activation.span}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].span.source && !calls(cell, given[i].key))
            diag_help(diag_add(diags, DIAG_W0501, given[i].span,
                               "'%s' has no effect: the cell '%s' does not use it", given[i].key,
                               cell->name),
                      "remove it, or choose a cell that has one");
    const struct {
        const char *key;
        bool given;
        Span span;
    } of_matrix[] = {
        {"heads", spec->heads.value > 1, spec->heads.span},
        {"recurrent_dropout", spec->recurrent_dropout.value > 0, spec->recurrent_dropout.span}};
    for (size_t i = 0; i < sizeof of_matrix / sizeof *of_matrix && cell->R.count == 0; i++)
        if (of_matrix[i].given)
            diag_help(diag_add(diags, DIAG_W0501, of_matrix[i].span,
                               "'%s' has no effect: the cell '%s' has no matrix R",
                               of_matrix[i].key, cell->name),
                      "remove it");
}

/// Activations of the spec; false with a diagnostic where one is unknown.
static bool bind_activations(Arena *arena, Diags *diags, const SpecLayer *spec,
                             CellBinding *binding)
{
    const SpecActivation *output = &spec->output_activation;
    bool bound =
        model_bind_activation(arena, diags, &spec->activation, "tanh", &binding->activation);
    bound &= model_bind_activation(arena, diags, &spec->recurrent_activation, "sigmoid",
                                   &binding->recurrent_activation);
    if (output->name || output->expression)
        bound &= model_bind_activation(arena, diags, output, "tanh", &binding->output_activation);
    else
        binding->output_activation = binding->activation;
    return bound;
}

static void bind_zoneouts(Arena *arena, const SpecLayer *spec, CellBinding *binding)
{
    const int count = spec->zoneout_count;
    const char **states = ARENA_ARRAY(arena, const char *, count + 1);
    double *rates = ARENA_ARRAY(arena, double, count + 1);
    Span *spans = ARENA_ARRAY(arena, Span, count + 1);
    for (int i = 0; i < count; i++) {
        states[i] = spec->zoneouts[i].state;
        rates[i] = spec->zoneouts[i].rate;
        spans[i] = spec->zoneouts[i].span;
    }
    binding->zoneout_states = states;
    binding->zoneout_rates = rates;
    binding->zoneout_spans = spans;
    binding->zoneout_count = count;
}

const Cell *model_load_cell(Arena *arena, Diags *diags, const Spec *whole, const SpecLayer *spec)
{
    CellBinding binding = {.use_bias = spec->use_bias.value,
                           .clip = spec->clip.value,
                           .clip_span = spec->clip.span,
                           .input_forget = spec->input_forget.value,
                           .input_forget_span = spec->input_forget.span,
                           .trains = whole->mode == MODE_TRAINING,
                           .units = spec->units.value,
                           .projection = spec->projection.value};
    bind_zoneouts(arena, spec, &binding);
    bool bound = bind_activations(arena, diags, spec, &binding);
    const char *name = cell_name(diags, spec);
    const Cell *cell =
        bound ? cell_load(arena, diags, spec->cell.span, name, whole->path, &binding) : NULL;
    if (cell) {
        check_projection(diags, spec, cell);
        warn_of_unused(diags, spec, cell);
    }
    return cell;
}
