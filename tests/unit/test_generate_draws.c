// Draws of generated text: the noise is that of libm, tokens have the exact distribution, ties go
// to the lowest number, and a whole text is as probable as the float64 reference says it has to be.
#include <math.h>

#include "generate_fixture.h"
#include "model/reference.h"
#include "prim/gumbel.h"

static void compile_first(void)
{
    compile_models(1);
}

START_TEST(noise_is_that_of_libm)
{
    const unsigned words[] = {0,          1,          2,          0x3fffffff,
                              0x40000000, 0x40000001, 0x7fffffff, 0x80000000,
                              0xa1b2c3d4, 0xfffffffe, 0xffffffff};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const double v = ((double)words[i] + 0.5) / 4294967296.0, right = -log(-log1p(-v));
        ck_assert_double_le(fabs((double)rnn_gumbel(words[i]) - right), 4e-7 * (1 + fabs(right)));
    }
    for (double x = 0; x > -87; x -= 0.37)
        ck_assert_double_le(fabs((double)rnn_gumbel_exp((float)x) / exp((double)(float)x) - 1),
                            3e-7);
    ck_assert(rnn_gumbel_exp(-88) == 0 && rnn_gumbel_exp(0) == 1);
}
END_TEST

static const float bias[V] = {0.3f, -1, 2, 0, 1.5f, -3, 0.7f, 2, -0.2f, 1, -9};

/// A session whose logits are always `bias`.
static rnnc_session *constant_session(const rnnc_module *module, int64_t rows)
{
    static float none[V * 19];
    float values[V];
    rnnc_session *session = fixture_session(module, rows, 1);
    memcpy(values, bias, sizeof bias);
    ck_assert_int_eq(fixture_bind(session, "d/W", none, V, 19, 0), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "d/b", values, V, 0, 0), RNNC_OK);
    return session;
}

/// Draws of softmax(bias / 0.8) over what is let in, 10^6 of all tokens: chi-square of single
/// draws, and of pairs that follow one another. The bounds are the 99.9 % quantiles.
START_TEST(draws_have_the_exact_distribution)
{
    enum { TEXTS = 1000, LONG = 1000 };
    static int32_t tokens[TEXTS * LONG];
    static const struct {
        int32_t top_k;
        float top_p;
        int32_t banned[2];
        int64_t banned_count;
        int let_in[V], count; ///< counted by hand from `bias`
        double single, pair;
        int64_t length;
    } cases[] = {
        {0, 0, {0}, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 11, 29.59, 173.6, LONG},
        {0, 0, {2, 6}, 2, {0, 1, 3, 4, 5, 7, 8, 9, 10}, 9, 26.12, 124.8, 100},
        {3, 0, {0}, 0, {2, 4, 7}, 3, 13.82, 26.12, 100},
        {1, 0, {0}, 0, {2}, 1, 0, 0, 100},
        {0, 0.5f, {0}, 0, {2, 7}, 2, 10.83, 16.27, 100},
        {4, 0.7f, {2}, 1, {4, 7}, 2, 10.83, 16.27, 100},
    };
    rnnc_module *module = numbered(0);
    rnnc_session *session = constant_session(module, TEXTS);
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        const int64_t length = cases[n].length;
        double total = 0, chi = 0, pairs = 0, p[V] = {0};
        static int64_t seen[V], after[V][V];
        memset(seen, 0, sizeof seen);
        memset(after, 0, sizeof after);
        rnnc_set_seed(session, 1000000 * n);
        generate(session, &(rnnc_generation){.rows = TEXTS,
                                             .length = length,
                                             .temperature = 0.8f,
                                             .top_k = cases[n].top_k,
                                             .top_p = cases[n].top_p,
                                             .banned = cases[n].banned,
                                             .banned_count = cases[n].banned_count,
                                             .tokens = tokens});
        for (int i = 0; i < cases[n].count; i++)
            total += p[cases[n].let_in[i]] = exp((double)bias[cases[n].let_in[i]] / (double)0.8f);
        for (int row = 0; row < TEXTS; row++)
            for (int64_t i = row * length; i < (row + 1) * length; i++) {
                seen[tokens[i]]++;
                if (i % 2)
                    after[tokens[i - 1]][tokens[i]]++;
            }
        for (int i = 0; i < V; i++) {
            const double expected = p[i] / total * (double)(TEXTS * length);
            ck_assert(p[i] > 0 || seen[i] == 0);
            if (p[i] > 0)
                chi += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
            for (int k = 0; k < V && p[i] > 0; k++) {
                const double both = expected * p[k] / total / 2;
                const double apart = (double)after[i][k] - both;
                if (p[k] > 0)
                    pairs += apart * apart / both;
            }
        }
        ck_assert_double_le(chi, cases[n].single + 1e-9);
        ck_assert_double_le(pairs, cases[n].pair + 1e-9);
    }
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// Equal logits: the lowest number, greedy and where the k-th is one of them; NaN is never drawn.
START_TEST(ties_go_to_the_lowest_number)
{
    rnnc_module *module = numbered(0);
    rnnc_session *session = constant_session(module, 1);
    int32_t tokens[N];
    rnnc_generation text = {.length = N, .greedy = 1, .tokens = tokens};
    generate(session, &text);
    ck_assert_int_eq(tokens[0], 2);
    text.banned = (int32_t[]){2};
    text.banned_count = 1;
    generate(session, &text);
    ck_assert_int_eq(tokens[0], 7);
    float values[V];
    for (int i = 0; i < V; i++)
        values[i] = i == 3 || i == 5 ? 1 : NAN;
    ck_assert_int_eq(fixture_bind(session, "d/b", values, V, 0, 0), RNNC_OK);
    text = (rnnc_generation){.length = N, .temperature = 1, .top_k = 1, .tokens = tokens};
    generate(session, &text);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(tokens[i], 3);
    text.top_k = 0;
    generate(session, &text);
    for (int i = 0; i < N; i++)
        ck_assert(tokens[i] == 3 || tokens[i] == 5);
    text.banned = (int32_t[]){3, 5};
    text.banned_count = 2;
    ck_assert_int_eq(rnnc_generate(session, &text), RNNC_INVALID_ARGUMENT);
    ck_assert_str_eq(rnnc_session_error(session), "row 0, token 0: every logit is NaN or banned");
    values[3] = INFINITY;
    ck_assert_int_eq(fixture_bind(session, "d/b", values, V, 0, 0), RNNC_OK);
    text.banned_count = 0;
    generate(session, &text);
    ck_assert_int_eq(tokens[0], 3);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// The Shakespeare model's text is as probable, by the float64 reference, as text of that model has
/// to be: the sum of -ln p(token) less the entropy before it is within four standard deviations.
START_TEST(perplexity_is_that_of_the_model)
{
    enum { LENGTH = 1200 };
    char module_path[128];
    snprintf(module_path, sizeof module_path, "%s", fixture_path("shakespeare.so"));
    Arena *arena = arena_create();
    Diags *diags = diags_create(arena);
    const Model *model = NULL;
    const CompileOptions options = {.spec_path = RNNC_SOURCE_DIR "/specs/shakespeare.yaml",
                                    .output_path = module_path,
                                    .targets = "cpu",
                                    .out_model = &model,
                                    .jobs = 2};
    ck_assert(compile_model(arena, diags, &options, NULL));
    rnnc_module *module = fixture_module("shakespeare.so");
    rnnc_session *session = fixture_session(module, 1, 1);
    int32_t tokens[LENGTH + 1] = {0};
    generate(session, &(rnnc_generation){.length = LENGTH,
                                         .prompts = tokens,
                                         .prompt_length = 1,
                                         .temperature = 1,
                                         .tokens = tokens + 1});
    int64_t row = 0;
    const ReferencePart part = {.rows = &row, .row_count = 1, .timesteps = LENGTH};
    ReferenceOutput out[2];
    reference_run(arena, model, &part, LENGTH, tokens, out);
    double sum = 0, variance = 0, nats = 0;
    for (int64_t t = 0; t < LENGTH; t++) {
        const double *logits = out[0].values + t * out[0].width;
        double total = 0, mean = 0, square = 0;
        for (int64_t i = 0; i < out[0].width; i++)
            total += exp(logits[i]);
        for (int64_t i = 0; i < out[0].width; i++) {
            const double information = log(total) - logits[i], p = exp(-information);
            mean += p * information;
            square += p * information * information;
        }
        const double own = log(total) - logits[tokens[t + 1]];
        nats += own;
        sum += own - mean;
        variance += square - mean * mean;
    }
    ck_assert_double_le(fabs(sum), 4 * sqrt(variance));
    ck_assert_double_ge(nats / LENGTH, 0.9); // some two bits a character, as on real text
    ck_assert_double_le(nats / LENGTH, 1.9);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
    arena_destroy(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generate_draws");
    TCase *tests = tcase_create("cpu");
    tcase_add_unchecked_fixture(tests, compile_first, fixture_remove_folder);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, noise_is_that_of_libm);
    tcase_add_test(tests, draws_have_the_exact_distribution);
    tcase_add_test(tests, ties_go_to_the_lowest_number);
    tcase_add_test(tests, perplexity_is_that_of_the_model);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
