// ONNX files: see onnx_file.h. A message is a sequence of fields,
//
//     key = number << 3 | wire type (varint) | value: varint, 8 bytes, length and bytes, 4 bytes
//
// and protobuf-c parses nested messages by recursion without a bound, so walk() comes first.
#include "import/onnx_file.h"

#include <string.h>

#include "base/file.h"

enum { DEPTH_MAX = 32, FIELDS_MAX = 1 << 20, VARINT_BYTES_MAX = 10, SHOWN_MAX = 80 };
enum { WIRE_VARINT = 0, WIRE_8_BYTES = 1, WIRE_BYTES = 2, WIRE_4_BYTES = 5 };
#define FILE_BYTES_MAX (((size_t)1 << 31) - 1) ///< protobuf's own limit

/// One pass over the encoding; `fault` stays NULL while all is well.
typedef struct {
    const unsigned char *at;
    int fields, depth;
    const char *fault;
} Walk;

static uint64_t take_varint(Walk *walk, const unsigned char *end)
{
    uint64_t value = 0;
    for (int i = 0; i < VARINT_BYTES_MAX && walk->at < end; i++) {
        const unsigned char byte = *walk->at++;
        value |= (uint64_t)(byte & 127u) << (7 * i);
        if (byte < 128)
            return value;
    }
    walk->fault = "a number is cut short";
    return 0;
}

static const ProtobufCMessageDescriptor *message_of(const ProtobufCMessageDescriptor *type,
                                                    uint64_t number)
{
    for (unsigned i = 0; i < type->n_fields; i++)
        if (type->fields[i].id == number)
            return type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE ? type->fields[i].descriptor
                                                                   : NULL;
    return NULL;
}

static void walk_message(Walk *walk, const ProtobufCMessageDescriptor *type,
                         const unsigned char *end);

static void walk_bytes(Walk *walk, const ProtobufCMessageDescriptor *type, const unsigned char *end)
{
    const uint64_t length = take_varint(walk, end);
    if (walk->fault)
        return;
    if (length > (uint64_t)(end - walk->at)) {
        walk->fault = "a field is longer than what holds it";
        return;
    }
    const unsigned char *stop = walk->at + length;
    if (!type) {
        walk->at = stop;
        return;
    }
    if (++walk->depth > DEPTH_MAX)
        walk->fault = "messages are nested more than 32 deep";
    else
        walk_message(walk, type, stop);
    walk->depth--;
}

static void walk_field(Walk *walk, const ProtobufCMessageDescriptor *type, const unsigned char *end)
{
    const uint64_t key = take_varint(walk, end);
    const size_t room = (size_t)(end - walk->at);
    const unsigned wire = key & 7u;
    if (walk->fault)
        return;
    if (key >> 3 == 0 || key >> 32)
        walk->fault = "a field has an impossible number";
    else if (wire == WIRE_VARINT)
        take_varint(walk, end);
    else if (wire == WIRE_BYTES)
        walk_bytes(walk, message_of(type, key >> 3), end);
    else if (wire != WIRE_4_BYTES && wire != WIRE_8_BYTES)
        walk->fault = "a field is of an unknown wire type";
    else if (room < (wire == WIRE_4_BYTES ? 4u : 8u))
        walk->fault = "a number is cut short";
    else
        walk->at += wire == WIRE_4_BYTES ? 4 : 8;
}

static void walk_message(Walk *walk, const ProtobufCMessageDescriptor *type,
                         const unsigned char *end)
{
    while (!walk->fault && walk->at < end) {
        if (++walk->fields > FIELDS_MAX)
            walk->fault = "there are more than 1048576 fields";
        else
            walk_field(walk, type, end);
    }
}

static void *alloc_in_arena(void *arena, size_t size_bytes)
{
    return arena_alloc(arena, size_bytes);
}

static void leave_in_arena(void *arena, void *pointer)
{
    (void)arena, (void)pointer;
}

const ProtobufCMessage *onnx_parse_message(Arena *arena, Diags *diags, Span place,
                                           const ProtobufCMessageDescriptor *type,
                                           const unsigned char *bytes, size_t size_bytes)
{
    Walk walk = {.at = bytes};
    if (size_bytes > FILE_BYTES_MAX)
        walk.fault = "it is larger than 2 GB, protobuf's limit";
    else
        walk_message(&walk, type, bytes + size_bytes);
    ProtobufCAllocator allocator = {alloc_in_arena, leave_in_arena, arena};
    const ProtobufCMessage *message =
        walk.fault ? NULL : protobuf_c_message_unpack(type, &allocator, size_bytes, bytes);
    if (!message)
        diag_add(diags, DIAG_E0450, place, "not an ONNX file, or cut short: %s",
                 walk.fault ? walk.fault : "a field has a value of another type");
    return message;
}

Span onnx_place(Arena *arena, const char *path)
{
    Source *source = ARENA_NEW(arena, Source);
    *source = (Source){.path = arena_copy(arena, path, strlen(path))};
    return (Span){.source = source};
}

OnnxFile *onnx_parse(Arena *arena, Diags *diags, const char *path, const unsigned char *bytes,
                     size_t size_bytes)
{
    OnnxFile *file = ARENA_NEW(arena, OnnxFile);
    *file = (OnnxFile){.arena = arena,
                       .diags = diags,
                       .path = path,
                       .place = onnx_place(arena, path),
                       .size_bytes = size_bytes};
    const ProtobufCMessage *message = onnx_parse_message(
        arena, diags, file->place, &onnx__model_proto__descriptor, bytes, size_bytes);
    if (!message)
        return NULL;
    file->model = (const Onnx__ModelProto *)message;
    if (!file->model->graph) {
        diag_add(diags, DIAG_E0450, file->place, "not an ONNX model: it has no graph");
        return NULL;
    }
    return file;
}

OnnxFile *onnx_open(Arena *arena, Diags *diags, const char *path)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    if (!file_map(diags, path, (Span){0}, &bytes, &size_bytes))
        return NULL;
    return onnx_parse(arena, diags, path, bytes, size_bytes);
}

const char *onnx_shown(Arena *arena, const char *text)
{
    const size_t length = text ? strlen(text) : 0;
    const size_t kept = length < SHOWN_MAX ? length : SHOWN_MAX;
    char *shown = arena_copy(arena, text ? text : "", kept);
    for (size_t i = 0; i < kept; i++)
        if (shown[i] < ' ' || shown[i] > '~')
            shown[i] = '?';
    return shown;
}
