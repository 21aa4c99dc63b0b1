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
// A group has RNN_SETS sets of RNN_ROWS rows, and each stage of a step is done for all sets in
// turn: while what one set has sent is under way, another is multiplied. Where there are several,
// what a thread keeps of each lies in shared memory.
//
// Tokens are drawn as in generate_draw.cuh. They go to the host's memory as they come: a word that
// is no longer RNN_PENDING has arrived. The first CTA of a group looks now and then whether the
// host has raised `cancel`; its packet tells the others, so that all leave at one step.
//
// Buffers are ordered as in grid_product.cuh: h of an epoch is written over that of two before,
// and between lies the h that every CTA has sent after its product; a packet of the draw likewise.
// The loop therefore ends behind the product of the last h.
//
// Shared memory: partial sums | fragments | tokens | kept of the sets | table. Limits: every CTA of
// the grid is resident (cooperative launch); cells of one phase, whose products take their output
// h.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/generate.cu
#ifndef RNN_UNITS
#include "cuda/default_generate.cuh"
#endif
#include "cuda/generate_draw.cuh"
#include "cuda/prim/async.cuh"

/// What a thread keeps of one layer; state and product of one set.
struct RnnLayer {
    float bias[rnn_item_count][RNN_SOME(RNN_BIASES)];
    float recurrent_bias[rnn_item_count][RNN_SOME(RNN_RECURRENT_BIASES)];
    float parameter[rnn_item_count][RNN_SOME(RNN_PARAMETERS)];
    float state[rnn_item_count][RNN_STATES];
    float product[rnn_item_count][RNN_RECURRENT_ROWS]; ///< R*h for the next step
};

/// Values of one thread before those of a layer and set.
constexpr __device__ int rnn_kept_at(int set, int layer)
{
    return (set * RNN_LAYERS + layer) * rnn_item_count * (RNN_STATES + RNN_RECURRENT_ROWS);
}
constexpr int rnn_kept = RNN_SETS > 1 ? rnn_kept_at(RNN_SETS, 0) : 0;

/// The sets of one row group.
struct RnnSets {
    long long first_row;
    int count;
};

/// Turns to one of them.
RNN_INLINE void rnn_turn_to(const RnnGenerate &run, RnnThread &self, const RnnSets &sets, int set)
{
    self.first_row = sets.first_row + set * RNN_ROWS;
    const long long left = run.rows - self.first_row;
    self.rows = left < RNN_ROWS ? (int)left : RNN_ROWS;
    self.buffers = run.buffers + (blockIdx.x / RNN_CTAS * RNN_SETS + set) * rnn_offer_at(2);
}

/// Where there are several sets: takes what is kept of a layer for one of them, or puts it there.
template <int Layer>
RNN_INLINE void rnn_take(const RnnDrawer &drawer, RnnLayer (&layers)[RNN_LAYERS], int set)
{
    const float *from = drawer.kept + rnn_kept_at(set, Layer) * RNN_THREADS;
#pragma unroll
    for (int i = 0; RNN_SETS > 1 && i < rnn_item_count; i++) {
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++, from += RNN_THREADS)
            layers[Layer].state[i][s] = *from;
#pragma unroll
        for (int g = 0; g < RNN_RECURRENT_ROWS; g++, from += RNN_THREADS)
            layers[Layer].product[i][g] = *from;
    }
}
template <int Layer>
RNN_INLINE void rnn_put(const RnnDrawer &drawer, const RnnLayer (&layers)[RNN_LAYERS], int set)
{
    float *to = drawer.kept + rnn_kept_at(set, Layer) * RNN_THREADS;
#pragma unroll
    for (int i = 0; RNN_SETS > 1 && i < rnn_item_count; i++) {
#pragma unroll
        for (int s = 0; s < RNN_STATES; s++, to += RNN_THREADS)
            *to = layers[Layer].state[i][s];
#pragma unroll
        for (int g = 0; g < RNN_RECURRENT_ROWS; g++, to += RNN_THREADS)
            *to = layers[Layer].product[i][g];
    }
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

/// The pointwise part of one layer and set, and its h of the epoch sent.
template <int Layer>
RNN_INLINE void rnn_run_layer(RnnThread &self, RnnLayer &layer,
                              const float (&input)[rnn_item_count][RNN_GATES], unsigned epoch,
                              bool ended)
{
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
}

/// Layers Layer, Layer + 1, ... of a step for all sets, behind the first.
template <int Layer>
RNN_INLINE void rnn_run_layers(const RnnGenerate &run, RnnThread &self, const RnnDrawer &drawer,
                               RnnLayer (&layers)[RNN_LAYERS], const RnnSets &sets, unsigned epoch)
{
    if constexpr (Layer < RNN_LAYERS) {
#pragma unroll 1
        for (int set = 0; set < sets.count; set++) {
            float input[rnn_item_count][RNN_GATES];
            rnn_turn_to(run, self, sets, set);
            rnn_take<Layer - 1>(drawer, layers, set);
            rnn_take<Layer>(drawer, layers, set);
            rnn_receive<Layer - 1>(self, layers[Layer - 1], input, epoch);
            rnn_run_layer<Layer>(self, layers[Layer], input, epoch, drawer.ended >> set & 1);
            rnn_put<Layer - 1>(drawer, layers, set);
            rnn_put<Layer>(drawer, layers, set);
        }
        rnn_run_layers<Layer + 1>(run, self, drawer, layers, sets, epoch);
    }
}

/// Before the first step: every h of a set is sent; then R*h made of all but the last.
template <int Layer>
RNN_INLINE void rnn_send_initial(const RnnThread &self, const RnnDrawer &drawer,
                                 const RnnLayer (&layers)[RNN_LAYERS], int set)
{
    if constexpr (Layer < RNN_LAYERS) {
#pragma unroll
        for (int i = 0; i < rnn_item_count; i++)
            rnn_send<Layer>(self, i, layers[Layer].state[i][0], self.epoch);
        rnn_put<Layer>(drawer, layers, set);
        rnn_send_initial<Layer + 1>(self, drawer, layers, set);
    }
}
template <int Layer>
RNN_INLINE void rnn_receive_initial(RnnThread &self, const RnnDrawer &drawer,
                                    RnnLayer (&layers)[RNN_LAYERS], int set)
{
    if constexpr (Layer < RNN_LAST) {
        float unused[rnn_item_count][RNN_GATES];
        rnn_take<Layer>(drawer, layers, set);
        rnn_receive<Layer>(self, layers[Layer], unused, self.epoch);
        rnn_put<Layer>(drawer, layers, set);
        rnn_receive_initial<Layer + 1>(self, drawer, layers, set);
    }
}
template <int Layer>
RNN_INLINE void rnn_take_all(const RnnDrawer &drawer, RnnLayer (&layers)[RNN_LAYERS], int set)
{
    if constexpr (Layer < RNN_LAYERS) {
        rnn_take<Layer>(drawer, layers, set);
        rnn_take_all<Layer + 1>(drawer, layers, set);
    }
}

/// Multiplies the last h of every set, and sends the best of this CTA's tokens, or the chances of
/// all; true where that was the last product, with nothing to draw.
template <bool Chooses>
RNN_INLINE bool rnn_offer_all(const RnnGenerate &run, RnnThread &self, RnnDrawer &drawer,
                              RnnLayer (&layers)[RNN_LAYERS], const RnnSets &sets, long long step)
{
    const unsigned epoch = self.epoch + (unsigned)step;
    const bool draws = threadIdx.x < RNN_ROWS * RNN_LANES && self.cta < RNN_DRAWERS;
    bool is_last = false;
#pragma unroll 1
    for (int set = 0; set < sets.count; set++) {
        rnn_turn_to(run, self, sets, set);
        rnn_take<RNN_LAST>(drawer, layers, set);
        rnn_make_noise(run, self, drawer, step);
        rnn_multiply<RNN_LAST>(self, epoch);
        is_last = __syncthreads_and(drawer.ended == (1u << sets.count) - 1) || step == run.steps;
        const float *partials = rnn_partials(self);
        self.turn ^= 1;
        if (is_last)
            continue;
        if (Chooses && draws) {
            rnn_send_chances(run, self, drawer, set, partials, epoch);
        } else if (draws) {
            const bool looks =
                self.cta == 0 && set == 0 && rnn_draw_row() == 0 && step % RNN_CANCEL_STEPS == 0;
            const bool is_cancelled = looks && *(volatile const int *)run.cancel;
            rnn_offer(run, self, drawer, partials, epoch, is_cancelled ? rnn_cancelled : 0);
        }
        rnn_take_recurrent<RNN_LAST>(layers[RNN_LAST], partials);
        rnn_put<RNN_LAST>(drawer, layers, set);
    }
    return is_last;
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

/// Draws the tokens of every set, and runs the first layer; false where the host has cancelled.
template <bool Chooses>
RNN_INLINE bool rnn_draw_all(const RnnGenerate &run, RnnThread &self, RnnDrawer &drawer,
                             RnnLayer (&layers)[RNN_LAYERS], const RnnSets &sets, long long step,
                             unsigned *out_ending)
{
    const unsigned epoch = self.epoch + (unsigned)step;
    *out_ending = 0;
#pragma unroll 1
    for (int set = 0; set < sets.count; set++) {
        float input[rnn_item_count][RNN_GATES];
        unsigned *tokens = drawer.tokens + set % 2 * RNN_ROWS;
        rnn_turn_to(run, self, sets, set);
        rnn_take<0>(drawer, layers, set);
        if (Chooses)
            rnn_choose_rows(run, self, set, step, epoch);
        if (threadIdx.x < RNN_ROWS * RNN_LANES)
            rnn_take_offers<Chooses>(self, tokens, epoch);
        __syncthreads();
        if (set == 0 && tokens[0] & rnn_cancelled)
            return false;
        const bool ended = drawer.ended >> set & 1;
        const int drawn = (int)(tokens[rnn_item_row()] & ~rnn_cancelled) - 1;
        const int token = drawn < 0 ? RNN_NO_TOKEN : drawn;
        rnn_look_up(drawer, token, input);
        rnn_run_layer<0>(self, layers[0], input, epoch + 1, ended);
        rnn_put<0>(drawer, layers, set);
        if (self.cta == 0 && threadIdx.x < self.rows)
            *(volatile int *)&run.tokens[step * run.rows + self.first_row + rnn_item_row()] =
                ended ? RNN_ENDED : token;
        if (token < 0 || (run.stops && run.stops[token]))
            *out_ending |= 1u << set;
    }
    return true;
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
    drawer.kept = (float *)(drawer.tokens + RNN_TOKENS) + threadIdx.x;
    self.epoch = 1;
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
    float *table = (float *)(drawer.tokens + RNN_TOKENS) + rnn_kept * RNN_THREADS;
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
template <bool Chooses>
RNN_INLINE void rnn_run_rows(const RnnGenerate &run, RnnThread &self, RnnDrawer &drawer,
                             RnnLayer (&layers)[RNN_LAYERS], const RnnSets &sets)
{
    drawer.ended = 0;
#pragma unroll 1
    for (int set = 0; set < sets.count; set++) {
        rnn_turn_to(run, self, sets, set);
        rnn_exchange_states(run, self, layers, false);
        rnn_send_initial<0>(self, drawer, layers, set);
        if (rnn_item_row() >= self.rows || run.ended[self.first_row + rnn_item_row()])
            drawer.ended |= 1u << set;
    }
#pragma unroll 1
    for (int set = 0; set < sets.count; set++) {
        rnn_turn_to(run, self, sets, set);
        rnn_receive_initial<0>(self, drawer, layers, set);
    }
    long long step = 0;
#pragma unroll 1
    for (;; step++) {
        unsigned ending;
#pragma unroll
        for (int i = 0; i < rnn_held; i++)
            rnn_keep(self.weights[i]);
        if (rnn_offer_all<Chooses>(run, self, drawer, layers, sets, step))
            break;
        if (!rnn_draw_all<Chooses>(run, self, drawer, layers, sets, step, &ending))
            break;
        rnn_run_layers<1>(run, self, drawer, layers, sets, self.epoch + (unsigned)step + 1);
        drawer.ended |= ending;
    }
#pragma unroll 1
    for (int set = 0; set < sets.count; set++) {
        rnn_turn_to(run, self, sets, set);
        rnn_take_all<0>(drawer, layers, set);
        rnn_exchange_states(run, self, layers, true);
    }
    self.epoch += (unsigned)step + 1;
    __syncthreads(); // both buffers of partial sums and the tokens are read
}

template <bool Chooses> RNN_INLINE void rnn_generate_rows(const RnnGenerate &run)
{
    const int group = blockIdx.x / RNN_CTAS, groups = gridDim.x / RNN_CTAS;
    constexpr int rows = RNN_SETS * RNN_ROWS;
    RnnThread self;
    RnnDrawer drawer;
    RnnLayer layers[RNN_LAYERS];
    rnn_begin(run, self, drawer, layers);
    for (long long first = (long long)group * rows; first < run.rows;
         first += (long long)groups * rows) {
        const long long count = (run.rows - first + RNN_ROWS - 1) / RNN_ROWS;
        rnn_run_rows<Chooses>(run, self, drawer, layers,
                              {first, count < RNN_SETS ? (int)count : RNN_SETS});
    }
    if (self.stuck)
        rnn_report(run);
}

extern "C" __global__ void __launch_bounds__(RNN_THREADS, 1) rnn_generate(const RnnGenerate run)
{
    rnn_generate_rows<false>(run);
}

extern "C" __global__ void __launch_bounds__(RNN_THREADS, 1)
    rnn_generate_choices(const RnnGenerate run)
{
    rnn_generate_rows<true>(run);
}

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
            const RnnPlace at_i = rnn_register_place(place, i);
            const float *from = rnn_matrix_row(matrices, at_i.phase, at_i.row, at_i.cta);
            const int k = at_i.k;
            float w[2] = {};
            for (int e = 0; e < RNN_WORD; e++)
                if (from && k + e < RNN_UNITS)
                    w[e] = from[k + e];
            words[i] = rnn_weight_word(w);
        }
        packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
