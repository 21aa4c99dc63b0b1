// Cells: found among the templates or beside the spec, then parsed and scheduled; and their table.
#include "cell/cell.h"

#include <ctype.h>
#include <string.h>

#include "base/embedded.h"
#include "base/file.h"
#include "cell/cell_gradient.h"
#include "cell/cell_parse.h"
#include "cell/cell_schedule.h"
#include "cell/cell_zoneout.h"

enum { NAME_BYTES = 32 };
static const char folder[] = "cells/", ending[] = ".cell";

static bool ends_in_cell(const char *name)
{
    size_t length = strlen(name);
    return length > strlen(ending) && text_equal(name + length - strlen(ending), ending);
}

/// Whether the template is a cell; then its name, without folder and ending.
static bool cell_file_name(const EmbeddedFile *file, char name[static NAME_BYTES])
{
    if (strncmp(file->path, folder, strlen(folder)) != 0 || !ends_in_cell(file->path))
        return false;
    size_t length = strlen(file->path) - strlen(folder) - strlen(ending);
    if (length >= NAME_BYTES)
        return false;
    memcpy(name, file->path + strlen(folder), length);
    name[length] = '\0';
    return true;
}

const char *const *cell_names(Arena *arena, size_t *out_count)
{
    const char **names = NULL;
    *out_count = 0;
    for (const EmbeddedFile *file = embedded_files(); file->path; file++) {
        char name[NAME_BYTES];
        if (cell_file_name(file, name))
            ARENA_PUSH(arena, names, *out_count, arena_copy(arena, name, strlen(name)));
    }
    return names;
}

static const Source *builtin_source(Arena *arena, Diags *diags, Span span, const char *name)
{
    char lower[NAME_BYTES] = {0};
    for (size_t i = 0; i + 1 < sizeof lower && name[i]; i++)
        lower[i] = (char)tolower((unsigned char)name[i]);
    const char *path = arena_format(arena, "%s%s%s", folder, lower, ending);
    const EmbeddedFile *file = strlen(name) < NAME_BYTES ? embedded_find(path) : NULL;
    if (file) {
        Source *source = ARENA_NEW(arena, Source);
        *source = (Source){path, file->text, file->length};
        return source;
    }
    size_t count;
    const char *const *names = cell_names(arena, &count);
    Diag *diag = diag_add(diags, DIAG_E0301, span, "unknown cell '%s'", name);
    const char *near = text_nearest(name, names, count);
    if (near)
        diag_help(diag, "did you mean '%s'?", near);
    else
        diag_help(diag, "`rnnc cells` lists them; a cell of your own is a path that ends in .cell");
    return NULL;
}

/// The binding with Keras' defaults where it names nothing.
static CellBinding completed(Arena *arena, const CellBinding *binding)
{
    CellBinding full = *binding;
    Diags *ignored = diags_create(arena); // these two names are in the table
    if (!full.activation.name)
        activation_find(arena, ignored, (Span){0}, "tanh", NULL, 0, &full.activation);
    if (!full.recurrent_activation.name)
        activation_find(arena, ignored, (Span){0}, "sigmoid", NULL, 0, &full.recurrent_activation);
    if (!full.output_activation.name)
        full.output_activation = full.activation;
    return full;
}

const Cell *cell_load(Arena *arena, Diags *diags, Span span, const char *name, const char *beside,
                      const CellBinding *binding)
{
    bool is_file = ends_in_cell(name);
    const Source *source =
        is_file ? file_read(arena, diags, beside ? file_beside(arena, beside, name) : name, span)
                : builtin_source(arena, diags, span, name);
    if (!source)
        return NULL;
    CellBinding full = completed(arena, binding);
    Cell *cell = cell_parse(arena, diags, source, &full);
    if (!cell || !cell_zone_out(diags, cell, &full) || !cell_schedule(arena, diags, cell))
        return NULL;
    if (full.trains) {
        cell_derive(arena, cell, full.units, full.projection);
        cell_schedule(arena, diags, cell); // no longer than before: products and norms are the same
    }
    cell->is_builtin = !is_file;
    return cell;
}

static void print_gates(const char *family, const GateList *list, Text *out)
{
    for (int i = 0; i < list->count; i++)
        text_addf(out, "%s%s", i == 0 ? family : " ", list->names[i]);
}

void cell_print_table(Arena *arena, Text *out)
{
    size_t count;
    const char *const *names = cell_names(arena, &count);
    text_addf(out, "%-16s %-10s %-37s %-6s %s\n", "name", "states", "gates", "phases", "title");
    for (size_t i = 0; i < count; i++) {
        CellBinding binding = {.use_bias = true};
        const Cell *cell =
            cell_load(arena, diags_create(arena), (Span){0}, names[i], NULL, &binding);
        if (!cell)
            continue;
        Text states = {.arena = arena}, gates = {.arena = arena};
        for (int k = 0; k < cell->state_count; k++)
            text_addf(&states, "%s%s", k ? " " : "", cell->states[k].name);
        print_gates("", &cell->W, &gates);
        print_gates("; rb ", &cell->rb, &gates);
        print_gates("; p ", &cell->p, &gates);
        text_addf(out, "%-16s %-10s %-37s %-6d %s\n", names[i], text_string(&states),
                  text_string(&gates), cell->phase_count, cell->title);
    }
    text_add(out, "A cell of your own: a path that ends in .cell (docs/cells.md).\n");
}
