/* Moves, host side: see moves.h. */
#include "moves.h"

#include "../memory.h"
#include "prim/philox.h"

enum { THREADS = 256, BLOCKS_MAX = 4096, WARP = 32, TOKEN_COLUMNS = 128, OUT_OF_MEMORY = 2 };

/// The kernels of templates/cuda/moves.cuh.
typedef enum {
    GATHER,
    SCATTER,
    SCALE,
    CLEAR,
    FOLD,
    FIND,
    TELL,
    ADD_TOKENS,
    MASKING_BACK,
    MERGE_BACK,
    DROP_BACK,
    KERNEL_COUNT
} Kernel;
enum { ANY_KIND = -1 };
static const struct {
    const char *name;
    int kind; ///< of the layers without which the image lacks it
} kernels[KERNEL_COUNT] = {
    [GATHER] = {"rnn_gather", ANY_KIND},
    [SCATTER] = {"rnn_scatter", ANY_KIND},
    [SCALE] = {"rnn_scale", ANY_KIND},
    [CLEAR] = {"rnn_clear", ANY_KIND},
    [FOLD] = {"rnn_fold", ANY_KIND},
    [FIND] = {"rnn_find", ANY_KIND},
    [TELL] = {"rnn_tell", ANY_KIND},
    [ADD_TOKENS] = {"rnn_add_tokens", RNNC_LAYER_EMBEDDING},
    [MASKING_BACK] = {"rnn_masking_back", RNNC_LAYER_MASKING},
    [MERGE_BACK] = {"rnn_merge_back", RNNC_LAYER_MERGE},
    [DROP_BACK] = {"rnn_drop_back", RNNC_LAYER_DROPOUT},
};

struct rnnc_cuda_moves {
    rnnc_cuda_moves_options options;
    CUfunction kernels[KERNEL_COUNT];
    CUdeviceptr found; ///< of rnn_find
};

static rnnc_status check(const rnnc_cuda_moves *moves, CUresult result, const char *doing)
{
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    moves->options.cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(moves->options.error,
                          result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
                          "CUDA, %s: %s", doing, words ? words : "unknown error");
}

/// A thread for each of `items`, or as many as the grid has.
static rnnc_status start(const rnnc_cuda_moves *moves, Kernel kernel, int64_t items,
                         void **arguments)
{
    const int64_t wanted = (items + THREADS - 1) / THREADS;
    const unsigned blocks = (unsigned)(wanted < BLOCKS_MAX ? wanted : BLOCKS_MAX);
    if (items == 0)
        return RNNC_OK;
    return check(moves,
                 moves->options.cuda->cuLaunchKernel(moves->kernels[kernel], blocks, 1, 1, THREADS,
                                                     1, 1, 0, moves->options.stream, arguments,
                                                     NULL),
                 kernels[kernel].name);
}

static bool is_there(const rnnc_module_desc *module, Kernel kernel)
{
    bool is_needed = kernels[kernel].kind == ANY_KIND;
    for (int32_t i = 0; i < module->layer_count; i++)
        is_needed |= (int)module->layers[i].kind == kernels[kernel].kind;
    return is_needed;
}

rnnc_status rnnc_cuda_moves_open(const rnnc_cuda_moves_options *options,
                                 rnnc_cuda_moves **out_moves)
{
    const rnnc_cuda_driver *cuda = options->cuda;
    *out_moves = NULL;
    rnnc_cuda_moves *moves = rnnc_memory_alloc(sizeof *moves);
    if (!moves)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for the device");
    moves->options = *options;
    rnnc_status status = check(moves, cuda->cuMemAlloc(&moves->found, sizeof(uint64_t)),
                               "allocating memory for gradients");
    if (status == RNNC_OK)
        status =
            check(moves, cuda->cuMemsetD8Async(moves->found, 0, sizeof(uint64_t), options->stream),
                  "clearing memory");
    for (int i = 0; i < KERNEL_COUNT && status == RNNC_OK; i++)
        if (is_there(options->module, i))
            status = check(
                moves,
                cuda->cuModuleGetFunction(&moves->kernels[i], options->image, kernels[i].name),
                kernels[i].name);
    if (status == RNNC_OK)
        *out_moves = moves;
    else
        rnnc_cuda_moves_close(moves);
    return status;
}

void rnnc_cuda_moves_close(rnnc_cuda_moves *moves)
{
    if (!moves)
        return;
    if (moves->found)
        moves->options.cuda->cuMemFree(moves->found);
    rnnc_memory_free(moves);
}

rnnc_cuda_steps rnnc_cuda_steps_of(const rnnc_cuda_moves *moves, const rnnc_layer_call *call,
                                   int64_t width)
{
    return (rnnc_cuda_steps){.order = call->order,
                             .rows = call->rows,
                             .batch = call->batch,
                             .timesteps = call->timesteps,
                             .width = width,
                             .reversed = moves->options.module->layers[call->layer].reversed != 0};
}

rnnc_cuda_array rnnc_cuda_x_of(const rnnc_layer_call *call)
{
    return (rnnc_cuda_array){(float *)(uintptr_t)call->x, call->x_row_stride, call->x_step_stride};
}

rnnc_cuda_array rnnc_cuda_dy_of(const rnnc_backward_call *call)
{
    return (rnnc_cuda_array){(float *)(uintptr_t)call->dy, call->dy_row_stride,
                             call->dy_step_stride};
}

rnnc_cuda_array rnnc_cuda_dx_of(const rnnc_backward_call *call)
{
    return (rnnc_cuda_array){call->dx, call->dx_row_stride, call->dx_step_stride};
}

static int64_t values(const rnnc_cuda_steps *steps)
{
    return steps->batch * steps->timesteps * steps->width;
}

rnnc_status rnnc_cuda_gather(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps, rnnc_cuda_array x,
                             float *to)
{
    void *arguments[] = {&steps, &x, &to};
    return start(moves, GATHER, values(&steps), arguments);
}

rnnc_status rnnc_cuda_clear(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps, rnnc_cuda_array to)
{
    void *arguments[] = {&steps, &to};
    return start(moves, CLEAR, values(&steps), arguments);
}

rnnc_status rnnc_cuda_scatter(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps,
                              const float *from, rnnc_cuda_array to, bool adds)
{
    const bool clears = steps.order && !adds;
    int does_add = adds || clears;
    void *arguments[] = {&steps, &from, &to, &does_add};
    rnnc_status status = clears ? rnnc_cuda_clear(moves, steps, to) : RNNC_OK;
    return status == RNNC_OK ? start(moves, SCATTER, values(&steps), arguments) : status;
}

rnnc_status rnnc_cuda_scale(const rnnc_cuda_moves *moves, const float *from, const float *scale,
                            float *to, int64_t count)
{
    long long elems = count;
    void *arguments[] = {&from, &scale, &to, &elems};
    return start(moves, SCALE, count, arguments);
}

rnnc_status rnnc_cuda_fold(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps, int layer,
                           rnnc_cuda_array dy, float *folded)
{
    const rnnc_layer_desc *of = &moves->options.module->layers[layer];
    int go_backwards = of->go_backwards != 0, zero = of->zero_output_for_mask != 0;
    int sequence = of->sequence_out != 0;
    void *arguments[] = {&steps, &dy, &folded, &go_backwards, &zero, &sequence};
    return start(moves, FOLD, values(&steps) / (sequence ? 1 : steps.timesteps), arguments);
}

rnnc_status rnnc_cuda_add_tokens(const rnnc_cuda_moves *moves, const rnnc_backward_call *call,
                                 float *gradient)
{
    const rnnc_layer_desc *layer = &moves->options.module->layers[call->forward.layer];
    rnnc_cuda_steps steps = rnnc_cuda_steps_of(moves, &call->forward, layer->outputs);
    rnnc_cuda_array dy = rnnc_cuda_dy_of(call);
    const void *tokens = call->forward.x;
    long long row_stride = call->forward.x_row_stride, step_stride = call->forward.x_step_stride;
    void *arguments[] = {&steps, &dy, &tokens, &row_stride, &step_stride, &gradient};
    const unsigned across = (unsigned)((layer->outputs + TOKEN_COLUMNS - 1) / TOKEN_COLUMNS);
    return check(moves,
                 moves->options.cuda->cuLaunchKernel(moves->kernels[ADD_TOKENS],
                                                     (unsigned)layer->inputs, across, 1, THREADS, 1,
                                                     1, 0, moves->options.stream, arguments, NULL),
                 kernels[ADD_TOKENS].name);
}

rnnc_status rnnc_cuda_find_nan(const rnnc_cuda_moves *moves, rnnc_cuda_steps steps, int layer,
                               rnnc_cuda_array found_in)
{
    CUdeviceptr found = moves->found, fault = moves->options.fault;
    void *find[] = {&steps, &found_in, &found}, *tell[] = {&steps, &found, &layer, &fault};
    rnnc_status status = start(moves, FIND, values(&steps), find);
    return status == RNNC_OK
               ? check(moves,
                       moves->options.cuda->cuLaunchKernel(moves->kernels[TELL], 1, 1, 1, 1, 1, 1,
                                                           0, moves->options.stream, tell, NULL),
                       kernels[TELL].name)
               : status;
}

static rnnc_status backward_merge(const rnnc_cuda_moves *moves, const rnnc_backward_call *call,
                                  rnnc_cuda_steps *steps, int how)
{
    rnnc_cuda_array x = rnnc_cuda_x_of(&call->forward);
    rnnc_cuda_array dy = rnnc_cuda_dy_of(call), dx = rnnc_cuda_dx_of(call);
    const float *x2 = call->forward.x2;
    float *dx2 = call->dx2;
    int adds = call->adds_dx;
    void *arguments[] = {steps, &x, &x2, &dy, &dx, &dx2, &how, &adds};
    return start(moves, MERGE_BACK, values(steps), arguments);
}

rnnc_status rnnc_cuda_moves_backward(const rnnc_cuda_moves *moves, const rnnc_backward_call *call)
{
    const rnnc_layer_desc *layer = &moves->options.module->layers[call->forward.layer];
    rnnc_cuda_steps steps = rnnc_cuda_steps_of(moves, &call->forward, layer->outputs);
    rnnc_cuda_array x = rnnc_cuda_x_of(&call->forward);
    rnnc_cuda_array dy = rnnc_cuda_dy_of(call), dx = rnnc_cuda_dx_of(call);
    int adds = call->adds_dx;
    rnnc_status status;
    steps.order = NULL;
    if (!call->dx)
        return RNNC_OK;
    if (layer->kind == RNNC_LAYER_MERGE) {
        status = backward_merge(moves, call, &steps, layer->merge);
    } else if (layer->kind == RNNC_LAYER_MASKING) {
        float value = layer->mask_value;
        void *arguments[] = {&steps, &x, &dy, &dx, &value, &adds};
        status = start(moves, MASKING_BACK, steps.batch * steps.timesteps * WARP, arguments);
    } else {
        rnn_dropout draw =
            rnn_dropout_make(call->forward.seed, 2 * (unsigned)layer->dropout_index, layer->rate);
        int per_sequence = layer->per_sequence != 0;
        void *arguments[] = {&steps, &dy, &dx, &draw, &per_sequence, &adds};
        status = start(moves, DROP_BACK, values(&steps), arguments);
    }
    return status == RNNC_OK && call->finds_nan
               ? rnnc_cuda_find_nan(moves, steps, call->forward.layer, dx)
               : status;
}
