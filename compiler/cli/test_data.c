// Test data: see test_data.h.
#include "cli/test_data.h"

#include <string.h>
#include <sys/stat.h>

#include "import/onnx_read.h"

void test_data_expect(Arena *arena, TestData *data, const char *name, const char *path,
                      const NpyArray *array)
{
    int slot = data->count;
    ARENA_PUSH(arena, data->expected, slot, *array);
    const NamedFile wanted = {name, path};
    ARENA_PUSH(arena, data->wanted, data->count, wanted);
}

static bool read_folder(CliCall *call, const char *path, const char *model, TestData *data)
{
    OnnxCase found;
    if (!model)
        model = arena_format(call->arena, "%s/../model.onnx", path);
    if (!onnx_case_read(call->arena, call->diags, model, path, &found))
        return false;
    data->given = (GivenArrays){path, found.inputs, found.input_count};
    for (int i = 0; i < found.output_count; i++)
        test_data_expect(call->arena, data, found.outputs[i].name, path, &found.outputs[i].array);
    return true;
}

/// What stands behind "in/", "state/" or "out/"; the name itself of lengths and mask; else NULL.
static const char *name_within(const char *member, bool *is_output)
{
    *is_output = strncmp(member, "out/", 4) == 0;
    if (*is_output)
        return member + 4;
    if (strncmp(member, "in/", 3) == 0)
        return member + 3;
    if (strncmp(member, "state/", 6) == 0)
        return member + 6;
    return strcmp(member, "lengths") == 0 || strcmp(member, "mask") == 0 ? member : NULL;
}

static bool read_archive(CliCall *call, const char *path, TestData *data)
{
    const Npz *archive = npz_open(call->arena, call->diags, path, (Span){0});
    if (!archive)
        return false;
    NpzMember *given = ARENA_ARRAY(call->arena, NpzMember, archive->count + 1);
    data->given = (GivenArrays){path, given, 0};
    for (int i = 0; i < archive->count; i++) {
        const NpzMember *member = &archive->members[i];
        bool is_output;
        const char *name = name_within(member->name, &is_output);
        if (!name) {
            diag_add(call->diags, DIAG_E0810, (Span){0},
                     "'%s': member '%s' is neither in/..., state/..., out/..., lengths nor mask",
                     path, member->name);
            return false;
        }
        if (is_output)
            test_data_expect(call->arena, data, name, path, &member->array);
        else
            given[data->given.count++] = (NpzMember){name, member->array};
    }
    return true;
}

bool test_data_read(CliCall *call, const char *path, const char *model, TestData *data)
{
    struct stat facts;
    const bool is_folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    const char *ending = strrchr(path, '.');
    if (!is_folder && ending && strcmp(ending, ".npy") == 0) {
        diag_add(call->diags, DIAG_E0810, (Span){0},
                 "'%s' is one array; give it as --in NAME=FILE.npy or --expect NAME=FILE.npy",
                 path);
        return false;
    }
    if (!(is_folder ? read_folder(call, path, model, data) : read_archive(call, path, data)))
        return false;
    if (data->count > 0)
        return true;
    diag_add(call->diags, DIAG_E0810, (Span){0}, "'%s' holds no output to compare with", path);
    return false;
}
