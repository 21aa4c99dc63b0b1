// Variant train_cluster: training with one launch for all steps forward and one for all steps back,
// each with the matrices on the chip. Forward is persistent_cluster.cu, which keeps besides what
// the derivative needs; back is cluster_gradient.cuh. W*x before and the products over all steps
// after them are cuBLAS'.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/train_cluster.cu
#define RNN_TRAINING 1
#include "cuda/cluster_gradient.cuh"
#include "cuda/persistent_cluster.cu"

extern "C" __global__ void __launch_bounds__(RNN_BACK_THREADS, 1) rnn_back_run(const RnnBackRun run)
{
#if __CUDA_ARCH__ >= 900 // elsewhere the runtime finds no room for a cluster
    const int cluster = blockIdx.x / RNN_BACK_CTAS, clusters = gridDim.x / RNN_BACK_CTAS;
    RnnBackThread self;
    rnn_back_begin(run, self);
    rnn_cluster_sync();
    for (self.first_row = (long long)cluster * RNN_BACK_ROWS; self.first_row < run.at.batch;
         self.first_row += (long long)clusters * RNN_BACK_ROWS) {
        const long long left = run.at.batch - self.first_row;
        self.rows = left < RNN_BACK_ROWS ? (int)left : RNN_BACK_ROWS;
        rnn_back_rows(run, self);
    }
    rnn_cluster_sync();
    if (self.stuck)
        rnn_report(run.fault, run.fault_kind, run.layer);
#endif
}

/// What the host asks of the kernels back.
extern "C" __device__ int rnn_back_numbers[] = {
    RNN_BACK_CTAS, RNN_BACK_THREADS, RNN_BACK_ROWS, rnn_back_shared_bytes,
    RNN_BACK_CTAS *rnn_back_fragment_count *RNN_BACK_THREADS * 16 + rnn_back_column_count * 4};

/// Where one value of a phase's transposed matrix comes from: row k of the part of K that a CTA
/// has, which returns to `unit`. NULL where there is none.
RNN_INLINE const float *rnn_back_weight(const float *R, const float *P, int phase, int cta, int k,
                                        int unit)
{
    const RnnPhase &of = rnn_phases[phase];
    const int block = k / 8, blocks = RNN_BACK_WARPS * rnn_back_groups(of.size);
    const int gate = block / blocks;
    const int own = cta * rnn_back_share(of.size) + block % blocks * 8 + k % 8;
    return own < of.size && unit < of.operand_size
               ? (of.matrix == RNN_MATRIX_P ? P : R) +
                     ((long long)of.rows[gate] * of.size + own) * of.operand_size + unit
               : nullptr;
}

/// Finds the exponents of R's columns, before rnn_back_pack: 32 columns a CTA, of which each warp
/// reads a part.
extern "C" __global__ void __launch_bounds__(1024)
    rnn_back_measure(const float *R, const float *P, uint4 *packed)
{
    __shared__ unsigned largest[32][32];
    int *exponents = (int *)rnn_back_exponents(packed);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int at = blockIdx.x * 32; at < rnn_back_column_count; at += gridDim.x * 32) {
        const int own = at + lane;
        int phase = 0;
        while (own >= rnn_back_columns_at(phase + 1) && phase < RNN_PHASE_COUNT - 1)
            phase++;
        const RnnPhase &of = rnn_phases[phase];
        const int unit = own - rnn_back_columns_at(phase), count = of.row_count * of.size;
        const float *from = (of.matrix == RNN_MATRIX_P ? P : R) + unit;
        unsigned most = 0;
        if (unit < of.operand_size)
#pragma unroll 4
            for (int k = warp; k < count; k += warps) {
                const long long row = (long long)of.rows[k / of.size] * of.size + k % of.size;
                const unsigned bits = __float_as_uint(from[row * of.operand_size]) & 0x7fffffff;
                most = bits > most && bits < 0x7f800000 ? bits : most;
            }
        largest[warp][lane] = most;
        __syncthreads();
        for (int w = 1; w < warps; w++)
            most = warp == 0 && largest[w][lane] > most ? largest[w][lane] : most;
        if (warp == 0 && own < rnn_back_column_count)
            exponents[own] = rnn_range_exponent(__uint_as_float(most));
        __syncthreads();
    }
}

/// Packs canonical R [gates*H, K] and P [P, H] for the way back: [cta][fragment][thread], with
/// zeros beyond the ends, and scaled by the exponents where bfloat16 does not do without.
extern "C" __global__ void rnn_back_pack(const float *R, const float *P, uint4 *packed)
{
    const long long total = (long long)RNN_BACK_CTAS * rnn_back_fragment_count * RNN_BACK_THREADS;
    const int *exponents = rnn_back_exponents(packed);
    for (long long at = blockIdx.x * blockDim.x + threadIdx.x; at < total;
         at += (long long)gridDim.x * blockDim.x) {
        const int thread = at % RNN_BACK_THREADS, lane = thread % 32;
        const int fragment = at / RNN_BACK_THREADS % rnn_back_fragment_count;
        const int cta = at / RNN_BACK_THREADS / rnn_back_fragment_count;
        int phase = 0;
        while (fragment >= rnn_back_first_fragment(phase + 1))
            phase++;
        const int within = (fragment - rnn_back_first_fragment(phase)) / RNN_BACK_PARTS;
        const int tiles = rnn_back_m_tiles(phase), first = within / tiles * 16;
        const int tile_unit = rnn_back_first_unit(phase, within % tiles, cta, thread / 32);
        unsigned words[4];
        for (int i = 0; i < 4; i++) { // half of the tile: i % 2; second block of K from 2
            const int unit = tile_unit + i % 2 * 8 + lane / 4;
            const float factor =
                RNN_BACK_SCALED && tile_unit >= 0
                    ? rnn_range_factor(exponents[rnn_back_columns_at(phase) + unit])
                    : 1.0f;
            float w[2] = {};
            for (int e = 0; e < 2; e++) {
                const float *from =
                    rnn_back_weight(R, P, phase, cta, first + i / 2 * 8 + lane % 4 * 2 + e, unit);
                if (tile_unit >= 0 && from)
                    w[e] = *from * factor;
            }
            const unsigned pair = rnn_pair(w[0], w[1]);
#if RNN_PRECISION == 0
            words[i] = fragment % 2 ? rnn_pair_rest(w[0], w[1], pair) : pair;
#else
            words[i] = pair;
#endif
        }
        packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
