// Adam: see adam.h. Moments are float32, as in PyTorch; a step's arithmetic is float64.
#include "train/adam.h"

#include <math.h>

void adam_step(const AdamOptions *options, int64_t step, double rate, double scale,
               const float *gradient, float *weights, float *mean, float *square, int64_t count)
{
    const double beta1 = options->beta1, beta2 = options->beta2;
    const double of_mean = rate / (1 - pow(beta1, (double)step));
    const double of_root = 1 / sqrt(1 - pow(beta2, (double)step));
    const double kept = 1 - rate * options->weight_decay;
    for (int64_t k = 0; k < count; k++) {
        const double g = scale * (double)gradient[k];
        const double m = beta1 * (double)mean[k] + (1 - beta1) * g;
        const double v = beta2 * (double)square[k] + (1 - beta2) * g * g;
        mean[k] = (float)m;
        square[k] = (float)v;
        weights[k] = (float)(kept * (double)weights[k] -
                             of_mean * m / (sqrt(v) * of_root + options->epsilon));
    }
}
