// Statistics of timings: order statistics of samples, and means of ratios.
#ifndef RNNC_BENCH_STATISTICS_H
#define RNNC_BENCH_STATISTICS_H

/// The value below which the share `rank` (0 to 1) of the samples lies, interpolated linearly
/// between the two nearest of the sorted samples; rank 0.5 is the median. Sorts `samples`; NaN
/// where there is none.
double statistics_quantile(double *samples, int count, double rank);

/// exp of the mean of the logarithms; NaN for no ratio, or where one is not above 0.
double statistics_geometric_mean(const double *ratios, int count);

/// What a pick costs over the best: 1 where it is the best. NaN where either is not above 0.
double statistics_regret(double picked_us, double best_us);

#endif
