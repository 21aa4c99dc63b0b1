// The arena of base/arena.h with a block of its own for every allocation, so that a sanitizer sees
// each array's end. In the place of base/arena.c under libFuzzer.
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Block {
    struct Block *next;
    void *memory;
} Block;

struct Arena {
    Block *blocks;
};

enum { ALIGNMENT = 64 };

static void *must_have(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

Arena *arena_create(void)
{
    return must_have(calloc(1, sizeof(Arena)));
}

void arena_destroy(Arena *arena)
{
    for (Block *block = arena ? arena->blocks : NULL; block;) {
        Block *next = block->next;
        free(block->memory);
        free(block);
        block = next;
    }
    free(arena);
}

void *arena_alloc(Arena *arena, size_t size_bytes)
{
    Block *block = must_have(calloc(1, sizeof *block));
    if (posix_memalign(&block->memory, ALIGNMENT, size_bytes) != 0)
        abort();
    memset(block->memory, 0, size_bytes);
    block->next = arena->blocks;
    arena->blocks = block;
    return block->memory;
}

char *arena_copy(Arena *arena, const char *text, size_t length)
{
    char *copy = arena_alloc(arena, length + 1);
    if (length)
        memcpy(copy, text, length);
    return copy;
}

char *arena_vformat(Arena *arena, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

char *arena_format(Arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = arena_vformat(arena, format, arguments);
    va_end(arguments);
    return text;
}

void *arena_grow(Arena *arena, void *items, size_t count, size_t item_bytes)
{
    if (count & (count - 1) || (count && !items))
        return items;
    void *larger = arena_alloc(arena, (count ? count * 2 : 1) * item_bytes);
    if (count)
        memcpy(larger, items, count * item_bytes);
    return larger;
}
