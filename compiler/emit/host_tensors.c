// Tensors of a module: names and shapes as the runtime's public API shows them.
#include "emit/host_tensors.h"

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

/// B and T as the module's dimensions, in the order of x and y.
static void set_steps(const Model *model, int64_t dims[2])
{
    const int64_t B = dim_or(model->batch, RNNC_DIM_BATCH);
    const int64_t T = dim_or(model->timesteps, RNNC_DIM_TIME);
    dims[0] = model->time_major ? T : B;
    dims[1] = model->time_major ? B : T;
}

static void add_input(Arena *arena, const Model *model, HostTensors *tensors)
{
    HostTensor x = {.name = "x",
                    .role = RNNC_ROLE_INPUT,
                    .dtype = model->tokens ? HOST_INT32 : HOST_FLOAT32,
                    .ndim = model->tokens ? 2 : 3,
                    .layer = -1};
    set_steps(model, x.dims);
    if (!model->tokens)
        x.dims[2] = model->features;
    ARENA_PUSH(arena, tensors->items, tensors->count, x);
}

/// The output that lies in `slot`, where a layer writes one.
static void add_output(Arena *arena, const Model *model, int slot, const char *name,
                       HostTensors *tensors)
{
    int writer = model->layer_count - 1;
    while (writer >= 0 && model->layers[writer].out.slot != slot)
        writer--;
    if (writer < 0)
        return;
    const Layer *layer = &model->layers[writer];
    HostTensor y = {.name = name, .role = RNNC_ROLE_OUTPUT, .ndim = 2, .layer = -1};
    set_steps(model, y.dims);
    if (layer->sequence_out)
        y.ndim = 3;
    else
        y.dims[0] = dim_or(model->batch, RNNC_DIM_BATCH);
    y.dims[y.ndim - 1] = layer->out.width;
    ARENA_PUSH(arena, tensors->items, tensors->count, y);
}

static void add_ends(Arena *arena, const Model *model, HostTensors *tensors)
{
    bool is_recurrent = false, has_backward = false;
    for (int i = 0; i < model->layer_count; i++) {
        is_recurrent |= model->layers[i].kind == LAYER_CELL;
        has_backward |= model->layers[i].out.slot == SLOT_Y_BACKWARD;
    }
    add_input(arena, model, tensors);
    add_output(arena, model, SLOT_Y, has_backward ? "y/fw" : "y", tensors);
    add_output(arena, model, SLOT_Y_BACKWARD, "y/bw", tensors);
    if (!is_recurrent)
        return;
    const int64_t B = dim_or(model->batch, RNNC_DIM_BATCH);
    const int64_t T = dim_or(model->timesteps, RNNC_DIM_TIME);
    HostTensor lengths = {.name = "lengths",
                          .role = RNNC_ROLE_MASK,
                          .dtype = HOST_INT32,
                          .ndim = 1,
                          .dims = {B},
                          .layer = -1};
    HostTensor mask = {.name = "mask",
                       .role = RNNC_ROLE_MASK,
                       .dtype = HOST_UINT8,
                       .ndim = 2,
                       .dims = {B, T},
                       .layer = -1};
    ARENA_PUSH(arena, tensors->items, tensors->count, lengths);
    ARENA_PUSH(arena, tensors->items, tensors->count, mask);
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
