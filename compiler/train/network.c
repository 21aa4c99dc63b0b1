// Network: see network.h.
#include "train/network.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool fail(Network *network, rnnc_status status)
{
    const bool is_environment =
        status == RNNC_UNAVAILABLE || status == RNNC_DEVICE_ERROR || status == RNNC_OUT_OF_MEMORY;
    diag_add(network->diags, is_environment ? DIAG_E0806 : DIAG_E0805, (Span){0}, "%s",
             network->session ? rnnc_session_error(network->session) : rnnc_last_error());
    return false;
}

static bool good(Network *network, rnnc_status status)
{
    return status == RNNC_OK || fail(network, status);
}

static bool allocate(Network *network, int64_t elems, void **out)
{
    return good(network, rnnc_device_alloc(network->session, (size_t)elems * sizeof(float), out));
}

static DLDevice device_of(const Network *network)
{
    int ordinal = 0;
    const bool is_cuda = sscanf(rnnc_session_device(network->session), "cuda:%d", &ordinal) == 1;
    return (DLDevice){is_cuda ? kDLCUDA : kDLCPU, is_cuda ? ordinal : 0};
}

static bool bind(Network *network, const char *name, void *memory, const int64_t *dims,
                 int dim_count)
{
    int64_t shape[4];
    memcpy(shape, dims, (size_t)dim_count * sizeof *shape);
    const DLTensor tensor = {.data = memory,
                             .device = device_of(network),
                             .ndim = dim_count,
                             .dtype = {kDLFloat, 32, 1},
                             .shape = shape};
    return good(network, rnnc_bind(network->session, name, &tensor));
}

/// x or targets, which lie row by row in a time-major module too.
static bool bind_tokens(Network *network, const char *name, void *memory, bool time_major)
{
    const int64_t B = network->rows, T = network->timesteps;
    const DLDevice device = device_of(network);
    const DLTensor tensor = {.data = memory,
                             .device = device,
                             .ndim = 2,
                             .dtype = {kDLInt, 32, 1},
                             .shape = time_major ? (int64_t[]){T, B} : (int64_t[]){B, T},
                             .strides = time_major ? (int64_t[]){1, T} : (int64_t[]){T, 1}};
    return good(network, rnnc_bind(network->session, name, &tensor));
}

static const Weight *find_weight(const Model *model, const char *name)
{
    for (int i = 0; i < model->layer_count; i++)
        for (int kind = 0; kind < WEIGHT_COUNT; kind++) {
            const Weight *weight = &model->layers[i].weights[kind];
            if (weight->name && strcmp(weight->name, name) == 0)
                return weight;
        }
    return NULL;
}

static bool add_tensor(Network *network, const Model *model, const rnnc_tensor_info *info)
{
    NetworkTensor tensor = {.name = info->name, .dim_count = info->ndim, .elems = 1};
    for (int i = 0; i < info->ndim; i++) {
        tensor.dims[i] = info->dims[i] == RNNC_DIM_BATCH ? network->rows : info->dims[i];
        tensor.elems *= tensor.dims[i];
    }
    if (info->role == RNNC_ROLE_STATE) {
        if (!allocate(network, tensor.elems, &tensor.memory) ||
            !allocate(network, tensor.elems, &tensor.scoring))
            return false;
        ARENA_PUSH(network->arena, network->states, network->state_count, tensor);
        return true;
    }
    const Weight *weight = find_weight(model, info->name);
    tensor.offset = network->elems;
    network->elems += tensor.elems;
    float *initial = ARENA_ARRAY(network->arena, float, network->elems);
    if (network->initial)
        memcpy(initial, network->initial, (size_t)tensor.offset * sizeof *initial);
    memcpy(initial + tensor.offset, weight->data, (size_t)tensor.elems * sizeof *initial);
    network->initial = initial;
    if (!allocate(network, tensor.elems, &tensor.memory) ||
        !allocate(network, tensor.elems, &tensor.gradient))
        return false;
    ARENA_PUSH(network->arena, network->weights, network->weight_count, tensor);
    return bind(network, tensor.name, tensor.memory, tensor.dims, tensor.dim_count) &&
           bind(network, arena_format(network->arena, "grad/%s", tensor.name), tensor.gradient,
                tensor.dims, tensor.dim_count);
}

bool network_open(Network *network, const Model *model, const char *device)
{
    const rnnc_session_options options = {.device = device,
                                          .max_batch = network->rows,
                                          .max_timesteps = network->timesteps,
                                          .training = 1};
    const int64_t elems = network->rows * network->timesteps, one = 1;
    if (!good(network, rnnc_session_create(network->module, &options, &network->session)))
        return false;
    for (size_t i = 0; i < rnnc_module_tensor_count(network->module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(network->module, i);
        if ((info->role == RNNC_ROLE_STATE || info->role == RNNC_ROLE_WEIGHT) &&
            !add_tensor(network, model, info))
            return false;
    }
    network->inputs = ARENA_ARRAY(network->arena, int32_t, elems);
    network->targets = ARENA_ARRAY(network->arena, int32_t, elems);
    return allocate(network, elems, &network->device_inputs) &&
           allocate(network, elems, &network->device_targets) &&
           allocate(network, 1, &network->device_loss) &&
           bind_tokens(network, "x", network->device_inputs, model->time_major) &&
           bind_tokens(network, "targets", network->device_targets, model->time_major) &&
           bind(network, "loss", network->device_loss, &one, 1) &&
           network_use_states(network, false) && network_start(network);
}

void network_close(Network *network)
{
    rnnc_session *session = network->session;
    for (int i = 0; i < network->weight_count; i++) {
        rnnc_device_free(session, network->weights[i].memory);
        rnnc_device_free(session, network->weights[i].gradient);
    }
    for (int i = 0; i < network->state_count; i++) {
        rnnc_device_free(session, network->states[i].memory);
        rnnc_device_free(session, network->states[i].scoring);
    }
    rnnc_device_free(session, network->device_inputs);
    rnnc_device_free(session, network->device_targets);
    rnnc_device_free(session, network->device_loss);
    rnnc_session_destroy(session);
}

static bool write(Network *network, void *to, const void *from, int64_t elems)
{
    return good(network,
                rnnc_device_write(network->session, to, from, (size_t)elems * sizeof(float)));
}

static bool read(Network *network, void *to, const void *from, int64_t elems)
{
    return good(network,
                rnnc_device_read(network->session, to, from, (size_t)elems * sizeof(float)));
}

bool network_set_weights(Network *network, const float *weights)
{
    bool done = true;
    for (int i = 0; i < network->weight_count && done; i++)
        done = write(network, network->weights[i].memory, weights + network->weights[i].offset,
                     network->weights[i].elems);
    return done;
}

bool network_use_states(Network *network, bool scoring)
{
    bool done = true;
    for (int i = 0; i < network->state_count && done; i++) {
        const NetworkTensor *state = &network->states[i];
        done = bind(network, state->name, scoring ? state->scoring : state->memory, state->dims,
                    state->dim_count);
    }
    return done;
}

bool network_start(Network *network)
{
    return good(network, rnnc_state_reset(network->session));
}

int64_t network_state_elems(const Network *network)
{
    int64_t elems = 0;
    for (int i = 0; i < network->state_count; i++)
        elems += network->states[i].elems;
    return elems;
}

bool network_get_states(Network *network, float *out)
{
    bool done = true;
    for (int i = 0; i < network->state_count && done; out += network->states[i++].elems)
        done = read(network, out, network->states[i].memory, network->states[i].elems);
    return done;
}

bool network_set_states(Network *network, const float *values)
{
    bool done = true;
    for (int i = 0; i < network->state_count && done; values += network->states[i++].elems)
        done = write(network, network->states[i].memory, values, network->states[i].elems);
    return done;
}

/// The backward pass, waited for; a gradient that is no number is an error of its own.
static bool run_backward(Network *network, int64_t step, bool find_nan, float *gradient)
{
    const rnnc_backward_options options = {.find_nan = find_nan};
    rnnc_status status = rnnc_backward(network->session, &options);
    if (status == RNNC_OK)
        status = rnnc_synchronize(network->session);
    if (status == RNNC_NOT_FINITE) {
        diag_add(network->diags, DIAG_E0817, (Span){0}, "training step %" PRId64 ": %s", step,
                 rnnc_session_error(network->session));
        return false;
    }
    bool done = good(network, status);
    for (int i = 0; i < network->weight_count && done; i++)
        done = read(network, gradient + network->weights[i].offset, network->weights[i].gradient,
                    network->weights[i].elems);
    return done;
}

bool network_run(Network *network, uint64_t seed, int64_t step, bool find_nan, float *gradient,
                 double *out_loss)
{
    const int64_t elems = network->rows * network->timesteps;
    float loss = 0;
    bool done =
        write(network, network->device_inputs, network->inputs, elems) &&
        write(network, network->device_targets, network->targets, elems) &&
        good(network, rnnc_set_seed(network->session, seed)) &&
        good(network, gradient ? rnnc_forward(network->session) : rnnc_run(network->session)) &&
        (!gradient || run_backward(network, step, find_nan, gradient)) &&
        read(network, &loss, network->device_loss, 1);
    *out_loss = (double)loss;
    return done;
}
