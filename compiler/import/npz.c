// npz: see npz.h. Reads through zip.h; writes stored members alone (APPNOTE.TXT 4.3, PKWARE).
#include "import/npz.h"

#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "import/zip.h"

enum {
    METHOD_STORED = 0,
    VERSION_NEEDED = 20,
    DATE_1980 = 0x21 /* 1 January 1980, so that equal members give equal files */
};
#define LOCAL_SIGNATURE 0x04034b50u
#define ENTRY_SIGNATURE 0x02014b50u
#define END_SIGNATURE 0x06054b50u

static bool read_member(const Zip *zip, const ZipMember *from, Npz *archive)
{
    size_t length = strlen(from->name);
    if (length > 4 && strcmp(from->name + length - 4, ".npy") == 0)
        length -= 4;
    const char *name = arena_copy(zip->arena, from->name, length);
    if (npz_find(archive, name)) {
        diag_add(zip->diags, DIAG_E0430, zip->span, "'%s': member '%s' is there twice", zip->path,
                 name);
        return false;
    }
    const unsigned char *data = zip_data(zip, from);
    NpzMember *member = &archive->members[archive->count];
    member->name = name;
    const char *path = arena_format(zip->arena, "%s:%s", zip->path, from->name);
    if (!data || !npy_parse(zip->arena, zip->diags, path, zip->span, data, from->plain_bytes,
                            &member->array))
        return false;
    archive->count += 1;
    return true;
}

const Npz *npz_parse(Arena *arena, Diags *diags, const char *path, Span span,
                     const unsigned char *bytes, size_t size_bytes)
{
    const Zip *zip = zip_parse(arena, diags, path, span, bytes, size_bytes);
    if (!zip)
        return NULL;
    Npz *archive = ARENA_NEW(arena, Npz);
    archive->path = zip->path;
    archive->members = ARENA_ARRAY(arena, NpzMember, zip->count + 1);
    for (int i = 0; i < zip->count; i++)
        if (!read_member(zip, &zip->members[i], archive))
            return NULL;
    return archive;
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
