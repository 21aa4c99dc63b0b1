// MatMul, Gemm and Add as dense layers; Add and Mul of both directions as a merge; Dropout, and the
// operators that give on what they read.
#include <math.h>
#include <string.h>

#include "import/onnx_graph.h"

static bool is_floats(const OnnxValue *value)
{
    return value && value->kind == VALUE_CONSTANT && value->floats;
}

/// Weights [I, O] ([O, I] where `transposed`) times `alpha` behind `flow`, whose axis `at` is I.
static OnnxLayer *add_dense(OnnxReader *reader, const OnnxNode *node, const OnnxFlow *flow, int at,
                            const OnnxValue *weights, bool transposed, float alpha)
{
    int64_t features = 0;
    if (!is_floats(weights) || weights->dim_count != 2 || weights->elems == 0) {
        onnx_refuse(reader, node, NULL, "does not multiply data by a constant matrix of floats");
        return NULL;
    }
    const int64_t inputs = weights->dims[transposed], units = weights->dims[!transposed];
    if (!onnx_take_chain(reader, node, flow) ||
        !onnx_take_features(reader, node, flow, at, &features))
        return NULL;
    if (features != inputs) {
        onnx_refuse(reader, node, NULL, "multiplies %lld features by a matrix of %lld rows",
                    (long long)features, (long long)inputs);
        return NULL;
    }
    if (!onnx_spend(reader, node, weights->elems + units))
        return NULL;
    OnnxLayer *layer = onnx_add_layer(reader, node, LAYER_DENSE);
    layer->inputs = inputs;
    layer->units = units;
    float *W = ARENA_ARRAY(reader->arena, float, weights->elems);
    for (int64_t o = 0; o < units; o++)
        for (int64_t i = 0; i < inputs; i++)
            W[o * inputs + i] =
                alpha * weights->floats[transposed ? o * inputs + i : i * units + o];
    layer->directions[0].W = W;
    onnx_give_chain(reader, onnx_output(reader, node, 0), flow, at, units);
    return layer;
}

void onnx_matmul(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *data = onnx_input(node, 0);
    if (!data || data->kind != VALUE_FLOW || data->flow.is_integer || data->flow.rank < 2)
        onnx_refuse(reader, node, "a dense layer is MatMul(data, weights)",
                    "its first input is not data that flows through the model");
    else
        add_dense(reader, node, &data->flow, data->flow.rank - 1, onnx_input(node, 1), false, 1);
}

/// A bias that Numpy's rules spread over the last axis of `units`: NULL where it is none.
static const float *take_bias(OnnxReader *reader, const OnnxValue *from, int64_t units, float beta)
{
    if (!is_floats(from) || (from->elems != units && from->elems != 1) ||
        (from->elems != 1 && from->dims[from->dim_count - 1] != units))
        return NULL;
    float *b = ARENA_ARRAY(reader->arena, float, units);
    for (int64_t i = 0; i < units; i++)
        b[i] = beta * from->floats[from->elems == 1 ? 0 : i];
    return b;
}

void onnx_gemm(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *data = onnx_input(node, 0), *bias = onnx_input(node, 2);
    const double alpha = onnx_float(node, "alpha", 1), beta = onnx_float(node, "beta", 1);
    if (!data || data->kind != VALUE_FLOW || data->flow.is_integer || data->flow.rank != 2 ||
        onnx_int(node, "transA", 0) || !isfinite(alpha) || !isfinite(beta)) {
        onnx_refuse(reader, node, "a dense layer is Gemm(data, weights, bias)",
                    "does not multiply data [rows, features] that flows through the model");
        return;
    }
    OnnxLayer *layer = add_dense(reader, node, &data->flow, 1, onnx_input(node, 1),
                                 onnx_int(node, "transB", 0) != 0, (float)alpha);
    if (!layer || !bias)
        return;
    layer->directions[0].b = take_bias(reader, bias, layer->units, (float)beta);
    if (!layer->directions[0].b) {
        onnx_output(reader, node, 0)->kind = VALUE_BROKEN;
        onnx_refuse(reader, node, NULL, "its bias is not one constant number a feature");
    }
}

/// Add of a constant: the bias of the dense layer before it.
static void add_bias(OnnxReader *reader, const OnnxNode *node, const OnnxValue *data,
                     const OnnxValue *bias)
{
    OnnxLayer *last = reader->last;
    const float *b = NULL;
    if (!onnx_take_chain(reader, node, &data->flow))
        return;
    if (last && last->kind == LAYER_DENSE && !last->directions[0].b &&
        strcmp(last->activation, "linear") == 0 && bias->dim_count <= data->flow.rank)
        b = take_bias(reader, bias, last->units, 1);
    if (!b) {
        onnx_refuse(reader, node, "a spec adds constants as the bias of a dense layer only",
                    "adds a constant to what is not the product of a dense layer without bias");
        return;
    }
    last->directions[0].b = b;
    reader->version++;
    OnnxValue *out = onnx_output(reader, node, 0);
    onnx_give(out, data);
    out->flow.version = reader->version;
}

/// Both directions of the newest layer, added or multiplied.
static void merge_directions(OnnxReader *reader, const OnnxNode *node, const OnnxFlow *a,
                             const OnnxFlow *b)
{
    const bool both = a->layer && a->layer == b->layer && a->layer == reader->last &&
                      a->source == b->source && a->state == b->state && a->state != 'c' &&
                      a->version == reader->version && b->version == reader->version &&
                      a->direction >= 0 && b->direction == 1 - a->direction && a->rank == b->rank &&
                      memcmp(a->axes, b->axes, sizeof a->axes[0] * (size_t)a->rank) == 0;
    if (!both) {
        onnx_refuse(reader, node, "a spec is one chain of layers; both directions can be merged",
                    "combines data of two places");
        return;
    }
    a->layer->merge = node->proto->op_type[0] == 'A' ? "sum" : "mul";
    a->layer->return_sequences = a->source == FLOW_SEQUENCE;
    reader->version++;
    OnnxValue *out = onnx_output(reader, node, 0);
    out->kind = VALUE_FLOW;
    out->flow = *a;
    out->flow.direction = -1;
    out->flow.version = reader->version;
}

/// Half the sum of both directions is their average.
static void scale(OnnxReader *reader, const OnnxNode *node, const OnnxValue *data,
                  const OnnxValue *factor)
{
    OnnxLayer *last = reader->last;
    if (!onnx_take_chain(reader, node, &data->flow))
        return;
    if (!last || last->kind != LAYER_RECURRENT || strcmp(last->merge, "sum") != 0 ||
        factor->elems != 1 || !factor->floats || memcmp(factor->floats, &(float){0.5f}, 4) != 0) {
        onnx_refuse(reader, node, NULL, "multiplies data by a constant");
        return;
    }
    last->merge = "ave";
    reader->version++;
    OnnxValue *out = onnx_output(reader, node, 0);
    onnx_give(out, data);
    out->flow.version = reader->version;
}

void onnx_combine(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *a = onnx_input(node, 0), *b = onnx_input(node, 1);
    if (!a || !b) {
        onnx_refuse(reader, node, NULL, "an input is missing");
        return;
    }
    const OnnxValue *data = a->kind == VALUE_FLOW ? a : b, *other = data == a ? b : a;
    if (data->kind != VALUE_FLOW)
        onnx_compute(reader, node);
    else if (other->kind == VALUE_FLOW)
        merge_directions(reader, node, &a->flow, &b->flow);
    else if (other->kind != VALUE_CONSTANT)
        onnx_refuse(reader, node, NULL, "combines data with what is no constant");
    else if (node->proto->op_type[0] == 'A')
        add_bias(reader, node, data, other);
    else
        scale(reader, node, data, other);
}

void onnx_identity(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0);
    if (from)
        onnx_give(onnx_output(reader, node, 0), from);
    else
        onnx_refuse(reader, node, NULL, "has no input");
}

/// Whether a constant says that the node trains; what is not known is taken for yes.
static bool trains(const OnnxValue *mode)
{
    return mode && !(mode->kind == VALUE_CONSTANT && mode->sizes && mode->elems == 1 &&
                     onnx_size_equal(mode->sizes[0], onnx_number(0)));
}

void onnx_dropout(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *data = onnx_input(node, 0), *ratio = onnx_input(node, 1);
    double rate = onnx_float(node, "ratio", 0.5);
    int64_t features = 0;
    if (is_floats(ratio) && ratio->elems == 1)
        rate = (double)ratio->floats[0];
    if (!data || data->kind != VALUE_FLOW || data->flow.is_integer || data->flow.rank < 1 ||
        trains(onnx_input(node, 2)) || !(rate >= 0 && rate < 1)) {
        onnx_refuse(reader, node, "export the model for inference",
                    "does not drop data at a rate in [0, 1), or drops at inference");
        return;
    }
    if (node->output_count > 1 && *node->proto->output[1])
        onnx_output(reader, node, 1)->kind = VALUE_BROKEN;
    if (!onnx_take_chain(reader, node, &data->flow) ||
        !onnx_take_features(reader, node, &data->flow, data->flow.rank - 1, &features))
        return;
    onnx_add_layer(reader, node, LAYER_DROPOUT)->rate = rate;
    OnnxValue *out = onnx_output(reader, node, 0);
    onnx_give(out, data);
    out->flow.version = reader->version;
    if (out->flow.source == FLOW_INPUT)
        out->flow.source = FLOW_SEQUENCE;
}

/// Integers stay integers; floats of a constant, whichever way they are stored, are float32 here,
/// and so is data.
void onnx_cast(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0);
    OnnxValue *out = onnx_output(reader, node, 0);
    const int64_t to = onnx_int(node, "to", 0);
    bool known = false;
    const bool to_float = onnx_type_is_float((int)to, &known),
               is_flow = from && from->kind == VALUE_FLOW;
    const bool is_integer =
        from && (is_flow ? from->flow.is_integer : from->kind == VALUE_CONSTANT && from->sizes);
    if (!from || !known || to != (int)to || is_integer == to_float ||
        (is_flow && to != ONNX_FLOAT && to != ONNX_INT32 && to != ONNX_INT64)) {
        onnx_refuse(reader, node,
                    "tokens and lengths may be cast to int32 and int64, data to float32",
                    "casts %s to %s", is_integer ? "integers" : "floats",
                    onnx_type_name(reader->arena, (int)to));
        return;
    }
    if (to != ONNX_BOOL) {
        onnx_give(out, from);
        return;
    }
    OnnxSize *truths = onnx_make_sizes(reader, node, out, from->dims, from->dim_count);
    for (int64_t i = 0; truths && i < out->elems; i++)
        truths[i] = onnx_number(from->sizes[i].factor != 0);
}
