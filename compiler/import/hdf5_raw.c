// HDF5: the raw bytes of a dataset: in its header, in one piece, or in chunks that a B-tree leads
// to, each under deflate, shuffle and Fletcher-32.
#include "import/hdf5_file.h"

#include <inttypes.h>
#include <string.h>
#include <zlib.h>

enum {
    LAYOUT_COMPACT = 0,
    LAYOUT_CONTIGUOUS = 1,
    LAYOUT_CHUNKED = 2,
    FILTERS_MAX = 8,
    LEVELS_MAX = 16,
    DEFLATE_RATIO_MAX = 1032
};

typedef enum { FILTER_DEFLATE = 1, FILTER_SHUFFLE = 2, FILTER_FLETCHER = 3 } FilterKind;

/// A chunked dataset while its chunks are put together.
typedef struct {
    Hdf5 *file;
    const Hdf5Object *dataset;
    size_t element_bytes, chunk_bytes;
    uint64_t chunk_dims[HDF5_DIMS_MAX];
    uint64_t chunks_left; ///< of those that the shape needs
    FilterKind filters[FILTERS_MAX];
    int filter_count;
    unsigned char *out, *is_there; ///< elements; a byte a chunk
} Gathering;

static bool damaged(const Hdf5 *file, const Hdf5Object *dataset)
{
    return hdf5_refuse(file, DIAG_E0440, "the data of '/%s' is damaged, or cut short",
                       dataset->path);
}

/// Reads the filter pipeline message.
static bool read_filters(Gathering *gathering)
{
    Hdf5Bytes message = gathering->dataset->stored->filters;
    if (!message.at)
        return true;
    const uint64_t version = hdf5_take(&message, 1), count = hdf5_take(&message, 1);
    if (version == 1)
        hdf5_take(&message, 6);
    if (message.failed || version < 1 || version > 2 || count > FILTERS_MAX)
        return damaged(gathering->file, gathering->dataset);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t id = hdf5_take(&message, 2);
        const uint64_t name_bytes = version == 1 || id >= 256 ? hdf5_take(&message, 2) : 0;
        hdf5_take(&message, 2);
        const uint64_t values = hdf5_take(&message, 2);
        hdf5_take_bytes(&message, version == 1 ? (name_bytes + 7) & ~UINT64_C(7) : name_bytes);
        hdf5_take_bytes(&message, 4 * (version == 1 ? (values + 1) & ~UINT64_C(1) : values));
        if (message.failed)
            return damaged(gathering->file, gathering->dataset);
        if (id < FILTER_DEFLATE || id > FILTER_FLETCHER)
            return hdf5_refuse(gathering->file, DIAG_E0441,
                               "'/%s' is under filter %" PRIu64 ", not deflate or shuffle",
                               gathering->dataset->path, id);
        gathering->filters[gathering->filter_count++] = (FilterKind)id;
    }
    return true;
}

static bool inflate_chunk(Hdf5Bytes *chunk, Arena *arena, size_t most_bytes)
{
    if (chunk->left < most_bytes / DEFLATE_RATIO_MAX)
        return false;
    unsigned char *plain = arena_alloc(arena, most_bytes + 1);
    uLongf plain_bytes = (uLongf)most_bytes;
    if (uncompress(plain, &plain_bytes, chunk->at, (uLong)chunk->left) != Z_OK)
        return false;
    *chunk = (Hdf5Bytes){.at = plain, .left = (size_t)plain_bytes};
    return true;
}

/// Shuffle stores the first bytes of all elements, then the second ones, and so on.
static void unshuffle_chunk(Hdf5Bytes *chunk, Arena *arena, size_t element_bytes)
{
    unsigned char *plain = arena_alloc(arena, chunk->left + 1);
    const size_t elems = chunk->left / element_bytes, whole = elems * element_bytes;
    for (size_t i = 0; i < whole; i++)
        plain[i % elems * element_bytes + i / elems] = chunk->at[i];
    memcpy(plain + whole, chunk->at + whole, chunk->left - whole);
    chunk->at = plain;
}

/// Undoes the filters, last first; `skipped` has a bit for each that was left out.
static bool unfilter(const Gathering *gathering, Hdf5Bytes *chunk, uint64_t skipped)
{
    Arena *arena = gathering->file->arena;
    for (int i = gathering->filter_count; i-- > 0;) {
        if (skipped >> i & 1)
            continue;
        // A checksum below deflate makes its plain bytes 4 more than the chunk's.
        if (gathering->filters[i] == FILTER_DEFLATE &&
            !inflate_chunk(chunk, arena, gathering->chunk_bytes + 4))
            return false;
        if (gathering->filters[i] == FILTER_SHUFFLE)
            unshuffle_chunk(chunk, arena, gathering->element_bytes);
        if (gathering->filters[i] == FILTER_FLETCHER) {
            if (chunk->left < 4)
                return false;
            chunk->left -= 4;
        }
    }
    return chunk->left >= gathering->chunk_bytes;
}

/// Copies the part of a chunk that lies in the dataset, row by row of the last dimension.
static void place_chunk(const Gathering *gathering, const unsigned char *from,
                        const uint64_t *offsets)
{
    const int rank = gathering->dataset->dim_count;
    uint64_t at[HDF5_DIMS_MAX] = {0}, size[HDF5_DIMS_MAX];
    for (int i = 0; i < rank; i++) {
        const uint64_t left = (uint64_t)gathering->dataset->dims[i] - offsets[i];
        size[i] = gathering->chunk_dims[i] < left ? gathering->chunk_dims[i] : left;
    }
    for (bool more = true; more;) {
        uint64_t to_elem = 0, from_elem = 0;
        for (int i = 0; i < rank; i++) {
            to_elem = to_elem * (uint64_t)gathering->dataset->dims[i] + offsets[i] + at[i];
            from_elem = from_elem * gathering->chunk_dims[i] + at[i];
        }
        memcpy(gathering->out + to_elem * gathering->element_bytes,
               from + from_elem * gathering->element_bytes,
               (size_t)size[rank - 1] * gathering->element_bytes);
        int i = rank - 2;
        while (i >= 0 && ++at[i] == size[i])
            at[i--] = 0;
        more = i >= 0;
    }
}

/// One chunk of the tree's lowest level: `key` has its stored size, skipped filters and place.
static bool take_chunk(Gathering *gathering, Hdf5Bytes key, uint64_t at)
{
    const uint64_t stored_bytes = hdf5_take(&key, 4), skipped = hdf5_take(&key, 4);
    uint64_t offsets[HDF5_DIMS_MAX], index = 0;
    for (int i = 0; i < gathering->dataset->dim_count; i++) {
        const uint64_t dim = (uint64_t)gathering->dataset->dims[i];
        const uint64_t chunk_dim = gathering->chunk_dims[i];
        offsets[i] = hdf5_take(&key, 8);
        if (offsets[i] >= dim || offsets[i] % chunk_dim != 0)
            return damaged(gathering->file, gathering->dataset);
        index = index * ((dim - 1) / chunk_dim + 1) + offsets[i] / chunk_dim;
    }
    Hdf5Bytes chunk = hdf5_block(gathering->file, at, stored_bytes);
    if (chunk.failed || gathering->is_there[index] || !unfilter(gathering, &chunk, skipped))
        return damaged(gathering->file, gathering->dataset);
    gathering->is_there[index] = 1;
    gathering->chunks_left -= 1;
    place_chunk(gathering, chunk.at, offsets);
    return true;
}

static bool take_node(Gathering *gathering, uint64_t at, int level)
{
    enum { HEAD_BYTES = 24 };
    const uint64_t key_bytes = 8 + 8 * ((uint64_t)gathering->dataset->dim_count + 1);
    Hdf5Bytes head = hdf5_block(gathering->file, at, HEAD_BYTES);
    const bool good = hdf5_take_signature(&head, "TREE") && hdf5_take(&head, 1) == 1;
    const int found = (int)hdf5_take(&head, 1);
    const uint64_t count = hdf5_take(&head, 2);
    Hdf5Bytes children = hdf5_block(gathering->file, at + HEAD_BYTES, count * (key_bytes + 8));
    if (!good || head.failed || children.failed || found > LEVELS_MAX ||
        (level >= 0 && found != level))
        return damaged(gathering->file, gathering->dataset);
    for (uint64_t i = 0; i < count; i++) {
        const Hdf5Bytes key = hdf5_take_bytes(&children, key_bytes);
        const uint64_t child_at = hdf5_take(&children, 8);
        if (!(found == 0 ? take_chunk(gathering, key, child_at)
                         : take_node(gathering, child_at, found - 1)))
            return false;
    }
    return true;
}

/// Reads the chunks' shape and makes room. `elems` is above 0.
static bool start_gathering(Gathering *gathering, Hdf5Bytes *layout, uint64_t elems)
{
    const int rank = gathering->dataset->dim_count;
    uint64_t chunk_elems = 1, chunks = 1;
    for (int i = 0; i < rank; i++) {
        const uint64_t dim = hdf5_take(layout, 4);
        gathering->chunk_dims[i] = dim;
        if (dim == 0 || __builtin_mul_overflow(chunk_elems, dim, &chunk_elems) ||
            chunk_elems > UINT32_MAX)
            return damaged(gathering->file, gathering->dataset);
        chunks *= ((uint64_t)gathering->dataset->dims[i] - 1) / dim + 1;
    }
    const uint64_t element_bytes = hdf5_take(layout, 4);
    const uint64_t size_bytes = elems * gathering->element_bytes;
    if (layout->failed || element_bytes != gathering->element_bytes ||
        size_bytes / DEFLATE_RATIO_MAX > gathering->file->size_bytes)
        return damaged(gathering->file, gathering->dataset);
    gathering->chunk_bytes = (size_t)(chunk_elems * element_bytes);
    gathering->chunks_left = chunks;
    gathering->is_there = arena_alloc(gathering->file->arena, (size_t)chunks);
    gathering->out = arena_alloc(gathering->file->arena, (size_t)size_bytes);
    return read_filters(gathering);
}

static const unsigned char *gather(Hdf5 *file, const Hdf5Object *dataset, size_t element_bytes,
                                   uint64_t elems, Hdf5Bytes layout)
{
    Gathering gathering = {.file = file, .dataset = dataset, .element_bytes = element_bytes};
    const uint64_t rank = hdf5_take(&layout, 1), tree_at = hdf5_take(&layout, 8);
    if (layout.failed || dataset->dim_count == 0 || rank != (uint64_t)dataset->dim_count + 1) {
        damaged(file, dataset);
        return NULL;
    }
    if (elems == 0)
        return file->bytes;
    if (!start_gathering(&gathering, &layout, elems) || !take_node(&gathering, tree_at, -1))
        return NULL;
    if (gathering.chunks_left == 0)
        return gathering.out;
    hdf5_refuse(file, DIAG_E0441, "'/%s' has chunks that were never written", dataset->path);
    return NULL;
}

const unsigned char *hdf5_raw(Hdf5 *file, const Hdf5Object *dataset, size_t element_bytes)
{
    Hdf5Bytes layout = dataset->stored->layout;
    const uint64_t version = hdf5_take(&layout, 1), class = hdf5_take(&layout, 1);
    uint64_t elems = 1; // its product fits: hdf5_read_space has seen to it
    for (int i = 0; i < dataset->dim_count; i++)
        elems *= (uint64_t)dataset->dims[i];
    if (dataset->stored->is_elsewhere || layout.failed || (version != 3 && version != 4) ||
        class > LAYOUT_CHUNKED || (version == 4 && class == LAYOUT_CHUNKED)) {
        hdf5_refuse(file, DIAG_E0441,
                    "'/%s' is stored in other files, or by layout %" PRIu64 " of version %" PRIu64,
                    dataset->path, class, version);
        return NULL;
    }
    if (class == LAYOUT_CHUNKED)
        return gather(file, dataset, element_bytes, elems, layout);
    Hdf5Bytes data;
    if (class == LAYOUT_COMPACT) {
        data = hdf5_take_bytes(&layout, hdf5_take(&layout, 2));
    } else {
        const uint64_t at = hdf5_take(&layout, 8), size_bytes = hdf5_take(&layout, 8);
        data = size_bytes == 0 ? (Hdf5Bytes){.at = file->bytes} : hdf5_block(file, at, size_bytes);
    }
    if (!data.failed && data.left >= elems * element_bytes)
        return data.at;
    damaged(file, dataset);
    return NULL;
}
