// HDF5: links and attributes of newer files, where an object has many. The messages stand in a
// fractal heap; a B-tree (version 2) by the names' hashes leads to them:
//
//     BTHD -> BTIN -> BTLF: records with heap ids -> FRHP -> [FHIB ->] FHDB: messages
//
// Read are heaps whose root is a direct block or an indirect one of direct blocks (512 KB), and
// objects kept in them (64 KB each).
#include "import/hdf5_file.h"

#include <inttypes.h>

enum { LEVELS_MAX = 6, NODE_OVERHEAD_BYTES = 10, ADDRESS_BYTES = 8 };

typedef struct {
    uint64_t id_bytes, table_width, first_bytes, direct_max_bytes, root_at, root_rows;
    int offset_width, length_width; ///< of a heap id
} Heap;

typedef struct {
    Hdf5 *file;
    Heap heap;
    uint64_t node_bytes, record_bytes;
    int id_at;                    ///< where a record has its heap id
    int count_width;              ///< of a child's number of records
    int totals_width[LEVELS_MAX]; ///< of the records below a child, by the child's level
    Hdf5TakeMessage take;
    void *context;
} Dense;

static bool damaged(const Hdf5 *file)
{
    return hdf5_refuse(file, DIAG_E0440, "an index of links or attributes is damaged");
}

/// Bytes that the number needs.
static int width_of(uint64_t most)
{
    int width = 1;
    while (width < 8 && most >> (8 * width))
        width++;
    return width;
}

static bool read_heap(Hdf5 *file, uint64_t at, Heap *out)
{
    enum { HEAD_BYTES = 142 };
    Hdf5Bytes head = hdf5_block(file, at, HEAD_BYTES);
    const bool good = hdf5_take_signature(&head, "FRHP") && hdf5_take(&head, 1) == 0;
    *out = (Heap){.id_bytes = hdf5_take(&head, 2)};
    const uint64_t filter_bytes = hdf5_take(&head, 2);
    hdf5_take(&head, 1);
    const uint64_t object_max_bytes = hdf5_take(&head, 4);
    hdf5_take_bytes(&head, 12 * 8); // where free space is, and how much was used
    out->table_width = hdf5_take(&head, 2);
    out->first_bytes = hdf5_take(&head, 8);
    out->direct_max_bytes = hdf5_take(&head, 8);
    const uint64_t heap_bits = hdf5_take(&head, 2);
    hdf5_take(&head, 2);
    out->root_at = hdf5_take(&head, 8);
    out->root_rows = hdf5_take(&head, 2);
    if (!good || head.failed || out->id_bytes < 1 || out->id_bytes > 16 || heap_bits > 64 ||
        out->table_width == 0 || out->first_bytes == 0 ||
        out->first_bytes > out->direct_max_bytes || out->direct_max_bytes > UINT32_MAX)
        return damaged(file);
    if (filter_bytes)
        return hdf5_refuse(file, DIAG_E0441, "an index of links or attributes is compressed");
    const int by_block = width_of(out->direct_max_bytes - 1),
              by_object = width_of(object_max_bytes);
    out->offset_width = (int)((heap_bits + 7) / 8);
    out->length_width = by_block < by_object ? by_block : by_object;
    return true;
}

/// The direct block that holds `offset`, and its place in it.
static bool find_block(Hdf5 *file, const Heap *heap, uint64_t offset, uint64_t *out_at,
                       uint64_t *out_size_bytes, uint64_t *out_inner)
{
    const uint64_t row_bytes = heap->table_width * heap->first_bytes;
    uint64_t size_bytes = heap->first_bytes, row_at = 0, row = 0;
    *out_at = heap->root_at;
    *out_size_bytes = size_bytes;
    *out_inner = offset;
    if (heap->root_rows == 0)
        return true;
    while (offset - row_at >= heap->table_width * size_bytes) {
        row_at += heap->table_width * size_bytes;
        size_bytes = row_at / row_bytes * heap->first_bytes; // 1 1 2 4 8 ...
        if (++row >= heap->root_rows || size_bytes > heap->direct_max_bytes)
            return false;
    }
    const uint64_t column = (offset - row_at) / size_bytes;
    const uint64_t head_bytes = 13 + (uint64_t)heap->offset_width;
    Hdf5Bytes head = hdf5_block(file, heap->root_at, 4);
    Hdf5Bytes entry = hdf5_block(
        file, heap->root_at + head_bytes + ADDRESS_BYTES * (row * heap->table_width + column),
        ADDRESS_BYTES);
    *out_at = hdf5_take(&entry, ADDRESS_BYTES);
    *out_size_bytes = size_bytes;
    *out_inner = (offset - row_at) % size_bytes;
    return hdf5_take_signature(&head, "FHIB") && !entry.failed;
}

static bool take_object(const Dense *dense, Hdf5Bytes id)
{
    enum { KIND_MANAGED = 0 };
    uint64_t block_at, block_bytes, inner;
    if (hdf5_take(&id, 1) >> 4 != KIND_MANAGED)
        return hdf5_refuse(dense->file, DIAG_E0441, "a link or an attribute is over 64 KB");
    const uint64_t offset = hdf5_take(&id, dense->heap.offset_width);
    const uint64_t length = hdf5_take(&id, dense->heap.length_width);
    if (id.failed ||
        !find_block(dense->file, &dense->heap, offset, &block_at, &block_bytes, &inner) ||
        inner > block_bytes || block_bytes - inner < length)
        return damaged(dense->file);
    Hdf5Bytes head = hdf5_block(dense->file, block_at, 4);
    if (!hdf5_take_signature(&head, "FHDB") || inner > UINT64_MAX - block_at)
        return damaged(dense->file);
    Hdf5Bytes object = hdf5_block(dense->file, block_at + inner, length);
    return object.failed ? damaged(dense->file) : dense->take(dense->file, dense->context, object);
}

static bool take_records(const Dense *dense, Hdf5Bytes *node, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        Hdf5Bytes record = hdf5_take_bytes(node, dense->record_bytes);
        hdf5_take_bytes(&record, (uint64_t)dense->id_at);
        const Hdf5Bytes id = hdf5_take_bytes(&record, dense->heap.id_bytes);
        if (id.failed)
            return damaged(dense->file);
        if (!take_object(dense, id))
            return false;
    }
    return true;
}

static bool take_node(const Dense *dense, uint64_t at, uint64_t count, int level)
{
    Hdf5Bytes node = hdf5_block(dense->file, at, dense->node_bytes);
    if (!hdf5_take_signature(&node, level ? "BTIN" : "BTLF"))
        return damaged(dense->file);
    hdf5_take(&node, 2);
    if (!take_records(dense, &node, count))
        return false;
    for (uint64_t i = 0; level > 0 && i <= count; i++) {
        const uint64_t child_at = hdf5_take(&node, ADDRESS_BYTES);
        const uint64_t child_count = hdf5_take(&node, dense->count_width);
        if (level > 1)
            hdf5_take(&node, dense->totals_width[level - 1]);
        if (node.failed)
            return damaged(dense->file);
        if (!take_node(dense, child_at, child_count, level - 1))
            return false;
    }
    return true;
}

/// The widths of the numbers in internal nodes: they follow from how many records nodes can hold.
static void set_widths(Dense *dense, uint64_t depth)
{
    const uint64_t room = dense->node_bytes - NODE_OVERHEAD_BYTES;
    uint64_t below = room / dense->record_bytes; // records of a whole subtree
    dense->count_width = width_of(below);
    for (uint64_t level = 1; level < depth; level++) {
        const uint64_t pointer_bytes = ADDRESS_BYTES + (uint64_t)dense->count_width +
                                       (level > 1 ? (uint64_t)dense->totals_width[level - 1] : 0);
        const uint64_t records =
            room > pointer_bytes ? (room - pointer_bytes) / (dense->record_bytes + pointer_bytes)
                                 : 0;
        below = (records + 1) * below + records;
        dense->totals_width[level] = width_of(below);
    }
}

bool hdf5_read_dense(Hdf5 *file, uint64_t heap_at, uint64_t tree_at, int id_at,
                     Hdf5TakeMessage take, void *context)
{
    enum { HEAD_BYTES = 34, NODE_BYTES_MAX = 65536 };
    Dense dense = {.file = file, .id_at = id_at, .take = take, .context = context};
    if (!read_heap(file, heap_at, &dense.heap))
        return false;
    Hdf5Bytes head = hdf5_block(file, tree_at, HEAD_BYTES);
    const bool good = hdf5_take_signature(&head, "BTHD") && hdf5_take(&head, 1) == 0;
    hdf5_take(&head, 1);
    dense.node_bytes = hdf5_take(&head, 4);
    dense.record_bytes = hdf5_take(&head, 2);
    const uint64_t depth = hdf5_take(&head, 2);
    hdf5_take(&head, 2);
    const uint64_t root_at = hdf5_take(&head, 8), count = hdf5_take(&head, 2);
    if (!good || head.failed || dense.node_bytes <= NODE_OVERHEAD_BYTES ||
        dense.node_bytes > NODE_BYTES_MAX || dense.record_bytes == 0 || depth >= LEVELS_MAX)
        return damaged(file);
    set_widths(&dense, depth);
    return count == 0 || take_node(&dense, root_at, count, (int)depth);
}
