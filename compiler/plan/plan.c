// Plan: asks every variant about every cell layer, orders those that apply by cost, and keeps what
// the policy wants: the command line's list, else the spec's `variant`, `unroll` and `cudnn`. Knows
// no variant by its inside; only `stepwise` (in training `train_stepwise`), `unrolled` and `cudnn`
// have a part in the policy.
#include "plan/plan.h"
#include "plan/generator.h"

#include <math.h>
#include <string.h>

#include "plan/cta.h"
#include "plan/plan_file.h"
#include "plan/stack.h"
#include "rnnc/module.h"

enum { VARIANTS_MAX = 32, ANY_BATCH = 1, ANY_TIMESTEPS = 100 };

/// Which variants a module may hold.
typedef struct {
    bool automatic, all;
    bool with_fallback; ///< the spec names one: stepwise stays behind it
    const Variant *named[VARIANTS_MAX];
    int named_count;
    Span span; ///< of the spec's `variant`; none for the command line's
} Policy;

typedef struct {
    const int *arches;
    int arch_count;
    bool cpu;
} Targeted;

typedef struct {
    Arena *arena;
    Diags *diags;
    Plan *plan;
    Policy policy;
    const PlanFile *file; ///< names each layer's variant; NULL: the policy does
    bool unroll_told;     ///< the note on a reduced factor was given
} Planner;

void reason_add(Arena *arena, Reasons *reasons, Span span, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    Reason reason = {.text = arena_vformat(arena, format, arguments), .span = span};
    va_end(arguments);
    ARENA_PUSH(arena, reasons->items, reasons->count, reason);
}

const Variant *variant_find(const char *name)
{
    for (const Variant *const *at = plan_variants; *at; at++)
        if (text_equal((*at)->name, name))
            return *at;
    return NULL;
}

static void refuse_name(Planner *planner, const char *name)
{
    const char *candidates[VARIANTS_MAX + 2] = {"auto", "all"};
    size_t count = 2;
    Text known = {.arena = planner->arena};
    text_add(&known, "auto, all");
    for (const Variant *const *at = plan_variants; *at && count < VARIANTS_MAX; at++) {
        candidates[count++] = (*at)->name;
        text_addf(&known, ", %s", (*at)->name);
    }
    Diag *diag =
        diag_add(planner->diags, DIAG_E0602, planner->policy.span, "unknown variant '%s'", name);
    const char *nearest = text_nearest(name, candidates, count);
    if (nearest)
        diag_help(diag, "did you mean '%s'?", nearest);
    diag_help(diag, "known: %s", text_string(&known));
}

static void add_name(Planner *planner, const char *name)
{
    Policy *policy = &planner->policy;
    const Variant *variant = variant_find(name);
    if (text_equal(name, "auto"))
        policy->automatic = true;
    else if (text_equal(name, "all"))
        policy->all = true;
    else if (!variant)
        refuse_name(planner, name);
    else if (policy->named_count < VARIANTS_MAX)
        policy->named[policy->named_count++] = variant;
}

/// Reads "auto", "all", or "stepwise,cudnn".
static void read_policy(Planner *planner, const char *words)
{
    const Spec *spec = planner->plan->model->spec;
    if (!words) {
        words = spec->variant.text ? spec->variant.text : "auto";
        planner->policy.span = spec->variant.span;
        planner->policy.with_fallback = true;
    }
    for (const char *at = words; *at;) {
        at += strspn(at, ", ");
        size_t length = strcspn(at, ", ");
        if (length)
            add_name(planner, arena_copy(planner->arena, at, length));
        at += length;
    }
}

static bool is_named(const Policy *policy, const Variant *variant)
{
    for (int i = 0; i < policy->named_count; i++)
        if (policy->named[i] == variant)
            return true;
    return false;
}

/// The first target, with the least shared memory of all, so that its numbers fit every target.
static bool choose_device(Planner *planner, const int *arches, int arch_count)
{
    Device *merged = NULL;
    const Spec *spec = planner->plan->model->spec;
    for (int i = 0; i < arch_count; i++) {
        const Device *device = device_find(arches[i]);
        if (!device) {
            const char *name = arena_format(planner->arena, "sm_%d", arches[i]);
            Span span = {0};
            for (int t = 0; t < spec->target_count; t++)
                if (text_equal_ignoring_case(spec->targets[t].text, name))
                    span = spec->targets[t].span;
            device_arch(planner->arena, planner->diags, span, name);
            continue;
        }
        if (!merged) {
            merged = ARENA_NEW(planner->arena, Device);
            *merged = *device;
        }
        if (device->shared_bytes_per_cta < merged->shared_bytes_per_cta)
            merged->shared_bytes_per_cta = device->shared_bytes_per_cta;
    }
    planner->plan->device = merged;
    planner->plan->arches = arches;
    planner->plan->arch_count = arch_count;
    return arch_count == 0 || merged;
}

/// The factor that `unroll` asks for; `true` is all timesteps, which the spec holds to a number.
static int64_t asked_unroll(const Model *model)
{
    const SpecUnroll *unroll = &model->spec->unroll;
    if (unroll->is_auto)
        return -1;
    return unroll->factor == INT64_MAX ? model->timesteps : unroll->factor;
}

static void refuse(Planner *planner, LayerPlan *layer, const Variant *variant, Reasons reasons)
{
    struct Refusal refusal = {.variant = variant, .reasons = reasons};
    ARENA_PUSH(planner->arena, layer->refusals, layer->refusal_count, refusal);
}

/// Puts `choice` behind those that cost no more.
static void insert_by_cost(Arena *arena, Choice **choices, int *count, Choice choice)
{
    ARENA_PUSH(arena, *choices, *count, choice);
    for (int i = *count - 1; i > 0 && (*choices)[i].cost_us < (*choices)[i - 1].cost_us; i--) {
        Choice behind = (*choices)[i - 1];
        (*choices)[i - 1] = (*choices)[i];
        (*choices)[i] = behind;
    }
}

static const PlannedLayer *planned_layer(const Planner *planner, const Layer *layer)
{
    return planner->file ? plan_file_layer(planner->file, layer->name) : NULL;
}

/// Asks every variant that may be kept: those that apply go to `others` by cost (the CPU's to
/// `cpu`), the rest to the refusals. A plan's variant is asked for its layout there.
static void ask_variants(Planner *planner, LayerPlan *layer)
{
    const PlannedLayer *planned = planned_layer(planner, layer->layer);
    for (const Variant *const *at = plan_variants; *at; at++) {
        const Variant *variant = *at;
        PlanContext context = layer->context;
        const bool is_planned = planned && planned->variant == variant;
        if (is_planned)
            context.layout = planned->layout;
        if (variant->gpu ? !planner->plan->device : !planner->plan->cpu)
            continue;
        if (variant->for_comparison && !is_planned && !is_named(&planner->policy, variant))
            continue;
        if (variant->gpu && variant->trains && !planner->plan->model->trains)
            continue;
        Reasons reasons = {0};
        if (planner->plan->model->trains && !variant->trains)
            reason_add(planner->arena, &reasons, planner->plan->model->spec->mode_span,
                       "mode: training (%s has no backward pass)", variant->name);
        variant->check(planner->arena, &context, &reasons);
        if (reasons.count > 0) {
            refuse(planner, layer, variant, reasons);
            continue;
        }
        Choice choice = {.variant = variant};
        variant->estimate(planner->arena, &context, &choice);
        if (variant->gpu) {
            insert_by_cost(planner->arena, &layer->others, &layer->other_count, choice);
        } else {
            Choice *cpu = ARENA_NEW(planner->arena, Choice);
            *cpu = choice;
            layer->cpu = cpu;
        }
    }
}

/// Moves `others[index]` to the end of the choices, keeping both orders. `place` says why it stands
/// there, before what the variant itself has to say.
static void keep(Planner *planner, LayerPlan *layer, int index, const char *place)
{
    Choice choice = layer->others[index];
    choice.reason =
        choice.reason ? arena_format(planner->arena, "%s; %s", place, choice.reason) : place;
    for (int i = index; i + 1 < layer->other_count; i++)
        layer->others[i] = layer->others[i + 1];
    layer->other_count--;
    ARENA_PUSH(planner->arena, layer->choices, layer->choice_count, choice);
}

static void keep_kind(Planner *planner, LayerPlan *layer, rnnc_variant_kind kind,
                      const char *reason)
{
    for (int i = 0; i < layer->other_count; i++)
        if (layer->others[i].variant->kind == (int)kind) {
            keep(planner, layer, i, reason);
            return;
        }
}

/// Runs every layer on every device.
static bool is_fallback(int kind)
{
    return kind == RNNC_VARIANT_STEPWISE || kind == RNNC_VARIANT_TRAIN_STEPWISE;
}

static void keep_fallback(Planner *planner, LayerPlan *layer)
{
    static const char reason[] = "fallback, runs on every device";
    keep_kind(planner, layer, RNNC_VARIANT_STEPWISE, reason);
    keep_kind(planner, layer, RNNC_VARIANT_TRAIN_STEPWISE, reason);
}

/// `auto`: what `unroll` asks for first, then by cost the best generated variant, cudnn and
/// stepwise.
static void keep_automatic(Planner *planner, LayerPlan *layer)
{
    if (layer->context.unroll > 0)
        keep_kind(planner, layer, RNNC_VARIANT_UNROLLED, "asked for by 'unroll'");
    bool has_generated = layer->choice_count > 0;
    for (int i = 0; i < layer->other_count;) {
        int kind = layer->others[i].variant->kind;
        bool generated = kind != RNNC_VARIANT_CUDNN && !is_fallback(kind);
        if (generated && has_generated) {
            i++;
            continue;
        }
        const char *reason = layer->choice_count == 0 ? "lowest estimate"
                             : is_fallback(kind)      ? "fallback, runs on every device"
                                                      : "next by estimate";
        has_generated |= generated;
        keep(planner, layer, i, reason);
    }
}

static void keep_named(Planner *planner, LayerPlan *layer)
{
    const Policy *policy = &planner->policy;
    for (int i = 0; i < layer->other_count;)
        if (policy->all || is_named(policy, layer->others[i].variant))
            keep(planner, layer, i,
                 is_named(policy, layer->others[i].variant) ? "asked for by name"
                                                            : "all are kept, by estimate");
        else
            i++;
    if (policy->with_fallback && !policy->all && layer->choice_count > 0)
        keep_fallback(planner, layer);
}

/// The plan's variant, and stepwise behind it; where it cannot run the layer, why.
static void keep_planned(Planner *planner, LayerPlan *layer, const PlannedLayer *planned)
{
    const bool required = planner->plan->model->spec->cudnn == CUDNN_REQUIRE;
    if (!required || planned->variant->kind == RNNC_VARIANT_CUDNN)
        keep_kind(planner, layer, (rnnc_variant_kind)planned->variant->kind, "fastest measured");
    if (layer->choice_count > 0) {
        keep_fallback(planner, layer);
        return;
    }
    Text asked = {.arena = planner->arena};
    text_add(&asked, planned->variant->name);
    if (planned->layout.count > 0) {
        text_add(&asked, " ");
        layout_print(&planned->layout, &asked);
    }
    Diag *diag =
        diag_add(planner->diags, DIAG_E0607, planned->variant_span,
                 "layer '%s' cannot run as planned: %s", layer->layer->name, text_string(&asked));
    for (int i = 0; i < layer->refusal_count; i++)
        for (int r = 0; layer->refusals[i].variant == planned->variant &&
                        r < layer->refusals[i].reasons.count && planned->layout.count == 0;
             r++)
            diag_note(diag, layer->refusals[i].reasons.items[r].span, "%s",
                      layer->refusals[i].reasons.items[r].text);
    if (required)
        diag_note(diag, planner->plan->model->spec->cudnn_span, "cuDNN is required here");
    diag_help(diag, "tune again: rnnc tune MODEL.yaml -o FILE");
}

/// Why nothing is left, variant by variant.
static void tell_nothing_left(Planner *planner, const LayerPlan *layer)
{
    const Policy *policy = &planner->policy;
    Span span = policy->span.source ? policy->span : layer->layer->spec->cell.span;
    Diag *diag = diag_add(planner->diags, DIAG_E0603, span, "no variant is left for layer '%s'",
                          layer->layer->name);
    bool told = false;
    for (int i = 0; i < layer->refusal_count; i++) {
        const struct Refusal *refusal = &layer->refusals[i];
        if (policy->named_count > 0 && !is_named(policy, refusal->variant))
            continue;
        for (int r = 0; r < refusal->reasons.count; r++)
            diag_note(diag, refusal->reasons.items[r].span, "%s is refused: %s",
                      refusal->variant->name, refusal->reasons.items[r].text);
        told = true;
    }
    if (!told && policy->named_count > 0)
        diag_note(diag, (Span){0}, "'%s' does not run on a GPU target", policy->named[0]->name);
    if (policy->automatic || policy->all)
        diag_help(diag, "name the target 'cpu' alone");
    else
        diag_help(diag, "'variant: auto' takes the best that applies");
}

/// `cudnn: require`: cuDNN alone, or every unmet criterion as an error at its key.
static void require_cudnn(Planner *planner, LayerPlan *layer)
{
    keep_kind(planner, layer, RNNC_VARIANT_CUDNN, "required by 'cudnn: require'");
    Span required = planner->plan->model->spec->cudnn_span;
    for (int i = 0; i < layer->refusal_count; i++) {
        const struct Refusal *refusal = &layer->refusals[i];
        for (int r = 0; refusal->variant->kind == RNNC_VARIANT_CUDNN && r < refusal->reasons.count;
             r++) {
            const Reason *reason = &refusal->reasons.items[r];
            Span span = reason->span.source ? reason->span : layer->layer->spec->span;
            Diag *diag =
                diag_add(planner->diags, DIAG_E0604, span, "cuDNN cannot run layer '%s': %s",
                         layer->layer->name, reason->text);
            diag_note(diag, required, "cuDNN is required here");
            diag_help(diag, "'cudnn: auto' runs it by a generated variant");
        }
    }
}

/// A factor that the variant brought down, and an `unroll` that no variant can follow, are told.
static void tell_unroll(Planner *planner, const LayerPlan *layer)
{
    int64_t asked = layer->context.unroll;
    Span span = planner->plan->model->spec->unroll.span;
    for (int i = 0; i < layer->choice_count; i++) {
        const Choice *choice = &layer->choices[i];
        if (choice->variant->kind != RNNC_VARIANT_UNROLLED || choice->unroll >= asked ||
            planner->unroll_told)
            continue;
        planner->unroll_told = true;
        diag_add(planner->diags, DIAG_N0601, span,
                 "layer '%s' is unrolled %d times instead of %lld: more steps in a row make no "
                 "faster code, only longer compilation",
                 layer->layer->name, choice->unroll, (long long)asked);
    }
    for (int i = 0; i < layer->refusal_count && planner->policy.automatic; i++) {
        const struct Refusal *refusal = &layer->refusals[i];
        if (refusal->variant->kind != RNNC_VARIANT_UNROLLED)
            continue;
        Diag *diag =
            diag_add(planner->diags, DIAG_W0601, span,
                     "layer '%s' runs without the unrolling asked for", layer->layer->name);
        for (int r = 0; r < refusal->reasons.count; r++)
            diag_note(diag, refusal->reasons.items[r].span, "%s", refusal->reasons.items[r].text);
    }
}

static void plan_layer(Planner *planner, LayerPlan *layer)
{
    const Plan *plan = planner->plan;
    const PlannedLayer *planned = planned_layer(planner, layer->layer);
    ask_variants(planner, layer);
    if (planned) {
        keep_planned(planner, layer, planned);
    } else if (plan->device) {
        if (plan->model->spec->cudnn == CUDNN_REQUIRE) {
            require_cudnn(planner, layer);
            return;
        }
        if (planner->policy.automatic)
            keep_automatic(planner, layer);
        else
            keep_named(planner, layer);
        if (layer->choice_count == 0)
            tell_nothing_left(planner, layer);
        if (layer->context.unroll > 0)
            tell_unroll(planner, layer);
    }
    for (int i = 0; i < layer->refusal_count && plan->cpu; i++)
        if (!layer->refusals[i].variant->gpu)
            tell_nothing_left(planner, layer);
}

/// `cudnn: require` needs a GPU target and a policy that lets cuDNN in.
static void check_requirement(Planner *planner)
{
    const Spec *spec = planner->plan->model->spec;
    const Policy *policy = &planner->policy;
    const Variant *cudnn = variant_find("cudnn");
    if (spec->cudnn != CUDNN_REQUIRE)
        return;
    if (!planner->plan->device) {
        Diag *diag = diag_add(planner->diags, DIAG_E0605, spec->cudnn_span,
                              "'cudnn: require' needs a GPU target, and cpu is the only one");
        diag_help(diag, "add a GPU to the targets: targets: [sm_90, cpu]");
    } else if (!policy->automatic && !policy->all && !is_named(policy, cudnn)) {
        Diag *diag = diag_add(planner->diags, DIAG_E0605, spec->cudnn_span,
                              "'cudnn: require' and variant '%s' exclude each other",
                              policy->named_count ? policy->named[0]->name : "");
        diag_help(diag, "take 'cudnn: auto', or 'variant: cudnn'");
    }
}

/// A GPU variant asked for by name has no place in a module for the CPU alone.
static void check_names(Planner *planner)
{
    const Policy *policy = &planner->policy;
    if (planner->plan->device || policy->automatic || policy->all)
        return;
    for (int i = 0; i < policy->named_count; i++)
        if (!policy->named[i]->gpu)
            return;
    if (policy->named_count == 0)
        return;
    Diag *diag = diag_add(planner->diags, DIAG_E0603, policy->span,
                          "variant '%s' needs a GPU target, and cpu is the only one",
                          policy->named[0]->name);
    diag_help(diag, "add a GPU to the targets: targets: [sm_90, cpu]");
}

static PlanContext layer_context(const Plan *plan, const Layer *layer, int64_t unroll)
{
    const Model *model = plan->model;
    return (PlanContext){
        .model = model,
        .layer = layer,
        .device = plan->device,
        .precision = model->spec->precision,
        .batch = model->batch ? model->batch : ANY_BATCH,
        .timesteps = !layer->sequence_in ? 1
                     : model->timesteps  ? model->timesteps
                                         : ANY_TIMESTEPS,
        .unroll = unroll,
        .at_once = 1,
    };
}

/// The least microseconds of a layer among the variants that the policy may take and that run
/// beside others; infinity where there is none. Products with W of layers at the same time follow
/// one another.
static double shared_layer_us(Planner *planner, PlanContext context)
{
    const Policy *policy = &planner->policy;
    LayerPlan layer = {.layer = context.layer, .context = context};
    const PlannedLayer *planned = planned_layer(planner, context.layer);
    ask_variants(planner, &layer);
    for (int i = 0; i < layer.other_count; i++) {
        const Variant *variant = layer.others[i].variant;
        const bool alone =
            variant->kind == RNNC_VARIANT_CUDNN || variant->kind == RNNC_VARIANT_STEPWISE;
        if (planned && planned->variant != variant)
            continue;
        if (!alone && (planned || policy->automatic || policy->all || is_named(policy, variant)))
            return layer.others[i].cost_us + (context.at_once - 1) * input_product_us(&context);
    }
    return INFINITY;
}

/// Layers of the stack of `count` that run at the same time: the shortest time of all.
static int choose_at_once(Planner *planner, const LayerPlan *layers, int count)
{
    int best = 1;
    double best_us = INFINITY;
    for (int at_once = 1; at_once <= count; at_once++) {
        double layer_us[STACK_MAX];
        for (int i = 0; i < count; i++) {
            PlanContext context = layers[i].context;
            context.at_once = at_once;
            layer_us[i] = shared_layer_us(planner, context);
        }
        const double us = stack_us(layer_us, count, at_once, layers[0].context.timesteps);
        if (us < best_us) {
            best = at_once;
            best_us = us;
        }
    }
    return best;
}

/// Plans the layers from `index` on that share the GPU; their number.
static int plan_stack(Planner *planner, int index)
{
    Plan *plan = planner->plan;
    LayerPlan *layers = &plan->layers[index];
    const int count = plan->device ? stack_count(plan->model, index) : 1;
    const int at_once = count > 1 ? choose_at_once(planner, layers, count) : 1;
    for (int i = 0; i < count; i++) {
        layers[i].stack = count;
        layers[i].context.at_once = at_once;
        if (layers[i].layer->kind == LAYER_CELL)
            plan_layer(planner, &layers[i]);
    }
    return count;
}

/// By the words of a policy, or by a plan.
static const Plan *make(Arena *arena, Diags *diags, const Model *model, const Targeted *targets,
                        const char *variants, const PlanFile *file)
{
    size_t errors = diags_error_count(diags);
    Plan *plan = ARENA_NEW(arena, Plan);
    *plan = (Plan){.model = model, .cpu = targets->cpu, .layer_count = model->layer_count};
    plan->layers = ARENA_ARRAY(arena, LayerPlan, model->layer_count);
    Planner planner = {.arena = arena, .diags = diags, .plan = plan, .file = file};
    read_policy(&planner, variants);
    if (!choose_device(&planner, targets->arches, targets->arches ? targets->arch_count : 0))
        return NULL;
    if (file && !plan_file_fits(arena, diags, file, model, plan->arches, plan->arch_count))
        return NULL;
    int64_t unroll = asked_unroll(model);
    check_requirement(&planner);
    check_names(&planner);
    if (diags_error_count(diags) > errors)
        return NULL;
    for (int i = 0; i < plan->layer_count; i++) {
        const Layer *layer = &model->layers[i];
        plan->layers[i] =
            (LayerPlan){.layer = layer, .context = layer_context(plan, layer, unroll)};
    }
    for (int i = 0; i < plan->layer_count;)
        i += plan_stack(&planner, i);
    if (model->tokens) {
        Generator *generator = ARENA_NEW(arena, Generator);
        *generator = generator_plan(arena, plan);
        plan->generator = generator;
    }
    return diags_error_count(diags) == errors ? plan : NULL;
}

const Plan *plan_make(Arena *arena, Diags *diags, const Model *model, const int *arches,
                      int arch_count, bool cpu, const char *variants)
{
    return make(arena, diags, model, &(Targeted){arches, arch_count, cpu}, variants, NULL);
}

const Plan *plan_make_from_file(Arena *arena, Diags *diags, const Model *model, const int *arches,
                                int arch_count, bool cpu, const PlanFile *file)
{
    return make(arena, diags, model, &(Targeted){arches, arch_count, cpu}, NULL, file);
}
