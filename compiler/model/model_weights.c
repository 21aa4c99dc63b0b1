// Weights of a model: see model_weights.h.
#include "model/model_weights.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "import/weights.h"

static const char *const kinds[WEIGHT_COUNT] = {
    [WEIGHT_W] = "W", [WEIGHT_R] = "R", [WEIGHT_b] = "b", [WEIGHT_rb] = "rb",
    [WEIGHT_p] = "p", [WEIGHT_P] = "P", [WEIGHT_E] = "E"};

static void name_weight(Arena *arena, Layer *layer, int kind, int64_t rows, int64_t columns)
{
    if (rows > 0)
        layer->weights[kind] =
            (Weight){.name = arena_format(arena, "%s/%s", layer->name, kinds[kind]),
                     .rows = rows,
                     .columns = columns};
}

/// The size of the vectors that R multiplies: H, or P where the state is projected.
static int64_t recurrent_size(const Layer *layer)
{
    for (int p = 0; p < layer->cell->phase_count; p++)
        if (layer->cell->phases[p].row_count && layer->cell->phases[p].matrix == MATRIX_R)
            return layer_domain_size(layer, layer->cell->phases[p].operand_domain);
    return layer->units;
}

static void name_cell_weights(Arena *arena, Layer *layer)
{
    const Cell *cell = layer->cell;
    int64_t units = layer->units;
    name_weight(arena, layer, WEIGHT_W, cell->W.count * units, layer->inputs);
    name_weight(arena, layer, WEIGHT_R, cell->R.count * units,
                recurrent_size(layer) / layer->heads);
    name_weight(arena, layer, WEIGHT_b, cell->b.count * units, 1);
    name_weight(arena, layer, WEIGHT_rb, cell->rb.count * units, 1);
    name_weight(arena, layer, WEIGHT_p, cell->p.count * units, 1);
    name_weight(arena, layer, WEIGHT_P, cell->has_projection ? layer->projection : 0, units);
}

void model_name_weights(Arena *arena, Layer *layer)
{
    if (layer->kind == LAYER_CELL)
        name_cell_weights(arena, layer);
    if (layer->kind == LAYER_EMBEDDING)
        name_weight(arena, layer, WEIGHT_E, layer->inputs, layer->outputs);
    if (layer->kind != LAYER_DENSE)
        return;
    name_weight(arena, layer, WEIGHT_W, layer->outputs, layer->inputs);
    name_weight(arena, layer, WEIGHT_b, layer->spec->use_bias.value ? layer->outputs : 0, 1);
}

/// The gates that a tensor stacks; NULL: it stacks none.
static const GateList *gates_of(const Layer *layer, int kind)
{
    const Cell *cell = layer->cell;
    if (!cell)
        return NULL;
    const GateList *const lists[WEIGHT_COUNT] = {[WEIGHT_W] = &cell->W,
                                                 [WEIGHT_R] = &cell->R,
                                                 [WEIGHT_b] = &cell->b,
                                                 [WEIGHT_rb] = &cell->rb,
                                                 [WEIGHT_p] = &cell->p};
    return lists[kind];
}

/// Of a bidirectional layer's name, "enc/bw" or "enc/0/bw"; a name in a spec has no slash.
static WantedSide side_of(const char *name)
{
    const char *last = strrchr(name, '/');
    if (last && strcmp(last, "/fw") == 0)
        return SIDE_FORWARD;
    return last && strcmp(last, "/bw") == 0 ? SIDE_BACKWARD : SIDE_NONE;
}

static const char *wanted_cell(const Layer *layer)
{
    if (layer->kind == LAYER_CELL)
        return layer->cell->name;
    return layer->kind == LAYER_DENSE ? "dense" : "embedding";
}

static WantedLayer want(Arena *arena, Layer *layer)
{
    WantedSide side = side_of(layer->name);
    const char *base = layer->name;
    if (side != SIDE_NONE)
        base = arena_copy(arena, base, strlen(base) - strlen("/fw"));
    WantedLayer wanted = {.layer = layer->name,
                          .base = base,
                          .stack = arena_copy(arena, base, strcspn(base, "/")),
                          .stack_index = layer->stack_index,
                          .side = side,
                          .cell = wanted_cell(layer),
                          .last_only_bias_n = layer->cell && layer->cell->rb.count > 0,
                          .heads = layer->heads};
    for (int kind = 0; kind < WEIGHT_COUNT; kind++) {
        Weight *weight = &layer->weights[kind];
        if (!weight->name)
            continue;
        float *data = ARENA_ARRAY(arena, float, weight->rows * weight->columns);
        weight->data = data;
        const GateList *gates = gates_of(layer, kind);
        wanted.tensors[wanted.tensor_count++] =
            (struct WantedTensor){.kind = kinds[kind],
                                  .rows = weight->rows,
                                  .columns = weight->columns,
                                  .gate_count = gates ? gates->count : 1,
                                  .data = data,
                                  .gates = gates ? gates->names : NULL,
                                  .is_gain = kind == WEIGHT_p ? layer->cell->is_gain : NULL};
    }
    return wanted;
}

/// The arena ends the program where memory is out, so the machine is asked first.
static bool has_memory(Diags *diags, const Model *model)
{
    double need = 0, have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < model->layer_count; i++)
        for (int kind = 0; kind < WEIGHT_COUNT; kind++) {
            const Weight *weight = &model->layers[i].weights[kind];
            need += (double)weight->rows * (double)weight->columns * sizeof(float);
        }
    if (need < have)
        return true;
    Diag *diag =
        diag_add(diags, DIAG_E0508, model->layers[0].spec->span,
                 "the weights need %.1f GB, this machine has %.1f GB", need / 1e9, have / 1e9);
    diag_help(diag, "check the units of all layers, or compile on a larger machine");
    return false;
}

bool model_fill_weights(Arena *arena, Diags *diags, Model *model)
{
    const Spec *spec = model->spec;
    if (!has_memory(diags, model))
        return false;
    WantedLayer *wanted = ARENA_ARRAY(arena, WantedLayer, model->layer_count);
    int64_t *units = ARENA_ARRAY(arena, int64_t, model->layer_count);
    int count = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const LayerKind kind = model->layers[i].kind;
        if (kind != LAYER_CELL && kind != LAYER_EMBEDDING && kind != LAYER_DENSE)
            continue;
        units[count] = model->layers[i].units;
        wanted[count++] = want(arena, &model->layers[i]);
    }
    if (!spec->weights_file.text) {
        weights_draw((uint64_t)spec->seed.value, wanted, count, units);
        return true;
    }
    const Safetensors *file = spec->weights_given;
    if (!file)
        file =
            safetensors_open(arena, diags, file_beside(arena, spec->path, spec->weights_file.text),
                             spec->weights_file.span);
    static const WeightsConvention conventions[] = {
        [CONVENTION_CANONICAL] = WEIGHTS_CANONICAL,
        [CONVENTION_PYTORCH] = WEIGHTS_PYTORCH,
        [CONVENTION_KERAS] = WEIGHTS_KERAS,
        [CONVENTION_ONNX] = WEIGHTS_ONNX,
    };
    return file &&
           weights_fill(arena, diags, spec->weights_file.span, file, conventions[spec->convention],
                        spec->weights_prefix.text, wanted, count);
}
