// Fixture of the front end's tests: a spec from a string, and its diagnostics as text.
#ifndef RNNC_TESTS_SPEC_FIXTURE_H
#define RNNC_TESTS_SPEC_FIXTURE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"

typedef struct {
    Arena *arena;
    Diags *diags;
    const Spec *spec; ///< NULL where it was refused
} Read;

/// Reads `length` bytes as the file "<temporary>.yaml"; free with arena_destroy(read.arena).
static inline Read read_bytes(const char *text, size_t length)
{
    char path[] = "/tmp/rnnc_spec_XXXXXX.yaml";
    int file = mkstemps(path, 5);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq((int)write(file, text, length), (int)length);
    close(file);
    Read read = {.arena = arena_create()};
    read.diags = diags_create(read.arena);
    read.spec = spec_read(read.arena, read.diags, arena_copy(read.arena, path, strlen(path)));
    unlink(path);
    return read;
}

static inline Read read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

/// A spec of 8 features whose list of layers is `layers`, then `rest`.
static inline Read read_layers(const char *layers, const char *rest)
{
    char text[4096];
    snprintf(text, sizeof text, "rnnc: 1\ninput: {features: 8}\nweights: {seed: 1}\nlayers:\n%s%s",
             layers, rest);
    return read_text(text);
}

static inline const char *diagnostics_of(const Read *read)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    diags_print(read->diags, out, false);
    fclose(out);
    const char *copy = arena_copy(read->arena, text, size);
    free(text);
    return copy;
}

/// The diagnostics hold `wanted`, e.g. ":4:18: error: unknown key 'hiden'".
static inline void assert_says(const Read *read, const char *wanted)
{
    const char *text = diagnostics_of(read);
    ck_assert_msg(strstr(text, wanted), "'%s' is not in:\n%s", wanted, text);
}

static inline void assert_silent(const Read *read)
{
    ck_assert_str_eq(diagnostics_of(read), "");
}

#endif
