// Note: what `rnnc inspect` reads from a module without loading it, as one JSON object:
//
//     {"name", "abi", "precision", "targets": [..], "tensors": [{"name", "role", "dtype",
//     "shape"}],
//      "layers": [{"name", "kind", "cell", "inputs", "outputs", "units", "variants": [..]}],
//      "kernels": [{"layer", "variant", "arch", "registers", "shared_bytes", "line"}],
//      "plan": text, "provenance": {..}}
#include "emit/host.h"
#include "emit/host_tensors.h"

static void print_quoted(Text *out, const char *string)
{
    text_addf(out, "\"%s\"", text_json_escape(out->arena, string ? string : ""));
}

static void print_tensor(Text *out, const HostTensor *tensor)
{
    static const char *const roles[] = {
        [RNNC_ROLE_INPUT] = "input",   [RNNC_ROLE_OUTPUT] = "output", [RNNC_ROLE_STATE] = "state",
        [RNNC_ROLE_WEIGHT] = "weight", [RNNC_ROLE_MASK] = "mask",
    };
    static const char *const dtypes[] = {
        [HOST_FLOAT32] = "float32", [HOST_INT32] = "int32", [HOST_UINT8] = "uint8"};
    text_add(out, "{\"name\": ");
    print_quoted(out, tensor->name);
    text_addf(out, ", \"role\": \"%s\", \"dtype\": \"%s\", \"shape\": [", roles[tensor->role],
              dtypes[tensor->dtype]);
    for (int i = 0; i < tensor->ndim; i++) {
        text_add(out, i ? ", " : "");
        if (tensor->dims[i] < 0)
            text_add(out, tensor->dims[i] == RNNC_DIM_BATCH ? "\"B\"" : "\"T\"");
        else
            text_addf(out, "%lld", (long long)tensor->dims[i]);
    }
    text_add(out, "]}");
}

static void print_layer(Text *out, const Plan *plan, int index)
{
    const LayerPlan *layer_plan = &plan->layers[index];
    const Layer *layer = &plan->model->layers[index];
    text_add(out, "{\"name\": ");
    print_quoted(out, layer->name);
    text_addf(out, ", \"kind\": \"%s\", ", layer_kind_name(layer->kind));
    if (layer->kind == LAYER_CELL) {
        text_add(out, "\"cell\": ");
        print_quoted(out, layer->cell->name);
        text_add(out, ", ");
    }
    text_addf(out, "\"inputs\": %lld, \"outputs\": %lld, \"units\": %lld, \"variants\": [",
              (long long)layer->inputs, (long long)layer->outputs, (long long)layer->units);
    for (int i = 0; i < layer_plan->choice_count; i++)
        text_addf(out, "%s\"%s\"", i ? ", " : "", layer_plan->choices[i].variant->name);
    if (plan->cpu)
        text_addf(out, "%s\"cpu\"", layer_plan->choice_count ? ", " : "");
    text_add(out, "]}");
}

/// One row for each cubin of a layer's choices, and for each level of its CPU code.
static void print_kernels_of(Text *out, const HostModule *module, int index, bool *is_first)
{
    const LayerPlan *plan = &module->plan->layers[index];
    const Layer *layer = &module->plan->model->layers[index];
    int line = layer->spec ? layer->spec->span.line : 0;
    for (int i = 0; i < plan->choice_count && module->of_choice && module->of_choice[index]; i++) {
        int number = module->of_choice[index][i];
        const HostImage *image = number >= 0 ? &module->images[number] : NULL;
        for (int k = 0; image && k < image->cubin_count; k++) {
            text_add(out, *is_first ? "{\"layer\": " : ", {\"layer\": ");
            *is_first = false;
            print_quoted(out, layer->name);
            text_addf(out,
                      ", \"variant\": \"%s\", \"arch\": \"sm_%d\", \"registers\": %d, "
                      "\"shared_bytes\": %lld, \"line\": %d}",
                      plan->choices[i].variant->name, image->arches[k], image->registers[k],
                      (long long)plan->choices[i].shared_bytes, line);
        }
    }
    int isa_count;
    const HostIsa *isas = host_isas(&isa_count);
    for (int i = 0; i < isa_count && module->plan->cpu; i++) {
        text_add(out, *is_first ? "{\"layer\": " : ", {\"layer\": ");
        *is_first = false;
        print_quoted(out, layer->name);
        text_addf(out, ", \"variant\": \"cpu\", \"arch\": \"%s\", \"line\": %d}", isas[i].name,
                  line);
    }
}

void emit_note(Arena *arena, const HostModule *module, Text *out)
{
    const Plan *plan = module->plan;
    const HostTensors tensors = host_tensors(arena, plan->model);
    text_add(out, "{\"name\": ");
    print_quoted(out, plan->model->name);
    text_addf(out, ", \"abi\": [%d, %d], \"precision\": \"%s\", \"targets\": [", RNNC_ABI_MAJOR,
              RNNC_ABI_MINOR, precision_name(plan->model->spec->precision));
    for (int i = 0; i < plan->arch_count; i++)
        text_addf(out, "%s\"sm_%d\"", i ? ", " : "", plan->arches[i]);
    if (plan->cpu)
        text_addf(out, "%s\"cpu\"", plan->arch_count ? ", " : "");
    text_add(out, "], \"tensors\": [");
    for (int i = 0; i < tensors.count; i++) {
        text_add(out, i ? ", " : "");
        print_tensor(out, &tensors.items[i]);
    }
    text_add(out, "], \"layers\": [");
    for (int i = 0; i < plan->layer_count; i++) {
        text_add(out, i ? ", " : "");
        print_layer(out, plan, i);
    }
    text_add(out, "], \"kernels\": [");
    bool is_first = true;
    for (int i = 0; i < plan->layer_count; i++)
        print_kernels_of(out, module, i, &is_first);
    text_add(out, "], \"plan\": ");
    print_quoted(out, module->plan_text);
    text_addf(out, ", \"provenance\": %s}\n", module->provenance ? module->provenance : "null");
}
