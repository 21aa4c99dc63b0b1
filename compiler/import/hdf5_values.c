// HDF5: what messages say of values: shapes, types, the texts of attributes and the elements of
// datasets as floats.
#include "import/hdf5_file.h"

#include <inttypes.h>
#include <string.h>

#include "import/float16.h"

enum { CLASS_INTEGER, CLASS_FLOAT, CLASS_TEXT = 3, CLASS_OPAQUE = 5, CLASS_VARIABLE = 9 };

/// A datatype message, as far as it is told apart.
typedef struct {
    int class;
    uint32_t bits;
    size_t size_bytes;
    Hdf5Bytes properties;
} Type;

/// The kinds of floats that are read: where exponent and mantissa stand.
typedef enum { FLOAT16, BFLOAT16, FLOAT32, FLOAT64, FLOAT_UNKNOWN } FloatKind;
static const struct {
    size_t size_bytes;
    unsigned exponent_at, exponent_bits, mantissa_bits, bias;
} float_kinds[] = {
    [FLOAT16] = {2, 10, 5, 10, 15},
    [BFLOAT16] = {2, 7, 8, 7, 127},
    [FLOAT32] = {4, 23, 8, 23, 127},
    [FLOAT64] = {8, 52, 11, 52, 1023},
};

static Type read_type(Hdf5Bytes message)
{
    Type type = {0};
    type.class = (int)hdf5_take(&message, 1) & 15;
    type.bits = (uint32_t)hdf5_take(&message, 3);
    type.size_bytes = (size_t)hdf5_take(&message, 4);
    type.properties = message;
    return type;
}

bool hdf5_read_space(const Hdf5 *file, Hdf5Bytes message, int64_t dims[HDF5_DIMS_MAX],
                     int *out_count)
{
    enum { NULL_SPACE = 2 };
    const uint64_t version = hdf5_take(&message, 1), rank = hdf5_take(&message, 1);
    hdf5_take(&message, 1); // whether maxima follow
    const uint64_t kind = hdf5_take(&message, version == 1 ? 5 : 1);
    if (message.failed || version < 1 || version > 2)
        return hdf5_refuse(file, DIAG_E0440, "a dataspace is damaged");
    if (rank > HDF5_DIMS_MAX || (version == 2 && kind == NULL_SPACE))
        return hdf5_refuse(file, DIAG_E0441,
                           "a dataspace has %" PRIu64 " dimensions, or none at all", rank);
    uint64_t elems = 1;
    for (uint64_t i = 0; i < rank; i++) {
        const uint64_t dim = hdf5_take(&message, 8);
        dims[i] = (int64_t)dim;
        if (message.failed || dim > INT64_MAX / 8 || __builtin_mul_overflow(elems, dim, &elems) ||
            elems > INT64_MAX / 8)
            return hdf5_refuse(file, DIAG_E0440, "a dataspace is damaged, or too large");
    }
    *out_count = (int)rank;
    return true;
}

bool hdf5_read_attribute(Hdf5 *file, struct Hdf5Stored *stored, Hdf5Bytes message)
{
    const uint64_t version = hdf5_take(&message, 1), flags = hdf5_take(&message, 1);
    const uint64_t name_bytes = hdf5_take(&message, 2), type_bytes = hdf5_take(&message, 2);
    const uint64_t space_bytes = hdf5_take(&message, 2);
    if (version == 3)
        hdf5_take(&message, 1);
    const uint64_t padding = version == 1 ? 7 : 0;
    Hdf5Bytes name = hdf5_take_bytes(&message, (name_bytes + padding) & ~padding);
    Hdf5Attribute attribute = {
        .type = hdf5_take_bytes(&message, (type_bytes + padding) & ~padding),
        .space = hdf5_take_bytes(&message, (space_bytes + padding) & ~padding),
        .data = message,
    };
    if (message.failed || version < 1 || version > 3)
        return hdf5_refuse(file, DIAG_E0440, "an attribute is damaged");
    if (version > 1 && flags != 0)
        return hdf5_refuse(file, DIAG_E0441, "an attribute has a type that others share");
    attribute.name = arena_copy(file->arena, (const char *)name.at, name.left);
    ARENA_PUSH(file->arena, stored->attributes, stored->attribute_count, attribute);
    return true;
}

/// An object of the global heap: what a text of variable length leads to.
static Hdf5Bytes find_in_heap(Hdf5 *file, uint64_t heap_at, uint64_t wanted)
{
    enum { HEAD_BYTES = 16 };
    const Hdf5Bytes nothing = {.at = file->bytes, .failed = true};
    Hdf5Bytes head = hdf5_block(file, heap_at, HEAD_BYTES);
    const bool good = hdf5_take_signature(&head, "GCOL") && hdf5_take(&head, 1) == 1;
    hdf5_take(&head, 3);
    const uint64_t size_bytes = hdf5_take(&head, 8);
    if (!good || head.failed || size_bytes < HEAD_BYTES || heap_at > file->size_bytes ||
        file->size_bytes - heap_at < size_bytes)
        return nothing;
    Hdf5Bytes left = {file->bytes + heap_at + HEAD_BYTES, (size_t)size_bytes - HEAD_BYTES, false};
    while (left.left >= HEAD_BYTES && hdf5_spend(file, HEAD_BYTES)) {
        const uint64_t index = hdf5_take(&left, 2);
        hdf5_take(&left, 6);
        const uint64_t object_bytes = hdf5_take(&left, 8);
        if (index == 0 || object_bytes > left.left)
            return nothing;
        if (index == wanted)
            return hdf5_take_bytes(&left, object_bytes);
        const uint64_t padded = (object_bytes + 7) & ~UINT64_C(7);
        hdf5_take_bytes(&left, padded < left.left ? padded : left.left);
    }
    return nothing;
}

/// One element of text: of fixed length where it stands, else in the global heap.
static const char *read_text(Hdf5 *file, const Type *type, Hdf5Bytes element)
{
    Hdf5Bytes text = element;
    if (type->class == CLASS_VARIABLE) {
        const uint64_t length = hdf5_take(&element, 4), heap_at = hdf5_take(&element, 8);
        const uint64_t index = hdf5_take(&element, 4);
        if (length == 0)
            return "";
        text = find_in_heap(file, heap_at, index);
        text = hdf5_take_bytes(&text, length);
    }
    if (text.failed || !hdf5_spend(file, text.left))
        return NULL;
    return arena_copy(file->arena, (const char *)text.at, text.left);
}

const char *const *hdf5_texts(Hdf5 *file, const Hdf5Object *object, const char *name,
                              int *out_count)
{
    const Hdf5Attribute *found = NULL;
    if (!hdf5_spend(file, (uint64_t)object->stored->attribute_count)) {
        hdf5_refuse(file, DIAG_E0440, "its structures overlap");
        return NULL;
    }
    for (int i = 0; i < object->stored->attribute_count; i++)
        if (strcmp(object->stored->attributes[i].name, name) == 0)
            found = &object->stored->attributes[i];
    *out_count = 0;
    if (!found)
        return NULL;
    const Type type = read_type(found->type);
    const bool is_text =
        type.class == CLASS_TEXT || (type.class == CLASS_VARIABLE && (type.bits & 15) == 1);
    if (!is_text || type.size_bytes == 0)
        return NULL;
    int64_t dims[HDF5_DIMS_MAX], elems = 1;
    int dim_count = 0;
    if (!hdf5_read_space(file, found->space, dims, &dim_count))
        return NULL;
    for (int i = 0; i < dim_count; i++)
        elems *= dims[i];
    if ((uint64_t)elems > found->data.left / type.size_bytes) {
        hdf5_refuse(file, DIAG_E0440, "attribute '%s' is cut short", name);
        return NULL;
    }
    const char **texts = ARENA_ARRAY(file->arena, const char *, elems + 1);
    Hdf5Bytes data = found->data;
    for (int64_t i = 0; i < elems; i++) {
        texts[i] = read_text(file, &type, hdf5_take_bytes(&data, type.size_bytes));
        if (!texts[i]) {
            hdf5_refuse(file, DIAG_E0440, "a text of attribute '%s' is damaged", name);
            return NULL;
        }
    }
    *out_count = (int)elems;
    return texts;
}

const char *hdf5_text(Hdf5 *file, const Hdf5Object *object, const char *name)
{
    int count = 0;
    const char *const *texts = hdf5_texts(file, object, name, &count);
    return count > 0 ? texts[0] : NULL;
}

static FloatKind kind_of(const Type *type)
{
    enum { BIG_ENDIAN_BITS = 0x41 };
    Hdf5Bytes properties = type->properties;
    hdf5_take(&properties, 4); // bit offset and precision
    const uint64_t exponent_at = hdf5_take(&properties, 1);
    const uint64_t exponent_bits = hdf5_take(&properties, 1);
    const uint64_t mantissa_at = hdf5_take(&properties, 1);
    const uint64_t mantissa_bits = hdf5_take(&properties, 1), bias = hdf5_take(&properties, 4);
    int kind = FLOAT16;
    while (kind < FLOAT_UNKNOWN &&
           (float_kinds[kind].size_bytes != type->size_bytes ||
            float_kinds[kind].exponent_at != exponent_at ||
            float_kinds[kind].exponent_bits != exponent_bits ||
            float_kinds[kind].mantissa_bits != mantissa_bits || float_kinds[kind].bias != bias))
        kind++;
    const bool fits = type->class == CLASS_FLOAT && !properties.failed && mantissa_at == 0 &&
                      (type->bits & BIG_ENDIAN_BITS) == 0;
    return fits ? (FloatKind)kind : FLOAT_UNKNOWN;
}

static int64_t elems_of(const Hdf5Object *dataset)
{
    int64_t elems = 1;
    for (int i = 0; i < dataset->dim_count; i++)
        elems *= dataset->dims[i];
    return elems;
}

static void convert(FloatKind kind, const unsigned char *raw, int64_t elems, float *out)
{
    for (int64_t i = 0; i < elems; i++) {
        uint16_t half = 0;
        double wide = 0;
        switch (kind) {
        case FLOAT16:
        case BFLOAT16:
            memcpy(&half, raw + 2 * i, sizeof half);
            out[i] = kind == FLOAT16 ? float16_to_float(half) : bfloat16_to_float(half);
            break;
        case FLOAT64:
            memcpy(&wide, raw + 8 * i, sizeof wide);
            out[i] = (float)wide;
            break;
        default:
            memcpy(out + i, raw + 4 * i, sizeof *out);
        }
    }
}

static const float *read_floats(Hdf5 *file, const Hdf5Object *dataset, FloatKind kind)
{
    const unsigned char *raw = hdf5_raw(file, dataset, float_kinds[kind].size_bytes);
    if (!raw)
        return NULL;
    float *values = ARENA_ARRAY(file->arena, float, elems_of(dataset) + 1);
    convert(kind, raw, elems_of(dataset), values);
    return values;
}

const float *hdf5_floats(Hdf5 *file, const Hdf5Object *dataset)
{
    const Type type = read_type(dataset->stored->type);
    const FloatKind kind = kind_of(&type);
    if (dataset->is_dataset && kind != FLOAT_UNKNOWN)
        return read_floats(file, dataset, kind);
    hdf5_refuse(file, DIAG_E0441,
                "'/%s' is no dataset of little-endian float16, bfloat16, float32 or float64",
                dataset->path);
    return NULL;
}

const float *hdf5_bfloats(Hdf5 *file, const Hdf5Object *dataset)
{
    const Type type = read_type(dataset->stored->type);
    const bool is_words =
        type.size_bytes == 2 &&
        (type.class == CLASS_OPAQUE || (type.class == CLASS_INTEGER && !(type.bits & 1)));
    if (dataset->is_dataset && is_words)
        return read_floats(file, dataset, BFLOAT16);
    return hdf5_floats(file, dataset);
}
