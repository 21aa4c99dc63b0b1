// Zip archives, read (APPNOTE.TXT 4.3, PKWARE): stored and deflated members below 4 GB in one file,
// as Python's zipfile writes them. Knows nothing of what the members are.
#ifndef RNNC_IMPORT_ZIP_H
#define RNNC_IMPORT_ZIP_H

#include "base/diag.h"

/// One entry of the central directory.
typedef struct {
    const char *name;
    uint32_t flags, method, crc, packed_bytes, plain_bytes, local_at;
} ZipMember;

typedef struct {
    Arena *arena;
    Diags *diags;
    Span span;
    const char *path; ///< for messages
    const unsigned char *bytes;
    size_t size_bytes;
    ZipMember *members; ///< in the archive's order
    int count;
} Zip;

/// Reads the directory of an archive in memory, which must outlive the result. What all members
/// unpack to is at most 1032 times `size_bytes`. Adds E0430 or E0431 at `span` and returns NULL on
/// a fault.
const Zip *zip_parse(Arena *arena, Diags *diags, const char *path, Span span,
                     const unsigned char *bytes, size_t size_bytes);

/// The member's `plain_bytes` bytes, inflated into the arena where need be and checked against size
/// and checksum; NULL, with E0430, where they are damaged.
const unsigned char *zip_data(const Zip *zip, const ZipMember *member);

/// The bytes of the one member of that name; NULL, with E0430, where there is none or several.
const unsigned char *zip_find(const Zip *zip, const char *name, size_t *out_size_bytes);
bool zip_has(const Zip *zip, const char *name);

#endif
