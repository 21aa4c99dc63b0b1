// Runner: one session, its device buffers, and one run from host memory to host memory.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/check.h"

/// Device memory for all tensors, sized for the session's largest batch and time.
static bool allocate_buffers(Runner *runner, int64_t batch, int64_t timesteps)
{
    const Network *network = runner->network;
    const int64_t features = network_tokens(network) ? 1 : network->inputs;
    const size_t x_bytes = (size_t)(batch * timesteps * features) * sizeof(float);
    const size_t y_bytes = (size_t)network_output_count(network, batch, timesteps) * sizeof(float);
    bool ok = rnnc_device_alloc(runner->session, x_bytes, &runner->x) == RNNC_OK &&
              rnnc_device_alloc(runner->session, y_bytes, &runner->y) == RNNC_OK;
    for (int s = 0; ok && s < network->state_count; s++)
        ok = rnnc_device_alloc(runner->session,
                               (size_t)(batch * network->states[s].size) * sizeof(float),
                               &runner->states[s]) == RNNC_OK;
    return ok;
}

rnnc_status runner_open(Runner *runner, const Network *network, const char *module_path,
                        const rnnc_session_options *options, char error[200])
{
    *runner = (Runner){.network = network, .cuda = strncmp(options->device, "cuda", 4) == 0};
    rnnc_status status = rnnc_module_open(module_path, &runner->module);
    if (status == RNNC_OK)
        status = rnnc_session_create(runner->module, options, &runner->session);
    if (status != RNNC_OK) {
        snprintf(error, 200, "%s", rnnc_last_error());
    } else if (!allocate_buffers(runner, options->max_batch, options->max_timesteps)) {
        snprintf(error, 200, "%s", rnnc_session_error(runner->session));
        status = RNNC_OUT_OF_MEMORY;
    }
    if (status != RNNC_OK)
        runner_close(runner);
    return status;
}

void runner_close(Runner *runner)
{
    if (runner->session) {
        for (int s = 0; s < NETWORK_STATES_MAX; s++)
            rnnc_device_free(runner->session, runner->states[s]);
        rnnc_device_free(runner->session, runner->x);
        rnnc_device_free(runner->session, runner->y);
        rnnc_session_destroy(runner->session);
    }
    rnnc_module_close(runner->module);
    *runner = (Runner){0};
}

static rnnc_status bind(Runner *runner, const char *name, void *data, bool integers, int ndim,
                        int64_t *shape)
{
    DLTensor tensor = {
        .data = data,
        .device = {runner->cuda ? kDLCUDA : kDLCPU, 0},
        .ndim = ndim,
        .dtype = {(uint8_t)(integers ? kDLInt : kDLFloat), 32, 1},
        .shape = shape,
    };
    return rnnc_bind(runner->session, name, &tensor);
}

static rnnc_status bind_all(Runner *runner, int64_t batch, int64_t timesteps, float *const *initial)
{
    const Network *network = runner->network;
    const bool tokens = network_tokens(network);
    int64_t x_shape[] = {batch, timesteps, network->inputs};
    int64_t y_shape[] = {batch, network->sequences ? timesteps : network_outputs(network),
                         network_outputs(network)};
    rnnc_status status = bind(runner, "x", runner->x, tokens, tokens ? 2 : 3, x_shape);
    if (status == RNNC_OK)
        status = bind(runner, "y", runner->y, false, network->sequences ? 3 : 2, y_shape);
    for (int s = 0; status == RNNC_OK && s < network->state_count; s++) {
        int64_t shape[] = {batch, network->states[s].size};
        const char *name = network->states[s].name;
        if (initial && initial[s])
            status = bind(runner, name, runner->states[s], false, 2, shape);
        else
            status = rnnc_bind(runner->session, name, NULL);
    }
    return status;
}

/// Fills device memory with NaN, so that what a run leaves out is seen.
static rnnc_status poison(Runner *runner, void *memory, float *host, size_t count)
{
    for (size_t k = 0; k < count; k++)
        host[k] = NAN;
    return rnnc_device_write(runner->session, memory, host, count * sizeof(float));
}

static rnnc_status read_states(Runner *runner, int64_t batch, float *const *initial,
                               float *const *final)
{
    const Network *network = runner->network;
    rnnc_status status = RNNC_OK;
    for (int s = 0; status == RNNC_OK && s < network->state_count; s++) {
        const size_t count = (size_t)(batch * network->states[s].size);
        if (initial && initial[s])
            status = rnnc_device_read(runner->session, final[s], runner->states[s],
                                      count * sizeof(float));
        else
            status = rnnc_state_get(runner->session, network->states[s].name, final[s], count);
    }
    return status;
}

bool runner_run(Runner *runner, int64_t batch, int64_t timesteps, const void *x, size_t x_bytes,
                float *const *initial, float *y, float *const *final, char error[200])
{
    const Network *network = runner->network;
    rnnc_session *session = runner->session;
    const size_t y_count = (size_t)network_output_count(network, batch, timesteps);
    rnnc_status status = bind_all(runner, batch, timesteps, initial);
    if (status == RNNC_OK)
        status = rnnc_device_write(session, runner->x, x, x_bytes);
    if (status == RNNC_OK)
        status = poison(runner, runner->y, y, y_count);
    for (int s = 0; status == RNNC_OK && s < network->state_count; s++) {
        const size_t count = (size_t)(batch * network->states[s].size);
        status = poison(runner, runner->states[s], final[s], count);
        if (status == RNNC_OK && initial && initial[s])
            status =
                rnnc_device_write(session, runner->states[s], initial[s], count * sizeof(float));
    }
    if (status == RNNC_OK)
        status = rnnc_run(session);
    if (status == RNNC_OK)
        status = rnnc_synchronize(session);
    if (status == RNNC_OK)
        status = rnnc_device_read(session, y, runner->y, y_count * sizeof(float));
    if (status == RNNC_OK)
        status = read_states(runner, batch, initial, final);
    if (status != RNNC_OK)
        snprintf(error, 200, "%s", rnnc_session_error(session));
    return status == RNNC_OK;
}
