// Plan file, writing, and whether it fits a model: see plan_file.h.
#include "plan/plan_file.h"

#include <math.h>
#include <stdlib.h>

const PlannedLayer *plan_file_layer(const PlanFile *file, const char *name)
{
    for (int i = 0; i < file->layer_count; i++)
        if (text_equal(file->layers[i].name, name))
            return &file->layers[i];
    return NULL;
}

static void refuse(Diags *diags, Span span, const char *what, const char *planned,
                   const char *actual)
{
    Diag *diag =
        diag_add(diags, DIAG_E0607, span, "the plan is for %s %s, not %s", what, planned, actual);
    diag_help(diag, "tune again: rnnc tune MODEL.yaml -o FILE");
}

static const char *size_text(Arena *arena, int64_t size)
{
    return size ? arena_format(arena, "%lld", (long long)size) : "any";
}

static void fit_layer(Diags *diags, const PlanFile *file, const Layer *layer)
{
    const PlannedLayer *planned = plan_file_layer(file, layer->name);
    if (!planned) {
        Diag *diag =
            diag_add(diags, DIAG_E0607, file->span, "the plan has no layer '%s'", layer->name);
        diag_help(diag, "tune again: rnnc tune MODEL.yaml -o FILE");
        return;
    }
    if (!text_equal(planned->cell, layer->cell->name))
        refuse(diags, planned->span, "cell", planned->cell, layer->cell->name);
    if (planned->inputs != layer->inputs || planned->units != layer->units) {
        Diag *diag = diag_add(diags, DIAG_E0607, planned->span,
                              "layer '%s' of the plan has %lld inputs and %lld units, the model's "
                              "%lld and %lld",
                              layer->name, (long long)planned->inputs, (long long)planned->units,
                              (long long)layer->inputs, (long long)layer->units);
        diag_help(diag, "tune again: rnnc tune MODEL.yaml -o FILE");
    }
}

/// Layers of the plan that the model does not have.
static void fit_names(Diags *diags, const PlanFile *file, const Model *model)
{
    for (int i = 0; i < file->layer_count; i++) {
        bool known = false;
        for (int k = 0; k < model->layer_count; k++)
            known |= model->layers[k].kind == LAYER_CELL &&
                     text_equal(model->layers[k].name, file->layers[i].name);
        if (!known)
            diag_help(diag_add(diags, DIAG_E0607, file->layers[i].span,
                               "the model has no cell layer '%s'", file->layers[i].name),
                      "tune again: rnnc tune MODEL.yaml -o FILE");
    }
}

bool plan_file_fits(Arena *arena, Diags *diags, const PlanFile *file, const Model *model,
                    const int *arches, int arch_count)
{
    const size_t errors = diags_error_count(diags);
    const char *precision = precision_name(model->spec->precision);
    bool is_target = false;
    for (int i = 0; i < arch_count; i++)
        is_target |= arches[i] == file->arch;
    if (!is_target)
        refuse(diags, file->span, "target", arena_format(arena, "sm_%d", file->arch),
               arch_count ? arena_format(arena, "sm_%d", arches[0]) : "cpu");
    if (!text_equal(file->precision, precision))
        refuse(diags, file->span, "precision", file->precision, precision);
    if (file->batch != model->batch)
        refuse(diags, file->span, "batch", size_text(arena, file->batch),
               size_text(arena, model->batch));
    if (file->timesteps != model->timesteps)
        refuse(diags, file->span, "timesteps", size_text(arena, file->timesteps),
               size_text(arena, model->timesteps));
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind == LAYER_CELL)
            fit_layer(diags, file, &model->layers[i]);
    fit_names(diags, file, model);
    return diags_error_count(diags) == errors;
}

static void print_size(const char *name, int64_t size, Text *out)
{
    if (size)
        text_addf(out, "\"%s\": %lld", name, (long long)size);
    else
        text_addf(out, "\"%s\": \"any\"", name);
}

/// JSON knows no NaN.
static void print_number(const char *name, const char *format, double value, Text *out)
{
    text_addf(out, ", \"%s\": ", name);
    if (isfinite(value))
        text_addf(out, format, value);
    else
        text_add(out, "null");
}

static void print_run(const Variant *variant, const WorkLayout *layout, Text *out)
{
    text_addf(out, "\"variant\": \"%s\"", variant->name);
    if (layout->count == 0)
        return;
    text_add(out, ", \"layout\": ");
    layout_print(layout, out);
}

static void print_layer(Arena *arena, const PlannedLayer *layer, Text *out)
{
    text_addf(out, "    \"%s\": {\n      \"cell\": \"%s\", \"inputs\": %lld, \"units\": %lld,\n",
              text_json_escape(arena, layer->name), text_json_escape(arena, layer->cell),
              (long long)layer->inputs, (long long)layer->units);
    text_add(out, "      ");
    print_run(layer->variant, &layer->layout, out);
    text_add(out, "\n    }");
}

static void print_measurement(Arena *arena, const PlanMeasurement *row, Text *out)
{
    text_addf(out, "    {\"layers\": \"%s\", ", text_json_escape(arena, row->layers));
    print_run(row->variant, &row->layout, out);
    if (row->refusal) {
        text_addf(out, ", \"refused\": \"%s\"", text_json_escape(arena, row->refusal));
    } else {
        print_number("us", "%.2f", row->us, out);
        print_number("p10_us", "%.2f", row->p10_us, out);
        print_number("p90_us", "%.2f", row->p90_us, out);
    }
    print_number("error", "%.2e", row->error, out);
    print_number("estimate_us", "%.1f", row->estimate_us, out);
    print_number("product_us", "%.1f", row->product_us, out);
    text_add(out, "}");
}

/// Those with a time first, fastest first; equal ones as they came.
static int compare(const void *a, const void *b)
{
    const PlanMeasurement *left = *(const PlanMeasurement *const *)a;
    const PlanMeasurement *right = *(const PlanMeasurement *const *)b;
    const double l = left->refusal ? INFINITY : left->us, r = right->refusal ? INFINITY : right->us;
    if (l != r)
        return l < r ? -1 : 1;
    return left < right ? -1 : left > right;
}

void plan_file_print(Arena *arena, const PlanFile *file, Text *out)
{
    text_addf(out, "{\n  \"rnnc_plan\": %d,\n  \"model\": \"%s\", \"precision\": \"%s\", ",
              PLAN_FILE_VERSION, text_json_escape(arena, file->model), file->precision);
    print_size("batch", file->batch, out);
    text_add(out, ", ");
    print_size("timesteps", file->timesteps, out);
    text_addf(out, ",\n  \"device\": \"%s\", \"arch\": %d,\n  \"layers\": {\n",
              text_json_escape(arena, file->device), file->arch);
    for (int i = 0; i < file->layer_count; i++) {
        print_layer(arena, &file->layers[i], out);
        text_add(out, i + 1 < file->layer_count ? ",\n" : "\n");
    }
    text_add(out, "  },\n  \"measured\": [\n");
    const PlanMeasurement **order =
        ARENA_ARRAY(arena, const PlanMeasurement *, file->measured_count + 1);
    for (int i = 0; i < file->measured_count; i++)
        order[i] = &file->measured[i];
    qsort(order, (size_t)file->measured_count, sizeof *order, compare);
    for (int i = 0; i < file->measured_count; i++) {
        print_measurement(arena, order[i], out);
        text_add(out, i + 1 < file->measured_count ? ",\n" : "\n");
    }
    text_add(out, "  ]\n}\n");
}
