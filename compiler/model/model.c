// Model: walks the spec's layers in order with the shape that flows between them.
#include "model/model.h"

#include <string.h>

#include "model/model_weights.h"

static const int64_t ELEMENTS_MAX = (int64_t)1 << 40;

/// What flows from layer to layer.
typedef struct {
    Arena *arena;
    Diags *diags;
    Model *model;
    int64_t features;
    bool sequence;
    const SpecLayer *sequence_ended_by; ///< the layer that returned its last output only
} Builder;

int64_t layer_domain_size(const Layer *layer, Domain domain)
{
    return domain == DOMAIN_PROJECTION ? layer->projection : layer->units;
}

/// Binds an activation of the spec; `fallback` where none is given.
static bool bind_activation(Builder *builder, const SpecActivation *given, const char *fallback,
                            Activation *out)
{
    if (given->expression)
        return activation_from_expression(builder->arena, builder->diags, given->value_span,
                                          given->expression, out);
    return activation_find(builder->arena, builder->diags, given->value_span,
                           given->name ? given->name : fallback, given->parameters,
                           given->parameter_count, out);
}

static bool is_cell(const SpecLayer *spec, const char *name)
{
    return text_equal_ignoring_case(spec->cell.text, name);
}

/// The cell's name after the keys that choose a relative of it: reset_after, projection.
static const char *cell_name(Builder *builder, const SpecLayer *spec)
{
    bool fits = is_cell(spec, "gru") || (is_cell(spec, "gru_before") && !spec->reset_after.value);
    if (is_cell(spec, "gru") && !spec->reset_after.value)
        return "gru_before";
    if (!fits && spec->reset_after.span.source)
        diag_help(diag_add(builder->diags, DIAG_E0505, spec->reset_after.span,
                           "reset_after has no meaning for the cell '%s'", spec->cell.text),
                  "it belongs to gru; remove it here");
    return spec->projection.value && is_cell(spec, "lstm") ? "lstmp" : spec->cell.text;
}

static void check_projection(Builder *builder, const SpecLayer *spec, const Cell *cell)
{
    if (cell->has_projection && !spec->projection.value)
        diag_help(diag_add(builder->diags, DIAG_E0506, spec->cell.span,
                           "the cell '%s' projects its output but 'projection' is missing",
                           cell->name),
                  "give the number of projection units: projection: 64");
    if (!cell->has_projection && spec->projection.value)
        diag_help(diag_add(builder->diags, DIAG_E0506, spec->projection.span,
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
static void warn_of_unused(Builder *builder, const SpecLayer *spec, const Cell *cell)
{
    const struct {
        const char *key;
        Span span;
    } given[] = {{"activation", spec->activation.span},
                 {"recurrent_activation", spec->recurrent_activation.span},
                 {"output_activation", spec->output_activation.span}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].span.source && !calls(cell, given[i].key))
            diag_help(diag_add(builder->diags, DIAG_W0501, given[i].span,
                               "'%s' has no effect: the cell '%s' does not use it", given[i].key,
                               cell->name),
                      "remove it, or choose a cell that has one");
}

static const Cell *load_cell(Builder *builder, const SpecLayer *spec)
{
    CellBinding binding = {.use_bias = spec->use_bias.value};
    const SpecActivation *output = &spec->output_activation;
    if (!output->name && !output->expression)
        output = &spec->activation;
    bool bound = bind_activation(builder, &spec->activation, "tanh", &binding.activation);
    bound &= bind_activation(builder, &spec->recurrent_activation, "sigmoid",
                             &binding.recurrent_activation);
    if (output == &spec->activation)
        binding.output_activation = binding.activation;
    else
        bound &= bind_activation(builder, output, "tanh", &binding.output_activation);
    const char *name = cell_name(builder, spec);
    const Cell *cell = bound ? cell_load(builder->arena, builder->diags, spec->cell.span, name,
                                         builder->model->spec->path, &binding)
                             : NULL;
    if (cell) {
        check_projection(builder, spec, cell);
        warn_of_unused(builder, spec, cell);
    }
    return cell;
}

static void refuse_missing_sequence(Builder *builder, const SpecLayer *spec)
{
    const SpecLayer *earlier = builder->sequence_ended_by;
    Diag *diag =
        diag_add(builder->diags, DIAG_E0501, spec->cell.span,
                 "a recurrent layer needs a sequence, and '%s' returns its last output only",
                 earlier->name.text);
    diag_note(diag,
              earlier->return_sequences.span.source ? earlier->return_sequences.span
                                                    : earlier->span,
              "'%s' is this layer", earlier->name.text);
    diag_help(diag, "add return_sequences: true to '%s'", earlier->name.text);
}

static void add_layer(Builder *builder, const Layer *layer)
{
    Model *model = builder->model;
    ARENA_PUSH(builder->arena, model->layers, model->layer_count, *layer);
    builder->features = layer->outputs;
}

/// Buffers between the layers, by turns.
static void place_layers(Arena *arena, Model *model)
{
    enum { TURNS = 2 };
    model->slot_widths = ARENA_ARRAY(arena, int64_t, TURNS);
    model->slot_count = model->layer_count > TURNS ? TURNS : model->layer_count - 1;
    for (int i = 0; i < model->layer_count; i++) {
        Layer *layer = &model->layers[i];
        const bool is_last = i + 1 == model->layer_count;
        layer->in = i ? model->layers[i - 1].out : (View){SLOT_X, 0, layer->inputs};
        layer->in2 = (View){SLOT_NONE, 0, 0};
        layer->out = (View){is_last ? SLOT_Y : i % TURNS, 0, layer->outputs};
        if (!is_last && layer->outputs > model->slot_widths[i % TURNS])
            model->slot_widths[i % TURNS] = layer->outputs;
    }
}

static void add_cells(Builder *builder, const SpecLayer *spec)
{
    const Cell *cell = load_cell(builder, spec);
    if (!builder->sequence)
        refuse_missing_sequence(builder, spec);
    if (!cell || !builder->sequence)
        return;
    int64_t depth = spec->layers.value > 0 ? spec->layers.value : 1;
    for (int64_t i = 0; i < depth; i++) {
        const char *name = spec->name.text;
        if (depth > 1)
            name = arena_format(builder->arena, "%s/%d", name, (int)i);
        Layer layer = {.kind = LAYER_CELL,
                       .name = name,
                       .spec = spec,
                       .inputs = builder->features,
                       .units = spec->units.value,
                       .projection = spec->projection.value,
                       .sequence_in = true,
                       .sequence_out = i + 1 < depth || spec->return_sequences.value,
                       .return_state = spec->return_state.value,
                       .stateful = spec->stateful.value,
                       .stack_index = (int)i,
                       .heads = 1,
                       .cell = cell};
        layer.outputs = layer_domain_size(&layer, cell->states[0].domain);
        add_layer(builder, &layer);
    }
    builder->sequence = spec->return_sequences.value;
    builder->sequence_ended_by = spec;
}

static void add_embedding(Builder *builder, const SpecLayer *spec)
{
    Model *model = builder->model;
    if (!model->tokens || model->layer_count > 0) {
        Diag *diag = diag_add(builder->diags, DIAG_E0504, spec->span,
                              "an embedding must be the first layer and needs token input");
        diag_help(diag, "write input: {tokens: 66, ...} and put the embedding first");
    }
    add_layer(builder, &(Layer){.kind = LAYER_EMBEDDING,
                                .name = spec->name.text,
                                .spec = spec,
                                .inputs = builder->features,
                                .outputs = spec->units.value,
                                .units = spec->units.value,
                                .sequence_in = true,
                                .sequence_out = true});
}

static void add_pointwise(Builder *builder, const SpecLayer *spec, LayerKind kind)
{
    Layer layer = {.kind = kind,
                   .name = spec->name.text,
                   .spec = spec,
                   .inputs = builder->features,
                   .outputs = kind == LAYER_DENSE ? spec->units.value : builder->features,
                   .sequence_in = builder->sequence,
                   .sequence_out = builder->sequence};
    layer.units = layer.outputs;
    if (bind_activation(builder, &spec->activation, "linear", &layer.activation))
        add_layer(builder, &layer);
}

static void add_spec_layer(Builder *builder, const SpecLayer *spec)
{
    if (builder->model->tokens && builder->model->layer_count == 0 &&
        spec->kind != SPEC_EMBEDDING && spec->kind != SPEC_DROPOUT) {
        Diag *diag = diag_add(builder->diags, DIAG_E0503, spec->span,
                              "token input must go into an embedding first");
        diag_help(diag, "put {embedding: 64} before this layer, or give input: {features: N}");
    }
    switch (spec->kind) {
    case SPEC_CELL:
        add_cells(builder, spec);
        break;
    case SPEC_EMBEDDING:
        add_embedding(builder, spec);
        break;
    case SPEC_DENSE:
        add_pointwise(builder, spec, LAYER_DENSE);
        break;
    case SPEC_ACTIVATION:
        add_pointwise(builder, spec, LAYER_ACTIVATION);
        break;
    case SPEC_BIDIRECTIONAL:
    case SPEC_MASKING:
    case SPEC_DROPOUT:
        break; // identity at inference
    }
}

static void check_layer_size(Builder *builder, const Layer *layer)
{
    for (int i = 0; i < WEIGHT_COUNT; i++) {
        const Weight *weight = &layer->weights[i];
        if (weight->columns > 0 && weight->rows > ELEMENTS_MAX / weight->columns) {
            Diag *diag = diag_add(builder->diags, DIAG_E0507, layer->spec->units.span,
                                  "'%s' would have more than 2^40 elements", weight->name);
            diag_help(diag, "this layer has %lld inputs; make units or features smaller",
                      (long long)layer->inputs);
        }
    }
    const Model *model = builder->model;
    int64_t rows = (model->batch ? model->batch : 1) * (model->timesteps ? model->timesteps : 1);
    if (layer->outputs > ELEMENTS_MAX / rows)
        diag_add(builder->diags, DIAG_E0507, layer->spec->span,
                 "the output of '%s' would have more than 2^40 elements", layer->name);
}

static bool check_input(Builder *builder)
{
    const Spec *spec = builder->model->spec;
    if (!spec->timesteps.any && !spec->batch.any &&
        spec->batch.value > ELEMENTS_MAX / spec->timesteps.value) {
        diag_add(builder->diags, DIAG_E0507, spec->timesteps.span,
                 "batch times timesteps is more than 2^40");
        return false;
    }
    return true;
}

const Model *model_build_shapes(Arena *arena, Diags *diags, const Spec *spec)
{
    size_t errors = diags_error_count(diags);
    Model *model = ARENA_NEW(arena, Model);
    *model = (Model){.spec = spec,
                     .name = spec->name,
                     .tokens = spec->tokens.value > 0,
                     .features = spec->tokens.value > 0 ? spec->tokens.value : spec->features.value,
                     .batch = spec->batch.value,
                     .timesteps = spec->timesteps.value};
    Builder builder = {.arena = arena,
                       .diags = diags,
                       .model = model,
                       .features = model->features,
                       .sequence = true};
    if (!check_input(&builder))
        return NULL;
    for (int i = 0; i < spec->layer_count; i++)
        add_spec_layer(&builder, &spec->layers[i]);
    if (diags_error_count(diags) == errors && model->layer_count == 0)
        diag_add(diags, DIAG_E0502, (Span){.source = spec->source},
                 "the model has no layer that computes anything");
    for (int i = 0; i < model->layer_count; i++) {
        model_name_weights(arena, &model->layers[i]);
        check_layer_size(&builder, &model->layers[i]);
    }
    if (diags_error_count(diags) != errors)
        return NULL;
    place_layers(arena, model);
    return model;
}

const Model *model_build(Arena *arena, Diags *diags, const Spec *spec)
{
    Model *model = (Model *)model_build_shapes(arena, diags, spec);
    return model && model_fill_weights(arena, diags, model) ? model : NULL;
}
