// rnnc model.yaml -o model.so: compiles a spec. On a terminal the running stage is shown on one
// line of standard error, which is wiped at the end. A file of another framework is imported on the
// way, in memory.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "build/build.h"
#include "cli/cli.h"
#include "cli/import.h"
#include "plan/plan_file.h"

static void show_stage(const char *stage)
{
    fprintf(stderr, "\r\033[Krnnc: %s ...", stage);
    fflush(stderr);
}

static const struct {
    const char *word;
    unsigned bit;
} dumps[] = {
    {"model", DUMP_MODEL},
    {"plan", DUMP_PLAN},
    {"cuda", DUMP_CUDA},
    {"ptx", DUMP_PTX},
};

static unsigned dump_bit(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof dumps / sizeof *dumps; i++)
        if (strlen(dumps[i].word) == length && strncmp(dumps[i].word, word, length) == 0)
            return dumps[i].bit;
    return 0;
}

/// Reads --dump's list. False, with a usage fault, for an unknown word.
static bool read_dumps(CliCall *call, unsigned *out_dump)
{
    const char *at = cli_value(call, "dump");
    while (at && *at) {
        size_t length = strcspn(at, ",");
        unsigned bit = dump_bit(at, length);
        if (!bit) {
            cli_usage(call, "--dump knows model, plan, cuda and ptx, not '%.*s'", (int)length, at);
            return false;
        }
        *out_dump |= bit;
        at += length + (at[length] == ',');
    }
    return true;
}

/// Reads the operand as a model of another framework, if it is one. False where that fails.
static bool import_operand(CliCall *call, CompileOptions *options)
{
    if (!import_reader_of_file(call->arena, options->spec_path))
        return true;
    const Imported *model =
        cli_import_model(call->arena, call->diags, options->spec_path, &(ImportOptions){0});
    if (!model)
        return false;
    options->spec_text = cli_import_spec(call->arena, model, options->spec_path);
    options->weights = imported_tensors(call->arena, model, options->spec_path);
    return true;
}

bool cli_plan(CliCall *call, const PlanFile **out)
{
    const char *path = cli_value(call, "plan");
    *out = NULL;
    if (!path)
        return true;
    if (cli_value(call, "variants")) {
        cli_usage(call, "--plan and --variants exclude each other: a plan names the variants");
        return false;
    }
    return (*out = plan_file_read(call->arena, call->diags, path)) != NULL;
}

int cli_compile(CliCall *call)
{
    int64_t jobs = 0;
    bool on_terminal = isatty(STDERR_FILENO) && !call->json_diagnostics;
    CompileOptions options = {.spec_path = call->operands[0],
                              .output_path = cli_value(call, "output"),
                              .targets = cli_value(call, "target"),
                              .variants = cli_value(call, "variants"),
                              .keep_dir = cli_value(call, "keep"),
                              .progress = on_terminal ? show_stage : NULL};
    if (!read_dumps(call, &options.dump) || !cli_integer(call, "jobs", 1, 1024, &jobs))
        return EXIT_USAGE;
    if (!options.output_path && !options.dump)
        return cli_usage(call, "where should the module go? Give -o MODEL.so");
    options.jobs = (int)jobs;
    if (!cli_plan(call, &options.plan))
        return call->usage_fault ? EXIT_USAGE : cli_result(call);
    if (!import_operand(call, &options))
        return cli_result(call);
    Text dump = {.arena = call->arena};
    compile_model(call->arena, call->diags, &options, &dump);
    if (on_terminal)
        fprintf(stderr, "\r\033[K");
    fputs(text_string(&dump), stdout);
    return cli_result(call);
}
