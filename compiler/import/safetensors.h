// Safetensors: a mapped, checked file. Every rule of the format is enforced: header length, JSON
// object, dtype, shape product, offsets in range, contiguous, not overlapping, no holes at the end,
// no duplicate keys. Data is not copied.
#ifndef RNNC_IMPORT_SAFETENSORS_H
#define RNNC_IMPORT_SAFETENSORS_H

#include "base/diag.h"

enum { SAFETENSORS_DIMS_MAX = 8 };

typedef struct {
    const char *name;
    const char *dtype; ///< "F32", "F16", "BF16", "F64", "I32", ...
    int64_t dims[SAFETENSORS_DIMS_MAX];
    int dim_count;
    const unsigned char *data; ///< little-endian, unaligned
    size_t size_bytes;
} SafetensorsTensor;

typedef struct Safetensors {
    const char *path;
    SafetensorsTensor *tensors; ///< in file order
    int count;
} Safetensors;

/// Maps and checks `path`; adds E04xx at `span` and returns NULL on a fault.
const Safetensors *safetensors_open(Arena *arena, Diags *diags, const char *path, Span span);

/// The same over bytes in memory, which must outlive the result; `path` is for messages.
const Safetensors *safetensors_parse(Arena *arena, Diags *diags, const char *path, Span span,
                                     const unsigned char *bytes, size_t size_bytes);

/// The tensor of that name, or NULL.
const SafetensorsTensor *safetensors_find(const Safetensors *file, const char *name);

/// Converts the elements to float32. False where the dtype is not F64, F32, F16 or BF16.
bool safetensors_to_float(const SafetensorsTensor *tensor, float *out);

/// One float32 or int32 tensor to be written.
typedef struct {
    const char *name;
    const char *dtype;
    const int64_t *dims;
    int dim_count;
    const void *data;
} SafetensorsEntry;

/// Writes a file atomically; `metadata` is alternating keys and values, NULL-ended, or NULL.
bool safetensors_write(Arena *arena, Diags *diags, const char *path,
                       const SafetensorsEntry *entries, int count, const char *const *metadata);

#endif
