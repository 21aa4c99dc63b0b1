// OnnxTensor: a tensor of an ONNX file as float32 or int64 numbers, whichever way the file holds
// it: typed fields, raw bytes, or another file beside the model. Knows nothing of graphs.
//
//     OnnxTensor x;
//     if (onnx_tensor_open(arena, diags, "test_data_set_0/input_0.pb", &x) && x.floats) ...
#ifndef RNNC_IMPORT_ONNX_TENSOR_H
#define RNNC_IMPORT_ONNX_TENSOR_H

#include "import/onnx_file.h"

enum { ONNX_DIMS_MAX = 8 };

/// ONNX' TensorProto.DataType, as far as it is read.
typedef enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_UINT16 = 4,
    ONNX_INT16 = 5,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_UINT32 = 12,
    ONNX_BFLOAT16 = 16
} OnnxType;

/// Row-major; `floats` for the floating types, `integers` for the others, the other NULL. Both in
/// the arena; never NULL where elems is 0.
typedef struct {
    const char *name; ///< "" where it has none
    OnnxType type;    ///< as the file has it
    int dim_count;
    int64_t dims[ONNX_DIMS_MAX];
    int64_t elems; ///< product of dims; 1 for a scalar
    const float *floats;
    const int64_t *integers;
} OnnxTensor;

/// Whether elements of `type` become floats; `*out_known` false for types that are not read.
bool onnx_type_is_float(int type, bool *out_known);

/// "float32"; "type 27" for one that is not read.
const char *onnx_type_name(Arena *arena, int type);

/// Converts a tensor of `file`, whose external data is looked for beside `file->path` and must stay
/// inside that folder. Adds E0450, E0452 or E0453 and returns false on a fault.
bool onnx_tensor_convert(OnnxFile *file, const Onnx__TensorProto *from, OnnxTensor *out);

/// Reads a file that holds one tensor, as `input_0.pb`.
bool onnx_tensor_open(Arena *arena, Diags *diags, const char *path, OnnxTensor *out);

/// The same over bytes in memory; `path` is for messages.
bool onnx_tensor_parse(Arena *arena, Diags *diags, const char *path, const unsigned char *bytes,
                       size_t size_bytes, OnnxTensor *out);

#endif
