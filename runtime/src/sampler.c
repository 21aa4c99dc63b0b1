// Sampler: see sampler.h. Compiled without contraction of multiply-adds.
#include "sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "memory.h"

/// This thread draws alone.
typedef struct {
    int member, members;
} rnn_team;
static unsigned long long rnn_team_most(const rnn_team *team, unsigned long long value)
{
    (void)team;
    return value;
}
static unsigned long long rnn_team_sum(const rnn_team *team, unsigned long long value)
{
    (void)team;
    return value;
}
#include "prim/choices.h"

/// Tokens whose noise is made together.
enum { BLOCK = 64 };

static bool mark(uint8_t *marks, int64_t vocabulary, const int32_t *tokens, int64_t count,
                 int32_t *out_wrong)
{
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= vocabulary) {
            *out_wrong = tokens[i];
            return false;
        }
        marks[tokens[i]] = 1;
    }
    return true;
}

static rnnc_status take_marks(rnnc_sampler *sampler, const rnnc_generation *generation,
                              rnnc_error *error)
{
    const int64_t vocabulary = sampler->vocabulary;
    int64_t banned = 0;
    int32_t wrong = 0;
    const bool is_banned_good =
        mark(sampler->banned, vocabulary, generation->banned, generation->banned_count, &wrong);
    if (!is_banned_good ||
        !mark(sampler->stops, vocabulary, generation->stops, generation->stop_count, &wrong))
        return rnnc_error_set(error, RNNC_INVALID_ARGUMENT, "%s token %d is outside 0 to %lld",
                              is_banned_good ? "stop" : "banned", (int)wrong,
                              (long long)(vocabulary - 1));
    for (int64_t i = 0; i < vocabulary; i++)
        banned += sampler->banned[i];
    if (banned == vocabulary)
        return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                              "all %lld tokens are banned: none is left to draw",
                              (long long)vocabulary);
    return RNNC_OK;
}

static rnnc_status check_choices(const rnnc_generation *generation, rnnc_error *error)
{
    const double temperature = (double)generation->temperature, top_p = (double)generation->top_p;
    if (!generation->greedy &&
        !(temperature > 0 && temperature < INFINITY && 1 / temperature <= (double)FLT_MAX))
        return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                              "temperature is %g, expected a number above 0 whose inverse is a "
                              "float32; greedy takes the likeliest token",
                              temperature);
    if (generation->top_k < 0)
        return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                              "top_k is %d, expected 1 or more, or 0 for all tokens",
                              (int)generation->top_k);
    if (!(top_p >= 0 && top_p <= 1))
        return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                              "top_p is %g, expected above 0 to 1, or 0 for all tokens", top_p);
    if (generation->banned_count < 0 || (generation->banned_count && !generation->banned) ||
        generation->stop_count < 0 || (generation->stop_count && !generation->stops))
        return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                              "banned or stops is NULL, or its count is negative");
    return RNNC_OK;
}

rnnc_status rnnc_sampler_open(rnnc_sampler *sampler, const rnnc_generation *generation,
                              int64_t vocabulary, rnnc_error *error)
{
    rnnc_status status = check_choices(generation, error);
    if (status != RNNC_OK)
        return status;
    const size_t padded = (size_t)((vocabulary + BLOCK - 1) / BLOCK * BLOCK);
    *sampler = (rnnc_sampler){
        .vocabulary = vocabulary,
        .greedy = generation->greedy != 0,
        .inverse_temperature = generation->greedy ? 1 : 1 / generation->temperature,
        .top_p = generation->greedy || generation->top_p >= 1 ? 0 : generation->top_p,
        .top_k = generation->top_k < vocabulary && !generation->greedy ? generation->top_k : 0,
        .banned = rnnc_memory_alloc(padded),
        .stops = rnnc_memory_alloc(padded),
        .scores = rnnc_memory_alloc(padded * sizeof(float)),
        .chances = rnnc_memory_alloc(padded * sizeof(rnn_chance))};
    if (!sampler->banned || !sampler->stops || !sampler->scores || !sampler->chances)
        return rnnc_error_set(error, RNNC_OUT_OF_MEMORY, "no memory for %lld tokens",
                              (long long)vocabulary);
    return take_marks(sampler, generation, error);
}

void rnnc_sampler_close(rnnc_sampler *sampler)
{
    rnnc_memory_free(sampler->banned);
    rnnc_memory_free(sampler->stops);
    rnnc_memory_free(sampler->scores);
    rnnc_memory_free(sampler->chances);
}

/// The noise of tokens `first` and on, whole fours of `count`.
static void add_noise(float *scores, uint64_t first, int64_t count, uint64_t seed, uint64_t draw)
{
    unsigned words[BLOCK];
    const int groups = (int)((count < BLOCK ? count + 3 : BLOCK) / 4);
    for (int group = 0; group < groups; group++)
        rnn_gumbel_words(words + 4 * group, (unsigned)(first / 4) + (unsigned)group, draw, seed);
    for (int i = 0; i < 4 * groups; i++)
        scores[i] += rnn_gumbel(words[i]);
}

/// The token with the best of the scores; -1: none is a number.
static int32_t find_best(const float *scores, int64_t vocabulary)
{
    int32_t best = -1;
    for (int32_t i = 0; i < vocabulary; i++)
        if (best < 0 ? scores[i] == scores[i] : scores[i] > scores[best])
            best = i;
    return best;
}

int32_t rnnc_sampler_draw(const rnnc_sampler *sampler, const float *logits, uint64_t seed,
                          uint64_t draw)
{
    const int64_t vocabulary = sampler->vocabulary;
    const bool chooses = sampler->top_k || sampler->top_p > 0;
    float *scores = sampler->scores;
    rnn_chance *chances = sampler->chances;
    for (int64_t i = 0; i < vocabulary; i++)
        scores[i] = sampler->banned[i] ? NAN : logits[i] * sampler->inverse_temperature;
    for (int64_t i = 0; i < vocabulary && chooses; i++)
        chances[i].order = rnn_order(scores[i]);
    for (int64_t first = 0; first < vocabulary && !sampler->greedy; first += BLOCK)
        add_noise(scores + first, (uint64_t)first, vocabulary - first, seed, draw);
    if (!chooses)
        return find_best(scores, vocabulary);
    for (int64_t i = 0; i < vocabulary; i++)
        chances[i].sum = rnn_order(scores[i]);
    rnn_team alone = {0, 1};
    return rnn_choose(&alone, chances, (int)vocabulary,
                      (rnn_choice){(unsigned)sampler->top_k, sampler->top_p});
}
