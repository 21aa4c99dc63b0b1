// Measure: see measure.h.
#include "bench/measure.h"

#include <math.h>
#include <string.h>

#include "bench/bound_session.h"
#include "bench/clock.h"
#include "bench/floors.h"
#include "bench/library_calls.h"
#include "bench/trace.h"
#include "plan/plan.h"

/// Operations of the float64 reference of a case: about a second's work.
static const double REFERENCE_OPERATIONS = 1.5e9;

enum { TRACED_RUNS = 3 };

typedef struct {
    Arena *arena, *scratch;
    Diags *diags;
    const Subject *subject;
    const MeasureOptions *options;
    BenchInput input;
    bool has_reference;
    ReferencePart part;
    ReferenceOutput reference[2];
    BenchCase *of;
} Measurement;

static void tell(const Measurement *measurement, const char *variant)
{
    if (measurement->options->progress)
        measurement->options->progress(arena_format(
            measurement->arena, "%s, B %lld, T %lld: %s", measurement->of->name,
            (long long)measurement->input.batch, (long long)measurement->input.timesteps, variant));
}

/// A row of which nothing is known yet.
static BenchRow new_row(BenchKind kind, const char *variant)
{
    return (BenchRow){.kind = kind,
                      .variant = variant,
                      .memory_bytes = -1,
                      .error = NAN,
                      .kernels = NAN,
                      .busy_us = NAN,
                      .gap_us = NAN};
}

static void add_row(Measurement *measurement, BenchRow row)
{
    ARENA_PUSH(measurement->arena, measurement->of->rows, measurement->of->row_count, row);
}

static void add_refusal(Measurement *measurement, BenchRow row, const char *why)
{
    row.refusal = arena_copy(measurement->arena, why, strlen(why));
    add_row(measurement, row);
}

/// Plain and, on a GPU, in a graph.
static void time_row(Measurement *measurement, const Clocked *clocked, BenchRow row, bool on_gpu,
                     const char *(*words)(const void *context))
{
    for (int in_graph = 0; in_graph <= on_gpu; in_graph++) {
        row.in_graph = in_graph;
        if (in_graph) // the trace was of plain runs
            row.kernels = row.busy_us = row.gap_us = NAN;
        if (clock_measure(clocked, in_graph, &row) == RNNC_OK)
            add_row(measurement, row);
        else
            add_refusal(measurement, row, words(clocked->context));
    }
}

static rnnc_status time_session(void *context, const rnnc_timing *timing, double *out_us)
{
    return rnnc_session_time(context, timing, out_us);
}

static const char *session_words(const void *context)
{
    return rnnc_session_error(context);
}

/// What the layers run: one name, or "l0 unrolled, l1 stepwise".
static const char *ran(Arena *arena, const rnnc_session *session)
{
    Text text = {.arena = arena};
    const char *first = NULL, *layer;
    bool is_one = true;
    for (size_t i = 0; (layer = rnnc_session_layer(session, i)); i++) {
        const char *variant = rnnc_session_variant(session, layer, NULL);
        text_addf(&text, "%s%s %s", i ? ", " : "", layer, variant);
        first = first ? first : variant;
        is_one &= strcmp(first, variant) == 0;
    }
    return is_one && first ? arena_copy(arena, first, strlen(first)) : text_string(&text);
}

/// Why the planner keeps a variant out of the module; NULL: it does not, or there is no model.
static const char *planner_reason(const Measurement *measurement, const char *name)
{
    const Model *model = measurement->subject->model;
    const Variant *variant = variant_find(name);
    for (int i = 0; model && variant && variant->gpu && i < model->layer_count; i++) {
        const Layer *layer = &model->layers[i];
        Reasons reasons = {0};
        const PlanContext context = {.model = model,
                                     .layer = layer,
                                     .device = device_find(measurement->options->arch),
                                     .precision = model->spec->precision,
                                     .batch = measurement->input.batch,
                                     .timesteps = measurement->input.timesteps,
                                     .unroll = -1,
                                     .at_once = 1};
        if (layer->kind != LAYER_CELL || !context.device)
            continue;
        if (model->trains != variant->trains)
            return variant->trains ? "it only trains" : "it has no backward pass";
        variant->check(measurement->arena, &context, &reasons);
        if (reasons.count > 0)
            return arena_format(measurement->arena, "%s: %s", layer->name, reasons.items[0].text);
    }
    return NULL;
}

/// Traces a few runs by themselves, where a trace is wanted.
static void trace_session(Measurement *measurement, rnnc_session *session, BenchRow *row)
{
    const MeasureOptions *options = measurement->options;
    rnnc_trace events;
    if (!options->trace || row->kind == BENCH_CPU)
        return;
    if (rnnc_session_trace(session, TRACED_RUNS, &events) != RNNC_OK) {
        if (!options->trace->is_refused)
            diag_add(measurement->diags, DIAG_N0804, (Span){0}, "there is no trace: %s",
                     rnnc_last_error());
        options->trace->is_refused = true;
        return;
    }
    const char *name =
        arena_format(measurement->arena, "%s, B %lld, T %lld: %s", measurement->of->name,
                     (long long)measurement->input.batch, (long long)measurement->input.timesteps,
                     bench_row_text(measurement->arena, measurement->of, row));
    const TraceSummary summary =
        trace_add(measurement->arena, options->trace, name, &events, TRACED_RUNS);
    row->kernels = summary.kernels;
    row->busy_us = summary.busy_us;
    row->gap_us = summary.gap_us;
    rnnc_trace_free(&events);
}

static void measure_session(Measurement *measurement, BenchKind kind, const char *device,
                            const char *variant)
{
    BenchRow row = new_row(kind, variant ? variant : "chosen");
    BoundSession bound;
    tell(measurement, row.variant);
    const rnnc_status status = bound_session_open(measurement->arena, measurement->subject,
                                                  &measurement->input, device, variant, &bound);
    if (status != RNNC_OK) {
        const char *reason =
            variant && kind != BENCH_CPU ? planner_reason(measurement, variant) : NULL;
        add_refusal(measurement, row, reason ? reason : bound.fault);
        return;
    }
    row.ran = ran(measurement->arena, bound.session);
    row.memory_bytes = (int64_t)rnnc_session_memory(bound.session);
    if (measurement->has_reference)
        row.error = bound_session_error(&bound, measurement->subject, &measurement->input,
                                        &measurement->part, measurement->reference);
    const Clocked clocked = {time_session, bound.session};
    trace_session(measurement, bound.session, &row);
    time_row(measurement, &clocked, row, kind != BENCH_CPU && kind != BENCH_CHOSEN, session_words);
    bound_session_close(&bound);
}

static rnnc_status time_call(void *context, const rnnc_timing *timing, double *out_us)
{
    return rnnc_cudnn_time(context, timing, out_us);
}

static const char *call_words(const void *context)
{
    (void)context;
    return rnnc_last_error();
}

static void measure_library(Measurement *measurement, const LibraryCalls *calls)
{
    for (int call = 0; call < calls->count; call++)
        for (int32_t algorithm = 0; rnnc_cudnn_algorithm_name(algorithm); algorithm++) {
            BenchRow row = new_row(BENCH_LIBRARY, rnnc_cudnn_algorithm_name(algorithm));
            row.call = call;
            rnnc_cudnn_call *open;
            tell(measurement, bench_row_text(measurement->arena, measurement->of, &row));
            if (rnnc_cudnn_open(&calls->calls[call], algorithm, &open) != RNNC_OK) {
                add_refusal(measurement, row, rnnc_last_error());
                continue;
            }
            row.memory_bytes = (int64_t)rnnc_cudnn_memory(open);
            const Clocked clocked = {time_call, open};
            time_row(measurement, &clocked, row, true, call_words);
            rnnc_cudnn_close(open);
        }
}

static void measure_named(Measurement *measurement, const char *name)
{
    const bool is_cudnn = strncmp(name, "cudnn", 5) == 0 && (name[5] == '\0' || name[5] == ':');
    const char *device = measurement->options->gpu;
    if (!is_cudnn) {
        measure_session(measurement, BENCH_GENERATED, device, name);
        return;
    }
    if (name[5] == ':')
        measure_session(measurement, BENCH_CUDNN, device, name);
    else if (planner_reason(measurement, name))
        add_refusal(measurement, new_row(BENCH_CUDNN, name), planner_reason(measurement, name));
    else
        for (int32_t i = 0; rnnc_cudnn_algorithm_name(i); i++)
            measure_session(
                measurement, BENCH_CUDNN, device,
                arena_format(measurement->arena, "cudnn:%s", rnnc_cudnn_algorithm_name(i)));
}

/// All GPU variants that the list lets in.
static void measure_variants(Measurement *measurement)
{
    const char *names = measurement->options->variants;
    if (strcmp(names, "all") == 0) {
        for (const Variant *const *at = plan_variants; *at; at++)
            if ((*at)->gpu && !(*at)->for_comparison &&
                (*at)->trains == measurement->input.training &&
                !(measurement->options->without_module_cudnn && strcmp((*at)->name, "cudnn") == 0))
                measure_named(measurement, (*at)->name);
        return;
    }
    for (const char *at = names; *at;) {
        const size_t length = strcspn(at, ",");
        const char *name = arena_copy(measurement->arena, at, length);
        if (length > 0 && strncmp(name, "cpu", 3) != 0)
            measure_named(measurement, name);
        at += length + (at[length] == ',');
    }
}

static bool is_wanted(const char *names, const char *name)
{
    const size_t length = strlen(name);
    if (strcmp(names, "all") == 0)
        return true;
    for (const char *at = names; *at;) {
        const size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, name, length) == 0)
            return true;
        at += word + (at[word] == ',');
    }
    return false;
}

static void prepare_reference(Measurement *measurement)
{
    const Model *model = measurement->subject->model;
    const BenchInput *input = &measurement->input;
    const char *refusal = model ? reference_refusal(model) : measurement->subject->no_model;
    measurement->of->reference =
        refusal ? arena_format(measurement->arena, "not taken: %s", refusal) : NULL;
    if (refusal)
        return;
    tell(measurement, "float64 reference");
    measurement->part = reference_choose(measurement->scratch, model, input->batch,
                                         input->timesteps, REFERENCE_OPERATIONS);
    reference_run(measurement->scratch, model, &measurement->part, input->timesteps, input->x,
                  measurement->reference);
    measurement->has_reference = true;
    measurement->of->reference = arena_format(
        measurement->arena,
        "||y - ref|| / ||ref|| against float64 over %lld of %lld rows, %lld of %lld steps",
        (long long)measurement->part.row_count, (long long)input->batch,
        (long long)measurement->part.timesteps, (long long)input->timesteps);
}

/// Sizes, operations and floor, as far as the model is known.
static void describe(Measurement *measurement)
{
    const Model *model = measurement->subject->model;
    BenchCase *of = measurement->of;
    const BenchInput *input = &measurement->input;
    of->trains = input->training;
    of->batch = input->batch;
    of->timesteps = input->timesteps;
    of->cell = of->precision = "unknown";
    of->layers = of->directions = 1;
    if (!model)
        return;
    of->precision = precision_name(model->spec->precision);
    of->operations = floors_operations(model, input->batch, input->timesteps);
    if (input->training) // each product comes once forward, and for both of its factors back
        of->operations *= 3;
    else if (measurement->options->gpu)
        of->floor = floors_of(model, input->batch, input->timesteps,
                              device_find(measurement->options->arch));
    of->layers = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const Layer *layer = &model->layers[i];
        if (layer->kind != LAYER_CELL)
            continue;
        if (of->layers == 0) {
            of->cell = arena_copy(measurement->arena, layer->cell->name, strlen(layer->cell->name));
            of->inputs = layer->inputs;
            of->units = layer->units;
        }
        of->layers += !layer->beside;
        of->directions = layer->beside ? 2 : of->directions;
    }
}

bool measure_case(Arena *arena, Arena *scratch, Diags *diags, const Subject *subject,
                  const MeasureOptions *options, BenchCase *out)
{
    Measurement measurement = {.arena = arena,
                               .scratch = scratch,
                               .diags = diags,
                               .subject = subject,
                               .options = options,
                               .of = out,
                               .input = {.batch = options->batch,
                                         .timesteps = options->timesteps,
                                         .training = options->trains}};
    if (!bench_sizes(diags, subject->module, &measurement.input.batch,
                     &measurement.input.timesteps) ||
        !bench_input(scratch, diags, subject->module, bench_vocabulary(subject->module),
                     &measurement.input))
        return false;
    describe(&measurement);
    prepare_reference(&measurement);
    if (options->gpu) {
        measure_variants(&measurement);
        measure_session(&measurement, BENCH_CHOSEN, options->gpu, NULL);
    }
    if (options->cpu && is_wanted(options->variants, "cpu"))
        measure_session(&measurement, BENCH_CPU, "cpu", "cpu");
    if (options->gpu && !options->without_library && subject->model) {
        LibraryCalls calls =
            library_calls(arena, subject->model, options->ordinal, out->batch, out->timesteps);
        for (int i = 0; i < calls.count; i++)
            calls.calls[i].training = measurement.input.training;
        out->cudnn = calls.text;
        measure_library(&measurement, &calls);
    }
    return true;
}

bool measure_check_variants(Arena *arena, Diags *diags, const char *names)
{
    for (const char *at = names; *at;) {
        const size_t length = strcspn(at, ","), name_length = strcspn(at, ",:");
        const char *name = arena_copy(arena, at, name_length);
        if (length > 0 && strcmp(name, "all") != 0 && !variant_find(name)) {
            Text known = {.arena = arena};
            for (const Variant *const *variant = plan_variants; *variant; variant++)
                text_addf(&known, ", %s", (*variant)->name);
            Diag *diag = diag_add(diags, DIAG_E0602, (Span){0}, "unknown variant '%s'", name);
            diag_help(diag, "known: all%s", text_string(&known));
            return false;
        }
        at += length + (at[length] == ',');
    }
    return true;
}
