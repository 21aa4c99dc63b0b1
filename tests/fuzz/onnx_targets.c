// Fuzz targets of the ONNX readers: see targets.h. A model that is taken has to print as a spec
// that rnnc itself reads. Valid files to start from are in corpus/onnx and, of test data,
// corpus/onnx_case; under libFuzzer the models of tests/oracles/onnx_models serve too.
#include <stdlib.h>
#include <string.h>

#include "import/onnx_read.h"
#include "import/onnx_tensor.h"
#include "targets.h"

bool fuzz_run_onnx(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    const OnnxModel *model = onnx_read_bytes(arena, diags, "fuzz/in.onnx", bytes, size_bytes);
    fuzz_check_imported(arena, diags, model ? model->model : NULL);
    fuzz_print_diags(diags);
    arena_destroy(arena);
    return model != NULL;
}

bool fuzz_run_onnx_tensor(const unsigned char *bytes, size_t size_bytes)
{
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    OnnxTensor tensor;
    const bool taken = onnx_tensor_parse(arena, diags, "fuzz/in.pb", bytes, size_bytes, &tensor);
    fuzz_require(taken == (diags_error_count(diags) == 0),
                 "no result means an error, and the reverse");
    double sum = 0;
    for (int64_t i = 0; taken && i < tensor.elems; i++)
        sum += tensor.floats ? (double)tensor.floats[i] : (double)tensor.integers[i];
    fuzz_require(sum == sum || taken, "every element can be read");
    fuzz_print_diags(diags);
    arena_destroy(arena);
    return taken;
}

/// The models that cases are of: one of tokens, one with the outputs of every step.
static const OnnxModel *model_of_case(unsigned char kind)
{
    static const OnnxModel *models[2];
    static const char *const paths[] = {RNNC_FUZZ_CORPUS "/onnx/model.onnx",
                                        RNNC_FUZZ_CORPUS "/onnx/states.onnx"};
    for (int i = 0; i < 2 && !models[i]; i++) { // kept to the end
        Arena *arena = arena_create();
        models[i] = onnx_read_model(arena, diags_create(arena), paths[i]);
        fuzz_require(models[i] != NULL, "the corpus is there");
    }
    return models[kind & 1];
}

static void read_members(Arena *arena, const NpzMember *members, int count)
{
    for (int i = 0; i < count; i++)
        npy_to_float(&members[i].array, ARENA_ARRAY(arena, float, members[i].array.elems + 1));
}

/// A byte that chooses a model; then, for each of its ports, two bytes of length, little-endian,
/// and a tensor of so many bytes.
bool fuzz_run_onnx_case(const unsigned char *bytes, size_t size_bytes)
{
    const OnnxModel *model = model_of_case(size_bytes ? bytes[0] : 0);
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    OnnxTensor *tensors = ARENA_ARRAY(arena, OnnxTensor, model->port_count + 1);
    bool taken = true;
    size_t at = 1;
    for (int i = 0; taken && i < model->port_count; i++) {
        size_t length = at + 2 <= size_bytes ? (size_t)(bytes[at] | bytes[at + 1] << 8) : 0;
        at = at + 2 <= size_bytes ? at + 2 : size_bytes;
        length = length <= size_bytes - at ? length : size_bytes - at;
        taken = onnx_tensor_parse(arena, diags, "fuzz/in.pb", bytes + at, length, &tensors[i]);
        at += length;
    }
    OnnxCase found;
    taken = taken && onnx_case_arrange(arena, diags, model, "fuzz", tensors, &found);
    fuzz_require(taken == (diags_error_count(diags) == 0),
                 "no result means an error, and the reverse");
    if (taken) {
        read_members(arena, found.inputs, found.input_count);
        read_members(arena, found.outputs, found.output_count);
    }
    fuzz_print_diags(diags);
    arena_destroy(arena);
    return taken;
}

static unsigned char *read_seed(const char *path, size_t *out_size_bytes)
{
    FILE *file = fopen(path, "rb");
    fuzz_require(file != NULL, "the corpus is there");
    enum { ROOM_BYTES = 1 << 14 };
    unsigned char *bytes = malloc(ROOM_BYTES);
    fuzz_require(bytes != NULL, "there is memory");
    *out_size_bytes = fread(bytes, 1, ROOM_BYTES, file);
    fclose(file);
    return bytes;
}

unsigned char *fuzz_make_onnx(size_t *out_size_bytes)
{
    return read_seed(RNNC_FUZZ_CORPUS "/onnx/model.onnx", out_size_bytes);
}

unsigned char *fuzz_make_onnx_case(size_t *out_size_bytes)
{
    return read_seed(RNNC_FUZZ_CORPUS "/onnx_case/states", out_size_bytes);
}

/// Two half floats as bits, in the field for 32-bit integers.
unsigned char *fuzz_make_onnx_tensor(size_t *out_size_bytes)
{
    static const char tensor[] = "\x08\x02\x08\x01\x10\x0a\x42\x01w\x2a\x05\x80\x88\x03\x80\x78";
    *out_size_bytes = sizeof tensor - 1;
    unsigned char *bytes = malloc(*out_size_bytes);
    fuzz_require(bytes != NULL, "there is memory");
    memcpy(bytes, tensor, *out_size_bytes);
    return bytes;
}
