/* Text generation in one launch, host side: see generator.h. */
#include "generator.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "../memory.h"
#include "sequence.h"

enum { LAYERS_MAX = 8, BLOCKS = 512, THREADS = 256, NOT_READY = 600, OUT_OF_MEMORY = 2 };
enum { PENDING = -3, POLL_NS = 20000 };
enum { TOKENS_OF_LAUNCH = 1 << 20 }; ///< of all rows

/// RnnGenerate and RnnMatrices of the kernels.
typedef struct {
    CUdeviceptr weights, table, dense_bias;
    CUdeviceptr bias[LAYERS_MAX], recurrent_bias[LAYERS_MAX], parameter[LAYERS_MAX];
    float *states[LAYERS_MAX][RNNC_STATES_MAX];
    CUdeviceptr seeds, stops, ended;
    long long rows, steps;
    unsigned long long draw;
    float inverse_temperature;
    int greedy;
    CUdeviceptr buffers, tokens, cancel, fault;
    int fault_kind;
    unsigned top_k;
    float top_p;
    CUdeviceptr chances;
} RunArguments;
typedef struct {
    CUdeviceptr R[LAYERS_MAX], W[LAYERS_MAX], dense;
} Matrices;

/// A kernel that generates, and how many of its groups are resident at once; at most those that the
/// rows need.
typedef struct {
    CUfunction function;
    int64_t groups;
} Kernel;

struct rnnc_cuda_generator {
    rnnc_cuda_generator_options options;
    Kernel run, choose; ///< choose: with top_k or top_p; of modules that have none NULL, no groups
    CUfunction pack, fold;
    int64_t vocabulary;
    CUdeviceptr packed, table, buffers;
    CUdeviceptr chances;                         ///< of choose, once it was asked for
    CUdeviceptr vectors[LAYERS_MAX][3];          ///< b, rb and p of each layer; 0: none
    CUdeviceptr dense_bias, stops;               ///< [vocabulary]
    CUdeviceptr seeds, ended;                    ///< [max_rows]
    const float *const *weights[LAYERS_MAX + 2]; ///< by layer, as given
    volatile int32_t *tokens; ///< pinned: [steps, rows]; behind them the flag that cancels
    int64_t token_room;
    uint8_t *row_ended;
};

static rnnc_status check(const rnnc_cuda_generator *generator, CUresult result, const char *doing)
{
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    generator->options.cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(generator->options.error,
                          result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
                          "CUDA, %s: %s", doing, words ? words : "unknown error");
}

/// Zeroed, in the order of the stream.
static rnnc_status allocate(const rnnc_cuda_generator *generator, int64_t bytes, CUdeviceptr *to)
{
    const rnnc_cuda_driver *cuda = generator->options.cuda;
    CUresult result = cuda->cuMemAlloc(to, bytes ? (size_t)bytes : 1);
    if (!result)
        result =
            cuda->cuMemsetD8Async(*to, 0, bytes ? (size_t)bytes : 1, generator->options.stream);
    return check(generator, result, "allocating memory for a text");
}

/// The chances of a group's tokens: of a cluster's CTA 8 bytes each, of another group two packets.
static int64_t chance_bytes(const rnnc_cuda_generator *generator)
{
    const rnnc_generator_desc *desc = generator->options.desc;
    return desc->rows * generator->vocabulary * (desc->is_cluster ? desc->ctas * 8 : 16);
}

static rnnc_status write_memory(const rnnc_cuda_generator *generator, CUdeviceptr to,
                                const void *from, int64_t bytes)
{
    return check(generator,
                 rnnc_cuda_write(generator->options.cuda, generator->options.stream, to, from,
                                 (size_t)bytes),
                 "writing memory");
}

/// A launch of `groups`; the result points to `attribute`, which says what its groups are.
static CUlaunchConfig launch_of(const rnnc_cuda_generator *generator, int64_t groups,
                                CUlaunchAttribute *attribute)
{
    const rnnc_generator_desc *desc = generator->options.desc;
    if (desc->is_cluster)
        *attribute =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                .value.clusterDim = {.x = (unsigned)desc->ctas, .y = 1, .z = 1}};
    else
        *attribute =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    return (CUlaunchConfig){.gridDimX = (unsigned)(groups * desc->ctas),
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = (unsigned)desc->threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .sharedMemBytes = (unsigned)desc->shared_bytes,
                            .hStream = generator->options.stream,
                            .attrs = attribute,
                            .numAttrs = 1};
}

/// Groups of a kernel that the device holds at once.
static CUresult count_groups(const rnnc_cuda_generator *generator, Kernel *kernel)
{
    const rnnc_cuda_driver *cuda = generator->options.cuda;
    const rnnc_generator_desc *desc = generator->options.desc;
    CUlaunchAttribute attribute;
    CUdevice device = 0;
    int count = 0, processors = 0;
    if (desc->is_cluster) {
        const CUlaunchConfig launch = launch_of(generator, 1, &attribute);
        const CUresult result =
            cuda->cuOccupancyMaxActiveClusters(&count, kernel->function, &launch);
        kernel->groups = count;
        return result;
    }
    CUresult result = cuda->cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &count, kernel->function, desc->threads, (size_t)desc->shared_bytes);
    if (!result)
        result = cuda->cuCtxGetDevice(&device);
    if (!result)
        result = cuda->cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                            device);
    kernel->groups = count > 0 ? processors / desc->ctas : 0;
    return result;
}

/// Asks the device how many groups of a kernel it holds at once.
static rnnc_status prepare_kernel(const rnnc_cuda_generator *generator, Kernel *kernel)
{
    const rnnc_cuda_generator_options *options = &generator->options;
    const rnnc_generator_desc *desc = options->desc;
    const int64_t needed = (options->max_rows + desc->rows - 1) / desc->rows;
    CUresult result = options->cuda->cuFuncSetAttribute(
        kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)desc->shared_bytes);
    if (!result)
        result = count_groups(generator, kernel);
    if (result || kernel->groups < 1)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE,
                              "%d CTAs of %lld bytes of shared memory are not resident at once on "
                              "this GPU",
                              desc->ctas, (long long)desc->shared_bytes);
    kernel->groups = needed < kernel->groups ? needed : kernel->groups;
    return RNNC_OK;
}

static rnnc_status find_kernels(rnnc_cuda_generator *generator)
{
    const rnnc_cuda_driver *cuda = generator->options.cuda;
    const CUmodule image = generator->options.image;
    if (cuda->cuModuleGetFunction(&generator->run.function, image, "rnn_generate") ||
        cuda->cuModuleGetFunction(&generator->pack, image, "rnn_pack") ||
        cuda->cuModuleGetFunction(&generator->fold, image, "rnn_fold"))
        return rnnc_error_set(generator->options.error, RNNC_DEVICE_ERROR,
                              "the image that generates text lacks its kernels");
    if (cuda->cuModuleGetFunction(&generator->choose.function, image, "rnn_generate_choices"))
        generator->choose.function = NULL; // made by an rnnc that had none
    return prepare_kernel(generator, &generator->run);
}

static int64_t tensor_count(const rnnc_cuda_generator *generator, int32_t layer,
                            rnnc_weight_kind kind)
{
    const rnnc_module_desc *module = generator->options.module;
    const int32_t tensor = module->layers[layer].weights[kind];
    int64_t count = tensor < 0 ? 0 : 1;
    for (int32_t i = 0; tensor >= 0 && i < module->tensors[tensor].info.ndim; i++)
        count *= module->tensors[tensor].info.dims[i];
    return count;
}

static rnnc_status allocate_all(rnnc_cuda_generator *generator)
{
    static const rnnc_weight_kind kinds[] = {RNNC_WEIGHT_B, RNNC_WEIGHT_RB, RNNC_WEIGHT_PEEPHOLE};
    const rnnc_generator_desc *desc = generator->options.desc;
    const rnnc_layer_desc *cell = &generator->options.module->layers[1];
    const int64_t rows = generator->options.max_rows, vocabulary = generator->vocabulary;
    const struct {
        int64_t bytes;
        CUdeviceptr *to;
    } wanted[] = {
        {desc->packed_bytes, &generator->packed},
        {vocabulary * cell->input_gates * cell->units * 4, &generator->table},
        {generator->run.groups * desc->buffer_bytes, &generator->buffers},
        {vocabulary * 4, &generator->dense_bias},
        {vocabulary, &generator->stops},
        {rows * 8, &generator->seeds},
        {rows, &generator->ended},
    };
    rnnc_status status = RNNC_OK;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && status == RNNC_OK; i++)
        status = allocate(generator, wanted[i].bytes, wanted[i].to);
    for (int32_t l = 0; l < desc->layers && status == RNNC_OK; l++)
        for (int k = 0; k < 3 && status == RNNC_OK; k++)
            if (tensor_count(generator, l + 1, kinds[k]) > 0)
                status = allocate(generator, tensor_count(generator, l + 1, kinds[k]) * 4,
                                  &generator->vectors[l][k]);
    generator->row_ended = rnnc_memory_alloc((size_t)rows + 1);
    if (status == RNNC_OK && !generator->row_ended)
        status = rnnc_error_set(generator->options.error, RNNC_OUT_OF_MEMORY,
                                "no memory for %lld rows", (long long)rows);
    return status;
}

rnnc_status rnnc_cuda_generator_open(const rnnc_cuda_generator_options *options,
                                     rnnc_cuda_generator **out_generator)
{
    *out_generator = NULL;
    rnnc_cuda_generator *generator = rnnc_memory_alloc(sizeof *generator);
    if (!generator)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for a text");
    generator->options = *options;
    generator->vocabulary = options->module->layers[0].inputs;
    rnnc_status status = find_kernels(generator);
    if (status == RNNC_OK)
        status = allocate_all(generator);
    if (status == RNNC_OK)
        *out_generator = generator;
    else
        rnnc_cuda_generator_close(generator);
    return status;
}

void rnnc_cuda_generator_close(rnnc_cuda_generator *generator)
{
    if (!generator)
        return;
    const rnnc_cuda_driver *cuda = generator->options.cuda;
    const CUdeviceptr memories[] = {generator->packed,  generator->table,      generator->buffers,
                                    generator->chances, generator->dense_bias, generator->stops,
                                    generator->seeds,   generator->ended};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            cuda->cuMemFree(memories[i]);
    for (int l = 0; l < LAYERS_MAX; l++)
        for (int k = 0; k < 3; k++)
            if (generator->vectors[l][k])
                cuda->cuMemFree(generator->vectors[l][k]);
    if (generator->tokens)
        cuda->cuMemFreeHost((void *)generator->tokens);
    rnnc_memory_free(generator->row_ended);
    rnnc_memory_free(generator);
}

rnnc_status rnnc_cuda_generator_set_weights(rnnc_cuda_generator *generator, int32_t layer,
                                            const float *const weights[RNNC_WEIGHT_COUNT])
{
    static const rnnc_weight_kind kinds[] = {RNNC_WEIGHT_B, RNNC_WEIGHT_RB, RNNC_WEIGHT_PEEPHOLE};
    rnnc_status status = RNNC_OK;
    generator->weights[layer] = weights;
    for (int k = 0; k < 3 && layer > 0 && layer <= generator->options.desc->layers; k++)
        if (status == RNNC_OK && generator->vectors[layer - 1][k] && weights[kinds[k]])
            status = write_memory(generator, generator->vectors[layer - 1][k], weights[kinds[k]],
                                  tensor_count(generator, layer, kinds[k]) * 4);
    return status;
}

/// A matrix of a layer, for as long as it is packed.
static rnnc_status upload(const rnnc_cuda_generator *generator, int32_t layer,
                          rnnc_weight_kind kind, CUdeviceptr *to)
{
    const int64_t bytes = tensor_count(generator, layer, kind) * 4;
    const float *from = generator->weights[layer][kind];
    rnnc_status status = allocate(generator, bytes, to);
    return status == RNNC_OK && from ? write_memory(generator, *to, from, bytes) : status;
}

/// The table and the packed matrices, from what is uploaded.
static CUresult start_packing(const rnnc_cuda_generator *generator, Matrices *matrices,
                              CUdeviceptr embedding)
{
    const rnnc_cuda_driver *cuda = generator->options.cuda;
    const CUstream stream = generator->options.stream;
    CUdeviceptr packed = generator->packed, table = generator->table;
    int width = (int)generator->options.module->layers[0].outputs;
    void *pack[] = {matrices, &packed}, *fold[] = {&matrices->W[0], &embedding, &width, &table};
    CUresult result =
        cuda->cuLaunchKernel(generator->pack, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, pack, NULL);
    if (!result)
        result = cuda->cuLaunchKernel(generator->fold, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, fold,
                                      NULL);
    return result ? result : cuda->cuStreamSynchronize(stream);
}

rnnc_status rnnc_cuda_generator_pack(rnnc_cuda_generator *generator)
{
    const int32_t layers = generator->options.desc->layers;
    Matrices matrices = {0};
    CUdeviceptr embedding = 0;
    rnnc_status status = upload(generator, 0, RNNC_WEIGHT_E, &embedding);
    for (int32_t l = 0; l < layers && status == RNNC_OK; l++) {
        status = upload(generator, l + 1, RNNC_WEIGHT_R, &matrices.R[l]);
        if (status == RNNC_OK)
            status = upload(generator, l + 1, RNNC_WEIGHT_W, &matrices.W[l]);
    }
    if (status == RNNC_OK)
        status = upload(generator, layers + 1, RNNC_WEIGHT_W, &matrices.dense);
    if (status == RNNC_OK)
        status =
            check(generator, start_packing(generator, &matrices, embedding), "packing weights");
    for (int32_t l = 0; l < layers; l++) {
        if (matrices.R[l])
            generator->options.cuda->cuMemFree(matrices.R[l]);
        if (matrices.W[l])
            generator->options.cuda->cuMemFree(matrices.W[l]);
    }
    if (matrices.dense)
        generator->options.cuda->cuMemFree(matrices.dense);
    if (embedding)
        generator->options.cuda->cuMemFree(embedding);
    return status;
}

/// Pinned memory for the tokens of a launch and the flag behind them.
static rnnc_status make_token_room(rnnc_cuda_generator *generator, int64_t count)
{
    const rnnc_cuda_driver *cuda = generator->options.cuda;
    void *memory = NULL;
    if (count <= generator->token_room)
        return RNNC_OK;
    if (generator->tokens)
        cuda->cuMemFreeHost((void *)generator->tokens);
    generator->tokens = NULL;
    generator->token_room = 0;
    rnnc_status status =
        check(generator,
              cuda->cuMemHostAlloc(&memory, (size_t)(count + 1) * 4, CU_MEMHOSTALLOC_DEVICEMAP),
              "allocating memory for tokens");
    if (status == RNNC_OK) {
        generator->tokens = memory;
        generator->token_room = count;
    }
    return status;
}

/// What holds for all launches of a text: the dense layer's bias, NaN for banned tokens; stops and
/// seeds.
static rnnc_status write_choices(rnnc_cuda_generator *generator,
                                 const rnnc_device_generation *generation)
{
    const int32_t dense = generator->options.desc->layers + 1;
    const float *bias = generator->weights[dense][RNNC_WEIGHT_B];
    float *values = rnnc_memory_alloc((size_t)generator->vocabulary * sizeof *values);
    if (!values)
        return rnnc_error_set(generator->options.error, RNNC_OUT_OF_MEMORY,
                              "no memory for %lld tokens", (long long)generator->vocabulary);
    for (int64_t i = 0; i < generator->vocabulary; i++)
        values[i] = generation->banned[i] ? NAN : bias ? bias[i] : 0.0f;
    rnnc_status status =
        write_memory(generator, generator->dense_bias, values, generator->vocabulary * 4);
    if (status == RNNC_OK)
        status =
            write_memory(generator, generator->stops, generation->stops, generator->vocabulary);
    if (status == RNNC_OK)
        status = write_memory(generator, generator->seeds, generation->seeds, generation->rows * 8);
    rnnc_memory_free(values);
    return status;
}

/// The kernel of a text, ready to run. That which chooses is made so with the first text that asks.
static rnnc_status take_kernel(rnnc_cuda_generator *generator,
                               const rnnc_device_generation *generation, const Kernel **out)
{
    rnnc_status status = RNNC_OK;
    Kernel *choose = &generator->choose;
    *out = &generator->run;
    if (!generation->top_k && !(generation->top_p > 0))
        return RNNC_OK;
    if (!choose->function)
        return rnnc_error_set(generator->options.error, RNNC_UNAVAILABLE,
                              "top_k and top_p: the module is of an rnnc that had no kernel for "
                              "them; compile the model again");
    if (!choose->groups)
        status = prepare_kernel(generator, choose);
    if (choose->groups > generator->run.groups)
        choose->groups = generator->run.groups; // for which there are buffers
    if (status == RNNC_OK && !generator->chances)
        status = allocate(generator, choose->groups * chance_bytes(generator), &generator->chances);
    *out = choose;
    return status;
}

static rnnc_status start(rnnc_cuda_generator *generator, const rnnc_device_generation *generation,
                         const Kernel *kernel, int64_t first, int64_t steps)
{
    const rnnc_cuda_driver *cuda = generator->options.cuda;
    const rnnc_generator_desc *desc = generator->options.desc;
    const int64_t rows = generation->rows, needed = (rows + desc->rows - 1) / desc->rows;
    const int64_t groups = needed < kernel->groups ? needed : kernel->groups;
    bool has_stops = false;
    for (int64_t i = 0; i < generator->vocabulary; i++)
        has_stops |= generation->stops[i] != 0;
    RunArguments run = {.weights = generator->packed,
                        .table = generator->table,
                        .dense_bias = generator->dense_bias,
                        .seeds = generator->seeds,
                        .stops = has_stops ? generator->stops : 0,
                        .ended = generator->ended,
                        .rows = rows,
                        .steps = steps,
                        .draw = (unsigned long long)(generation->first_draw + first),
                        .inverse_temperature = generation->inverse_temperature,
                        .greedy = generation->greedy,
                        .buffers = generator->buffers,
                        .fault = generator->options.fault,
                        .fault_kind = RNNC_CUDA_FAULT_STUCK,
                        .top_k = (unsigned)generation->top_k,
                        .top_p = generation->top_p,
                        .chances = generator->chances};
    for (int32_t l = 0; l < desc->layers; l++) {
        run.bias[l] = generator->vectors[l][0];
        run.recurrent_bias[l] = generator->vectors[l][1];
        run.parameter[l] = generator->vectors[l][2];
        memcpy(run.states[l], generation->calls[l + 1].states, sizeof run.states[l]);
    }
    CUresult result = cuda->cuMemHostGetDevicePointer(&run.tokens, (void *)generator->tokens, 0);
    if (!result)
        result = cuda->cuMemsetD8Async(generator->buffers, 0, (size_t)(groups * desc->buffer_bytes),
                                       generator->options.stream);
    if (!result && kernel == &generator->choose)
        result =
            cuda->cuMemsetD8Async(generator->chances, 0, (size_t)(groups * chance_bytes(generator)),
                                  generator->options.stream);
    run.cancel = run.tokens + (CUdeviceptr)(steps * rows) * 4;
    void *arguments[] = {&run};
    CUlaunchAttribute attribute;
    const CUlaunchConfig launch = launch_of(generator, groups, &attribute);
    if (!result)
        result = cuda->cuLaunchKernelEx(&launch, kernel->function, arguments, NULL);
    return check(generator, result, "starting a text");
}

/// Waits for a step's tokens of all rows under way, copied to `to` [rows]; false: the kernel has
/// ended without some of them.
static bool wait_step(const rnnc_cuda_generator *generator, int64_t rows, int64_t step, int32_t *to)
{
    const rnnc_cuda_driver *cuda = generator->options.cuda;
    const volatile int32_t *tokens = generator->tokens + step * rows;
    bool is_done = false;
    for (int64_t row = 0; row < rows; row++) {
        to[row] = -1;
        while (!generator->row_ended[row] && (to[row] = tokens[row]) == PENDING && !is_done) {
            is_done = cuda->cuStreamQuery(generator->options.stream) != NOT_READY;
            if (!is_done)
                nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        }
        if (!generator->row_ended[row] && to[row] == PENDING)
            to[row] = tokens[row]; // written between the look and the kernel's end
        if (to[row] == PENDING)
            return false;
    }
    return true;
}

/// Delivers what the launch draws until it ends. *out_more: rows are left, and more is wanted.
static rnnc_status deliver(rnnc_cuda_generator *generator, const rnnc_device_generation *generation,
                           int64_t first, int64_t steps, int32_t *tokens, bool *out_more)
{
    const int64_t rows = generation->rows;
    bool is_wanted = true, is_complete = true, is_left = true;
    for (int64_t step = 0; step < steps && is_left; step++) {
        is_complete = wait_step(generator, rows, step, tokens);
        if (!is_complete)
            break;
        is_left = false;
        for (int64_t row = 0; row < rows; row++) {
            if (tokens[row] == -2 || (tokens[row] >= 0 && generation->stops[tokens[row]]))
                generator->row_ended[row] = 1;
            is_left |= !generator->row_ended[row];
        }
        is_wanted = generation->deliver(generation->context, first + step, tokens) && is_wanted;
        if (!is_wanted)
            generator->tokens[steps * rows] = 1;
    }
    *out_more = is_wanted && is_complete && is_left;
    return check(generator, generator->options.cuda->cuStreamSynchronize(generator->options.stream),
                 "generating text");
}

rnnc_status rnnc_cuda_generator_run(rnnc_cuda_generator *generator,
                                    const rnnc_device_generation *generation)
{
    const int64_t rows = generation->rows, length = generation->length;
    const int64_t most = rows < TOKENS_OF_LAUNCH ? TOKENS_OF_LAUNCH / rows : 1;
    const int64_t chunk = length < most ? length : most;
    int32_t *tokens = rnnc_memory_alloc((size_t)(rows + 1) * sizeof *tokens);
    rnnc_status status = tokens ? make_token_room(generator, rows * chunk)
                                : rnnc_error_set(generator->options.error, RNNC_OUT_OF_MEMORY,
                                                 "no memory for %lld rows", (long long)rows);
    const Kernel *kernel = NULL;
    if (status == RNNC_OK)
        status = take_kernel(generator, generation, &kernel);
    if (status == RNNC_OK)
        status = write_choices(generator, generation);
    memset(generator->row_ended, 0, (size_t)rows);
    bool more = true;
    for (int64_t first = 0, steps; first < length && more && status == RNNC_OK; first += steps) {
        steps = length - first < chunk ? length - first : chunk;
        for (int64_t i = 0; i < rows * steps; i++)
            generator->tokens[i] = PENDING;
        generator->tokens[rows * steps] = 0;
        status = write_memory(generator, generator->ended, generator->row_ended, rows);
        if (status == RNNC_OK)
            status = start(generator, generation, kernel, first, steps);
        if (status == RNNC_OK)
            status = deliver(generator, generation, first, steps, tokens, &more);
    }
    rnnc_memory_free(tokens);
    return status;
}
