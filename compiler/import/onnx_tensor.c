// ONNX tensors: see onnx_tensor.h.
#include "import/onnx_tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "import/float16.h"

/// Which typed field a type may stand in.
typedef enum { IN_FLOATS, IN_DOUBLES, IN_INT32, IN_INT64, IN_UINT64 } Field;

static const struct TypeRow {
    OnnxType type;
    const char *name;
    size_t bytes; ///< in raw data
    bool is_float;
    Field field;
} types[] = {
    {ONNX_FLOAT, "float32", 4, true, IN_FLOATS},  {ONNX_DOUBLE, "float64", 8, true, IN_DOUBLES},
    {ONNX_FLOAT16, "float16", 2, true, IN_INT32}, {ONNX_BFLOAT16, "bfloat16", 2, true, IN_INT32},
    {ONNX_INT64, "int64", 8, false, IN_INT64},    {ONNX_INT32, "int32", 4, false, IN_INT32},
    {ONNX_INT16, "int16", 2, false, IN_INT32},    {ONNX_INT8, "int8", 1, false, IN_INT32},
    {ONNX_UINT32, "uint32", 4, false, IN_UINT64}, {ONNX_UINT16, "uint16", 2, false, IN_INT32},
    {ONNX_UINT8, "uint8", 1, false, IN_INT32},    {ONNX_BOOL, "bool", 1, false, IN_INT32},
};

enum { LOCATION_EXTERNAL = 1, EXTERNALS_MAX = 1024 };

/// A tensor under conversion.
typedef struct {
    OnnxFile *file;
    const Onnx__TensorProto *from;
    const struct TypeRow *type;
    OnnxTensor *out;
} Conversion;

static const struct TypeRow *row_of(int type)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if ((int)types[i].type == type)
            return &types[i];
    return NULL;
}

bool onnx_type_is_float(int type, bool *out_known)
{
    const struct TypeRow *row = row_of(type);
    *out_known = row != NULL;
    return row && row->is_float;
}

const char *onnx_type_name(Arena *arena, int type)
{
    const struct TypeRow *row = row_of(type);
    return row ? row->name : arena_format(arena, "type %d", type);
}

static bool fault(const Conversion *on, DiagCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fault(const Conversion *on, DiagCode code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(on->file->arena, format, arguments);
    va_end(arguments);
    diag_add(on->file->diags, code, on->file->place, "tensor '%s': %s",
             onnx_shown(on->file->arena, on->out->name), text);
    return false;
}

static bool take_shape(const Conversion *on)
{
    OnnxTensor *out = on->out;
    if (on->from->n_dims > ONNX_DIMS_MAX)
        return fault(on, DIAG_E0453, "%zu dimensions; at most %d are read", on->from->n_dims,
                     ONNX_DIMS_MAX);
    int64_t room = 16; // so that strides and bytes are in range too, also where a size is 0
    out->elems = 1;
    for (size_t i = 0; i < on->from->n_dims; i++) {
        const int64_t dim = on->from->dims[i];
        if (dim < 0 || __builtin_mul_overflow(room, dim ? dim : 1, &room))
            return fault(on, DIAG_E0453, "a size of its shape is negative, or all are too large");
        out->dims[out->dim_count++] = dim;
        out->elems *= dim;
    }
    return true;
}

static int64_t read_integer(const unsigned char *at, size_t bytes, bool is_signed)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    const unsigned spare = 64 - 8 * (unsigned)bytes;
    return is_signed ? (int64_t)(value << spare) >> spare : (int64_t)value;
}

static float read_float(const unsigned char *at, OnnxType type)
{
    if (type == ONNX_DOUBLE) {
        double value;
        memcpy(&value, at, sizeof value);
        return (float)value;
    }
    const uint16_t bits = (uint16_t)read_integer(at, 2, false);
    return type == ONNX_FLOAT16 ? float16_to_float(bits) : bfloat16_to_float(bits);
}

/// The elements from little-endian bytes, whose number must be the shape's.
static bool take_raw(const Conversion *on, const unsigned char *bytes, uint64_t size_bytes)
{
    OnnxTensor *out = on->out;
    const struct TypeRow *type = on->type;
    if (size_bytes / type->bytes != (uint64_t)out->elems || size_bytes % type->bytes != 0)
        return fault(on, DIAG_E0453,
                     "%" PRIu64 " bytes of data, but its shape has %" PRId64
                     " elements of %zu bytes",
                     size_bytes, out->elems, type->bytes);
    float *floats = type->is_float ? ARENA_ARRAY(on->file->arena, float, out->elems + 1) : NULL;
    int64_t *integers =
        type->is_float ? NULL : ARENA_ARRAY(on->file->arena, int64_t, out->elems + 1);
    const bool is_signed =
        type->type != ONNX_UINT8 && type->type != ONNX_UINT16 && type->type != ONNX_UINT32;
    if (type->type == ONNX_FLOAT && out->elems > 0)
        memcpy(floats, bytes, (size_t)size_bytes);
    else
        for (int64_t i = 0; i < out->elems; i++, bytes += type->bytes) {
            if (floats)
                floats[i] = read_float(bytes, type->type);
            else
                integers[i] = type->type == ONNX_BOOL ? *bytes != 0
                                                      : read_integer(bytes, type->bytes, is_signed);
        }
    out->floats = floats;
    out->integers = integers;
    return true;
}

static bool has_count(const Conversion *on, size_t count)
{
    return (uint64_t)on->out->elems == count ||
           fault(on, DIAG_E0453,
                 "%zu elements of type %s in the field of that type, but its shape has %" PRId64,
                 count, on->type->name, on->out->elems);
}

/// Half floats stand as bits in int32_data.
static void take_half(const Conversion *on)
{
    float *floats = ARENA_ARRAY(on->file->arena, float, on->out->elems + 1);
    for (int64_t i = 0; i < on->out->elems; i++) {
        const uint16_t bits = (uint16_t)on->from->int32_data[i];
        floats[i] =
            on->type->type == ONNX_FLOAT16 ? float16_to_float(bits) : bfloat16_to_float(bits);
    }
    on->out->floats = floats;
}

static bool take_floats(const Conversion *on)
{
    const bool is_double = on->type->field == IN_DOUBLES;
    if (!has_count(on, is_double ? on->from->n_double_data : on->from->n_float_data))
        return false;
    float *floats = ARENA_ARRAY(on->file->arena, float, on->out->elems + 1);
    for (int64_t i = 0; i < on->out->elems; i++)
        floats[i] = is_double ? (float)on->from->double_data[i] : on->from->float_data[i];
    on->out->floats = floats;
    return true;
}

static bool take_integers(const Conversion *on)
{
    const Field field = on->type->field;
    const Onnx__TensorProto *from = on->from;
    if (!has_count(on, field == IN_INT64    ? from->n_int64_data
                       : field == IN_UINT64 ? from->n_uint64_data
                                            : from->n_int32_data))
        return false;
    if (on->type->is_float) {
        take_half(on);
        return true;
    }
    int64_t *integers = ARENA_ARRAY(on->file->arena, int64_t, on->out->elems + 1);
    for (int64_t i = 0; i < on->out->elems; i++) {
        integers[i] = field == IN_INT64    ? from->int64_data[i]
                      : field == IN_UINT64 ? (int64_t)(from->uint64_data[i] & UINT32_MAX)
                                           : from->int32_data[i];
        if (on->type->type == ONNX_BOOL)
            integers[i] = integers[i] != 0;
    }
    on->out->integers = integers;
    return true;
}

/// A location stays below the model's folder by its words; links are looked at in is_inside.
static bool is_safe_location(const char *location)
{
    if (!*location || *location == '/' || strchr(location, '\\'))
        return false;
    for (const char *c = location; *c; c++)
        if (*c > 0 && (*c < ' ' || *c == 127))
            return false; // nothing that a terminal would obey
    for (const char *part = location; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2]))
            return false;
    }
    return true;
}

/// Whether `path`, with its links followed, is below the folder of the model; so is what does not
/// exist, which opening it will say.
static bool is_inside(const OnnxFile *file, const char *path)
{
    char *folder = realpath(file_beside(file->arena, file->path, "."), NULL);
    char *real = realpath(path, NULL);
    const size_t length = folder ? strlen(folder) : 0;
    const bool inside = !real || (folder && strncmp(folder, real, length) == 0 &&
                                  (real[length] == '/' || strcmp(folder, "/") == 0));
    free(folder);
    free(real);
    return inside;
}

static const OnnxExternal *map_external(const Conversion *on, const char *location)
{
    OnnxFile *file = on->file;
    for (int i = 0; i < file->external_count; i++)
        if (strcmp(file->externals[i].location, location) == 0)
            return &file->externals[i];
    const char *path = file_beside(file->arena, file->path, location);
    OnnxExternal external = {.location = location};
    if (!is_safe_location(location) || !is_inside(file, path)) {
        fault(on, DIAG_E0452, "its data is in '%s', which is not inside the model's folder",
              onnx_shown(file->arena, location));
        return NULL;
    }
    if (file->external_count == EXTERNALS_MAX) {
        fault(on, DIAG_E0452, "data in more than %d files", EXTERNALS_MAX);
        return NULL;
    }
    if (!file_map(file->diags, path, file->place, &external.bytes, &external.size_bytes))
        return NULL;
    file->size_bytes += external.size_bytes;
    ARENA_PUSH(file->arena, file->externals, file->external_count, external);
    return &file->externals[file->external_count - 1];
}

static bool parse_count(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && errno == 0;
}

static bool take_external(const Conversion *on)
{
    const char *location = "", *offset_text = "0", *length_text = NULL;
    for (size_t i = 0; i < on->from->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = on->from->external_data[i];
        if (!entry->key || !entry->value)
            continue;
        if (strcmp(entry->key, "location") == 0)
            location = entry->value;
        else if (strcmp(entry->key, "offset") == 0)
            offset_text = entry->value;
        else if (strcmp(entry->key, "length") == 0)
            length_text = entry->value;
    }
    const OnnxExternal *external = map_external(on, location);
    uint64_t offset = 0, length = 0;
    if (!external)
        return false;
    if (!parse_count(offset_text, &offset) || offset > external->size_bytes)
        return fault(on, DIAG_E0452, "its data starts beyond the end of '%s'",
                     onnx_shown(on->file->arena, location));
    length = external->size_bytes - offset;
    if (length_text &&
        (!parse_count(length_text, &length) || length > external->size_bytes - offset))
        return fault(on, DIAG_E0452, "its data ends beyond the end of '%s'",
                     onnx_shown(on->file->arena, location));
    return take_raw(on, external->bytes + offset, length);
}

bool onnx_tensor_convert(OnnxFile *file, const Onnx__TensorProto *from, OnnxTensor *out)
{
    *out = (OnnxTensor){.name = from->name ? from->name : "", .type = (OnnxType)from->data_type};
    const Conversion on = {file, from, row_of(from->data_type), out};
    if (!on.type)
        return fault(&on, DIAG_E0453, "elements of %s are not read",
                     onnx_type_name(file->arena, from->data_type));
    if (!take_shape(&on))
        return false;
    if (from->data_location == LOCATION_EXTERNAL)
        return take_external(&on);
    if (from->has_raw_data)
        return take_raw(&on, from->raw_data.data, from->raw_data.len);
    return on.type->field == IN_FLOATS || on.type->field == IN_DOUBLES ? take_floats(&on)
                                                                       : take_integers(&on);
}

bool onnx_tensor_parse(Arena *arena, Diags *diags, const char *path, const unsigned char *bytes,
                       size_t size_bytes, OnnxTensor *out)
{
    OnnxFile file = {.arena = arena,
                     .diags = diags,
                     .path = path,
                     .place = onnx_place(arena, path),
                     .size_bytes = size_bytes};
    const ProtobufCMessage *message = onnx_parse_message(
        arena, diags, file.place, &onnx__tensor_proto__descriptor, bytes, size_bytes);
    return message && onnx_tensor_convert(&file, (const Onnx__TensorProto *)message, out);
}

bool onnx_tensor_open(Arena *arena, Diags *diags, const char *path, OnnxTensor *out)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    return file_map(diags, path, (Span){0}, &bytes, &size_bytes) &&
           onnx_tensor_parse(arena, diags, path, bytes, size_bytes, out);
}
