// Fuzz targets of the ONNX readers: see targets.h. A model that is taken has to print as a spec
// that rnnc itself reads. Valid files to start from are in corpus/onnx; under libFuzzer the models
// of tests/oracles/onnx_models serve too.
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

unsigned char *fuzz_make_onnx(size_t *out_size_bytes)
{
    FILE *file = fopen(RNNC_FUZZ_CORPUS "/onnx/model.onnx", "rb");
    fuzz_require(file != NULL, "the corpus is there");
    enum { ROOM_BYTES = 1 << 14 };
    unsigned char *bytes = malloc(ROOM_BYTES);
    fuzz_require(bytes != NULL, "there is memory");
    *out_size_bytes = fread(bytes, 1, ROOM_BYTES, file);
    fclose(file);
    return bytes;
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
