// Keras' layers: see keras_layers.h. A class is one row of `classes`; one that is not there is
// refused by name.
#include "import/keras_layers.h"

#include <string.h>

#include "import/keras_cell.h"

/// Takes a layer. `outer` is the layer that the model has: `layer` itself, or the TimeDistributed
/// around it, whose weights it has.
typedef bool (*Take)(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer);

static bool take_time_distributed(KerasFile *file, const KerasLayer *layer,
                                  const KerasLayer *outer);

/// The layer's name as a spec can have it, given to no other layer.
static const char *new_name(KerasFile *file, const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-.";
    enum { LENGTH_MAX = 48 };
    char *good = arena_format(file->arena, "%s%.*s", strspn(name, "0123456789-.") ? "l_" : "",
                              LENGTH_MAX, *name ? name : "layer");
    for (char *at = good; *(at += strspn(at, allowed));)
        *at = '_';
    const char *unique = good;
    for (int i = 0, again = 2; i < file->name_count; i++)
        if (text_equal(file->names[i], unique)) {
            unique = arena_format(file->arena, "%s_%d", good, again++);
            i = -1;
        }
    ARENA_PUSH(file->arena, file->names, file->name_count, unique);
    return unique;
}

/// Adds a layer to the model, with the remarks that wait for it. `name` NULL: it has none.
static ImportedLayer *add(KerasFile *file, const char *key, const char *value, const char *name)
{
    const char *taken = name ? new_name(file, name) : NULL;
    ImportedLayer *layer = imported_add(file->model, key, value, taken);
    if (name && !text_equal(name, taken))
        keras_note(file, "named '%s' in Keras", name);
    file->last = layer;
    file->last_note = file->note;
    file->note = (Text){.arena = file->arena};
    if (file->last_note.length)
        imported_note(layer, text_string(&file->last_note));
    return layer;
}

/// A remark on what becomes of the gates.
static void note_gates(KerasFile *file, const char *class_name, const KerasCell *cell,
                       const char *wrapper)
{
    keras_note(file, "%s%s%s%s", wrapper, class_name,
               cell->gates == 4   ? "; its gates i f c o are i f g o here"
               : cell->gates == 3 ? "; its gates z r h are r z n here"
                                  : "",
               strncmp(class_name, "CuDNN", 5) == 0 ? ", its kernels in CuDNN's layout" : "");
}

/// Whether a layer is the last, or gives one value.
static bool outputs_fit(const KerasFile *file, const KerasLayer *layer, int wanted)
{
    return file->output_count == 1 || file->output_count == wanted ||
           keras_refuse(file, layer, "save a model with all of the layer's outputs, or the first",
                        "the model has %d of its %d values as outputs", file->output_count, wanted);
}

static bool take_cell(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    KerasCellLayer read;
    if (!keras_read_cell(file, layer, layer->class_name, layer->config, KERAS_CELL, &read))
        return false;
    if (!outputs_fit(file, layer, read.cell.gates == 4 ? 3 : 2))
        return false;
    note_gates(file, layer->class_name, &read.cell, "");
    ImportedLayer *to = add(file, "cell", read.cell.cell, layer->name);
    for (int i = 0; i < read.setting_count; i++)
        imported_set(to, read.settings[i].key, read.settings[i].value, read.settings[i].comment);
    if (!keras_take_cell(file, outer, KERAS_CELL, 0, &read.cell, to, ""))
        return false;
    if (read.is_stateful)
        keras_drop_states(file, outer, keras_cell_variables(&read.cell));
    file->width = read.cell.units;
    return true;
}

/// "{cell: lstm, units: 4, return_sequences: true}"
static const char *flow_of(const KerasFile *file, const KerasCellLayer *read)
{
    Text flow = {.arena = file->arena};
    text_addf(&flow, "{cell: %s", read->cell.cell);
    for (int i = 0; i < read->setting_count; i++)
        text_addf(&flow, ", %s: %s", read->settings[i].key, read->settings[i].value);
    text_add(&flow, "}");
    return text_string(&flow);
}

/// One direction of a Bidirectional: `description` has class_name and config.
static bool read_direction(KerasFile *file, const KerasLayer *layer, const json_t *description,
                           KerasPart part, KerasCellLayer *out)
{
    const char *class_name = keras_string(description, "class_name");
    const json_t *config = json_object_get(description, "config");
    if (!class_name || !keras_is_cell(class_name))
        return keras_refuse(file, layer, NULL, "it is around a '%s', no recurrent layer",
                            class_name ? class_name : "(of no class)");
    return keras_read_cell(file, layer, class_name, config, part, out);
}

static const char *merge_of(const KerasFile *file, const KerasLayer *layer)
{
    static const char *const modes[] = {"concat", "sum", "mul", "ave"};
    const json_t *mode = json_object_get(layer->config, "merge_mode");
    const char *name = json_string_value(mode);
    if (json_is_null(mode))
        return "none";
    for (size_t i = 0; name && i < sizeof modes / sizeof *modes; i++)
        if (text_equal(name, modes[i]))
            return modes[i];
    keras_refuse(file, layer, NULL, "its merge_mode is none of Keras'");
    return NULL;
}

static bool take_bidirectional(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    KerasCellLayer forward, backward;
    const json_t *first = json_object_get(layer->config, "layer");
    const json_t *second = json_object_get(layer->config, "backward_layer");
    const char *merge = merge_of(file, layer);
    if (!merge ||
        !keras_check_keys(file, layer, layer->config, "layer backward_layer merge_mode") ||
        !read_direction(file, layer, first, KERAS_FORWARD, &forward) ||
        !read_direction(file, layer, json_is_object(second) ? second : first, KERAS_BACKWARD,
                        &backward))
        return false;
    if (forward.go_backwards || (json_is_object(second) && !backward.go_backwards))
        return keras_refuse(file, layer, NULL,
                            "its forward layer has go_backwards, or its backward layer has not");
    const char *there = flow_of(file, &forward), *back = flow_of(file, &backward);
    const char *other =
        text_equal(there, back) ? "" : arena_format(file->arena, ", backward: %s", back);
    if (text_equal(merge, "none") ? file->output_count != 2 : file->output_count != 1)
        return keras_refuse(file, layer, NULL, "the model has %d of its values as outputs",
                            file->output_count);
    note_gates(file, keras_string(first, "class_name"), &forward.cell, "Bidirectional ");
    ImportedLayer *to = add(
        file, "bidirectional",
        arena_format(file->arena, "{merge: %s, layer: %s%s}", merge, there, other), layer->name);
    const int skip = keras_cell_variables(&forward.cell);
    if (!keras_take_cell(file, outer, KERAS_FORWARD, 0, &forward.cell, to, "fw/") ||
        !keras_take_cell(file, outer, KERAS_BACKWARD, skip, &backward.cell, to, "bw/"))
        return false;
    if (forward.is_stateful || backward.is_stateful)
        keras_drop_states(file, outer, skip + keras_cell_variables(&backward.cell));
    file->width = forward.cell.units + (text_equal(merge, "concat") ? backward.cell.units : 0);
    return true;
}

static bool take_dense(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    const json_t *use_bias = json_object_get(layer->config, "use_bias");
    const bool has_bias = !use_bias || json_is_true(use_bias);
    const char *activation =
        keras_activation(file, layer, json_object_get(layer->config, "activation"));
    const int64_t units = keras_size(file, layer, layer->config, "units");
    if (!activation || units == 0 ||
        !keras_check_keys(file, layer, layer->config, "units activation use_bias input_dim"))
        return false;
    Text value = {.arena = file->arena};
    const bool is_plain = has_bias && text_equal(activation, "linear");
    text_addf(&value, is_plain ? "%lld" : "{units: %lld", (long long)units);
    if (!text_equal(activation, "linear"))
        text_addf(&value, ", activation: %s", activation);
    text_addf(&value, "%s%s", has_bias ? "" : ", use_bias: false", is_plain ? "" : "}");
    ImportedLayer *to = add(file, "dense", text_string(&value), layer->name);
    if (!keras_take_dense(file, outer, outer == layer ? KERAS_OWN : KERAS_INNER, units, has_bias,
                          to))
        return false;
    file->width = units;
    return true;
}

static bool take_embedding(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    const int64_t tokens = keras_size(file, layer, layer->config, "input_dim");
    const int64_t units = tokens ? keras_size(file, layer, layer->config, "output_dim") : 0;
    const bool masks = json_is_true(json_object_get(layer->config, "mask_zero"));
    if (units == 0 || !keras_check_keys(file, layer, layer->config,
                                        "input_dim output_dim mask_zero input_length"))
        return false;
    const char *value = arena_format(file->arena, masks ? "{units: %lld, mask_zero: true}" : "%lld",
                                     (long long)units);
    ImportedLayer *to = add(file, "embedding", value, layer->name);
    if (!keras_take_embedding(file, outer, tokens, units, to))
        return false;
    file->width = units;
    return true;
}

static bool take_dropout(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    (void)outer;
    const double rate = keras_rate(file, layer, layer->config, "rate");
    if (rate < 0 || !keras_check_keys(file, layer, layer->config, "rate"))
        return false;
    add(file, "dropout", arena_format(file->arena, "%.9g", rate), NULL);
    return true;
}

/// Layers that do nothing at inference and have no counterpart.
static bool take_identity(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    (void)outer;
    keras_note(file, "%s '%s' does nothing at inference and is left out", layer->class_name,
               layer->name);
    return true;
}

static bool take_masking(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    (void)outer;
    const json_t *value = json_object_get(layer->config, "mask_value");
    if (!json_is_number(value))
        return keras_refuse(file, layer, NULL, "its mask_value is no number");
    if (!keras_check_keys(file, layer, layer->config, "mask_value"))
        return false;
    add(file, "masking", arena_format(file->arena, "%.9g", json_number_value(value)), NULL);
    return true;
}

static bool take_activation(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    (void)outer;
    const char *value = keras_activation_layer(file, layer->class_name, layer->config);
    if (!value)
        value = keras_activation(file, layer, json_object_get(layer->config, "activation"));
    if (!value || !keras_check_keys(file, layer, layer->config,
                                    "activation negative_slope alpha max_value threshold theta"))
        return false;
    add(file, "activation", value, NULL);
    return true;
}

static bool refuse_softmax(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    (void)outer;
    return keras_refuse(file, layer, "save the model without it, and apply it to y",
                        "softmax is not elementwise");
}

static bool refuse_code(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    (void)outer;
    return keras_refuse(file, layer, "say the same with layers of Keras",
                        "it holds code, which is not run");
}

static const struct {
    const char *class_name;
    Take take;
} classes[] = {
    {"Bidirectional", take_bidirectional},
    {"TimeDistributed", take_time_distributed},
    {"Dense", take_dense},
    {"Embedding", take_embedding},
    {"Masking", take_masking},
    {"Activation", take_activation},
    {"ReLU", take_activation},
    {"LeakyReLU", take_activation},
    {"ELU", take_activation},
    {"ThresholdedReLU", take_activation},
    {"Dropout", take_dropout},
    {"SpatialDropout1D", take_identity},
    {"GaussianNoise", take_identity},
    {"GaussianDropout", take_identity},
    {"AlphaDropout", take_identity},
    {"ActivityRegularization", take_identity},
    {"Softmax", refuse_softmax},
    {"Lambda", refuse_code},
};

/// Refuses layers whose values have another type than float, and notes half precision.
static bool check_dtype(KerasFile *file, const KerasLayer *layer)
{
    const json_t *dtype = json_object_get(layer->config, "dtype");
    const char *name = json_is_object(dtype)
                           ? keras_string(json_object_get(dtype, "config"), "name")
                           : json_string_value(dtype);
    if (!name || text_equal(name, "float32"))
        return true;
    if (!strstr(name, "float16") && !text_equal(name, "float64"))
        return keras_refuse(file, layer, NULL, "its dtype '%s' is not read", name);
    if (strstr(name, "float8") || strstr(name, "int"))
        return keras_refuse(file, layer, NULL, "its dtype '%s' is not read", name);
    keras_note(file, "Keras computes '%s' in %s; `compile: {precision: ...}` sets that here",
               layer->name, name);
    return true;
}

static bool is_of_keras(const KerasLayer *layer)
{
    const char *module = keras_string(layer->description, "module");
    return !module || strncmp(module, "keras", 5) == 0 || strncmp(module, "tf_keras", 8) == 0 ||
           strncmp(module, "tensorflow", 10) == 0;
}

static bool take_layer(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    if (!is_of_keras(layer))
        return keras_refuse(file, layer, NULL, "its class is not of Keras but of '%s'",
                            keras_string(layer->description, "module"));
    if (!check_dtype(file, layer))
        return false;
    if (layer == outer && keras_is_cell(layer->class_name))
        return take_cell(file, layer, outer);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (text_equal(classes[i].class_name, layer->class_name))
            return classes[i].take(file, layer, outer);
    return keras_refuse(file, layer, NULL, "rnnc has no such layer");
}

static bool take_time_distributed(KerasFile *file, const KerasLayer *layer, const KerasLayer *outer)
{
    const json_t *description = json_object_get(layer->config, "layer");
    const char *class_name = keras_string(description, "class_name");
    if (!class_name || layer != outer || text_equal(class_name, "Embedding") ||
        text_equal(class_name, "Bidirectional"))
        return keras_refuse(file, layer, NULL, "it is around '%s'",
                            class_name ? class_name : "a layer of no class");
    if (!keras_check_keys(file, layer, layer->config, "layer"))
        return false;
    const KerasLayer inner = {.class_name = class_name,
                              .name = layer->name,
                              .config = json_object_get(description, "config"),
                              .description = description};
    return take_layer(file, &inner, outer);
}

/// The shape of the input: of an InputLayer, of the first layer, or of the model.
static const json_t *input_shape(const KerasModel *model)
{
    const json_t *config = model->layers[0].config;
    const json_t *shape = json_object_get(config, "batch_shape");
    if (!json_is_array(shape))
        shape = json_object_get(config, "batch_input_shape");
    return json_is_array(shape) ? shape : model->input_shape;
}

static void set_input(KerasFile *file, const char *key, const json_t *size)
{
    if (json_is_integer(size))
        imported_input(file->model, key,
                       arena_format(file->arena, "%lld", (long long)json_integer_value(size)),
                       NULL);
    else
        imported_input(file->model, key, "any", NULL);
}

/// The width of the input by the first layer that has weights.
static int64_t width_by_weights(KerasFile *file, const KerasModel *model, int first)
{
    for (int i = first; i < model->count; i++) {
        const KerasLayer *layer = &model->layers[i];
        if (text_equal(layer->class_name, "Bidirectional"))
            return keras_input_width(file, layer, KERAS_FORWARD);
        if (keras_is_cell(layer->class_name))
            return keras_input_width(file, layer, KERAS_CELL);
        if (text_equal(layer->class_name, "Dense"))
            return keras_input_width(file, layer, KERAS_OWN);
        if (text_equal(layer->class_name, "TimeDistributed"))
            return keras_input_width(file, layer, KERAS_INNER);
    }
    keras_report(file, DIAG_E0461, "it has no layer with weights");
    return 0;
}

/// Adds the model's input. `first`: the first layer that computes.
static bool take_input(KerasFile *file, const KerasModel *model, int first)
{
    const KerasLayer *layer = &model->layers[first];
    const json_t *shape = input_shape(model);
    const bool is_tokens = text_equal(layer->class_name, "Embedding");
    const size_t rank = is_tokens ? 2 : 3;
    if (json_is_array(shape) && json_array_size(shape) != rank)
        return keras_refuse(file, layer,
                            "taken are [batch, timesteps, features] and, before an Embedding, "
                            "[batch, timesteps]",
                            "the model's input has %zu dimensions", json_array_size(shape));
    const json_int_t features = json_integer_value(json_array_get(shape, 2));
    if (is_tokens) {
        set_input(file, "tokens", json_object_get(layer->config, "input_dim"));
    } else {
        file->width = features > 0 ? features : width_by_weights(file, model, first);
        if (file->width == 0)
            return false;
        imported_input(file->model, "features",
                       arena_format(file->arena, "%lld", (long long)file->width), NULL);
    }
    set_input(file, "batch", json_array_get(shape, 0));
    set_input(file, "timesteps", json_array_get(shape, 1));
    return true;
}

/// Whether the model's first layer is an InputLayer, which must be of plain arrays.
static bool skip_input_layer(const KerasFile *file, const KerasModel *model, int *first)
{
    const KerasLayer *layer = &model->layers[0];
    *first = 0;
    if (!text_equal(layer->class_name, "InputLayer"))
        return true;
    *first = 1;
    if (json_is_true(json_object_get(layer->config, "sparse")) ||
        json_is_true(json_object_get(layer->config, "ragged")))
        return keras_refuse(file, layer, NULL, "its input is sparse or ragged");
    if (model->count > 1)
        return true;
    return keras_refuse(file, layer, NULL, "nothing stands behind it");
}

bool keras_take_layers(KerasFile *file, const KerasModel *model)
{
    int first = 0;
    if (!skip_input_layer(file, model, &first) || !take_input(file, model, first))
        return false;
    for (int i = first; i < model->count; i++) {
        file->output_count = i == model->count - 1 ? model->output_count : 1;
        if (!take_layer(file, &model->layers[i], &model->layers[i]))
            return false;
    }
    if (!file->last) {
        keras_report(file, DIAG_E0461, "it has no layer that computes");
        return false;
    }
    if (file->note.length) { // remarks with no layer behind them
        text_addf(&file->last_note, "%s%s", file->last_note.length ? "\n" : "",
                  text_string(&file->note));
        imported_note(file->last, text_string(&file->last_note));
    }
    return keras_check_all_taken(file);
}
