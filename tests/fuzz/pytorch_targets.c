// Fuzz targets of the PyTorch reader: a state_dict without a configuration, and configurations of
// one fixed state_dict. A model that is taken has to print as a spec that rnnc itself reads. Valid
// files to start from are in corpus/pytorch: of tests/oracles/pytorch_files.
#include <stdlib.h>
#include <string.h>

#include "import/pytorch_read.h"
#include "targets.h"

static bool run(Arena *arena, const Safetensors *file, const Source *json, Diags *diags)
{
    const ImportOptions options = {.nonlinearity = NULL};
    const Imported *model = pytorch_parse(arena, diags, file, json, &options);
    fuzz_check_imported(arena, diags, model);
    return model != NULL;
}

bool fuzz_run_pytorch(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    import_reader_of(bytes, size_bytes);
    const Safetensors *file =
        safetensors_parse(arena, diags, "fuzz.safetensors", (Span){0}, bytes, size_bytes);
    const bool taken = file && run(arena, file, NULL, diags);
    fuzz_print_diags(diags);
    arena_destroy(arena);
    return taken;
}

bool fuzz_run_pytorch_config(const unsigned char *bytes, size_t size_bytes)
{
    static const float values[32];
    const unsigned char *data = (const unsigned char *)values;
    SafetensorsTensor tensors[] = {
        {"m.weight", "F32", {3, 2}, 2, data, 24},
        {"r.weight_ih_l0", "F32", {2, 2}, 2, data, 16},
        {"r.weight_hh_l0", "F32", {2, 2}, 2, data, 16},
        {"r.weight_ih_l1", "F32", {2, 2}, 2, data, 16},
        {"r.weight_hh_l1", "F32", {2, 2}, 2, data, 16},
        {"f.weight", "F32", {4, 2}, 2, data, 32},
        {"f.bias", "F32", {4}, 1, data, 16},
    };
    const Safetensors file = {"fuzz.safetensors", tensors, sizeof tensors / sizeof *tensors};
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    const Source json = {"config.json", arena_copy(arena, (const char *)bytes, size_bytes),
                         size_bytes};
    const bool taken = run(arena, &file, &json, diags);
    fuzz_print_diags(diags);
    arena_destroy(arena);
    return taken;
}

unsigned char *fuzz_make_pytorch(size_t *out_size_bytes)
{
    FILE *file = fopen(RNNC_FUZZ_CORPUS "/pytorch/language_model.safetensors", "rb");
    fuzz_require(file != NULL, "the corpus is there");
    enum { ROOM_BYTES = 1 << 14 };
    unsigned char *bytes = malloc(ROOM_BYTES);
    fuzz_require(bytes != NULL, "there is memory");
    *out_size_bytes = fread(bytes, 1, ROOM_BYTES, file);
    fclose(file);
    return bytes;
}

unsigned char *fuzz_make_pytorch_config(size_t *out_size_bytes)
{
    static const char text[] =
        "{\"batch_first\": false, \"nonlinearity\": \"tanh\", \"order\": [\"m\", \"r\", \"f\", "
        "\"relu\"],\n \"r\": {\"type\": \"RNN\", \"num_layers\": 2, \"dropout\": 0.25, \"bias\": "
        "false, \"nonlinearity\": \"relu\"},\n \"m\": {\"type\": \"Embedding\"}, \"other\": 1e3}";
    *out_size_bytes = sizeof text - 1;
    unsigned char *bytes = malloc(sizeof text);
    fuzz_require(bytes != NULL, "there is memory");
    memcpy(bytes, text, sizeof text);
    return bytes;
}
