// Plan explanation: the table of `rnnc explain MODEL`. For each cell layer what every variant would
// cost and take, which are kept and in what order, and, for those that refuse, each reason with the
// place of the key responsible:
//
//     layer l0: lstm, 8 -> 64, sequence out
//       variant            place     estimate  threads  rows/CTA  unroll    shared  memory
//       persistent_cta     1st        36.1 us      256         1       2   66.0 KB  1.2 MB ...
//       cudnn              refused
//           specs/m.yaml:8:30: activation: {leaky_relu: 0.05} (cuDNN's LSTM has tanh only)
#include <string.h>

#include "cell/cell_gradient.h"
#include "plan/plan.h"

typedef struct {
    Arena *arena;
    Text *out;
    const char *strong, *good, *bad, *faint, *plain; ///< colours, or ""
} Explainer;

static const char *kilo(Arena *arena, int64_t bytes)
{
    double size = (double)bytes;
    if (bytes == 0)
        return "-";
    if (size < 1024.0)
        return arena_format(arena, "%.0f B", size);
    if (size < 1024.0 * 1024.0)
        return arena_format(arena, "%.1f KB", size / 1024.0);
    if (size < 1024.0 * 1024.0 * 1024.0)
        return arena_format(arena, "%.1f MB", size / (1024.0 * 1024.0));
    return arena_format(arena, "%.1f GB", size / (1024.0 * 1024.0 * 1024.0));
}

static const char *duration(Arena *arena, double us)
{
    if (us < 1000.0)
        return arena_format(arena, "%.1f us", us);
    if (us < 1e6)
        return arena_format(arena, "%.2f ms", us / 1e3);
    return arena_format(arena, "%.2f s", us / 1e6);
}

static const char *number(Arena *arena, int value)
{
    return value ? arena_format(arena, "%d", value) : "-";
}

static const char *ordinal(Arena *arena, int n)
{
    static const char *const ends[] = {"th", "st", "nd", "rd"};
    return arena_format(arena, "%d%s", n, ends[n < 4 ? n : 0]);
}

static void explain_choice(const Explainer *to, const Choice *choice, const char *place,
                           const char *colour)
{
    Arena *arena = to->arena;
    text_addf(to->out, "  %-18s %s%-9s%s %11s %8s %9s %7s %9s %9s", choice->variant->name, colour,
              place, to->plain, duration(arena, choice->cost_us), number(arena, choice->threads),
              number(arena, choice->rows_per_cta), number(arena, choice->unroll),
              kilo(arena, choice->shared_bytes),
              kilo(arena, choice->packed_bytes + choice->memory_bytes));
    if (choice->reason)
        text_addf(to->out, "  %s%s%s", to->faint, choice->reason, to->plain);
    text_add(to->out, "\n");
}

static void explain_refusal(const Explainer *to, const struct Refusal *refusal)
{
    text_addf(to->out, "  %-18s %srefused%s\n", refusal->variant->name, to->bad, to->plain);
    for (int i = 0; i < refusal->reasons.count; i++) {
        const Reason *reason = &refusal->reasons.items[i];
        text_add(to->out, "      ");
        if (reason->span.source && reason->span.line > 0)
            text_addf(to->out, "%s%s:%d:%d:%s ", to->strong, reason->span.source->path,
                      reason->span.line, reason->span.column, to->plain);
        text_addf(to->out, "%s\n", reason->text);
    }
}

static void explain_layer(const Explainer *to, const LayerPlan *plan)
{
    const Layer *layer = plan->layer;
    text_addf(to->out, "\n%slayer %s%s: %s, %lld -> %lld", to->strong, layer->name, to->plain,
              layer->cell->name, (long long)layer->inputs, (long long)layer->outputs);
    if (layer->projection)
        text_addf(to->out, " (%lld units)", (long long)layer->units);
    text_addf(to->out, ", %s%s%s", layer->sequence_out ? "every step" : "last step",
              layer->go_backwards ? ", backwards"
              : layer->reversed   ? ", reverse"
                                  : "",
              layer->beside ? ", beside the layer above" : "");
    if (plan->stack > 1 && plan->context.at_once > 1)
        text_addf(to->out, ", %d of the stack's %d layers at a time", plan->context.at_once,
                  plan->stack);
    text_add(to->out, "\n");
    if (layer->cell->gradient) {
        text_addf(to->out, "  saves %lld bytes a step and row: ",
                  (long long)(layer->cell->gradient->step_elems * (int64_t)sizeof(float)));
        cell_print_saved(layer->cell, to->out);
        text_add(to->out, "\n");
    }
    text_addf(to->out, "  %s%-18s %-9s %11s %8s %9s %7s %9s %9s%s\n", to->faint, "variant", "place",
              "estimate", "threads", "rows/CTA", "unroll", "shared", "memory", to->plain);
    for (int i = 0; i < plan->choice_count; i++)
        explain_choice(to, &plan->choices[i], ordinal(to->arena, i + 1), to->good);
    if (plan->cpu)
        explain_choice(to, plan->cpu, "on cpu", to->good);
    for (int i = 0; i < plan->other_count; i++)
        explain_choice(to, &plan->others[i], "applies", "");
    for (int i = 0; i < plan->refusal_count; i++)
        explain_refusal(to, &plan->refusals[i]);
}

static void explain_plain_layer(const Explainer *to, const Layer *layer)
{
    text_addf(to->out, "\n%slayer %s%s: %s, %lld -> %lld\n", to->strong, layer->name, to->plain,
              layer_kind_name(layer->kind), (long long)layer->inputs, (long long)layer->outputs);
}

static const char *size_text(Arena *arena, int64_t size)
{
    return size ? arena_format(arena, "%lld", (long long)size) : "any";
}

void plan_explain(Arena *arena, const Plan *plan, Text *out, bool colour)
{
    Explainer to = {.arena = arena, .out = out};
    to.strong = colour ? "\033[1m" : "";
    to.good = colour ? "\033[32m" : "";
    to.bad = colour ? "\033[31m" : "";
    to.faint = colour ? "\033[2m" : "";
    to.plain = colour ? "\033[0m" : "";
    const Model *model = plan->model;
    text_addf(out, "%s%s%s: batch %s, timesteps %s, %s, for", to.strong, model->name, to.plain,
              size_text(arena, model->batch), size_text(arena, model->timesteps),
              precision_name(model->spec->precision));
    for (int i = 0; i < plan->arch_count; i++)
        text_addf(out, "%s sm_%d (%s)", i ? "," : "", plan->arches[i],
                  device_find(plan->arches[i])->name);
    if (plan->cpu)
        text_addf(out, "%s cpu", plan->arch_count ? "," : "");
    text_add(out, "\n");
    for (int i = 0; i < plan->layer_count; i++)
        if (plan->layers[i].layer->kind == LAYER_CELL)
            explain_layer(&to, &plan->layers[i]);
        else
            explain_plain_layer(&to, plan->layers[i].layer);
}
