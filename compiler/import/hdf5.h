// HDF5: a reader of files as h5py writes them (HDF5 File Format Specification 3.0): groups by
// symbol tables or link messages, attributes of text, datasets of floats, stored whole or in chunks
// under deflate, shuffle and Fletcher checksums. Written for files from anywhere: all is read from
// one block of memory and every place is checked before it is read; soft and external links,
// external and virtual storage are refused, so nothing outside the file is ever opened. HDF5's own
// library is not used: it is known to fail on damaged files, and its static archive brings an HTTP
// client.
//
//     Hdf5 *file = hdf5_parse(arena, diags, "m.h5", span, bytes, size_bytes);
//     const Hdf5Object *kernel = hdf5_find(file, "layers/lstm/cell/vars/0");
//     const float *values = hdf5_floats(file, kernel);
#ifndef RNNC_IMPORT_HDF5_H
#define RNNC_IMPORT_HDF5_H

#include "base/diag.h"

enum { HDF5_DIMS_MAX = 8, HDF5_OBJECTS_MAX = 65536, HDF5_DEPTH_MAX = 32 };

/// A group or a dataset.
typedef struct {
    const char *path; ///< "layers/lstm/cell/vars/0"; "" is the root
    bool is_dataset;
    int dim_count; ///< of a dataset; 0: a scalar
    int64_t dims[HDF5_DIMS_MAX];
    const struct Hdf5Stored *stored; ///< where its values and attributes are
} Hdf5Object;

typedef struct Hdf5 Hdf5;

/// Whether the bytes start as an HDF5 file does.
bool hdf5_is(const unsigned char *bytes, size_t size_bytes);

/// Reads every group and the description of every dataset of a file in memory, which must outlive
/// the result; `path` is for messages. Adds E0440 or E0441 at `span` and returns NULL on a fault.
Hdf5 *hdf5_parse(Arena *arena, Diags *diags, const char *path, Span span,
                 const unsigned char *bytes, size_t size_bytes);

/// The objects, a group before what it holds. `*out_count` gets their number.
const Hdf5Object *hdf5_objects(const Hdf5 *file, int *out_count);

/// The object at this path, or NULL.
const Hdf5Object *hdf5_find(const Hdf5 *file, const char *path);

/// All elements of a dataset of float16, bfloat16, float32 or float64, row-major, in the arena.
/// Adds E0440 or E0441 and returns NULL where they cannot be read.
const float *hdf5_floats(Hdf5 *file, const Hdf5Object *dataset);

/// The same of a dataset of 16-bit words, or opaque pairs of bytes, that hold bfloat16, as h5py
/// writes it; of floats as above.
const float *hdf5_bfloats(Hdf5 *file, const Hdf5Object *dataset);

/// The texts of an attribute: NULL without a diagnostic where there is none or it holds no text (an
/// empty list is of numbers in h5py); with one where it is damaged.
const char *const *hdf5_texts(Hdf5 *file, const Hdf5Object *object, const char *name,
                              int *out_count);

/// The first text of an attribute, or NULL as above.
const char *hdf5_text(Hdf5 *file, const Hdf5Object *object, const char *name);

#endif
