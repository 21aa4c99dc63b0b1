// Memory: aligned blocks from the C library.
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

void *rnnc_memory_alloc(size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t rounded = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, rounded);
    if (memory)
        memset(memory, 0, rounded);
    return memory;
}

void rnnc_memory_free(void *memory)
{
    free(memory);
}

size_t rnnc_memory_float_bytes(int64_t a, int64_t b, int64_t c)
{
    size_t bytes;
    if (a < 0 || b < 0 || c < 0 || __builtin_mul_overflow((size_t)a, (size_t)b, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)c, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(float), &bytes))
        return SIZE_MAX;
    return bytes;
}
