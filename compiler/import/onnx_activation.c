// Activations of ONNX: see onnx_activation.h. Defaults and formulas are those of the operators in
// github.com/onnx/onnx, docs/Operators.md; Affine and ScaledTanh exist within recurrent nodes only.
#include "import/onnx_activation.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

typedef struct {
    const char *onnx, *ours; ///< ours NULL: see yaml_of
    int parameters;
    float defaults[2];
    bool in_cells, is_operator;
} Row;

static const Row rows[] = {
    {"Affine", "affine", 2, {1, 0}, true, false},
    {"Celu", "celu", 1, {1}, false, true},
    {"Elu", "elu", 1, {1}, true, true},
    {"Exp", "exponential", 0, {0}, false, true},
    {"HardSigmoid", NULL, 2, {0.2f, 0.5f}, true, true},
    {"LeakyRelu", "leaky_relu", 1, {0.01f}, true, true},
    {"Mish", "mish", 0, {0}, false, true},
    {"Relu", "relu", 0, {0}, true, true},
    {"ScaledTanh", "scaled_tanh", 2, {1, 1}, true, false},
    {"Sigmoid", "sigmoid", 0, {0}, true, true},
    {"Softplus", "softplus", 0, {0}, true, true},
    {"Softsign", "softsign", 0, {0}, true, true},
    {"Tanh", "tanh", 0, {0}, true, true},
    {"ThresholdedRelu", "thresholded_relu", 1, {1}, true, true},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const char *onnx_number_text(Arena *arena, double value)
{
    const float wanted = (float)value;
    for (int digits = 6; digits < 9; digits++) {
        const char *text = arena_format(arena, "%.*g", digits, value);
        float read = 0;
        if (sscanf(text, "%f", &read) == 1 && memcmp(&read, &wanted, sizeof read) == 0)
            return text;
    }
    return arena_format(arena, "%.9g", value);
}

static bool is_float(double value, float wanted)
{
    return fabs(value - (double)wanted) <= 1e-7;
}

static const char *hard_sigmoid(Arena *arena, double alpha, double beta)
{
    if (is_float(beta, 0.5f) && is_float(alpha, 0.2f))
        return "hard_sigmoid_k2";
    if (is_float(beta, 0.5f) && is_float(alpha, 1.f / 6.f))
        return "hard_sigmoid";
    const char *line = arena_format(arena, "(%s)*x + (%s)", onnx_number_text(arena, alpha),
                                    onnx_number_text(arena, beta));
    return arena_format(arena, "{expr: \"%s <= 0 ? 0 : %s >= 1 ? 1 : %s\"}", line, line, line);
}

static const char *yaml_of(Arena *arena, const Row *row, const double *parameters)
{
    if (!row->ours)
        return hard_sigmoid(arena, parameters[0], parameters[1]);
    const char *first = onnx_number_text(arena, parameters[0]);
    if (row->parameters == 2)
        return arena_format(arena, "{%s: [%s, %s]}", row->ours, first,
                            onnx_number_text(arena, parameters[1]));
    return row->parameters ? arena_format(arena, "{%s: %s}", row->ours, first) : row->ours;
}

static bool takes_next(const Onnx__AttributeProto *list, size_t *at, double *out)
{
    if (!list || *at >= list->n_floats)
        return false;
    *out = (double)list->floats[(*at)++];
    return true;
}

const char *onnx_next_activation(OnnxReader *reader, OnnxActivations *from, const char *otherwise)
{
    const Onnx__AttributeProto *names = onnx_attribute(from->node, "activations");
    if (!names)
        return otherwise;
    const ProtobufCBinaryData *text = &names->strings[from->at++];
    const char *name = arena_copy(reader->arena, (const char *)text->data, text->len);
    const Row *row = rows;
    while (row < rows + ROW_COUNT && !(row->in_cells && text_equal_ignoring_case(row->onnx, name)))
        row++;
    if (row == rows + ROW_COUNT) {
        onnx_refuse(reader, from->node,
                    "recurrent nodes have Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, "
                    "Sigmoid, Softplus, Softsign, Tanh and ThresholdedRelu",
                    "attribute 'activations': unknown function '%s'",
                    onnx_shown(reader->arena, name));
        return NULL;
    }
    double parameters[2] = {(double)row->defaults[0], (double)row->defaults[1]};
    if (row->parameters > 0)
        takes_next(onnx_attribute(from->node, "activation_alpha"), &from->alpha_at, parameters);
    if (row->parameters > 1)
        takes_next(onnx_attribute(from->node, "activation_beta"), &from->beta_at, parameters + 1);
    if (!isfinite(parameters[0]) || !isfinite(parameters[1])) {
        onnx_refuse(reader, from->node, NULL, "a parameter of its activation %s is not finite",
                    row->onnx);
        return NULL;
    }
    return yaml_of(reader->arena, row, parameters);
}

/// Selu's constants are fixed in a spec.
static const char *selu(OnnxReader *reader, const OnnxNode *node)
{
    if (is_float(onnx_float(node, "alpha", 1.67326324) / 1.67326324, 1) &&
        is_float(onnx_float(node, "gamma", 1.05070102) / 1.05070102, 1))
        return "selu";
    onnx_refuse(reader, node, "write it as `activation: {expr: ...}` in a spec of your own",
                "attributes 'alpha' and 'gamma' other than selu's own");
    return NULL;
}

static const char *gelu(OnnxReader *reader, const OnnxNode *node)
{
    const char *form = onnx_string(reader, node, "approximate", "none");
    if (text_equal(form, "none"))
        return "gelu";
    if (text_equal(form, "tanh"))
        return "gelu_tanh";
    onnx_refuse(reader, node, NULL, "attribute 'approximate' is '%s'",
                onnx_shown(reader->arena, form));
    return NULL;
}

/// The operator's own ThresholdedRelu is 0 at its threshold, that of cells is not.
static const char *operator_yaml(OnnxReader *reader, const OnnxNode *node)
{
    const char *name = node->proto->op_type;
    if (text_equal(name, "Selu"))
        return selu(reader, node);
    if (text_equal(name, "Gelu"))
        return gelu(reader, node);
    const Row *row = rows;
    while (!(row->is_operator && text_equal(row->onnx, name)))
        row++;
    const double parameters[2] = {onnx_float(node, "alpha", (double)row->defaults[0]),
                                  onnx_float(node, "beta", (double)row->defaults[1])};
    if (!isfinite(parameters[0]) || !isfinite(parameters[1])) {
        onnx_refuse(reader, node, NULL, "its alpha or beta is not finite");
        return NULL;
    }
    if (text_equal(name, "ThresholdedRelu"))
        return arena_format(reader->arena, "{expr: \"x <= %s ? 0 : x\"}",
                            onnx_number_text(reader->arena, parameters[0]));
    return yaml_of(reader->arena, row, parameters);
}

void onnx_activate(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0);
    OnnxValue *out = onnx_output(reader, node, 0);
    if (!from || from->kind != VALUE_FLOW) {
        onnx_refuse(reader, node, "fold its constants before, as with onnxsim",
                    "does not read data that flows through the model");
        return;
    }
    const char *yaml = operator_yaml(reader, node);
    int64_t features = 0;
    if (!yaml || !onnx_take_chain(reader, node, &from->flow))
        return;
    OnnxLayer *last = reader->last;
    if (last && last->kind == LAYER_DENSE && text_equal(last->activation, "linear")) {
        last->activation = yaml;
        reader->version++;
        onnx_give(out, from);
        out->flow.version = reader->version;
        return;
    }
    if (from->flow.rank < 1 ||
        !onnx_take_features(reader, node, &from->flow, from->flow.rank - 1, &features))
        return;
    OnnxLayer *layer = onnx_add_layer(reader, node, LAYER_ACTIVATION);
    layer->activation = yaml;
    onnx_give_chain(reader, out, &from->flow, from->flow.rank - 1, features);
}
