/* The device memory that generated variants share: see layer_weights.h. */
#include "layer_weights.h"

#include <string.h>

enum { THREADS = 256, BLOCKS_MAX = 4096, OUT_OF_MEMORY = 2 };
enum { TILE = 64 }; ///< of rows and columns in templates/cuda/input_product.cuh

static rnnc_precision precision_of(const rnnc_layer_weights *weights)
{
    return (rnnc_precision)weights->options.module->precision;
}

bool rnnc_layer_weights_narrow(const rnnc_layer_weights *weights)
{
    return precision_of(weights) == RNNC_BFLOAT16 || precision_of(weights) == RNNC_FLOAT16;
}

int64_t rnnc_layer_weights_operand_bytes(const rnnc_layer_weights *weights)
{
    return rnnc_layer_weights_narrow(weights) ? 2 : 4;
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
    return rnnc_layer_weights_check(weights, weights->options.cuda->cuMemAlloc(to, (size_t)bytes),
                                    "allocating device memory");
}

rnnc_status rnnc_layer_weights_upload(const rnnc_layer_weights *weights, const float *from,
                                      int64_t count, CUdeviceptr *to)
{
    const int64_t bytes = count * (int64_t)sizeof(float);
    rnnc_status status = *to ? RNNC_OK : rnnc_layer_weights_alloc(weights, bytes, to);
    if (status != RNNC_OK || bytes == 0)
        return status;
    return rnnc_layer_weights_check(
        weights, weights->options.cuda->cuMemcpyHtoD(*to, from, (size_t)bytes), "copying weights");
}

rnnc_status rnnc_layer_weights_convert(const rnnc_layer_weights *weights, CUdeviceptr from,
                                       CUdeviceptr to, int64_t count)
{
    const rnnc_cuda_layer_options *options = &weights->options;
    const int64_t wanted = (count + THREADS - 1) / THREADS;
    const unsigned blocks = (unsigned)(wanted < BLOCKS_MAX ? wanted : BLOCKS_MAX);
    long long elements = count;
    void *arguments[] = {&from, &to, &elements};
    if (count == 0)
        return RNNC_OK;
    return rnnc_layer_weights_check(weights,
                                    options->cuda->cuLaunchKernel(weights->convert, blocks, 1, 1,
                                                                  THREADS, 1, 1, 0, options->stream,
                                                                  arguments, NULL),
                                    "converting operands");
}

rnnc_status rnnc_layer_weights_open(const rnnc_cuda_layer_options *options,
                                    const char *input_kernel, rnnc_layer_weights *weights)
{
    const rnnc_layer_desc *layer = options->layer;
    const int64_t columns = layer->input_gates * layer->units;
    const int64_t rows = options->max_batch * options->max_timesteps;
    *weights = (rnnc_layer_weights){.options = *options, .input_stride = (columns + 3) / 4 * 4};
    rnnc_status status = rnnc_layer_weights_check(
        weights,
        options->cuda->cuModuleGetFunction(&weights->convert, options->image, "rnn_convert"),
        "looking for rnn_convert in its image");
    if (status == RNNC_OK && input_kernel)
        status =
            rnnc_layer_weights_check(weights,
                                     options->cuda->cuModuleGetFunction(
                                         &weights->input_product, options->image, input_kernel),
                                     "looking for the input product in its image");
    else if (status == RNNC_OK)
        status = rnnc_cublas_open(options->cuda, options->stream, options->error, &weights->blas);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_alloc(
            weights, columns * layer->inputs * rnnc_layer_weights_operand_bytes(weights),
            &weights->W);
    if (status == RNNC_OK && weights->blas && rnnc_layer_weights_narrow(weights))
        status = rnnc_layer_weights_alloc(weights, rows * layer->inputs * 2, &weights->operands);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_alloc(
            weights, rows * weights->input_stride * (int64_t)sizeof(float), &weights->input);
    return status;
}

void rnnc_layer_weights_close(rnnc_layer_weights *weights)
{
    const CUdeviceptr memories[] = {weights->W,    weights->operands,       weights->input,
                                    weights->bias, weights->recurrent_bias, weights->parameter};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            weights->options.cuda->cuMemFree(memories[i]);
    rnnc_cublas_close(weights->blas);
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

/// W as operands, through a float32 copy where they are narrower.
static rnnc_status set_matrix(rnnc_layer_weights *weights, const float *W)
{
    const rnnc_layer_desc *layer = weights->options.layer;
    const int64_t count = layer->input_gates * layer->units * layer->inputs;
    CUdeviceptr wide = 0;
    if (!W || count == 0)
        return RNNC_OK;
    if (!rnnc_layer_weights_narrow(weights))
        return rnnc_layer_weights_upload(weights, W, count, &weights->W);
    rnnc_status status = rnnc_layer_weights_upload(weights, W, count, &wide);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_convert(weights, wide, weights->W, count);
    if (status == RNNC_OK)
        status = rnnc_layer_weights_check(
            weights, weights->options.cuda->cuStreamSynchronize(weights->options.stream),
            "converting weights");
    if (wide)
        weights->options.cuda->cuMemFree(wide);
    return status;
}

rnnc_status rnnc_layer_weights_set(rnnc_layer_weights *weights,
                                   const float *const from[RNNC_WEIGHT_COUNT])
{
    rnnc_status status = rnnc_layer_weights_check(
        weights, weights->options.cuda->cuStreamSynchronize(weights->options.stream),
        "waiting for the last run");
    if (status == RNNC_OK)
        status = set_matrix(weights, from[RNNC_WEIGHT_W]);
    if (status == RNNC_OK)
        status = set_vector(weights, from, RNNC_WEIGHT_B, &weights->bias);
    if (status == RNNC_OK)
        status = set_vector(weights, from, RNNC_WEIGHT_RB, &weights->recurrent_bias);
    if (status == RNNC_OK)
        status = set_vector(weights, from, RNNC_WEIGHT_PEEPHOLE, &weights->parameter);
    return status;
}

/// By the image's own kernel (templates/cuda/input_product.cuh).
static rnnc_status multiply_here(const rnnc_layer_weights *weights, const void *x, int64_t rows)
{
    const rnnc_cuda_layer_options *options = &weights->options;
    CUdeviceptr W = weights->W, out = weights->input;
    long long count = rows;
    void *arguments[] = {&x, &W, &out, &count};
    CUresult result =
        options->cuda->cuLaunchKernel(weights->input_product, (unsigned)((rows + TILE - 1) / TILE),
                                      (unsigned)((weights->input_stride + TILE - 1) / TILE), 1,
                                      THREADS, 1, 1, 0, options->stream, arguments, NULL);
    return rnnc_layer_weights_check(weights, result, "starting the input product");
}

rnnc_status rnnc_layer_weights_multiply(const rnnc_layer_weights *weights, const void *x,
                                        int64_t rows)
{
    const rnnc_layer_desc *layer = weights->options.layer;
    CUdeviceptr from = (CUdeviceptr)x;
    if (layer->input_gates == 0)
        return RNNC_OK;
    if (weights->input_product)
        return multiply_here(weights, x, rows);
    if (rnnc_layer_weights_narrow(weights)) {
        rnnc_status status =
            rnnc_layer_weights_convert(weights, from, weights->operands, rows * layer->inputs);
        if (status != RNNC_OK)
            return status;
        from = weights->operands;
    }
    return rnnc_cublas_multiply(weights->blas, precision_of(weights), from, layer->inputs,
                                weights->W, layer->inputs, 0.0f, weights->input,
                                weights->input_stride, rows, layer->input_gates * layer->units,
                                layer->inputs);
}
