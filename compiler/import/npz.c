// npz: a zip reader and writer as far as NumPy's archives need (APPNOTE.TXT 4.3, PKWARE). Read from
// the end: the end record leads to the central directory, each of its entries to a local header and
// the member's data. Sizes come from the central directory alone, and every place is checked
// before it is read.
#include "import/npz.h"

#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"

enum {
    LOCAL_BYTES = 30,
    ENTRY_BYTES = 46,
    END_BYTES = 22,
    COMMENT_MAX = 65535,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    FLAG_ENCRYPTED = 1,
    VERSION_NEEDED = 20,
    DATE_1980 = 0x21, /* 1 January 1980, so that equal members give equal files */
    DEFLATE_RATIO_MAX = 1032
};
#define LOCAL_SIGNATURE 0x04034b50u
#define ENTRY_SIGNATURE 0x02014b50u
#define END_SIGNATURE 0x06054b50u

typedef struct {
    Arena *arena;
    Diags *diags;
    Span span;
    const char *path;
    const unsigned char *bytes;
    size_t size_bytes;
} Reader;

/// One entry of the central directory.
typedef struct {
    const char *name;
    uint32_t flags, method, crc, packed_bytes, plain_bytes, local_at;
} Entry;

static uint32_t u16(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static uint32_t u32(const unsigned char *at)
{
    return u16(at) | u16(at + 2) << 16;
}

static bool refuse(const Reader *reader, DiagCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse(const Reader *reader, DiagCode code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(reader->arena, format, arguments);
    va_end(arguments);
    diag_add(reader->diags, code, reader->span, "'%s': %s", reader->path, text);
    return false;
}

/// The end record: the last place where its signature stands with a comment that reaches the end.
static const unsigned char *find_end(const Reader *reader)
{
    if (reader->size_bytes < END_BYTES)
        return NULL;
    size_t last = reader->size_bytes - END_BYTES;
    size_t first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;
    for (size_t at = last + 1; at-- > first;) {
        const unsigned char *end = reader->bytes + at;
        if (u32(end) == END_SIGNATURE && at + END_BYTES + u16(end + 20) == reader->size_bytes)
            return end;
    }
    return NULL;
}

/// Reads the entry at `*at` of the directory that ends at `end`, and steps over it.
static bool read_entry(const Reader *reader, size_t *at, size_t end, Entry *entry)
{
    const unsigned char *from = reader->bytes + *at;
    if (end - *at < ENTRY_BYTES || u32(from) != ENTRY_SIGNATURE)
        return refuse(reader, DIAG_E0430, "the directory is damaged at byte %zu", *at);
    size_t name_bytes = u16(from + 28), more_bytes = u16(from + 30) + u16(from + 32);
    if (end - *at - ENTRY_BYTES < name_bytes + more_bytes)
        return refuse(reader, DIAG_E0430, "the directory is cut short at byte %zu", *at);
    *entry = (Entry){
        .name = arena_copy(reader->arena, (const char *)from + ENTRY_BYTES, name_bytes),
        .flags = u16(from + 8),
        .method = u16(from + 10),
        .crc = u32(from + 16),
        .packed_bytes = u32(from + 20),
        .plain_bytes = u32(from + 24),
        .local_at = u32(from + 42),
    };
    *at += ENTRY_BYTES + name_bytes + more_bytes;
    if (entry->flags & FLAG_ENCRYPTED)
        return refuse(reader, DIAG_E0431, "member '%s' is encrypted", entry->name);
    if (entry->packed_bytes == UINT32_MAX || entry->plain_bytes == UINT32_MAX ||
        entry->local_at == UINT32_MAX)
        return refuse(reader, DIAG_E0431, "member '%s' is over 4 GB (zip64)", entry->name);
    if (entry->method != METHOD_STORED && entry->method != METHOD_DEFLATED)
        return refuse(reader, DIAG_E0431,
                      "member '%s' is compressed by method %" PRIu32 ", not by deflate",
                      entry->name, entry->method);
    return true;
}

/// Where the member's packed bytes are, after its local header.
static const unsigned char *find_data(const Reader *reader, const Entry *entry)
{
    size_t at = entry->local_at;
    const unsigned char *local = reader->bytes + at;
    if (at > reader->size_bytes || reader->size_bytes - at < LOCAL_BYTES ||
        u32(local) != LOCAL_SIGNATURE)
        return NULL;
    size_t skip = (size_t)LOCAL_BYTES + u16(local + 26) + u16(local + 28);
    size_t left = reader->size_bytes - at;
    return left < skip || left - skip < entry->packed_bytes ? NULL : local + skip;
}

static const unsigned char *inflate_member(const Reader *reader, const Entry *entry,
                                           const unsigned char *packed)
{
    unsigned char *plain = arena_alloc(reader->arena, (size_t)entry->plain_bytes + 1);
    z_stream stream = {0};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return NULL;
    stream.next_in = (unsigned char *)(uintptr_t)packed;
    stream.avail_in = entry->packed_bytes;
    stream.next_out = plain;
    stream.avail_out = entry->plain_bytes + 1;
    int status = inflate(&stream, Z_FINISH);
    bool whole = status == Z_STREAM_END && stream.total_out == entry->plain_bytes;
    inflateEnd(&stream);
    return whole ? plain : NULL;
}

/// The member's bytes, inflated where need be and checked against size and checksum.
static const unsigned char *read_data(const Reader *reader, const Entry *entry)
{
    const unsigned char *data = find_data(reader, entry);
    if (!data) {
        refuse(reader, DIAG_E0430, "member '%s' lies outside the file", entry->name);
        return NULL;
    }
    bool deflated = entry->method == METHOD_DEFLATED;
    uint64_t most = deflated ? (uint64_t)entry->packed_bytes * DEFLATE_RATIO_MAX : 0;
    if (deflated ? entry->plain_bytes > most : entry->plain_bytes != entry->packed_bytes) {
        refuse(reader, DIAG_E0430,
               "member '%s' cannot be %" PRIu32 " bytes from %" PRIu32 " in the file", entry->name,
               entry->plain_bytes, entry->packed_bytes);
        return NULL;
    }
    if (deflated)
        data = inflate_member(reader, entry, data);
    if (!data || crc32_z(0, data, entry->plain_bytes) != entry->crc) {
        refuse(reader, DIAG_E0430, "member '%s' is damaged: its %s does not fit", entry->name,
               data ? "checksum" : "deflated data");
        return NULL;
    }
    return data;
}

static bool read_member(const Reader *reader, const Entry *entry, Npz *archive)
{
    size_t length = strlen(entry->name);
    if (length > 4 && strcmp(entry->name + length - 4, ".npy") == 0)
        length -= 4;
    const char *name = arena_copy(reader->arena, entry->name, length);
    if (npz_find(archive, name))
        return refuse(reader, DIAG_E0430, "member '%s' is there twice", name);
    const unsigned char *data = read_data(reader, entry);
    NpzMember *member = &archive->members[archive->count];
    member->name = name;
    const char *path = arena_format(reader->arena, "%s:%s", reader->path, entry->name);
    if (!data || !npy_parse(reader->arena, reader->diags, path, reader->span, data,
                            entry->plain_bytes, &member->array))
        return false;
    archive->count += 1;
    return true;
}

const Npz *npz_parse(Arena *arena, Diags *diags, const char *path, Span span,
                     const unsigned char *bytes, size_t size_bytes)
{
    Reader reader = {arena, diags, span, path, bytes, size_bytes};
    const unsigned char *end = find_end(&reader);
    if (!end) {
        refuse(&reader, DIAG_E0430, "this is not a zip file, or its end is missing");
        return NULL;
    }
    uint32_t count = u16(end + 10);
    size_t at = u32(end + 16), directory_bytes = u32(end + 12), end_at = (size_t)(end - bytes);
    if (u16(end + 4) != 0 || u16(end + 6) != 0 || u16(end + 8) != count || at == UINT32_MAX) {
        refuse(&reader, DIAG_E0431, "the archive is zip64, or spans several files");
        return NULL;
    }
    if (at > end_at || end_at - at != directory_bytes) {
        refuse(&reader, DIAG_E0430, "the directory does not lie where the end record says");
        return NULL;
    }
    Npz *archive = ARENA_NEW(arena, Npz);
    archive->path = arena_copy(arena, path, strlen(path));
    archive->members = ARENA_ARRAY(arena, NpzMember, count + 1);
    uint64_t packed_bytes = 0; /* members may not share data: what unpacks is bounded by the file */
    for (uint32_t i = 0; i < count; i++) {
        Entry entry = {0};
        if (!read_entry(&reader, &at, end_at, &entry))
            return NULL;
        packed_bytes += entry.packed_bytes;
        if (packed_bytes > size_bytes) {
            refuse(&reader, DIAG_E0430, "members overlap");
            return NULL;
        }
        if (!read_member(&reader, &entry, archive))
            return NULL;
    }
    if (at == end_at)
        return archive;
    refuse(&reader, DIAG_E0430, "the directory has more entries than the end record says");
    return NULL;
}

const Npz *npz_open(Arena *arena, Diags *diags, const char *path, Span span)
{
    const unsigned char *bytes = NULL;
    size_t size_bytes = 0;
    if (!file_map(diags, path, span, &bytes, &size_bytes))
        return NULL;
    return npz_parse(arena, diags, path, span, bytes, size_bytes);
}

const NpyArray *npz_find(const Npz *archive, const char *name)
{
    for (int i = 0; i < archive->count; i++)
        if (strcmp(archive->members[i].name, name) == 0)
            return &archive->members[i].array;
    return NULL;
}

static void add16(Text *out, size_t value)
{
    const char bytes[] = {(char)(value & 255), (char)(value >> 8 & 255)};
    text_add_bytes(out, bytes, sizeof bytes);
}

static void add32(Text *out, size_t value)
{
    add16(out, value & 0xffff);
    add16(out, value >> 16);
}

/// What local header and directory entry have in common: version to name's length.
static void add_facts(Text *out, uLong crc, size_t size_bytes, size_t name_bytes)
{
    add16(out, VERSION_NEEDED);
    add16(out, 0);
    add16(out, METHOD_STORED);
    add16(out, 0);
    add16(out, DATE_1980);
    add32(out, crc);
    add32(out, size_bytes);
    add32(out, size_bytes);
    add16(out, name_bytes);
    add16(out, 0);
}

static void add_member(Arena *arena, const NpzMember *member, Text *file, Text *directory)
{
    Text data = {.arena = arena};
    npy_print(&member->array, &data);
    const char *name = arena_format(arena, "%s.npy", member->name);
    uLong crc = crc32_z(0, (const unsigned char *)data.data, data.length);
    size_t at = file->length;
    add32(file, LOCAL_SIGNATURE);
    add_facts(file, crc, data.length, strlen(name));
    text_add(file, name);
    text_add_bytes(file, data.data, data.length);
    add32(directory, ENTRY_SIGNATURE);
    add16(directory, VERSION_NEEDED);
    add_facts(directory, crc, data.length, strlen(name));
    add16(directory, 0);
    add16(directory, 0);
    add16(directory, 0);
    add32(directory, 0);
    add32(directory, at);
    text_add(directory, name);
}

bool npz_write(Arena *arena, Diags *diags, const char *path, const NpzMember *members, int count)
{
    Text file = {.arena = arena}, directory = {.arena = arena};
    for (int i = 0; i < count; i++)
        add_member(arena, &members[i], &file, &directory);
    size_t at = file.length;
    if (at + directory.length >= UINT32_MAX || count >= UINT16_MAX) {
        diag_add(diags, DIAG_E0431, (Span){0}, "'%s': over 4 GB of arrays", path);
        return false;
    }
    if (directory.length)
        text_add_bytes(&file, directory.data, directory.length);
    add32(&file, END_SIGNATURE);
    add32(&file, 0);
    add16(&file, (size_t)count);
    add16(&file, (size_t)count);
    add32(&file, directory.length);
    add32(&file, at);
    add16(&file, 0);
    return file_write(arena, diags, path, file.data, file.length);
}
