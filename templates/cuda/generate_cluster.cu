// Text generation in one launch by thread-block clusters, for models whose weights a cluster holds:
// every token of RNN_ROWS rows of the batch. The cells' layers have equal cells; products and the
// exchange of h are those of cluster_product.cuh, a phase a layer, which multiplies its output by
// R of its next step and W of the layer behind it.
//
// Every CTA draws all tokens itself, from its own copy of the dense layer, so that no token is
// exchanged: a step has an exchange a layer and no more. Of a CTA's warps, the first RNN_WARPS own
// units, and RNN_DRAW_WARPS behind them own tiles of 16 logits:
//
//     cells   receive h_last: R*h                  | barrier | best of the offers, layer 0, send
//     h_0 draw    noise | receive h_last: logits, offer |        | cells   layer l: receive h_l-1:
//     R*h of the next step, W*h | layer l, send h_l
//
// A draw warp offers its best token of each row. All threads take the best of the offers, so that
// all know which rows have ended. Offers are written again after h_last has come from every cell
// warp, which have read them by then; the draw warps cannot miss an operand for the barrier's sake,
// and what they read is written again two operands later, past another barrier.
//
// With top_k or top_p (rnn_generate_choices) the draw warps leave the chances of all tokens of
// their logits in memory of the CTA's own; then each is the team of every RNN_DRAW_WARPS-th row,
// and its offer the only one.
//
// CTA 0 looks now and then whether the host has raised `cancel`, and tells the others.
//
// Shared memory: barriers, operands | fragments of cells, of draw warps | offers | cancel | table.
// Limits: sm_90, a cluster of 2, 4 or 8 CTAs, operands of 16 bits.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/generate_cluster.cu
#ifndef RNN_UNITS
#include "cuda/default_generate_cluster.cuh"
#endif
#include "cuda/cluster_product.cuh"
#include "cuda/generate.cuh"
#include "cuda/prim/async.cuh"

constexpr int rnn_row_slots = RNN_COLUMNS == 2 ? 8 * RNN_ROW_TILES : 4;
constexpr int rnn_draw_fragments = RNN_DRAW_TILES * rnn_k_tiles(RNN_LAST);
constexpr int rnn_draw_held = RNN_HELD < rnn_draw_fragments ? RNN_HELD : rnn_draw_fragments;
enum {
    RNN_DRAW_THREADS = 32 * RNN_DRAW_WARPS,
    RNN_ALL_THREADS = RNN_THREADS + RNN_DRAW_THREADS,
    RNN_DRAWS = RNN_DRAW_TILES * 2 * RNN_ROW_TILES * RNN_COLUMNS // logits of a lane
};

// Shared memory, in bytes.
constexpr int rnn_cells_at = rnn_given_at;
constexpr int rnn_draws_at =
    rnn_cells_at + (rnn_fragment_count - rnn_held) * RNN_THREADS * (int)sizeof(uint4);
constexpr int rnn_offers_at =
    rnn_draws_at + (rnn_draw_fragments - rnn_draw_held) * RNN_DRAW_THREADS * (int)sizeof(uint4);
constexpr int rnn_cancel_at = rnn_offers_at + rnn_row_slots * RNN_DRAW_WARPS * 8;
constexpr int rnn_table_at = rnn_cancel_at + 16;
constexpr int rnn_all_bytes =
    rnn_table_at + (RNN_TABLE_SHARED ? RNN_VOCABULARY * RNN_GATES * rnn_share(RNN_UNITS) * 4 : 0);

static_assert(RNN_PRECISION >= 2, "operands of 16 bits");
static_assert(RNN_SPLIT == 1 && RNN_CTAS >= 2, "a warp multiplies all of K, and has a peer");
static_assert(RNN_DRAW_WARPS * RNN_DRAW_TILES * 16 >= RNN_VOCABULARY, "each logit has a warp");
#ifdef RNN_GENERATOR_BYTES
static_assert(rnn_all_bytes == RNN_GENERATOR_BYTES, "the plan's bytes of shared memory");
#endif

/// What a thread of the cells keeps of one layer.
struct RnnLayer {
    float bias[rnn_groups_most][RNN_SOME(RNN_BIASES)];
    float recurrent_bias[rnn_groups_most][RNN_SOME(RNN_RECURRENT_BIASES)];
    float parameter[rnn_groups_most][RNN_SOME(RNN_PARAMETERS)];
    float state[rnn_item_count][RNN_STATES];
    float product[rnn_item_count][RNN_RECURRENT_ROWS]; ///< R*h for the next step
};

/// What every thread keeps to draw.
struct RnnDrawer {
    int warp; ///< of those that draw; negative: of the cells
    float bias[RNN_DRAW_TILES][2], noise[RNN_DRAWS];
    bool ended[RNN_ROW_TILES][RNN_COLUMNS]; ///< the thread's rows
    const float *table;
    int token_stride, gate_stride; ///< of the table
};

/// The token of this lane in half a tile of its warp.
RNN_INLINE int rnn_own_token(const RnnThread &self, const RnnDrawer &drawer, int tile, int half)
{
    return (drawer.warp * RNN_DRAW_TILES + tile) * 16 + half * 8 + self.lane / 4;
}
RNN_INLINE int rnn_draw_of(int tile, int half, int row_tile, int column)
{
    return ((tile * 2 + half) * RNN_ROW_TILES + row_tile) * RNN_COLUMNS + column;
}

/// The noise of this lane's logits, which waits for nothing.
RNN_INLINE void rnn_make_noise(const RnnGenerate &run, const RnnThread &self, RnnDrawer &drawer,
                               const unsigned long long (&seeds)[RNN_ROW_TILES][RNN_COLUMNS],
                               long long step)
{
#pragma unroll
    for (int m = 0; m < RNN_DRAW_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
                for (int e = 0; e < RNN_COLUMNS; e++) {
                    const int token = rnn_own_token(self, drawer, m, half);
                    const bool drawn = token < RNN_VOCABULARY && rnn_row_of(self, n, e) < self.rows;
                    drawer.noise[rnn_draw_of(m, half, n, e)] =
                        drawn ? rnn_noise(run, token, step, seeds[n][e]) : 0.0f;
                }
}

RNN_INLINE RnnOffer *rnn_offers(const RnnThread &self, int row)
{
    return (RnnOffer *)(self.shared + rnn_offers_at) + row * RNN_DRAW_WARPS;
}

/// The chances of a row in this CTA's memory, [RNN_VOCABULARY].
RNN_INLINE rnn_chance *rnn_chances_of(const RnnGenerate &run, int row)
{
    return (rnn_chance *)run.chances + ((long long)blockIdx.x * RNN_ROWS + row) * RNN_VOCABULARY;
}

/// Multiplies the last h, and leaves the warp's best token of each row for the CTA, or the chances
/// of all its tokens.
template <bool Chooses>
RNN_INLINE void rnn_offer(const RnnGenerate &run, const RnnThread &self, const RnnDrawer &drawer,
                          unsigned turn)
{
    float sums[RNN_DRAW_TILES][RNN_ROW_TILES][RNN_CHAINS][4] = {};
    RnnOffer best[RNN_ROW_TILES][RNN_COLUMNS] = {};
    rnn_sum<RNN_LAST, RNN_DRAW_TILES, 0, RNN_DRAW_THREADS>(self, turn, sums);
#pragma unroll
    for (int m = 0; m < RNN_DRAW_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int n = 0; n < RNN_ROW_TILES; n++) {
                float both[2];
                const int token = rnn_own_token(self, drawer, m, half);
                rnn_both_sums(self, sums[m][n], half * 2, both);
#pragma unroll
                for (int e = 0; e < RNN_COLUMNS; e++) {
                    const bool is_odd = RNN_COLUMNS == 1 ? self.lane % 4 >= 2 : e == 1;
                    const float logit = (is_odd ? both[1] : both[0]) + drawer.bias[m][half];
                    const float scaled = rnn_scaled(run, logit);
                    const float noise = drawer.noise[rnn_draw_of(m, half, n, e)];
                    const int row = rnn_row_of(self, n, e);
                    if (Chooses && token < RNN_VOCABULARY && row < self.rows)
                        rnn_chances_of(run, row)[token] = rnn_chance_of(scaled, noise);
                    const float score = __fadd_rn(scaled, noise);
                    const bool drawn = token < RNN_VOCABULARY && score == score;
                    rnn_take_better(best[n][e], {score, drawn ? token + 1u : 0u});
                }
            }
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES && !Chooses; n++)
#pragma unroll
        for (int e = 0; e < RNN_COLUMNS; e++) {
#pragma unroll
            for (int distance = 4; distance < 32; distance *= 2) {
                const RnnOffer other = {__shfl_xor_sync(0xffffffff, best[n][e].score, distance),
                                        __shfl_xor_sync(0xffffffff, best[n][e].token, distance)};
                rnn_take_better(best[n][e], other);
            }
            if (self.lane < 4)
                rnn_offers(self, rnn_row_of(self, n, e))[drawer.warp] = best[n][e];
        }
}

/// Draws this warp's rows from the chances, and leaves their tokens for the CTA; of rows that are
/// not there none.
RNN_INLINE void rnn_choose_rows(const RnnGenerate &run, const RnnThread &self,
                                const RnnDrawer &drawer)
{
    rnn_team team = {self.lane, RNN_TEAM, nullptr, 0};
    rnn_named_barrier(1, RNN_DRAW_THREADS); // all chances are there
#pragma unroll 1
    for (int row = drawer.warp; row < rnn_row_slots; row += RNN_DRAW_WARPS) {
        int token = -1;
        if (row < self.rows) {
            rnn_chance chances[RNN_CHANCES];
            const rnn_chance *from = rnn_chances_of(run, row);
            RNN_EACH_CHANCE
            for (int i = 0; i < RNN_CHANCES; i++) {
                const unsigned of = rnn_chance_token(&team, i);
                chances[i] = of < RNN_VOCABULARY ? from[of] : rnn_chance{0, 0};
            }
            token = rnn_choose(&team, chances, RNN_CHANCES, run.choice);
        }
        if (self.lane == 0)
            *rnn_offers(self, row) = {0.0f, token + 1u};
    }
}

/// The tokens of the thread's rows, from the offers.
template <bool Chooses>
RNN_INLINE void rnn_take_offers(const RnnThread &self, int (&tokens)[RNN_ROW_TILES][RNN_COLUMNS])
{
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
        for (int e = 0; e < RNN_COLUMNS; e++) {
            const RnnOffer *from = rnn_offers(self, rnn_row_of(self, n, e));
            RnnOffer best = {0.0f, 0};
#pragma unroll
            for (int warp = 0; warp < (Chooses ? 1 : RNN_DRAW_WARPS); warp++)
                rnn_take_better(best, from[warp]);
            tokens[n][e] = best.token ? (int)best.token - 1 : RNN_NO_TOKEN;
        }
}

/// The table's rows of the tokens.
RNN_INLINE void rnn_look_up(const RnnThread &self, const RnnDrawer &drawer,
                            const int (&tokens)[RNN_ROW_TILES][RNN_COLUMNS],
                            float (&input)[rnn_item_count][RNN_GATES])
{
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
        for (int e = 0; e < RNN_COLUMNS; e++) {
            const float *from =
                drawer.table + (tokens[n][e] < 0 ? 0 : tokens[n][e]) * drawer.token_stride;
#pragma unroll
            for (int g = 0; g < rnn_groups(RNN_UNITS); g++)
#pragma unroll
                for (int gate = 0; gate < RNN_GATES; gate++) {
                    const bool owned =
                        RNN_TABLE_SHARED || rnn_unit_of(self, RNN_UNITS, g) < RNN_UNITS;
                    input[rnn_item_of(g, n, e)][gate] =
                        owned ? from[gate * drawer.gate_stride + g * 8] : 0.0f;
                }
        }
}

/// Sends the layer's h to the cluster as operand `turn` of its products.
template <int Layer>
RNN_INLINE void rnn_send_layer(const RnnThread &self, const RnnLayer &layer, unsigned turn)
{
#pragma unroll
    for (int g = 0; g < rnn_groups(RNN_UNITS); g++)
#pragma unroll
        for (int n = 0; n < RNN_ROW_TILES; n++) {
            float values[RNN_COLUMNS];
#pragma unroll
            for (int e = 0; e < RNN_COLUMNS; e++) // what lies beyond the ends must be finite
                values[e] = rnn_unit_of(self, RNN_UNITS, g) < RNN_UNITS
                                ? layer.state[rnn_item_of(g, n, e)][0]
                                : 0.0f;
            rnn_send<Layer>(self, g, n, values, turn);
        }
}

/// Receives h of a layer: R*h to what it keeps for its next step, and `input` W*h of the layer
/// behind it.
template <int Layer>
RNN_INLINE void rnn_receive_layer(RnnThread &self, RnnLayer &layer,
                                  float (&input)[rnn_item_count][RNN_GATES], unsigned turn)
{
    float product[rnn_item_count][rnn_phases[Layer].row_count];
    rnn_receive<Layer>(self, turn);
    rnn_multiply<Layer>(self, turn, product);
#pragma unroll
    for (int i = 0; i < rnn_item_count; i++) {
#pragma unroll
        for (int g = 0; g < RNN_RECURRENT_ROWS; g++)
            layer.product[i][g] = product[i][g];
#pragma unroll
        for (int g = RNN_RECURRENT_ROWS; g < rnn_phases[Layer].row_count; g++)
            input[i][g - RNN_RECURRENT_ROWS] = product[i][g];
    }
}

/// Layers Layer, Layer + 1, ... of a step, which end with their h sent as operand `turn`.
template <int Layer>
RNN_INLINE void rnn_run_layers(RnnThread &self, const RnnDrawer &drawer,
                               RnnLayer (&layers)[RNN_LAYERS],
                               float (&input)[rnn_item_count][RNN_GATES], unsigned turn)
{
    if constexpr (Layer < RNN_LAYERS) {
        if constexpr (Layer > 0)
            rnn_receive_layer<Layer - 1>(self, layers[Layer - 1], input, turn);
        RnnLayer &layer = layers[Layer];
#pragma unroll
        for (int i = 0; i < rnn_item_count; i++) {
            const int group = i / (RNN_ROW_TILES * RNN_COLUMNS);
            const bool ended = drawer.ended[i / RNN_COLUMNS % RNN_ROW_TILES][i % RNN_COLUMNS];
            float next[RNN_STATES];
#pragma unroll
            for (int s = 0; s < RNN_STATES; s++)
                next[s] = layer.state[i][s];
            rnn_pointwise<0>(input[i], layer.product[i], layer.bias[group],
                             layer.recurrent_bias[group], layer.parameter[group], layer.state[i],
                             nullptr, nullptr, nullptr, next);
#pragma unroll
            for (int s = 0; s < RNN_STATES; s++)
                layer.state[i][s] = ended ? layer.state[i][s] : next[s];
        }
        rnn_send_layer<Layer>(self, layer, turn);
        rnn_run_layers<Layer + 1>(self, drawer, layers, input, turn);
    }
}

/// Before the first step: every h is sent, and R*h made of all but the last.
template <int Layer>
RNN_INLINE void rnn_send_initial(const RnnThread &self, const RnnLayer (&layers)[RNN_LAYERS])
{
    if constexpr (Layer < RNN_LAYERS) {
        rnn_send_layer<Layer>(self, layers[Layer], self.turn);
        rnn_send_initial<Layer + 1>(self, layers);
    }
}
template <int Layer>
RNN_INLINE void rnn_receive_initial(RnnThread &self, RnnLayer (&layers)[RNN_LAYERS])
{
    if constexpr (Layer < RNN_LAST) {
        float unused[rnn_item_count][RNN_GATES];
        rnn_receive_layer<Layer>(self, layers[Layer], unused, self.turn);
        rnn_receive_initial<Layer + 1>(self, layers);
    }
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
                const int unit = rnn_unit_of(self, RNN_UNITS, i / (RNN_ROW_TILES * RNN_COLUMNS));
                const int row = rnn_row_of(self, i / RNN_COLUMNS % RNN_ROW_TILES, i % RNN_COLUMNS);
                const bool owned = unit < RNN_UNITS && row < self.rows;
                float *at = run.states[l][s] + (self.first_row + row) * RNN_UNITS + unit;
                if (store && owned)
                    *at = self.stuck ? __int_as_float(0x7fffffff) : layers[l].state[i][s];
                else if (!store)
                    layers[l].state[i][s] = owned ? *at : 0.0f;
            }
}

/// Whether the host has cancelled, which all CTAs of the cluster learn at the same step.
RNN_INLINE bool rnn_is_cancelled(const RnnGenerate &run, const RnnThread &self)
{
    if (self.cta == 0 && threadIdx.x < RNN_CTAS)
        rnn_cluster_put(rnn_cluster_address(self.address + rnn_cancel_at, threadIdx.x),
                        *(volatile const int *)run.cancel);
    rnn_cluster_sync();
    return *(volatile const int *)(self.shared + rnn_cancel_at);
}

/// Arms both barriers of every operand.
template <int Phase> RNN_INLINE void rnn_arm(const RnnThread &self)
{
    if constexpr (Phase < RNN_PHASE_COUNT) {
        for (unsigned turn = 0; turn < 2; turn++) {
            rnn_barrier_init(rnn_barrier_of<Phase>(self, turn));
            rnn_barrier_expect(rnn_barrier_of<Phase>(self, turn), rnn_operand_bytes_of<Phase>);
        }
        rnn_arm<Phase + 1>(self);
    }
}

/// The fragments of a thread of the cells or of the draw, [fragment][thread].
RNN_INLINE void rnn_load_fragments(RnnThread &self, const uint4 *from, uint4 *rest, int count,
                                   int threads)
{
    self.rest = rest;
#pragma unroll
    for (int i = 0; i < rnn_held || i < rnn_draw_held; i++)
        if (i < count && i < RNN_SOME(rnn_held))
            self.weights[i] = rnn_load_once(from + i * threads);
    for (int i = RNN_HELD; i < count; i++)
        rest[(i - RNN_HELD) * threads] = from[i * threads];
}

/// Loads weights, vectors and the table, which hold for every row group, and makes barriers.
RNN_INLINE void rnn_begin(const RnnGenerate &run, RnnThread &self, RnnDrawer &drawer,
                          RnnLayer (&layers)[RNN_LAYERS])
{
    extern __shared__ float4 rnn_shared[];
    const int warp = threadIdx.x / 32;
    self.shared = (char *)rnn_shared;
    self.address = rnn_shared_address(rnn_shared);
    self.cta = rnn_cluster_rank();
    self.warp = self.owner = warp;
    self.part = 0;
    self.lane = threadIdx.x % 32;
    drawer.warp = warp - RNN_WARPS;
    for (int i = 0; i < RNN_DESTINATIONS; i++) { // each begins with another
        const int odd = RNN_COLUMNS == 2 ? 0 : self.lane / 4 % 2;
        const int rank = (self.cta + i * (3 - RNN_COLUMNS) + odd) % RNN_CTAS;
        self.peers[i] = rnn_cluster_address(self.address, rank);
    }
    self.stuck = false;
    self.turn = self.product = 0;
    for (int i = RNN_BARRIER_BYTES / 16 + threadIdx.x; i < rnn_given_at / 16; i += RNN_ALL_THREADS)
        rnn_shared[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (threadIdx.x == 0) {
        rnn_arm<0>(self);
        rnn_barriers_ready();
    }
    if (drawer.warp < 0)
        rnn_load_fragments(
            self,
            run.weights + (long long)self.cta * rnn_fragment_count * RNN_THREADS + threadIdx.x,
            (uint4 *)(self.shared + rnn_cells_at) + threadIdx.x, rnn_fragment_count, RNN_THREADS);
    else
        rnn_load_fragments(self,
                           run.weights + (long long)RNN_CTAS * rnn_fragment_count * RNN_THREADS +
                               threadIdx.x - RNN_THREADS,
                           (uint4 *)(self.shared + rnn_draws_at) + threadIdx.x - RNN_THREADS,
                           rnn_draw_fragments, RNN_DRAW_THREADS);
#pragma unroll
    for (int l = 0; l < RNN_LAYERS; l++)
#pragma unroll
        for (int g = 0; g < rnn_groups_most; g++) {
            const int unit = rnn_unit_of(self, RNN_UNITS, g);
            const bool owned = drawer.warp < 0 && unit < RNN_UNITS;
            for (int i = 0; i < RNN_SOME(RNN_BIASES); i++)
                layers[l].bias[g][i] =
                    owned && run.bias[l] ? run.bias[l][i * RNN_UNITS + unit] : 0.0f;
            for (int i = 0; i < RNN_SOME(RNN_RECURRENT_BIASES); i++)
                layers[l].recurrent_bias[g][i] = owned && run.recurrent_bias[l]
                                                     ? run.recurrent_bias[l][i * RNN_UNITS + unit]
                                                     : 0.0f;
            for (int i = 0; i < RNN_SOME(RNN_PARAMETERS); i++)
                layers[l].parameter[g][i] =
                    owned && run.parameter[l] ? run.parameter[l][i * RNN_UNITS + unit] : 0.0f;
        }
#pragma unroll
    for (int m = 0; m < RNN_DRAW_TILES; m++)
        for (int half = 0; half < 2; half++) {
            const int token = rnn_own_token(self, drawer, m, half);
            drawer.bias[m][half] =
                drawer.warp >= 0 && token < RNN_VOCABULARY ? run.dense_bias[token] : 0.0f;
        }
    const int first = self.cta * rnn_share(RNN_UNITS), own = rnn_unit_of(self, RNN_UNITS, 0);
    drawer.table = run.table + own;
    drawer.token_stride = RNN_GATES * RNN_UNITS;
    drawer.gate_stride = RNN_UNITS;
#if RNN_TABLE_SHARED
    constexpr int share = rnn_share(RNN_UNITS);
    float *table = (float *)(self.shared + rnn_table_at);
    for (int i = threadIdx.x; i < RNN_VOCABULARY * RNN_GATES * share; i += RNN_ALL_THREADS) {
        const int unit = first + i % share;
        table[i] = unit < RNN_UNITS ? run.table[(long long)(i / share) * RNN_UNITS + unit] : 0;
    }
    drawer.table = table + own - first;
    drawer.token_stride = RNN_GATES * share;
    drawer.gate_stride = share;
#endif
}

/// The tokens of a step of all rows; then layer 0 and those behind it. Rows that end are marked.
template <bool Chooses>
RNN_INLINE void rnn_step(const RnnGenerate &run, RnnThread &self, RnnDrawer &drawer,
                         RnnLayer (&layers)[RNN_LAYERS], long long step)
{
    int tokens[RNN_ROW_TILES][RNN_COLUMNS];
    rnn_take_offers<Chooses>(self, tokens);
    if (drawer.warp < 0) {
        float input[rnn_item_count][RNN_GATES];
        rnn_look_up(self, drawer, tokens, input);
        rnn_run_layers<0>(self, drawer, layers, input, self.turn + (unsigned)step + 1);
    }
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
        for (int e = 0; e < RNN_COLUMNS; e++) {
            const int row = rnn_row_of(self, n, e), token = tokens[n][e];
            if (self.cta == 0 && drawer.warp == 0 && self.lane < 4 && row < self.rows)
                *(volatile int *)&run.tokens[step * run.rows + self.first_row + row] =
                    drawer.ended[n][e] ? RNN_ENDED : token;
            drawer.ended[n][e] = drawer.ended[n][e] || token < 0 || (run.stops && run.stops[token]);
        }
}

/// All steps of a row group.
template <bool Chooses>
RNN_INLINE void rnn_run_rows(const RnnGenerate &run, RnnThread &self, RnnDrawer &drawer,
                             RnnLayer (&layers)[RNN_LAYERS])
{
    unsigned long long seeds[RNN_ROW_TILES][RNN_COLUMNS];
#pragma unroll
    for (int n = 0; n < RNN_ROW_TILES; n++)
#pragma unroll
        for (int e = 0; e < RNN_COLUMNS; e++) {
            const int row = rnn_row_of(self, n, e);
            seeds[n][e] = row < self.rows ? run.seeds[self.first_row + row] : 0;
            drawer.ended[n][e] = row >= self.rows || run.ended[self.first_row + row];
        }
    if (drawer.warp < 0) {
        rnn_exchange_states(run, self, layers, false);
        rnn_send_initial<0>(self, layers);
        rnn_receive_initial<0>(self, layers);
    }
    long long step = 0;
#pragma unroll 1
    for (;; step++) {
        const unsigned turn = self.turn + (unsigned)step;
        bool have_ended = true;
#pragma unroll
        for (int i = 0; i < RNN_ROW_TILES * RNN_COLUMNS; i++)
            have_ended &= drawer.ended[i / RNN_COLUMNS][i % RNN_COLUMNS];
        const bool is_last = __all_sync(0xffffffff, have_ended) || step == run.steps;
#pragma unroll
        for (int i = 0; i < rnn_held; i++)
            rnn_keep(self.weights[i]);
        if (drawer.warp < 0) {
            float unused[rnn_item_count][RNN_GATES];
            rnn_receive_layer<RNN_LAST>(self, layers[RNN_LAST], unused, turn);
        } else {
            rnn_make_noise(run, self, drawer, seeds, step);
            rnn_receive<RNN_LAST>(self, turn);
            rnn_offer<Chooses>(run, self, drawer, turn);
            if (Chooses)
                rnn_choose_rows(run, self, drawer);
        }
        __syncthreads();
        if (is_last || (step % RNN_CANCEL_STEPS == 0 && rnn_is_cancelled(run, self)))
            break;
        rnn_step<Chooses>(run, self, drawer, layers, step);
    }
    if (drawer.warp < 0)
        rnn_exchange_states(run, self, layers, true);
    self.turn += (unsigned)step + 1;
    rnn_cluster_sync(); // the flag is read
}

template <bool Chooses> RNN_INLINE void rnn_generate_rows(const RnnGenerate &run)
{
#if __CUDA_ARCH__ >= 900 // elsewhere the runtime finds no room for a cluster
    const int cluster = blockIdx.x / RNN_CTAS, clusters = gridDim.x / RNN_CTAS;
    RnnThread self;
    RnnDrawer drawer;
    RnnLayer layers[RNN_LAYERS];
    rnn_begin(run, self, drawer, layers);
    rnn_cluster_sync();
    for (self.first_row = (long long)cluster * RNN_ROWS; self.first_row < run.rows;
         self.first_row += (long long)clusters * RNN_ROWS) {
        const long long left = run.rows - self.first_row;
        self.rows = left < RNN_ROWS ? (int)left : RNN_ROWS;
        rnn_run_rows<Chooses>(run, self, drawer, layers);
    }
    rnn_cluster_sync();
    if (self.stuck)
        rnn_report(run);
#endif
}

extern "C" __global__ void __launch_bounds__(RNN_ALL_THREADS, 1) rnn_generate(const RnnGenerate run)
{
    rnn_generate_rows<false>(run);
}

extern "C" __global__ void __launch_bounds__(RNN_ALL_THREADS, 1)
    rnn_generate_choices(const RnnGenerate run)
{
    rnn_generate_rows<true>(run);
}

/// The row of weights that multiplies for half a tile of a cell warp, or of a draw warp; NULL:
/// zeros.
RNN_INLINE const float *rnn_cell_row(const RnnMatrices &of, int phase, int half, int cta, int owner,
                                     int lane)
{
    const int count = rnn_phases[phase].row_count, groups = rnn_groups(RNN_UNITS);
    const int group = half / count, gate = half % count;
    const int unit = cta * rnn_share(RNN_UNITS) + (owner * groups + group) * 8 + lane / 4;
    if (group >= groups || unit >= RNN_UNITS)
        return nullptr;
    return (gate < RNN_RECURRENT_ROWS ? of.R[phase] : of.W[phase + 1]) +
           ((long long)rnn_phases[phase].rows[gate] * RNN_UNITS + unit) * RNN_UNITS;
}
RNN_INLINE const float *rnn_draw_row(const RnnMatrices &of, int half, int warp, int lane)
{
    const int token = (warp * RNN_DRAW_TILES * 2 + half) * 8 + lane / 4;
    return token < RNN_VOCABULARY ? of.dense + (long long)token * RNN_UNITS : nullptr;
}

/// Packs all matrices into [cta][fragment][thread] of the cells, then [fragment][thread] of the
/// draw.
extern "C" __global__ void rnn_pack(const RnnMatrices matrices, uint4 *packed)
{
    const long long cells = (long long)RNN_CTAS * rnn_fragment_count * RNN_THREADS;
    const long long total = cells + rnn_draw_fragments * RNN_DRAW_THREADS;
    for (long long at = blockIdx.x * blockDim.x + threadIdx.x; at < total;
         at += (long long)gridDim.x * blockDim.x) {
        const bool draws = at >= cells;
        const int threads = draws ? RNN_DRAW_THREADS : RNN_THREADS;
        const long long index = draws ? at - cells : at;
        const int thread = index % threads, lane = thread % 32, warp = thread / 32;
        const int fragment = index / threads % (draws ? rnn_draw_fragments : rnn_fragment_count);
        const int cta = (int)(index / threads / rnn_fragment_count);
        int phase = draws ? RNN_LAST : 0;
        while (!draws && fragment >= rnn_first_fragment(phase + 1))
            phase++;
        const int row_tiles = draws ? RNN_DRAW_TILES : rnn_row_tiles(phase);
        const int within = draws ? fragment : fragment - rnn_first_fragment(phase);
        const int tile = within / row_tiles, m = within % row_tiles;
        unsigned words[4];
        for (int i = 0; i < 4; i++) { // half of the tile: i % 2; second word of the operand from 2
            const float *row = draws
                                   ? rnn_draw_row(matrices, m * 2 + i % 2, warp, lane)
                                   : rnn_cell_row(matrices, phase, m * 2 + i % 2, cta, warp, lane);
            const int k = (tile * 2 + i / 2) * 8 + lane % 4 * 2;
            float w[2] = {};
            for (int e = 0; e < 2; e++)
                if (row && k + e < RNN_UNITS)
                    w[e] = row[k + e];
            words[i] = rnn_narrow(w[0]) | (unsigned)rnn_narrow(w[1]) << 16;
        }
        packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
