// Tune: see tune.h. Every candidate is a plan of its own, compiled to a module of its own, timed as
// `rnnc bench` times and compared with the float64 reference.
#include "bench/tune.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sha256.h"
#include "bench/bound_session.h"
#include "bench/clock.h"
#include "bench/machine.h"
#include "bench/subject.h"
#include "build/targets.h"
#include "emit/self_test.h"
#include "plan/cta.h"

/// Operations of the float64 reference: about a second's work.
static const double REFERENCE_OPERATIONS = 1.5e9;

/// A candidate may be this much less exact than the most exact one, where all miss the bound.
static const double ERROR_SPREAD = 3;

typedef struct {
    Arena *arena;
    Diags *diags;
    const TuneOptions *options;
    BenchMachine machine;
    const Spec *spec;
    const Plan *plan; ///< of all variants: what the candidates are made from
    PlanFile *file;
    BenchInput input;
    bool has_input, has_reference;
    ReferencePart part;
    ReferenceOutput reference[2];
    double tolerance;
} Tuner;

static PlannedLayer *planned(PlanFile *file, const Layer *layer)
{
    for (int i = 0; i < file->layer_count; i++)
        if (text_equal(file->layers[i].name, layer->name))
            return &file->layers[i];
    return NULL;
}

/// Layers for which the same candidates stand.
static bool are_alike(const LayerPlan *a, const LayerPlan *b)
{
    if (a->layer->kind != LAYER_CELL || b->layer->kind != LAYER_CELL ||
        !text_equal(a->layer->cell->name, b->layer->cell->name) ||
        a->layer->units != b->layer->units || a->layer->heads != b->layer->heads ||
        a->layer->projection != b->layer->projection || a->choice_count != b->choice_count)
        return false;
    for (int i = 0; i < a->choice_count; i++)
        if (a->choices[i].variant != b->choices[i].variant)
            return false;
    return true;
}

/// What the chooser takes for every layer.
static void begin_file(Tuner *tuner, const BenchReport *machine)
{
    const Model *model = tuner->plan->model;
    const char *name = model->name;
    PlanFile *file = tuner->file;
    *file = (PlanFile){.model = arena_copy(tuner->arena, name, strlen(name)),
                       .precision = precision_name(model->spec->precision),
                       .device = machine->gpu ? machine->gpu : tuner->plan->device->name,
                       .arch = tuner->plan->device->arch,
                       .batch = model->batch,
                       .timesteps = model->timesteps};
    for (int i = 0; i < model->layer_count; i++) {
        const LayerPlan *layer = &tuner->plan->layers[i];
        if (layer->layer->kind != LAYER_CELL)
            continue;
        const PlannedLayer entry = {.name = layer->layer->name,
                                    .cell = layer->layer->cell->name,
                                    .inputs = layer->layer->inputs,
                                    .units = layer->layer->units,
                                    .variant = layer->choices[0].variant,
                                    .layout = layer->choices[0].layout};
        ARENA_PUSH(tuner->arena, file->layers, file->layer_count, entry);
    }
}

/// Where a candidate's module is kept: by the hash of all that it is made from.
static const char *module_path(const Tuner *tuner, const PlanFile *candidate)
{
    Text made_from = {.arena = tuner->arena};
    PlanFile nameless = *candidate; // compiled where the device's own name is not known
    nameless.device = "";
    if (!tuner->options->modules)
        return NULL;
    text_addf(&made_from, "%s\n%s\n", RNNC_VERSION, tuner->spec->source->text);
    plan_file_print(tuner->arena, &nameless, &made_from);
    const char *hash = sha256_hex(tuner->arena, made_from.data, made_from.length);
    return arena_format(tuner->arena, "%s/%s-%.16s.so", tuner->options->modules, candidate->model,
                        hash);
}

/// Input and reference, once for all candidates.
static bool prepare(Tuner *tuner, const Subject *subject)
{
    const Model *model = subject->model;
    BenchInput *input = &tuner->input;
    if (!bench_sizes(tuner->diags, subject->module, &input->batch, &input->timesteps) ||
        !bench_input(tuner->arena, tuner->diags, subject->module, bench_vocabulary(subject->module),
                     input))
        return false;
    tuner->has_input = true;
    tuner->tolerance = self_test_tolerance(model, input->timesteps);
    if (reference_refusal(model))
        return true;
    tuner->part =
        reference_choose(tuner->arena, model, input->batch, input->timesteps, REFERENCE_OPERATIONS);
    reference_run(tuner->arena, model, &tuner->part, input->timesteps, input->x, tuner->reference);
    tuner->has_reference = true;
    return true;
}

static rnnc_status time_session(void *context, const rnnc_timing *timing, double *out_us)
{
    return rnnc_session_time(context, timing, out_us);
}

/// Why the session does not run the candidate; NULL: it does.
static const char *ran_another(const Tuner *tuner, const PlanFile *candidate,
                               const rnnc_session *session)
{
    const char *layer, *reason;
    for (size_t i = 0; (layer = rnnc_session_layer(session, i)); i++) {
        const char *ran = rnnc_session_variant(session, layer, &reason);
        const char *wanted = plan_file_layer(candidate, layer)->variant->name;
        if (strncmp(ran, wanted, strlen(wanted)) != 0)
            return arena_format(tuner->arena, "%s ran %s: %s", layer, ran, reason);
    }
    return NULL;
}

static void measure_session(Tuner *tuner, const PlanFile *candidate, const Subject *subject,
                            PlanMeasurement *row)
{
    BoundSession bound;
    if (bound_session_open(tuner->arena, subject, &tuner->input, tuner->machine.gpu, NULL,
                           &bound) != RNNC_OK) {
        row->refusal = bound.fault;
        return;
    }
    row->refusal = ran_another(tuner, candidate, bound.session);
    if (!row->refusal && tuner->has_reference)
        row->error =
            bound_session_error(&bound, subject, &tuner->input, &tuner->part, tuner->reference);
    BenchRow timed = {0};
    const Clocked clocked = {time_session, bound.session};
    if (!row->refusal && clock_measure(&clocked, false, &timed) != RNNC_OK) {
        const char *words = rnnc_session_error(bound.session);
        row->refusal = arena_copy(tuner->arena, words, strlen(words));
    }
    row->us = timed.median_us;
    row->p10_us = timed.p10_us;
    row->p90_us = timed.p90_us;
    bound_session_close(&bound);
}

/// Compiles and measures one candidate. What it needs lives in an arena of its own, weights
/// included.
static bool measure_candidate(Tuner *tuner, const PlanFile *candidate, PlanMeasurement *row)
{
    Arena *scratch = arena_create();
    const SubjectOptions options = {.spec_path = tuner->options->path,
                                    .module_path = module_path(tuner, candidate),
                                    .targets = tuner->machine.targets,
                                    .plan = candidate,
                                    .reuse = true};
    Subject subject;
    bool good;
    if (tuner->options->compile_only) {
        good = subject_compile(scratch, tuner->diags, &options, NULL);
        row->refusal = "only compiled";
    } else {
        good = subject_open(scratch, tuner->diags, &options, &subject) &&
               (tuner->has_input || prepare(tuner, &subject));
        if (good)
            measure_session(tuner, candidate, &subject, row);
        subject_close(&subject);
    }
    arena_destroy(scratch);
    return good;
}

/// The layers that are tuned with the one at `first`, by name.
static const char *names_of(const Tuner *tuner, int first)
{
    Text names = {.arena = tuner->arena};
    for (int i = first; i < tuner->plan->layer_count; i++)
        if (are_alike(&tuner->plan->layers[first], &tuner->plan->layers[i]))
            text_addf(&names, "%s%s", i > first ? ", " : "", tuner->plan->layers[i].layer->name);
    return text_string(&names);
}

/// Puts a way to run them into all layers like the one at `first`.
static void set_layers(const Tuner *tuner, int first, const Variant *variant,
                       const WorkLayout *layout, PlanFile *file)
{
    for (int i = first; i < tuner->plan->layer_count; i++)
        if (are_alike(&tuner->plan->layers[first], &tuner->plan->layers[i])) {
            PlannedLayer *layer = planned(file, tuner->plan->layers[i].layer);
            layer->variant = variant;
            layer->layout = *layout;
        }
}

static bool try_layout(Tuner *tuner, int first, const Variant *variant, const WorkLayout *layout)
{
    PlanFile candidate = *tuner->file;
    PlanContext context = tuner->plan->layers[first].context;
    Choice choice = {.variant = variant};
    context.layout = *layout;
    variant->estimate(tuner->arena, &context, &choice);
    candidate.measured_count = 0;
    candidate.layers = ARENA_ARRAY(tuner->arena, PlannedLayer, candidate.layer_count);
    memcpy(candidate.layers, tuner->file->layers,
           sizeof *candidate.layers * (size_t)candidate.layer_count);
    set_layers(tuner, first, variant, layout, &candidate);
    PlanMeasurement row = {.layers = names_of(tuner, first),
                           .variant = variant,
                           .layout = *layout,
                           .error = NAN,
                           .estimate_us = choice.cost_us,
                           .product_us = input_product_us(&context)};
    Text what = {.arena = tuner->arena};
    text_addf(&what, "%s: %s ", row.layers, variant->name);
    layout_print(layout, &what);
    if (tuner->options->progress)
        tuner->options->progress(text_string(&what));
    if (!measure_candidate(tuner, &candidate, &row))
        return false;
    ARENA_PUSH(tuner->arena, tuner->file->measured, tuner->file->measured_count, row);
    return true;
}

/// All layouts of one variant that are worth a measurement; the variant as it is where it has none.
static bool try_variant(Tuner *tuner, int first, const Variant *variant)
{
    LayoutList list = {0};
    PlanContext context = tuner->plan->layers[first].context;
    Choice choice = {.variant = variant};
    context.layouts = &list;
    variant->estimate(tuner->arena, &context, &choice);
    if (list.count == 0)
        list.count = 1;
    bool good = true;
    for (int i = 0; i < list.count && i < tuner->options->layouts && good; i++)
        good = try_layout(tuner, first, variant, &list.items[i]);
    return good;
}

/// Refuses what is too far from the reference, and takes the fastest of the rest, of the
/// measurements from `from` on.
static bool take_fastest(Tuner *tuner, int first, int from)
{
    PlanFile *file = tuner->file;
    double least = INFINITY;
    const PlanMeasurement *best = NULL;
    for (int i = from; i < file->measured_count; i++)
        least = fmin(least, file->measured[i].error);
    const double bound = fmax(tuner->tolerance, ERROR_SPREAD * least);
    for (int i = from; i < file->measured_count; i++) {
        PlanMeasurement *row = &file->measured[i];
        if (!row->refusal && row->error > bound)
            row->refusal =
                arena_format(tuner->arena, "error %.1e, at most %.1e", row->error, bound);
        if (!row->refusal && (!best || row->us < best->us))
            best = row;
    }
    if (best) {
        set_layers(tuner, first, best->variant, &best->layout, file);
        return true;
    }
    Diag *diag =
        diag_add(tuner->diags, DIAG_E0603, (Span){0}, "no variant runs layer '%s' on this device",
                 tuner->plan->layers[first].layer->name);
    for (int i = from; i < file->measured_count; i++)
        diag_note(diag, (Span){0}, "%s: %s", file->measured[i].variant->name,
                  file->measured[i].refusal);
    return false;
}

static bool tune_layers(Tuner *tuner)
{
    const Plan *plan = tuner->plan;
    for (int i = 0; i < plan->layer_count; i++) {
        const LayerPlan *layer = &plan->layers[i];
        bool is_done = layer->layer->kind != LAYER_CELL;
        for (int k = 0; k < i; k++)
            is_done |= are_alike(&plan->layers[k], layer);
        if (is_done)
            continue;
        const int from = tuner->file->measured_count;
        for (int k = 0; k < layer->choice_count; k++)
            if (!try_variant(tuner, i, layer->choices[k].variant))
                return false;
        if (!tuner->options->compile_only && !take_fastest(tuner, i, from))
            return false;
    }
    return true;
}

/// The GPU, or the arch to compile for.
static bool find_machine(Tuner *tuner, BenchReport *report)
{
    const TuneOptions *options = tuner->options;
    if (options->compile_only)
        tuner->machine.targets = options->target;
    else if (!machine_find(tuner->arena, tuner->diags, options->device ? options->device : "cuda:0",
                           &tuner->machine, report))
        return false;
    if (!options->modules || mkdir(options->modules, 0755) == 0 || errno == EEXIST)
        return true;
    diag_add(tuner->diags, DIAG_E0002, (Span){0}, "cannot write '%s': %s", options->modules,
             strerror(errno));
    return false;
}

bool tune_run(Arena *arena, Diags *diags, const TuneOptions *options, PlanFile *out)
{
    Tuner tuner = {.arena = arena, .diags = diags, .options = options, .file = out};
    BenchReport report = {0};
    Targets targets;
    *out = (PlanFile){0};
    tuner.spec = spec_read(arena, diags, options->path);
    if (!tuner.spec || !find_machine(&tuner, &report) ||
        !targets_parse(arena, diags, tuner.spec, tuner.machine.targets, &targets))
        return false;
    const char *own = tuner.spec->variant.text;
    const char *words = options->variants                 ? options->variants
                        : !own || text_equal(own, "auto") ? "all"
                                                          : own;
    const Model *model = model_build_shapes(arena, diags, tuner.spec);
    tuner.plan =
        model ? plan_make(arena, diags, model, targets.arches, targets.arch_count, false, words)
              : NULL;
    if (!tuner.plan)
        return false;
    begin_file(&tuner, &report);
    return tune_layers(&tuner);
}

void tune_print(Arena *arena, const PlanFile *file, Text *out)
{
    text_addf(out, "%s on %s\n", file->model, file->device);
    text_addf(out, "  %-20s %-52s %10s %12s %9s\n", "variant", "layout", "us", "estimate us",
              "error");
    for (int i = 0; i < file->measured_count; i++) {
        const PlanMeasurement *row = &file->measured[i];
        Text layout = {.arena = arena};
        if (i == 0 || !text_equal(row->layers, file->measured[i - 1].layers))
            text_addf(out, "  %s:\n", row->layers);
        layout_print(&row->layout, &layout);
        text_addf(out, "  %-20s %-52s ", row->variant->name,
                  row->layout.count ? text_string(&layout) : "-");
        if (row->refusal)
            text_addf(out, "%s\n", row->refusal);
        else
            text_addf(out, "%10.1f %12.1f %9.1e\n", row->us, row->estimate_us, row->error);
    }
}
