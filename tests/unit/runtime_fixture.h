// Modules for the runtime's tests, compiled once a program into a folder of their own, and the few
// steps that every test takes.
#ifndef RNNC_TESTS_RUNTIME_FIXTURE_H
#define RNNC_TESTS_RUNTIME_FIXTURE_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build/build.h"
#include "rnnc/rnnc.h"

static char folder[64];

static char *fixture_path(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void fixture_write(const char *name, const char *text)
{
    FILE *file = fopen(fixture_path(name), "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

/// Compiles `spec` for the CPU to <name>.so.
static void fixture_compile(const char *name, const char *spec)
{
    char yaml[32], module[128];
    snprintf(yaml, sizeof yaml, "%s.yaml", name);
    snprintf(module, sizeof module, "%s/%s.so", folder, name);
    fixture_write(yaml, spec);
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    CompileOptions options = {
        .spec_path = fixture_path(yaml), .output_path = module, .targets = "cpu", .jobs = 2};
    bool compiled = compile_model(arena, diags, &options, NULL);
    diags_print(diags, stderr, false);
    arena_destroy(arena);
    ck_assert(compiled);
}

static void fixture_open_folder(void)
{
    strcpy(folder, "/tmp/test_runtime.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void fixture_remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

static rnnc_module *fixture_module(const char *name)
{
    rnnc_module *module;
    rnnc_status status = rnnc_module_open(fixture_path(name), &module);
    ck_assert_msg(status == RNNC_OK, "%s", rnnc_last_error());
    return module;
}

static rnnc_session *fixture_session(const rnnc_module *module, int64_t batch, int64_t timesteps)
{
    rnnc_session *session;
    rnnc_session_options options = {
        .device = "cpu", .max_batch = batch, .max_timesteps = timesteps};
    rnnc_status status = rnnc_session_create(module, &options, &session);
    ck_assert_msg(status == RNNC_OK, "%s", rnnc_last_error());
    return session;
}

/// Binds host float32 memory; `c` 0: two dimensions, `b` 0: one.
static rnnc_status fixture_bind(rnnc_session *session, const char *name, float *data, int64_t a,
                                int64_t b, int64_t c)
{
    int64_t shape[] = {a, b, c};
    DLTensor tensor = {.data = data,
                       .device = {kDLCPU, 0},
                       .ndim = c   ? 3
                               : b ? 2
                                   : 1,
                       .dtype = {kDLFloat, 32, 1},
                       .shape = shape};
    return rnnc_bind(session, name, &tensor);
}

static __attribute__((unused)) void fixture_run(rnnc_session *session)
{
    rnnc_status status = rnnc_run(session);
    ck_assert_msg(status == RNNC_OK, "%s", rnnc_session_error(session));
}

static __attribute__((unused)) void fixture_fill(float *values, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int)(seed >> 8) / (float)(1 << 23) - 1;
    }
}

#endif
