/* Wavefront: the layers of a stack run at the same time, each on a stream of its own and one chunk
 * of steps behind the layer below:
 *
 *     session's stream   fork | layer 0: chunk 0 | chunk 1 | chunk 2 | ...              | join
 *     stream 1                           layer 1: chunk 0 | chunk 1 | ...
 *     stream 2                                     layer 2: chunk 0 | ...
 *
 * A layer's states pass from chunk to chunk in the memory that a whole run updates in place, so the
 * results are those of the layers one after the other, bit for bit. */
#ifndef RNNC_CUDA_WAVEFRONT_H
#define RNNC_CUDA_WAVEFRONT_H

#include "../device.h"
#include "driver.h"

typedef struct rnnc_cuda_wavefront rnnc_cuda_wavefront;

/* The streams and events for the deepest stack of the module; *out NULL: it has no stack, or not
 * more steps than a wavefront needs. */
rnnc_status rnnc_cuda_wavefront_open(const rnnc_cuda_driver *cuda,
                                     const rnnc_device_options *device, CUstream stream,
                                     rnnc_cuda_wavefront **out);
void rnnc_cuda_wavefront_close(rnnc_cuda_wavefront *wavefront);

/* Steps of a chunk for `count` layers of `timesteps` steps; 0: one layer after the other is
 * faster. */
int64_t rnnc_cuda_wavefront_chunk(int count, int64_t timesteps);

/* Runs all chunks of all calls: `run(context, part)` launches one on part->stream. The streams are
 * joined after a failure too, so that a capture of the session's stays whole. */
rnnc_status rnnc_cuda_wavefront_run(rnnc_cuda_wavefront *wavefront, const rnnc_module_desc *module,
                                    const rnnc_layer_call *calls, int count, int64_t chunk,
                                    rnnc_status (*run)(void *context, rnnc_layer_call *part),
                                    void *context);

#endif
