// Ports: chunks of batch-major and time-major arrays. A chunk has the layout of the whole:
//
//     [B, T, ..]   each row's steps lie together: one piece a row
//     [T, B, ..]   each step's rows lie together: one piece in all
#include "cli/module_ports.h"

#include <inttypes.h>
#include <string.h>

Port port_make(const rnnc_module *module, size_t index)
{
    Port port = {.info = rnnc_module_tensor(module, index)};
    rnnc_module_tensor_axes(module, index, &port.batch_axis, &port.time_axis);
    return port;
}

void port_size(Port *port, int64_t batch, int64_t timesteps)
{
    port->inner_bytes = (size_t)(port->info->dtype.bits * port->info->dtype.lanes + 7) / 8;
    for (int i = 0; i < port->info->ndim; i++) {
        port->dims[i] = i == port->batch_axis  ? batch
                        : i == port->time_axis ? timesteps
                                               : port->info->dims[i];
        if (i != port->batch_axis && i != port->time_axis)
            port->inner_bytes *= (size_t)port->dims[i];
    }
}

size_t port_bytes(const Port *port, int64_t timesteps)
{
    const size_t steps = port->time_axis < 0 ? 1 : (size_t)timesteps;
    return (size_t)port->dims[port->batch_axis] * steps * port->inner_bytes;
}

void port_shape(const Port *port, int64_t timesteps, int64_t shape[4])
{
    memcpy(shape, port->dims, sizeof port->dims);
    if (port->time_axis >= 0)
        shape[port->time_axis] = timesteps;
}

unsigned char *port_at(const Port *port, int64_t row, int64_t step)
{
    const int64_t batch = port->dims[port->batch_axis];
    const int64_t steps = port->time_axis < 0 ? 1 : port->dims[port->time_axis];
    const int64_t at = port->time_axis == 0 ? step * batch + row
                       : steps == 1         ? row
                                            : row * steps + step;
    return port->host + (size_t)at * port->inner_bytes;
}

void port_copy(const Port *port, unsigned char *chunk, int64_t first, int64_t timesteps,
               bool into_chunk)
{
    const int64_t pieces = port->time_axis == 0 ? 1 : port->dims[port->batch_axis];
    const size_t bytes = port_bytes(port, timesteps) / (size_t)pieces;
    for (int64_t row = 0; row < pieces; row++) {
        unsigned char *whole = port_at(port, row, first), *part = chunk + (size_t)row * bytes;
        memcpy(into_chunk ? part : whole, into_chunk ? whole : part, bytes);
    }
}

const char *port_shape_text(Arena *arena, const rnnc_tensor_info *info)
{
    Text text = {.arena = arena};
    for (int i = 0; i < info->ndim; i++) {
        const char *comma = i ? ", " : "[";
        if (info->dims[i] == RNNC_DIM_BATCH || info->dims[i] == RNNC_DIM_TIME)
            text_addf(&text, "%s%c", comma, info->dims[i] == RNNC_DIM_BATCH ? 'B' : 'T');
        else
            text_addf(&text, "%s%" PRId64, comma, info->dims[i]);
    }
    text_add(&text, "]");
    return text_string(&text);
}
