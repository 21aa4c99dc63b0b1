// Statistics of timings: see statistics.h.
#include "bench/statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double statistics_quantile(double *samples, int count, double rank)
{
    if (count == 0)
        return NAN;
    qsort(samples, (size_t)count, sizeof *samples, compare);
    const double place = rank * (count - 1);
    const int below = (int)place, above = below + 1 < count ? below + 1 : below;
    return samples[below] + (place - below) * (samples[above] - samples[below]);
}

double statistics_geometric_mean(const double *ratios, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        if (!(ratios[i] > 0))
            return NAN;
        sum += log(ratios[i]);
    }
    return count ? exp(sum / count) : NAN;
}

double statistics_regret(double picked_us, double best_us)
{
    return picked_us > 0 && best_us > 0 ? picked_us / best_us : NAN;
}
