// Subject: see subject.h.
#include "bench/subject.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "build/build.h"
#include "build/module_note.h"

/// The model with its weights and the sizes that are benched.
static const Model *read_model(Arena *arena, Diags *diags, const SubjectOptions *options,
                               const char *path)
{
    const Spec *spec = spec_read(arena, diags, path);
    if (!spec)
        return NULL;
    Spec *sized = ARENA_NEW(arena, Spec);
    *sized = *spec;
    if (options->batch)
        sized->batch = (SpecSize){.value = options->batch, .span = spec->batch.span};
    if (options->timesteps)
        sized->timesteps = (SpecSize){.value = options->timesteps, .span = spec->timesteps.span};
    if (options->trains)
        sized->mode = MODE_TRAINING;
    return model_build(arena, diags, sized);
}

static bool open_module(Diags *diags, const char *path, Subject *out)
{
    const rnnc_status status = rnnc_module_open(path, &out->module);
    if (status == RNNC_OK)
        return true;
    diag_add(diags, status == RNNC_NOT_FOUND ? DIAG_E0001 : DIAG_E0802, (Span){0}, "%s",
             rnnc_last_error());
    return false;
}

bool subject_compile(Arena *arena, Diags *diags, const SubjectOptions *options,
                     const Model **out_model)
{
    const CompileOptions compile = {.spec_path = options->spec_path,
                                    .output_path = options->module_path,
                                    .targets = options->targets,
                                    .variants = options->variants,
                                    .plan = options->plan,
                                    .batch = options->batch,
                                    .timesteps = options->timesteps,
                                    .trains = options->trains,
                                    .without_weights = true,
                                    .out_model = out_model,
                                    .progress = options->progress};
    return compile_model(arena, diags, &compile, NULL);
}

/// A name for a module that is removed as soon as it is open.
static char *temporary_name(Arena *arena, Diags *diags)
{
    const char *folder = getenv("TMPDIR");
    char *name = arena_format(arena, "%s/rnnc_bench.XXXXXX", folder && *folder ? folder : "/tmp");
    const int file = mkstemp(name);
    if (file < 0) {
        diag_add(diags, DIAG_E0002, (Span){0}, "cannot write '%s'", name);
        return NULL;
    }
    close(file);
    return name;
}

static bool open_spec(Arena *arena, Diags *diags, const SubjectOptions *options, Subject *out)
{
    SubjectOptions named = *options;
    const bool is_kept = options->module_path != NULL;
    out->is_bound = true;
    if (!is_kept && !(named.module_path = temporary_name(arena, diags)))
        return false;
    const bool is_there = is_kept && options->reuse && access(named.module_path, R_OK) == 0;
    if (is_there)
        out->model = read_model(arena, diags, options, options->spec_path);
    else if (!subject_compile(arena, diags, &named, &out->model))
        out->model = NULL;
    const bool good = out->model && open_module(diags, named.module_path, out);
    if (!is_kept)
        unlink(named.module_path);
    return good;
}

/// The string at provenance.`key` of the module's note, in the arena; NULL where there is none.
static const char *provenance(Arena *arena, const json_t *root, const char *key)
{
    const char *value =
        json_string_value(json_object_get(json_object_get(root, "provenance"), key));
    return value ? arena_copy(arena, value, strlen(value)) : NULL;
}

/// The model of a finished module; NULL, with the reason, where its spec is gone or has changed.
static const Model *find_model(Arena *arena, const SubjectOptions *options, Subject *out)
{
    Diags *unseen = diags_create(arena);
    const unsigned char *bytes;
    size_t size_bytes, length;
    const char *text, *path = NULL, *hash = NULL;
    if (file_map(unseen, options->module_path, (Span){0}, &bytes, &size_bytes) &&
        module_note_find(unseen, options->module_path, bytes, size_bytes, &text, &length)) {
        json_t *root = json_loadb(text, length, 0, NULL);
        path = provenance(arena, root, "spec");
        hash = provenance(arena, root, "spec_sha256");
        json_decref(root);
    }
    out->no_model = "the module does not name its spec";
    if (!path || !hash)
        return NULL;
    const Source *source =
        access(path, R_OK) == 0 ? file_read(arena, unseen, path, (Span){0}) : NULL;
    out->no_model = arena_format(arena, "the module's spec, %s, is not there", path);
    if (!source)
        return NULL;
    out->no_model = arena_format(arena, "%s has changed since the module was compiled", path);
    if (strcmp(sha256_hex(arena, source->text, source->length), hash) != 0)
        return NULL;
    const Model *model = read_model(arena, unseen, options, path);
    out->no_model = model ? NULL : arena_format(arena, "%s has errors now", path);
    return model;
}

bool subject_open(Arena *arena, Diags *diags, const SubjectOptions *options, Subject *out)
{
    *out = (Subject){0};
    if (options->spec_path)
        return open_spec(arena, diags, options, out);
    if (!open_module(diags, options->module_path, out))
        return false;
    out->model = find_model(arena, options, out);
    return true;
}

void subject_close(Subject *subject)
{
    rnnc_module_close(subject->module);
    subject->module = NULL;
}
