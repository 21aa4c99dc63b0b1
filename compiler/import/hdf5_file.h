// What the parts of the HDF5 reader share: the file, bytes read with their bounds checked, and what
// a header says of an object.
#ifndef RNNC_IMPORT_HDF5_FILE_H
#define RNNC_IMPORT_HDF5_FILE_H

#include "import/hdf5.h"

/// Bytes still to be read. A read beyond the end gives 0 and sets `failed`, which stays.
typedef struct {
    const unsigned char *at;
    size_t left;
    bool failed;
} Hdf5Bytes;

typedef struct {
    const char *name;
    Hdf5Bytes type, space, data;
} Hdf5Attribute;

typedef struct {
    const char *name;
    uint64_t header_at;
} Hdf5Link;

/// Messages of an object's header. A part that is not there has no bytes.
struct Hdf5Stored {
    Hdf5Bytes type, space, layout, filters;
    bool is_elsewhere; ///< type shared with others, or data in other files
    Hdf5Attribute *attributes;
    int attribute_count;
};

struct Hdf5 {
    Arena *arena;
    Diags *diags;
    Span span;
    const char *path;
    const unsigned char *bytes; ///< from the superblock on: addresses count from here
    size_t size_bytes;
    uint64_t work_left; ///< bytes of structures that may still be read: nothing is read for ever
    Hdf5Object *objects;
    const Hdf5Object **by_path; ///< the objects, sorted
    int object_count, attribute_count;
};

/// A list of links in the making.
typedef struct {
    Hdf5Link *items;
    int count;
} Hdf5Links;

/// Adds a diagnostic that names the file; returns false.
bool hdf5_refuse(const Hdf5 *file, DiagCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// The `size_bytes` at an address; `failed` where they do not lie in the file or the work is spent.
Hdf5Bytes hdf5_block(Hdf5 *file, uint64_t address, uint64_t size_bytes);

/// Counts `bytes` of work; false where it is spent.
bool hdf5_spend(Hdf5 *file, uint64_t bytes);

/// The next `width` bytes as a little-endian number, 1 to 8 of them.
uint64_t hdf5_take(Hdf5Bytes *from, int width);

/// The next bytes as they are, `failed` where there are not so many.
Hdf5Bytes hdf5_take_bytes(Hdf5Bytes *from, uint64_t size_bytes);

/// Whether the next four bytes are this signature; steps over them.
bool hdf5_take_signature(Hdf5Bytes *from, const char *signature);

/// Adds a link, which must have a name without a slash. False with E0440 otherwise.
bool hdf5_add_link(Hdf5 *file, Hdf5Links *links, const unsigned char *name, size_t name_bytes,
                   uint64_t header_at);

/// Adds the links of an old group: a B-tree of symbol tables with their names in a local heap.
bool hdf5_read_symbol_table(Hdf5 *file, Hdf5Links *links, uint64_t tree_at, uint64_t heap_at);

/// Adds the link of a link message.
bool hdf5_read_link(Hdf5 *file, Hdf5Links *links, Hdf5Bytes message);

/// Takes the bytes of a link or attribute message.
typedef bool (*Hdf5TakeMessage)(Hdf5 *file, void *context, Hdf5Bytes message);

/// Gives every message of a fractal heap that the B-tree leads to; a record has its heap id `id_at`
/// bytes in. Adds E0440 or E0441 and returns false on a fault.
bool hdf5_read_dense(Hdf5 *file, uint64_t heap_at, uint64_t tree_at, int id_at,
                     Hdf5TakeMessage take, void *context);

/// Reads an attribute message into `stored`.
bool hdf5_read_attribute(Hdf5 *file, struct Hdf5Stored *stored, Hdf5Bytes message);

/// Reads a dataspace message: `*out_count` sizes into `dims`.
bool hdf5_read_space(const Hdf5 *file, Hdf5Bytes message, int64_t dims[HDF5_DIMS_MAX],
                     int *out_count);

/// The raw bytes of a dataset of `element_bytes` an element, all chunks put together.
const unsigned char *hdf5_raw(Hdf5 *file, const Hdf5Object *dataset, size_t element_bytes);

#endif
