// verify: runs a module and compares outputs and final states with expected arrays.
#include <inttypes.h>
#include <string.h>

#include "cli/compare.h"
#include "cli/module_run.h"

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

int cli_verify(CliCall *call)
{
    int count = 0;
    double relative = 1e-5, absolute = 1e-6;
    const NamedFile *files = cli_named_files(call, "expect", &count);
    if (!files || !cli_number(call, "rtol", 0, 1e9, &relative) ||
        !cli_number(call, "atol", 0, 1e9, &absolute))
        return EXIT_USAGE;
    if (count == 0)
        return cli_usage(call, "nothing to compare with: give --expect y=FILE.npy");
    NpyArray *expected = ARENA_ARRAY(call->arena, NpyArray, count);
    bool good = true;
    for (int i = 0; i < count; i++)
        good &= npy_open(call->arena, call->diags, files[i].path, (Span){0}, &expected[i]);
    RunResult result;
    if (!good || !module_run(call, files, count, &result))
        return cli_result(call);
    for (int i = 0; i < count; i++)
        compare_one(call, &files[i], run_result_find(&result, files[i].name), &expected[i],
                    relative, absolute);
    return cli_result(call);
}
