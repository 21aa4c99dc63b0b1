// Host C: the tables of rnnc_module_desc, printed flat, one after the other, each table before the
// one that points to it.
#include "emit/host.h"

#include <math.h>

#include "emit/host_tensors.h"
#include "emit/host_training.h"
#include "plan/generator.h"

const HostIsa *host_isas(int *out_count)
{
#if defined __x86_64__
    static const HostIsa isas[] = {
        {"x86-64-v4", "v4", "-march=x86-64-v4"},
        {"x86-64-v3", "v3", "-march=x86-64-v3"},
        {"baseline", "baseline", "-march=x86-64"},
    };
#elif defined __aarch64__
    static const HostIsa isas[] = {{"baseline", "baseline", "-mcpu=native"}};
#else
    static const HostIsa isas[] = {{"baseline", "baseline", "-march=native"}};
#endif
    *out_count = (int)(sizeof isas / sizeof isas[0]);
    return isas;
}

static int64_t weight_bytes(const Weight *weight)
{
    enum { ALIGNMENT = 64 };
    int64_t bytes = weight->name ? weight->rows * weight->columns * (int64_t)sizeof(float) : 0;
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int64_t host_weight_offset(const Model *model, int layer, int kind)
{
    int64_t offset = 0;
    for (int i = 0; i <= layer; i++)
        for (int k = 0; k < (i < layer ? WEIGHT_COUNT : kind); k++)
            offset += weight_bytes(&model->layers[i].weights[k]);
    return offset;
}

int64_t host_weights_bytes(const Model *model)
{
    return host_weight_offset(model, model->layer_count - 1, WEIGHT_COUNT);
}

/// A C string literal, broken at line ends.
static void print_string(Text *out, const char *string)
{
    if (!string) {
        text_add(out, "NULL");
        return;
    }
    text_add(out, "\"");
    for (const char *at = string; *at; at++)
        if (*at == '\n')
            text_add(out, at[1] ? "\\n\"\n    \"" : "\\n");
        else if (*at == '"' || *at == '\\')
            text_addf(out, "\\%c", *at);
        else if ((unsigned char)*at < 32 || (unsigned char)*at > 126 || *at == '?')
            text_addf(out, "\\%03o", (unsigned)(unsigned char)*at);
        else
            text_addf(out, "%c", *at);
    text_add(out, "\"");
}

static void print_number(Text *out, double value)
{
    if (isinf(value))
        text_add(out, value < 0 ? "-__builtin_inf()" : "__builtin_inf()");
    else if (isnan(value))
        text_add(out, "__builtin_nan(\"\")");
    else
        text_addf(out, "%.17g", value);
}

/// A symbol whose bytes are those of a file, followed by a NUL.
static void print_inclusion(Text *out, const char *symbol, const char *file)
{
    text_addf(out,
              "__asm__(\".section .rodata\\n.balign 64\\n%s:\\n.incbin \\\"%s\\\"\\n\"\n"
              "        \"%s_end: .byte 0\\n.previous\\n\");\n"
              "extern const char %s[] __attribute__((visibility(\"hidden\")));\n"
              "extern const char %s_end[] __attribute__((visibility(\"hidden\")));\n",
              symbol, file, symbol, symbol, symbol);
}

/// The weights, or as many zeros, which take no room in the file.
static void print_weights(Text *out, const Model *model, bool are_zero)
{
    if (are_zero)
        text_addf(
            out,
            "__asm__(\".section .bss\\n.balign 64\\nrnnc_weights: .zero %lld\\n.previous\\n\");\n"
            "extern const char rnnc_weights[] __attribute__((visibility(\"hidden\")));\n",
            (long long)host_weights_bytes(model) + 1);
    else
        print_inclusion(out, "rnnc_weights", "weights.bin");
}

static void print_tensor(Text *out, const Model *model, const HostTensor *tensor)
{
    static const char *const roles[] = {
        [RNNC_ROLE_INPUT] = "RNNC_ROLE_INPUT", [RNNC_ROLE_OUTPUT] = "RNNC_ROLE_OUTPUT",
        [RNNC_ROLE_STATE] = "RNNC_ROLE_STATE", [RNNC_ROLE_WEIGHT] = "RNNC_ROLE_WEIGHT",
        [RNNC_ROLE_MASK] = "RNNC_ROLE_MASK",
    };
    static const char *const dtypes[] = {[HOST_FLOAT32] = "{kDLFloat, 32, 1}",
                                         [HOST_INT32] = "{kDLInt, 32, 1}",
                                         [HOST_UINT8] = "{kDLUInt, 8, 1}"};
    text_add(out, "    {{");
    print_string(out, tensor->name);
    text_addf(out, ", %s, %s, %d, {", roles[tensor->role], dtypes[tensor->dtype], tensor->ndim);
    for (int i = 0; i < tensor->ndim; i++)
        text_addf(out, i ? ", %lld" : "%lld", (long long)tensor->dims[i]);
    text_addf(out, "}}, %d, ", tensor->layer);
    if (tensor->role == RNNC_ROLE_WEIGHT)
        text_addf(out, "(const float *)(const void *)(rnnc_weights + %lld), ",
                  (long long)host_weight_offset(model, tensor->layer, tensor->kind));
    else
        text_add(out, "NULL, ");
    print_number(out, tensor->start);
    text_add(out, "},\n");
}

static void print_images(Text *out, const HostModule *module)
{
    for (int i = 0; i < module->image_count; i++) {
        const HostImage *image = &module->images[i];
        Arena *arena = out->arena;
        for (int k = 0; k < image->cubin_count; k++)
            print_inclusion(out, arena_format(arena, "rnnc_image_%d_sm_%d", i, image->arches[k]),
                            arena_format(arena, "%s.sm_%d.cubin", image->name, image->arches[k]));
        if (image->has_ptx)
            print_inclusion(out, arena_format(arena, "rnnc_image_%d_ptx", i),
                            arena_format(arena, "%s.ptx", image->name));
        print_inclusion(out, arena_format(arena, "rnnc_image_%d_source", i),
                        arena_format(arena, "%s.cu", image->name));
    }
}

static void print_cubins(Text *out, const HostModule *module)
{
    for (int i = 0; i < module->image_count; i++) {
        const HostImage *image = &module->images[i];
        text_addf(out, "static const rnnc_cubin_desc rnnc_cubins_%d[] = {\n", i);
        for (int k = 0; k < image->cubin_count; k++)
            text_addf(out, "    {%d, rnnc_image_%d_sm_%d, %lld},\n", image->arches[k], i,
                      image->arches[k], (long long)image->cubin_bytes[k]);
        text_add(out, "};\n");
    }
    text_add(out, "static const rnnc_image_desc rnnc_images[] = {\n");
    for (int i = 0; i < module->image_count; i++) {
        const HostImage *image = &module->images[i];
        text_add(out, "    {");
        print_string(out, image->name);
        text_addf(out, ", %d, rnnc_cubins_%d, ", image->cubin_count, i);
        if (image->has_ptx)
            text_addf(out, "rnnc_image_%d_ptx, ", i);
        else
            text_add(out, "NULL, ");
        text_addf(out, "rnnc_image_%d_source, ", i);
        print_string(out, image->options);
        text_add(out, "},\n");
    }
    text_add(out, "};\n");
}

static void print_phases(Text *out, const Layer *layer)
{
    for (int i = 0; i < layer->cell->phase_count; i++) {
        const CellPhase *phase = &layer->cell->phases[i];
        int64_t depth = phase->row_count ? layer_domain_size(layer, phase->operand_domain) : 0;
        text_addf(out, "        {%s, %d, {",
                  phase->matrix == MATRIX_P ? "RNNC_WEIGHT_P" : "RNNC_WEIGHT_R", phase->row_count);
        for (int k = 0; k < phase->row_count; k++)
            text_addf(out, "%d, ", phase->rows[k]);
        text_addf(out, "0}, %d, %d, %lld, %lld, %lld, %d},\n", phase->operand_is_state,
                  phase->row_count ? phase->operand : 0, (long long)depth,
                  (long long)layer_domain_size(layer, phase->domain),
                  (long long)layer_phase_heads(layer, phase), phase->norm_count);
    }
}

static void print_cell(Text *out, const Layer *layer, int index, const HostTensors *tensors)
{
    const Cell *cell = layer->cell;
    text_addf(out, "     .state_count = %d, .states = {", cell->state_count);
    for (int i = 0; i < cell->state_count; i++)
        text_addf(out, "%d, ", host_tensor_find(tensors, RNNC_ROLE_STATE, index, i));
    text_add(out, "}, .state_sizes = {");
    for (int i = 0; i < cell->state_count; i++)
        text_addf(out, "%lld, ", (long long)layer_domain_size(layer, cell->states[i].domain));
    text_addf(out, "},\n     .input_gates = %d, .phase_count = %d, .carry_count = %d,\n",
              cell->W.count, cell->phase_count, cell->carry_count);
    text_add(out, "     .phases = {\n");
    print_phases(out, layer);
    text_add(out, "     },\n     .carry_sizes = {");
    for (int i = 0; i < cell->carry_count; i++)
        text_addf(out, "%lld, ", (long long)layer_domain_size(layer, cell->carries[i].domain));
    text_add(out, "0},\n");
}

static int image_of_choice(const HostModule *module, int layer, int choice)
{
    return module->of_choice && module->of_choice[layer] ? module->of_choice[layer][choice] : -1;
}

/// The layer's GPU variants and cuDNN's description, as tables of their own.
static void print_variants(Arena *arena, Text *out, const HostModule *module, int index)
{
    static const char *const kinds[] = {
        [RNNC_VARIANT_CUDNN] = "RNNC_VARIANT_CUDNN",
        [RNNC_VARIANT_STEPWISE] = "RNNC_VARIANT_STEPWISE",
        [RNNC_VARIANT_UNROLLED] = "RNNC_VARIANT_UNROLLED",
        [RNNC_VARIANT_PERSISTENT_CTA] = "RNNC_VARIANT_PERSISTENT_CTA",
        [RNNC_VARIANT_PERSISTENT_CLUSTER] = "RNNC_VARIANT_PERSISTENT_CLUSTER",
        [RNNC_VARIANT_PERSISTENT_GRID] = "RNNC_VARIANT_PERSISTENT_GRID",
        [RNNC_VARIANT_LOOP] = "RNNC_VARIANT_LOOP",
        [RNNC_VARIANT_CPU] = "RNNC_VARIANT_CPU",
        [RNNC_VARIANT_TRAIN_STEPWISE] = "RNNC_VARIANT_TRAIN_STEPWISE",
        [RNNC_VARIANT_PERSISTENT_WIDE] = "RNNC_VARIANT_PERSISTENT_WIDE",
        [RNNC_VARIANT_TRAIN_CLUSTER] = "RNNC_VARIANT_TRAIN_CLUSTER",
    };
    const LayerPlan *plan = &module->plan->layers[index];
    text_addf(out, "static const rnnc_variant_desc rnnc_variants_%d[] = {\n", index);
    for (int i = 0; i < plan->choice_count; i++) {
        const Choice *choice = &plan->choices[i];
        text_addf(out, "    {%s, \"%s\", ", kinds[choice->variant->kind], choice->variant->name);
        print_string(out, choice->reason);
        text_addf(out, ", %d, %d, %d, %d, %lld, %lld, %d, %lld},\n",
                  image_of_choice(module, index, i), choice->threads, choice->rows_per_cta,
                  choice->unroll, (long long)choice->shared_bytes, (long long)choice->packed_bytes,
                  choice->ctas, (long long)choice->buffer_bytes);
    }
    text_add(out, "};\n");
    CudnnDescription cudnn;
    for (int i = 0; i < plan->choice_count; i++)
        if (plan->choices[i].variant->kind == RNNC_VARIANT_CUDNN &&
            cudnn_description(arena, plan->layer, &cudnn))
            text_addf(out, "static const rnnc_cudnn_desc rnnc_cudnn_%d = {%d, %d, %d};\n", index,
                      cudnn.mode, cudnn.projection, cudnn.bias);
}

static bool has_cudnn(const LayerPlan *plan)
{
    for (int i = 0; i < plan->choice_count; i++)
        if (plan->choices[i].variant->kind == RNNC_VARIANT_CUDNN)
            return true;
    return false;
}

static void print_cpu_codes(Text *out, int index)
{
    int count;
    const HostIsa *isas = host_isas(&count);
    for (int i = 0; i < count; i++)
        text_addf(out, "extern const rnnc_cpu_code rnnc_cpu_%d_%s;\n", index, isas[i].tag);
    text_addf(out, "static const rnnc_cpu_code *const rnnc_codes_%d[] = {", index);
    for (int i = 0; i < count; i++)
        text_addf(out, i ? ", &rnnc_cpu_%d_%s" : "&rnnc_cpu_%d_%s", index, isas[i].tag);
    text_add(out, "};\n");
}

static void print_weight_indices(Text *out, const HostTensors *tensors, int layer)
{
    static const char *const names[] = {
        [RNNC_WEIGHT_W] = "W",
        [RNNC_WEIGHT_R] = "R",
        [RNNC_WEIGHT_B] = "B",
        [RNNC_WEIGHT_RB] = "RB",
        [RNNC_WEIGHT_PEEPHOLE] = "PEEPHOLE",
        [RNNC_WEIGHT_P] = "P",
        [RNNC_WEIGHT_E] = "E",
    };
    text_add(out, "     .weights = {");
    for (int kind = 0; kind < WEIGHT_COUNT; kind++)
        text_addf(out, "[RNNC_WEIGHT_%s] = %d, ", names[host_weight_kind(kind)],
                  host_tensor_find(tensors, RNNC_ROLE_WEIGHT, layer, kind));
    text_add(out, "},\n");
}

static void print_view(Text *out, const char *name, const View *view)
{
    text_addf(out, "     .%s = {%d, %lld, %lld},\n", name, view->slot, (long long)view->offset,
              (long long)view->width);
}

/// How a layer goes through its steps, and what the layers without weights need.
static void print_sequence(Text *out, const Layer *layer)
{
    static const char *const merges[] = {
        [MERGE_CONCAT] = "RNNC_MERGE_SUM", // not merged: both directions write one buffer
        [MERGE_SUM] = "RNNC_MERGE_SUM",    [MERGE_MUL] = "RNNC_MERGE_MUL",
        [MERGE_AVE] = "RNNC_MERGE_AVE",
        [MERGE_NONE] = "RNNC_MERGE_SUM", // nor here: each has its own output
    };
    print_view(out, "in", &layer->in);
    print_view(out, "in2", &layer->in2);
    print_view(out, "out", &layer->out);
    text_addf(out,
              "     .beside = %d, .reversed = %d, .go_backwards = %d, .zero_output_for_mask = %d,\n"
              "     .recurrent_dropout = %.9g, .rate = %.9g, .per_sequence = %d, "
              ".dropout_index = %d,\n     .mask_value = ",
              layer->beside, layer->reversed, layer->go_backwards, layer->zero_output_for_mask,
              (double)(float)layer->recurrent_dropout, (double)(float)layer->rate,
              layer->per_sequence, layer->dropout_index);
    print_number(out, layer->mask_value);
    text_addf(out, ", .mask_zero = %d, .merge = %s,\n", layer->mask_zero, merges[layer->merge]);
}

static void print_layer(Text *out, const HostModule *module, const HostTensors *tensors, int index)
{
    static const char *const kinds[] = {
        [LAYER_CELL] = "RNNC_LAYER_CELL",       [LAYER_EMBEDDING] = "RNNC_LAYER_EMBEDDING",
        [LAYER_DENSE] = "RNNC_LAYER_DENSE",     [LAYER_ACTIVATION] = "RNNC_LAYER_ACTIVATION",
        [LAYER_DROPOUT] = "RNNC_LAYER_DROPOUT", [LAYER_MASKING] = "RNNC_LAYER_MASKING",
        [LAYER_MERGE] = "RNNC_LAYER_MERGE",
    };
    const Model *model = module->plan->model;
    const Layer *layer = &model->layers[index];
    text_add(out, "    {.name = ");
    print_string(out, layer->name);
    text_addf(out,
              ", .kind = %s,\n     .inputs = %lld, .outputs = %lld, .units = %lld, "
              ".projection = %lld,\n     .sequence_in = %d, .sequence_out = %d, .stateful = %d,\n",
              kinds[layer->kind], (long long)layer->inputs, (long long)layer->outputs,
              (long long)layer->units, (long long)layer->projection, layer->sequence_in,
              layer->sequence_out, layer->stateful);
    print_sequence(out, layer);
    print_weight_indices(out, tensors, index);
    if (layer->kind == LAYER_CELL)
        print_cell(out, layer, index, tensors);
    if (module->plan->cpu) {
        int count;
        host_isas(&count);
        text_addf(out, "     .cpu_code_count = %d, .cpu_codes = rnnc_codes_%d,\n", count, index);
    }
    const LayerPlan *plan = &module->plan->layers[index];
    if (plan->choice_count > 0)
        text_addf(out, "     .variant_count = %d, .variants = rnnc_variants_%d,\n",
                  plan->choice_count, index);
    if (has_cudnn(plan))
        text_addf(out, "     .cudnn = &rnnc_cudnn_%d,\n", index);
    text_addf(out, "     .layer_image = %d},\n", module->of_layer ? module->of_layer[index] : -1);
}

static void print_layers(Arena *arena, Text *out, const HostModule *module,
                         const HostTensors *tensors)
{
    int count = module->plan->layer_count;
    for (int i = 0; i < count; i++) {
        if (module->plan->cpu)
            print_cpu_codes(out, i);
        if (module->plan->layers[i].choice_count > 0)
            print_variants(arena, out, module, i);
    }
    text_add(out, "static const rnnc_layer_desc rnnc_layers[] = {\n");
    for (int i = 0; i < count; i++)
        print_layer(out, module, tensors, i);
    text_add(out, "};\n\n");
}

static void print_generator(Text *out, const HostModule *module)
{
    const Generator *generator = module->plan->generator;
    text_add(out, "static const rnnc_generator_desc rnnc_generator = {\n    .refusal = ");
    print_string(out, generator->refusal);
    text_addf(out,
              ", .image = %d, .layers = %d,\n    .threads = %d, .ctas = %d, .rows = %d,\n"
              "    .shared_bytes = %lld, .packed_bytes = %lld, .buffer_bytes = %lld,\n"
              "    .is_cluster = %d,\n};\n\n",
              module->generator_image, generator->layers, generator->threads, generator->ctas,
              generator->rows * generator->sets, (long long)generator->shared_bytes,
              (long long)generator->packed_bytes, (long long)generator->buffer_bytes,
              generator->is_cluster);
}

static void print_note(Text *out)
{
    text_add(out, "__asm__(\".section .note.rnnc,\\\"a\\\",%note\\n.balign 4\\n.long 5\\n\"\n"
                  "        \".long 2f - 1f\\n.long 1\\n.asciz \\\"rnnc\\\"\\n.balign 4\\n\"\n"
                  "        \"1: .incbin \\\"note.json\\\"\\n2: .balign 4\\n.previous\\n\");\n\n");
}

void emit_host(Arena *arena, const HostModule *module, Text *out)
{
    const Model *model = module->plan->model;
    const HostTensors tensors = host_tensors(arena, model);
    text_addf(out, "// Module '%s', generated by rnnc " RNNC_VERSION ".\n", model->name);
    text_add(out, "#include <stddef.h>\n#include \"rnnc/module.h\"\n\n");
    print_note(out);
    print_weights(out, model, module->without_weights);
    print_images(out, module);
    if (module->self_test) {
        print_inclusion(out, "rnnc_test_data", "self_test.bin");
        self_test_print(module->self_test, "rnnc_test_data", out);
    }
    text_add(out, "\nstatic const rnnc_tensor_desc rnnc_tensors[] = {\n");
    for (int i = 0; i < tensors.count; i++)
        print_tensor(out, model, &tensors.items[i]);
    text_add(out, "};\n\n");
    if (module->image_count > 0)
        print_cubins(out, module);
    print_layers(arena, out, module, &tensors);
    if (model->trains)
        host_print_training(model, out);
    if (module->plan->generator)
        print_generator(out, module);
    text_add(out, "static const int64_t rnnc_slot_widths[] = {");
    for (int i = 0; i < model->slot_count; i++)
        text_addf(out, "%lld, ", (long long)model->slot_widths[i]);
    text_add(out, "0};\n\nstatic const rnnc_module_desc rnnc_desc = {\n"
                  "    .magic = RNNC_MODULE_MAGIC,\n    .abi_major = RNNC_ABI_MAJOR,\n"
                  "    .abi_minor = RNNC_ABI_MINOR,\n"
                  "    .struct_bytes = sizeof(rnnc_module_desc),\n    .name = ");
    print_string(out, model->name);
    text_add(out, ",\n    .provenance = ");
    print_string(out, module->provenance);
    text_add(out, ",\n    .plan = ");
    print_string(out, module->plan_text);
    text_addf(out,
              ",\n    .batch = %lld, .timesteps = %lld, .tokens = %d, .time_major = %d,\n"
              "    .precision = %d,\n"
              "    .tensor_count = %d, .tensors = rnnc_tensors,\n"
              "    .layer_count = %d, .layers = rnnc_layers,\n    .image_count = %d, ",
              (long long)model->batch, (long long)model->timesteps, model->tokens,
              model->time_major, (int)model->spec->precision, tensors.count, model->layer_count,
              module->image_count);
    text_addf(out,
              ".images = %s,\n    .sequence_image = %d, .slot_count = %d, "
              ".slot_widths = rnnc_slot_widths,\n    .self_test = %s,\n    .training = %s,\n"
              "    .generator = %s,\n};\n\n"
              "#include \"host/module.c\"\n",
              module->image_count > 0 ? "rnnc_images" : "NULL", module->sequence_image,
              model->slot_count, module->self_test ? "&rnnc_test" : "NULL",
              model->trains ? "&rnnc_training" : "NULL",
              module->plan->generator ? "&rnnc_generator" : "NULL");
}
