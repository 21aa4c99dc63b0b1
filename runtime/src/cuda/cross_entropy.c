/* Softmax cross-entropy on the GPU: see cross_entropy.h. */
#include "cross_entropy.h"

enum { THREADS = 256, CTAS_MAX = 1 << 16, OUT_OF_MEMORY = 2 };

/// RnnLoss of the kernels.
typedef struct {
    long long batch, timesteps, classes;
    rnnc_cuda_array logits, gradient;
    const int32_t *targets;
    long long target_row_stride, target_step_stride;
    CUdeviceptr losses, counted;
    float *loss;
} Loss;

static rnnc_status check(const rnnc_cuda_cross_entropy *loss, CUresult result, const char *doing)
{
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    loss->options.cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(loss->options.error,
                          result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
                          "CUDA, %s: %s", doing, words ? words : "unknown error");
}

rnnc_status rnnc_cuda_cross_entropy_open(const rnnc_cuda_moves_options *options, int64_t steps,
                                         rnnc_cuda_cross_entropy *loss)
{
    const rnnc_cuda_driver *cuda = options->cuda;
    *loss = (rnnc_cuda_cross_entropy){.options = *options, .steps = steps};
    CUresult result = cuda->cuModuleGetFunction(&loss->count, options->image, "rnn_count_targets");
    if (!result)
        result = cuda->cuModuleGetFunction(&loss->entropy, options->image, "rnn_cross_entropy");
    if (!result)
        result = cuda->cuModuleGetFunction(&loss->add, options->image, "rnn_add_losses");
    if (!result)
        result = cuda->cuMemAlloc(&loss->losses, (size_t)(steps + 1) * sizeof(float));
    return check(loss, result, "preparing the loss");
}

void rnnc_cuda_cross_entropy_close(rnnc_cuda_cross_entropy *loss)
{
    if (loss->losses)
        loss->options.cuda->cuMemFree(loss->losses);
    *loss = (rnnc_cuda_cross_entropy){0};
}

static CUresult start(const rnnc_cuda_cross_entropy *loss, CUfunction kernel, int64_t ctas,
                      void **arguments)
{
    return loss->options.cuda->cuLaunchKernel(kernel, (unsigned)ctas, 1, 1, THREADS, 1, 1, 0,
                                              loss->options.stream, arguments, NULL);
}

rnnc_status rnnc_cuda_cross_entropy_run(const rnnc_cuda_cross_entropy *loss,
                                        const rnnc_loss_call *call)
{
    CUdeviceptr fault = loss->options.fault;
    const int64_t steps = call->batch * call->timesteps;
    Loss of = {.batch = call->batch,
               .timesteps = call->timesteps,
               .classes = call->classes,
               .logits = {(float *)(uintptr_t)call->logits, call->row_stride, call->step_stride},
               .gradient = {call->gradient, call->gradient_row_stride, call->gradient_step_stride},
               .targets = call->targets,
               .target_row_stride = call->target_row_stride,
               .target_step_stride = call->target_step_stride,
               .losses = loss->losses,
               .counted = loss->losses + (CUdeviceptr)(loss->steps * (int64_t)sizeof(float)),
               .loss = call->loss};
    void *arguments[] = {&of, &fault};
    CUresult result = start(loss, loss->count, 1, arguments);
    if (!result && steps > 0)
        result = start(loss, loss->entropy, steps < CTAS_MAX ? steps : CTAS_MAX, arguments);
    if (!result && call->loss)
        result = start(loss, loss->add, 1, arguments);
    return check(loss, result, "starting the loss");
}
