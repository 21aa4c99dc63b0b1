// Floors: the least time in which a GPU could run a model once, from the device table alone. Here
// is the one place that says how:
//
//     floor     = launch + max(operations, memory, streaming, chain)
//     operations  2 * multiplications of all products / the peak of the precision: float32's of the
//                 CUDA cores; float16's and bfloat16's of the tensor cores; tf32's, half of that
//     memory      (x + y in float32 + weights once in the precision) / the memory's bandwidth;
//                 what passes between layers may stay on the chip
//     streaming   weights of the recurrence that registers and shared memory of all SMs do not hold
//                 are read every step: steps * that / twice the memory's bandwidth (from L2), or
//                 the memory's where L2 is too small as well
//     chain       steps * (latency + exchange): a step must wait for the one before. latency: a
//                 reduction, two activations one after the other and a barrier inside one SM.
//                 exchange: where R does not fit one SM, h has to travel, within a cluster of 16
//                 SMs or through L2
//     steps       T + depth - 1 where layers can overlap in time, T * depth where one runs in
//                 reverse; the recurrences of two directions run side by side
//
// The latencies are those measured on an H200 (launch 2.0 us; 0.19 us of a step of 64 units without
// its product; 0.33 us the fastest exchange within a cluster, 0.54 us through L2) and stand for
// every chip.
#ifndef RNNC_BENCH_FLOORS_H
#define RNNC_BENCH_FLOORS_H

#include "bench/results.h"
#include "plan/plan.h"

/// Multiplications and additions of all matrix products in one run.
double floors_operations(const Model *model, int64_t batch, int64_t timesteps);

/// `device` NULL: a floor of 0, not known.
BenchFloor floors_of(const Model *model, int64_t batch, int64_t timesteps, const Device *device);

/// "launch 2.0 + chain 52.0 (100 steps of 0.52); operations 3.1, memory 2.2 us", in the arena.
const char *floors_text(Arena *arena, const BenchFloor *floor);

#endif
