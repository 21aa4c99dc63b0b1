// HDF5: superblock, object headers and the walk over all groups; see hdf5.h. Checksums of the newer
// structures are not looked at: every number in them is checked for what it may do.
//
//     superblock -> header of the root group -> links -> header of each object -> messages
#include "import/hdf5_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

enum { CHUNKS_MAX = 256, WORK_FACTOR = 64, WORK_FREE = 1 << 20, ATTRIBUTES_MAX = 65536 };

/// Numbers of the messages that are read.
enum {
    MESSAGE_SPACE = 0x01,
    MESSAGE_LINK_INFO = 0x02,
    MESSAGE_TYPE = 0x03,
    MESSAGE_LINK = 0x06,
    MESSAGE_EXTERNAL = 0x07,
    MESSAGE_LAYOUT = 0x08,
    MESSAGE_FILTERS = 0x0b,
    MESSAGE_ATTRIBUTE = 0x0c,
    MESSAGE_CONTINUATION = 0x10,
    MESSAGE_SYMBOL_TABLE = 0x11,
    MESSAGE_ATTRIBUTE_INFO = 0x15,
    FLAG_SHARED = 2
};

/// An object's header while it is read: its blocks, and the links found.
typedef struct {
    struct {
        uint64_t at, size_bytes;
    } blocks[CHUNKS_MAX];
    int block_count;
    bool is_new;        ///< version 2: "OHDR" and "OCHK"
    bool counts_orders; ///< version 2: messages have a creation order
    Hdf5Links links;
    struct Hdf5Stored *stored;
} Header;

bool hdf5_is(const unsigned char *bytes, size_t size_bytes)
{
    return size_bytes >= sizeof signature && memcmp(bytes, signature, sizeof signature) == 0;
}

bool hdf5_refuse(const Hdf5 *file, DiagCode code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(file->arena, format, arguments);
    va_end(arguments);
    diag_add(file->diags, code, file->span, "'%s': %s", file->path, text);
    return false;
}

bool hdf5_spend(Hdf5 *file, uint64_t bytes)
{
    if (bytes > file->work_left)
        return false;
    file->work_left -= bytes;
    return true;
}

Hdf5Bytes hdf5_block(Hdf5 *file, uint64_t address, uint64_t size_bytes)
{
    if (address > file->size_bytes || file->size_bytes - address < size_bytes ||
        !hdf5_spend(file, size_bytes))
        return (Hdf5Bytes){.at = file->bytes, .failed = true};
    return (Hdf5Bytes){.at = file->bytes + address, .left = (size_t)size_bytes};
}

uint64_t hdf5_take(Hdf5Bytes *from, int width)
{
    Hdf5Bytes bytes = hdf5_take_bytes(from, (uint64_t)width);
    uint64_t value = 0;
    for (int i = bytes.failed ? 0 : width; i-- > 0;)
        value = value << 8 | bytes.at[i];
    return value;
}

Hdf5Bytes hdf5_take_bytes(Hdf5Bytes *from, uint64_t size_bytes)
{
    if (from->failed || from->left < size_bytes) {
        from->failed = true;
        from->left = 0;
        return *from;
    }
    Hdf5Bytes taken = {.at = from->at, .left = (size_t)size_bytes};
    from->at += size_bytes;
    from->left -= (size_t)size_bytes;
    return taken;
}

bool hdf5_take_signature(Hdf5Bytes *from, const char *wanted)
{
    Hdf5Bytes found = hdf5_take_bytes(from, 4);
    return !found.failed && memcmp(found.at, wanted, 4) == 0;
}

bool hdf5_add_link(Hdf5 *file, Hdf5Links *links, const unsigned char *name, size_t name_bytes,
                   uint64_t header_at)
{
    if (name_bytes == 0 || memchr(name, '/', name_bytes) || memchr(name, 0, name_bytes))
        return hdf5_refuse(file, DIAG_E0440, "a link has no name, or a slash in it");
    if (links->count >= HDF5_OBJECTS_MAX)
        return hdf5_refuse(file, DIAG_E0441, "a group has over %d links", HDF5_OBJECTS_MAX);
    Hdf5Link link = {arena_copy(file->arena, (const char *)name, name_bytes), header_at};
    ARENA_PUSH(file->arena, links->items, links->count, link);
    return true;
}

static bool add_block(Hdf5 *file, Header *header, uint64_t at, uint64_t size_bytes)
{
    if (header->block_count == CHUNKS_MAX)
        return hdf5_refuse(file, DIAG_E0441, "the header of an object has over %d blocks",
                           CHUNKS_MAX);
    header->blocks[header->block_count].at = at;
    header->blocks[header->block_count++].size_bytes = size_bytes;
    return true;
}

static bool take_link(Hdf5 *file, void *header, Hdf5Bytes message)
{
    return hdf5_read_link(file, &((Header *)header)->links, message);
}

static bool take_attribute(Hdf5 *file, void *header, Hdf5Bytes message)
{
    if (file->attribute_count++ == ATTRIBUTES_MAX)
        return hdf5_refuse(file, DIAG_E0441, "over %d attributes", ATTRIBUTES_MAX);
    return hdf5_read_attribute(file, ((Header *)header)->stored, message);
}

/// Link info and attribute info lead to a heap where there are many.
static bool read_index(Hdf5 *file, Header *header, Hdf5Bytes message, bool of_links)
{
    enum { LINK_HASH_BYTES = 4 };
    hdf5_take(&message, 1);
    if (hdf5_take(&message, 1) & 1) // the highest creation order
        hdf5_take(&message, of_links ? 8 : 2);
    const uint64_t heap_at = hdf5_take(&message, 8), tree_at = hdf5_take(&message, 8);
    if (message.failed || heap_at == UINT64_MAX)
        return true;
    return hdf5_read_dense(file, heap_at, tree_at, of_links ? LINK_HASH_BYTES : 0,
                           of_links ? take_link : take_attribute, header);
}

static bool read_message(Hdf5 *file, Header *header, int type, bool shared, Hdf5Bytes message)
{
    struct Hdf5Stored *stored = header->stored;
    switch (type) {
    case MESSAGE_SPACE:
        stored->space = message;
        return true;
    case MESSAGE_TYPE:
        stored->type = message;
        stored->is_elsewhere |= shared;
        return true;
    case MESSAGE_LAYOUT:
        stored->layout = message;
        return true;
    case MESSAGE_FILTERS:
        stored->filters = message;
        stored->is_elsewhere |= shared;
        return true;
    case MESSAGE_EXTERNAL:
        stored->is_elsewhere = true;
        return true;
    case MESSAGE_LINK:
        return hdf5_read_link(file, &header->links, message);
    case MESSAGE_LINK_INFO:
        return read_index(file, header, message, true);
    case MESSAGE_ATTRIBUTE_INFO:
        return read_index(file, header, message, false);
    case MESSAGE_ATTRIBUTE:
        if (shared)
            return hdf5_refuse(file, DIAG_E0441, "an attribute is shared between objects");
        return take_attribute(file, header, message);
    case MESSAGE_CONTINUATION: {
        const uint64_t at = hdf5_take(&message, 8), size_bytes = hdf5_take(&message, 8);
        return add_block(file, header, at, size_bytes);
    }
    case MESSAGE_SYMBOL_TABLE: {
        const uint64_t tree_at = hdf5_take(&message, 8), heap_at = hdf5_take(&message, 8);
        return hdf5_read_symbol_table(file, &header->links, tree_at, heap_at);
    }
    default: // times, comments, fill values, ...: they say nothing of the values stored
        return true;
    }
}

/// The messages of one block. Less than a message's head at its end is a gap.
static bool read_messages(Hdf5 *file, Header *header, Hdf5Bytes block)
{
    const size_t head_bytes = header->is_new ? (header->counts_orders ? 6 : 4) : 8;
    while (block.left >= head_bytes) {
        Hdf5Bytes head = hdf5_take_bytes(&block, head_bytes);
        const int type = (int)hdf5_take(&head, header->is_new ? 1 : 2);
        const uint64_t size_bytes = hdf5_take(&head, 2);
        const bool shared = hdf5_take(&head, 1) & FLAG_SHARED;
        Hdf5Bytes message = hdf5_take_bytes(&block, size_bytes);
        if (message.failed)
            return hdf5_refuse(file, DIAG_E0440, "a header's message is cut short");
        if (!read_message(file, header, type, shared, message))
            return false;
    }
    return true;
}

/// The head of an object's header: its first block.
static bool read_head(Hdf5 *file, Header *header, uint64_t at)
{
    enum { OLD_BYTES = 16, NEW_BYTES = 6, FLAG_TIMES = 0x20, FLAG_PHASES = 0x10, FLAG_ORDER = 4 };
    Hdf5Bytes head = hdf5_block(file, at, NEW_BYTES), peek = head;
    if (hdf5_take_signature(&peek, "OHDR") && hdf5_take(&peek, 1) == 2) {
        const uint64_t flags = hdf5_take(&peek, 1);
        header->is_new = true;
        header->counts_orders = flags & FLAG_ORDER;
        const uint64_t skip = (flags & FLAG_TIMES ? 16 : 0) + (flags & FLAG_PHASES ? 4 : 0);
        const int width = 1 << (flags & 3);
        Hdf5Bytes size = hdf5_block(file, at + NEW_BYTES + skip, (uint64_t)width);
        const uint64_t size_bytes = hdf5_take(&size, width);
        return !size.failed &&
               add_block(file, header, at + NEW_BYTES + skip + (uint64_t)width, size_bytes);
    }
    head = hdf5_block(file, at, OLD_BYTES);
    const uint64_t version = hdf5_take(&head, 1);
    hdf5_take(&head, 7);
    const uint64_t size_bytes = hdf5_take(&head, 4);
    return !head.failed && version == 1 && add_block(file, header, at + OLD_BYTES, size_bytes);
}

static bool read_header(Hdf5 *file, Header *header, uint64_t at, const char *path)
{
    if (!read_head(file, header, at))
        return hdf5_refuse(file, DIAG_E0440, "'/%s' has no header", path);
    for (int i = 0; i < header->block_count; i++) {
        Hdf5Bytes block = hdf5_block(file, header->blocks[i].at, header->blocks[i].size_bytes);
        if (i > 0 && header->is_new) {
            block.failed |= !hdf5_take_signature(&block, "OCHK") || block.left < 4;
            block.left -= block.failed ? block.left : 4; // its checksum
        }
        if (block.failed)
            return hdf5_refuse(file, DIAG_E0440, "the header of '/%s' lies outside the file", path);
        if (!read_messages(file, header, block))
            return false;
    }
    return true;
}

static bool read_object(Hdf5 *file, uint64_t at, const char *path, int depth)
{
    if (file->object_count == HDF5_OBJECTS_MAX)
        return hdf5_refuse(file, DIAG_E0441, "over %d groups and datasets", HDF5_OBJECTS_MAX);
    if (depth > HDF5_DEPTH_MAX)
        return hdf5_refuse(file, DIAG_E0441, "groups stand over %d deep", HDF5_DEPTH_MAX);
    if (!hdf5_spend(file, strlen(path)))
        return hdf5_refuse(file, DIAG_E0440, "its structures overlap");
    Header header = {.stored = ARENA_NEW(file->arena, struct Hdf5Stored)};
    if (!read_header(file, &header, at, path))
        return false;
    Hdf5Object object = {
        .path = path, .is_dataset = header.stored->layout.at != NULL, .stored = header.stored};
    if (object.is_dataset &&
        !hdf5_read_space(file, header.stored->space, object.dims, &object.dim_count))
        return false;
    ARENA_PUSH(file->arena, file->objects, file->object_count, object);
    for (int i = 0; i < header.links.count; i++) {
        const Hdf5Link *link = &header.links.items[i];
        const char *below = arena_format(file->arena, "%s%s%s", path, *path ? "/" : "", link->name);
        if (!read_object(file, link->header_at, below, depth + 1))
            return false;
    }
    return true;
}

/// Finds where the root group's header is.
static bool read_superblock(Hdf5 *file, uint64_t *out_root_at)
{
    Hdf5Bytes block = {.at = file->bytes, .left = file->size_bytes};
    if (!hdf5_is(file->bytes, file->size_bytes))
        return hdf5_refuse(file, DIAG_E0440, "this is not an HDF5 file");
    hdf5_take(&block, 8);
    const uint64_t version = hdf5_take(&block, 1);
    if (version > 3)
        return hdf5_refuse(file, DIAG_E0441, "its superblock is of version %" PRIu64, version);
    if (version < 2)
        hdf5_take(&block, 4);
    const uint64_t offset_bytes = hdf5_take(&block, 1), length_bytes = hdf5_take(&block, 1);
    if (version < 2)
        hdf5_take_bytes(&block, version == 1 ? 13 : 9);
    else
        hdf5_take(&block, 1);
    const uint64_t base_at = hdf5_take(&block, 8);
    hdf5_take_bytes(&block, version < 2 ? 32 : 16);
    *out_root_at = hdf5_take(&block, 8);
    if (block.failed)
        return hdf5_refuse(file, DIAG_E0440, "its superblock is cut short");
    if (offset_bytes != 8 || length_bytes != 8 || base_at != 0)
        return hdf5_refuse(file, DIAG_E0441, "its addresses are not of 8 bytes, or not from 0");
    return true;
}

static int by_path(const void *left, const void *right)
{
    const Hdf5Object *const *a = left, *const *b = right;
    return strcmp((*a)->path, (*b)->path);
}

/// Sorts the objects for hdf5_find. Each path leads to one.
static bool index_objects(Hdf5 *file)
{
    file->by_path = ARENA_ARRAY(file->arena, const Hdf5Object *, file->object_count);
    for (int i = 0; i < file->object_count; i++)
        file->by_path[i] = &file->objects[i];
    qsort(file->by_path, (size_t)file->object_count, sizeof *file->by_path, by_path);
    for (int i = 1; i < file->object_count; i++)
        if (strcmp(file->by_path[i - 1]->path, file->by_path[i]->path) == 0)
            return hdf5_refuse(file, DIAG_E0440, "'/%s' is there twice", file->by_path[i]->path);
    return true;
}

Hdf5 *hdf5_parse(Arena *arena, Diags *diags, const char *path, Span span,
                 const unsigned char *bytes, size_t size_bytes)
{
    Hdf5 *file = ARENA_NEW(arena, Hdf5);
    *file = (Hdf5){.arena = arena,
                   .diags = diags,
                   .span = span,
                   .path = arena_copy(arena, path, strlen(path)),
                   .bytes = bytes,
                   .size_bytes = size_bytes,
                   .work_left = (uint64_t)size_bytes * WORK_FACTOR + WORK_FREE};
    uint64_t root_at = 0;
    const bool good =
        read_superblock(file, &root_at) && read_object(file, root_at, "", 0) && index_objects(file);
    return good ? file : NULL;
}

const Hdf5Object *hdf5_objects(const Hdf5 *file, int *out_count)
{
    *out_count = file->object_count;
    return file->objects;
}

const Hdf5Object *hdf5_find(const Hdf5 *file, const char *path)
{
    const Hdf5Object wanted = {.path = path}, *key = &wanted;
    const Hdf5Object *const *found =
        bsearch(&key, file->by_path, (size_t)file->object_count, sizeof *file->by_path, by_path);
    return found ? *found : NULL;
}
