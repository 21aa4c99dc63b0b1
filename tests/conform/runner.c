// Runner: one session, its device buffers, and one run from host memory to host memory. Tensors are
// batch-major here; for the module they are laid out as the network says (time-major) and the run
// asks (gaps between rows and steps).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/check.h"

/// Gaps of a strided run, in elements: behind the features of a step, behind an outer row.
enum { STEP_GAP = 3, ROW_GAP = 5 };

/// How a [B, T, features] tensor lies in memory. Without steps ([B, features]) timesteps is 1.
typedef struct {
    int64_t batch, timesteps, features, row_stride, step_stride, elems;
    bool time_major, has_steps;
} Layout;

static Layout layout_make(const Runner *runner, int64_t batch, int64_t timesteps, int64_t features,
                          bool has_steps, bool strided)
{
    Layout layout = {.batch = batch, .timesteps = has_steps ? timesteps : 1, .features = features};
    layout.has_steps = has_steps;
    layout.time_major = runner->network->time_major && has_steps;
    const int64_t inner = features + (strided ? STEP_GAP : 0);
    const int64_t within = layout.time_major ? batch : layout.timesteps;
    const int64_t outer = within * inner + (strided ? ROW_GAP : 0);
    layout.row_stride = layout.time_major ? inner : outer;
    layout.step_stride = layout.time_major ? outer : inner;
    layout.elems = (layout.time_major ? layout.timesteps : batch) * outer;
    return layout;
}

static int64_t layout_at(const Layout *layout, int64_t index)
{
    const int64_t k = index % layout->features, step = index / layout->features;
    return step / layout->timesteps * layout->row_stride +
           step % layout->timesteps * layout->step_stride + k;
}

static Layout layout_of_x(const Runner *runner, int64_t batch, int64_t timesteps, bool strided)
{
    const bool tokens = network_tokens(runner->network);
    return layout_make(runner, batch, timesteps, tokens ? 1 : runner->network->inputs, true,
                       strided);
}

static Layout layout_of_y(const Runner *runner, int output, int64_t batch, int64_t timesteps,
                          bool strided)
{
    return layout_make(runner, batch, timesteps, network_output_width(runner->network, output),
                       runner->network->sequences, strided);
}

/// Device memory for all tensors, sized for the session's largest batch and time.
static bool allocate_buffers(Runner *runner, int64_t batch, int64_t timesteps)
{
    const Network *network = runner->network;
    const Layout x = layout_of_x(runner, batch, timesteps, true);
    const size_t mask_bytes = (size_t)(batch * (timesteps + ROW_GAP));
    size_t most = (size_t)x.elems * sizeof(float) + mask_bytes;
    bool ok = rnnc_device_alloc(runner->session, most, &runner->x) == RNNC_OK &&
              rnnc_device_alloc(runner->session, mask_bytes, &runner->mask) == RNNC_OK &&
              rnnc_device_alloc(runner->session, (size_t)batch * sizeof(int32_t),
                                &runner->lengths) == RNNC_OK;
    for (int k = 0; ok && k < network_output_count(network); k++) {
        const Layout y = layout_of_y(runner, k, batch, timesteps, true);
        const size_t bytes = (size_t)y.elems * sizeof(float);
        most = bytes > most ? bytes : most;
        ok = rnnc_device_alloc(runner->session, bytes, &runner->y[k]) == RNNC_OK;
    }
    for (int s = 0; ok && s < network->state_count; s++) {
        const size_t bytes = (size_t)(batch * network->states[s].size) * sizeof(float);
        most = bytes > most ? bytes : most;
        ok = rnnc_device_alloc(runner->session, bytes, &runner->states[s]) == RNNC_OK;
    }
    runner->host = malloc(most);
    return ok && runner->host;
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
        for (int k = 0; k < NETWORK_OUTPUTS_MAX; k++)
            rnnc_device_free(runner->session, runner->y[k]);
        rnnc_device_free(runner->session, runner->x);
        rnnc_device_free(runner->session, runner->mask);
        rnnc_device_free(runner->session, runner->lengths);
        rnnc_session_destroy(runner->session);
    }
    free(runner->host);
    rnnc_module_close(runner->module);
    *runner = (Runner){0};
}

static rnnc_status bind(Runner *runner, const char *name, void *data, DLDataType dtype, int ndim,
                        int64_t *shape, int64_t *strides)
{
    DLTensor tensor = {
        .data = data,
        .device = {runner->cuda ? kDLCUDA : kDLCPU, 0},
        .ndim = ndim,
        .dtype = dtype,
        .shape = shape,
        .strides = strides,
    };
    return rnnc_bind(runner->session, name, &tensor);
}

/// Tokens have no axis of features.
static rnnc_status bind_layout(Runner *runner, const char *name, void *data, bool tokens,
                               const Layout *layout, bool strided)
{
    const bool swapped = layout->time_major;
    int64_t shape[] = {swapped ? layout->timesteps : layout->batch,
                       swapped ? layout->batch : layout->timesteps, layout->features};
    int64_t strides[] = {swapped ? layout->step_stride : layout->row_stride,
                         swapped ? layout->row_stride : layout->step_stride, 1};
    if (!layout->has_steps) {
        shape[1] = layout->features;
        strides[1] = 1;
    }
    const DLDataType dtype = {(uint8_t)(tokens ? kDLInt : kDLFloat), 32, 1};
    return bind(runner, name, data, dtype, tokens || !layout->has_steps ? 2 : 3, shape,
                strided ? strides : NULL);
}

/// Bytes from row to row of the mask.
static int64_t mask_stride(const RunnerInput *input)
{
    return input->timesteps + (input->strided ? ROW_GAP : 0);
}

/// A run takes one of the two: the other goes first.
static rnnc_status bind_masks(Runner *runner, const RunnerInput *input)
{
    int64_t shape[] = {input->batch, input->timesteps}, strides[] = {mask_stride(input), 1};
    rnnc_status status = RNNC_OK;
    if (!input->mask)
        status = rnnc_bind(runner->session, "mask", NULL);
    if (status == RNNC_OK && !input->lengths)
        status = rnnc_bind(runner->session, "lengths", NULL);
    if (status == RNNC_OK && input->mask)
        status = bind(runner, "mask", runner->mask, (DLDataType){kDLUInt, 8, 1}, 2, shape,
                      input->strided ? strides : NULL);
    if (status == RNNC_OK && input->lengths)
        status =
            bind(runner, "lengths", runner->lengths, (DLDataType){kDLInt, 32, 1}, 1, shape, NULL);
    return status;
}

/// Gaps between the rows hold what no mask does.
static rnnc_status write_mask(Runner *runner, const RunnerInput *input)
{
    const int64_t stride = mask_stride(input), bytes = input->batch * stride;
    unsigned char *host = runner->host;
    memset(host, 0xff, (size_t)bytes);
    for (int64_t row = 0; row < input->batch; row++)
        memcpy(host + row * stride, input->mask + row * input->timesteps, (size_t)input->timesteps);
    return rnnc_device_write(runner->session, runner->mask, host, (size_t)bytes);
}

static rnnc_status bind_all(Runner *runner, const RunnerInput *input)
{
    const Network *network = runner->network;
    const bool tokens = network_tokens(network);
    const Layout x = layout_of_x(runner, input->batch, input->timesteps, input->strided);
    rnnc_status status = bind_layout(runner, "x", runner->x, tokens, &x, input->strided);
    for (int k = 0; status == RNNC_OK && k < network_output_count(network); k++) {
        const Layout y = layout_of_y(runner, k, input->batch, input->timesteps, input->strided);
        status = bind_layout(runner, network_output_name(network, k), runner->y[k], false, &y,
                             input->strided);
    }
    if (status == RNNC_OK)
        status = bind_masks(runner, input);
    for (int s = 0; status == RNNC_OK && s < network->state_count; s++) {
        int64_t shape[] = {input->batch, network->states[s].size};
        const char *name = network->states[s].name;
        if (input->initial && input->initial[s])
            status = bind(runner, name, runner->states[s], (DLDataType){kDLFloat, 32, 1}, 2, shape,
                          NULL);
        else
            status = rnnc_bind(runner->session, name, NULL);
    }
    return status;
}

/// Copies values of 4 bytes into the device's layout; gaps are NaN.
static rnnc_status write_layout(Runner *runner, void *memory, const Layout *layout,
                                const void *values)
{
    float *host = runner->host;
    for (int64_t k = 0; k < layout->elems; k++)
        host[k] = NAN;
    for (int64_t k = 0; values && k < layout->batch * layout->timesteps * layout->features; k++)
        memcpy(&host[layout_at(layout, k)], (const char *)values + k * 4, 4);
    return rnnc_device_write(runner->session, memory, host, (size_t)layout->elems * sizeof *host);
}

/// Copies them back; that the run left the gaps alone is checked too.
static rnnc_status read_layout(Runner *runner, void *memory, const Layout *layout, float *out)
{
    float *host = runner->host;
    const rnnc_status status =
        rnnc_device_read(runner->session, host, memory, (size_t)layout->elems * sizeof *host);
    const int64_t count = layout->batch * layout->timesteps * layout->features;
    for (int64_t k = 0; status == RNNC_OK && k < count; k++) {
        out[k] = host[layout_at(layout, k)];
        host[layout_at(layout, k)] = NAN;
    }
    for (int64_t k = 0; status == RNNC_OK && k < layout->elems; k++)
        if (!isnan(host[k]))
            out[0] = INFINITY;
    return status;
}

static rnnc_status write_inputs(Runner *runner, const RunnerInput *input, float *const *final)
{
    const Network *network = runner->network;
    rnnc_session *session = runner->session;
    const Layout x = layout_of_x(runner, input->batch, input->timesteps, input->strided);
    rnnc_status status = write_layout(runner, runner->x, &x, input->x);
    for (int k = 0; status == RNNC_OK && k < network_output_count(network); k++) {
        const Layout y = layout_of_y(runner, k, input->batch, input->timesteps, input->strided);
        status = write_layout(runner, runner->y[k], &y, NULL);
    }
    if (status == RNNC_OK && input->mask)
        status = write_mask(runner, input);
    if (status == RNNC_OK && input->lengths)
        status = rnnc_device_write(session, runner->lengths, input->lengths,
                                   (size_t)input->batch * sizeof(int32_t));
    for (int s = 0; status == RNNC_OK && s < network->state_count; s++) {
        const size_t count = (size_t)(input->batch * network->states[s].size);
        for (size_t k = 0; k < count; k++)
            final[s][k] = NAN;
        if (input->initial && input->initial[s])
            status = rnnc_device_write(session, runner->states[s], input->initial[s],
                                       count * sizeof(float));
    }
    return status;
}

static rnnc_status read_outputs(Runner *runner, const RunnerInput *input, float *const *y,
                                float *const *final)
{
    const Network *network = runner->network;
    rnnc_status status = RNNC_OK;
    for (int k = 0; status == RNNC_OK && k < network_output_count(network); k++) {
        const Layout layout =
            layout_of_y(runner, k, input->batch, input->timesteps, input->strided);
        status = read_layout(runner, runner->y[k], &layout, y[k]);
    }
    for (int s = 0; status == RNNC_OK && s < network->state_count; s++) {
        const size_t count = (size_t)(input->batch * network->states[s].size);
        if (input->initial && input->initial[s])
            status = rnnc_device_read(runner->session, final[s], runner->states[s],
                                      count * sizeof(float));
        else
            status = rnnc_state_get(runner->session, network->states[s].name, final[s], count);
    }
    return status;
}

rnnc_status runner_run(Runner *runner, const RunnerInput *input, float *const *y,
                       float *const *final, char error[200])
{
    rnnc_status status = bind_all(runner, input);
    if (status == RNNC_OK && !input->carries)
        status = rnnc_state_reset(runner->session);
    if (status == RNNC_OK)
        status = rnnc_set_seed(runner->session, input->seed);
    if (status == RNNC_OK)
        status = write_inputs(runner, input, final);
    if (status == RNNC_OK)
        status = rnnc_run(runner->session);
    if (status == RNNC_OK)
        status = rnnc_synchronize(runner->session);
    if (status == RNNC_OK)
        status = read_outputs(runner, input, y, final);
    if (status != RNNC_OK)
        snprintf(error, 200, "%s", rnnc_session_error(runner->session));
    return status;
}
