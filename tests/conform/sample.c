// Samples: inputs and initial states drawn from the network's name and the sizes, carried through
// the reference layer by layer.
#include <stdlib.h>
#include <string.h>

#include "conform/network.h"

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    if (!memory)
        abort();
    return memory;
}

/// Draws x and returns it in float64 as well (NULL for tokens).
static double *draw_input(const Network *network, Sample *sample, uint64_t *seed)
{
    const int64_t steps = sample->batch * sample->timesteps;
    if (network_tokens(network)) {
        int32_t *tokens = allocate((size_t)steps * sizeof *tokens);
        for (int64_t k = 0; k < steps; k++)
            tokens[k] = (int32_t)random_uniform(seed, 0.0, (double)network->inputs);
        sample->x = tokens;
        sample->x_bytes = (size_t)steps * sizeof *tokens;
        return NULL;
    }
    const int64_t count = steps * network->inputs;
    float *x = allocate((size_t)count * sizeof *x);
    double *exact = allocate((size_t)count * sizeof *exact);
    for (int64_t k = 0; k < count; k++) {
        x[k] = (float)random_uniform(seed, -1.5, 1.5);
        exact[k] = (double)x[k];
    }
    sample->x = x;
    sample->x_bytes = (size_t)count * sizeof *x;
    return exact;
}

/// slstm's normaliser n must be positive; all others lie around 0.
static void draw_states(const Network *network, Sample *sample, uint64_t *seed)
{
    for (int s = 0; s < network->state_count; s++) {
        const NetworkState *state = &network->states[s];
        const ReferenceCell *cell = &network->layers[state->layer].cell;
        const bool positive = cell->facts->states[state->index][0] == 'n';
        const int64_t count = sample->batch * state->size;
        float *initial = allocate((size_t)count * sizeof *initial);
        double *final = allocate((size_t)count * sizeof *final);
        for (int64_t k = 0; k < count; k++) {
            initial[k] = (float)(positive ? random_uniform(seed, 0.5, 1.5)
                                          : random_uniform(seed, -0.8, 0.8));
            final[k] = sample->has_initial ? (double)initial[k]
                                           : reference_state_start(cell, state->index);
        }
        sample->initial[s] = initial;
        sample->final[s] = final;
    }
}

static double *run_layer(const Network *network, int l, Sample *sample, const double *x)
{
    const NetworkLayer *layer = &network->layers[l];
    const int64_t steps = sample->batch * sample->timesteps;
    double *y = allocate((size_t)(steps * layer->outputs) * sizeof *y);
    if (layer->kind == NETWORK_EMBEDDING) {
        reference_embedding(layer->weights[0].data, layer->outputs, steps, sample->x, y);
    } else if (layer->kind == NETWORK_DENSE) {
        reference_dense(layer->weights[0].data, layer->weights[1].data, &layer->activation, steps,
                        layer->inputs, layer->outputs, x, y);
    } else {
        double *states[REFERENCE_STATES_MAX] = {NULL};
        for (int s = 0; s < network->state_count; s++)
            if (network->states[s].layer == l)
                states[network->states[s].index] = sample->final[s];
        reference_cell_run(&layer->cell, sample->batch, sample->timesteps, x, states, y);
    }
    return y;
}

/// Without sequences the layers past the last cell see the last step only; running them on all
/// steps and keeping the last is the same.
static double *last_steps(const Network *network, const Sample *sample, double *y)
{
    const int64_t O = network_outputs(network), T = sample->timesteps;
    double *last = allocate((size_t)(sample->batch * O) * sizeof *last);
    for (int64_t row = 0; row < sample->batch; row++)
        memcpy(last + row * O, y + (row * T + T - 1) * O, (size_t)O * sizeof *last);
    free(y);
    return last;
}

void sample_make(const Network *network, int64_t batch, int64_t timesteps, bool has_initial,
                 Sample *out)
{
    *out = (Sample){.batch = batch, .timesteps = timesteps, .has_initial = has_initial};
    uint64_t seed = random_seed(network->name) + (uint64_t)(batch * 1000003 + timesteps);
    double *y = draw_input(network, out, &seed);
    draw_states(network, out, &seed);
    for (int l = 0; l < network->layer_count; l++) {
        double *next = run_layer(network, l, out, y);
        free(y);
        y = next;
    }
    out->y = network->sequences ? y : last_steps(network, out, y);
}

void sample_free(const Network *network, Sample *sample)
{
    for (int s = 0; s < network->state_count; s++) {
        free(sample->initial[s]);
        free(sample->final[s]);
    }
    free(sample->x);
    free(sample->y);
}
