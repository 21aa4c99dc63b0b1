// Gradients of every cell, activation and option against central differences of the float64
// reference: for each tensor, a step of +-EPSILON in every element, up or down at random, changes
// the loss by what the gradient says. The loss is a sum of outputs and final states, each with a
// weight of its own.
//
//     gradients [--filter TEXT]
//
// |change - gradient . step| / (EPSILON ||gradient||) has the size of the gradient's relative
// error.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build/build.h"
#include "conform/cases.h"
#include "rnnc/rnnc.h"

enum { DIRECTIONS = 2 };
static const double EPSILON = 1e-6;

/// One network on one sample, and what the module says of it.
typedef struct {
    const Network *network;
    Sample *sample;
    rnnc_session *session;
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
/// goes through forward's values and its own.
static double bound_of(const Trial *trial)
{
    int cells = 0;
    bool is_single = false;
    for (int l = 0; l < trial->network->layer_count; l++) {
        const NetworkLayer *layer = &trial->network->layers[l];
        cells += layer->direction_count;
        is_single |= layer->direction_count && layer->cells[0].units == 1 &&
                     strcmp(layer->cells[0].facts->name, "layer_norm_lstm") == 0;
    }
    return (is_single ? single_norm_factor : 1.0) * 2.0 * 2e-6 *
           sqrt((double)trial->sample->shape.timesteps * (cells ? cells : 1));
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
    if (worst <= bound_of(trial))
        return;
    trial->failures++;
    printf("FAIL %s B=%ld T=%ld masking %d: grad/%s: error %.3g, bound %.3g\n",
           trial->network->name, (long)trial->sample->shape.batch,
           (long)trial->sample->shape.timesteps, (int)trial->sample->shape.masking, tensor->name,
           worst, bound_of(trial));
    fflush(stdout);
}

static void require(const Trial *trial, rnnc_status status)
{
    if (status == RNNC_OK)
        return;
    printf("FAIL %s: %s\n", trial->network->name, rnnc_session_error(trial->session));
    exit(1);
}

static void bind(const Trial *trial, const char *name, void *data, uint8_t code, uint8_t bits,
                 const int64_t *shape, int ndim)
{
    int64_t dims[3] = {0}, strides[3];
    memcpy(dims, shape, (size_t)ndim * sizeof *dims);
    DLTensor tensor = {
        .data = data, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = {code, bits, 1}, .shape = dims};
    if (trial->network->time_major && ndim == 3) { // the memory is batch-major
        strides[0] = shape[2], strides[1] = shape[1] * shape[2], strides[2] = 1;
        dims[0] = shape[1], dims[1] = shape[0];
        tensor.strides = strides;
    }
    require(trial, rnnc_bind(trial->session, name, &tensor));
}

static float *room(int64_t count)
{
    float *values = calloc((size_t)count + 1, sizeof *values);
    for (int64_t k = 0; k < count; k++)
        values[k] = NAN; // whatever is not written shows
    return values;
}

/// Memory of one run, freed with it.
typedef struct {
    float *blocks[4 * NETWORK_STATES_MAX + NETWORK_LAYERS_MAX * NETWORK_WEIGHTS_MAX + 16];
    int count;
    Tensor tensors[NETWORK_STATES_MAX + NETWORK_LAYERS_MAX * NETWORK_WEIGHTS_MAX + 1];
    int tensor_count;
} Memory;

static float *keep(Memory *memory, float *block)
{
    return memory->blocks[memory->count++] = block;
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
        float *y = keep(memory, room(elems)), *dy = keep(memory, room(elems));
        for (int64_t n = 0; n < elems; n++)
            dy[n] = (float)trial->weights[k][n];
        bind(trial, name, y, kDLFloat, 32, dims, ndim);
        bind(trial, gradient_name(name), dy, kDLFloat, 32, dims, ndim);
    }
}

static void bind_states(const Trial *trial, Memory *memory)
{
    for (int s = 0; s < trial->network->state_count; s++) {
        const NetworkState *state = &trial->network->states[s];
        const int64_t count = state_elems(trial, s);
        const int64_t dims[] = {trial->sample->shape.batch, state->size};
        float *values = keep(memory, room(count)), *gradient = keep(memory, room(count));
        for (int64_t k = 0; k < count; k++) {
            values[k] = trial->sample->initial[s][k];
            gradient[k] = (float)trial->weights[NETWORK_OUTPUTS_MAX + s][k];
        }
        if (trial->sample->shape.has_initial)
            bind(trial, state->name, values, kDLFloat, 32, dims, 2);
        bind(trial, gradient_name(state->name), gradient, kDLFloat, 32, dims, 2);
        if (trial->sample->shape.has_initial)
            memory->tensors[memory->tensor_count++] =
                (Tensor){state->name, trial->sample->initial[s], NULL, count, gradient};
    }
}

static void bind_weights(const Trial *trial, Memory *memory)
{
    for (int l = 0; l < trial->network->layer_count; l++)
        for (int w = 0; w < trial->network->layers[l].weight_count; w++) {
            const NetworkWeight *weight = &trial->network->layers[l].weights[w];
            const int64_t dims[] = {weight->rows, weight->columns};
            const int64_t count = weight->rows * (weight->columns ? weight->columns : 1);
            float *gradient = keep(memory, room(count));
            bind(trial, gradient_name(weight->name), gradient, kDLFloat, 32, dims,
                 weight->columns ? 2 : 1);
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
        bind(trial, "x", trial->sample->x, kDLInt, 32, dims, 2);
    } else {
        float *gradient = keep(memory, room(count));
        bind(trial, "x", trial->sample->x, kDLFloat, 32, dims, 3);
        bind(trial, "grad/x", gradient, kDLFloat, 32, dims, 3);
        memory->tensors[memory->tensor_count++] =
            (Tensor){"x", NULL, trial->sample->input, count, gradient};
    }
    if (trial->sample->mask)
        bind(trial, "mask", trial->sample->mask, kDLUInt, 8, dims, 2);
    if (trial->sample->lengths)
        bind(trial, "lengths", trial->sample->lengths, kDLInt, 32, dims, 1);
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
    require(trial, rnnc_set_seed(trial->session, trial->sample->seed));
    require(trial, rnnc_forward(trial->session));
    require(trial, rnnc_backward(trial->session, NULL));
    for (int k = 0; k < memory.tensor_count; k++)
        check_tensor(trial, &memory.tensors[k]);
    for (int k = 0; k < memory.count; k++)
        free(memory.blocks[k]);
    for (int k = 0; k < NETWORK_OUTPUTS_MAX + NETWORK_STATES_MAX; k++)
        free(trial->weights[k]);
}

/// Compiles the network for training; the file is removed once it is open.
static rnnc_module *compiled(Arena *arena, const Network *network, const char *folder)
{
    Diags *diags = diags_create(arena);
    const char *spec = network_write(arena, diags, network, folder, "canonical");
    const CompileOptions options = {.spec_path = spec,
                                    .output_path = arena_format(arena, "%s/m.so", folder),
                                    .targets = "cpu",
                                    .variants = "auto",
                                    .jobs = 2};
    rnnc_module *module = NULL;
    if (!spec || !network_write_weights(arena, diags, network, folder) ||
        !compile_model(arena, diags, &options, NULL) ||
        rnnc_module_open(options.output_path, &module) != RNNC_OK) {
        printf("FAIL %s: does not compile: %s\n", network->name, rnnc_last_error());
        diags_print(diags, stdout, false);
        exit(1);
    }
    unlink(spec);
    unlink(options.output_path);
    unlink(arena_format(arena, "%s/%s.safetensors", folder, network->name));
    return module;
}

static const SampleShape shapes[] = {
    {.batch = 1, .timesteps = 1, .has_initial = true},
    {.batch = 3, .timesteps = 7},
    {.batch = 26, .timesteps = 6, .has_initial = true},
    {.batch = 7, .timesteps = 6, .has_initial = true, .masking = SAMPLE_MASK},
    {.batch = 7, .timesteps = 6, .masking = SAMPLE_LENGTHS},
};

static void run_case(Arena *arena, const Network *network, const char *folder, int totals[2])
{
    rnnc_module *module = compiled(arena, network, folder);
    double worst = 0.0;
    int failures = 0, count = 0;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        SampleShape shape = shapes[k];
        Sample sample;
        if (shape.masking == SAMPLE_LENGTHS && network->own_mask)
            continue;
        shape.batch = network->batch ? network->batch : shape.batch;
        sample_make(network, &shape, &sample);
        Trial trial = {
            .network = network, .sample = &sample, .random = random_seed(network->name) + k};
        const rnnc_session_options options = {.device = "cpu",
                                              .max_batch = shape.batch,
                                              .max_timesteps = shape.timesteps + 1,
                                              .training = 1};
        if (rnnc_session_create(module, &options, &trial.session) != RNNC_OK) {
            printf("FAIL %s: %s\n", network->name, rnnc_last_error());
            exit(1);
        }
        run_trial(&trial);
        worst = fmax(worst, trial.worst);
        failures += trial.failures;
        count += trial.count;
        rnnc_session_destroy(trial.session);
        sample_free(network, &sample);
    }
    rnnc_module_close(module);
    printf("%-34s %3d tensors, worst error %.2f of its bound\n", network->name, count, worst);
    fflush(stdout);
    totals[0] += failures;
    totals[1] += count;
}

/// Small networks tell as much as large ones here, and float32 is all that the CPU has.
static bool is_wanted(const Network *network, const char *filter)
{
    int64_t widest = 0;
    for (int l = 0; l < network->layer_count; l++)
        for (int d = 0; d < network->layers[l].direction_count; d++)
            widest = network->layers[l].cells[d].units > widest ? network->layers[l].cells[d].units
                                                                : widest;
    return strcmp(network->precision, "float32") == 0 && widest <= 24 &&
           (!filter || strstr(network->name, filter));
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/gradients.XXXXXX";
    const char *filter = argc == 3 && strcmp(argv[1], "--filter") == 0 ? argv[2] : NULL;
    int totals[2] = {0};
    Arena *arena = arena_create();
    Cases cases = cases_make(arena, CASES_QUICK);
    if (!mkdtemp(folder))
        return 1;
    for (int k = 0; k < cases.count; k++) {
        Network *network = &cases.items[k].network;
        if (!is_wanted(network, filter))
            continue;
        network_train(network);
        run_case(arena, network, folder, totals);
    }
    rmdir(folder);
    arena_destroy(arena);
    printf("%d of %d gradients failed\n", totals[0], totals[1]);
    return totals[0] || totals[1] == 0;
}
