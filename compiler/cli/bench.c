// bench: measures a model's variants side by side and writes the reports; or makes the reports
// again from a JSON file of an earlier run. On a terminal what is being measured is shown on one
// line of standard error, which is wiped at the end.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "bench/bench.h"
#include "bench/report.h"
#include "cli/cli.h"

static void show(const char *what)
{
    fprintf(stderr, "\r\033[Krnnc bench: %s ...", what);
    fflush(stderr);
}

/// Reads "1,64" of an option into the arena. False, with a usage fault, for anything else.
static bool read_list(CliCall *call, const char *option, const int64_t **out, int *out_count)
{
    const char *text = cli_value(call, option);
    int64_t *values = NULL;
    for (const char *at = text; at && *at;) {
        char *end;
        errno = 0;
        const long long value = strtoll(at, &end, 10);
        if (end == at || (*end && *end != ',') || errno || value < 1 || value > INT32_MAX ||
            (*end == ',' && !end[1])) {
            cli_usage(call, "--%s wants whole numbers from 1, as in 1,64, not '%s'", option, text);
            return false;
        }
        ARENA_PUSH(call->arena, values, *out_count, value);
        at = end + (*end == ',');
    }
    *out = values;
    return true;
}

/// What the reports are written to is tried before anything is measured.
static bool files_writable(CliCall *call)
{
    static const char *const options[] = {"json"};
    bool good = true;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const char *path = cli_value(call, options[i]);
        good &= !path || file_check_writable(call->arena, call->diags, path);
    }
    return good;
}

static bool is_results(const char *path)
{
    const size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".json") == 0;
}

static bool write_report(CliCall *call, const char *option, const BenchReport *report,
                         void (*print)(Arena *arena, const BenchReport *report, Text *out))
{
    const char *path = cli_value(call, option);
    Text text = {.arena = call->arena};
    if (!path)
        return true;
    print(call->arena, report, &text);
    return file_write(call->arena, call->diags, path, text.data, text.length);
}

static bool measure(CliCall *call, BenchReport *out)
{
    const bool on_terminal = isatty(STDERR_FILENO) && !call->json_diagnostics;
    BenchOptions options = {.path = call->operands[0],
                            .device = cli_value(call, "device"),
                            .targets = cli_value(call, "target"),
                            .variants = cli_value(call, "variants"),
                            .progress = on_terminal ? show : NULL};
    if (!options.variants)
        options.variants = "all";
    if (!read_list(call, "batch", &options.batches, &options.batch_count) ||
        !read_list(call, "timesteps", &options.timesteps, &options.timesteps_count))
        return false;
    const bool good = bench_run(call->arena, call->diags, &options, out);
    if (on_terminal)
        fprintf(stderr, "\r\033[K");
    if (out->no_gpu && good)
        diag_add(call->diags, DIAG_N0802, (Span){0}, "measured on the CPU alone: %s", out->no_gpu);
    return good;
}

int cli_bench(CliCall *call)
{
    BenchReport report;
    if (!files_writable(call))
        return cli_result(call);
    const bool good = is_results(call->operands[0])
                          ? report_read_json(call->arena, call->diags, call->operands[0], &report)
                          : measure(call, &report);
    if (!good)
        return cli_result(call);
    Text table = {.arena = call->arena};
    report_text(call->arena, &report, &table);
    fputs(text_string(&table), stdout);
    write_report(call, "json", &report, report_json);
    return cli_result(call);
}
