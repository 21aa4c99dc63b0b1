// Variant persistent_cta: one launch for all steps, one CTA a batch row; R lies in registers first
// and in shared memory for the rest, so that it is read from device memory once a launch.
//
// Data placement, step and barriers: recurrence.cuh. Floor of a step: the larger of G*H*K / 128
// cycles of multiply-add and the shared part's bytes / 128 cycles of shared-memory loads, and some
// 250 cycles of latency. Limits: ring, h and the shared part within the CTA's shared memory (227 KB
// on sm_90): an LSTM to about H = 150 in float32 and 200 in 16 bits.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/persistent_cta.cu
#include "cuda/recurrence.cuh"

extern "C" __global__ void __launch_bounds__(RNN_THREADS, 1) rnn_run(const RnnRun run)
{
    RnnThread self;
    rnn_begin(run, self);
#pragma unroll 1
    for (int s = 0; s < self.steps; s++)
        rnn_step(run, self, s, s & (RNN_RING - 1));
    rnn_end(run, self);
}
