// npy: reader and writer. The header is a Python dictionary; only the form that NumPy writes is
// read: three known keys, each once, in any order.
#include "import/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "import/float16.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, PREFIX_BYTES = 10, ALIGNMENT = 64, HEADER_BYTES_MAX = 1 << 20 };

static const struct {
    const char *name, *descr;
    size_t bytes;
} types[NPY_TYPE_COUNT] = {
    [NPY_FLOAT16] = {"float16", "<f2", 2}, [NPY_FLOAT32] = {"float32", "<f4", 4},
    [NPY_FLOAT64] = {"float64", "<f8", 8}, [NPY_INT32] = {"int32", "<i4", 4},
    [NPY_INT64] = {"int64", "<i8", 8},     [NPY_UINT8] = {"uint8", "|u1", 1},
    [NPY_BOOL] = {"bool", "|b1", 1},
};

/// The reader's place in the header, and what it found.
typedef struct {
    const char *at, *end;
    const char *descr; ///< NULL: not found yet
    bool descr_is_list, has_order, fortran_order, has_shape;
    Arena *arena;
    NpyArray *array;
} Header;

static void skip_space(Header *header)
{
    while (header->at < header->end && strchr(" \t\n", *header->at) && *header->at)
        header->at++;
}

/// Takes one character (after spaces) if it is there.
static bool take(Header *header, char wanted)
{
    skip_space(header);
    if (header->at == header->end || *header->at != wanted)
        return false;
    header->at++;
    return true;
}

static bool take_word(Header *header, const char *word)
{
    size_t length = strlen(word);
    skip_space(header);
    if ((size_t)(header->end - header->at) < length || memcmp(header->at, word, length) != 0)
        return false;
    header->at += length;
    return true;
}

/// A quoted string without escapes, or NULL.
static const char *take_string(Header *header)
{
    skip_space(header);
    if (header->at == header->end || (*header->at != '\'' && *header->at != '"'))
        return NULL;
    const char *start = header->at + 1;
    const char *end = memchr(start, *header->at, (size_t)(header->end - start));
    if (!end)
        return NULL;
    header->at = end + 1;
    return arena_copy(header->arena, start, (size_t)(end - start));
}

static bool take_size(Header *header, int64_t *out)
{
    skip_space(header);
    const char *start = header->at;
    *out = 0;
    for (; header->at < header->end && *header->at >= '0' && *header->at <= '9'; header->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *header->at - '0', out))
            return false;
    bool found = header->at > start;
    if (found && header->at < header->end && *header->at == 'L') /* written by Python 2 */
        header->at++;
    return found;
}

static bool take_shape(Header *header)
{
    NpyArray *array = header->array;
    if (!take(header, '('))
        return false;
    bool comma = true;
    while (!take(header, ')')) {
        if (!comma || array->dim_count == NPY_DIMS_MAX ||
            !take_size(header, &array->dims[array->dim_count]))
            return false;
        array->dim_count += 1;
        comma = take(header, ',');
    }
    header->has_shape = true;
    return comma || array->dim_count > 1;
}

static bool take_entry(Header *header)
{
    const char *key = take_string(header);
    if (!key || !take(header, ':'))
        return false;
    if (strcmp(key, "descr") == 0 && !header->descr && !header->descr_is_list) {
        skip_space(header);
        header->descr_is_list = header->at < header->end && *header->at == '[';
        header->descr = take_string(header);
        return header->descr != NULL;
    }
    if (strcmp(key, "fortran_order") == 0 && !header->has_order) {
        header->has_order = true;
        header->fortran_order = take_word(header, "True");
        return header->fortran_order || take_word(header, "False");
    }
    return strcmp(key, "shape") == 0 && !header->has_shape && take_shape(header);
}

static bool parse_header(Header *header)
{
    if (!take(header, '{'))
        return false;
    bool comma = true;
    while (!take(header, '}')) {
        if (!comma || !take_entry(header))
            return false;
        comma = take(header, ',');
    }
    skip_space(header);
    return header->at == header->end && header->descr && header->has_order && header->has_shape;
}

static bool refuse(Arena *arena, Diags *diags, DiagCode code, Span span, const char *path,
                   const char *format, ...) __attribute__((format(printf, 6, 7)));

static bool refuse(Arena *arena, Diags *diags, DiagCode code, Span span, const char *path,
                   const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(arena, format, arguments);
    va_end(arguments);
    diag_add(diags, code, span, "'%s': %s", path, text);
    return false;
}

/// What is refused by name: type, order; then the size against the bytes that are there.
static bool check_array(Arena *arena, Diags *diags, const char *path, Span span,
                        const Header *header, size_t data_bytes)
{
    NpyArray *array = header->array;
    const char *descr = header->descr;
    int type = 0;
    while (type < NPY_TYPE_COUNT && strcmp(types[type].descr, descr) != 0)
        type++;
    if (descr[0] == '>')
        return refuse(arena, diags, DIAG_E0421, span, path, "big-endian elements ('%s')", descr);
    if (type == NPY_TYPE_COUNT)
        return refuse(arena, diags, DIAG_E0421, span, path, "elements of type '%s'", descr);
    if (header->fortran_order)
        return refuse(arena, diags, DIAG_E0421, span, path,
                      "the array is in Fortran order; save it as numpy.ascontiguousarray(a)");
    array->type = (NpyType)type;
    array->elems = 1;
    for (int i = 0; i < array->dim_count; i++)
        if (__builtin_mul_overflow(array->elems, array->dims[i], &array->elems))
            return refuse(arena, diags, DIAG_E0420, span, path, "the shape is too large");
    int64_t bytes = 0;
    if (__builtin_mul_overflow(array->elems, (int64_t)types[type].bytes, &bytes))
        return refuse(arena, diags, DIAG_E0420, span, path, "the shape is too large");
    if ((uint64_t)bytes != data_bytes)
        return refuse(arena, diags, DIAG_E0420, span, path,
                      "shape %s of %s needs %" PRId64 " bytes, but %zu follow the header",
                      npy_shape_text(arena, array->dims, array->dim_count), types[type].name, bytes,
                      data_bytes);
    return true;
}

bool npy_parse(Arena *arena, Diags *diags, const char *path, Span span, const unsigned char *bytes,
               size_t size_bytes, NpyArray *out)
{
    *out = (NpyArray){0};
    if (size_bytes < PREFIX_BYTES || memcmp(bytes, magic, MAGIC_BYTES) != 0)
        return refuse(arena, diags, DIAG_E0420, span, path, "this is not an npy file");
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return refuse(arena, diags, DIAG_E0420, span, path, "npy version %d.%d is not known",
                      bytes[6], bytes[7]);
    int length_bytes = bytes[6] == 1 ? 2 : 4;
    size_t start = (size_t)(MAGIC_BYTES + 2 + length_bytes), length = 0;
    for (int i = 0; i < length_bytes && size_bytes >= start; i++)
        length |= (size_t)bytes[MAGIC_BYTES + 2 + i] << (8 * i);
    if (size_bytes < start || length > size_bytes - start || length > HEADER_BYTES_MAX)
        return refuse(arena, diags, DIAG_E0420, span, path, "the header is cut short");
    const char *text = (const char *)bytes + start;
    Header header = {.at = text, .end = text + length, .arena = arena, .array = out};
    if (!parse_header(&header)) {
        if (header.descr_is_list)
            return refuse(arena, diags, DIAG_E0421, span, path, "a structured array");
        return refuse(arena, diags, DIAG_E0420, span, path,
                      "the header is malformed at byte %zu, or has more than %d dimensions",
                      start + (size_t)(header.at - text), NPY_DIMS_MAX);
    }
    out->data = bytes + start + length;
    return check_array(arena, diags, path, span, &header, size_bytes - start - length);
}

bool npy_open(Arena *arena, Diags *diags, const char *path, Span span, NpyArray *out)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    return file_map(diags, path, span, &bytes, &size_bytes) &&
           npy_parse(arena, diags, path, span, bytes, size_bytes, out);
}

static float load_float(const unsigned char *data, int64_t index)
{
    float value;
    memcpy(&value, data + index * (int64_t)sizeof value, sizeof value);
    return value;
}

static double load_double(const unsigned char *data, int64_t index)
{
    double value;
    memcpy(&value, data + index * (int64_t)sizeof value, sizeof value);
    return value;
}

static uint16_t load_uint16(const unsigned char *data, int64_t index)
{
    uint16_t value;
    memcpy(&value, data + index * (int64_t)sizeof value, sizeof value);
    return value;
}

int64_t npy_integer(const NpyArray *array, int64_t index)
{
    if (array->type == NPY_UINT8 || array->type == NPY_BOOL)
        return array->data[index];
    if (array->type == NPY_INT32) {
        int32_t value;
        memcpy(&value, array->data + index * (int64_t)sizeof value, sizeof value);
        return value;
    }
    int64_t value;
    memcpy(&value, array->data + index * (int64_t)sizeof value, sizeof value);
    return value;
}

double npy_element(const NpyArray *array, int64_t index)
{
    switch (array->type) {
    case NPY_FLOAT32:
        return (double)load_float(array->data, index);
    case NPY_FLOAT64:
        return load_double(array->data, index);
    case NPY_FLOAT16:
        return (double)float16_to_float(load_uint16(array->data, index));
    default:
        return (double)npy_integer(array, index);
    }
}

void npy_to_float(const NpyArray *array, float *out)
{
    for (int64_t i = 0; i < array->elems; i++)
        out[i] = (float)npy_element(array, i);
}

bool npy_to_int32(const NpyArray *array, int32_t *out, int64_t *out_bad)
{
    *out_bad = -1;
    if (array->type < NPY_INT32)
        return false;
    for (int64_t i = 0; i < array->elems; i++) {
        int64_t value = npy_integer(array, i);
        if (value < INT32_MIN || value > INT32_MAX) {
            *out_bad = i;
            return false;
        }
        out[i] = (int32_t)value;
    }
    return true;
}

const char *npy_type_name(NpyType type)
{
    return types[type].name;
}

size_t npy_type_bytes(NpyType type)
{
    return types[type].bytes;
}

const char *npy_shape_text(Arena *arena, const int64_t *dims, int dim_count)
{
    Text text = {.arena = arena};
    text_add(&text, "[");
    for (int i = 0; i < dim_count; i++)
        text_addf(&text, "%s%" PRId64, i ? ", " : "", dims[i]);
    text_add(&text, "]");
    return text_string(&text);
}

void npy_print(const NpyArray *array, Text *out)
{
    Text header = {.arena = out->arena};
    text_addf(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
              types[array->type].descr);
    for (int i = 0; i < array->dim_count; i++)
        text_addf(&header, "%s%" PRId64, i ? ", " : "", array->dims[i]);
    text_add(&header, array->dim_count == 1 ? ",), }" : "), }");
    while ((PREFIX_BYTES + header.length + 1) % ALIGNMENT)
        text_add(&header, " ");
    text_add(&header, "\n");
    const char prefix[] = {1, 0, (char)(header.length & 255), (char)(header.length >> 8)};
    text_add_bytes(out, magic, MAGIC_BYTES);
    text_add_bytes(out, prefix, sizeof prefix);
    text_add_bytes(out, header.data, header.length);
    text_add_bytes(out, (const char *)array->data, (size_t)array->elems * types[array->type].bytes);
}

bool npy_write(Arena *arena, Diags *diags, const char *path, const NpyArray *array)
{
    Text file = {.arena = arena};
    npy_print(array, &file);
    return file_write(arena, diags, path, file.data, file.length);
}
