// Folding: operators on constants, with which exporters put weights together and compute shapes.
// Integers may hold sizes that the file leaves open, as products; arithmetic that leaves products
// is refused.
#include <string.h>

#include "import/onnx_graph.h"

void onnx_strides(const OnnxValue *value, int64_t *out)
{
    int64_t stride = 1;
    for (int i = value->dim_count - 1; i >= 0; i--) {
        out[i] = stride;
        stride *= value->dims[i];
    }
}

bool onnx_copy_strided(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                       const OnnxValue *from, const int64_t *dims, int dim_count, int64_t base,
                       const int64_t *strides)
{
    const size_t bytes = from->floats ? sizeof(float) : sizeof(OnnxSize);
    const char *source = from->floats ? (const char *)from->floats : (const char *)from->sizes;
    char *to = from->floats ? (char *)onnx_make_floats(reader, node, out, dims, dim_count)
                            : (char *)onnx_make_sizes(reader, node, out, dims, dim_count);
    int64_t index[ONNX_DIMS_MAX] = {0};
    if (!to)
        return false;
    for (int64_t i = 0; i < out->elems; i++) {
        memcpy(to, source + base * (int64_t)bytes, bytes);
        to += bytes;
        for (int axis = dim_count - 1; axis >= 0; axis--) {
            base += strides[axis];
            if (++index[axis] < dims[axis])
                break;
            base -= strides[axis] * dims[axis];
            index[axis] = 0;
        }
    }
    return true;
}

static bool is_integers(const OnnxValue *value)
{
    return value && value->kind == VALUE_CONSTANT && value->sizes;
}

static void refuse_unfolded(OnnxReader *reader, const OnnxNode *node)
{
    onnx_refuse(reader, node, "fold its constants before, as with onnxsim",
                "is taken on constant integers only");
}

void onnx_shape(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0);
    OnnxValue *out = onnx_output(reader, node, 0);
    if (!from || (from->kind != VALUE_FLOW && from->kind != VALUE_CONSTANT)) {
        onnx_refuse(reader, node, NULL, "reads no tensor whose shape is known");
        return;
    }
    const int rank = from->kind == VALUE_FLOW ? from->flow.rank : from->dim_count;
    int64_t start = onnx_int(node, "start", 0), end = onnx_int(node, "end", rank);
    start = start < -rank ? 0 : start < 0 ? start + rank : start > rank ? rank : start;
    end = end < -rank ? 0 : end < 0 ? end + rank : end > rank ? rank : end;
    const int64_t count = end > start ? end - start : 0;
    OnnxSize *sizes = onnx_make_sizes(reader, node, out, &count, 1);
    for (int64_t i = 0; sizes && i < count; i++) {
        if (from->kind == VALUE_CONSTANT)
            sizes[i] = onnx_number(from->dims[start + i]);
        else if (!onnx_axis_size(&from->flow.axes[start + i], &sizes[i])) {
            onnx_refuse(reader, node, NULL, "a size is too large");
            out->kind = VALUE_BROKEN;
            return;
        }
    }
}

void onnx_constant(OnnxReader *reader, const OnnxNode *node)
{
    OnnxValue *out = onnx_output(reader, node, 0);
    const Onnx__AttributeProto *given =
        node->proto->n_attribute == 1 ? node->proto->attribute[0] : NULL;
    if (!given) {
        onnx_refuse(reader, node, NULL, "has %zu attributes, not one", node->proto->n_attribute);
        return;
    }
    const int64_t floats = (int64_t)given->n_floats, ints = (int64_t)given->n_ints;
    if (strcmp(given->name, "value") == 0)
        onnx_make_tensor(reader, node, out, given->t);
    else if (strncmp(given->name, "value_float", 11) == 0) {
        const bool is_list = given->name[11] == 's';
        float *to = onnx_make_floats(reader, node, out, &floats, is_list);
        if (to && out->elems > 0)
            memcpy(to, is_list ? given->floats : &given->f, sizeof(float) * (size_t)out->elems);
    } else {
        const bool is_list = given->name[9] == 's';
        OnnxSize *to = onnx_make_sizes(reader, node, out, &ints, is_list);
        for (int64_t i = 0; to && i < out->elems; i++)
            to[i] = onnx_number(is_list ? given->ints[i] : given->i);
    }
}

/// A constant of `dims` where all are known, else a fill; integers are filled in only where known.
static void give_filled(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                        const OnnxValue *shape, const OnnxValue *element)
{
    int64_t dims[ONNX_DIMS_MAX];
    const bool is_float = !element || element->floats;
    bool known = shape->elems <= ONNX_DIMS_MAX;
    for (int64_t i = 0; known && i < shape->elems; i++) {
        known = onnx_is_number(shape->sizes[i]);
        dims[i] = shape->sizes[i].factor;
    }
    if (is_float) {
        out->kind = VALUE_FILL;
        out->fill = element ? element->floats[0] : 0;
        return;
    }
    if (!known) {
        onnx_refuse(reader, node, NULL, "gives integers of a shape that is not known");
        return;
    }
    OnnxSize *sizes = onnx_make_sizes(reader, node, out, dims, (int)shape->elems);
    for (int64_t i = 0; sizes && i < out->elems; i++)
        sizes[i] = element->sizes[0];
}

void onnx_constant_of_shape(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *shape = onnx_input(node, 0);
    const Onnx__AttributeProto *given = onnx_attribute(node, "value");
    OnnxValue element = {.kind = VALUE_BROKEN};
    if (!is_integers(shape)) {
        refuse_unfolded(reader, node);
        return;
    }
    if (given && !onnx_make_tensor(reader, node, &element, given->t))
        return;
    if (given && element.elems != 1) {
        onnx_refuse(reader, node, NULL, "attribute 'value' has %lld elements, not one",
                    (long long)element.elems);
        return;
    }
    give_filled(reader, node, onnx_output(reader, node, 0), shape, given ? &element : NULL);
}

/// Of constants only those are taken that are one number in all places.
void onnx_expand(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0), *shape = onnx_input(node, 1);
    OnnxValue *out = onnx_output(reader, node, 0);
    if (!from || !is_integers(shape))
        refuse_unfolded(reader, node);
    else if (from->kind == VALUE_FILL)
        onnx_give(out, from);
    else if (from->kind != VALUE_CONSTANT || from->elems == 0)
        onnx_refuse(reader, node, NULL, "does not read a constant");
    else {
        const size_t bytes = from->floats ? sizeof(float) : sizeof(OnnxSize);
        const char *first = from->floats ? (const char *)from->floats : (const char *)from->sizes;
        for (int64_t i = 1; i < from->elems; i++)
            if (memcmp(first, first + i * (int64_t)bytes, bytes) != 0) {
                onnx_refuse(reader, node, "states other than zero have to be inputs of the graph",
                            "repeats a constant of different numbers");
                return;
            }
        give_filled(reader, node, out, shape, from);
    }
}

/// a OP b of two sizes; false where the result is no product.
static bool compute(char op, OnnxSize a, OnnxSize b, OnnxSize *out)
{
    const bool known = onnx_is_number(a) && onnx_is_number(b);
    *out = onnx_number(0);
    switch (op) {
    case '*':
        return onnx_size_multiply(a, b, out);
    case '=':
        *out = onnx_number(onnx_size_equal(a, b));
        return known || onnx_size_equal(a, b);
    case '+':
        return known && !__builtin_add_overflow(a.factor, b.factor, &out->factor);
    case '-':
        return known && !__builtin_sub_overflow(a.factor, b.factor, &out->factor);
    default:
        if (b.factor == 0 || (b.factor == -1 && a.factor == INT64_MIN))
            return false;
        if (known) { // ONNX truncates
            *out = onnx_number(a.factor / b.factor);
            return true;
        }
        out->factor = a.factor / b.factor;
        for (int i = 0; i < ONNX_SYMBOLS_MAX; i++) {
            const int power = a.powers[i] - b.powers[i];
            if (power < 0 || power > INT8_MAX)
                return false;
            out->powers[i] = (int8_t)power;
        }
        return a.factor % b.factor == 0;
    }
}

void onnx_compute(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *a = onnx_input(node, 0), *b = onnx_input(node, 1);
    OnnxValue *out = onnx_output(reader, node, 0);
    if (!is_integers(a) || !is_integers(b)) {
        refuse_unfolded(reader, node);
        return;
    }
    const bool same = a->dim_count == b->dim_count &&
                      memcmp(a->dims, b->dims, sizeof(int64_t) * (size_t)a->dim_count) == 0;
    const OnnxValue *shape = a->dim_count >= b->dim_count && a->elems >= b->elems ? a : b;
    if (!same && a->elems != 1 && b->elems != 1) {
        onnx_refuse(reader, node, NULL, "takes two tensors of one shape, or one number");
        return;
    }
    OnnxSize *to = onnx_make_sizes(reader, node, out, shape->dims, shape->dim_count);
    const char *op = node->proto->op_type;
    const char sign = "+-*=/"[strcspn("ASMED", (char[]){op[0], 0})];
    for (int64_t i = 0; to && i < out->elems; i++)
        if (!compute(sign, a->sizes[a->elems == 1 ? 0 : i], b->sizes[b->elems == 1 ? 0 : i],
                     &to[i])) {
            out->kind = VALUE_BROKEN;
            onnx_refuse(reader, node, "export the model with fixed sizes",
                        "its result depends on a size that is known only when the model runs");
            return;
        }
}

void onnx_not(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0);
    if (!is_integers(from)) {
        refuse_unfolded(reader, node);
        return;
    }
    OnnxSize *to =
        onnx_make_sizes(reader, node, onnx_output(reader, node, 0), from->dims, from->dim_count);
    for (int64_t i = 0; to && i < from->elems; i++)
        to[i] = onnx_number(from->sizes[i].factor == 0);
}
