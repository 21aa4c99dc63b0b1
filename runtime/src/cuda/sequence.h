/* What surrounds a module's recurrences on the GPU: masks and lengths as an order of each row's
 * steps, the outputs that no step writes, dropout's draws, and the layers that are no more than
 * that (dropout, masking, merge). Kernels: templates/cuda/sequence.cu, one image a module. Values
 * of the caller's that cannot be (a length beyond T, a mask byte of 7, a token outside the
 * vocabulary) are found by the kernels and told by rnnc_cuda_sequence_fault, and so are waits of a
 * recurrence that have run out. Nothing here but open and set_masking allocates or synchronises. */
#ifndef RNNC_CUDA_SEQUENCE_H
#define RNNC_CUDA_SEQUENCE_H

#include <stdbool.h>

#include "../device.h"
#include "driver.h"

typedef struct rnnc_cuda_sequence rnnc_cuda_sequence;

typedef struct {
    const rnnc_cuda_driver *cuda;
    CUstream stream; /* the session's */
    const rnnc_module_desc *module;
    CUmodule image; /* NULL: the module needs nothing of this but the record of faults */
    int64_t max_batch, max_timesteps;
    bool training; /* the orders that layers ran by are kept */
    rnnc_error *error;
} rnnc_cuda_sequence_options;

/* On failure *out_sequence is NULL. NULL is allowed in close. */
rnnc_status rnnc_cuda_sequence_open(const rnnc_cuda_sequence_options *options,
                                    rnnc_cuda_sequence **out_sequence);
void rnnc_cuda_sequence_close(rnnc_cuda_sequence *sequence);

/* Memory for runs of this kind of masking: 9 bytes a step and row and direction at most. */
rnnc_status rnnc_cuda_sequence_set_masking(rnnc_cuda_sequence *sequence, rnnc_masking masking);

/* Whether layer `index` goes through its steps by an order in runs of this kind of masking, and
 * whether the module masks on its own. */
bool rnnc_cuda_sequence_is_masked(const rnnc_module_desc *module, int index, rnnc_masking masking);

/* Whether the layers that this run comes to next have masked steps. */
bool rnnc_cuda_sequence_masks(const rnnc_cuda_sequence *sequence);

/* Opens a run: the order of each row's steps. */
rnnc_status rnnc_cuda_sequence_begin(rnnc_cuda_sequence *sequence, const rnnc_run_inputs *inputs);

/* Before a layer: fills order, rows and recurrent_scale of a cell's call; checks an embedding's
 * tokens, and masks by them. On `stream`. */
rnnc_status rnnc_cuda_sequence_before(rnnc_cuda_sequence *sequence, rnnc_layer_call *call,
                                      CUstream stream);
/* Before the backward pass of a layer: the same as it was in its last run. */
void rnnc_cuda_sequence_again(const rnnc_cuda_sequence *sequence, rnnc_layer_call *call);
/* Whether masked steps of that run repeat outputs: it had a mask, not lengths. */
bool rnnc_cuda_sequence_repeats(const rnnc_cuda_sequence *sequence, const rnnc_layer_call *call);
/* After a cell layer: its outputs that no step has written. On `stream`. */
rnnc_status rnnc_cuda_sequence_after(rnnc_cuda_sequence *sequence, const rnnc_layer_call *call,
                                     CUstream stream);
/* After a layer, or two side by side: the mask ends where a cell returns no sequence. */
void rnnc_cuda_sequence_passed(rnnc_cuda_sequence *sequence, const rnnc_layer_call *call);

/* Runs a layer of kind dropout, masking or merge. */
rnnc_status rnnc_cuda_sequence_run(rnnc_cuda_sequence *sequence, const rnnc_layer_call *call);

/* The record of the first fault: int32 kind (0: none yet), row, step and value, which kernels write
 * and the host reads. */
CUdeviceptr rnnc_cuda_sequence_record(const rnnc_cuda_sequence *sequence);

/* The kind of a recurrence whose CTAs waited for each other in vain; `value` is its layer. */
enum { RNNC_CUDA_FAULT_STUCK = 4 };

/* Words for the first fault since the last call, once the stream has been waited for:
 * RNNC_INVALID_ARGUMENT for the caller's values, RNNC_NOT_FINITE for a gradient, RNNC_DEVICE_ERROR
 * for a wait that has run out.
 * RNNC_OK where there is none. */
rnnc_status rnnc_cuda_sequence_fault(rnnc_cuda_sequence *sequence);

#endif
