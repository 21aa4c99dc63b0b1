// HDF5: the links of groups. Old groups keep them in a B-tree of symbol tables, whose names stand
// in a local heap; newer ones in link messages.
#include "import/hdf5_file.h"

#include <string.h>

enum { LEVELS_MAX = 16, NODE_BYTES = 24, TABLE_BYTES = 8, ENTRY_BYTES = 40 };

/// The bytes of a local heap that hold the names.
static Hdf5Bytes open_heap(Hdf5 *file, uint64_t heap_at)
{
    Hdf5Bytes head = hdf5_block(file, heap_at, 32);
    const bool good = hdf5_take_signature(&head, "HEAP") && hdf5_take(&head, 1) == 0;
    hdf5_take(&head, 3);
    const uint64_t size_bytes = hdf5_take(&head, 8);
    hdf5_take(&head, 8);
    const uint64_t data_at = hdf5_take(&head, 8);
    Hdf5Bytes data = hdf5_block(file, data_at, size_bytes);
    data.failed |= !good || head.failed;
    return data;
}

static bool read_table(Hdf5 *file, Hdf5Links *links, Hdf5Bytes names, uint64_t at)
{
    enum { CACHED_SOFT_LINK = 2 };
    Hdf5Bytes head = hdf5_block(file, at, TABLE_BYTES);
    const bool good = hdf5_take_signature(&head, "SNOD") && hdf5_take(&head, 1) == 1;
    hdf5_take(&head, 1);
    const uint64_t count = hdf5_take(&head, 2);
    Hdf5Bytes entries = hdf5_block(file, at + TABLE_BYTES, count * ENTRY_BYTES);
    if (!good || head.failed || entries.failed)
        return hdf5_refuse(file, DIAG_E0440, "a group's symbol table is damaged");
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t name_at = hdf5_take(&entries, 8), header_at = hdf5_take(&entries, 8);
        const uint64_t cached = hdf5_take(&entries, 4);
        hdf5_take_bytes(&entries, 20);
        const unsigned char *name = names.at + (name_at < names.left ? name_at : names.left);
        const size_t most = names.left - (size_t)(name - names.at);
        const size_t length = strnlen((const char *)name, most);
        if (length == most)
            return hdf5_refuse(file, DIAG_E0440, "a link's name lies outside its heap");
        if (cached == CACHED_SOFT_LINK)
            return hdf5_refuse(file, DIAG_E0441, "'%s' is a soft link", (const char *)name);
        if (!hdf5_spend(file, length))
            return hdf5_refuse(file, DIAG_E0440, "its structures overlap");
        if (!hdf5_add_link(file, links, name, length, header_at))
            return false;
    }
    return true;
}

/// A node at `level` (0: its children are symbol tables); -1: that of the root, any.
static bool read_node(Hdf5 *file, Hdf5Links *links, Hdf5Bytes names, uint64_t at, int level)
{
    Hdf5Bytes head = hdf5_block(file, at, NODE_BYTES);
    const bool good = hdf5_take_signature(&head, "TREE") && hdf5_take(&head, 1) == 0;
    const int found = (int)hdf5_take(&head, 1);
    const uint64_t count = hdf5_take(&head, 2);
    Hdf5Bytes children = hdf5_block(file, at + NODE_BYTES, count * 16 + 8);
    if (!good || head.failed || children.failed || (level >= 0 && found != level) ||
        found > LEVELS_MAX)
        return hdf5_refuse(file, DIAG_E0440, "a group's B-tree is damaged");
    for (uint64_t i = 0; i < count; i++) {
        hdf5_take(&children, 8); // the key: a name's place
        const uint64_t child_at = hdf5_take(&children, 8);
        if (!(found == 0 ? read_table(file, links, names, child_at)
                         : read_node(file, links, names, child_at, found - 1)))
            return false;
    }
    return true;
}

bool hdf5_read_symbol_table(Hdf5 *file, Hdf5Links *links, uint64_t tree_at, uint64_t heap_at)
{
    Hdf5Bytes names = open_heap(file, heap_at);
    if (names.failed)
        return hdf5_refuse(file, DIAG_E0440, "a group's local heap is damaged");
    return read_node(file, links, names, tree_at, -1);
}

bool hdf5_read_link(Hdf5 *file, Hdf5Links *links, Hdf5Bytes message)
{
    enum { FLAG_ORDER = 4, FLAG_TYPE = 8, FLAG_CHARSET = 16 };
    const uint64_t version = hdf5_take(&message, 1), flags = hdf5_take(&message, 1);
    const uint64_t type = flags & FLAG_TYPE ? hdf5_take(&message, 1) : 0;
    if (flags & FLAG_ORDER)
        hdf5_take(&message, 8);
    if (flags & FLAG_CHARSET)
        hdf5_take(&message, 1);
    Hdf5Bytes name = hdf5_take_bytes(&message, hdf5_take(&message, 1 << (flags & 3)));
    if (message.failed || version != 1)
        return hdf5_refuse(file, DIAG_E0440, "a link message is damaged");
    if (type != 0)
        return hdf5_refuse(file, DIAG_E0441, "'%.*s' is %s link", (int)(name.left & 0xffff),
                           (const char *)name.at, type == 1 ? "a soft" : "an external");
    const uint64_t header_at = hdf5_take(&message, 8);
    if (message.failed)
        return hdf5_refuse(file, DIAG_E0440, "a link message is damaged");
    return hdf5_add_link(file, links, name.at, name.left, header_at);
}
