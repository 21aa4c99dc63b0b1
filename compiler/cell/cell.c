// Cells: built-in ones are the embedded files cells/<name>.cell; others are files of the user.
#include "cell/cell.h"

#include <string.h>

#include "base/embedded.h"
#include "base/file.h"
#include "cell/cell_parse.h"
#include "cell/schedule.h"

enum { CELLS_MAX = 128 };

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/// "lstm" of "cells/lstm.cell", or NULL.
static const char *cell_name_of(Arena *arena, const char *path)
{
    if (strncmp(path, "cells/", 6) != 0 || !ends_with(path, ".cell"))
        return NULL;
    return arena_copy(arena, path + 6, strlen(path) - 11);
}

const char *const *cell_names(Arena *arena, size_t *out_count)
{
    const char **names = NULL;
    *out_count = 0;
    for (const EmbeddedFile *file = embedded_files(); file->path; file++) {
        const char *name = cell_name_of(arena, file->path);
        if (name)
            ARENA_PUSH(arena, names, *out_count, name);
    }
    return names;
}

static const Source *built_in(Arena *arena, const char *name)
{
    for (const EmbeddedFile *file = embedded_files(); file->path; file++) {
        const char *found = cell_name_of(arena, file->path);
        if (!found || !text_equal_ignoring_case(found, name))
            continue;
        Source *source = ARENA_NEW(arena, Source);
        *source = (Source){file->path, file->text, file->length};
        return source;
    }
    return NULL;
}

static void refuse_name(Arena *arena, Diags *diags, Span span, const char *name)
{
    size_t count;
    const char *const *names = cell_names(arena, &count);
    const char *nearest = text_nearest(name, names, count);
    Diag *diag = diag_add(diags, DIAG_E0311, span, "unknown cell '%s'", name);
    if (nearest)
        diag_help(diag, "did you mean '%s'?", nearest);
    else
        diag_help(diag, "'rnnc cells' lists them; a file of your own ends in .cell");
}

const Cell *cell_load(Arena *arena, Diags *diags, Span span, const char *name, const char *beside,
                      const CellBinding *binding)
{
    const Source *source = NULL;
    if (ends_with(name, ".cell"))
        source = file_read(arena, diags, file_beside(arena, beside, name), span);
    else if (!(source = built_in(arena, name)))
        refuse_name(arena, diags, span, name);
    if (!source)
        return NULL;
    Cell *cell = cell_parse(arena, diags, source, binding);
    return cell && cell_schedule(diags, cell) ? cell : NULL;
}

static void print_row(Arena *arena, const char *name, Text *out)
{
    Diags *diags = diags_create(arena);
    CellBinding binding = {.use_bias = true};
    activation_find(arena, diags, (Span){0}, "tanh", NULL, 0, &binding.activation);
    activation_find(arena, diags, (Span){0}, "sigmoid", NULL, 0, &binding.recurrent_activation);
    binding.output_activation = binding.activation;
    const Cell *cell = cell_load(arena, diags, (Span){0}, name, "", &binding);
    Text gates = {.arena = arena}, states = {.arena = arena};
    for (int i = 0; cell && i < cell->W.count; i++)
        text_addf(&gates, "%s%s", i ? " " : "", cell->W.names[i]);
    for (int i = 0; cell && i < cell->state_count; i++)
        text_addf(&states, "%s%s", i ? " " : "", cell->states[i].name);
    text_addf(out, "%-14s %-8s %-8s %s\n", name, text_string(&states), text_string(&gates),
              cell ? cell->title : "");
}

void cell_print_table(Arena *arena, Text *out)
{
    size_t count;
    const char *const *names = cell_names(arena, &count);
    text_addf(out, "%-14s %-8s %-8s %s\n", "cell", "states", "gates", "");
    for (size_t i = 0; i < count; i++)
        print_row(arena, names[i], out);
}
