// OnnxFile: an ONNX file as protobuf messages. The bytes are taken as hostile: before the parser
// sees them they are walked once, so that nesting, counts and lengths are within limits. Knows the
// encoding and nothing of graphs.
//
//     const OnnxFile *file = onnx_open(arena, diags, "net.onnx");
//     for (size_t i = 0; i < file->model->graph->n_node; i++) ...
#ifndef RNNC_IMPORT_ONNX_FILE_H
#define RNNC_IMPORT_ONNX_FILE_H

#include "base/diag.h"
#include "onnx.pb-c.h"

/// A file that tensors of the model have their data in, mapped once.
typedef struct {
    const char *location;
    const unsigned char *bytes;
    size_t size_bytes;
} OnnxExternal;

typedef struct {
    Arena *arena;
    Diags *diags;
    const char *path;
    Span place; ///< the file as a whole
    const Onnx__ModelProto *model;
    size_t size_bytes; ///< of the file and of those that tensors are in
    OnnxExternal *externals;
    int external_count;
} OnnxFile;

/// Maps and parses a model; adds E0001 or E0450 and returns NULL on a fault. The graph is there.
OnnxFile *onnx_open(Arena *arena, Diags *diags, const char *path);

/// The same over bytes in memory; `path` is for messages and for finding external data.
OnnxFile *onnx_parse(Arena *arena, Diags *diags, const char *path, const unsigned char *bytes,
                     size_t size_bytes);

/// Checks and parses one message, as those of `input_0.pb`; its strings and arrays are in the
/// arena. NULL, with E0450, on a fault.
const ProtobufCMessage *onnx_parse_message(Arena *arena, Diags *diags, Span place,
                                           const ProtobufCMessageDescriptor *type,
                                           const unsigned char *bytes, size_t size_bytes);

/// The place of faults in a file that has no lines.
Span onnx_place(Arena *arena, const char *path);

/// `text` as it may stand in a message and in a YAML comment: at most 80 characters, of which those
/// that are not printable ASCII are `?`. NULL gives "".
const char *onnx_shown(Arena *arena, const char *text);

#endif
