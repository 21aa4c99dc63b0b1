// SHA-256 of a text, through libmd: the provenance of a module.
#ifndef RNNC_BASE_SHA256_H
#define RNNC_BASE_SHA256_H

#include "base/arena.h"

/// The hash of `length` bytes as 64 lower-case hexadecimal digits.
const char *sha256_hex(Arena *arena, const char *bytes, size_t length);

#endif
