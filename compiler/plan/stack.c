// Stack: see stack.h.
#include "plan/stack.h"

#include <math.h>

/// A chunk of steps costs a launch of a product and of a recurrence.
static const double CHUNK_US = 6;

static bool runs_forward(const Model *model, int index)
{
    const Layer *layer = &model->layers[index];
    return layer->kind == LAYER_CELL && layer->sequence_in && !layer->reversed && !layer->beside &&
           !(index + 1 < model->layer_count && model->layers[index + 1].beside);
}

int stack_count(const Model *model, int index)
{
    int count = 1;
    if (!runs_forward(model, index))
        return count;
    while (count < STACK_MAX && index + count < model->layer_count &&
           runs_forward(model, index + count) && model->layers[index + count - 1].sequence_out)
        count++;
    return count;
}

/// Layers that begin one chunk after the other: the slowest sets the pace.
static double wave_us(const double *layer_us, int count, int64_t timesteps)
{
    double sum = 0, slowest = 0;
    for (int i = 0; i < count; i++) {
        sum += layer_us[i];
        slowest = layer_us[i] > slowest ? layer_us[i] : slowest;
    }
    if (count == 1)
        return sum;
    double chunks = floor(sqrt((count - 1) * slowest / CHUNK_US));
    chunks = chunks > (double)timesteps ? (double)timesteps : chunks;
    const double wave = chunks < 1 ? sum : (chunks + count - 1) * (slowest / chunks + CHUNK_US);
    return wave < sum ? wave : sum;
}

double stack_us(const double *layer_us, int count, int at_once, int64_t timesteps)
{
    double us = 0;
    for (int i = 0; i < count; i += at_once)
        us += wave_us(layer_us + i, count - i < at_once ? count - i : at_once, timesteps);
    return us;
}
