// Fixture of the readers' tests: an arena and a collection of diagnostics for each test, and the
// words that were printed into it.
#ifndef RNNC_TESTS_DIAGS_FIXTURE_H
#define RNNC_TESTS_DIAGS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

static Arena *arena;
static Diags *diags;

static inline void start(void)
{
    arena = arena_create();
    diags = diags_create(arena);
}

static inline void stop(void)
{
    arena_destroy(arena);
}

/// Whether the diagnostics print `words`; what they print instead goes to standard error.
static inline bool printed_has(const char *words)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    diags_print(diags, out, false);
    fclose(out);
    bool found = strstr(text, words) != NULL;
    if (!found)
        fprintf(stderr, "wanted '%s', got:\n%s", words, text);
    free(text);
    return found;
}

#endif
