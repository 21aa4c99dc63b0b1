// verify: runs a module and compares outputs and final states with expected arrays; without any,
// runs its self-test (verify_self.h).
#include <inttypes.h>
#include <string.h>

#include "cli/compare.h"
#include "cli/test_data.h"
#include "cli/verify_self.h"

static bool same_shape(const NpyArray *a, const NpyArray *b)
{
    return a->dim_count == b->dim_count && a->elems == b->elems &&
           memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->dim_count) == 0;
}

static void compare_one(CliCall *call, const NamedFile *file, const NpyArray *found,
                        const NpyArray *expected, double relative, double absolute)
{
    if (!same_shape(found, expected)) {
        diag_add(call->diags, DIAG_E0804, (Span){0}, "'%s' is %s, but '%s' came out as %s",
                 file->path, npy_shape_text(call->arena, expected->dims, expected->dim_count),
                 file->name, npy_shape_text(call->arena, found->dims, found->dim_count));
        return;
    }
    Comparison result = compare_arrays(found, expected, relative, absolute);
    printf("%s: %" PRId64 " values, %" PRId64 " out of tolerance (rtol %g, atol %g); worst %s%s is "
           "%.9g, expected %.9g, difference %.3g\n",
           file->name, expected->elems, result.wrong, relative, absolute, file->name,
           compare_index_text(call->arena, expected, result.worst), result.found, result.expected,
           result.found == result.expected ? 0 : result.found - result.expected);
    if (result.wrong)
        diag_add(call->diags, DIAG_E0807, (Span){0},
                 "'%s' differs from '%s' in %" PRId64 " of %" PRId64 " values", file->name,
                 file->path, result.wrong, expected->elems);
}

/// --expect, each opened.
static bool open_expected(CliCall *call, TestData *data)
{
    int count = 0;
    const NamedFile *files = cli_named_files(call, "expect", &count);
    bool good = files != NULL;
    for (int i = 0; i < count && files; i++) {
        NpyArray array;
        if (npy_open(call->arena, call->diags, files[i].path, (Span){0}, &array))
            test_data_expect(call->arena, data, files[i].name, files[i].path, &array);
        else
            good = false;
    }
    return good;
}

/// Options that have a meaning only where arrays are given.
static bool is_bare(const CliCall *call)
{
    static const char *const options[] = {"in",     "lengths", "mask", "state", "chunk", "seed",
                                          "expect", "data",    "onnx", "rtol",  "atol"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (cli_value(call, options[i]))
            return false;
    return true;
}

int cli_verify(CliCall *call)
{
    double relative = 1e-5, absolute = 1e-6;
    const char *path = cli_value(call, "data");
    TestData data = {0};
    if (is_bare(call))
        return verify_self(call);
    if (!cli_number(call, "rtol", 0, 1e9, &relative) ||
        !cli_number(call, "atol", 0, 1e9, &absolute))
        return EXIT_USAGE;
    if (!path && cli_value(call, "onnx"))
        return cli_usage(call, "--onnx names the model of --data FOLDER, which is not given");
    if (!path && !cli_value(call, "expect"))
        return cli_usage(call, "nothing to compare with: give --expect y=FILE.npy or --data PATH");
    if ((path && !test_data_read(call, path, cli_value(call, "onnx"), &data)) ||
        !open_expected(call, &data))
        return cli_result(call);
    RunResult result;
    if (!module_run(call, &data.given, data.wanted, data.count, &result))
        return cli_result(call);
    for (int i = 0; i < data.count; i++)
        compare_one(call, &data.wanted[i], run_result_find(&result, data.wanted[i].name),
                    &data.expected[i], relative, absolute);
    return cli_result(call);
}
