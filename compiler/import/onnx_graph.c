// What the operators of an ONNX graph share: see onnx_graph.h.
#include "import/onnx_graph.h"

#include <string.h>

/// What onnx_spend lets have: for each byte of the file and of its external data, and beyond.
enum { ELEMS_PER_BYTE = 16, ELEMS_FREE = 1 << 20 };
/// Of one tensor: integers are shapes and indices.
enum { INTEGERS_MAX = 1 << 20 };

bool onnx_refuse(OnnxReader *reader, const OnnxNode *node, const char *help, const char *format,
                 ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(reader->arena, format, arguments);
    va_end(arguments);
    Diag *diag =
        diag_add(reader->diags, DIAG_E0451, reader->file->place, "%s: %s", node->shown, text);
    if (help)
        diag_help(diag, "%s", help);
    return false;
}

static unsigned bucket_of(const char *name)
{
    unsigned hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % ONNX_NAMES;
}

OnnxValue *onnx_find(const OnnxReader *reader, const char *name)
{
    OnnxValue *value = reader->names[bucket_of(name)];
    while (value && strcmp(value->name, name) != 0)
        value = value->next;
    return value;
}

OnnxValue *onnx_name(OnnxReader *reader, const char *name)
{
    if (onnx_find(reader, name)) {
        diag_add(reader->diags, DIAG_E0451, reader->file->place,
                 "the graph gives the name '%s' to two values", onnx_shown(reader->arena, name));
        return NULL;
    }
    OnnxValue *value = ARENA_NEW(reader->arena, OnnxValue);
    value->name = name;
    value->next = reader->names[bucket_of(name)];
    reader->names[bucket_of(name)] = value;
    return value;
}

OnnxValue *onnx_output(OnnxReader *reader, const OnnxNode *node, int index)
{
    const char *name = index < node->output_count ? node->proto->output[index] : "";
    OnnxValue *value = *name ? onnx_find(reader, name) : NULL;
    if (value)
        return value;
    value = ARENA_NEW(reader->arena, OnnxValue);
    value->name = "";
    return value;
}

OnnxValue *onnx_input(const OnnxNode *node, int index)
{
    return index < node->input_count ? node->inputs[index] : NULL;
}

const Onnx__AttributeProto *onnx_attribute(const OnnxNode *node, const char *name)
{
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->proto->attribute[i];
        if (attribute->name && strcmp(attribute->name, name) == 0)
            return attribute;
    }
    return NULL;
}

int64_t onnx_int(const OnnxNode *node, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);
    return attribute ? attribute->i : otherwise;
}

double onnx_float(const OnnxNode *node, const char *name, double otherwise)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);
    return attribute ? (double)attribute->f : otherwise;
}

const char *onnx_string(OnnxReader *reader, const OnnxNode *node, const char *name,
                        const char *otherwise)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);
    return attribute ? arena_copy(reader->arena, (const char *)attribute->s.data, attribute->s.len)
                     : otherwise;
}

OnnxSize onnx_number(int64_t value)
{
    return (OnnxSize){.factor = value};
}

bool onnx_is_number(OnnxSize size)
{
    return onnx_size_equal(size, onnx_number(size.factor));
}

bool onnx_size_equal(OnnxSize a, OnnxSize b)
{
    return a.factor == b.factor && memcmp(a.powers, b.powers, sizeof a.powers) == 0;
}

bool onnx_size_multiply(OnnxSize a, OnnxSize b, OnnxSize *out)
{
    if (__builtin_mul_overflow(a.factor, b.factor, &out->factor))
        return false;
    for (int i = 0; i < ONNX_SYMBOLS_MAX; i++) {
        const int power = a.powers[i] + b.powers[i];
        if (power > INT8_MAX || power < INT8_MIN)
            return false;
        out->powers[i] = (int8_t)(out->factor == 0 ? 0 : power);
    }
    return true;
}

bool onnx_axis_size(const OnnxAxis *axis, OnnxSize *out)
{
    *out = onnx_number(1);
    for (int i = 0; i < axis->count; i++)
        if (!onnx_size_multiply(*out, axis->atoms[i].size, out))
            return false;
    return true;
}

bool onnx_spend(OnnxReader *reader, const OnnxNode *node, int64_t elems)
{
    const int64_t most = ELEMS_FREE + ELEMS_PER_BYTE * (int64_t)reader->file->size_bytes;
    if (elems > most - reader->spent_elems)
        return onnx_refuse(reader, node, "fold its constants before, as with onnxsim",
                           "its constants and those before it make more than %lld elements from a "
                           "file of %zu bytes",
                           (long long)most, reader->file->size_bytes);
    reader->spent_elems += elems;
    return true;
}

/// Makes `out` a constant without its elements.
static bool make_constant(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                          const int64_t *dims, int dim_count)
{
    int64_t elems = 1, room = 16;
    for (int i = 0; i < dim_count; elems *= dims[i], i++)
        if (dims[i] < 0 || __builtin_mul_overflow(room, dims[i] ? dims[i] : 1, &room))
            return onnx_refuse(reader, node, NULL, "gives a tensor that is too large");
    if (!onnx_spend(reader, node, elems))
        return false;
    out->kind = VALUE_CONSTANT;
    out->dim_count = dim_count;
    for (int i = 0; i < dim_count; i++)
        out->dims[i] = dims[i];
    out->elems = elems;
    return true;
}

float *onnx_make_floats(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                        const int64_t *dims, int dim_count)
{
    if (!make_constant(reader, node, out, dims, dim_count))
        return NULL;
    float *floats = ARENA_ARRAY(reader->arena, float, out->elems + 1);
    out->floats = floats;
    return floats;
}

OnnxSize *onnx_make_sizes(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                          const int64_t *dims, int dim_count)
{
    if (!make_constant(reader, node, out, dims, dim_count))
        return NULL;
    OnnxSize *sizes = ARENA_ARRAY(reader->arena, OnnxSize, out->elems + 1);
    out->sizes = sizes;
    return sizes;
}

bool onnx_make_tensor(OnnxReader *reader, const OnnxNode *node, OnnxValue *out,
                      const Onnx__TensorProto *proto)
{
    OnnxTensor tensor;
    if (!onnx_tensor_convert(reader->file, proto, &tensor) ||
        !make_constant(reader, node, out, tensor.dims, tensor.dim_count))
        return false;
    out->floats = tensor.floats;
    if (tensor.floats)
        return true;
    if (out->elems > INTEGERS_MAX) {
        out->kind = VALUE_BROKEN;
        return onnx_refuse(reader, node, NULL, "holds more than %d integers", INTEGERS_MAX);
    }
    OnnxSize *sizes = ARENA_ARRAY(reader->arena, OnnxSize, out->elems + 1);
    for (int64_t i = 0; i < out->elems; i++)
        sizes[i] = onnx_number(tensor.integers[i]);
    out->sizes = sizes;
    return true;
}

bool onnx_integers(OnnxReader *reader, const OnnxNode *node, const OnnxValue *value,
                   const char *what, int64_t *out, int *out_count)
{
    if (value->kind != VALUE_CONSTANT || !value->sizes || value->elems > ONNX_DIMS_MAX)
        return onnx_refuse(reader, node, NULL, "%s are not %d or fewer constant integers", what,
                           ONNX_DIMS_MAX);
    *out_count = (int)value->elems;
    for (int i = 0; i < *out_count; i++) {
        if (!onnx_is_number(value->sizes[i]))
            return onnx_refuse(reader, node, NULL,
                               "%s depend on a size that is known only when the model runs", what);
        out[i] = value->sizes[i].factor;
    }
    return true;
}

bool onnx_integer(OnnxReader *reader, const OnnxNode *node, const OnnxValue *value,
                  const char *what, int64_t *out)
{
    int64_t all[ONNX_DIMS_MAX];
    int count = 0;
    if (!onnx_integers(reader, node, value, what, all, &count))
        return false;
    if (count != 1)
        return onnx_refuse(reader, node, NULL, "%s are %d numbers, not one", what, count);
    *out = all[0];
    return true;
}

void onnx_give(OnnxValue *out, const OnnxValue *from)
{
    const char *name = out->name;
    OnnxValue *next = out->next;
    *out = *from;
    out->name = name;
    out->next = next;
}

bool onnx_axis(OnnxReader *reader, const OnnxNode *node, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return onnx_refuse(reader, node, NULL, "axis %lld of a tensor of %d dimensions",
                           (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

bool onnx_axes(OnnxReader *reader, const OnnxNode *node, int input, int rank, int64_t *out,
               int *out_count)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, "axes");
    const OnnxValue *value = onnx_input(node, input);
    *out_count = -1;
    if (attribute && attribute->n_ints > ONNX_DIMS_MAX)
        return onnx_refuse(reader, node, NULL, "more than %d axes", ONNX_DIMS_MAX);
    if (attribute) {
        *out_count = (int)attribute->n_ints;
        for (int i = 0; i < *out_count; i++)
            out[i] = attribute->ints[i];
    } else if (!value)
        return true;
    else if (!onnx_integers(reader, node, value, "the axes", out, out_count))
        return false;
    for (int i = 0; i < *out_count; i++) {
        int axis = 0;
        if (!onnx_axis(reader, node, out[i], rank, &axis))
            return false;
        out[i] = axis;
        for (int j = 0; j < i; j++)
            if (out[j] == axis)
                return onnx_refuse(reader, node, NULL, "axis %d is given twice", axis);
    }
    return true;
}
