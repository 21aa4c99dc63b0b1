// Gradients of every cell, activation and option against central differences of the float64
// reference: for each tensor, a step of +-EPSILON in every element, up or down at random, changes
// the loss by what the gradient says. The loss is a sum of outputs and final states, each with a
// weight of its own.
//
//     gradients [--filter TEXT]                 compiles each case and runs it on the CPU
//     gradients --build DIR                     compiles the cases for a GPU into DIR
//     gradients --run DIR --device cuda         runs modules that --build made
//
// |change - gradient . step| / (EPSILON ||gradient||) has the size of the gradient's relative
// error. Every pass is made several times, by when CUDA replays it as a graph, and must give the
// same bits. Ends with the line `N passed, N failed, N skipped`.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build/build.h"
#include "conform/cases.h"
#include "rnnc/rnnc.h"

enum { DIRECTIONS = 2, PASSES = 3, EXIT_SKIPPED = 77 };
static const double EPSILON = 1e-6;

/// One network on one sample, and what the module says of it.
typedef struct {
    const Network *network;
    Sample *sample;
    rnnc_session *session;
    bool cuda;
    double
        *weights[NETWORK_OUTPUTS_MAX + NETWORK_STATES_MAX]; ///< of outputs and states in the loss
    uint64_t random;
    double worst; ///< error over its bound
    int failures, count;
} Trial;

static int64_t output_elems(const Trial *trial, int output)
{
    return network_output_elems(trial->network, output, trial->sample->shape.batch,
                                trial->sample->shape.timesteps);
}

static int64_t state_elems(const Trial *trial, int state)
{
    return trial->sample->shape.batch * trial->network->states[state].size;
}

static double dot(const double *weights, const double *values, int64_t count)
{
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++)
        sum += isinf(values[k]) ? 0.0 : weights[k] * values[k]; // slstm's m of a row without steps
    return sum;
}

static double loss(const Trial *trial)
{
    double sum = 0.0;
    sample_answer(trial->network, trial->sample);
    for (int k = 0; k < network_output_count(trial->network); k++)
        sum += dot(trial->weights[k], trial->sample->y[k], output_elems(trial, k));
    for (int s = 0; s < trial->network->state_count; s++)
        sum += dot(trial->weights[NETWORK_OUTPUTS_MAX + s], trial->sample->final[s],
                   state_elems(trial, s));
    return sum;
}

/// A tensor that the loss depends on, in float32 or float64.
typedef struct {
    const char *name;
    float *narrow;
    double *wide;
    int64_t count;
    const float *gradient;
} Tensor;

static double value_at(const Tensor *tensor, int64_t k)
{
    return tensor->wide ? tensor->wide[k] : (double)tensor->narrow[k];
}

static void set_value(const Tensor *tensor, int64_t k, double value)
{
    if (tensor->wide)
        tensor->wide[k] = value;
    else
        tensor->narrow[k] = (float)value;
}

/// The rounding of what is divided by the standard deviation of one unit, which is 0 and gets
/// 1 / sqrt(1e-5): terms of that size cancel.
static const double single_norm_factor = 316.0;

/// Twice the rounding of the forward pass that a recurrent layer is granted, for the backward pass
/// goes through forward's values and its own. All but float32 multiply in tf32, whose rounding is
/// of one kind and does not add up over the steps.
static double bound_of(const Trial *trial)
{
    const bool is_exact = strcmp(trial->network->precision, "float32") == 0;
    int cells = 0;
    bool is_single = false;
    for (int l = 0; l < trial->network->layer_count; l++) {
        const NetworkLayer *layer = &trial->network->layers[l];
        cells += layer->direction_count;
        is_single |= layer->direction_count && layer->cells[0].units == 1 &&
                     strcmp(layer->cells[0].facts->name, "layer_norm_lstm") == 0;
    }
    const double steps = is_exact ? (double)trial->sample->shape.timesteps : 1.0;
    return (is_single ? single_norm_factor : 1.0) * 2.0 * (is_exact ? 2e-6 : 2e-3) *
           sqrt(steps * (cells ? cells : 1));
}

/// Whether element k is of a step of x that a masking layer leaves out, which any change would take
/// in.
static bool is_masked(const Trial *trial, const Tensor *tensor, int64_t k)
{
    const NetworkLayer *first = &trial->network->layers[0];
    const int64_t I = trial->network->inputs, step = k / I * I;
    if (!tensor->wide || first->kind != NETWORK_MASKING)
        return false;
    for (int64_t i = step; i < step + I; i++)
        if (tensor->wide[i] != (double)(float)first->mask_value)
            return false;
    return true;
}

/// The change of the loss along one random step, less what the gradient says.
static double difference(Trial *trial, const Tensor *tensor)
{
    double *before = calloc((size_t)tensor->count + 1, sizeof *before), expected = 0.0, lost[2];
    int *signs = calloc((size_t)tensor->count + 1, sizeof *signs);
    for (int64_t k = 0; k < tensor->count; k++) {
        before[k] = value_at(tensor, k);
        signs[k] = random_uniform(&trial->random, -1.0, 1.0) < 0.0 ? -1 : 1;
        signs[k] = is_masked(trial, tensor, k) ? 0 : signs[k];
    }
    for (int side = 0; side < 2; side++) {
        for (int64_t k = 0; k < tensor->count; k++) {
            set_value(tensor, k, before[k] + (side ? -1.0 : 1.0) * signs[k] * EPSILON);
            if (!isnan(before[k]))
                expected += (side ? -1.0 : 1.0) * (double)tensor->gradient[k] * value_at(tensor, k);
        }
        lost[side] = loss(trial);
    }
    for (int64_t k = 0; k < tensor->count; k++)
        set_value(tensor, k, before[k]);
    free(before);
    free(signs);
    return fabs(lost[0] - lost[1] - expected) / (2.0 * EPSILON);
}

static char names[256][48];

/// "grad/<name>", which lives as long as the program's next 256 names.
static const char *gradient_name(const char *name)
{
    static int next;
    char *out = names[next++ % 256];
    snprintf(out, sizeof names[0], "grad/%s", name);
    return out;
}

static void fail(Trial *trial, const char *what, double error)
{
    trial->failures++;
    printf("FAIL %s B=%ld T=%ld masking %d: %s: error %.3g, bound %.3g\n", trial->network->name,
           (long)trial->sample->shape.batch, (long)trial->sample->shape.timesteps,
           (int)trial->sample->shape.masking, what, error, bound_of(trial));
    fflush(stdout);
}

static void check_tensor(Trial *trial, const Tensor *tensor)
{
    double norm = 0.0, worst = 0.0;
    for (int64_t k = 0; k < tensor->count; k++)
        norm += (double)tensor->gradient[k] * (double)tensor->gradient[k];
    for (int d = 0; d < DIRECTIONS; d++) {
        const double apart = difference(trial, tensor) / fmax(sqrt(norm), 0.1);
        worst = apart > worst || isnan(apart) ? apart : worst;
    }
    trial->worst = fmax(trial->worst, isnan(worst) ? INFINITY : worst / bound_of(trial));
    trial->count++;
    if (!(worst <= bound_of(trial)))
        fail(trial, gradient_name(tensor->name), worst);
}

static void require(const Trial *trial, rnnc_status status)
{
    if (status == RNNC_OK)
        return;
    printf("FAIL %s: %s\n", trial->network->name, rnnc_session_error(trial->session));
    exit(1);
}

/// What is bound to one tensor: the device's memory, what it is given and what comes back.
typedef struct {
    void *device;
    size_t bytes;
    unsigned char *given, *taken;
} Block;

/// Memory of one run, freed with it.
typedef struct {
    Block blocks[4 * NETWORK_STATES_MAX + NETWORK_LAYERS_MAX * NETWORK_WEIGHTS_MAX + 16];
    int count;
    Tensor tensors[NETWORK_STATES_MAX + NETWORK_LAYERS_MAX * NETWORK_WEIGHTS_MAX + 1];
    int tensor_count;
    const float *y[NETWORK_OUTPUTS_MAX];
} Memory;

static void bind(const Trial *trial, const char *name, void *data, uint8_t code, uint8_t bits,
                 const int64_t *shape, int ndim)
{
    int64_t dims[3] = {0}, strides[3];
    memcpy(dims, shape, (size_t)ndim * sizeof *dims);
    DLTensor tensor = {.data = data,
                       .device = {trial->cuda ? kDLCUDA : kDLCPU, 0},
                       .ndim = ndim,
                       .dtype = {code, bits, 1},
                       .shape = dims};
    if (trial->network->time_major && ndim == 3) { // the memory is batch-major
        strides[0] = shape[2], strides[1] = shape[1] * shape[2], strides[2] = 1;
        dims[0] = shape[1], dims[1] = shape[0];
        tensor.strides = strides;
    }
    require(trial, rnnc_bind(trial->session, name, &tensor));
}

/// Binds a tensor whose elements have `bits`, given `values`, or NaN for NULL, so that whatever is
/// not written shows. Returns where the values after each pass are read to.
static void *take(const Trial *trial, Memory *memory, const char *name, const void *values,
                  uint8_t code, uint8_t bits, const int64_t *shape, int ndim)
{
    Block *block = &memory->blocks[memory->count++];
    size_t count = 1;
    for (int i = 0; i < ndim; i++)
        count *= (size_t)shape[i];
    block->bytes = count * bits / 8;
    block->given = calloc(block->bytes + 1, 1);
    block->taken = calloc(block->bytes + 1, 1);
    if (values)
        memcpy(block->given, values, block->bytes);
    for (size_t k = 0; k < count && !values; k++)
        ((float *)(void *)block->given)[k] = NAN;
    require(trial, rnnc_device_alloc(trial->session, block->bytes, &block->device));
    bind(trial, name, block->device, code, bits, shape, ndim);
    return block->taken;
}

static float *take_floats(const Trial *trial, Memory *memory, const char *name, const float *values,
                          const int64_t *shape, int ndim)
{
    return take(trial, memory, name, values, kDLFloat, 32, shape, ndim);
}

static void release(const Trial *trial, Memory *memory)
{
    for (int k = 0; k < memory->count; k++) {
        rnnc_device_free(trial->session, memory->blocks[k].device);
        free(memory->blocks[k].given);
        free(memory->blocks[k].taken);
    }
}

static float *room(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(float));
}

static void bind_outputs(const Trial *trial, Memory *memory)
{
    const SampleShape *shape = &trial->sample->shape;
    for (int k = 0; k < network_output_count(trial->network); k++) {
        const int64_t width = network_output_width(trial->network, k),
                      elems = output_elems(trial, k);
        const int64_t dims[] = {shape->batch, trial->network->sequences ? shape->timesteps : width,
                                width};
        const int ndim = trial->network->sequences ? 3 : 2;
        const char *name = network_output_name(trial->network, k);
        float *dy = room(elems);
        for (int64_t n = 0; n < elems; n++)
            dy[n] = (float)trial->weights[k][n];
        memory->y[k] = take_floats(trial, memory, name, NULL, dims, ndim);
        take_floats(trial, memory, gradient_name(name), dy, dims, ndim);
        free(dy);
    }
}

static void bind_states(const Trial *trial, Memory *memory)
{
    for (int s = 0; s < trial->network->state_count; s++) {
        const NetworkState *state = &trial->network->states[s];
        const int64_t count = state_elems(trial, s);
        const int64_t dims[] = {trial->sample->shape.batch, state->size};
        float *of_final = room(count);
        for (int64_t k = 0; k < count; k++)
            of_final[k] = (float)trial->weights[NETWORK_OUTPUTS_MAX + s][k];
        if (trial->sample->shape.has_initial)
            take_floats(trial, memory, state->name, trial->sample->initial[s], dims, 2);
        const float *gradient =
            take_floats(trial, memory, gradient_name(state->name), of_final, dims, 2);
        if (trial->sample->shape.has_initial)
            memory->tensors[memory->tensor_count++] =
                (Tensor){state->name, trial->sample->initial[s], NULL, count, gradient};
        free(of_final);
    }
}

static void bind_weights(const Trial *trial, Memory *memory)
{
    for (int l = 0; l < trial->network->layer_count; l++)
        for (int w = 0; w < trial->network->layers[l].weight_count; w++) {
            const NetworkWeight *weight = &trial->network->layers[l].weights[w];
            const int64_t dims[] = {weight->rows, weight->columns};
            const int64_t count = weight->rows * (weight->columns ? weight->columns : 1);
            const float *gradient = take_floats(trial, memory, gradient_name(weight->name), NULL,
                                                dims, weight->columns ? 2 : 1);
            memory->tensors[memory->tensor_count++] =
                (Tensor){weight->name, weight->data, NULL, count, gradient};
        }
}

static void bind_input(const Trial *trial, Memory *memory)
{
    const SampleShape *shape = &trial->sample->shape;
    const int64_t dims[] = {shape->batch, shape->timesteps, trial->network->inputs};
    const int64_t count = shape->batch * shape->timesteps * trial->network->inputs;
    if (network_tokens(trial->network)) {
        take(trial, memory, "x", trial->sample->x, kDLInt, 32, dims, 2);
    } else {
        take_floats(trial, memory, "x", trial->sample->x, dims, 3);
        const float *gradient = take_floats(trial, memory, "grad/x", NULL, dims, 3);
        memory->tensors[memory->tensor_count++] =
            (Tensor){"x", NULL, trial->sample->input, count, gradient};
    }
    if (trial->sample->mask)
        take(trial, memory, "mask", trial->sample->mask, kDLUInt, 8, dims, 2);
    if (trial->sample->lengths)
        take(trial, memory, "lengths", trial->sample->lengths, kDLInt, 32, dims, 1);
}

/// A forward and a backward pass. False: not the bits of the pass before.
static bool run_pass(const Trial *trial, Memory *memory, bool is_first)
{
    bool is_same = true;
    require(trial, rnnc_state_reset(trial->session)); // a stateful layer begins anew
    for (int k = 0; k < memory->count; k++)
        require(trial, rnnc_device_write(trial->session, memory->blocks[k].device,
                                         memory->blocks[k].given, memory->blocks[k].bytes));
    require(trial, rnnc_set_seed(trial->session, trial->sample->seed));
    require(trial, rnnc_forward(trial->session));
    require(trial, rnnc_backward(trial->session, NULL));
    require(trial, rnnc_synchronize(trial->session));
    for (int k = 0; k < memory->count; k++) {
        const Block *block = &memory->blocks[k];
        unsigned char *taken = calloc(block->bytes + 1, 1);
        require(trial, rnnc_device_read(trial->session, taken, block->device, block->bytes));
        is_same &= is_first || memcmp(taken, block->taken, block->bytes) == 0;
        memcpy(block->taken, taken, block->bytes);
        free(taken);
    }
    return is_same;
}

/// What the forward pass says, which the reference has said too.
static void check_output(Trial *trial, const Memory *memory, int output)
{
    const double *right = trial->sample->y[output];
    double norm = 0.0, apart = 0.0;
    for (int64_t k = 0; k < output_elems(trial, output); k++) {
        const double difference = (double)memory->y[output][k] - right[k];
        norm += right[k] * right[k];
        apart += difference * difference;
    }
    trial->count++;
    const double error = sqrt(apart) / fmax(sqrt(norm), 1e-3);
    if (!(error <= bound_of(trial)))
        fail(trial, network_output_name(trial->network, output), error);
}

static void run_trial(Trial *trial)
{
    Memory memory = {0};
    for (int k = 0; k < NETWORK_OUTPUTS_MAX + trial->network->state_count; k++) {
        const bool is_output = k < NETWORK_OUTPUTS_MAX;
        if (is_output && k >= network_output_count(trial->network))
            continue;
        const int64_t count =
            is_output ? output_elems(trial, k) : state_elems(trial, k - NETWORK_OUTPUTS_MAX);
        trial->weights[k] = calloc((size_t)count + 1, sizeof(double));
        for (int64_t n = 0; n < count; n++)
            trial->weights[k][n] = (double)(float)random_uniform(&trial->random, -1.0, 1.0);
    }
    bind_input(trial, &memory);
    bind_outputs(trial, &memory);
    bind_states(trial, &memory);
    bind_weights(trial, &memory);
    for (int pass = 0; pass < PASSES; pass++)
        if (!run_pass(trial, &memory, pass == 0))
            fail(trial, "not the same bits again", NAN);
    for (int k = 0; k < network_output_count(trial->network); k++)
        check_output(trial, &memory, k);
    for (int k = 0; k < memory.tensor_count; k++)
        check_tensor(trial, &memory.tensors[k]);
    release(trial, &memory);
    for (int k = 0; k < NETWORK_OUTPUTS_MAX + NETWORK_STATES_MAX; k++)
        free(trial->weights[k]);
}

typedef struct {
    const char *build_dir, *run_dir, *device, *filter;
    const char *folder; ///< of specs and modules
} Options;

static bool is_cuda(const Options *options)
{
    return strncmp(options->device, "cuda", 4) == 0;
}

/// Of the GPU suite, whose folder is that of other parts too.
static const char *module_path(Arena *arena, const Options *options, const Network *network)
{
    return arena_format(arena, "%s/grad_%s.so", options->folder, network->name);
}

/// Compiles the network for training.
static void compile(Arena *arena, const Options *options, const Network *network)
{
    Diags *diags = diags_create(arena);
    const char *spec = network_write(arena, diags, network, options->folder, "canonical");
    const CompileOptions compile = {.spec_path = spec,
                                    .output_path = module_path(arena, options, network),
                                    .targets = options->build_dir ? "sm_90" : "cpu",
                                    .variants = "auto",
                                    .jobs = 2};
    if (!spec || !network_write_weights(arena, diags, network, options->folder) ||
        !compile_model(arena, diags, &compile, NULL)) {
        printf("FAIL %s: does not compile\n", network->name);
        diags_print(diags, stdout, false);
        exit(1);
    }
    unlink(spec);
    unlink(arena_format(arena, "%s/%s.safetensors", options->folder, network->name));
}

static rnnc_module *opened(Arena *arena, const Options *options, const Network *network)
{
    const char *path = module_path(arena, options, network);
    rnnc_module *module = NULL;
    if (!options->run_dir)
        compile(arena, options, network);
    if (rnnc_module_open(path, &module) != RNNC_OK) {
        printf("FAIL %s: %s\n", network->name, rnnc_last_error());
        exit(1);
    }
    if (!options->run_dir)
        unlink(path);
    return module;
}

static const SampleShape shapes[] = {
    {.batch = 1, .timesteps = 1, .has_initial = true},
    {.batch = 3, .timesteps = 7},
    {.batch = 26, .timesteps = 6, .has_initial = true},
    {.batch = 7, .timesteps = 6, .has_initial = true, .masking = SAMPLE_MASK},
    {.batch = 7, .timesteps = 6, .masking = SAMPLE_LENGTHS},
};

/// Session and checks of one shape, by a variant or as planned. False: there is no such device
/// here.
static bool run_shape(const Options *options, const rnnc_module *module, const char *variant,
                      Trial *trial)
{
    const SampleShape *shape = &trial->sample->shape;
    const rnnc_session_options wanted = {.device = options->device,
                                         .variant = variant,
                                         .max_batch = shape->batch,
                                         .max_timesteps = shape->timesteps + 1,
                                         .training = 1};
    const rnnc_status status = rnnc_session_create(module, &wanted, &trial->session);
    if (status != RNNC_OK) {
        printf("%s %s: %s\n", status == RNNC_UNAVAILABLE && trial->cuda ? "skipped" : "FAIL",
               trial->network->name, rnnc_last_error());
        if (status == RNNC_UNAVAILABLE && trial->cuda)
            return false;
        exit(1);
    }
    run_trial(trial);
    rnnc_session_destroy(trial->session);
    return true;
}

/// False: there is no such device here.
static bool run_case(Arena *arena, const Options *options, const Network *network, int totals[2])
{
    rnnc_module *module = opened(arena, options, network);
    double worst = 0.0;
    int failures = 0, count = 0;
    bool is_there = true;
    // On a GPU as planned, and by the variant that every layer falls back on.
    const int variants = is_cuda(options) ? 2 : 1;
    const int runs = variants * (int)(sizeof shapes / sizeof *shapes);
    for (int k = 0; k < runs && is_there; k++) {
        SampleShape shape = shapes[k / variants];
        Sample sample;
        if (shape.masking == SAMPLE_LENGTHS && network->own_mask)
            continue;
        shape.batch = network->batch ? network->batch : shape.batch;
        sample_make(network, &shape, &sample);
        Trial trial = {.network = network,
                       .sample = &sample,
                       .cuda = is_cuda(options),
                       .random = random_seed(network->name) + (uint64_t)(k / variants)};
        is_there = run_shape(options, module, k % variants ? "train_stepwise" : NULL, &trial);
        worst = fmax(worst, trial.worst);
        failures += trial.failures;
        count += trial.count;
        sample_free(network, &sample);
    }
    rnnc_module_close(module);
    printf("%-34s %3d tensors, worst error %.2f of its bound\n", network->name, count, worst);
    fflush(stdout);
    totals[0] += failures;
    totals[1] += count;
    return is_there;
}

/// Small networks tell as much as large ones here, and float32 is all that the CPU has.
static bool is_wanted(const Options *options, const Network *network)
{
    const bool is_carried = options->build_dir || options->run_dir;
    int64_t widest = 0;
    for (int l = 0; l < network->layer_count; l++)
        for (int d = 0; d < network->layers[l].direction_count; d++)
            widest = network->layers[l].cells[d].units > widest ? network->layers[l].cells[d].units
                                                                : widest;
    return (is_carried || strcmp(network->precision, "float32") == 0) && widest <= 24 &&
           (!options->filter || strstr(network->name, options->filter));
}

static bool read_options(int count, char **arguments, Options *out)
{
    *out = (Options){.device = "cpu"};
    for (int k = 1; k + 1 < count; k += 2) {
        const char *name = arguments[k], *value = arguments[k + 1];
        if (strcmp(name, "--filter") == 0)
            out->filter = value;
        else if (strcmp(name, "--build") == 0)
            out->build_dir = value;
        else if (strcmp(name, "--run") == 0)
            out->run_dir = value;
        else if (strcmp(name, "--device") == 0)
            out->device = value;
        else
            return false;
    }
    return count % 2 == 1 && !(out->build_dir && out->run_dir) && (!is_cuda(out) || out->run_dir);
}

int main(int argc, char **argv)
{
    char temporary[] = "/tmp/gradients.XXXXXX";
    int totals[2] = {0};
    bool is_there = true;
    Options options;
    if (!read_options(argc, argv, &options)) {
        fprintf(stderr, "usage: gradients [--filter TEXT] [--build DIR | --run DIR --device D]\n");
        return 2;
    }
    options.folder = options.build_dir ? options.build_dir
                     : options.run_dir ? options.run_dir
                                       : mkdtemp(temporary);
    if (!options.folder || (options.build_dir && mkdir(options.folder, 0777) && errno != EEXIST))
        return 3;
    Arena *arena = arena_create();
    const bool is_carried = options.build_dir || options.run_dir;
    Cases cases = cases_make(arena, is_carried ? CASES_GPU : CASES_QUICK);
    for (int k = 0; k < cases.count && is_there; k++) {
        Network *network = &cases.items[k].network;
        if (!is_wanted(&options, network))
            continue;
        network_train(network);
        if (options.build_dir)
            compile(arena, &options, network), totals[1]++;
        else
            is_there = run_case(arena, &options, network, totals);
    }
    if (options.folder == temporary)
        rmdir(options.folder);
    arena_destroy(arena);
    if (!is_there)
        return EXIT_SKIPPED;
    printf("%d passed, %d failed, 0 skipped\n", totals[1] - totals[0], totals[0]);
    return totals[0] || totals[1] == 0;
}
