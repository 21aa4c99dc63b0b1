// Memory: aligned blocks from the C library. Large ones, weights above all, lie in huge pages where
// the system grants them: a step streams them whole, and each page that the translation buffer
// misses is a wait.
#include "memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

static _Thread_local int64_t held_bytes;

void *rnnc_memory_alloc(size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    const size_t alignment = bytes < HUGE_PAGE ? ALIGNMENT : HUGE_PAGE;
    const size_t rounded = (bytes + alignment - (bytes > 0)) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded);
    if (!memory)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE)
        (void)madvise(memory, rounded, MADV_HUGEPAGE); // advice: without it the block is as good
#endif
    held_bytes += (int64_t)malloc_usable_size(memory);
    return memset(memory, 0, rounded);
}

void rnnc_memory_free(void *memory)
{
    held_bytes -= (int64_t)malloc_usable_size(memory);
    free(memory);
}

int64_t rnnc_memory_held(void)
{
    return held_bytes;
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
