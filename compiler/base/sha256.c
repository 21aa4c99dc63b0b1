// SHA-256: see sha256.h.
#include "base/sha256.h"

#include <stdint.h>
#include <sys/types.h>

#include <sha2.h>

const char *sha256_hex(Arena *arena, const char *bytes, size_t length)
{
    char *digest = arena_alloc(arena, SHA256_DIGEST_STRING_LENGTH);
    return SHA256Data((const uint8_t *)bytes, length, digest);
}
