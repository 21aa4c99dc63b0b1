// npy: NumPy's array files, versions 1.0, 2.0 and 3.0, in C order; read without copying and
// written as version 1.0. The file is
//
//     \x93NUMPY | version | header length | {'descr': '<f4', 'fortran_order': False,
//     'shape': (3, 4), } padded with spaces and a newline | elements, little-endian
#ifndef RNNC_IMPORT_NPY_H
#define RNNC_IMPORT_NPY_H

#include "base/diag.h"
#include "base/text.h"

enum { NPY_DIMS_MAX = 8 };

typedef enum {
    NPY_FLOAT16,
    NPY_FLOAT32,
    NPY_FLOAT64,
    NPY_INT32,
    NPY_INT64,
    NPY_UINT8,
    NPY_BOOL,
    NPY_TYPE_COUNT
} NpyType;

typedef struct {
    NpyType type;
    int dim_count;
    int64_t dims[NPY_DIMS_MAX];
    int64_t elems;             ///< product of dims; 1 for a scalar
    const unsigned char *data; ///< little-endian, row-major, unaligned
} NpyArray;

/// Maps and checks `path`; adds E0420 or E0421 at `span` and returns false on a fault.
bool npy_open(Arena *arena, Diags *diags, const char *path, Span span, NpyArray *out);

/// The same over bytes in memory, which must outlive the result; `path` is for messages.
bool npy_parse(Arena *arena, Diags *diags, const char *path, Span span, const unsigned char *bytes,
               size_t size_bytes, NpyArray *out);

/// One element as a double (an int64 beyond 2^53 is rounded).
double npy_element(const NpyArray *array, int64_t index);

/// One element of an integer or boolean array.
int64_t npy_integer(const NpyArray *array, int64_t index);

/// Converts all elements to float32.
void npy_to_float(const NpyArray *array, float *out);

/// Converts all elements to int32. False where the type is floating, or at the first element that
/// int32 does not hold, whose index is then in `*out_bad` (-1 for a floating type).
bool npy_to_int32(const NpyArray *array, int32_t *out, int64_t *out_bad);

/// "float32", and its bytes an element.
const char *npy_type_name(NpyType type);
size_t npy_type_bytes(NpyType type);

/// "[3, 4]", in the arena.
const char *npy_shape_text(Arena *arena, const int64_t *dims, int dim_count);

/// Appends the array as an npy file's bytes.
void npy_print(const NpyArray *array, Text *out);

/// Writes a file atomically; adds E0002 and returns false on failure.
bool npy_write(Arena *arena, Diags *diags, const char *path, const NpyArray *array);

#endif
