// Condition: how far a network carries the rounding of what it multiplies. A norm divides by the
// deviation of what it is taken of, so that over many steps the answers of layer_norm_lstm in
// bfloat16 depend on how a weight was rounded; no arithmetic in that precision can do better.
#include "conform/condition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/// Bits of a product's operand, the leading one included.
static int operand_bits(const char *precision)
{
    return strcmp(precision, "float32") == 0 ? 24 : strcmp(precision, "bfloat16") == 0 ? 8 : 11;
}

static float *rounded(const float *from, int64_t count, int bits)
{
    float *to = malloc((size_t)count * sizeof *to);
    if (!to)
        abort();
    for (int64_t k = 0; k < count; k++) {
        int exponent;
        const double mantissa = frexp(from[k], &exponent);
        to[k] = (float)ldexp(nearbyint(ldexp(mantissa, bits)), exponent - bits);
    }
    return to;
}

/// Points what a cell multiplies by at rounded weights.
static void round_layer(NetworkLayer *layer, int bits)
{
    for (int w = 0; w < layer->weight_count; w++) {
        NetworkWeight *weight = &layer->weights[w];
        const float *old = weight->data;
        weight->data = rounded(old, weight->rows * weight->columns, bits);
        for (int d = 0; d < layer->direction_count; d++) {
            ReferenceCell *cell = &layer->cells[d];
            const float **multiplied[] = {&cell->W, &cell->R, &cell->P};
            for (int m = 0; m < 3; m++)
                if (*multiplied[m] == old)
                    *multiplied[m] = weight->data;
        }
    }
}

static double distance(const double *left, const double *right, int64_t count)
{
    double difference = 0.0, norm = 0.0;
    for (int64_t k = 0; k < count; k++) {
        difference += (left[k] - right[k]) * (left[k] - right[k]);
        norm += right[k] * right[k];
    }
    return norm > 0.0 ? sqrt(difference / norm) : 0.0;
}

double condition_of(const Network *network, const Sample *sample)
{
    Network other = *network;
    for (int l = 0; l < other.layer_count; l++)
        round_layer(&other.layers[l], operand_bits(network->precision));
    Sample moved;
    sample_make(&other, &sample->shape, &moved);
    double worst = 0.0;
    for (int k = 0; k < network_output_count(network); k++)
        worst = fmax(worst, distance(moved.y[k], sample->y[k],
                                     network_output_elems(network, k, sample->shape.batch,
                                                          sample->shape.timesteps)));
    for (int s = 0; s < network->state_count; s++)
        worst = fmax(worst, distance(moved.final[s], sample->final[s],
                                     sample->shape.batch * network->states[s].size));
    sample_free(&other, &moved);
    for (int l = 0; l < other.layer_count; l++)
        for (int w = 0; w < other.layers[l].weight_count; w++)
            free(other.layers[l].weights[w].data);
    return worst;
}
