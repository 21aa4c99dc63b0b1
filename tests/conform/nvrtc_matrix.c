// What NVRTC makes of every cell x variant x precision: each device image is compiled for sm_90 and
// its kernels' registers and spills are held against the budgets recorded in budgets.txt.
//
//     nvrtc_matrix BUDGETS              registers at most 8 above, spills not above; exit 1
//     otherwise nvrtc_matrix BUDGETS --update     writes the file anew
//
// A line: cell-size-precision image kernel registers spill_store_bytes spill_load_bytes. Kernels
// that are not recorded, and records whose kernel is gone, are faults too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "build/build.h"
#include "conform/network.h"

enum { REGISTERS_SLACK = 8, SLOT_BYTES = 8192, NAME_BYTES = 160, WORKERS = 2, EXIT_SKIPPED = 77 };

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
    const char *cell, *precision;
    int64_t units;
} Case;

static const char *const precisions[] = {"float32", "tf32", "bfloat16", "float16"};

/// Every cell at H = 64 in every precision, and at H = 130 in float32.
static int make_cases(Case *out)
{
    int count = 0;
    for (int cell = 0; reference_cells[cell].name; cell++) {
        for (int p = 0; p < 4; p++)
            out[count++] = (Case){reference_cells[cell].name, precisions[p], 64};
        out[count++] = (Case){reference_cells[cell].name, "float32", 130};
    }
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

static bool build(Arena *arena, Diags *diags, const Case *of, const char *name, const char *folder,
                  Text *out)
{
    static const ReferenceActivation defaults[3] = {{NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
    const int arch = 90;
    Network network = {.name = name, .precision = of->precision, .inputs = 64, .bias = true};
    network.sequences = true;
    const int64_t projection = strcmp(of->cell, "lstmp") == 0 ? of->units / 2 : 0;
    network_add_cell(arena, &network, of->cell, of->units, projection, defaults);
    const char *path = network_write(arena, diags, &network, folder, "canonical");
    const Spec *spec = path ? spec_read(arena, diags, path) : NULL;
    const Model *model = spec ? model_build_shapes(arena, diags, spec) : NULL;
    const Plan *plan = model ? plan_make(arena, diags, model, &arch, 1, false, "all") : NULL;
    Images images;
    if (path)
        unlink(path);
    if (!plan || !build_images(arena, diags, plan, &arch, 1, 1, &images))
        return false;
    for (int k = 0; k < images.count; k++) // sequence is the same for all: recorded once
        if (k != images.sequence || strcmp(name, "rnn-H64-float32") == 0)
            read_log(arena_format(arena, "%s %s", name, images.items[k].name),
                     images.items[k].ptxas_log, out);
    return true;
}

/// One case in a forked process; the lines go into its slot, "fault" where it does not compile.
static void build_into(const Case *of, const char *folder, char *slot)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    Text lines = {.arena = arena};
    const char *name = arena_format(arena, "%s-H%ld-%s", of->cell, (long)of->units, of->precision);
    const bool ok = build(arena, diags, of, name, folder, &lines);
    diags_print(diags, stdout, false);
    if (!ok || lines.length == 0 || lines.length >= SLOT_BYTES) {
        printf("FAIL %s: no kernels\n", name);
        snprintf(slot, SLOT_BYTES, "fault");
    } else {
        snprintf(slot, SLOT_BYTES, "%s", text_string(&lines));
    }
    fflush(stdout);
    arena_destroy(arena);
}

/// Builds all cases, WORKERS at a time. Returns how many failed.
static int build_all(const Case *cases, int count, const char *folder, char (*slots)[SLOT_BYTES])
{
    int faults = 0;
    for (int worker = 0; worker < WORKERS; worker++) {
        fflush(stdout);
        const pid_t child = fork();
        if (child != 0)
            continue;
        for (int k = worker; k < count; k += WORKERS)
            build_into(&cases[k], folder, slots[k]);
        _exit(0);
    }
    while (wait(NULL) > 0)
        continue;
    for (int k = 0; k < count; k++)
        faults += slots[k][0] == 0 || strcmp(slots[k], "fault") == 0;
    return faults;
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
    const int count = make_cases(cases);
    char folder[] = "/tmp/rnnc-nvrtc-XXXXXX";
    char(*slots)[SLOT_BYTES] = mmap(NULL, (size_t)count * SLOT_BYTES, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (slots == MAP_FAILED || !mkdtemp(folder))
        return 3;
    Arena *arena = arena_create();
    Kernels found = {0}, recorded = {0};
    int faults = build_all(cases, count, folder, slots);
    rmdir(folder);
    for (int k = 0; k < count; k++)
        read_kernels(arena, slots[k], &found);
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
