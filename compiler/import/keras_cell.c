// Recurrent layers of Keras: see keras_cell.h.
#include "import/keras_cell.h"

#include <string.h>

/// A class with the cell that a spec names; `is_cudnn`: without options, always reset after.
typedef struct {
    const char *class_name, *cell;
    int gates;
    bool is_cudnn;
} CellClass;

static const CellClass classes[] = {
    {"LSTM", "lstm", 4, false},     {"GRU", "gru", 3, false},
    {"SimpleRNN", "rnn", 1, false}, {"CuDNNLSTM", "lstm", 4, true},
    {"CuDNNGRU", "gru", 3, true},   {"LSTMCell", "lstm", 4, false},
    {"GRUCell", "gru", 3, false},   {"SimpleRNNCell", "rnn", 1, false},
};

/// Keys that say nothing of a result at inference, or where other parts of the reader look.
static const char ignored[] =
    " name trainable dtype batch_input_shape batch_shape autocast sparse ragged optional "
    "kernel_initializer recurrent_initializer bias_initializer embeddings_initializer "
    "kernel_regularizer recurrent_regularizer bias_regularizer embeddings_regularizer "
    "kernel_constraint recurrent_constraint bias_constraint embeddings_constraint "
    "activity_regularizer unit_forget_bias seed rng_type implementation unroll noise_shape "
    "lora_rank lora_alpha use_cudnn build_config input_dtype ";

static const CellClass *find_class(const char *class_name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (text_equal(classes[i].class_name, class_name))
            return &classes[i];
    return NULL;
}

bool keras_is_cell(const char *class_name)
{
    const size_t length = strlen(class_name);
    const bool is_inner = length > 4 && text_equal(class_name + length - 4, "Cell");
    return text_equal(class_name, "RNN") || (!is_inner && find_class(class_name) != NULL);
}

static bool is_in(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = strstr(words, word); at && length; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

bool keras_check_keys(const KerasFile *file, const KerasLayer *layer, const json_t *config,
                      const char *words)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        if (!is_in(ignored, key) && !is_in(words, key) && !json_is_null(value) &&
            !json_is_false(value))
            return keras_refuse(file, layer, NULL, "its option '%s' has no counterpart", key);
    }
    return true;
}

int64_t keras_size(const KerasFile *file, const KerasLayer *layer, const json_t *config,
                   const char *key)
{
    const json_int_t value = json_integer_value(json_object_get(config, key));
    if (value >= 1 && value <= INT32_MAX)
        return value;
    keras_refuse(file, layer, NULL, "its '%s' is no size from 1 on", key);
    return 0;
}

double keras_rate(const KerasFile *file, const KerasLayer *layer, const json_t *config,
                  const char *key)
{
    const json_t *value = json_object_get(config, key);
    const double rate = json_number_value(value);
    if (!value || (json_is_number(value) && rate >= 0 && rate < 1))
        return rate;
    keras_refuse(file, layer, NULL, "its '%s' is no rate from 0 to below 1", key);
    return -1;
}

static void set(KerasCellLayer *layer, const char *key, const char *value, const char *comment)
{
    layer->settings[layer->setting_count++] = (KerasSetting){key, value, comment};
}

static bool is_set(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return json_is_true(value) || json_integer_value(value) != 0;
}

/// The activation of `key` where it is not `otherwise`.
static bool set_activation(const KerasFile *file, const KerasLayer *layer, const json_t *config,
                           const char *key, const char *otherwise, KerasCellLayer *out)
{
    const json_t *value = json_object_get(config, key);
    const char *text = value ? keras_activation(file, layer, value) : otherwise;
    if (!text)
        return false;
    if (!text_equal(text, otherwise))
        set(out, key, text,
            text_equal(text, "hard_sigmoid_k2") ? "Keras 2's hard_sigmoid, 0.2*x + 0.5" : NULL);
    return true;
}

static bool set_rate(const KerasFile *file, const KerasLayer *layer, const json_t *config,
                     const char *key, KerasCellLayer *out)
{
    const double rate = keras_rate(file, layer, config, key);
    if (rate > 0)
        set(out, key, arena_format(file->arena, "%.9g", rate), NULL);
    return rate >= 0;
}

/// What a layer says of sequences and states.
static bool read_sequence_keys(const KerasFile *file, const KerasLayer *layer, const json_t *config,
                               KerasPart part, KerasCellLayer *out)
{
    out->return_sequences = is_set(config, "return_sequences");
    out->go_backwards = is_set(config, "go_backwards");
    out->is_stateful = is_set(config, "stateful");
    if (is_set(config, "return_state") && part != KERAS_CELL)
        return keras_refuse(file, layer, "save a model whose only output is the layer's output",
                            "it gives the states of both directions");
    if (out->return_sequences)
        set(out, "return_sequences", "true", NULL);
    if (is_set(config, "return_state") && file->output_count > 1)
        set(out, "return_state", "true", NULL);
    if (out->go_backwards && part == KERAS_CELL)
        set(out, "go_backwards", "true", NULL);
    if (out->is_stateful)
        set(out, "stateful", "true", NULL);
    if (is_set(config, "zero_output_for_mask") && part == KERAS_CELL)
        set(out, "zero_output_for_mask", "true", NULL);
    return true;
}

/// What a cell says of itself. `options`: the configuration of the cell.
static bool read_cell_keys(KerasFile *file, const KerasLayer *layer, const CellClass *class,
                           const json_t *options, KerasPart part, KerasCellLayer *out)
{
    const json_t *use_bias = json_object_get(options, "use_bias");
    const json_t *reset_after = json_object_get(options, "reset_after");
    out->cell = (KerasCell){.cell = class->cell,
                            .gates = class->gates,
                            .units = keras_size(file, layer, options, "units"),
                            .use_bias = !use_bias || json_is_true(use_bias)};
    if (out->cell.units == 0)
        return false;
    set(out, "units", arena_format(file->arena, "%lld", (long long)out->cell.units), NULL);
    if (text_equal(class->cell, "gru")) {
        out->cell.reset_after = class->is_cudnn || json_is_true(reset_after) ||
                                (!reset_after && keras_bias_has_rows(file, layer, part));
        if (!out->cell.reset_after)
            set(out, "reset_after", "false", NULL);
    }
    if (!out->cell.use_bias)
        set(out, "use_bias", "false", NULL);
    return set_activation(file, layer, options, "activation", "tanh", out) &&
           (class->gates == 1 ||
            set_activation(file, layer, options, "recurrent_activation", "sigmoid", out)) &&
           set_rate(file, layer, options, "dropout", out) &&
           set_rate(file, layer, options, "recurrent_dropout", out);
}

bool keras_read_cell(KerasFile *file, const KerasLayer *layer, const char *class_name,
                     const json_t *config, KerasPart part, KerasCellLayer *out)
{
    static const char sequence_words[] = "return_sequences return_state go_backwards "
                                         "stateful zero_output_for_mask cell ";
    static const char cell_words[] = "units activation recurrent_activation use_bias reset_after "
                                     "dropout recurrent_dropout return_sequences return_state "
                                     "go_backwards stateful zero_output_for_mask "
                                     "input_dim input_length ";
    const json_t *options = config;
    *out = (KerasCellLayer){0};
    if (text_equal(class_name, "RNN")) {
        const json_t *cell = json_object_get(config, "cell");
        class_name = keras_string(cell, "class_name");
        options = json_object_get(cell, "config");
        if (!class_name || !find_class(class_name))
            return keras_refuse(file, layer, "taken are LSTMCell, GRUCell and SimpleRNNCell",
                                "its cell is a '%s'", class_name ? class_name : "(of no class)");
        if (!keras_check_keys(file, layer, config, sequence_words))
            return false;
    }
    const CellClass *class = find_class(class_name);
    return keras_check_keys(file, layer, options, cell_words) &&
           read_cell_keys(file, layer, class, options, part, out) &&
           read_sequence_keys(file, layer, config, part, out);
}
