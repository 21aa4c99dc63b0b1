// Text: growth, formatting, and the "did you mean" distance.
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void reserve(Text *text, size_t extra)
{
    if (text->length + extra + 1 <= text->capacity)
        return;
    size_t capacity = text->capacity ? text->capacity * 2 : 256;
    while (capacity < text->length + extra + 1)
        capacity *= 2;
    char *data = arena_alloc(text->arena, capacity);
    if (text->length)
        memcpy(data, text->data, text->length);
    text->data = data;
    text->capacity = capacity;
}

void text_add_bytes(Text *text, const char *bytes, size_t length)
{
    reserve(text, length);
    if (length)
        memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void text_add(Text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

void text_addf(Text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_add(text, arena_vformat(text->arena, format, arguments));
    va_end(arguments);
}

const char *text_string(const Text *text)
{
    return text->data ? text->data : "";
}

const char *text_json_escape(Arena *arena, const char *string)
{
    Text out = {.arena = arena};
    for (const char *at = string; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\')
            text_addf(&out, "\\%c", byte);
        else if (byte < 0x20)
            text_addf(&out, "\\u%04x", byte);
        else
            text_add_bytes(&out, at, 1);
    }
    return text_string(&out);
}

bool text_equal(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

bool text_equal_ignoring_case(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

enum { LONGEST_NAME = 64 };

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/// Optimal string alignment distance (Damerau 1964, restricted), by the usual table.
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows = strlen(a), columns = strlen(b);
    if (rows > LONGEST_NAME || columns > LONGEST_NAME)
        return SIZE_MAX;
    size_t table[LONGEST_NAME + 1][LONGEST_NAME + 1];
    for (size_t i = 0; i <= rows; i++)
        table[i][0] = i;
    for (size_t j = 0; j <= columns; j++)
        table[0][j] = j;
    for (size_t i = 1; i <= rows; i++)
        for (size_t j = 1; j <= columns; j++) {
            size_t change = a[i - 1] != b[j - 1];
            table[i][j] =
                smallest(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + change);
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && table[i - 2][j - 2] + 1 < table[i][j])
                table[i][j] = table[i - 2][j - 2] + 1;
        }
    return table[rows][columns];
}

const char *text_nearest(const char *name, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t best_distance = strlen(name) / 3 + 2;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(name, candidates[i]);
        if (distance < best_distance) {
            best_distance = distance;
            best = candidates[i];
        }
    }
    return best;
}
