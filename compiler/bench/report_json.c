// Report as JSON, written and read: docs/bench.md has the schema. What is derived is written for
// those who read it with other programs, and ignored when it is read here.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bench/report.h"

enum { SCHEMA = 1 };

/// NaN and infinity have no place in JSON: null.
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *row_json(const BenchCase *of, const BenchRow *row)
{
    json_t *out = json_object();
    json_object_set_new(out, "kind", json_string(bench_kind_name(row->kind)));
    json_object_set_new(out, "variant", json_string(row->variant));
    json_object_set_new(out, "ran", text_or_null(row->ran));
    json_object_set_new(out, "call", json_integer(row->call));
    json_object_set_new(out, "graph", json_boolean(row->in_graph));
    json_object_set_new(out, "refused", text_or_null(row->refusal));
    json_object_set_new(out, "memory_bytes",
                        row->memory_bytes < 0 ? json_null() : json_integer(row->memory_bytes));
    json_object_set_new(out, "error", number(row->error));
    if (row->refusal)
        return out;
    json_object_set_new(out, "median_us", number(row->median_us));
    json_object_set_new(out, "p10_us", number(row->p10_us));
    json_object_set_new(out, "p90_us", number(row->p90_us));
    json_object_set_new(out, "samples", json_integer(row->samples));
    json_object_set_new(out, "runs", json_integer(row->runs));
    json_object_set_new(out, "kernels", number(row->kernels));
    json_object_set_new(out, "busy_us", number(row->busy_us));
    json_object_set_new(out, "gap_us", number(row->gap_us));
    json_object_set_new(out, "us_per_step", number(bench_us_a_step(of, row)));
    json_object_set_new(out, "tflops", number(bench_tflops(of, row)));
    json_object_set_new(out, "floor_share", number(bench_floor_share(of, row)));
    json_object_set_new(out, "cudnn_ratio", number(bench_row_ratio(of, row)));
    return out;
}

static json_t *floor_json(const BenchFloor *floor)
{
    if (floor->us <= 0)
        return json_null();
    json_t *out = json_object();
    json_object_set_new(out, "us", number(floor->us));
    json_object_set_new(out, "launch_us", number(floor->launch_us));
    json_object_set_new(out, "operations_us", number(floor->operations_us));
    json_object_set_new(out, "memory_us", number(floor->memory_us));
    json_object_set_new(out, "streaming_us", number(floor->streaming_us));
    json_object_set_new(out, "chain_us", number(floor->chain_us));
    json_object_set_new(out, "step_us", number(floor->step_us));
    json_object_set_new(out, "steps", json_integer(floor->steps));
    return out;
}

static json_t *case_json(const BenchReport *report, const BenchCase *of)
{
    json_t *out = json_object(), *rows = json_array();
    const BenchRow *best = bench_best(of, BENCH_GENERATED);
    json_object_set_new(out, "name", json_string(of->name));
    json_object_set_new(out, "cell", json_string(of->cell));
    json_object_set_new(out, "inputs", json_integer(of->inputs));
    json_object_set_new(out, "units", json_integer(of->units));
    json_object_set_new(out, "layers", json_integer(of->layers));
    json_object_set_new(out, "directions", json_integer(of->directions));
    json_object_set_new(out, "training", json_boolean(of->trains));
    json_object_set_new(out, "batch", json_integer(of->batch));
    json_object_set_new(out, "timesteps", json_integer(of->timesteps));
    json_object_set_new(out, "precision", json_string(of->precision));
    json_object_set_new(out, "operations", number(of->operations));
    json_object_set_new(out, "bar", of->bar > 0 ? number(of->bar) : json_null());
    json_object_set_new(out, "plain", text_or_null(of->plain));
    json_object_set_new(out, "most_cost", of->most_cost > 0 ? number(of->most_cost) : json_null());
    json_object_set_new(out, "cudnn", text_or_null(of->cudnn));
    json_object_set_new(out, "reference", text_or_null(of->reference));
    json_object_set_new(out, "floor", floor_json(&of->floor));
    json_object_set_new(out, "cudnn_us", number(bench_library_us(of)));
    json_object_set_new(out, "best_us", number(best ? best->median_us : NAN));
    json_object_set_new(out, "ratio", number(bench_ratio(of)));
    json_object_set_new(out, "cost", number(bench_cost(report, of)));
    json_object_set_new(out, "regret", number(bench_regret(of)));
    for (int i = 0; i < of->row_count; i++)
        json_array_append_new(rows, row_json(of, &of->rows[i]));
    json_object_set_new(out, "rows", rows);
    return out;
}

static json_t *machine_json(const BenchReport *report)
{
    json_t *out = json_object();
    json_object_set_new(out, "gpu", text_or_null(report->gpu));
    json_object_set_new(out, "no_gpu", text_or_null(report->no_gpu));
    json_object_set_new(out, "cpu", text_or_null(report->cpu));
    json_object_set_new(out, "arch", json_integer(report->arch));
    json_object_set_new(out, "multiprocessors", json_integer(report->multiprocessors));
    json_object_set_new(out, "clock_mhz", json_integer(report->clock_mhz));
    json_object_set_new(out, "driver_cuda", json_integer(report->driver_cuda));
    return out;
}

void report_json(Arena *arena, const BenchReport *report, Text *out)
{
    const BenchSummary summary = bench_summarise(arena, report);
    json_t *root = json_object(), *cases = json_array(), *totals = json_object();
    json_object_set_new(root, "bench", json_integer(SCHEMA));
    json_object_set_new(root, "title", json_string(report->title));
    json_object_set_new(root, "rnnc", json_string(report->version));
    json_object_set_new(root, "machine", machine_json(report));
    for (int i = 0; i < report->case_count; i++)
        json_array_append_new(cases, case_json(report, &report->cases[i]));
    json_object_set_new(root, "cases", cases);
    json_object_set_new(totals, "geometric_mean", number(summary.geometric_mean));
    json_object_set_new(totals, "ratios", json_integer(summary.ratios));
    json_object_set_new(totals, "below_one", json_integer(summary.below_one));
    json_object_set_new(totals, "bars", json_integer(summary.bars));
    json_object_set_new(totals, "bars_met", json_integer(summary.met));
    json_object_set_new(totals, "costs", json_integer(summary.costs));
    json_object_set_new(totals, "costs_met", json_integer(summary.costs_met));
    json_object_set_new(totals, "mean_regret", number(summary.mean_regret));
    json_object_set_new(totals, "worst_regret", number(summary.worst_regret));
    json_object_set_new(root, "summary", totals);
    char *text = json_dumps(root, JSON_INDENT(1));
    text_addf(out, "%s\n", text ? text : "{}");
    free(text);
    json_decref(root);
}

static const char *read_text(Arena *arena, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

static double read_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/// 0 where it is missing or no whole number.
static int64_t read_integer(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

static const char *read_word(Arena *arena, const json_t *object, const char *key)
{
    const char *text = read_text(arena, object, key);
    return text ? text : "unknown";
}

static BenchRow read_row(Arena *arena, const json_t *from)
{
    BenchRow row = {.variant = read_word(arena, from, "variant"),
                    .ran = read_text(arena, from, "ran"),
                    .call = (int)read_integer(from, "call"),
                    .in_graph = json_is_true(json_object_get(from, "graph")),
                    .refusal = read_text(arena, from, "refused"),
                    .median_us = read_number(from, "median_us"),
                    .p10_us = read_number(from, "p10_us"),
                    .p90_us = read_number(from, "p90_us"),
                    .samples = (int)read_integer(from, "samples"),
                    .runs = (int)read_integer(from, "runs"),
                    .memory_bytes = -1,
                    .error = read_number(from, "error"),
                    .kernels = read_number(from, "kernels"),
                    .busy_us = read_number(from, "busy_us"),
                    .gap_us = read_number(from, "gap_us")};
    if (json_is_integer(json_object_get(from, "memory_bytes")))
        row.memory_bytes = read_integer(from, "memory_bytes");
    const char *kind = read_word(arena, from, "kind");
    for (int i = BENCH_GENERATED; i <= BENCH_CHOSEN; i++)
        if (strcmp(kind, bench_kind_name((BenchKind)i)) == 0)
            row.kind = (BenchKind)i;
    if (!row.refusal && !(row.median_us > 0))
        row.refusal = "its time is missing";
    return row;
}

static BenchFloor read_floor(const json_t *from)
{
    if (!json_is_object(from))
        return (BenchFloor){0};
    return (BenchFloor){.us = read_number(from, "us"),
                        .launch_us = read_number(from, "launch_us"),
                        .operations_us = read_number(from, "operations_us"),
                        .memory_us = read_number(from, "memory_us"),
                        .streaming_us = read_number(from, "streaming_us"),
                        .chain_us = read_number(from, "chain_us"),
                        .step_us = read_number(from, "step_us"),
                        .steps = read_integer(from, "steps")};
}

static BenchCase read_case(Arena *arena, const json_t *from)
{
    BenchCase of = {.name = read_word(arena, from, "name"),
                    .cell = read_word(arena, from, "cell"),
                    .precision = read_word(arena, from, "precision"),
                    .inputs = read_integer(from, "inputs"),
                    .units = read_integer(from, "units"),
                    .layers = (int)read_integer(from, "layers"),
                    .directions = (int)read_integer(from, "directions"),
                    .trains = json_is_true(json_object_get(from, "training")),
                    .batch = read_integer(from, "batch"),
                    .timesteps = read_integer(from, "timesteps"),
                    .operations = read_number(from, "operations"),
                    .plain = read_text(arena, from, "plain"),
                    .most_cost = fmax(0, read_number(from, "most_cost")),
                    .cudnn = read_text(arena, from, "cudnn"),
                    .reference = read_text(arena, from, "reference"),
                    .floor = read_floor(json_object_get(from, "floor")),
                    .bar = fmax(0, read_number(from, "bar"))};
    const json_t *rows = json_object_get(from, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        ARENA_PUSH(arena, of.rows, of.row_count, read_row(arena, json_array_get(rows, i)));
    return of;
}

static bool refuse(Diags *diags, const char *path, const char *why)
{
    diag_add(diags, DIAG_E0809, (Span){0}, "'%s' has no results of rnnc bench: %s", path, why);
    return false;
}

bool report_read_json(Arena *arena, Diags *diags, const char *path, BenchReport *out)
{
    const size_t errors = diags_error_count(diags);
    const Source *source = file_read(arena, diags, path, (Span){0});
    if (!source || diags_error_count(diags) != errors)
        return false;
    json_error_t error;
    json_t *root = json_loadb(source->text, source->length, 0, &error);
    if (!root)
        return refuse(diags, path, error.text);
    const json_t *cases = json_object_get(root, "cases");
    const json_t *machine = json_object_get(root, "machine");
    const bool fits = read_integer(root, "bench") == SCHEMA && json_is_array(cases);
    *out = (BenchReport){.title = read_word(arena, root, "title"),
                         .version = read_word(arena, root, "rnnc"),
                         .gpu = read_text(arena, machine, "gpu"),
                         .no_gpu = read_text(arena, machine, "no_gpu"),
                         .cpu = read_word(arena, machine, "cpu"),
                         .arch = (int)read_integer(machine, "arch"),
                         .multiprocessors = (int)read_integer(machine, "multiprocessors"),
                         .clock_mhz = (int)read_integer(machine, "clock_mhz"),
                         .driver_cuda = (int)read_integer(machine, "driver_cuda")};
    for (size_t i = 0; fits && i < json_array_size(cases); i++)
        ARENA_PUSH(arena, out->cases, out->case_count, read_case(arena, json_array_get(cases, i)));
    json_decref(root);
    return fits || refuse(diags, path, "it has no 'bench': 1 and no list of 'cases'");
}
