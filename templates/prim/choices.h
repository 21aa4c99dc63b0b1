/* Drawing a token of the top_k likeliest, or of the fewest likeliest that are together top_p
 * probable, or both. Tokens have an order: by logit / temperature, of equal ones the lower number
 * first. A token that stands behind fewer than top_k others, whose probabilities together do not
 * reach top_p, is let in, so that the tokens let in are the first of the order, how many ever.
 * Hence nothing is sorted:
 *
 *     until one is let in:  draw by noise among those before the last one drawn
 *
 * Each draw that is not let in leaves only tokens before it. That is a draw of what would be left
 * if all that are not let in were taken away at first, since noise is no part of the order; the
 * mass left falls to a random part of itself each time, so that few turns are needed.
 *
 * Probabilities are summed as whole numbers, exp(difference to the likeliest) in units of 2^-32,
 * rounded down: exact in any order. The sum of 2^31 tokens does not overflow.
 *
 * The members of a team, a thread each, share the tokens of a row: member m of n has tokens m, m +
 * n and on. Before this file is included stand the type rnn_team, with int member and members, and
 *     rnn_place rnn_team_most(rnn_team *, rnn_place)     the largest that a member gives, to all
 *     rnn_place rnn_team_sum(rnn_team *, rnn_place)      the sum
 * with unsigned long long for rnn_place. Plain C that NVRTC accepts too; C code is compiled with
 * -ffp-contract=off. */
#ifndef RNN_PRIM_CHOICES_H
#define RNN_PRIM_CHOICES_H

#include "prim/gumbel.h"

#ifdef __CUDACC__
#define RNN_EACH_CHANCE _Pragma("unroll (RNN_CHANCES_UNROLLED)")
#else
#define RNN_EACH_CHANCE
#endif

/* A token's place in the order: rnn_order of its number, then the complement of the token, so that
 * a larger one is nearer the front. 0: of none. */
typedef unsigned long long rnn_place;

/* What a token is drawn by: rnn_order of logit / temperature, and of that with noise; 0: never. */
typedef struct rnn_chance {
    unsigned int order, sum;
} rnn_chance;

/* What may be drawn: 0 and 0 let all in. */
typedef struct rnn_choice {
    unsigned int top_k;
    float top_p;
} rnn_choice;

/* A number that is greater where `x` is, the same for both zeros; 0 of NaN. */
RNN_PHILOX_INLINE unsigned int rnn_order(float x)
{
    const unsigned int bits = (unsigned int)RNN_FLOAT_BITS(RNN_STRICT_ADD(x, 0.0f));
    return x != x ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
}
RNN_PHILOX_INLINE float rnn_order_value(unsigned int order)
{
    return RNN_BITS_FLOAT((int)(order >> 31 ? order & 0x7fffffffu : ~order));
}

RNN_PHILOX_INLINE rnn_place rnn_place_of(unsigned int order, unsigned int token)
{
    return order ? (rnn_place)order << 32 | ~token : 0;
}

/* exp(of - likeliest) in units of 2^-32. */
RNN_PHILOX_INLINE rnn_place rnn_mass(unsigned int of, unsigned int likeliest)
{
    if (of == likeliest)
        return 1ull << 32;
    return (rnn_place)RNN_STRICT_MUL(
        rnn_gumbel_exp(RNN_STRICT_ADD(rnn_order_value(of), -rnn_order_value(likeliest))),
        4294967296.0f);
}

/* The token of a member's chance. */
RNN_PHILOX_INLINE unsigned int rnn_chance_token(const rnn_team *team, int at)
{
    return (unsigned int)(team->member + at * team->members);
}

/* How many tokens stand before `place`. */
RNN_PHILOX_INLINE rnn_place rnn_count_before(rnn_team *team, const rnn_chance *chances, int count,
                                             rnn_place place)
{
    rnn_place before = 0;
    RNN_EACH_CHANCE
    for (int i = 0; i < count; i++)
        before += rnn_place_of(chances[i].order, rnn_chance_token(team, i)) > place;
    return rnn_team_sum(team, before);
}

/* The mass of the tokens that stand before `place`. */
RNN_PHILOX_INLINE rnn_place rnn_mass_before(rnn_team *team, const rnn_chance *chances, int count,
                                            rnn_place place, unsigned int likeliest)
{
    rnn_place before = 0;
    RNN_EACH_CHANCE
    for (int i = 0; i < count; i++)
        if (rnn_place_of(chances[i].order, rnn_chance_token(team, i)) > place)
            before += rnn_mass(chances[i].order, likeliest);
    return rnn_team_sum(team, before);
}

/* The order of a token that a member has. */
RNN_PHILOX_INLINE unsigned int rnn_order_of(rnn_team *team, const rnn_chance *chances, int count,
                                            unsigned int token)
{
    rnn_place order = 0;
    RNN_EACH_CHANCE
    for (int i = 0; i < count; i++)
        order = rnn_chance_token(team, i) == token ? chances[i].order : order;
    return (unsigned int)rnn_team_most(team, order);
}

/* The k-th place, or the last where there are fewer: what lies between a place that is let in and
 * one that is not is parted by a token of it, until it has none. The odd factor gives every token
 * a number of its own, and the largest is as good as any at random. */
RNN_PHILOX_INLINE rnn_place rnn_kth_place(rnn_team *team, const rnn_chance *chances, int count,
                                          unsigned int k)
{
    rnn_place in = ~0ull, out = 0;
    for (;;) {
        rnn_place most = 0;
        RNN_EACH_CHANCE
        for (int i = 0; i < count; i++) {
            const unsigned int token = rnn_chance_token(team, i);
            const rnn_place place = rnn_place_of(chances[i].order, token);
            const rnn_place number = rnn_place_of((token + 1) * 0x9e3779b1u, token);
            most = place > out && place < in && number > most ? number : most;
        }
        most = rnn_team_most(team, most);
        if (!most)
            return in;
        const unsigned int token = ~(unsigned int)most;
        const rnn_place parting = rnn_place_of(rnn_order_of(team, chances, count, token), token);
        const rnn_place before = rnn_count_before(team, chances, count, parting);
        if (before + 1 == k)
            return parting;
        in = before < k ? parting : in;
        out = before < k ? out : parting;
    }
}

/* The mass that tokens before one must not reach for it to be let in: all where top_p is 0. */
RNN_PHILOX_INLINE rnn_place rnn_mass_let_in(rnn_team *team, const rnn_chance *chances, int count,
                                            rnn_choice choice, unsigned int likeliest)
{
    if (!(choice.top_p > 0.0f))
        return ~0ull;
    const rnn_place last = choice.top_k ? rnn_kth_place(team, chances, count, choice.top_k) - 1 : 0;
    const rnn_place total = rnn_mass_before(team, chances, count, last, likeliest);
    const rnn_place share = (rnn_place)((double)choice.top_p * (double)total);
    return share ? share : 1;
}

/* The token drawn, which is the same for all members; -1 where there is none. Members have `count`
 * chances each; those of tokens beyond the vocabulary are 0. */
RNN_PHILOX_INLINE int rnn_choose(rnn_team *team, const rnn_chance *chances, int count,
                                 rnn_choice choice)
{
    rnn_place most = 0, behind = 0;
    RNN_EACH_CHANCE
    for (int i = 0; i < count; i++)
        most = chances[i].order > most ? chances[i].order : most;
    const unsigned int likeliest = (unsigned int)rnn_team_most(team, most);
    const rnn_place let_in = rnn_mass_let_in(team, chances, count, choice, likeliest);
    for (;;) {
        most = 0;
        RNN_EACH_CHANCE
        for (int i = 0; i < count; i++) {
            const unsigned int token = rnn_chance_token(team, i);
            const rnn_place sum = rnn_place_of(chances[i].sum, token);
            const int is_left = rnn_place_of(chances[i].order, token) > behind;
            most = is_left && sum > most ? sum : most;
        }
        most = rnn_team_most(team, most);
        if (!most)
            return -1;
        const unsigned int token = ~(unsigned int)most;
        behind = rnn_place_of(rnn_order_of(team, chances, count, token), token);
        if (choice.top_k && rnn_count_before(team, chances, count, behind) >= choice.top_k)
            continue;
        if (~let_in && rnn_mass_before(team, chances, count, behind, likeliest) >= let_in)
            continue;
        return (int)token;
    }
}

#endif
