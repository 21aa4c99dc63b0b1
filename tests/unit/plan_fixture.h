// Fixture of the plan's tests: a spec given as text goes through spec, model and plan.
#ifndef RNNC_TESTS_PLAN_FIXTURE_H
#define RNNC_TESTS_PLAN_FIXTURE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan.h"

typedef struct {
    Arena *arena;
    Diags *diags;
    const Model *model;
} Planned;

/// Builds the model of `text` (no weights). `model` is NULL where it has errors.
static inline Planned planned_from(const char *text)
{
    Planned planned = {.arena = arena_create()};
    planned.diags = diags_create(planned.arena);
    char path[] = "/tmp/rnnc_plan_XXXXXX.yaml";
    int file = mkstemps(path, 5);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    const char *kept = arena_copy(planned.arena, path, strlen(path));
    const Spec *spec = spec_read(planned.arena, planned.diags, kept);
    if (spec)
        planned.model = model_build_shapes(planned.arena, planned.diags, spec);
    unlink(path);
    return planned;
}

/// The diagnostics as text.
static inline const char *planned_diagnostics(const Planned *planned)
{
    char *memory = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&memory, &size);
    ck_assert_ptr_nonnull(out);
    diags_print(planned->diags, out, false);
    fclose(out);
    const char *text = arena_copy(planned->arena, memory, size);
    free(memory);
    return text;
}

static inline void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        ck_abort_msg("'%s' is not in:\n%s", part, text);
}

#endif
