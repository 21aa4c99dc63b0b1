// Text generation in one launch: every token of every row. The cells' layers have equal cells, as
// those of a stack; groups of CTAs share all weights as in persistent_grid.cu, each CTA owning
// RNN_SHARE units of every layer, and RNN_MORE_ROWS logits at most.
//
// What multiplies the output h of a layer is one matrix: R of its next step below W of the layer
// behind it, or below the dense layer's rows. So h is received once, and R*h of the next step is
// there before its token is known:
//
//     product l (for `rnn_phases` a phase each):  [R_l; W_l+1] * h_l      [R_last; dense] * h_last
//
//     step:  receive h_last: R*h, logits | own best token sent | best of all received | barrier
//            layer 0 from the table's row of the token, h_0 sent
//            layer l: receive h_l-1: R*h of the next step, W*h | layer l, h_l sent
//
// The embedding times W of the first cell is a table [token][gate][unit] in float32 (rnn_fold),
// this CTA's part of it in shared memory where that holds it.
//
// Tokens are drawn by the Gumbel-max trick (prim/gumbel.h): a CTA with logits sends the best sum of
// logit / temperature and noise with its token, two packets, and every CTA takes the best of all,
// the lowest token of equal ones. The bias of a banned token is NaN, which is never drawn. Tokens
// go to the host's memory as they come: a word that is no longer RNN_PENDING has arrived. The first
// CTA of a group looks now and then whether the host has raised `cancel`; its packet tells the
// others, so that all leave at one step.
//
// Buffers are ordered as in grid_product.cuh: h of an epoch is written over that of two before,
// and between lies the h that every CTA has sent after its product; a packet of the draw likewise.
// The loop therefore ends behind the product of the last h.
//
// Shared memory: partial sums | fragments | tokens | table. Limits: every CTA of the grid is
// resident (cooperative launch); cells of one phase, whose products take their output h.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/generate.cu
#ifndef RNN_UNITS
#include "cuda/default_generate.cuh"
#endif
#include "cuda/grid_product.cuh"
#include "cuda/prim/async.cuh"
#include "prim/gumbel.h"

enum {
    RNN_LAYERS = RNN_PHASE_COUNT,
    RNN_LAST = RNN_LAYERS - 1,
    RNN_LANES = RNN_ROWS <= 8 ? 32 : RNN_THREADS / RNN_ROWS,            // that draw one row's token
    RNN_DRAWS = (RNN_MORE_ROWS + RNN_LANES - 1) / RNN_LANES,            // logits of one thread
    RNN_DRAWERS = (RNN_VOCABULARY + RNN_MORE_ROWS - 1) / RNN_MORE_ROWS, // CTAs with logits
    RNN_OFFERS = (RNN_DRAWERS + RNN_LANES - 1) / RNN_LANES,             // that one thread receives
    RNN_CANCEL_STEPS = 64,                                              // from one look to the next
    RNN_PENDING = -3,
    RNN_NO_TOKEN = -2,
    RNN_ENDED = -1
};
constexpr unsigned rnn_cancelled = 0x80000000;
static_assert(RNN_DRAWERS <= RNN_CTAS, "each CTA has RNN_MORE_ROWS logits at most");

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
    uint4 *buffers;   ///< [group][rnn_offer_at(2)]
    unsigned *epochs; ///< [group]: the last one used
    int *tokens;      ///< [steps, rows]
    const int *cancel;
    int *fault; ///< kind and three numbers
    int fault_kind;
};

/// What a thread keeps of one layer.
struct RnnLayer {
    float bias[rnn_item_count][RNN_SOME(RNN_BIASES)];
    float recurrent_bias[rnn_item_count][RNN_SOME(RNN_RECURRENT_BIASES)];
    float parameter[rnn_item_count][RNN_SOME(RNN_PARAMETERS)];
    float state[rnn_item_count][RNN_STATES];
    float product[rnn_item_count][RNN_RECURRENT_ROWS]; ///< R*h for the next step
};

/// What it keeps to draw: as lane rnn_draw_lane() of row rnn_draw_row().
struct RnnDrawer {
    float bias[RNN_DRAWS], noise[RNN_DRAWS];
    unsigned *tokens; ///< shared: [RNN_ROWS] the token drawn and 1 more; 0: none
    const float *table;
    int token_stride, gate_stride; ///< of the table
    bool ended;                    ///< the items' row
};

RNN_INLINE int rnn_draw_row()
{
    return (int)threadIdx.x / RNN_LANES;
}
RNN_INLINE int rnn_draw_lane()
{
    return (int)threadIdx.x % RNN_LANES;
}

/// Where the offers of an epoch's parity lie, behind the operands; of parity 2: the end.
constexpr __device__ long long rnn_offer_at(int parity)
{
    return rnn_buffer_at(RNN_PHASE_COUNT) +
           (long long)parity * RNN_REPLICAS * RNN_ROWS * RNN_DRAWERS;
}

/// The token of this thread's logit `i`, or one beyond the vocabulary.
RNN_INLINE int rnn_own_token(const RnnThread &self, int i)
{
    const int at = rnn_draw_lane() + i * RNN_LANES;
    return at < RNN_MORE_ROWS ? self.cta * RNN_MORE_ROWS + at : RNN_VOCABULARY;
}

/// The value of row `row_of_R` of this CTA's matrix of a product: the sum of the warps' partials.
template <int Product> RNN_INLINE float rnn_sum(const float *partials, int row_of_R, int row)
{
    const float *partial = partials + row_of_R * RNN_ROWS + (row ^ rnn_swap(row_of_R));
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < RNN_WARPS; w++)
        sum += partial[w * rnn_row_tiles(Product) * 16 * RNN_ROWS];
    return sum;
}

/// R*h of a layer, to what it keeps for its next step.
template <int Layer> RNN_INLINE void rnn_take_recurrent(RnnLayer &layer, const float *partials)
{
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int g = 0; g < RNN_RECURRENT_ROWS; g++)
            if (rnn_item_unit(i) < RNN_SHARE)
                layer.product[i][g] =
                    rnn_sum<Layer>(partials, g * RNN_SHARE + rnn_item_unit(i), rnn_item_row());
}

/// The product of a layer's h, which is that of the epoch: to `input` W*h of the layer behind it.
template <int Layer>
RNN_INLINE void rnn_receive(RnnThread &self, RnnLayer &layer,
                            float (&input)[rnn_item_count][RNN_GATES], unsigned epoch)
{
    rnn_multiply<Layer>(self, epoch);
    __syncthreads();
    const float *partials = rnn_partials(self);
    self.turn ^= 1;
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int g = 0; g < RNN_GATES; g++)
            if (rnn_item_unit(i) < RNN_SHARE)
                input[i][g] = rnn_sum<Layer>(
                    partials, (RNN_RECURRENT_ROWS + g) * RNN_SHARE + rnn_item_unit(i),
                    rnn_item_row());
    rnn_take_recurrent<Layer>(layer, partials);
}

/// Layers Layer, Layer + 1, ... of a step, which end with h of the epoch sent.
template <int Layer>
RNN_INLINE void rnn_run_layers(RnnThread &self, RnnLayer (&layers)[RNN_LAYERS],
                               float (&input)[rnn_item_count][RNN_GATES], unsigned epoch,
                               bool ended)
{
    if constexpr (Layer < RNN_LAYERS) {
        if constexpr (Layer > 0)
            rnn_receive<Layer - 1>(self, layers[Layer - 1], input, epoch);
        RnnLayer &layer = layers[Layer];
#pragma unroll
        for (int i = 0; i < rnn_item_count; i++) {
            float next[RNN_STATES];
#pragma unroll
            for (int s = 0; s < RNN_STATES; s++)
                next[s] = layer.state[i][s];
            rnn_pointwise<0>(input[i], layer.product[i], layer.bias[i], layer.recurrent_bias[i],
                             layer.parameter[i], layer.state[i], nullptr, nullptr, nullptr, next);
#pragma unroll
            for (int s = 0; s < RNN_STATES; s++)
                layer.state[i][s] = ended ? layer.state[i][s] : next[s];
            rnn_send<Layer>(self, i, layer.state[i][0], epoch);
        }
        rnn_run_layers<Layer + 1>(self, layers, input, epoch, ended);
    }
}

/// Before the first step: every h is sent, and R*h made of all but the last.
template <int Layer>
RNN_INLINE void rnn_send_initial(const RnnThread &self, const RnnLayer (&layers)[RNN_LAYERS])
{
    if constexpr (Layer < RNN_LAYERS) {
#pragma unroll
        for (int i = 0; i < rnn_item_count; i++)
            rnn_send<Layer>(self, i, layers[Layer].state[i][0], self.epoch);
        rnn_send_initial<Layer + 1>(self, layers);
    }
}
template <int Layer>
RNN_INLINE void rnn_receive_initial(RnnThread &self, RnnLayer (&layers)[RNN_LAYERS])
{
    if constexpr (Layer < RNN_LAST) {
        float unused[rnn_item_count][RNN_GATES];
        rnn_receive<Layer>(self, layers[Layer], unused, self.epoch);
        rnn_receive_initial<Layer + 1>(self, layers);
    }
}

/// The noise of this thread's logits, which waits for nothing.
RNN_INLINE void rnn_make_noise(const RnnGenerate &run, const RnnThread &self, RnnDrawer &drawer,
                               unsigned long long seed, long long step)
{
#pragma unroll
    for (int i = 0; i < RNN_DRAWS; i++) {
        const int token = rnn_own_token(self, i);
        unsigned words[4];
        drawer.noise[i] = 0.0f;
        if (run.greedy || token >= RNN_VOCABULARY || rnn_draw_row() >= self.rows)
            continue;
        rnn_gumbel_words(words, token / 4, run.draw + step, seed);
        const unsigned low = token & 1 ? words[1] : words[0],
                       high = token & 1 ? words[3] : words[2];
        drawer.noise[i] = rnn_gumbel(token & 2 ? high : low);
    }
}

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

/// The best of the lanes of one row, to all of them.
RNN_INLINE void rnn_reduce(RnnOffer &best)
{
#pragma unroll
    for (int distance = RNN_LANES / 2; distance > 0; distance /= 2) {
        const RnnOffer other = {__shfl_xor_sync(0xffffffff, best.score, distance),
                                __shfl_xor_sync(0xffffffff, best.token, distance)};
        rnn_take_better(best, other);
    }
}

/// Sends the best of this CTA's tokens for each row.
RNN_INLINE void rnn_offer(const RnnGenerate &run, const RnnThread &self, const RnnDrawer &drawer,
                          const float *partials, unsigned epoch, unsigned cancelled)
{
    RnnOffer best = {0.0f, 0};
#pragma unroll
    for (int i = 0; i < RNN_DRAWS; i++) {
        const int token = rnn_own_token(self, i);
        if (token >= RNN_VOCABULARY)
            continue;
        const int row_of_R =
            rnn_phases[RNN_LAST].row_count * RNN_SHARE + rnn_draw_lane() + i * RNN_LANES;
        const float logit = rnn_sum<RNN_LAST>(partials, row_of_R, rnn_draw_row()) + drawer.bias[i];
        const float score = __fadd_rn(__fmul_rn(logit, run.inverse_temperature), drawer.noise[i]);
        rnn_take_better(best, {score, score == score ? token + 1u : 0u});
    }
    rnn_reduce(best);
    for (int replica = rnn_draw_lane(); replica < RNN_REPLICAS; replica += RNN_LANES) {
        uint4 *to = self.buffers + rnn_offer_at(epoch & 1) +
                    (replica * RNN_ROWS + rnn_draw_row()) * RNN_DRAWERS + self.cta;
        rnn_packet_store(to, __float_as_uint(best.score), epoch);
        rnn_packet_store((char *)to + 8, best.token | cancelled, epoch);
    }
}

/// Receives what all have sent for the row, and leaves the best for the CTA.
RNN_INLINE void rnn_take_offers(RnnThread &self, const RnnDrawer &drawer, unsigned epoch)
{
    const uint4 *from = self.buffers + rnn_offer_at(epoch & 1) +
                        (self.cta % RNN_REPLICAS * RNN_ROWS + rnn_draw_row()) * RNN_DRAWERS;
    uint4 offers[RNN_OFFERS];
    bool waiting = true;
#pragma unroll
    for (int i = 0; i < RNN_OFFERS; i++)
        offers[i] = make_uint4(0, epoch - 1, 0, epoch - 1);
    for (int polls = 0; waiting && !self.stuck; polls++) {
        self.stuck = polls == RNN_POLLS_MAX;
        waiting = false;
#pragma unroll
        for (int i = 0; i < RNN_OFFERS; i++) {
            const int at = rnn_draw_lane() + i * RNN_LANES;
            if (at >= RNN_DRAWERS || (offers[i].y == epoch && offers[i].w == epoch))
                continue;
            offers[i] = rnn_exchange_load(from + at);
            waiting |= offers[i].y != epoch || offers[i].w != epoch;
        }
    }
    __syncwarp();
    RnnOffer best = {0.0f, 0};
#pragma unroll
    for (int i = 0; i < RNN_OFFERS; i++)
        rnn_take_better(best, {__uint_as_float(offers[i].x), offers[i].z & ~rnn_cancelled});
    rnn_reduce(best);
    if (rnn_draw_lane() == 0) // the group's first CTA has sent what this lane received first
        drawer.tokens[rnn_draw_row()] = best.token | (offers[0].z & rnn_cancelled);
}

/// Draws the token of every row from the sums of the last product; false where the host has
/// cancelled. *out_token: of the items' row; RNN_NO_TOKEN: every logit was NaN.
RNN_INLINE bool rnn_draw(const RnnGenerate &run, RnnThread &self, RnnDrawer &drawer, RnnLayer &last,
                         long long step, int *out_token)
{
    const float *partials = rnn_partials(self);
    const unsigned epoch = self.epoch + (unsigned)step;
    const bool draws = threadIdx.x < RNN_ROWS * RNN_LANES;
    self.turn ^= 1;
    if (draws && self.cta < RNN_DRAWERS) {
        unsigned cancelled = 0;
        if (self.cta == 0 && rnn_draw_row() == 0 && step % RNN_CANCEL_STEPS == 0 &&
            *(volatile const int *)run.cancel)
            cancelled = rnn_cancelled;
        rnn_offer(run, self, drawer, partials, epoch, cancelled);
    }
    rnn_take_recurrent<RNN_LAST>(last, partials);
    if (draws)
        rnn_take_offers(self, drawer, epoch);
    __syncthreads();
    if (drawer.tokens[0] & rnn_cancelled)
        return false;
    *out_token = (int)(drawer.tokens[rnn_item_row()] & ~rnn_cancelled) - 1;
    if (*out_token < 0)
        *out_token = RNN_NO_TOKEN;
    return true;
}

/// The table's rows of the token.
RNN_INLINE void rnn_look_up(const RnnDrawer &drawer, int token,
                            float (&input)[rnn_item_count][RNN_GATES])
{
    const float *from = drawer.table + (long long)(token < 0 ? 0 : token) * drawer.token_stride;
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
        for (int g = 0; g < RNN_GATES; g++)
            input[i][g] = rnn_item_unit(i) < RNN_SHARE
                              ? from[g * drawer.gate_stride + rnn_item_unit(i)]
                              : 0.0f;
}

/// Loads or stores the layers' states of the row group.
RNN_INLINE void rnn_exchange_states(const RnnGenerate &run, const RnnThread &self,
                                    RnnLayer (&layers)[RNN_LAYERS], bool store)
{
#pragma unroll
    for (int l = 0; l < RNN_LAYERS; l++)
#pragma unroll
        for (int i = 0; i < rnn_item_count; i++)
#pragma unroll
            for (int s = 0; s < RNN_STATES; s++) {
                const int unit = rnn_item_unit(i), of_all = self.cta * RNN_SHARE + unit;
                const bool owned =
                    unit < RNN_SHARE && of_all < RNN_UNITS && rnn_item_row() < self.rows;
                float *at =
                    run.states[l][s] + (self.first_row + rnn_item_row()) * RNN_UNITS + of_all;
                if (store && owned)
                    *at = self.stuck ? __int_as_float(0x7fffffff) : layers[l].state[i][s];
                else if (!store)
                    layers[l].state[i][s] = owned ? *at : 0.0f;
            }
}

/// Loads fragments, vectors and the table, which hold for every row group.
RNN_INLINE void rnn_begin(const RnnGenerate &run, RnnThread &self, RnnDrawer &drawer,
                          RnnLayer (&layers)[RNN_LAYERS])
{
    extern __shared__ float4 rnn_shared[];
    self.cta = blockIdx.x % RNN_CTAS;
    self.warp = threadIdx.x / 32;
    self.lane = threadIdx.x % 32;
    self.stuck = false;
    self.turn = 0;
    self.partials = (float *)rnn_shared;
    uint4 *rest = (uint4 *)(self.partials + rnn_partial_floats());
    self.rest = rest + threadIdx.x;
    drawer.tokens = (unsigned *)(rest + (rnn_fragment_count - rnn_held) * RNN_THREADS);
    self.buffers = run.buffers + blockIdx.x / RNN_CTAS * rnn_offer_at(2);
    const uint4 *from =
        run.weights + (long long)self.cta * rnn_fragment_count * RNN_THREADS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < rnn_held; i++)
        self.weights[i] = rnn_load_once(from + i * RNN_THREADS);
    for (int i = rnn_held; i < rnn_fragment_count; i++)
        rest[(i - rnn_held) * RNN_THREADS + threadIdx.x] = from[i * RNN_THREADS];
#pragma unroll
    for (int l = 0; l < RNN_LAYERS; l++)
#pragma unroll
        for (int i = 0; i < rnn_item_count; i++) {
            const int unit = self.cta * RNN_SHARE + rnn_item_unit(i);
            const bool owned = rnn_item_unit(i) < RNN_SHARE && unit < RNN_UNITS;
            for (int g = 0; g < RNN_SOME(RNN_BIASES); g++)
                layers[l].bias[i][g] =
                    owned && run.bias[l] ? run.bias[l][g * RNN_UNITS + unit] : 0.0f;
            for (int g = 0; g < RNN_SOME(RNN_RECURRENT_BIASES); g++)
                layers[l].recurrent_bias[i][g] = owned && run.recurrent_bias[l]
                                                     ? run.recurrent_bias[l][g * RNN_UNITS + unit]
                                                     : 0.0f;
            for (int g = 0; g < RNN_SOME(RNN_PARAMETERS); g++)
                layers[l].parameter[i][g] =
                    owned && run.parameter[l] ? run.parameter[l][g * RNN_UNITS + unit] : 0.0f;
            for (int g = 0; g < RNN_RECURRENT_ROWS; g++)
                layers[l].product[i][g] = 0.0f;
        }
#pragma unroll
    for (int i = 0; i < RNN_DRAWS; i++) {
        const int token = rnn_own_token(self, i);
        drawer.bias[i] = token < RNN_VOCABULARY ? run.dense_bias[token] : 0.0f;
    }
    drawer.table = run.table + self.cta * RNN_SHARE;
    drawer.token_stride = RNN_GATES * RNN_UNITS;
    drawer.gate_stride = RNN_UNITS;
#if RNN_TABLE_SHARED
    float *table = (float *)(drawer.tokens + 32);
    for (int i = threadIdx.x; i < RNN_VOCABULARY * RNN_GATES * RNN_SHARE; i += RNN_THREADS) {
        const int unit = self.cta * RNN_SHARE + i % RNN_SHARE;
        table[i] = unit < RNN_UNITS ? run.table[(long long)(i / RNN_SHARE) * RNN_UNITS + unit] : 0;
    }
    drawer.table = table;
    drawer.token_stride = RNN_GATES * RNN_SHARE;
    drawer.gate_stride = RNN_SHARE;
    __syncthreads();
#endif
}

/// All steps of a row group.
RNN_INLINE void rnn_run_rows(const RnnGenerate &run, RnnThread &self, RnnDrawer &drawer,
                             RnnLayer (&layers)[RNN_LAYERS])
{
    const long long own = self.first_row + rnn_item_row();
    const unsigned long long seed =
        rnn_draw_row() < self.rows ? run.seeds[self.first_row + rnn_draw_row()] : 0;
    drawer.ended = rnn_item_row() >= self.rows || run.ended[own];
    rnn_exchange_states(run, self, layers, false);
    rnn_send_initial<0>(self, layers);
    rnn_receive_initial<0>(self, layers);
    long long step = 0;
#pragma unroll 1
    for (;; step++) {
        float input[rnn_item_count][RNN_GATES];
        int token;
#pragma unroll
        for (int i = 0; i < rnn_held; i++)
            rnn_keep(self.weights[i]);
        rnn_make_noise(run, self, drawer, seed, step);
        rnn_multiply<RNN_LAST>(self, self.epoch + (unsigned)step);
        if (__syncthreads_and(drawer.ended) || step == run.steps)
            break;
        if (!rnn_draw(run, self, drawer, layers[RNN_LAST], step, &token))
            break;
        rnn_look_up(drawer, token, input);
        if (self.cta == 0 && threadIdx.x < self.rows)
            *(volatile int *)&run.tokens[step * run.rows + own] = drawer.ended ? RNN_ENDED : token;
        rnn_run_layers<0>(self, layers, input, self.epoch + (unsigned)step + 1, drawer.ended);
        drawer.ended = drawer.ended || token < 0 || (run.stops && run.stops[token]);
    }
    rnn_exchange_states(run, self, layers, true);
    self.epoch += (unsigned)step + 1;
    __syncthreads(); // both buffers of partial sums and the tokens are read
}

extern "C" __global__ void __launch_bounds__(RNN_THREADS, 1) rnn_generate(const RnnGenerate run)
{
    const int group = blockIdx.x / RNN_CTAS, groups = gridDim.x / RNN_CTAS;
    RnnThread self;
    RnnDrawer drawer;
    RnnLayer layers[RNN_LAYERS];
    rnn_begin(run, self, drawer, layers);
    self.epoch = *(volatile unsigned *)&run.epochs[group] + 1;
    for (self.first_row = (long long)group * RNN_ROWS; self.first_row < run.rows;
         self.first_row += (long long)groups * RNN_ROWS) {
        const long long left = run.rows - self.first_row;
        self.rows = left < RNN_ROWS ? (int)left : RNN_ROWS;
        rnn_run_rows(run, self, drawer, layers);
    }
    // Every CTA of the group has read the epoch: this one has used what they sent.
    if (self.cta == 0 && threadIdx.x == 0)
        run.epochs[group] = self.epoch - 1;
    if (self.stuck && !*(volatile int *)run.fault && !atomicCAS(run.fault, 0, run.fault_kind)) {
        run.fault[3] = 1;
        __threadfence_system();
    }
}

/// The matrices of all layers, canonical.
struct RnnMatrices {
    const float *R[RNN_PHASES_MAX], *W[RNN_PHASES_MAX], *dense;
};

/// Row `row` of a CTA's matrix of product `layer`; NULL: zeros.
RNN_INLINE const float *rnn_matrix_row(const RnnMatrices &of, int layer, int row, int cta)
{
    const RnnPhase &phase = rnn_phases[layer];
    const int gate = row / RNN_SHARE, unit = cta * RNN_SHARE + row % RNN_SHARE;
    const int more = row - phase.row_count * RNN_SHARE, token = cta * RNN_MORE_ROWS + more;
    if (gate < phase.row_count && unit >= RNN_UNITS)
        return nullptr;
    if (gate < RNN_RECURRENT_ROWS)
        return of.R[layer] + ((long long)phase.rows[gate] * RNN_UNITS + unit) * RNN_UNITS;
    if (gate < phase.row_count)
        return of.W[layer + 1] + ((long long)phase.rows[gate] * RNN_UNITS + unit) * RNN_UNITS;
    return layer == RNN_LAST && more < RNN_MORE_ROWS && token < RNN_VOCABULARY
               ? of.dense + (long long)token * RNN_UNITS
               : nullptr;
}

/// Packs all matrices into [cta][fragment][thread].
extern "C" __global__ void rnn_pack(const RnnMatrices matrices, uint4 *packed)
{
    const long long total = (long long)RNN_CTAS * rnn_fragment_count * RNN_THREADS;
    for (long long at = blockIdx.x * blockDim.x + threadIdx.x; at < total;
         at += (long long)gridDim.x * blockDim.x) {
        const RnnPlace place = rnn_fragment_place(at);
        unsigned words[4];
        for (int i = 0; i < 4; i++) {
            const float *from =
                rnn_matrix_row(matrices, place.phase, place.row + i % 2 * 8, place.cta);
            const int k = place.k + i / 2 * RNN_WORD;
            float w[2] = {};
            for (int e = 0; e < RNN_WORD; e++)
                if (from && k + e < RNN_UNITS)
                    w[e] = from[k + e];
            words[i] = rnn_weight_word(w);
        }
        packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

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
