/* The device memory that generated variants share: see layer_weights.h. */
#include "layer_weights.h"

#include "launch.h"

#include <string.h>

enum { OUT_OF_MEMORY = 2 };

static rnnc_precision precision_of(const rnnc_layer_weights *weights)
{
    return (rnnc_precision)weights->options.module->precision;
}

int64_t rnnc_layer_weights_operand_bytes(const rnnc_layer_weights *weights)
{
    const rnnc_precision precision = precision_of(weights);
    return precision == RNNC_BFLOAT16 || precision == RNNC_FLOAT16 ? 2 : 4;
}

int64_t rnnc_layer_weights_padded(const rnnc_layer_weights *weights, int64_t count)
{
    return rnnc_cuda_padded(precision_of(weights), count);
}

rnnc_status rnnc_layer_weights_check(const rnnc_layer_weights *weights, CUresult result,
                                     const char *doing)
{
    const rnnc_cuda_layer_options *options = &weights->options;
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    options->cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(
        options->error, result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
        "layer %s, %s: %s", options->layer->name, doing, words ? words : "unknown error");
}

rnnc_status rnnc_layer_weights_alloc(const rnnc_layer_weights *weights, int64_t bytes,
                                     CUdeviceptr *to)
{
    *to = 0;
    if (bytes == 0)
        return RNNC_OK;
    CUresult result = weights->options.cuda->cuMemAlloc(to, (size_t)bytes);
    if (!result)
        result =
            weights->options.cuda->cuMemsetD8Async(*to, 0, (size_t)bytes, weights->options.stream);
    return rnnc_layer_weights_check(weights, result, "allocating device memory");
}

rnnc_status rnnc_layer_weights_upload(const rnnc_layer_weights *weights, const float *from,
                                      int64_t count, CUdeviceptr *to)
{
    const int64_t bytes = count * (int64_t)sizeof(float);
    rnnc_status status = *to ? RNNC_OK : rnnc_layer_weights_alloc(weights, bytes, to);
    if (status != RNNC_OK || bytes == 0)
        return status;
    const rnnc_cuda_layer_options *options = &weights->options;
    return rnnc_layer_weights_check(
        weights, rnnc_cuda_write(options->cuda, options->stream, *to, from, (size_t)bytes),
        "copying weights");
}

rnnc_status rnnc_layer_weights_convert(const rnnc_layer_weights *weights, CUdeviceptr from,
                                       CUdeviceptr scale, CUdeviceptr to, int64_t rows,
                                       int64_t columns, int64_t block)
{
    return rnnc_layer_weights_check(
        weights,
        rnnc_cuda_convert(weights->options.cuda, weights->options.stream, weights->product.convert,
                          from, scale, to, rows, columns, block),
        "converting operands");
}

rnnc_status rnnc_layer_weights_open(const rnnc_cuda_layer_options *options,
                                    rnnc_layer_weights *weights)
{
    const rnnc_layer_desc *layer = options->layer;
    const int64_t columns = layer->input_gates * layer->units;
    const int64_t rows = options->max_batch * options->max_timesteps;
    *weights = (rnnc_layer_weights){.options = *options, .input_stride = (columns + 3) / 4 * 4};
    weights->product = (rnnc_cuda_product){.cuda = options->cuda,
                                           .stream = options->stream,
                                           .precision = precision_of(weights),
                                           .depth = layer->inputs,
                                           .columns = columns};
    rnnc_status status =
        rnnc_layer_weights_check(weights,
                                 rnnc_cuda_product_open(&weights->product, options->layer_image,
                                                        "rnn_input", "rnn_input_few", rows),
                                 "preparing the input product");
    if (status == RNNC_OK)
        status = rnnc_layer_weights_alloc(
            weights, rows * weights->input_stride * (int64_t)sizeof(float), &weights->input);
    return status;
}

void rnnc_layer_weights_begin_early(rnnc_layer_weights *weights, CUfunction run)
{
    const rnnc_cuda_driver *cuda = weights->options.cuda;
    const rnnc_variant_desc *variant = weights->options.variant;
    int ctas = 0;
    // Without a product, what is in front on the stream may be what the recurrence starts from.
    // While W*x has most of the SMs, CTAs of which two fit an SM would share the few that are free.
    weights->begins_early = weights->product.columns > 0 && rnnc_cuda_waits(cuda, run) &&
                            !cuda->cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                &ctas, run, variant->threads, (size_t)variant->shared_bytes) &&
                            ctas == 1;
}

void rnnc_layer_weights_close(rnnc_layer_weights *weights)
{
    const CUdeviceptr memories[] = {weights->input, weights->bias, weights->recurrent_bias,
                                    weights->parameter};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            weights->options.cuda->cuMemFree(memories[i]);
    if (weights->product.cuda)
        rnnc_cuda_product_close(&weights->product);
    memset(weights, 0, sizeof *weights);
}

static rnnc_status set_vector(const rnnc_layer_weights *weights,
                              const float *const from[RNNC_WEIGHT_COUNT], rnnc_weight_kind kind,
                              CUdeviceptr *to)
{
    const rnnc_cuda_layer_options *options = &weights->options;
    const int32_t tensor = options->layer->weights[kind];
    if (tensor < 0 || !from[kind])
        return RNNC_OK;
    const rnnc_tensor_info *info = &options->module->tensors[tensor].info;
    int64_t count = 1;
    for (int32_t i = 0; i < info->ndim; i++)
        count *= info->dims[i];
    return rnnc_layer_weights_upload(weights, from[kind], count, to);
}

rnnc_status rnnc_layer_weights_set(rnnc_layer_weights *weights,
                                   const float *const from[RNNC_WEIGHT_COUNT])
{
    rnnc_status status = rnnc_layer_weights_check(
        weights, weights->options.cuda->cuStreamSynchronize(weights->options.stream),
        "waiting for the last run");
    if (status == RNNC_OK && from[RNNC_WEIGHT_W])
        status = rnnc_layer_weights_check(
            weights, rnnc_cuda_product_set(&weights->product, from[RNNC_WEIGHT_W]),
            "copying weights");
    if (status == RNNC_OK)
        status = set_vector(weights, from, RNNC_WEIGHT_B, &weights->bias);
    if (status == RNNC_OK)
        status = set_vector(weights, from, RNNC_WEIGHT_RB, &weights->recurrent_bias);
    if (status == RNNC_OK)
        status = set_vector(weights, from, RNNC_WEIGHT_PEEPHOLE, &weights->parameter);
    return status;
}

rnnc_status rnnc_layer_weights_multiply(const rnnc_layer_weights *weights,
                                        const rnnc_layer_call *call)
{
    const rnnc_cuda_rows rows = {.x = call->x,
                                 .out = weights->input,
                                 .rows = call->batch * call->timesteps,
                                 .timesteps = call->timesteps,
                                 .x_row_stride = call->x_row_stride,
                                 .x_step_stride = call->x_step_stride,
                                 .out_row_stride = call->timesteps * weights->input_stride,
                                 .out_step_stride = weights->input_stride};
    if (weights->product.columns == 0)
        return RNNC_OK;
    return rnnc_layer_weights_check(weights,
                                    rnnc_cuda_product_run(&weights->product, (CUstream)call->stream,
                                                          &rows, weights->input_stride),
                                    "starting the input product");
}
