// Arena: a chain of blocks, each twice the size of the last, handed out from the front.
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Block {
    struct Block *next;
    size_t size_bytes, used_bytes;
} Block;

struct Arena {
    Block *blocks;
};

enum { ALIGNMENT = 64, FIRST_BLOCK_BYTES = 64 * 1024 };

static void *must_allocate(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    if (!memory) {
        fprintf(stderr, "rnnc: out of memory (%zu bytes asked for)\n", size_bytes);
        exit(70);
    }
    return memory;
}

Arena *arena_create(void)
{
    return must_allocate(sizeof(Arena));
}

void arena_destroy(Arena *arena)
{
    if (!arena)
        return;
    for (Block *block = arena->blocks; block;) {
        Block *next = block->next;
        free(block);
        block = next;
    }
    free(arena);
}

static Block *add_block(Arena *arena, size_t needed_bytes)
{
    size_t size_bytes = arena->blocks ? arena->blocks->size_bytes * 2 : FIRST_BLOCK_BYTES;
    if (size_bytes < needed_bytes)
        size_bytes = needed_bytes;
    Block *block = must_allocate(sizeof(Block) + ALIGNMENT + size_bytes);
    block->size_bytes = size_bytes;
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

void *arena_alloc(Arena *arena, size_t size_bytes)
{
    size_t rounded = (size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded < size_bytes)
        rounded = SIZE_MAX / 4; // calloc refuses it, with the message above
    Block *block = arena->blocks;
    if (!block || block->size_bytes - block->used_bytes < rounded)
        block = add_block(arena, rounded);
    uintptr_t start = (uintptr_t)(block + 1);
    start = (start + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory = (char *)start + block->used_bytes;
    block->used_bytes += rounded;
    return memory;
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
    int length = vsnprintf(NULL, 0, format, again);
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
