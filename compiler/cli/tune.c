// rnnc tune: measures the variants and layouts of a model's layers and writes the plan.
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "bench/tune.h"
#include "cli/cli.h"

static void show(const char *what)
{
    fprintf(stderr, "\r\033[Krnnc tune: %s ...", what);
    fflush(stderr);
}

static bool read_options(CliCall *call, TuneOptions *out)
{
    int64_t layouts = LAYOUTS_MAX;
    *out = (TuneOptions){.path = call->operands[0],
                         .device = cli_value(call, "device"),
                         .target = cli_value(call, "target"),
                         .variants = cli_value(call, "variants"),
                         .modules = cli_value(call, "modules"),
                         .compile_only = cli_flag(call, "compile")};
    if (!cli_integer(call, "layouts", 1, LAYOUTS_MAX, &layouts))
        return false;
    out->layouts = (int)layouts;
    if (out->compile_only && (!out->modules || !out->target))
        cli_usage(call, "--compile needs --modules DIR, the folder to fill, and --target sm_NN");
    else if (!out->compile_only && !cli_value(call, "output"))
        cli_usage(call, "where should the plan go? Give -o FILE");
    else if (!out->compile_only && out->target)
        cli_usage(call, "--target needs --compile; what is measured on is known");
    return !call->usage_fault;
}

int cli_tune(CliCall *call)
{
    TuneOptions options;
    PlanFile file;
    Text plan = {.arena = call->arena}, table = {.arena = call->arena};
    const char *path = cli_value(call, "output");
    const bool on_terminal = isatty(STDERR_FILENO) && !call->json_diagnostics;
    if (!read_options(call, &options))
        return EXIT_USAGE;
    options.progress = on_terminal ? show : NULL;
    if (path && !file_check_writable(call->arena, call->diags, path))
        return cli_result(call);
    const bool good = tune_run(call->arena, call->diags, &options, &file);
    if (on_terminal)
        fprintf(stderr, "\r\033[K");
    if (!good || options.compile_only)
        return cli_result(call);
    tune_print(call->arena, &file, &table);
    fputs(text_string(&table), stdout);
    plan_file_print(call->arena, &file, &plan);
    file_write(call->arena, call->diags, path, plan.data, plan.length);
    return cli_result(call);
}
