// Zip archives: see zip.h. Read from the end: the end record leads to the central directory, each
// of its entries to a local header and the member's data. Sizes come from the central directory
// alone, and every place is checked before it is read.
#include "import/zip.h"

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
    DEFLATE_RATIO_MAX = 1032
};
#define LOCAL_SIGNATURE 0x04034b50u
#define ENTRY_SIGNATURE 0x02014b50u
#define END_SIGNATURE 0x06054b50u

static uint32_t u16(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static uint32_t u32(const unsigned char *at)
{
    return u16(at) | u16(at + 2) << 16;
}

static bool refuse(const Zip *zip, DiagCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse(const Zip *zip, DiagCode code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = arena_vformat(zip->arena, format, arguments);
    va_end(arguments);
    diag_add(zip->diags, code, zip->span, "'%s': %s", zip->path, text);
    return false;
}

/// The end record: the last place where its signature stands with a comment that reaches the end.
static const unsigned char *find_end(const Zip *zip)
{
    if (zip->size_bytes < END_BYTES)
        return NULL;
    size_t last = zip->size_bytes - END_BYTES;
    size_t first = last > COMMENT_MAX ? last - COMMENT_MAX : 0;
    for (size_t at = last + 1; at-- > first;) {
        const unsigned char *end = zip->bytes + at;
        if (u32(end) == END_SIGNATURE && at + END_BYTES + u16(end + 20) == zip->size_bytes)
            return end;
    }
    return NULL;
}

/// Reads the entry at `*at` of the directory that ends at `end`, and steps over it.
static bool read_entry(const Zip *zip, size_t *at, size_t end, ZipMember *entry)
{
    const unsigned char *from = zip->bytes + *at;
    if (end - *at < ENTRY_BYTES || u32(from) != ENTRY_SIGNATURE)
        return refuse(zip, DIAG_E0430, "the directory is damaged at byte %zu", *at);
    size_t name_bytes = u16(from + 28), more_bytes = u16(from + 30) + u16(from + 32);
    if (end - *at - ENTRY_BYTES < name_bytes + more_bytes)
        return refuse(zip, DIAG_E0430, "the directory is cut short at byte %zu", *at);
    *entry = (ZipMember){
        .name = arena_copy(zip->arena, (const char *)from + ENTRY_BYTES, name_bytes),
        .flags = u16(from + 8),
        .method = u16(from + 10),
        .crc = u32(from + 16),
        .packed_bytes = u32(from + 20),
        .plain_bytes = u32(from + 24),
        .local_at = u32(from + 42),
    };
    *at += ENTRY_BYTES + name_bytes + more_bytes;
    if (entry->flags & FLAG_ENCRYPTED)
        return refuse(zip, DIAG_E0431, "member '%s' is encrypted", entry->name);
    if (entry->packed_bytes == UINT32_MAX || entry->plain_bytes == UINT32_MAX ||
        entry->local_at == UINT32_MAX)
        return refuse(zip, DIAG_E0431, "member '%s' is over 4 GB (zip64)", entry->name);
    if (entry->method != METHOD_STORED && entry->method != METHOD_DEFLATED)
        return refuse(zip, DIAG_E0431,
                      "member '%s' is compressed by method %" PRIu32 ", not by deflate",
                      entry->name, entry->method);
    return true;
}

/// Where the member's packed bytes are, after its local header.
static const unsigned char *find_data(const Zip *zip, const ZipMember *entry)
{
    size_t at = entry->local_at;
    const unsigned char *local = zip->bytes + at;
    if (at > zip->size_bytes || zip->size_bytes - at < LOCAL_BYTES || u32(local) != LOCAL_SIGNATURE)
        return NULL;
    size_t skip = (size_t)LOCAL_BYTES + u16(local + 26) + u16(local + 28);
    size_t left = zip->size_bytes - at;
    return left < skip || left - skip < entry->packed_bytes ? NULL : local + skip;
}

static const unsigned char *inflate_member(const Zip *zip, const ZipMember *entry,
                                           const unsigned char *packed)
{
    unsigned char *plain = arena_alloc(zip->arena, (size_t)entry->plain_bytes + 1);
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

const unsigned char *zip_data(const Zip *zip, const ZipMember *member)
{
    const unsigned char *data = find_data(zip, member);
    if (!data) {
        refuse(zip, DIAG_E0430, "member '%s' lies outside the file", member->name);
        return NULL;
    }
    bool deflated = member->method == METHOD_DEFLATED;
    uint64_t most = deflated ? (uint64_t)member->packed_bytes * DEFLATE_RATIO_MAX : 0;
    if (deflated ? member->plain_bytes > most : member->plain_bytes != member->packed_bytes) {
        refuse(zip, DIAG_E0430,
               "member '%s' cannot be %" PRIu32 " bytes from %" PRIu32 " in the file", member->name,
               member->plain_bytes, member->packed_bytes);
        return NULL;
    }
    if (deflated)
        data = inflate_member(zip, member, data);
    if (!data || crc32_z(0, data, member->plain_bytes) != member->crc) {
        refuse(zip, DIAG_E0430, "member '%s' is damaged: its %s does not fit", member->name,
               data ? "checksum" : "deflated data");
        return NULL;
    }
    return data;
}

const Zip *zip_parse(Arena *arena, Diags *diags, const char *path, Span span,
                     const unsigned char *bytes, size_t size_bytes)
{
    Zip *zip = ARENA_NEW(arena, Zip);
    *zip = (Zip){.arena = arena,
                 .diags = diags,
                 .span = span,
                 .path = arena_copy(arena, path, strlen(path)),
                 .bytes = bytes,
                 .size_bytes = size_bytes};
    const unsigned char *end = find_end(zip);
    if (!end) {
        refuse(zip, DIAG_E0430, "this is not a zip file, or its end is missing");
        return NULL;
    }
    uint32_t count = u16(end + 10);
    size_t at = u32(end + 16), directory_bytes = u32(end + 12), end_at = (size_t)(end - bytes);
    if (u16(end + 4) != 0 || u16(end + 6) != 0 || u16(end + 8) != count || at == UINT32_MAX) {
        refuse(zip, DIAG_E0431, "the archive is zip64, or spans several files");
        return NULL;
    }
    if (at > end_at || end_at - at != directory_bytes) {
        refuse(zip, DIAG_E0430, "the directory does not lie where the end record says");
        return NULL;
    }
    zip->members = ARENA_ARRAY(arena, ZipMember, count + 1);
    uint64_t packed_bytes = 0; /* members may not share data: what unpacks is bounded by the file */
    for (; zip->count < (int)count; zip->count++) {
        ZipMember *member = &zip->members[zip->count];
        if (!read_entry(zip, &at, end_at, member))
            return NULL;
        packed_bytes += member->packed_bytes;
        if (packed_bytes > size_bytes) {
            refuse(zip, DIAG_E0430, "members overlap");
            return NULL;
        }
    }
    if (at == end_at)
        return zip;
    refuse(zip, DIAG_E0430, "the directory has more entries than the end record says");
    return NULL;
}

const unsigned char *zip_find(const Zip *zip, const char *name, size_t *out_size_bytes)
{
    const ZipMember *found = NULL;
    for (int i = 0; i < zip->count; i++) {
        if (strcmp(zip->members[i].name, name) != 0)
            continue;
        if (found) {
            refuse(zip, DIAG_E0430, "member '%s' is there twice", name);
            return NULL;
        }
        found = &zip->members[i];
    }
    if (!found) {
        refuse(zip, DIAG_E0430, "there is no member '%s'", name);
        return NULL;
    }
    *out_size_bytes = found->plain_bytes;
    return zip_data(zip, found);
}

bool zip_has(const Zip *zip, const char *name)
{
    for (int i = 0; i < zip->count; i++)
        if (strcmp(zip->members[i].name, name) == 0)
            return true;
    return false;
}
