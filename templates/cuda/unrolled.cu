// Variant unrolled: one launch for all steps, one CTA a batch row, all of R in registers, and the
// time loop written out RNN_UNROLL times, so that buffers and ring slots are constants and the
// compiler overlaps the end of one step (stores, the ring) with the start of the next.
//
// Data placement, step and barriers: recurrence.cuh. Floor of a step, LSTM with H = 64, float32:
// 64*256 multiply-adds on 128 lanes = 128 cycles, and some 250 of latency (h from shared memory,
// two shuffles, two activations, barrier). Limits: G*H*K weights fit the registers of one SM with
// some 56 a thread to spare (H to about 96 in float32). Shared memory: ring and h only.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/unrolled.cu
#include "cuda/recurrence.cuh"

static_assert(rnn_held == rnn_chunk_count, "unrolled holds all of R in registers");

extern "C" __global__ void __launch_bounds__(RNN_THREADS, 1) rnn_run(const RnnRun run)
{
    RnnThread self;
    rnn_begin(run, self);
    int s = 0;
    for (; s + RNN_UNROLL <= self.steps; s += RNN_UNROLL) {
#pragma unroll
        for (int i = 0; i < RNN_UNROLL; i++)
            rnn_step(run, self, s + i,
                     RNN_UNROLL % RNN_RING == 0 ? i % RNN_RING : (s + i) & (RNN_RING - 1));
    }
#pragma unroll 1
    for (; s < self.steps; s++)
        rnn_step(run, self, s, s & (RNN_RING - 1));
    rnn_end(run, self);
}
