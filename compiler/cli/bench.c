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
#include "bench/trace.h"
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
    static const char *const options[] = {"json", "html", "trace"};
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

/// What the reports are made with while cases come in.
typedef struct {
    CliCall *call;
    bool on_terminal;
} Output;

/// Prints the last case, the head before the first, and writes the files anew, so that what was
/// measured is not lost where the rest never is.
static void take_case(void *context, const BenchReport *report)
{
    const Output *output = context;
    CliCall *call = output->call;
    Text text = {.arena = call->arena};
    if (output->on_terminal)
        fprintf(stderr, "\r\033[K");
    if (report->case_count == 1)
        report_text_head(report, &text);
    report_text_case(call->arena, &report->cases[report->case_count - 1], &text);
    fputs(text_string(&text), stdout);
    fflush(stdout);
    write_report(call, "json", report, report_json);
    write_report(call, "html", report, report_html);
}

static bool read_options(CliCall *call, BenchOptions *out)
{
    *out = (BenchOptions){.path = call->operand_count ? call->operands[0] : NULL,
                          .suite = cli_value(call, "suite"),
                          .filter = cli_value(call, "filter"),
                          .modules = cli_value(call, "modules"),
                          .compile_only = cli_flag(call, "compile"),
                          .device = cli_value(call, "device"),
                          .targets = cli_value(call, "target"),
                          .variants = cli_value(call, "variants"),
                          .ladder = cli_flag(call, "ladder")};
    const char *mode = cli_value(call, "mode");
    out->trains = mode != NULL;
    if (mode && strcmp(mode, "training") != 0)
        cli_usage(call, "--mode wants training, not '%s'; without it a spec's own mode holds",
                  mode);
    static const char *const of_suite[] = {"filter", "modules", "compile", "seconds"};
    static const char *const of_path[] = {"batch", "timesteps"};
    if (!out->path == !out->suite)
        cli_usage(call, "give a model, or a suite with --suite");
    for (size_t i = 0; i < sizeof of_suite / sizeof of_suite[0]; i++)
        if (!out->suite && cli_flag(call, of_suite[i]))
            cli_usage(call, "--%s needs --suite", of_suite[i]);
    for (size_t i = 0; i < sizeof of_path / sizeof of_path[0]; i++)
        if (out->suite && cli_flag(call, of_path[i]))
            cli_usage(call, "the cases of a suite have their own --%s", of_path[i]);
    if (out->ladder && (out->suite || out->variants))
        cli_usage(call, "--ladder measures its own variants of one model");
    if (mode && out->ladder)
        cli_usage(call, "--ladder is of runs without training");
    if (out->compile_only && !out->modules)
        cli_usage(call, "--compile needs --modules DIR, the folder to fill");
    if (!out->variants)
        out->variants = "all";
    return read_list(call, "batch", &out->batches, &out->batch_count) &&
           read_list(call, "timesteps", &out->timesteps, &out->timesteps_count) &&
           cli_number(call, "seconds", 0, 1e9, &out->seconds) && !call->usage_fault;
}

/// The trace, where there is anything in it.
static void write_trace(CliCall *call, const Trace *trace)
{
    Text text = {.arena = call->arena};
    const char *path = cli_value(call, "trace");
    if (trace->process_count > 0) {
        trace_print(trace, &text);
        file_write(call->arena, call->diags, path, text.data, text.length);
    } else if (path && !trace->is_refused) {
        diag_add(call->diags, DIAG_N0804, (Span){0}, "there is no trace: nothing ran on a GPU");
    }
}

static bool measure(CliCall *call, BenchReport *out)
{
    Trace trace = {.events = {.arena = call->arena}};
    Output output = {call, isatty(STDERR_FILENO) && !call->json_diagnostics};
    BenchOptions options;
    if (!read_options(call, &options))
        return false;
    options.progress = output.on_terminal ? show : NULL;
    options.done = take_case;
    options.context = &output;
    options.trace = cli_value(call, "trace") ? &trace : NULL;
    const bool good = bench_run(call->arena, call->diags, &options, out);
    if (output.on_terminal)
        fprintf(stderr, "\r\033[K");
    write_trace(call, &trace);
    if (out->no_gpu && good && out->case_count > 0)
        diag_add(call->diags, DIAG_N0802, (Span){0}, "measured on the CPU alone: %s", out->no_gpu);
    return good;
}

static bool read_results(CliCall *call, BenchReport *out)
{
    if (!report_read_json(call->arena, call->diags, call->operands[0], out))
        return false;
    Text text = {.arena = call->arena};
    report_text_head(out, &text);
    for (int i = 0; i < out->case_count; i++)
        report_text_case(call->arena, &out->cases[i], &text);
    fputs(text_string(&text), stdout);
    write_report(call, "json", out, report_json);
    write_report(call, "html", out, report_html);
    return true;
}

int cli_bench(CliCall *call)
{
    BenchReport report = {0};
    if (!files_writable(call))
        return cli_result(call);
    if (call->operand_count && is_results(call->operands[0]))
        read_results(call, &report);
    else
        measure(call, &report);
    Text summary = {.arena = call->arena};
    report_text_summary(call->arena, &report, &summary);
    fputs(text_string(&summary), stdout);
    return cli_result(call);
}
