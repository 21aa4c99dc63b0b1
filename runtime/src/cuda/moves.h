/* Moves, host side: between a caller's arrays and the order of a layer's steps, the backward passes
 * of layers that have neither weights nor a row (dropout, masking, merge), and the search for
 * gradients that are no numbers. Kernels: templates/cuda/moves.cuh, in the image of sequence.cu.
 * All go on the session's stream; nothing but open allocates or synchronises. */
#ifndef RNNC_CUDA_MOVES_H
#define RNNC_CUDA_MOVES_H

#include "../device.h"
#include "driver.h"

typedef struct rnnc_cuda_moves rnnc_cuda_moves;

typedef struct {
    const rnnc_cuda_driver *cuda;
    CUstream stream;
    const rnnc_module_desc *module;
    CUmodule image;
    CUdeviceptr fault; /* the record of rnnc_cuda_sequence_record */
    rnnc_error *error;
} rnnc_cuda_moves_options;

/* RnnSteps and RnnArray of the kernels. */
typedef struct {
    const int32_t *order;
    const rnnc_row *rows;
    long long batch, timesteps, width;
    int reversed;
} rnnc_cuda_steps;
typedef struct {
    float *at;
    long long row_stride, step_stride;
} rnnc_cuda_array;

/* On failure *out_moves is NULL, which close takes. */
rnnc_status rnnc_cuda_moves_open(const rnnc_cuda_moves_options *options,
                                 rnnc_cuda_moves **out_moves);
void rnnc_cuda_moves_close(rnnc_cuda_moves *moves);

/* The steps of a layer's run, `width` features each. */
rnnc_cuda_steps rnnc_cuda_steps_of(const rnnc_cuda_moves *moves, const rnnc_layer_call *call,
                                   int64_t width);

/* x and dy of a run as arrays, and dx. */
rnnc_cuda_array rnnc_cuda_x_of(const rnnc_layer_call *call);
rnnc_cuda_array rnnc_cuda_dy_of(const rnnc_backward_call *call);
rnnc_cuda_array rnnc_cuda_dx_of(const rnnc_backward_call *call);

/* to [T, B, width] by step and row = x, 0 where a row does not take the step; and back, where times
 * that no step takes become 0 unless it adds. */
rnnc_status rnnc_cuda_gather(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps, rnnc_cuda_array x,
                             float *to);
rnnc_status rnnc_cuda_scatter(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps,
                              const float *from, rnnc_cuda_array to, bool adds);

/* to = 0 at all times. */
rnnc_status rnnc_cuda_clear(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps,
                            rnnc_cuda_array to);

/* to = from * scale. */
rnnc_status rnnc_cuda_scale(const rnnc_cuda_moves *moves, const float *from, const float *scale,
                            float *to, int64_t count);

/* folded [B, T, width], or [B, width]: dy under a mask, with that of steps that repeat an output
 * added to the step that made it. */
rnnc_status rnnc_cuda_fold(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps, int layer,
                           rnnc_cuda_array dy, float *folded);

/* gradient [V, width] += dy by tokens [B, T] of the call. */
rnnc_status rnnc_cuda_add_tokens(const rnnc_cuda_moves *moves, const rnnc_backward_call *call,
                                 float *gradient);

/* Reports the first step of the backward pass with a value that is no number or infinite, to the
 * record of faults. */
rnnc_status rnnc_cuda_find_nan(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps, int layer,
                               rnnc_cuda_array values);

/* The backward pass of a layer of kind dropout, masking or merge. */
rnnc_status rnnc_cuda_moves_backward(const rnnc_cuda_moves *moves, const rnnc_backward_call *call);

#endif
