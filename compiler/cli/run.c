// run: feeds a module arrays from files and writes its outputs and final states.
#include "cli/module_run.h"

static bool write_all(CliCall *call, const RunResult *result, const NamedFile *files, int count)
{
    bool good = true;
    for (int i = 0; i < count; i++)
        good &= npy_write(call->arena, call->diags, files[i].path,
                          run_result_find(result, files[i].name));
    const char *states = cli_value(call, "state-out");
    if (states)
        good &= npz_write(call->arena, call->diags, states, result->states, result->state_count);
    return good;
}

int cli_run(CliCall *call)
{
    int count = 0;
    const NamedFile *files = cli_named_files(call, "out", &count);
    if (!files)
        return EXIT_USAGE;
    if (count == 0 && !cli_value(call, "state-out"))
        return cli_usage(call, "nothing to write: give --out y=FILE.npy or --state-out FILE.npz");
    RunResult result;
    if (module_run(call, NULL, files, count, &result))
        write_all(call, &result, files, count);
    return cli_result(call);
}
