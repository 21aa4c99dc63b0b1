// Writes an ONNX model and a folder of its tests as a case of check.py: model.yaml,
// model.safetensors and arrays.npz. `unpack_onnx MODEL.onnx CASE OUT`; 1 with diagnostics.
#include <stdio.h>
#include <string.h>

#include "import/onnx_read.h"

static bool unpack(Arena *arena, Diags *diags, char **paths)
{
    const Imported *model = onnx_read(arena, diags, paths[1]);
    OnnxCase found;
    if (!model || !imported_write(arena, diags, model, paths[3]) ||
        !onnx_case_read(arena, diags, paths[1], paths[2], &found))
        return false;
    NpzMember *members = NULL;
    int count = 0;
    for (int i = 0; i < found.input_count; i++) {
        NpzMember member = found.inputs[i];
        const bool is_lengths = strcmp(member.name, "lengths") == 0;
        if (!is_lengths)
            member.name = arena_format(arena, strcmp(member.name, "x") == 0 ? "in/%s" : "state/%s",
                                       member.name);
        ARENA_PUSH(arena, members, count, member);
    }
    for (int i = 0; i < found.output_count; i++) {
        NpzMember member = found.outputs[i];
        member.name = arena_format(arena, "out/%s", member.name);
        ARENA_PUSH(arena, members, count, member);
    }
    return npz_write(arena, diags, arena_format(arena, "%s/arrays.npz", paths[3]), members, count);
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 4) {
        fprintf(stderr, "usage: unpack_onnx MODEL.onnx CASE OUT\n");
        return 2;
    }
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    unpack(arena, diags, arguments);
    diags_print(diags, stderr, false);
    const int status = diags_exit_code(diags);
    arena_destroy(arena);
    return status;
}
