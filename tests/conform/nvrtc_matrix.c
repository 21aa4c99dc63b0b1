// What NVRTC makes of every cell x variant x precision, and of what a layer can be asked to do:
// each device image is compiled for sm_90 and its kernels' registers and spills are held against
// the budgets recorded in budgets.txt.
//
//     nvrtc_matrix BUDGETS              registers at most 8 above, spills not above; exit 1
//     otherwise nvrtc_matrix BUDGETS --update     writes the file anew
//
// A line: case-size-precision image kernel registers spill_store_bytes spill_load_bytes. An image
// that cases share (the input product, say) is compiled once and stands under the first of them.
// Kernels that are not recorded, and records whose kernel is gone, are faults too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "build/build.h"
#include "conform/network.h"

enum { REGISTERS_SLACK = 8, NAME_BYTES = 160, WORKERS = 2, EXIT_SKIPPED = 77 };

/// What ptxas says of one kernel.
typedef struct {
    char name[NAME_BYTES]; ///< "lstm-H64-float32 l0.stepwise rnn_step"
    int registers, spill_stores, spill_loads;
} Kernel;

typedef struct {
    Kernel *items;
    int count;
} Kernels;

typedef struct {
    const char *label, *precision; ///< label NULL: the cell
    NetworkCell cell;
    bool surrounded; ///< by layers of every other kind
    bool trains;
    bool generates; ///< between an embedding and as many logits
} Case;

/// The distinct images of all cases.
typedef struct {
    Images images;
    const char **names; ///< of each: "lstm-H64-float32 l0.stepwise"
} ImageSet;

static const char *const precisions[] = {"float32", "tf32", "bfloat16", "float16"};

/// Code that no plain cell has.
static const Case options[] = {
    {.label = "lstm-heads",
     .precision = "float32",
     .cell = {.cell = "lstm", .units = 64, .heads = 4}},
    {.label = "lstm-heads",
     .precision = "bfloat16",
     .cell = {.cell = "lstm", .units = 130, .heads = 5}},
    {.label = "gru_before-heads",
     .precision = "float16",
     .cell = {.cell = "gru_before", .units = 64, .heads = 4}},
    {.label = "lstm-reverse",
     .precision = "float32",
     .cell = {.cell = "lstm", .units = 64, .direction = NETWORK_REVERSE}},
    {.label = "gru-reverse",
     .precision = "float16",
     .cell = {.cell = "gru", .units = 64, .direction = NETWORK_REVERSE}},
    {.label = "lstm-backwards",
     .precision = "bfloat16",
     .cell = {.cell = "lstm", .units = 64, .direction = NETWORK_GO_BACKWARDS}},
    {.label = "lstm-drops",
     .precision = "float32",
     .cell = {.cell = "lstm", .units = 64, .recurrent_dropout = 0.25}},
    {.label = "gru_before-drops",
     .precision = "bfloat16",
     .cell = {.cell = "gru_before", .units = 64, .recurrent_dropout = 0.25}},
    {.label = "lstmp-drops",
     .precision = "float32",
     .cell = {.cell = "lstmp", .units = 64, .projection = 32, .recurrent_dropout = 0.25}},
    {.label = "gru-drops-heads",
     .precision = "float32",
     .cell = {.cell = "gru", .units = 64, .heads = 4, .recurrent_dropout = 0.25}},
    {.label = "among-others",
     .precision = "float32",
     .cell = {.cell = "rnn", .units = 64, .direction = NETWORK_BIDIRECTIONAL, .merge = NETWORK_SUM},
     .surrounded = true},
    {.label = "among-others",
     .precision = "bfloat16",
     .cell = {.cell = "rnn", .units = 64, .direction = NETWORK_BIDIRECTIONAL, .merge = NETWORK_SUM},
     .surrounded = true},
    {.label = "train-among-others",
     .precision = "bfloat16",
     .cell = {.cell = "lstm", .units = 64, .recurrent_dropout = 0.25, .zoneout = {0.1, 0.1}},
     .surrounded = true,
     .trains = true},
    {.label = "generate-grid",
     .precision = "float32",
     .cell = {.cell = "lstm", .units = 64, .depth = 2},
     .generates = true},
    {.label = "generate-cluster",
     .precision = "float16",
     .cell = {.cell = "lstm", .units = 64, .depth = 2},
     .generates = true},
};

/// Every cell at H = 64 in every precision, and at H = 130 in float32; every cell in training; then
/// the options.
static int make_cases(Arena *arena, Case *out)
{
    int count = 0;
    for (int cell = 0; reference_cells[cell].name; cell++)
        for (int p = 0; p <= 4; p++) {
            Case *of = &out[count++];
            *of = (Case){.precision = precisions[p % 4],
                         .cell = {.cell = reference_cells[cell].name}};
            of->cell.units = p < 4 ? 64 : 130;
            of->cell.projection = strcmp(of->cell.cell, "lstmp") == 0 ? of->cell.units / 2 : 0;
        }
    for (int cell = 0; reference_cells[cell].name; cell++) {
        Case *of = &out[count++];
        *of = (Case){.label = arena_format(arena, "train-%s", reference_cells[cell].name),
                     .precision = precisions[0],
                     .cell = {.cell = reference_cells[cell].name, .units = 64},
                     .trains = true};
        of->cell.projection = strcmp(of->cell.cell, "lstmp") == 0 ? 32 : 0;
    }
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        out[count++] = options[k];
    return count;
}

/// Reads one image's ptxas -v text: "Compiling entry function 'NAME'", then "N bytes stack frame,
/// N bytes spill stores, N bytes spill loads", then "Used N registers".
static void read_log(const char *prefix, const char *log, Text *out)
{
    char name[64] = "";
    int stores = 0, loads = 0;
    for (const char *line = log; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const size_t length = strcspn(line, "\n");
        const char *entry = strstr(line, "Compiling entry function '");
        const char *spill = strstr(line, "bytes stack frame, ");
        const char *used = strstr(line, "Used ");
        if (entry && entry < line + length)
            sscanf(entry, "Compiling entry function '%63[^']", name);
        if (spill && spill < line + length)
            sscanf(spill, "bytes stack frame, %d bytes spill stores, %d", &stores, &loads);
        int registers;
        if (used && used < line + length && sscanf(used, "Used %d registers", &registers) == 1)
            text_addf(out, "%s %s %d %d %d\n", prefix, name, registers, stores, loads);
    }
}

static void read_kernels(Arena *arena, const char *text, Kernels *out)
{
    for (const char *line = text; line && *line;) {
        Kernel kernel;
        char parts[3][64];
        if (sscanf(line, "%63s %63s %63s %d %d %d", parts[0], parts[1], parts[2], &kernel.registers,
                   &kernel.spill_stores, &kernel.spill_loads) == 6 &&
            line[0] != '#') {
            snprintf(kernel.name, NAME_BYTES, "%.50s %.50s %.50s", parts[0], parts[1], parts[2]);
            ARENA_PUSH(arena, out->items, out->count, kernel);
        }
        line = strchr(line, '\n');
        line += line != NULL;
    }
}

/// Adds what no case before has printed.
static void add_images(Arena *arena, ImageSet *set, const char *name, const Images *from)
{
    for (int k = 0; k < from->count; k++) {
        const Image *image = &from->items[k];
        bool is_new = true;
        for (int i = 0; i < set->images.count && is_new; i++)
            is_new = !text_equal(set->images.items[i].stub, image->stub);
        if (!is_new)
            continue;
        int names = set->images.count;
        ARENA_PUSH(arena, set->names, names, arena_format(arena, "%s %s", name, image->name));
        ARENA_PUSH(arena, set->images.items, set->images.count, *image);
    }
}

static bool print_case(Arena *arena, Diags *diags, const Case *of, const char *folder,
                       ImageSet *set)
{
    static const int arch = 90;
    const char *name = arena_format(arena, "%s-H%ld-%s", of->label ? of->label : of->cell.cell,
                                    (long)of->cell.units, of->precision);
    // Inputs as units: 64 of them are taken as they lie, 130 go by blocks.
    Network network = {
        .name = name, .precision = of->precision, .inputs = of->cell.units, .bias = true};
    network.sequences = true;
    network.drops = of->surrounded || of->cell.recurrent_dropout > 0.0;
    if (of->generates)
        network_add_embedding(arena, &network, 64, false);
    if (of->surrounded) {
        network_add_embedding(arena, &network, 64, true);
        network_add_masking(arena, &network, 0.5);
    }
    network_add_recurrent(arena, &network, &of->cell, NULL);
    if (of->surrounded) {
        network_add_dropout(arena, &network, 0.5);
        network_add_dense(arena, &network, 64, (ReferenceActivation){"gelu", 0, 0});
        network_add_activation(arena, &network, (ReferenceActivation){"mish", 0, 0});
    }
    if (of->generates)
        network_add_dense(arena, &network, of->cell.units, (ReferenceActivation){"linear", 0, 0});
    if (of->trains)
        network_train(&network);
    const char *path = network_write(arena, diags, &network, folder, "canonical");
    const Spec *spec = path ? spec_read(arena, diags, path) : NULL;
    const Model *model = spec ? model_build_shapes(arena, diags, spec) : NULL;
    const Plan *plan = model ? plan_make(arena, diags, model, &arch, 1, false, "all") : NULL;
    if (path)
        unlink(path);
    if (!plan)
        return false;
    Images images;
    images_print(arena, plan, &images);
    add_images(arena, set, name, &images);
    return true;
}

/// Compiles the images of all cases and reads their logs.
static bool build_all(Arena *arena, Diags *diags, const Case *cases, int count, Kernels *out)
{
    static const int arch = 90;
    char folder[] = "/tmp/rnnc-nvrtc-XXXXXX";
    if (!mkdtemp(folder))
        return false;
    ImageSet set = {0};
    bool built = true;
    for (int k = 0; k < count && built; k++)
        built = print_case(arena, diags, &cases[k], folder, &set);
    rmdir(folder);
    built = built && images_compile(arena, diags, &set.images, &arch, 1, WORKERS);
    Text lines = {.arena = arena};
    for (int k = 0; k < set.images.count && built; k++)
        read_log(set.names[k], set.images.items[k].ptxas_log, &lines);
    read_kernels(arena, text_string(&lines), out);
    return built;
}

static const Kernel *find(const Kernels *kernels, const char *name)
{
    for (int k = 0; k < kernels->count; k++)
        if (strcmp(kernels->items[k].name, name) == 0)
            return &kernels->items[k];
    return NULL;
}

static int compare(const Kernels *found, const Kernels *recorded)
{
    int faults = 0;
    for (int k = 0; k < found->count; k++) {
        const Kernel *now = &found->items[k], *then = find(recorded, now->name);
        if (!then) {
            printf("FAIL %s: not recorded (run with --update)\n", now->name);
        } else if (now->registers > then->registers + REGISTERS_SLACK ||
                   now->spill_stores > then->spill_stores || now->spill_loads > then->spill_loads) {
            printf("FAIL %s: %d registers, spills %d %d; recorded %d, %d %d\n", now->name,
                   now->registers, now->spill_stores, now->spill_loads, then->registers,
                   then->spill_stores, then->spill_loads);
        } else {
            continue;
        }
        faults++;
    }
    for (int k = 0; k < recorded->count; k++)
        if (!find(found, recorded->items[k].name)) {
            printf("FAIL %s: recorded, but not built\n", recorded->items[k].name);
            faults++;
        }
    return faults;
}

static bool update(Arena *arena, const char *path, const Kernels *found)
{
    Text out = {.arena = arena};
    text_add(&out,
             "# Registers and spill bytes (stores, loads) of each kernel on sm_90, by NVRTC.\n"
             "# Written by `nvrtc_matrix budgets.txt --update`.\n");
    for (int k = 0; k < found->count; k++)
        text_addf(&out, "%s %d %d %d\n", found->items[k].name, found->items[k].registers,
                  found->items[k].spill_stores, found->items[k].spill_loads);
    return file_write(arena, diags_create(arena), path, text_string(&out), out.length);
}

int main(int argument_count, char **arguments)
{
#ifndef RNNC_CUDA
    printf("skipped: built without CUDA\n");
    return EXIT_SKIPPED;
#endif
    const bool updates = argument_count == 3 && strcmp(arguments[2], "--update") == 0;
    if (argument_count != 2 && !updates) {
        fprintf(stderr, "usage: nvrtc_matrix BUDGETS [--update]\n");
        return 2;
    }
    Case cases[128];
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    Kernels found = {0}, recorded = {0};
    int faults = !build_all(arena, diags, cases, make_cases(arena, cases), &found);
    diags_print(diags, stdout, false);
    const Source *text = file_read(arena, diags_create(arena), arguments[1], (Span){0});
    if (text)
        read_kernels(arena, text->text, &recorded);
    if (!updates)
        faults += compare(&found, &recorded);
    else if (!faults && !update(arena, arguments[1], &found))
        faults++;
    printf("%d kernels, %d faults\n", found.count, faults);
    arena_destroy(arena);
    return faults || !found.count ? 1 : 0;
}
