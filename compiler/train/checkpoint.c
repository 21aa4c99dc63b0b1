// Checkpoint: see checkpoint.h.
#include "train/checkpoint.h"

#include <string.h>

#include "import/safetensors.h"

enum { ENTRIES = 8 };

/// The file's tensors in their order, over the checkpoint's own memory.
static void list_entries(Checkpoint *checkpoint, int64_t *settings_bytes,
                         SafetensorsEntry entries[ENTRIES])
{
    static const int64_t one = 1;
    const int64_t *elems = &checkpoint->weight_elems;
    *settings_bytes = (int64_t)strlen(checkpoint->settings);
    const SafetensorsEntry list[ENTRIES] = {
        {"weights", "F32", elems, 1, checkpoint->weights},
        {"mean", "F32", elems, 1, checkpoint->mean},
        {"square", "F32", elems, 1, checkpoint->square},
        {"average", "F32", elems, 1, checkpoint->average},
        {"states", "F32", &checkpoint->state_elems, 1, checkpoint->states},
        {"step", "I64", &one, 1, &checkpoint->step},
        {"best", "F64", &one, 1, &checkpoint->best},
        {"settings", "U8", settings_bytes, 1, checkpoint->settings},
    };
    memcpy(entries, list, sizeof list);
}

bool checkpoint_write(Diags *diags, const char *path, const Checkpoint *checkpoint)
{
    Checkpoint copy = *checkpoint;
    int64_t settings_bytes;
    SafetensorsEntry entries[ENTRIES];
    list_entries(&copy, &settings_bytes, entries);
    Arena *arena = arena_create();
    const bool done = safetensors_write(arena, diags, path, entries, ENTRIES, NULL);
    arena_destroy(arena);
    return done;
}

/// The first line in which two lists of settings differ, without its end.
static void first_difference(Arena *arena, const char *a, const char *b, const char **out_a,
                             const char **out_b)
{
    size_t line = 0, at = 0;
    for (; a[at] && a[at] == b[at]; at++)
        if (a[at] == '\n')
            line = at + 1;
    *out_a = arena_copy(arena, a + line, strcspn(a + line, "\n"));
    *out_b = arena_copy(arena, b + line, strcspn(b + line, "\n"));
}

static bool check_settings(Arena *arena, Diags *diags, const Safetensors *file,
                           const Checkpoint *checkpoint)
{
    const SafetensorsTensor *tensor = safetensors_find(file, "settings");
    if (!tensor) {
        diag_add(diags, DIAG_E0818, (Span){0}, "'%s' is no checkpoint of training", file->path);
        return false;
    }
    const char *before, *now;
    const char *settings = arena_copy(arena, (const char *)tensor->data, tensor->size_bytes);
    if (strcmp(settings, checkpoint->settings) == 0)
        return true;
    first_difference(arena, settings, checkpoint->settings, &before, &now);
    Diag *diag =
        diag_add(diags, DIAG_E0818, (Span){0},
                 "'%s' is of a training with '%s', and this one has '%s'", file->path, before, now);
    diag_help(diag, "train with the same options, model and text, or without --resume from the "
                    "beginning");
    return false;
}

bool checkpoint_read(Arena *arena, Diags *diags, const char *path, Checkpoint *checkpoint)
{
    int64_t settings_bytes;
    SafetensorsEntry entries[ENTRIES];
    const Safetensors *file = safetensors_open(arena, diags, path, (Span){0});
    if (!file || !check_settings(arena, diags, file, checkpoint))
        return false;
    list_entries(checkpoint, &settings_bytes, entries);
    void *const targets[] = {checkpoint->weights, checkpoint->mean,   checkpoint->square,
                             checkpoint->average, checkpoint->states, &checkpoint->step,
                             &checkpoint->best};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const SafetensorsTensor *tensor = safetensors_find(file, entries[i].name);
        const size_t bytes =
            (size_t)*entries[i].dims * (strcmp(entries[i].dtype, "F32") == 0 ? 4 : 8);
        if (!tensor || strcmp(tensor->dtype, entries[i].dtype) != 0 ||
            tensor->size_bytes != bytes) {
            diag_add(diags, DIAG_E0818, (Span){0}, "'%s' has no '%s' of this model", path,
                     entries[i].name);
            return false;
        }
        memcpy(targets[i], tensor->data, bytes);
    }
    return true;
}
