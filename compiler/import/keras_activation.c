// Keras' activations: names, which stand for other functions in version 2 than in 3, and the layers
// that are activations.
#include "import/keras_file.h"

#include <string.h>

/// A name of keras.activations and what it is in a spec. `version` 0: of every version.
static const struct {
    const char *name;
    int version;
    const char *value;
} names[] = {
    {"linear", 0, "linear"},
    {"tanh", 0, "tanh"},
    {"sigmoid", 0, "sigmoid"},
    {"hard_sigmoid", 2, "hard_sigmoid_k2"},
    {"hard_sigmoid", 3, "hard_sigmoid"},
    {"relu", 0, "relu"},
    {"relu6", 0, "relu6"},
    {"leaky_relu", 0, "{leaky_relu: 0.2}"},
    {"elu", 0, "elu"},
    {"selu", 0, "selu"},
    {"celu", 0, "celu"},
    {"gelu", 0, "gelu"},
    {"silu", 0, "silu"},
    {"swish", 0, "silu"},
    {"hard_silu", 0, "{expr: \"x*hard_sigmoid(x)\"}"},
    {"hard_swish", 0, "{expr: \"x*hard_sigmoid(x)\"}"},
    {"mish", 0, "mish"},
    {"softplus", 0, "softplus"},
    {"softsign", 0, "softsign"},
    {"exponential", 0, "exponential"},
    {"hard_tanh", 0, "hard_tanh"},
    {"log_sigmoid", 0, "{expr: \"-softplus(-x)\"}"},
    {"tanh_shrink", 0, "{expr: \"x - tanh(x)\"}"},
    {"soft_shrink", 0, "{expr: \"x > 0.5 ? x - 0.5 : x < -0.5 ? x + 0.5 : 0*x\"}"},
    {"hard_shrink", 0, "{expr: \"abs(x) > 0.5 ? x : 0*x\"}"},
    {"squareplus", 0, "{expr: \"0.5*(x + sqrt(x*x + 4))\"}"},
    {"sparse_plus", 0, "{expr: \"x <= -1 ? 0 : x < 1 ? 0.25*(x + 1)*(x + 1) : x\"}"},
    {"sparse_sigmoid", 0, "{expr: \"x <= -1 ? 0 : x >= 1 ? 1 : 0.5*(x + 1)\"}"},
};

/// Functions that look at more than one element.
static const char *const not_elementwise[] = {"softmax", "log_softmax", "sparsemax", "glu"};

static double number(const json_t *config, const char *key, const char *old_key, double otherwise)
{
    const json_t *value = json_object_get(config, key);
    if (!value && old_key)
        value = json_object_get(config, old_key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/// keras.layers.ReLU: x above threshold, cut to 0 .. max_value where that is given, else
/// slope*(x - threshold).
static const char *rectifier(const KerasFile *file, const json_t *config)
{
    const double slope = number(config, "negative_slope", NULL, 0);
    const double threshold = number(config, "threshold", NULL, 0);
    const json_t *most = json_object_get(config, "max_value");
    const double most_value = json_number_value(most);
    const bool has_most = json_is_number(most), is_plain = slope == 0 && threshold == 0;
    if (is_plain && (!has_most || most_value == 6))
        return has_most ? "relu6" : "relu";
    if (threshold == 0 && !has_most)
        return arena_format(file->arena, "{leaky_relu: %.9g}", slope);
    const char *low = arena_format(file->arena, "%.9g*(x - (%.9g))", slope, threshold);
    const char *high =
        has_most ? arena_format(file->arena, "min(max(x, 0), %.9g)", most_value) : "x";
    return arena_format(file->arena, "{expr: \"x > %.9g ? %s : %s\"}", threshold, high, low);
}

const char *keras_activation_layer(const KerasFile *file, const char *class_name,
                                   const json_t *config)
{
    if (text_equal(class_name, "ReLU"))
        return rectifier(file, config);
    if (text_equal(class_name, "LeakyReLU"))
        return arena_format(file->arena, "{leaky_relu: %.9g}",
                            number(config, "negative_slope", "alpha", 0.3));
    if (text_equal(class_name, "ELU"))
        return arena_format(file->arena, "{elu: %.9g}", number(config, "alpha", NULL, 1));
    if (text_equal(class_name, "ThresholdedReLU"))
        return arena_format(file->arena, "{expr: \"x > %.9g ? x : 0*x\"}",
                            number(config, "theta", NULL, 1));
    return NULL;
}

static const char *find(const KerasFile *file, const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_equal(names[i].name, name) &&
            (names[i].version == 0 || names[i].version == file->version))
            return names[i].value;
    return NULL;
}

static const char *refuse(const KerasFile *file, const KerasLayer *layer, const char *name)
{
    for (size_t i = 0; i < sizeof not_elementwise / sizeof *not_elementwise; i++)
        if (text_equal(not_elementwise[i], name)) {
            keras_refuse(file, layer,
                         "save the model with the activation `linear` here, so that y are the "
                         "values before it, and apply it to y",
                         "its activation '%s' is not elementwise", name);
            return NULL;
        }
    keras_refuse(file, layer, "`rnnc activations` lists what there is",
                 "its activation '%s' is none of Keras' own that rnnc knows", name);
    return NULL;
}

const char *keras_activation(const KerasFile *file, const KerasLayer *layer, const json_t *value)
{
    const char *name = json_is_string(value) ? json_string_value(value) : NULL;
    const char *found = NULL;
    if (!value || json_is_null(value))
        return "linear";
    if (json_is_object(value)) { // {"class_name": "function", "config": "leaky_relu"} or a layer
        const char *class_name = keras_string(value, "class_name");
        const json_t *config = json_object_get(value, "config");
        name = class_name;
        if (class_name && text_equal(class_name, "function"))
            name = json_is_string(config) ? json_string_value(config) : class_name;
        else if (class_name && json_is_object(config))
            found = keras_activation_layer(file, class_name, config);
    }
    if (!found && name)
        found = find(file, name);
    return found ? found : refuse(file, layer, name ? name : "(of no name)");
}
