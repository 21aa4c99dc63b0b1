// Plan printer: the plan as text, one line a variant with all its numbers; it goes into the module
// and is the same for the same spec, targets and program.
#include "plan/plan.h"

static void print_choice(const Choice *choice, Text *out)
{
    text_addf(out, "    %s cost_us %.1f", choice->variant->name, choice->cost_us);
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"threads", choice->threads},
        {"rows_per_cta", choice->rows_per_cta},
        {"unroll", choice->unroll},
        {"ctas", choice->ctas},
        {"shared_bytes", choice->shared_bytes},
        {"packed_bytes", choice->packed_bytes},
        {"buffer_bytes", choice->buffer_bytes},
        {"memory_bytes", choice->memory_bytes},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value)
            text_addf(out, " %s %lld", numbers[i].name, (long long)numbers[i].value);
    if (choice->reason)
        text_addf(out, " # %s", choice->reason);
    text_add(out, "\n");
}

static void print_layer(const LayerPlan *plan, Text *out)
{
    const Layer *layer = plan->layer;
    text_addf(out, "layer %s %s", layer->name,
              layer->kind == LAYER_CELL ? layer->cell->name : layer_kind_name(layer->kind));
    text_addf(out, " inputs %lld outputs %lld\n", (long long)layer->inputs,
              (long long)layer->outputs);
    for (int i = 0; i < plan->choice_count; i++)
        print_choice(&plan->choices[i], out);
    if (plan->cpu)
        print_choice(plan->cpu, out);
}

static void print_size(const char *name, int64_t size, Text *out)
{
    if (size)
        text_addf(out, "%s %lld\n", name, (long long)size);
    else
        text_addf(out, "%s any\n", name);
}

void plan_print(const Plan *plan, Text *out)
{
    text_addf(out, "plan %s\ntargets", plan->model->name);
    for (int i = 0; i < plan->arch_count; i++)
        text_addf(out, " sm_%d", plan->arches[i]);
    text_addf(out, "%s\n", plan->cpu ? " cpu" : "");
    text_addf(out, "precision %s\n", precision_name(plan->model->spec->precision));
    print_size("batch", plan->model->batch, out);
    print_size("timesteps", plan->model->timesteps, out);
    for (int i = 0; i < plan->layer_count; i++)
        print_layer(&plan->layers[i], out);
}
