// Test data of `rnnc verify`: arrays to feed a module and arrays to expect of it, from one path:
//
//     FOLDER      of ONNX: input_N.pb and output_N.pb; their model lies beside the folder
//     FILE.npz    members in/x, lengths, mask, state/<layer>/h and out/y, out/<layer>/h
#ifndef RNNC_CLI_TEST_DATA_H
#define RNNC_CLI_TEST_DATA_H

#include "cli/module_run.h"

typedef struct {
    GivenArrays given;
    NamedFile *wanted; ///< with the path of each expected array
    NpyArray *expected;
    int count;
} TestData;

/// Appends an expected array.
void test_data_expect(Arena *arena, TestData *data, const char *name, const char *path,
                      const NpyArray *array);

/// Adds what `path` holds. `model` is the ONNX file that the folder's tensors are of (NULL:
/// model.onnx in the folder around it). Adds E04xx or E0810 and returns false on a fault.
bool test_data_read(CliCall *call, const char *path, const char *model, TestData *data);

#endif
