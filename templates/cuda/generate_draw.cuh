// How the CTAs of a group draw tokens together, for generate.cu: each has some of a row's logits.
//
// A CTA with logits sends the best sum of logit / temperature and noise with its token, two
// packets, and every CTA takes the best of all, the lowest token of equal ones:
//
//     rnn_offer    -> [parity][replica][row][RNN_DRAWERS] ->    rnn_take_offers
//
// With top_k or top_p it sends the chances of all its tokens, two packets each, to the team that
// draws the row, one of CTA row % RNN_CTAS, whose packet is then the only one with a token:
//
//     rnn_send_chances    -> [set][row][RNN_VOCABULARY] ->    rnn_choose_rows
//                         -> [parity][replica][row][0] ->     rnn_take_offers
//
// A CTA sends chances again when it has that token, which was drawn after all chances had been
// read: they need one buffer.
#ifndef RNN_GENERATE_DRAW_CUH
#define RNN_GENERATE_DRAW_CUH

#define RNN_TEAM_WARPS (RNN_VOCABULARY > 1024 ? 8 : 1)
#include "cuda/generate.cuh"
#include "cuda/grid_product.cuh"

enum {
    RNN_LANES = RNN_ROWS <= 8 ? 32 : RNN_THREADS / RNN_ROWS,            // that draw one row's token
    RNN_DRAWS = (RNN_MORE_ROWS + RNN_LANES - 1) / RNN_LANES,            // logits of one thread
    RNN_DRAWERS = (RNN_VOCABULARY + RNN_MORE_ROWS - 1) / RNN_MORE_ROWS, // CTAs with logits
    RNN_OFFERS = (RNN_DRAWERS + RNN_LANES - 1) / RNN_LANES,             // that one thread receives
    RNN_TOKENS = 64                                                     // words of shared memory
};
constexpr unsigned rnn_cancelled = 0x80000000;
static_assert(RNN_TEAM_WARPS == 1 || RNN_TEAM_WARPS == RNN_WARPS, "a warp or the CTA is a team");
static_assert(RNN_DRAWERS <= RNN_CTAS, "each CTA has RNN_MORE_ROWS logits at most");

/// What a thread keeps to draw: as lane rnn_draw_lane() of row rnn_draw_row().
struct RnnDrawer {
    float bias[RNN_DRAWS], noise[RNN_DRAWS];
    unsigned *tokens; ///< shared: [2][RNN_ROWS] the token drawn and 1 more; 0: none
    float *kept;      ///< shared, its own: [set][layer][item][states, products], RNN_THREADS apart
    const float *table;
    int token_stride, gate_stride; ///< of the table
    unsigned ended;                ///< bit of each set: the items' row
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

/// The noise of this thread's logits, which waits for nothing.
RNN_INLINE void rnn_make_noise(const RnnGenerate &run, const RnnThread &self, RnnDrawer &drawer,
                               long long step)
{
    const unsigned long long seed =
        rnn_draw_row() < self.rows ? run.seeds[self.first_row + rnn_draw_row()] : 0;
#pragma unroll
    for (int i = 0; i < RNN_DRAWS; i++) {
        const int token = rnn_own_token(self, i);
        const bool drawn = token < RNN_VOCABULARY && rnn_draw_row() < self.rows;
        drawer.noise[i] = drawn ? rnn_noise(run, token, step, seed) : 0.0f;
    }
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

/// This thread's logit `i` over the temperature.
RNN_INLINE float rnn_own_scaled(const RnnGenerate &run, const RnnDrawer &drawer,
                                const float *partials, int i)
{
    const int row_of_R =
        rnn_phases[RNN_LAST].row_count * RNN_SHARE + rnn_draw_lane() + i * RNN_LANES;
    const float logit = rnn_sum<RNN_LAST>(partials, row_of_R, rnn_draw_row()) + drawer.bias[i];
    return rnn_scaled(run, logit);
}

/// Where the offers for a row and replica lie.
RNN_INLINE uint4 *rnn_offers_of(const RnnThread &self, unsigned epoch, int replica, int row)
{
    return self.buffers + rnn_offer_at(epoch & 1) + (replica * RNN_ROWS + row) * RNN_DRAWERS;
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
        const float score = __fadd_rn(rnn_own_scaled(run, drawer, partials, i), drawer.noise[i]);
        rnn_take_better(best, {score, score == score ? token + 1u : 0u});
    }
    rnn_reduce(best);
    for (int replica = rnn_draw_lane(); replica < RNN_REPLICAS; replica += RNN_LANES) {
        uint4 *to = rnn_offers_of(self, epoch, replica, rnn_draw_row()) + self.cta;
        rnn_packet_store(to, __float_as_uint(best.score), epoch);
        rnn_packet_store((char *)to + 8, best.token | cancelled, epoch);
    }
}

/// The chances of a row of this set, [RNN_VOCABULARY] packets of order and of sum.
RNN_INLINE uint4 *rnn_chances_of(const RnnGenerate &run, int set, int row)
{
    const long long set_of_all = (long long)(blockIdx.x / RNN_CTAS) * RNN_SETS + set;
    return (uint4 *)run.chances + (set_of_all * RNN_ROWS + row) * RNN_VOCABULARY;
}

/// Sends the chances of this CTA's tokens for each row.
RNN_INLINE void rnn_send_chances(const RnnGenerate &run, const RnnThread &self,
                                 const RnnDrawer &drawer, int set, const float *partials,
                                 unsigned epoch)
{
#pragma unroll
    for (int i = 0; i < RNN_DRAWS; i++) {
        const int token = rnn_own_token(self, i);
        if (token >= RNN_VOCABULARY || rnn_draw_row() >= self.rows)
            continue;
        const rnn_chance chance =
            rnn_chance_of(rnn_own_scaled(run, drawer, partials, i), drawer.noise[i]);
        uint4 *to = rnn_chances_of(run, set, rnn_draw_row()) + token;
        rnn_packet_store(to, chance.order, epoch);
        rnn_packet_store((char *)to + 8, chance.sum, epoch);
    }
}

/// Receives a thread's chances from `from`, some at once.
RNN_INLINE void rnn_receive_chances(RnnThread &self, const rnn_team &team, const uint4 *from,
                                    rnn_chance (&chances)[RNN_CHANCES], unsigned epoch)
{
    constexpr int lot = RNN_CHANCES < 8 ? RNN_CHANCES : 8;
#pragma unroll 1
    for (int first = 0; first < RNN_CHANCES; first += lot) {
        bool waiting = true;
        uint4 packets[lot];
#pragma unroll
        for (int i = 0; i < lot; i++)
            packets[i] = make_uint4(0, epoch - 1, 0, epoch - 1);
        for (int polls = 0; waiting && !self.stuck; polls++) {
            self.stuck = polls == RNN_POLLS_MAX;
            waiting = false;
#pragma unroll
            for (int i = 0; i < lot; i++) {
                const int token = (int)rnn_chance_token(&team, first + i);
                if (token >= RNN_VOCABULARY)
                    continue;
                rnn_exchange_load(packets[i], from + token,
                                  rnn_differ(packets[i].y, packets[i].w, epoch));
                waiting |= rnn_differ(packets[i].y, packets[i].w, epoch) != 0;
            }
        }
#pragma unroll
        for (int i = 0; i < lot; i++)
            if (RNN_CHANCES % lot == 0 || first + i < RNN_CHANCES)
                chances[RNN_CHANCES == lot ? i : first + i] = {packets[i].x, packets[i].z};
    }
    self.stuck = __any_sync(0xffffffff, self.stuck);
}

/// Draws this CTA's rows of the set, and sends their tokens.
RNN_INLINE void rnn_choose_rows(const RnnGenerate &run, RnnThread &self, int set, long long step,
                                unsigned epoch)
{
    rnn_team team = {(int)threadIdx.x % RNN_TEAM, RNN_TEAM, (rnn_place *)rnn_partials(self), 0};
    constexpr int teams = RNN_WARPS / RNN_TEAM_WARPS;
#pragma unroll 1
    for (int row = self.cta + (int)threadIdx.x / RNN_TEAM * RNN_CTAS; row < self.rows;
         row += teams * RNN_CTAS) {
        rnn_chance chances[RNN_CHANCES];
        rnn_receive_chances(self, team, rnn_chances_of(run, set, row), chances, epoch);
        const int token = rnn_choose(&team, chances, RNN_CHANCES, run.choice);
        if (team.member >= 32)
            continue;
        const bool looks = row == 0 && set == 0 && step % RNN_CANCEL_STEPS == 0;
        const int cancel =
            __shfl_sync(0xffffffff, looks ? *(volatile const int *)run.cancel : 0, 0);
        for (int replica = team.member; replica < RNN_REPLICAS; replica += 32) {
            uint4 *to = rnn_offers_of(self, epoch, replica, row);
            rnn_packet_store(to, 0, epoch);
            rnn_packet_store((char *)to + 8, (token + 1u) | (cancel ? rnn_cancelled : 0), epoch);
        }
    }
}

/// Receives what all have sent for the row, or the one that has drawn it, and leaves the best for
/// the CTA.
template <bool Chooses>
RNN_INLINE void rnn_take_offers(RnnThread &self, unsigned *tokens, unsigned epoch)
{
    constexpr int senders = Chooses ? 1 : RNN_DRAWERS, most = Chooses ? 1 : RNN_OFFERS;
    const uint4 *from = rnn_offers_of(self, epoch, self.cta % RNN_REPLICAS, rnn_draw_row());
    uint4 offers[most];
    bool waiting = !Chooses || rnn_draw_row() < self.rows;
#pragma unroll
    for (int i = 0; i < most; i++)
        offers[i] = make_uint4(0, epoch - 1, 0, epoch - 1);
    for (int polls = 0; waiting && !self.stuck; polls++) {
        self.stuck = polls == RNN_POLLS_MAX;
        waiting = false;
#pragma unroll
        for (int i = 0; i < most; i++) {
            const int at = rnn_draw_lane() + i * RNN_LANES;
            if (at >= senders)
                continue;
            rnn_exchange_load(offers[i], from + at, rnn_differ(offers[i].y, offers[i].w, epoch));
            waiting |= rnn_differ(offers[i].y, offers[i].w, epoch) != 0;
        }
    }
    self.stuck = __any_sync(0xffffffff, self.stuck);
    RnnOffer best = {0.0f, 0};
#pragma unroll
    for (int i = 0; i < most; i++)
        rnn_take_better(best, {__uint_as_float(offers[i].x), offers[i].z & ~rnn_cancelled});
    rnn_reduce(best);
    if (rnn_draw_lane() == 0) // the group's first CTA has sent what this lane received first
        tokens[rnn_draw_row()] = best.token | (offers[0].z & rnn_cancelled);
}

#endif
