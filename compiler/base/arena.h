// Arena: every allocation of one compilation, freed at once. Nothing in the compiler calls free()
// on its own, so ownership never has to be stated: what an arena gave lives as long as the arena.
#ifndef RNNC_BASE_ARENA_H
#define RNNC_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

/// Creates an empty arena. Exits with code 70 when memory is exhausted, as all functions here do.
Arena *arena_create(void);

/// Frees the arena and everything it gave. NULL is allowed.
void arena_destroy(Arena *arena);

/// Returns `size_bytes` zeroed bytes aligned to 64; never NULL.
void *arena_alloc(Arena *arena, size_t size_bytes);

/// Copies `length` bytes of `text` and ends them with a NUL.
char *arena_copy(Arena *arena, const char *text, size_t length);

/// printf into a fresh string.
char *arena_format(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vformat(Arena *arena, const char *format, va_list arguments);

#define ARENA_NEW(arena, Type) ((Type *)arena_alloc((arena), sizeof(Type)))
#define ARENA_ARRAY(arena, Type, count)                                                            \
    ((Type *)arena_alloc((arena), sizeof(Type) * (size_t)(count)))

/// Appends one element to an arena-backed array of `Type`, doubling its room when `count` is a
/// power of two. `items` is the array's pointer variable, `count` its element count variable.
#define ARENA_PUSH(arena, items, count, value)                                                     \
    do {                                                                                           \
        (items) = arena_grow((arena), (items), (size_t)(count), sizeof *(items));                  \
        (items)[(count)++] = (value);                                                              \
    } while (0)

/// The growth step behind ARENA_PUSH: returns room for at least `count` + 1 elements.
void *arena_grow(Arena *arena, void *items, size_t count, size_t item_bytes);

#endif
