// Samples: inputs, masks, lengths and initial states drawn from the network's name and the shape,
// carried through the reference layer by layer.
#include <math.h>
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

/// What flows from layer to layer: [B, T, width], or [B, width] past the last sequence. A mask or
/// lengths hold as long as there are steps.
typedef struct {
    double *data;
    int64_t batch, timesteps, width; ///< timesteps 1 past the last sequence
    uint8_t *mask;                   ///< [B, T], owned; NULL: none
    const int32_t *lengths;
} Flow;

/// Draws x and returns it in float64 as well (NULL for tokens).
static double *draw_input(const Network *network, Sample *sample, uint64_t *seed)
{
    const int64_t steps = sample->shape.batch * sample->shape.timesteps;
    if (network_tokens(network)) {
        int32_t *tokens = allocate((size_t)steps * sizeof *tokens);
        const bool padded = network->layers[0].mask_zero;
        for (int64_t k = 0; k < steps; k++)
            tokens[k] = padded && random_uniform(seed, 0.0, 1.0) < 0.3
                            ? 0
                            : (int32_t)random_uniform(seed, 0.0, (double)network->inputs);
        sample->x = tokens;
        return NULL;
    }
    const bool masking = network->layers[0].kind == NETWORK_MASKING;
    const int64_t I = network->inputs, count = steps * I;
    float *x = allocate((size_t)count * sizeof *x);
    double *exact = allocate((size_t)count * sizeof *exact);
    for (int64_t k = 0; k < count; k++)
        x[k] = (float)random_uniform(seed, -1.5, 1.5);
    for (int64_t step = 0; masking && step < steps; step++) // whole steps, and single features
        for (int64_t k = 0, all = random_uniform(seed, 0.0, 1.0) < 0.3; k < I; k++)
            if (all || random_uniform(seed, 0.0, 1.0) < 0.1)
                x[step * I + k] = (float)network->layers[0].mask_value;
    for (int64_t k = 0; k < count; k++)
        exact[k] = (double)x[k];
    sample->x = x;
    return exact;
}

/// Row by row in turn: left padding, holes, all masked, at random, none masked, right padding.
static void draw_mask(Sample *sample, uint64_t *seed)
{
    const int64_t batch = sample->shape.batch, timesteps = sample->shape.timesteps;
    sample->mask = allocate((size_t)(batch * timesteps));
    const int64_t first = (int64_t)random_uniform(seed, 0.0, 6.0);
    for (int64_t row = 0; row < batch; row++) {
        const int64_t edge = (int64_t)random_uniform(seed, 0.0, (double)timesteps + 1.0);
        for (int64_t t = 0; t < timesteps; t++) {
            const bool heads = random_uniform(seed, 0.0, 1.0) < 0.5;
            const bool kinds[] = {t >= edge, t < edge || t > edge + 2, false, heads, true,
                                  t < edge};
            sample->mask[row * timesteps + t] = kinds[(row + first) % 6];
        }
    }
}

/// Row by row in turn: any, T, 0, 1.
static void draw_lengths(Sample *sample, uint64_t *seed)
{
    const int64_t batch = sample->shape.batch, timesteps = sample->shape.timesteps;
    sample->lengths = allocate((size_t)batch * sizeof *sample->lengths);
    const int64_t first = (int64_t)random_uniform(seed, 0.0, 4.0);
    for (int64_t row = 0; row < batch; row++) {
        const int64_t any = (int64_t)random_uniform(seed, 0.0, (double)timesteps + 1.0);
        const int64_t kinds[] = {any, timesteps, 0, 1};
        sample->lengths[row] = (int32_t)kinds[(row + first) % 4];
    }
}

/// Steps that are not taken hold NaN, which must not reach anything.
static void poison_input(const Network *network, Sample *sample, double *exact)
{
    const int64_t batch = sample->shape.batch, timesteps = sample->shape.timesteps;
    for (int64_t step = 0; exact && step < batch * timesteps; step++) {
        const bool masked = sample->mask && !sample->mask[step];
        const bool beyond =
            sample->lengths && step % timesteps >= sample->lengths[step / timesteps];
        for (int64_t k = 0; (masked || beyond) && k < network->inputs; k++) {
            const int64_t at = step * network->inputs + k;
            exact[at] = NAN;
            ((float *)sample->x)[at] = NAN;
        }
    }
}

/// slstm's normaliser n must be positive; all others lie around 0.
static void draw_states(const Network *network, Sample *sample, uint64_t *seed)
{
    for (int s = 0; s < network->state_count; s++) {
        const NetworkState *state = &network->states[s];
        const ReferenceCell *cell = &network->layers[state->layer].cells[state->direction];
        const bool positive = cell->facts->states[state->index][0] == 'n';
        const int64_t count = sample->shape.batch * state->size;
        float *initial = allocate((size_t)count * sizeof *initial);
        for (int64_t k = 0; k < count; k++)
            initial[k] = (float)(positive ? random_uniform(seed, 0.5, 1.5)
                                          : random_uniform(seed, -0.8, 0.8));
        sample->initial[s] = initial;
        sample->final[s] = allocate((size_t)count * sizeof *sample->final[s]);
    }
}

/// The states before the first step, in the place of the final ones.
static void set_states(const Network *network, Sample *sample)
{
    for (int s = 0; s < network->state_count; s++) {
        const NetworkState *state = &network->states[s];
        const ReferenceCell *cell = &network->layers[state->layer].cells[state->direction];
        for (int64_t k = 0; k < sample->shape.batch * state->size; k++)
            sample->final[s][k] = sample->shape.has_initial
                                      ? (double)sample->initial[s][k]
                                      : reference_state_start(cell, state->index);
    }
}

/// Masks the steps for which `masked` [B, T] says so, on top of what is masked already.
static void add_mask(Flow *flow, const bool *masked)
{
    const int64_t steps = flow->batch * flow->timesteps;
    if (!flow->mask) {
        flow->mask = allocate((size_t)steps);
        memset(flow->mask, 1, (size_t)steps);
    }
    for (int64_t k = 0; k < steps; k++)
        if (masked[k])
            flow->mask[k] = 0;
}

static void run_embedding(const NetworkLayer *layer, const int32_t *tokens, Flow *flow)
{
    const int64_t steps = flow->batch * flow->timesteps;
    flow->data = allocate((size_t)(steps * layer->outputs) * sizeof *flow->data);
    reference_embedding(layer->weights[0].data, layer->outputs, steps, tokens, flow->data);
    bool *masked = allocate((size_t)steps * sizeof *masked);
    for (int64_t k = 0; k < steps; k++)
        masked[k] = tokens[k] == 0;
    if (layer->mask_zero)
        add_mask(flow, masked);
    free(masked);
}

static void run_masking(const NetworkLayer *layer, Flow *flow)
{
    const int64_t steps = flow->batch * flow->timesteps, I = flow->width;
    bool *masked = allocate((size_t)steps * sizeof *masked);
    for (int64_t step = 0; step < steps; step++) {
        masked[step] = true;
        for (int64_t k = 0; k < I; k++)
            masked[step] &= flow->data[step * I + k] == (double)(float)layer->mask_value;
        for (int64_t k = 0; masked[step] && k < I; k++)
            flow->data[step * I + k] = 0.0;
    }
    add_mask(flow, masked);
    free(masked);
}

/// Multiplies data [B, T, width] by the factors of a dropout; `per_sequence`: the same in all
/// steps.
static void drop(const Sample *sample, const Flow *flow, int layer, double rate, bool per_sequence,
                 double *data)
{
    for (int64_t row = 0; row < flow->batch; row++)
        for (int64_t t = 0; t < flow->timesteps; t++)
            for (int64_t k = 0; k < flow->width; k++) {
                const ReferenceDraw draw = {.unit = (uint32_t)k,
                                            .row = (uint32_t)row,
                                            .layer = (uint32_t)layer,
                                            .time = per_sequence ? 0 : (uint32_t)t};
                data[(row * flow->timesteps + t) * flow->width + k] *=
                    reference_dropout(sample->seed, &draw, rate);
            }
}

/// Factors of what R multiplies: [B, O].
static double *draw_recurrent(const Sample *sample, int64_t batch, int64_t outputs, int layer,
                              double rate)
{
    double *factors = allocate((size_t)(batch * outputs) * sizeof *factors);
    for (int64_t k = 0; k < batch * outputs; k++) {
        const ReferenceDraw draw = {.unit = (uint32_t)(k % outputs),
                                    .row = (uint32_t)(k / outputs),
                                    .layer = (uint32_t)layer,
                                    .recurrent = true};
        factors[k] = reference_dropout(sample->seed, &draw, rate);
    }
    return factors;
}

/// One direction of layer `l`: [B, T or 1, O]. Keras zeroes masked outputs of a bidirectional
/// layer's sequences unless told otherwise.
static double *run_direction(const Network *network, int l, int direction, Sample *sample,
                             const Flow *flow)
{
    const NetworkLayer *layer = &network->layers[l];
    const ReferenceCell *cell = &layer->cells[direction];
    const NetworkCell *options = &layer->options[direction], *first = &layer->options[0];
    const bool sequences = network_layer_sequences(network, l);
    const bool drops = network->drops && options->dropout > 0.0;
    const bool drops_state = network->drops && options->recurrent_dropout > 0.0;
    const int64_t O = reference_outputs(cell), steps = flow->batch * flow->timesteps;
    const size_t x_bytes = (size_t)(steps * flow->width) * sizeof(double);
    double *states[REFERENCE_STATES_MAX] = {NULL}, *factors = NULL;
    double *x = allocate(x_bytes), *y = allocate((size_t)(steps * O) * sizeof *y);
    for (int s = 0; s < network->state_count; s++)
        if (network->states[s].layer == l && network->states[s].direction == direction)
            states[network->states[s].index] = sample->final[s];
    memcpy(x, flow->data, x_bytes);
    if (drops)
        drop(sample, flow, layer->dropout_index[direction], options->dropout, true, x);
    if (drops_state)
        factors = draw_recurrent(sample, flow->batch, O, layer->dropout_index[direction],
                                 options->recurrent_dropout);
    const ReferenceSequence sequence = {
        .reversed = direction == 1 || first->direction == NETWORK_REVERSE ||
                    first->direction == NETWORK_GO_BACKWARDS,
        .go_backwards = first->direction == NETWORK_GO_BACKWARDS,
        .zero_output_for_mask =
            first->zero_output_for_mask > 0 ||
            (first->zero_output_for_mask == 0 && layer->direction_count == 2 && sequences),
        .last = !sequences,
        .mask = flow->mask,
        .lengths = flow->lengths,
        .recurrent_scale = factors,
        .zones_out = network->trains,
        .seed = sample->seed,
        .layer = layer->dropout_index[direction],
    };
    reference_cell_run(cell, &sequence, flow->batch, flow->timesteps, x, states, y);
    free(x);
    free(factors);
    return y;
}

static double merged(NetworkMerge merge, double forward, double backward)
{
    switch (merge) {
    case NETWORK_SUM:
        return forward + backward;
    case NETWORK_MUL:
        return forward * backward;
    case NETWORK_AVE:
        return (forward + backward) / 2.0;
    default:
        return forward;
    }
}

/// [rows, F] and [rows, K] to [rows, F + K].
static double *concatenate(const double *forward, int64_t F, const double *backward, int64_t K,
                           int64_t rows)
{
    double *y = allocate((size_t)(rows * (F + K)) * sizeof *y);
    for (int64_t row = 0; row < rows; row++) {
        memcpy(y + row * (F + K), forward + row * F, (size_t)F * sizeof *y);
        memcpy(y + row * (F + K) + F, backward + row * K, (size_t)K * sizeof *y);
    }
    return y;
}

static void run_cells(const Network *network, int l, Sample *sample, Flow *flow)
{
    const NetworkLayer *layer = &network->layers[l];
    const NetworkMerge merge = layer->options[0].merge;
    double *y[2] = {NULL, NULL};
    for (int d = 0; d < layer->direction_count; d++)
        y[d] = run_direction(network, l, d, sample, flow);
    free(flow->data);
    if (!network_layer_sequences(network, l)) {
        flow->timesteps = 1;
        free(flow->mask);
        flow->mask = NULL;
        flow->lengths = NULL;
    }
    const int64_t rows = flow->batch * flow->timesteps;
    flow->data = y[0];
    if (layer->direction_count == 2 && merge == NETWORK_CONCAT) {
        flow->data = concatenate(y[0], reference_outputs(&layer->cells[0]), y[1],
                                 reference_outputs(&layer->cells[1]), rows);
        free(y[0]);
    } else if (layer->direction_count == 2 && merge == NETWORK_NONE) {
        sample->y[1] = y[1];
        return;
    }
    for (int64_t k = 0; y[1] && merge != NETWORK_CONCAT && k < rows * layer->outputs; k++)
        y[0][k] = merged(merge, y[0][k], y[1][k]);
    free(y[1]);
}

static void run_dense(const NetworkLayer *layer, Flow *flow)
{
    const int64_t rows = flow->batch * flow->timesteps;
    double *y = allocate((size_t)(rows * layer->outputs) * sizeof *y);
    reference_dense(layer->weights[0].data, layer->weights[1].data, &layer->activation, rows,
                    layer->inputs, layer->outputs, flow->data, y);
    free(flow->data);
    flow->data = y;
}

static void run_layer(const Network *network, int l, Sample *sample, Flow *flow)
{
    const NetworkLayer *layer = &network->layers[l];
    switch (layer->kind) {
    case NETWORK_EMBEDDING:
        run_embedding(layer, sample->x, flow);
        break;
    case NETWORK_DENSE:
        run_dense(layer, flow);
        break;
    case NETWORK_CELL:
        run_cells(network, l, sample, flow);
        break;
    case NETWORK_DROPOUT:
        if (network->drops && layer->rate > 0.0)
            drop(sample, flow, layer->dropout_index[0], layer->rate, false, flow->data);
        break;
    case NETWORK_ACTIVATION:
        for (int64_t k = 0; k < flow->batch * flow->timesteps * flow->width; k++)
            flow->data[k] = reference_activation(&layer->activation, flow->data[k]);
        break;
    case NETWORK_MASKING:
        run_masking(layer, flow);
        break;
    }
    flow->width = layer->outputs;
}

void sample_answer(const Network *network, Sample *sample)
{
    const int64_t batch = sample->shape.batch, timesteps = sample->shape.timesteps;
    Flow flow = {.batch = batch, .timesteps = timesteps, .width = network->inputs};
    set_states(network, sample);
    for (int k = 0; k < NETWORK_OUTPUTS_MAX; k++)
        free(sample->y[k]);
    if (sample->input) {
        const size_t bytes = (size_t)(batch * timesteps * network->inputs) * sizeof *flow.data;
        flow.data = allocate(bytes);
        memcpy(flow.data, sample->input, bytes);
    }
    flow.lengths = sample->lengths;
    if (sample->mask) {
        flow.mask = allocate((size_t)(batch * timesteps));
        memcpy(flow.mask, sample->mask, (size_t)(batch * timesteps));
    }
    for (int l = 0; l < network->layer_count; l++)
        run_layer(network, l, sample, &flow);
    sample->y[0] = flow.data;
    free(flow.mask);
}

void sample_make(const Network *network, const SampleShape *shape, Sample *out)
{
    *out = (Sample){.shape = *shape};
    uint64_t seed = random_seed(network->name) +
                    (uint64_t)(shape->batch * 1000003 + shape->timesteps) +
                    (uint64_t)shape->masking * 7919;
    out->seed = seed;
    out->input = draw_input(network, out, &seed);
    draw_states(network, out, &seed);
    if (shape->masking == SAMPLE_MASK)
        draw_mask(out, &seed);
    if (shape->masking == SAMPLE_LENGTHS)
        draw_lengths(out, &seed);
    poison_input(network, out, out->input);
    sample_answer(network, out);
}

void sample_free(const Network *network, Sample *sample)
{
    for (int s = 0; s < network->state_count; s++) {
        free(sample->initial[s]);
        free(sample->final[s]);
    }
    free(sample->x);
    free(sample->input);
    free(sample->mask);
    free(sample->lengths);
    for (int k = 0; k < NETWORK_OUTPUTS_MAX; k++)
        free(sample->y[k]);
}
