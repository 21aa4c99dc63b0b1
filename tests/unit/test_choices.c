// top_k and top_p: the sampler, which sorts nothing, draws the token that comes of sorting, summing
// and cutting; so does a team of threads that share the tokens of a row, as those of a GPU do.
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sampler.h"

enum { MEMBERS_MAX = 37, VOCABULARY_MAX = 5000 };

/// Threads that reduce by a row of places, and wait for one another before and behind.
typedef struct {
    int member, members;
    unsigned long long *given; ///< [members]
    pthread_barrier_t *barrier;
} rnn_team;

static unsigned long long reduce(const rnn_team *team, unsigned long long value, bool adds)
{
    unsigned long long all = 0;
    team->given[team->member] = value;
    pthread_barrier_wait(team->barrier);
    for (int i = 0; i < team->members; i++)
        all = adds ? all + team->given[i] : team->given[i] > all ? team->given[i] : all;
    pthread_barrier_wait(team->barrier);
    return all;
}
static unsigned long long rnn_team_most(rnn_team *team, unsigned long long value)
{
    return reduce(team, value, false);
}
static unsigned long long rnn_team_sum(rnn_team *team, unsigned long long value)
{
    return reduce(team, value, true);
}
#include "prim/choices.h"

/// A row's draw.
typedef struct {
    int vocabulary;
    float scores[VOCABULARY_MAX], sums[VOCABULARY_MAX]; ///< without and with noise
    rnn_choice choice;
} Draw;

static const Draw *sorted;

static int by_order(const void *a, const void *b)
{
    const int i = *(const int *)a, k = *(const int *)b;
    const float of_i = sorted->scores[i], of_k = sorted->scores[k];
    const bool no_i = of_i != of_i, no_k = of_k != of_k;
    if (no_i != no_k)
        return no_i ? 1 : -1;
    if (!no_i && of_i != of_k)
        return of_i > of_k ? -1 : 1;
    return i < k ? -1 : 1;
}

/// exp of a score's difference to the best in units of 2^-32.
static uint64_t mass_of(float score, float best)
{
    return score == best ? (uint64_t)1 << 32
                         : (uint64_t)((double)rnn_gumbel_exp(score - best) * 4294967296.0);
}

/// The token that docs/generate.md says: sort, keep, take the best sum.
static int draw_by_sorting(const Draw *draw)
{
    static int order[VOCABULARY_MAX];
    int count = 0, best = -1;
    for (int i = 0; i < draw->vocabulary; i++)
        order[i] = i;
    sorted = draw;
    qsort(order, (size_t)draw->vocabulary, sizeof *order, by_order);
    while (count < draw->vocabulary && !isnan(draw->scores[order[count]]))
        count++;
    if (draw->choice.top_k && (unsigned)count > draw->choice.top_k)
        count = (int)draw->choice.top_k;
    if (draw->choice.top_p > 0 && count > 0) {
        const float likeliest = draw->scores[order[0]];
        uint64_t total = 0, sum = 0;
        for (int i = 0; i < count; i++)
            total += mass_of(draw->scores[order[i]], likeliest);
        const uint64_t share = (uint64_t)((double)draw->choice.top_p * (double)total);
        int kept = 0;
        do
            sum += mass_of(draw->scores[order[kept++]], likeliest);
        while (sum < share);
        count = kept;
    }
    for (int i = 0; i < count; i++) {
        const float sum = draw->sums[order[i]];
        if (best < 0 || sum > draw->sums[best] || (sum == draw->sums[best] && order[i] < best))
            best = order[i];
    }
    return best;
}

typedef struct {
    const Draw *draw;
    rnn_team team;
    int token;
} Member;

static void *draw_as_member(void *context)
{
    Member *self = context;
    rnn_chance chances[VOCABULARY_MAX];
    const int count = (self->draw->vocabulary + self->team.members - 1) / self->team.members;
    for (int i = 0; i < count; i++) {
        const int token = self->team.member + i * self->team.members;
        const bool is_there = token < self->draw->vocabulary;
        chances[i].order = is_there ? rnn_order(self->draw->scores[token]) : 0;
        chances[i].sum = is_there ? rnn_order(self->draw->sums[token]) : 0;
    }
    self->token = rnn_choose(&self->team, chances, count, self->draw->choice);
    return NULL;
}

static void assert_team_draws(const Draw *draw, int members, int token)
{
    unsigned long long given[MEMBERS_MAX];
    pthread_barrier_t barrier;
    pthread_t threads[MEMBERS_MAX];
    Member team[MEMBERS_MAX];
    pthread_barrier_init(&barrier, NULL, (unsigned)members);
    for (int i = 0; i < members; i++) {
        team[i] = (Member){draw, {i, members, given, &barrier}, -1};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, draw_as_member, &team[i]), 0);
    }
    for (int i = 0; i < members; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(team[i].token, token);
    }
    pthread_barrier_destroy(&barrier);
}

static float uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) / 16777216.0f;
}

/// Logits of one kind: spread, nearly all equal (ties), steep, or with NaN and infinities.
static void fill_logits(float *logits, int count, int kind, uint64_t *state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, -NAN};
    for (int i = 0; i < count; i++) {
        const float u = uniform(state);
        logits[i] = kind == 0   ? 8 * u - 4
                    : kind == 1 ? (float)(int)(3 * u) - 1
                    : kind == 2 ? -60 * u
                                : odd[(int)(6 * u)];
        if (kind == 3 && uniform(state) < 0.7f)
            logits[i] = odd[0];
    }
}

/// What the sampler makes of the logits before it chooses.
static void fill_draw(Draw *draw, const float *logits, const rnnc_sampler *sampler, uint64_t seed,
                      uint64_t number)
{
    draw->vocabulary = (int)sampler->vocabulary;
    draw->choice = (rnn_choice){(unsigned)sampler->top_k, sampler->top_p};
    for (int i = 0; i < draw->vocabulary; i++) {
        unsigned words[4];
        rnn_gumbel_words(words, (unsigned)i / 4, number, seed);
        draw->scores[i] = sampler->banned[i] ? NAN : logits[i] * sampler->inverse_temperature;
        draw->sums[i] = draw->scores[i] + rnn_gumbel(words[i % 4]);
    }
}

START_TEST(tokens_are_those_of_sorting)
{
    static const int vocabularies[] = {1, 2, 7, 64, 66, 300, 5000};
    static const int32_t top_k[] = {0, 1, 3, 40, 4000};
    static const float top_p[] = {0, 1e-12f, 0.05f, 0.5f, 0.9f, 0.9999f, 1};
    static const int32_t banned[] = {0, 5};
    static float logits[VOCABULARY_MAX];
    static Draw draw;
    uint64_t state = 1;
    int number = 0;
    for (int v = 0; v < 7; v++)
        for (int k = 0; k < 5; k++)
            for (int p = 0; p < 7; p++)
                for (int kind = 0; kind < 4; kind++, number++) {
                    rnnc_sampler sampler = {0};
                    rnnc_error error = {0};
                    const rnnc_generation generation = {
                        .temperature = number % 2 ? 1.0f : 0.6f,
                        .top_k = top_k[k],
                        .top_p = top_p[p],
                        .banned = banned,
                        .banned_count = number % 3 == 0 && vocabularies[v] > 6 ? 2 : 0};
                    ck_assert_int_eq(
                        rnnc_sampler_open(&sampler, &generation, vocabularies[v], &error), RNNC_OK);
                    fill_logits(logits, vocabularies[v], kind, &state);
                    for (uint64_t seed = 0; seed < 3; seed++) {
                        fill_draw(&draw, logits, &sampler, seed, (uint64_t)number);
                        const int token = draw_by_sorting(&draw);
                        ck_assert_int_eq(
                            rnnc_sampler_draw(&sampler, logits, seed, (uint64_t)number), token);
                        if (number % 8 == 0 && seed == 0)
                            assert_team_draws(&draw, number % 16 ? 5 : MEMBERS_MAX, token);
                    }
                    rnnc_sampler_close(&sampler);
                }
}
END_TEST

/// The order of numbers is that of float, and their masses are those of exp.
START_TEST(orders_and_masses)
{
    static const float rising[] = {-INFINITY, -3e38f, -1, -1e-42f, 0, 1e-42f, 1, 3e38f, INFINITY};
    for (int i = 0; i < 9; i++) {
        ck_assert(rnn_order_value(rnn_order(rising[i])) == rising[i]);
        ck_assert(rnn_order(rising[i]) > (i ? rnn_order(rising[i - 1]) : 0));
        ck_assert(rnn_mass(rnn_order(rising[i]), rnn_order(rising[i])) == 1ull << 32);
        ck_assert(rnn_mass(rnn_order(rising[0]), rnn_order(rising[i])) == (i ? 0 : 1ull << 32));
    }
    ck_assert(rnn_order(NAN) == 0 && rnn_order(-NAN) == 0 && rnn_order(-0.0f) == rnn_order(0));
    for (float x = 0; x > -30; x -= 0.37f)
        ck_assert_double_le(
            fabs((double)rnn_mass(rnn_order(x), rnn_order(0)) / 4294967296.0 - exp((double)x)),
            3e-7 * exp((double)x) + 2.4e-10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("choices");
    TCase *tests = tcase_create("cpu");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, tokens_are_those_of_sorting);
    tcase_add_test(tests, orders_and_masses);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
