// What the kernels of text generation have in common (generate.cu, generate_cluster.cu): what they
// are given, the noise and the comparison by which tokens are drawn, and the table of the first
// cell's W times the embedding.
//
// Tokens are drawn by the Gumbel-max trick (prim/gumbel.h): the best sum of logit / temperature and
// noise, the lowest token of equal ones. The bias of a banned token is NaN, which is never drawn.
// Tokens go to the host's memory as they come: a word that is no longer RNN_PENDING has arrived.
//
// With top_k or top_p one team draws a row's token (choices.cuh), for which the chances of all its
// tokens come together. Kernels that do so are others, so that those that do not are as they were.
#ifndef RNN_GENERATE_CUH
#define RNN_GENERATE_CUH

#include "cuda/cell.cuh"
#include "cuda/choices.cuh"
#include "prim/gumbel.h"

enum {
    RNN_LAYERS = RNN_PHASE_COUNT,
    RNN_LAST = RNN_LAYERS - 1,
    RNN_CANCEL_STEPS = 64, // from one look at `cancel` to the next
    RNN_PENDING = -3,
    RNN_NO_TOKEN = -2,
    RNN_ENDED = -1
};

/// What the run kernel is given; device memory but for `tokens`, `cancel` and `fault`, which are
/// the host's.
struct RnnGenerate {
    const uint4 *weights;    ///< by rnn_pack
    const float *table;      ///< [RNN_VOCABULARY, RNN_GATES, RNN_UNITS]
    const float *dense_bias; ///< [RNN_VOCABULARY]; NaN: banned
    const float *bias[RNN_PHASES_MAX], *recurrent_bias[RNN_PHASES_MAX];
    const float *parameter[RNN_PHASES_MAX]; ///< canonical, of each layer; NULL: none
    float *states[RNN_PHASES_MAX][RNN_STATES_MAX];
    const unsigned long long *seeds; ///< [rows]
    const unsigned char *stops;      ///< [RNN_VOCABULARY]; NULL: none
    const unsigned char *ended;      ///< [rows]: those that draw no more
    long long rows, steps;
    unsigned long long draw; ///< number of the first
    float inverse_temperature;
    int greedy;
    uint4 *buffers; ///< [group][RNN_SETS][rnn_offer_at(2)], zeros
    int *tokens;    ///< [steps, rows]
    const int *cancel;
    int *fault; ///< kind and three numbers
    int fault_kind;
    rnn_choice choice;
    void *chances; ///< of a kernel that chooses: zeros, as that says
};

/// A candidate: `token` is 1 more than its number; 0: none.
struct RnnOffer {
    float score;
    unsigned token;
};
RNN_INLINE void rnn_take_better(RnnOffer &best, const RnnOffer &other)
{
    if (other.token && (!best.token || other.score > best.score ||
                        (other.score == best.score && other.token < best.token)))
        best = other;
}

/// The noise of a token in a draw of a row with that seed; none of greedy runs.
RNN_INLINE float rnn_noise(const RnnGenerate &run, int token, long long step,
                           unsigned long long seed)
{
    unsigned words[4];
    if (run.greedy)
        return 0.0f;
    rnn_gumbel_words(words, token / 4, run.draw + step, seed);
    const unsigned low = token & 1 ? words[1] : words[0], high = token & 1 ? words[3] : words[2];
    return rnn_gumbel(token & 2 ? high : low);
}

RNN_INLINE float rnn_scaled(const RnnGenerate &run, float logit)
{
    return __fmul_rn(logit, run.inverse_temperature);
}

/// Tells the host that a wait has run out, where it has no fault to read yet.
RNN_INLINE void rnn_report(const RnnGenerate &run)
{
    if (*(volatile int *)run.fault || atomicCAS(run.fault, 0, run.fault_kind))
        return;
    run.fault[3] = 1;
    __threadfence_system();
}

/// The matrices of all layers, canonical.
struct RnnMatrices {
    const float *R[RNN_PHASES_MAX], *W[RNN_PHASES_MAX], *dense;
};

/// table[token] = W * E[token]; W [gates*H, width], E [vocabulary, width]. A warp a value.
extern "C" __global__ void rnn_fold(const float *W, const float *E, int width, float *table)
{
    const long long total = (long long)RNN_VOCABULARY * RNN_GATES * RNN_UNITS;
    const int lane = threadIdx.x % 32;
    for (long long at = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32; at < total;
         at += (long long)gridDim.x * blockDim.x / 32) {
        const float *w = W + at % (RNN_GATES * RNN_UNITS) * width;
        const float *x = E + at / (RNN_GATES * RNN_UNITS) * width;
        float sum = 0.0f;
        for (int k = lane; k < width; k += 32)
            sum = fmaf(w[k], x[k], sum);
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, distance);
        if (lane == 0)
            table[at] = sum;
    }
}

#endif
