// What draws a row's token with top_k or top_p: the warps of a team, each thread with its part of
// the tokens (prim/choices.h). A thread's chances lie in registers where they are few, else in its
// local memory.
#ifndef RNN_CHOICES_CUH
#define RNN_CHOICES_CUH

#include "cuda/prelude.cuh"

#ifndef RNN_TEAM_WARPS
#define RNN_TEAM_WARPS 1
#endif

enum {
    RNN_TEAM = 32 * RNN_TEAM_WARPS,
    RNN_CHANCES = (RNN_VOCABULARY + RNN_TEAM - 1) / RNN_TEAM, // of a thread
    RNN_CHANCES_UNROLLED = RNN_CHANCES <= 8 ? RNN_CHANCES : 1
};

/// A thread of a team. Where the team has several warps they are those of the CTA, and all of them
/// call everything.
struct rnn_team {
    int member, members;
    unsigned long long *of_warps; ///< shared, [2][RNN_TEAM_WARPS]
    int turn;                     ///< of of_warps
};

/// The values of all warps, each with its own, to every thread.
RNN_INLINE const unsigned long long *rnn_team_share(rnn_team *team, unsigned long long value)
{
    unsigned long long *all = team->of_warps + team->turn * RNN_TEAM_WARPS;
    if (team->member % 32 == 0)
        all[team->member / 32] = value;
    team->turn ^= 1; // the other half is written before this one is read by all
    __syncthreads();
    return all;
}

RNN_INLINE unsigned long long rnn_team_most(rnn_team *team, unsigned long long value)
{
    const unsigned high = __reduce_max_sync(0xffffffff, (unsigned)(value >> 32));
    const unsigned low = __reduce_max_sync(0xffffffff, value >> 32 == high ? (unsigned)value : 0);
    unsigned long long most = (unsigned long long)high << 32 | low;
    if constexpr (RNN_TEAM_WARPS > 1) {
        const unsigned long long *all = rnn_team_share(team, most);
        for (int warp = 0; warp < RNN_TEAM_WARPS; warp++)
            most = all[warp] > most ? all[warp] : most;
    }
    return most;
}

/// In pieces of 27 bits, of which 32 do not overflow.
RNN_INLINE unsigned long long rnn_team_sum(rnn_team *team, unsigned long long value)
{
    unsigned long long sum = 0;
#pragma unroll
    for (int piece = 0; piece < 3; piece++)
        sum += (unsigned long long)__reduce_add_sync(0xffffffff,
                                                     (unsigned)(value >> 27 * piece) & 0x7ffffff)
               << 27 * piece;
    if constexpr (RNN_TEAM_WARPS > 1) {
        const unsigned long long *all = rnn_team_share(team, sum);
        sum = 0;
        for (int warp = 0; warp < RNN_TEAM_WARPS; warp++)
            sum += all[warp];
    }
    return sum;
}

#include "prim/choices.h"

/// The chance of a token with that logit / temperature, and noise.
RNN_INLINE rnn_chance rnn_chance_of(float scaled, float noise)
{
    return {rnn_order(scaled), rnn_order(__fadd_rn(scaled, noise))};
}

#endif
