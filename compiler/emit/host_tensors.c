// Tensors of a module: names and shapes as the runtime's public API shows them.
#include "emit/host_tensors.h"

bool host_sequence_out(const Model *model, int index)
{
    for (int i = 0; i <= index; i++)
        if (model->layers[i].kind == LAYER_CELL && !model->layers[i].sequence_out)
            return false;
    return true;
}

bool host_sequence_in(const Model *model, int index)
{
    return index == 0 || host_sequence_out(model, index - 1);
}

rnnc_weight_kind host_weight_kind(int kind)
{
    static const rnnc_weight_kind kinds[WEIGHT_COUNT] = {
        [WEIGHT_W] = RNNC_WEIGHT_W,   [WEIGHT_R] = RNNC_WEIGHT_R,        [WEIGHT_b] = RNNC_WEIGHT_B,
        [WEIGHT_rb] = RNNC_WEIGHT_RB, [WEIGHT_p] = RNNC_WEIGHT_PEEPHOLE, [WEIGHT_P] = RNNC_WEIGHT_P,
        [WEIGHT_E] = RNNC_WEIGHT_E,
    };
    return kinds[kind];
}

static int64_t dim_or(int64_t fixed, int64_t any)
{
    return fixed ? fixed : any;
}

static void add_ends(Arena *arena, const Model *model, HostTensors *tensors)
{
    const int64_t B = dim_or(model->batch, RNNC_DIM_BATCH);
    const int64_t T = dim_or(model->timesteps, RNNC_DIM_TIME);
    const int last = model->layer_count - 1;
    const int64_t outputs = model->layers[last].outputs;
    HostTensor x = {.name = "x", .role = RNNC_ROLE_INPUT, .tokens = model->tokens, .layer = -1};
    HostTensor y = {.name = "y", .role = RNNC_ROLE_OUTPUT, .layer = -1};
    x.ndim = model->tokens ? 2 : 3;
    x.dims[0] = B, x.dims[1] = T, x.dims[2] = model->tokens ? 0 : model->features;
    y.dims[0] = B;
    if (host_sequence_out(model, last))
        y.ndim = 3, y.dims[1] = T, y.dims[2] = outputs;
    else
        y.ndim = 2, y.dims[1] = outputs;
    ARENA_PUSH(arena, tensors->items, tensors->count, x);
    ARENA_PUSH(arena, tensors->items, tensors->count, y);
}

static void add_layer(Arena *arena, const Model *model, int index, HostTensors *tensors)
{
    const Layer *layer = &model->layers[index];
    for (int i = 0; layer->kind == LAYER_CELL && i < layer->cell->state_count; i++) {
        const CellState *state = &layer->cell->states[i];
        HostTensor tensor = {
            .name = arena_format(arena, "%s/%s", layer->name, state->name),
            .role = RNNC_ROLE_STATE,
            .ndim = 2,
            .dims = {dim_or(model->batch, RNNC_DIM_BATCH), layer_domain_size(layer, state->domain)},
            .layer = index,
            .kind = i,
            .start = state->start};
        ARENA_PUSH(arena, tensors->items, tensors->count, tensor);
    }
    for (int kind = 0; kind < WEIGHT_COUNT; kind++) {
        const Weight *weight = &layer->weights[kind];
        bool is_vector = kind == WEIGHT_b || kind == WEIGHT_rb || kind == WEIGHT_p;
        HostTensor tensor = {.name = weight->name,
                             .role = RNNC_ROLE_WEIGHT,
                             .ndim = is_vector ? 1 : 2,
                             .dims = {weight->rows, is_vector ? 0 : weight->columns},
                             .layer = index,
                             .kind = kind};
        if (weight->name)
            ARENA_PUSH(arena, tensors->items, tensors->count, tensor);
    }
}

HostTensors host_tensors(Arena *arena, const Model *model)
{
    HostTensors tensors = {0};
    add_ends(arena, model, &tensors);
    for (int i = 0; i < model->layer_count; i++)
        add_layer(arena, model, i, &tensors);
    return tensors;
}

int host_tensor_find(const HostTensors *tensors, rnnc_role role, int layer, int kind)
{
    for (int i = 0; i < tensors->count; i++) {
        const HostTensor *tensor = &tensors->items[i];
        if (tensor->role == role && tensor->layer == layer && tensor->kind == kind)
            return i;
    }
    return -1;
}
