// Text: a string that grows in an arena; what every printer of the compiler writes into.
#ifndef RNNC_BASE_TEXT_H
#define RNNC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

typedef struct {
    Arena *arena;
    char *data; ///< NUL-terminated; NULL while nothing was added
    size_t length, capacity;
} Text;

/// Appends bytes, a string, or a formatted string. The result is always NUL-terminated.
void text_add_bytes(Text *text, const char *bytes, size_t length);
void text_add(Text *text, const char *string);
void text_addf(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// The text so far, never NULL.
const char *text_string(const Text *text);

/// `string` with quotes, backslashes and control characters escaped, for use inside JSON quotes.
const char *text_json_escape(Arena *arena, const char *string);

/// Whether two strings are equal, with and without regard to ASCII case.
bool text_equal(const char *a, const char *b);
bool text_equal_ignoring_case(const char *a, const char *b);

/// The candidate nearest to `name` by edit distance (transpositions count one), or NULL where none
/// is near enough to be a likely slip of the pen. Candidates are not copied.
const char *text_nearest(const char *name, const char *const *candidates, size_t count);

#endif
