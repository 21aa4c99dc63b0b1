/* Fuzz targets: each gives bytes to one reader and aborts where the reader breaks its promise:
 * a result without errors, or no result and at least one error; and every array of a result
 * readable. Used by the mutation tests (mutate.c) and by libFuzzer (libfuzzer.c). */
#ifndef RNNC_FUZZ_TARGETS_H
#define RNNC_FUZZ_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "import/imported.h"

typedef struct {
    const char *name;
    /* Returns whether the reader took the bytes. */
    bool (*run)(const unsigned char *bytes, size_t size_bytes);
    /* A valid file to start from: malloc'd. */
    unsigned char *(*make)(size_t *out_size_bytes);
} FuzzTarget;

/* Ends with a NULL name. */
extern const FuzzTarget fuzz_targets[];

/* Aborts with `promise` where it does not hold. */
void fuzz_require(bool holds, const char *promise);

/* Prints the diagnostics to nowhere: every place in them has to be one of the text. */
void fuzz_print_diags(const Diags *diags);

/* What a reader of models gives (NULL: nothing): nothing means an error, and the reverse; what it
 * gives has weights that can be read, and prints as a spec that rnnc itself reads. */
void fuzz_check_imported(Arena *arena, Diags *diags, const Imported *model);

bool fuzz_run_hdf5(const unsigned char *bytes, size_t size_bytes);
bool fuzz_run_keras(const unsigned char *bytes, size_t size_bytes);
unsigned char *fuzz_make_hdf5(size_t *out_size_bytes);
unsigned char *fuzz_make_hdf5_latest(size_t *out_size_bytes);
unsigned char *fuzz_make_keras(size_t *out_size_bytes);
unsigned char *fuzz_make_keras_archive(size_t *out_size_bytes);

bool fuzz_run_onnx(const unsigned char *bytes, size_t size_bytes);
bool fuzz_run_onnx_tensor(const unsigned char *bytes, size_t size_bytes);
unsigned char *fuzz_make_onnx(size_t *out_size_bytes);
unsigned char *fuzz_make_onnx_tensor(size_t *out_size_bytes);

bool fuzz_run_pytorch(const unsigned char *bytes, size_t size_bytes);
bool fuzz_run_pytorch_config(const unsigned char *bytes, size_t size_bytes);
unsigned char *fuzz_make_pytorch(size_t *out_size_bytes);
unsigned char *fuzz_make_pytorch_config(size_t *out_size_bytes);

#endif
