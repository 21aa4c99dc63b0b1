// Fuzz targets: see targets.h.
#include "targets.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "build/module_note.h"
#include "cell/cell_parse.h"
#include "cell/cell_schedule.h"
#include "import/hdf5.h"
#include "import/keras_read.h"
#include "import/npz.h"
#include "import/safetensors.h"
#include "spec/spec.h"

void fuzz_require(bool holds, const char *promise)
{
    if (holds)
        return;
    fprintf(stderr, "broken promise: %s\n", promise);
    abort();
}

void fuzz_print_diags(const Diags *diags)
{
    FILE *sink = fopen("/dev/null", "w");
    fuzz_require(sink != NULL, "there is a sink");
    diags_print(diags, sink, false);
    fclose(sink);
}

static void check_verdict(const Diags *diags, bool taken)
{
    fuzz_require(taken == (diags_error_count(diags) == 0),
                 "no result means an error, and the reverse");
}

void fuzz_check_imported(Arena *arena, Diags *diags, const Imported *model)
{
    check_verdict(diags, model != NULL);
    if (!model)
        return;
    const Safetensors *weights = imported_tensors(arena, model, "fuzz.safetensors");
    for (int i = 0; i < weights->count; i++)
        safetensors_to_float(&weights->tensors[i],
                             arena_alloc(arena, weights->tensors[i].size_bytes + 1));
    const char *text = imported_spec(arena, model, "fuzz.safetensors");
    Source *source = ARENA_NEW(arena, Source);
    *source = (Source){"fuzz.yaml", text, strlen(text)};
    const bool is_spec = spec_parse(arena, diags, source) != NULL;
    if (!is_spec) {
        fputs(text, stderr);
        diags_print(diags, stderr, false);
    }
    fuzz_require(is_spec, "what is taken prints as a spec");
}

/// Converts every element, so that a wrong size shows as a read outside the bytes.
static void read_array(Arena *arena, const NpyArray *array)
{
    int64_t bad = 0;
    fuzz_require(array->elems >= 0, "an array has no negative size");
    npy_to_float(array, ARENA_ARRAY(arena, float, array->elems + 1));
    npy_to_int32(array, ARENA_ARRAY(arena, int32_t, array->elems + 1), &bad);
}

static bool run_npy(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    NpyArray array;
    bool taken = npy_parse(arena, diags, "fuzz.npy", (Span){0}, bytes, size_bytes, &array);
    check_verdict(diags, taken);
    if (taken)
        read_array(arena, &array);
    arena_destroy(arena);
    return taken;
}

static bool run_npz(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    const Npz *archive = npz_parse(arena, diags, "fuzz.npz", (Span){0}, bytes, size_bytes);
    check_verdict(diags, archive != NULL);
    for (int i = 0; archive && i < archive->count; i++)
        read_array(arena, &archive->members[i].array);
    arena_destroy(arena);
    return archive != NULL;
}

static bool run_safetensors(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    const Safetensors *file =
        safetensors_parse(arena, diags, "fuzz.safetensors", (Span){0}, bytes, size_bytes);
    check_verdict(diags, file != NULL);
    for (int i = 0; file && i < file->count; i++) {
        const SafetensorsTensor *tensor = &file->tensors[i];
        fuzz_require(tensor->size_bytes <= size_bytes, "a tensor is no larger than its file");
        safetensors_to_float(tensor, ARENA_ARRAY(arena, float, tensor->size_bytes + 1));
    }
    arena_destroy(arena);
    return file != NULL;
}

static bool run_note(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    const char *text = NULL;
    size_t length = 0;
    bool taken = module_note_find(diags, "fuzz.so", bytes, size_bytes, &text, &length);
    check_verdict(diags, taken);
    if (taken)
        arena_copy(arena, text, length);
    arena_destroy(arena);
    return taken;
}

/// Prints the diagnostics too: every place in them has to be one of the text.
static bool run_spec(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    Source *source = ARENA_NEW(arena, Source);
    *source = (Source){"fuzz.yaml", arena_copy(arena, (const char *)bytes, size_bytes), size_bytes};
    const Spec *spec = spec_parse(arena, diags, source);
    check_verdict(diags, spec != NULL);
    fuzz_print_diags(diags);
    arena_destroy(arena);
    return spec != NULL;
}

/// Parses, schedules and prints a cell, and prints the diagnostics.
static bool run_cell(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    Source *source = ARENA_NEW(arena, Source);
    *source = (Source){"fuzz.cell", arena_copy(arena, (const char *)bytes, size_bytes), size_bytes};
    CellBinding binding = {.use_bias = true};
    activation_find(arena, diags, (Span){0}, "relu", NULL, 0, &binding.activation);
    binding.recurrent_activation = binding.output_activation = binding.activation;
    Cell *cell = cell_parse(arena, diags, source, &binding);
    if (cell && !cell_schedule(arena, diags, cell))
        cell = NULL;
    check_verdict(diags, cell != NULL);
    Text text = {.arena = arena};
    if (cell)
        cell_print_pointwise(cell, &text);
    fuzz_print_diags(diags);
    arena_destroy(arena);
    return cell != NULL;
}

static unsigned char *copy(const void *bytes, size_t size_bytes)
{
    unsigned char *result = malloc(size_bytes);
    fuzz_require(result != NULL, "there is memory");
    memcpy(result, bytes, size_bytes);
    return result;
}

static unsigned char *make_cell(size_t *out_size_bytes)
{
    static const char text[] = "cell c \"t\" # comment\nstate h, c, m = -inf\n"
                               "i = recurrent_activation(W.i*x + R.i*h + b.i + p.i*c)\n"
                               "v = gelu(W.v*x + i*(R.v*h + rb.v))\n"
                               "m' = max(m, v > 0 ? v : 0.5)\nc' = i*c + (1 - i)*v/m'\n"
                               "h' = P*(output_activation(c'))\n";
    *out_size_bytes = sizeof text - 1;
    return copy(text, sizeof text - 1);
}

static unsigned char *make_npy(size_t *out_size_bytes)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    Arena *arena = arena_create();
    Text text = {.arena = arena};
    const NpyArray array = {NPY_FLOAT32, 2, {2, 3}, 6, (const unsigned char *)values};
    npy_print(&array, &text);
    *out_size_bytes = text.length;
    unsigned char *result = copy(text.data, text.length);
    arena_destroy(arena);
    return result;
}

/// Two members, one deflated: {"h": float32 [[1.5, -2]], "n": int32 -7} as zipfile writes them.
static unsigned char *make_npz(size_t *out_size_bytes)
{
    static const unsigned char archive[] = {
        0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0xfd,
        0xcf, 0xa5, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05, 0x00, 0x14, 0x00,
        0x68, 0x2e, 0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x88, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b,
        0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5,
        0xa0, 0x6e, 0x93, 0x66, 0xa2, 0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98,
        0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17,
        0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a, 0x86, 0x3a, 0x0a, 0x46, 0x9a, 0x3a, 0x0a, 0xb5,
        0x0a, 0x64, 0x03, 0x2e, 0x06, 0x86, 0x03, 0xf6, 0x0c, 0x40, 0x02, 0x00, 0x50, 0x4b, 0x03,
        0x04, 0x2d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x21, 0x00, 0x8a, 0x6a, 0xb6, 0xd2,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05, 0x00, 0x14, 0x00, 0x6e, 0x2e, 0x6e,
        0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x84,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 0x01, 0x00,
        0x76, 0x00, 0x7b, 0x27, 0x64, 0x65, 0x73, 0x63, 0x72, 0x27, 0x3a, 0x20, 0x27, 0x3c, 0x69,
        0x34, 0x27, 0x2c, 0x20, 0x27, 0x66, 0x6f, 0x72, 0x74, 0x72, 0x61, 0x6e, 0x5f, 0x6f, 0x72,
        0x64, 0x65, 0x72, 0x27, 0x3a, 0x20, 0x46, 0x61, 0x6c, 0x73, 0x65, 0x2c, 0x20, 0x27, 0x73,
        0x68, 0x61, 0x70, 0x65, 0x27, 0x3a, 0x20, 0x28, 0x29, 0x2c, 0x20, 0x7d, 0x20, 0x20, 0x20,
        0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20,
        0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20,
        0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20,
        0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x0a,
        0xf9, 0xff, 0xff, 0xff, 0x50, 0x4b, 0x01, 0x02, 0x2d, 0x03, 0x2d, 0x00, 0x00, 0x00, 0x08,
        0x00, 0x00, 0x00, 0x21, 0x00, 0xfd, 0xcf, 0xa5, 0x08, 0x4d, 0x00, 0x00, 0x00, 0x88, 0x00,
        0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80,
        0x01, 0x00, 0x00, 0x00, 0x00, 0x68, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x01, 0x02, 0x2d,
        0x03, 0x2d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x21, 0x00, 0x8a, 0x6a, 0xb6, 0xd2,
        0x84, 0x00, 0x00, 0x00, 0x84, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x84, 0x00, 0x00, 0x00, 0x6e, 0x2e, 0x6e, 0x70,
        0x79, 0x50, 0x4b, 0x05, 0x06, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x02, 0x00, 0x66, 0x00,
        0x00, 0x00, 0x3f, 0x01, 0x00, 0x00, 0x00, 0x00};
    *out_size_bytes = sizeof archive;
    return copy(archive, sizeof archive);
}

static unsigned char *make_safetensors(size_t *out_size_bytes)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                                 "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[8,14]},"
                                 "\"c\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[14,22]}}";
    unsigned char file[8 + sizeof header - 1 + 22] = {(unsigned char)(sizeof header - 1)};
    memcpy(file + 8, header, sizeof header - 1);
    *out_size_bytes = sizeof file;
    return copy(file, sizeof file);
}

static unsigned char *make_spec(size_t *out_size_bytes)
{
    static const char text[] = "rnnc: 1\nname: s\n"
                               "input: {features: 8, batch: 3, timesteps: 10}\n"
                               "layers:\n  - {masking: -1}\n"
                               "  - {bidirectional: {merge: sum, layer: {cell: rnn, units: 4, "
                               "return_sequences: true, clip: 5}, backward: {cell: lstmp, "
                               "units: 4, projection: 4, return_sequences: true}}, name: b}\n"
                               "  - {cell: lstm, units: 4, heads: 2, zoneout: {h: 0.1, c: 1}, "
                               "direction: reverse, stateful: true, return_sequences: true, "
                               "input_forget: true, recurrent_dropout: 0.5}\n"
                               "  - {cell: gru, units: 2, go_backwards: true, "
                               "zero_output_for_mask: true, return_sequences: true}\n"
                               "  - {cell: lstm, units: 4, activation: {affine: [0.5, 1]}}\n"
                               "  - cell: gru\n    units: 3\n    reset_after: false\n"
                               "  - {dropout: 0.2}\n  - {dense: {units: 2, activation: relu}}\n"
                               "compile: {precision: tf32, unroll: 2, targets: [sm_90, cpu], "
                               "dropout_at_inference: true}\n"
                               "weights: {seed: 1}\n";
    *out_size_bytes = sizeof text - 1;
    return copy(text, sizeof text - 1);
}

/// What stands only behind tokens, and two outputs.
static unsigned char *make_token_spec(size_t *out_size_bytes)
{
    static const char text[] = "rnnc: 1\nname: t\n"
                               "input: {tokens: 9, layout: time_major}\nlayers:\n"
                               "  - {embedding: {units: 3, mask_zero: true}}\n"
                               "  - {bidirectional: {merge: none, layer: {cell: gru, units: 4, "
                               "zoneout: 0.5}}}\n"
                               "weights: {seed: 1}\n";
    *out_size_bytes = sizeof text - 1;
    return copy(text, sizeof text - 1);
}

/// An ELF file of a segment and a section that both lead to one note.
static unsigned char *make_note(size_t *out_size_bytes)
{
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr segment;
        Elf64_Shdr section;
        Elf64_Nhdr note;
        char owner[8], text[12];
    } file = {.note = {5, sizeof file.text, 1}, .owner = "rnnc", .text = "{\"name\":1}"};
    const size_t note_at = offsetof(__typeof__(file), note), note_bytes = sizeof file - note_at;
    file.header = (Elf64_Ehdr){.e_type = ET_DYN,
                               .e_phoff = offsetof(__typeof__(file), segment),
                               .e_phentsize = sizeof file.segment,
                               .e_phnum = 1,
                               .e_shoff = offsetof(__typeof__(file), section),
                               .e_shentsize = sizeof file.section,
                               .e_shnum = 1};
    memcpy(file.header.e_ident, ELFMAG, SELFMAG);
    file.header.e_ident[EI_CLASS] = ELFCLASS64;
    file.header.e_ident[EI_DATA] = ELFDATA2LSB;
    file.segment =
        (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = note_at, .p_filesz = note_bytes, .p_align = 4};
    file.section = (Elf64_Shdr){
        .sh_type = SHT_NOTE, .sh_offset = note_at, .sh_size = note_bytes, .sh_addralign = 4};
    *out_size_bytes = sizeof file;
    return copy(&file, sizeof file);
}

const FuzzTarget fuzz_targets[] = {
    {"cell", run_cell, make_cell},
    {"hdf5", fuzz_run_hdf5, fuzz_make_hdf5},
    {"hdf5_latest", fuzz_run_hdf5, fuzz_make_hdf5_latest},
    {"keras", fuzz_run_keras, fuzz_make_keras},
    {"keras_archive", fuzz_run_keras, fuzz_make_keras_archive},
    {"note", run_note, make_note},
    {"npy", run_npy, make_npy},
    {"npz", run_npz, make_npz},
    {"onnx", fuzz_run_onnx, fuzz_make_onnx},
    {"onnx_tensor", fuzz_run_onnx_tensor, fuzz_make_onnx_tensor},
    {"pytorch", fuzz_run_pytorch, fuzz_make_pytorch},
    {"pytorch_config", fuzz_run_pytorch_config, fuzz_make_pytorch_config},
    {"safetensors", run_safetensors, make_safetensors},
    {"spec", run_spec, make_spec},
    {"spec_tokens", run_spec, make_token_spec},
    {NULL, NULL, NULL},
};
