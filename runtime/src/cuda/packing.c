/* Packing of recurrent weights: see packing.h. */
#include "packing.h"

enum { BLOCKS = 264, THREADS = 256, MEASURE_THREADS = 1024 };

/// Elements of a weight tensor; 0 where the layer has none.
static int64_t tensor_count(const rnnc_cuda_layer_options *options, rnnc_weight_kind kind)
{
    const int32_t tensor = options->layer->weights[kind];
    if (tensor < 0)
        return 0;
    const rnnc_tensor_info *info = &options->module->tensors[tensor].info;
    int64_t count = 1;
    for (int32_t i = 0; i < info->ndim; i++)
        count *= info->dims[i];
    return count;
}

CUresult rnnc_pack_launch(const rnnc_cuda_layer_options *options, const char *measure,
                          CUfunction pack, CUdeviceptr R, CUdeviceptr P, CUdeviceptr packed)
{
    const rnnc_cuda_driver *cuda = options->cuda;
    void *arguments[] = {&R, &P, &packed};
    CUfunction before = NULL;
    CUresult result = 0;
    if (!cuda->cuModuleGetFunction(&before, options->image, measure))
        result = cuda->cuLaunchKernel(before, BLOCKS, 1, 1, MEASURE_THREADS, 1, 1, 0,
                                      options->stream, arguments, NULL);
    return result ? result
                  : cuda->cuLaunchKernel(pack, BLOCKS, 1, 1, THREADS, 1, 1, 0, options->stream,
                                         arguments, NULL);
}

rnnc_status rnnc_pack_recurrent(const rnnc_layer_weights *weights, CUfunction pack,
                                const float *const from[RNNC_WEIGHT_COUNT], CUdeviceptr packed)
{
    static const rnnc_weight_kind kinds[] = {RNNC_WEIGHT_R, RNNC_WEIGHT_P};
    const rnnc_cuda_layer_options *options = &weights->options;
    CUdeviceptr matrices[2] = {0};
    rnnc_status status = RNNC_OK;
    for (int i = 0; i < 2 && status == RNNC_OK; i++)
        if (from[kinds[i]])
            status = rnnc_layer_weights_upload(weights, from[kinds[i]],
                                               tensor_count(options, kinds[i]), &matrices[i]);
    if (status == RNNC_OK) {
        CUresult result =
            rnnc_pack_launch(options, "rnn_measure", pack, matrices[0], matrices[1], packed);
        if (!result)
            result = options->cuda->cuStreamSynchronize(options->stream);
        status = rnnc_layer_weights_check(weights, result, "packing weights");
    }
    for (int i = 0; i < 2; i++)
        if (matrices[i])
            options->cuda->cuMemFree(matrices[i]);
    return status;
}
