/* Text generation in one launch, host side (templates/cuda/generate.cu): the weights of all layers
 * packed for its groups of CTAs, the embedding times W as a table, and the launch, whose tokens
 * come through pinned memory while it runs. The device's context is current in every call. */
#ifndef RNNC_CUDA_GENERATOR_H
#define RNNC_CUDA_GENERATOR_H

#include "../device.h"
#include "driver.h"

typedef struct rnnc_cuda_generator rnnc_cuda_generator;

typedef struct {
    const rnnc_cuda_driver *cuda;
    CUstream stream;
    const rnnc_module_desc *module;
    const rnnc_generator_desc *desc; /* which refuses nothing */
    CUmodule image;
    CUdeviceptr fault; /* the record of rnnc_cuda_sequence_record */
    int64_t max_rows;
    rnnc_error *error;
} rnnc_cuda_generator_options;

/* RNNC_UNAVAILABLE where the GPU does not hold a group at once. On failure *out_generator is NULL.
 * NULL is allowed in close. */
rnnc_status rnnc_cuda_generator_open(const rnnc_cuda_generator_options *options,
                                     rnnc_cuda_generator **out_generator);
void rnnc_cuda_generator_close(rnnc_cuda_generator *generator);

/* Takes a layer's weights, canonical float32 in host memory, which stay until they are packed. */
rnnc_status rnnc_cuda_generator_set_weights(rnnc_cuda_generator *generator, int32_t layer,
                                            const float *const weights[RNNC_WEIGHT_COUNT]);
/* Packs those of all layers, once each has been given. Synchronises. */
rnnc_status rnnc_cuda_generator_pack(rnnc_cuda_generator *generator);

/* Draws the text; returns when all is delivered. */
rnnc_status rnnc_cuda_generator_run(rnnc_cuda_generator *generator,
                                    const rnnc_device_generation *generation);

#endif
