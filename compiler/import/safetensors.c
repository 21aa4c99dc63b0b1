// Safetensors: reader and writer. The file is
//
//     u64 header length | header (JSON, padded with spaces) | data
//
// and is taken as hostile: every size is checked before it is used.
#include "import/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "import/float16.h"

enum { LENGTH_BYTES = 8, HEADER_BYTES_MAX = 100000000, DATA_ALIGNMENT = 8 };

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},  {"C64", 8}, {"F64", 8}, {"I64", 8},     {"U64", 8},
};

/// The reader's state: what the checks need to report.
typedef struct {
    Arena *arena;
    Diags *diags;
    Span span;
    const char *path;
    const unsigned char *data; ///< after the header
    size_t data_bytes;
} Reader;

static size_t dtype_bytes(const char *name, const char **out_name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *out_name = dtypes[i].name;
            return dtypes[i].bytes;
        }
    return 0;
}

static bool fault(const Reader *reader, DiagCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fault(const Reader *reader, DiagCode code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(reader->arena, format, arguments);
    va_end(arguments);
    diag_add(reader->diags, code, reader->span, "'%s': %s", reader->path, text);
    return false;
}

/// Reads "shape" and multiplies it out; `*elems` starts at 1.
static bool read_shape(const Reader *reader, const json_t *shape, SafetensorsTensor *tensor,
                       uint64_t *elems)
{
    if (!json_is_array(shape))
        return fault(reader, DIAG_E0403, "tensor '%s' has no shape", tensor->name);
    if (json_array_size(shape) > SAFETENSORS_DIMS_MAX)
        return fault(reader, DIAG_E0403, "tensor '%s' has %zu dimensions; at most %d are read",
                     tensor->name, json_array_size(shape), SAFETENSORS_DIMS_MAX);
    tensor->dim_count = (int)json_array_size(shape);
    for (int i = 0; i < tensor->dim_count; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return fault(reader, DIAG_E0403,
                         "tensor '%s': a size of its shape is no whole number from 0",
                         tensor->name);
        tensor->dims[i] = json_integer_value(dim);
        if (__builtin_mul_overflow(*elems, (uint64_t)tensor->dims[i], elems))
            return fault(reader, DIAG_E0403, "tensor '%s': its shape is too large", tensor->name);
    }
    return true;
}

static bool read_offsets(const Reader *reader, const json_t *offsets, SafetensorsTensor *tensor,
                         uint64_t wanted_bytes)
{
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return fault(reader, DIAG_E0403, "tensor '%s': data_offsets is not [begin, end]",
                     tensor->name);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin)
        return fault(reader, DIAG_E0403, "tensor '%s': data_offsets [%lld, %lld] run backwards",
                     tensor->name, (long long)begin, (long long)end);
    if ((uint64_t)end > reader->data_bytes)
        return fault(reader, DIAG_E0404,
                     "tensor '%s' ends at byte %lld of the data, but the file has only %zu",
                     tensor->name, (long long)end, reader->data_bytes);
    if ((uint64_t)(end - begin) != wanted_bytes)
        return fault(reader, DIAG_E0403,
                     "tensor '%s': its shape and dtype need %" PRIu64
                     " bytes, its data_offsets give %lld",
                     tensor->name, wanted_bytes, (long long)(end - begin));
    tensor->data = reader->data + begin;
    tensor->size_bytes = (size_t)wanted_bytes;
    return true;
}

static bool read_tensor(const Reader *reader, const char *name, const json_t *object,
                        SafetensorsTensor *tensor)
{
    *tensor = (SafetensorsTensor){.name = arena_copy(reader->arena, name, strlen(name))};
    if (!json_is_object(object))
        return fault(reader, DIAG_E0403, "tensor '%s' is not described by an object", name);
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    if (!dtype)
        return fault(reader, DIAG_E0403, "tensor '%s' has no dtype", name);
    size_t element_bytes = dtype_bytes(dtype, &tensor->dtype);
    if (!element_bytes)
        return fault(reader, DIAG_E0403, "tensor '%s' has the unknown dtype '%s'", name, dtype);
    uint64_t elems = 1, bytes = 0;
    if (!read_shape(reader, json_object_get(object, "shape"), tensor, &elems))
        return false;
    if (__builtin_mul_overflow(elems, (uint64_t)element_bytes, &bytes))
        return fault(reader, DIAG_E0403, "tensor '%s': its shape is too large", name);
    return read_offsets(reader, json_object_get(object, "data_offsets"), tensor, bytes);
}

static int by_place(const void *left, const void *right)
{
    const SafetensorsTensor *a = left, *b = right;
    if (a->data != b->data)
        return a->data < b->data ? -1 : 1;
    return (a->size_bytes > b->size_bytes) - (a->size_bytes < b->size_bytes);
}

/// The tensors in order of place must follow each other from the first byte to the last.
static bool check_cover(const Reader *reader, const Safetensors *file)
{
    const unsigned char *at = reader->data;
    for (int i = 0; i < file->count; i++) {
        const SafetensorsTensor *tensor = &file->tensors[i];
        if (tensor->data < at)
            return fault(reader, DIAG_E0404, "tensors '%s' and '%s' overlap",
                         file->tensors[i - 1].name, tensor->name);
        if (tensor->data > at)
            return fault(reader, DIAG_E0404, "a hole of %zu bytes before tensor '%s'",
                         (size_t)(tensor->data - at), tensor->name);
        at = tensor->data + tensor->size_bytes;
    }
    size_t used = (size_t)(at - reader->data);
    if (used != reader->data_bytes)
        return fault(reader, DIAG_E0404, "%zu bytes after the last tensor belong to none",
                     reader->data_bytes - used);
    return true;
}

static bool check_metadata(const Reader *reader, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return fault(reader, DIAG_E0402, "__metadata__ is not an object");
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return fault(reader, DIAG_E0402, "__metadata__: '%s' is not text", key);
    }
    return true;
}

static bool read_tensors(const Reader *reader, json_t *header, Safetensors *file)
{
    const char *key;
    json_t *value;
    bool good = true;
    file->tensors = ARENA_ARRAY(reader->arena, SafetensorsTensor, json_object_size(header) + 1);
    json_object_foreach(header, key, value)
    {
        if (strcmp(key, "__metadata__") == 0)
            good &= check_metadata(reader, value);
        else
            good &= read_tensor(reader, key, value, &file->tensors[file->count++]);
    }
    return good;
}

/// The header as JSON, or NULL with a diagnostic. Sets the reader's data.
static json_t *read_header(Reader *reader, const unsigned char *bytes, size_t size_bytes)
{
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES && size_bytes >= LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    if (size_bytes < LENGTH_BYTES) {
        fault(reader, DIAG_E0401, "%zu bytes are too few for a safetensors file", size_bytes);
        return NULL;
    }
    if (length > HEADER_BYTES_MAX || length > size_bytes - LENGTH_BYTES) {
        fault(reader, DIAG_E0401,
              "a header of %" PRIu64 " bytes is announced in a file of %zu bytes%s", length,
              size_bytes, length > HEADER_BYTES_MAX ? " (at most 100000000 are allowed)" : "");
        return NULL;
    }
    const char *text = (const char *)bytes + LENGTH_BYTES;
    if (length == 0 || text[0] != '{') {
        fault(reader, DIAG_E0402, "the header does not begin with '{'");
        return NULL;
    }
    json_error_t error;
    json_t *header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!header)
        fault(reader, DIAG_E0402, "header, byte %d: %s", error.position, error.text);
    reader->data = bytes + LENGTH_BYTES + length;
    reader->data_bytes = size_bytes - LENGTH_BYTES - (size_t)length;
    return header;
}

const Safetensors *safetensors_parse(Arena *arena, Diags *diags, const char *path, Span span,
                                     const unsigned char *bytes, size_t size_bytes)
{
    Reader reader = {.arena = arena, .diags = diags, .span = span, .path = path};
    json_t *header = read_header(&reader, bytes, size_bytes);
    if (!header)
        return NULL;
    Safetensors *file = ARENA_NEW(arena, Safetensors);
    file->path = arena_copy(arena, path, strlen(path));
    bool good = read_tensors(&reader, header, file);
    json_decref(header);
    if (!good)
        return NULL;
    qsort(file->tensors, (size_t)file->count, sizeof file->tensors[0], by_place);
    return check_cover(&reader, file) ? file : NULL;
}

const Safetensors *safetensors_open(Arena *arena, Diags *diags, const char *path, Span span)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    if (!file_map(diags, path, span, &bytes, &size_bytes))
        return NULL;
    return safetensors_parse(arena, diags, path, span, bytes, size_bytes);
}

const SafetensorsTensor *safetensors_find(const Safetensors *file, const char *name)
{
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

bool safetensors_to_float(const SafetensorsTensor *tensor, float *out)
{
    const unsigned char *from = tensor->data;
    if (strcmp(tensor->dtype, "F32") == 0) {
        memcpy(out, from, tensor->size_bytes);
        return true;
    }
    if (strcmp(tensor->dtype, "F64") == 0) {
        for (size_t i = 0; i < tensor->size_bytes / sizeof(double); i++) {
            double value;
            memcpy(&value, from + i * sizeof value, sizeof value);
            out[i] = (float)value;
        }
        return true;
    }
    bool half = strcmp(tensor->dtype, "F16") == 0;
    if (!half && strcmp(tensor->dtype, "BF16") != 0)
        return false;
    for (size_t i = 0; i < tensor->size_bytes / sizeof(uint16_t); i++) {
        uint16_t bits;
        memcpy(&bits, from + i * sizeof bits, sizeof bits);
        out[i] = half ? float16_to_float(bits) : bfloat16_to_float(bits);
    }
    return true;
}

static size_t entry_bytes(const SafetensorsEntry *entry)
{
    const char *name = NULL;
    size_t bytes = dtype_bytes(entry->dtype, &name);
    for (int i = 0; i < entry->dim_count; i++)
        bytes *= (size_t)entry->dims[i];
    return bytes;
}

static char *print_header(const SafetensorsEntry *entries, int count, const char *const *metadata)
{
    json_t *header = json_object();
    json_t *words = metadata ? json_object() : NULL;
    for (int i = 0; metadata && metadata[i]; i += 2)
        json_object_set_new(words, metadata[i], json_string(metadata[i + 1]));
    if (words)
        json_object_set_new(header, "__metadata__", words);
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        json_t *object = json_object(), *shape = json_array(), *offsets = json_array();
        for (int j = 0; j < entries[i].dim_count; j++)
            json_array_append_new(shape, json_integer(entries[i].dims[j]));
        json_array_append_new(offsets, json_integer((json_int_t)at));
        at += entry_bytes(&entries[i]);
        json_array_append_new(offsets, json_integer((json_int_t)at));
        json_object_set_new(object, "dtype", json_string(entries[i].dtype));
        json_object_set_new(object, "shape", shape);
        json_object_set_new(object, "data_offsets", offsets);
        json_object_set_new(header, entries[i].name, object);
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return text;
}

bool safetensors_write(Arena *arena, Diags *diags, const char *path,
                       const SafetensorsEntry *entries, int count, const char *const *metadata)
{
    char *header = print_header(entries, count, metadata);
    Text file = {.arena = arena};
    size_t length = strlen(header);
    size_t padded = (length + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        char byte = (char)((uint64_t)padded >> (8 * i) & 255u);
        text_add_bytes(&file, &byte, 1);
    }
    text_add_bytes(&file, header, length);
    free(header);
    for (size_t i = length; i < padded; i++)
        text_add_bytes(&file, " ", 1);
    for (int i = 0; i < count; i++)
        text_add_bytes(&file, entries[i].data, entry_bytes(&entries[i]));
    return file_write(arena, diags, path, file.data, file.length);
}
