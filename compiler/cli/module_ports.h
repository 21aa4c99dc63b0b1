// Ports: the inputs, outputs and masks of a run as whole arrays on the host and, chunk of time
// steps by chunk, on the device. Knows layouts, not where arrays come from.
#ifndef RNNC_CLI_MODULE_PORTS_H
#define RNNC_CLI_MODULE_PORTS_H

#include "base/text.h"
#include "rnnc/rnnc.h"

/// One tensor with its whole array.
typedef struct {
    const rnnc_tensor_info *info;
    int32_t batch_axis, time_axis; ///< -1: none
    int64_t dims[4];               ///< of the whole array
    size_t inner_bytes;            ///< of one row's one time step
    unsigned char *host;           ///< row-major; NULL: not given
    void *device;                  ///< room for one chunk
} Port;

/// The port of the module's tensor `index`, without arrays.
Port port_make(const rnnc_module *module, size_t index);

/// Fills dims from B and T, and the size of a step.
void port_size(Port *port, int64_t batch, int64_t timesteps);

/// Bytes, and shape, of `timesteps` steps of all rows; of all rows where there is no time.
size_t port_bytes(const Port *port, int64_t timesteps);
void port_shape(const Port *port, int64_t timesteps, int64_t shape[4]);

/// Where one step of one row lies in the whole array; step 0 where there is no time.
unsigned char *port_at(const Port *port, int64_t row, int64_t step);

/// Copies the steps [first, first + timesteps) of all rows between the whole array and a contiguous
/// chunk of the same layout.
void port_copy(const Port *port, unsigned char *chunk, int64_t first, int64_t timesteps,
               bool into_chunk);

/// "[B, T, 8]", in the arena.
const char *port_shape_text(Arena *arena, const rnnc_tensor_info *info);

#endif
