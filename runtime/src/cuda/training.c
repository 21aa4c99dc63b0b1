/* Training on a device: see training.h. */
#include "training.h"

#include <string.h>

#include "../layer.h"
#include "../memory.h"

enum { OUT_OF_MEMORY = 2 };

rnnc_status rnnc_cuda_training_open(const rnnc_cuda_training_options *options,
                                    rnnc_cuda_training *training)
{
    const rnnc_device_options *device = options->device;
    const int64_t steps = device->max_batch * device->max_timesteps;
    const rnnc_cuda_blas_options blas = {.cuda = options->cuda,
                                         .stream = options->stream,
                                         .precision = (rnnc_precision)device->module->precision,
                                         .max_rows = device->training ? steps : 0,
                                         .error = device->error};
    const rnnc_cuda_moves_options moves = {.cuda = options->cuda,
                                           .stream = options->stream,
                                           .module = device->module,
                                           .image = options->image,
                                           .fault = rnnc_cuda_sequence_record(options->sequence),
                                           .error = device->error};
    training->options = *options;
    rnnc_status status = rnnc_cuda_blas_open(&blas, &training->blas);
    if (status == RNNC_OK)
        status = rnnc_cuda_moves_open(&moves, &training->moves);
    if (status == RNNC_OK && device->training)
        status = rnnc_cuda_cross_entropy_open(&moves, steps, &training->loss);
    return status;
}

void rnnc_cuda_training_close(rnnc_cuda_training *training)
{
    if (training->folded)
        training->options.cuda->cuMemFree(training->folded);
    if (training->loss.losses)
        rnnc_cuda_cross_entropy_close(&training->loss);
    rnnc_cuda_moves_close(training->moves);
    rnnc_cuda_blas_close(training->blas);
    memset(training, 0, sizeof *training);
}

rnnc_status rnnc_cuda_training_set_masking(rnnc_cuda_training *training, rnnc_masking masking)
{
    const rnnc_device_options *device = training->options.device; // NULL: it was not opened
    const bool trains = device && device->training;
    const bool repeats =
        trains &&
        (masking == RNNC_MASKING_MASK ||
         (masking == RNNC_MASKING_NONE && rnnc_module_self_masking(device->module) != NULL));
    int64_t widest = 1;
    if (!repeats || training->folded)
        return RNNC_OK;
    for (int32_t i = 0; i < device->module->layer_count; i++) {
        const rnnc_layer_desc *layer = &device->module->layers[i];
        if (layer->kind == RNNC_LAYER_CELL && layer->outputs > widest)
            widest = layer->outputs;
    }
    const CUresult result = training->options.cuda->cuMemAlloc(
        &training->folded,
        rnnc_memory_float_bytes(device->max_batch, device->max_timesteps, widest));
    if (!result)
        return RNNC_OK;
    training->folded = 0;
    return rnnc_error_set(device->error,
                          result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
                          "no device memory for the gradients of masked steps");
}

/// Gives what masked steps repeat to the steps that made it.
static rnnc_status fold(const rnnc_cuda_training *training, rnnc_backward_call *call)
{
    const rnnc_layer_desc *layer = &training->options.device->module->layers[call->forward.layer];
    float *folded = (float *)training->folded;
    const rnnc_status status = rnnc_cuda_fold(
        training->moves, rnnc_cuda_steps_of(training->moves, &call->forward, layer->outputs),
        call->forward.layer, rnnc_cuda_dy_of(call), folded);
    call->dy = folded;
    call->dy_step_stride = layer->outputs;
    call->dy_row_stride = layer->outputs * (layer->sequence_out ? call->forward.timesteps : 1);
    return status;
}

rnnc_status rnnc_cuda_training_backward(const rnnc_cuda_training *training,
                                        const rnnc_cuda_variant *row, void *state,
                                        const rnnc_backward_call *call)
{
    rnnc_backward_call of = *call;
    rnnc_status status = RNNC_OK;
    of.finds_nan = training->finds_nan;
    rnnc_cuda_sequence_again(training->options.sequence, &of.forward);
    if (rnnc_cuda_sequence_repeats(training->options.sequence, &of.forward))
        status = fold(training, &of);
    if (status != RNNC_OK)
        return status;
    return row ? row->backward(state, &of) : rnnc_cuda_moves_backward(training->moves, &of);
}
