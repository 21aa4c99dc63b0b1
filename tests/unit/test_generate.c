// Text generation on the CPU: a text is what runs of the module, argmax and Gumbel noise of libm
// give; rows do not depend on one another; texts are carried on; wrong input is named.
#include <math.h>

#include "generate_fixture.h"
#include "prim/philox.h"

enum { ROWS = 5 };

static void compile_all(void)
{
    compile_models(MODELS);
    fixture_compile("fixed", "rnnc: 1\nname: fixed\ninput: {tokens: 11, batch: 2, timesteps: 3}\n"
                             "layers:\n  - {embedding: 6, name: e}\n"
                             "  - {cell: gru, units: 4, stateful: true, name: a}\n"
                             "  - {dense: 11, name: d}\nweights: {seed: 1}\n");
    fixture_compile("short", "rnnc: 1\nname: short\ninput: {tokens: 11}\nlayers:\n"
                             "  - {embedding: 6, name: e}\n  - {cell: gru, units: 4, name: a}\n"
                             "  - {dense: 10, name: d}\nweights: {seed: 1}\n");
}

/// The state tensors' values of all rows, one after the other; returns their number.
static size_t states_of(const rnnc_module *module, rnnc_session *session, int64_t rows, float *to)
{
    size_t count = 0;
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(module, i);
        if (info->role != RNNC_ROLE_STATE)
            continue;
        const size_t values = (size_t)(rows * info->dims[1]);
        const rnnc_status status = rnnc_state_get(session, info->name, to + count, values);
        ck_assert_msg(status == RNNC_OK, "%s", rnnc_session_error(session));
        count += values;
    }
    return count;
}

static void set_states(const rnnc_module *module, rnnc_session *session, int64_t rows,
                       const float *from)
{
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(module, i);
        if (info->role != RNNC_ROLE_STATE)
            continue;
        const size_t values = (size_t)(rows * info->dims[1]);
        ck_assert_int_eq(rnnc_state_set(session, info->name, from, values), RNNC_OK);
        from += values;
    }
}

static const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6};
enum { PROMPT = sizeof prompt / sizeof prompt[0] };

// A text against runs.

/// The logits after each of `count` tokens, by a run of the module.
static void run_logits(const rnnc_module *module, const int32_t *tokens, int64_t count,
                       float *logits)
{
    rnnc_session *session = fixture_session(module, 1, count);
    const int64_t steps = count;
    for (int64_t last = 1; last <= count; last++) { // a module may give its last output only
        int64_t shape[] = {1, last, V};
        DLTensor x = {.data = (void *)(uintptr_t)tokens,
                      .device = {kDLCPU, 0},
                      .ndim = 2,
                      .dtype = {kDLInt, 32, 1},
                      .shape = shape};
        float y[(PROMPT + N) * V];
        ck_assert_int_eq(rnnc_bind(session, "x", &x), RNNC_OK);
        const rnnc_tensor_info *info = rnnc_module_tensor(module, 1);
        for (size_t i = 0; info->role != RNNC_ROLE_OUTPUT; i++)
            info = rnnc_module_tensor(module, i);
        const bool has_time = info->ndim == 3;
        if (has_time && last < steps)
            continue;
        ck_assert_int_eq(has_time ? fixture_bind(session, "y", y, 1, last, V)
                                  : fixture_bind(session, "y", y, 1, V, 0),
                         RNNC_OK);
        fixture_run(session);
        if (has_time)
            memcpy(logits, y, (size_t)(last * V) * sizeof *y);
        else
            memcpy(logits + (last - 1) * V, y, sizeof *y * V);
    }
    rnnc_session_destroy(session);
}

/// The token of logits / temperature and noise, by libm in double.
static int32_t draw_by_hand(const float *logits, double temperature, uint64_t seed, uint64_t draw)
{
    double best = -INFINITY;
    int32_t token = -1;
    for (int32_t i = 0; i < V; i++) {
        unsigned words[4] = {(unsigned)i / 4, (unsigned)draw, 0x67656e00u, (unsigned)(draw >> 32)};
        rnn_philox(words, (unsigned)seed, (unsigned)(seed >> 32));
        const double v = ((double)words[i % 4] + 0.5) / 4294967296.0;
        const double score =
            (double)logits[i] / temperature + (temperature < 100 ? -log(-log1p(-v)) : 0);
        if (score > best) {
            best = score;
            token = i;
        }
    }
    return token;
}

/// Every token of a text, prompts of any length, is the one that the model's run gives for what
/// stands before it; `_i` counts model and whether it is drawn.
START_TEST(a_text_is_what_runs_give)
{
    rnnc_module *module = numbered(_i / 2);
    const bool greedy = _i % 2;
    const uint64_t seed = 0x123456789abcdefull, first = 0xfffffffd; // counts past 2^32
    int32_t tokens[PROMPT + N];
    float logits[(PROMPT + N) * V], states[2][256];
    memcpy(tokens, prompt, sizeof prompt);
    rnnc_session *session = fixture_session(module, 1, 3); // the prompt comes in parts
    generate(session, &(rnnc_generation){.length = N,
                                         .prompts = prompt,
                                         .prompt_length = PROMPT,
                                         .seeds = &seed,
                                         .first_draw = (int64_t)first,
                                         .greedy = greedy,
                                         .temperature = greedy ? 0 : 0.5f,
                                         .tokens = tokens + PROMPT});
    run_logits(module, tokens, PROMPT + N, logits);
    for (int64_t i = 0; i < N; i++)
        ck_assert_int_eq(tokens[PROMPT + i],
                         draw_by_hand(logits + (PROMPT + i - 1) * V, greedy ? 1e30 : 0.5, seed,
                                      first + (uint64_t)i));
    // The states are those after the whole text.
    const size_t count = states_of(module, session, 1, states[0]);
    rnnc_session *again = fixture_session(module, 1, PROMPT + N);
    generate(again,
             &(rnnc_generation){.prompts = tokens, .prompt_length = PROMPT + N, .greedy = 1});
    ck_assert_uint_eq(states_of(module, again, 1, states[1]), count);
    ck_assert(memcmp(states[0], states[1], count * sizeof(float)) == 0);
    rnnc_session_destroy(again);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

// Rows.

typedef struct {
    int64_t calls;
    int32_t seen[N][ROWS];
    int64_t last; ///< cancels at this step; -1: never
} Watch;

static int watch(void *context, int64_t step, const int32_t *tokens)
{
    Watch *seen = context;
    ck_assert_int_eq(step, seen->calls++);
    memcpy(seen->seen[step], tokens, sizeof seen->seen[step]);
    return step == seen->last;
}

/// Rows with prompts of their own, empty ones too, and with ends of their own.
START_TEST(rows_are_texts_of_their_own)
{
    const int64_t lengths[ROWS] = {0, 1, 8, 3, 8};
    const uint64_t seeds[ROWS] = {7, 7, 1ull << 63, 8, 9};
    const int32_t stops[] = {4, 10};
    int32_t together[ROWS][N], alone[N];
    int64_t counts[ROWS], count;
    float all[ROWS * 256], one[256];
    rnnc_module *module = numbered(_i);
    rnnc_session *session = fixture_session(module, ROWS + 2, 8),
                 *single = fixture_session(module, 1, 8);
    Watch seen = {.last = -1};
    rnnc_generation texts = {.rows = ROWS,
                             .length = N,
                             .prompts = prompt,
                             .prompt_lengths = lengths,
                             .seeds = seeds,
                             .temperature = 1,
                             .stops = stops,
                             .stop_count = 2,
                             .tokens = together[0],
                             .counts = counts,
                             .on_tokens = watch,
                             .context = &seen};
    generate(session, &texts);
    const size_t values = states_of(module, session, ROWS, all) / ROWS;
    bool has_ended = false;
    for (int row = 0; row < ROWS; row++) {
        rnnc_generation text = texts;
        text.rows = 1;
        text.prompt_lengths = &lengths[row];
        text.seeds = &seeds[row];
        text.tokens = alone;
        text.counts = &count;
        text.on_tokens = NULL;
        generate(single, &text);
        ck_assert_int_eq(count, counts[row]);
        ck_assert_mem_eq(alone, together[row], sizeof alone);
        for (int step = 0; step < N; step++) {
            const bool ended = step >= count;
            ck_assert_int_eq(ended, together[row][step] == -1);
            if (step < seen.calls)
                ck_assert_int_eq(seen.seen[step][row], together[row][step]);
        }
        const int32_t end = together[row][count - 1];
        ck_assert(count == N || end == 4 || end == 10);
        has_ended = has_ended || count < N;
        // States lie tensor by tensor: row `row` of each is what the text alone has.
        ck_assert_uint_eq(states_of(module, single, 1, one), values);
        size_t at = 0;
        for (size_t i = 0; i < rnnc_module_tensor_count(module); i++) {
            const rnnc_tensor_info *info = rnnc_module_tensor(module, i);
            if (info->role != RNNC_ROLE_STATE)
                continue;
            const size_t size = (size_t)info->dims[1];
            ck_assert(
                memcmp(all + at * ROWS + (size_t)row * size, one + at, size * sizeof(float)) == 0);
            at += size;
        }
    }
    ck_assert(has_ended);
    rnnc_session_destroy(session);
    rnnc_session_destroy(single);
    rnnc_module_close(module);
}
END_TEST

/// One prompt goes several ways, and a text that is continued is the text of one call.
START_TEST(states_carry_a_text_on)
{
    int32_t whole[ROWS][N], parts[ROWS][N], part[ROWS][N];
    float one[256], all[ROWS * 256];
    rnnc_module *module = numbered(_i);
    rnnc_session *session = fixture_session(module, ROWS, 8);
    rnnc_generation text = {.rows = ROWS,
                            .length = N,
                            .prompts = prompt,
                            .prompt_length = PROMPT,
                            .temperature = 2,
                            .tokens = whole[0]};
    rnnc_set_seed(session, 77);
    generate(session, &text);
    text.rows = 1;
    text.length = 0;
    generate(session, &text);
    const size_t values = states_of(module, session, 1, one);
    size_t at = 0;
    for (size_t i = 0; i < rnnc_module_tensor_count(module); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(module, i);
        const size_t size = info->role == RNNC_ROLE_STATE ? (size_t)info->dims[1] : 0;
        for (size_t row = 0; row < ROWS; row++)
            memcpy(all + at * ROWS + row * size, one + at, size * sizeof(float));
        at += size;
    }
    ck_assert_uint_eq(at, values);
    text.rows = ROWS;
    text.prompt_length = 0;
    text.tokens = part[0];
    const int64_t cuts[] = {0, 1, 17, N};
    for (int cut = 0; cut < 3; cut++) {
        set_states(module, session, ROWS, all);
        text.length = cuts[cut + 1] - cuts[cut];
        text.first_draw = cuts[cut];
        generate(session, &text);
        states_of(module, session, ROWS, all);
        for (int row = 0; row < ROWS; row++)
            memcpy(parts[row] + cuts[cut], part[0] + row * text.length,
                   (size_t)text.length * sizeof(int32_t));
    }
    ck_assert_mem_eq(whole, parts, sizeof whole);
    ck_assert(memcmp(whole[0], whole[1], sizeof whole[0]) != 0); // seeds differ
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(a_cancelled_text_is_whole_until_then)
{
    int32_t tokens[N], whole[N];
    int64_t count;
    float states[2][256];
    rnnc_module *module = numbered(0);
    rnnc_session *session = fixture_session(module, ROWS, 8);
    Watch seen = {.last = 9};
    rnnc_generation text = {.rows = 1, .length = N, .temperature = 1, .tokens = whole};
    generate(session, &text);
    text.tokens = tokens;
    text.counts = &count;
    text.on_tokens = watch;
    text.context = &seen;
    ck_assert_int_eq(rnnc_generate(session, &text), RNNC_CANCELLED);
    ck_assert_int_eq(count, 10);
    ck_assert_mem_eq(tokens, whole, 10 * sizeof *tokens);
    ck_assert_int_eq(tokens[10], -1);
    const size_t values = states_of(module, session, 1, states[0]);
    generate(session,
             &(rnnc_generation){.rows = 1, .prompts = whole, .prompt_length = 10, .greedy = 1});
    states_of(module, session, 1, states[1]);
    ck_assert(memcmp(states[0], states[1], values * sizeof(float)) == 0);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// What is bound, and masks, are the caller's again afterwards.
START_TEST(bindings_stay_the_callers)
{
    rnnc_module *module = numbered(0);
    rnnc_session *session = fixture_session(module, 2, 4);
    int32_t x[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, lengths[2] = {4, 2}, tokens[2][N];
    float y[2][4][V], again[2][4][V];
    DLTensor x_tensor = {.data = x,
                         .device = {kDLCPU, 0},
                         .ndim = 2,
                         .dtype = {kDLInt, 32, 1},
                         .shape = (int64_t[]){2, 4}};
    DLTensor lengths_tensor = {.data = lengths,
                               .device = {kDLCPU, 0},
                               .ndim = 1,
                               .dtype = {kDLInt, 32, 1},
                               .shape = (int64_t[]){2}};
    ck_assert_int_eq(rnnc_bind(session, "x", &x_tensor), RNNC_OK);
    ck_assert_int_eq(rnnc_bind(session, "lengths", &lengths_tensor), RNNC_OK);
    ck_assert_int_eq(fixture_bind(session, "y", y[0][0], 2, 4, V), RNNC_OK);
    fixture_run(session);
    memcpy(again, y, sizeof y);
    memset(y, 0, sizeof y);
    generate(session, &(rnnc_generation){.length = N,
                                         .temperature = 1,
                                         .tokens = tokens[0],
                                         .prompts = prompt,
                                         .prompt_lengths = (int64_t[]){1, 3}});
    fixture_run(session);
    ck_assert(memcmp(again, y, sizeof y) == 0);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

/// A weight that is bound later is in the table of the embedding too.
START_TEST(rebound_weights_count)
{
    rnnc_module *module = numbered(0);
    rnnc_session *session = fixture_session(module, 1, 4);
    float embedding[V * 6];
    int32_t before[N], after[N], reference[N];
    rnnc_generation text = {.length = N, .temperature = 1, .tokens = before};
    generate(session, &text);
    fixture_fill(embedding, V * 6, 5);
    ck_assert_int_eq(fixture_bind(session, "e/E", embedding, V, 6, 0), RNNC_OK);
    text.tokens = after;
    generate(session, &text);
    rnnc_session *other = fixture_session(module, 1, 4);
    ck_assert_int_eq(fixture_bind(other, "e/E", embedding, V, 6, 0), RNNC_OK);
    text.tokens = reference;
    generate(other, &text);
    ck_assert_mem_eq(after, reference, sizeof after);
    ck_assert(memcmp(before, after, sizeof after) != 0);
    rnnc_session_destroy(other);
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

// What is refused.

START_TEST(wrong_input_is_named)
{
    rnnc_module *module = numbered(0);
    rnnc_session *session = fixture_session(module, 2, 4);
    int32_t tokens[2 * N];
    const int32_t wrong[] = {1, 11, -1}, every[V] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const struct {
        rnnc_generation given;
        const char *words;
    } cases[] = {
        {{.length = 1, .tokens = tokens},
         "temperature is 0, expected a number above 0 whose inverse is a float32; greedy takes the "
         "likeliest token"},
        {{.length = 1, .tokens = tokens, .temperature = -1},
         "temperature is -1, expected a number above 0 whose inverse is a float32; greedy takes "
         "the likeliest token"},
        {{.length = 1, .tokens = tokens, .temperature = NAN},
         "temperature is nan, expected a number above 0 whose inverse is a float32; greedy takes "
         "the likeliest token"},
        {{.length = 1, .tokens = tokens, .temperature = 1, .top_k = -1},
         "top_k is -1, expected 1 or more, or 0 for all tokens"},
        {{.length = 1, .tokens = tokens, .temperature = 1, .top_p = 1.5f},
         "top_p is 1.5, expected above 0 to 1, or 0 for all tokens"},
        {{.length = 1, .tokens = tokens, .temperature = 1, .top_p = NAN},
         "top_p is nan, expected above 0 to 1, or 0 for all tokens"},
        {{.length = 1, .tokens = tokens, .greedy = 1, .banned = wrong, .banned_count = 2},
         "banned token 11 is outside 0 to 10"},
        {{.length = 1, .tokens = tokens, .greedy = 1, .stops = wrong + 2, .stop_count = 1},
         "stop token -1 is outside 0 to 10"},
        {{.length = 1, .tokens = tokens, .greedy = 1, .banned_count = 1},
         "banned or stops is NULL, or its count is negative"},
        {{.length = 1, .tokens = tokens, .greedy = 1, .banned = every, .banned_count = V},
         "all 11 tokens are banned: none is left to draw"},
        {{.length = -1, .tokens = tokens, .greedy = 1}, "length is -1, expected 0 or more"},
        {{.length = 1, .tokens = tokens, .greedy = 1, .first_draw = -5},
         "first_draw is -5, expected 0 or more"},
        {{.length = 1, .greedy = 1}, "tokens and on_tokens are NULL: nobody takes what is drawn"},
        {{.length = 1, .tokens = tokens, .greedy = 1, .rows = 3},
         "rows is 3, expected 1 to 2, the session's max_batch"},
        {{.length = 1,
          .tokens = tokens,
          .greedy = 1,
          .prompts = wrong,
          .prompt_length = 2,
          .rows = 1},
         "prompt of row 0: token 11 at place 1 is outside 0 to 10"},
        {{.length = 1, .tokens = tokens, .greedy = 1, .prompt_length = 2},
         "prompt of row 0: 2 tokens at NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(rnnc_generate(session, &cases[i].given), RNNC_INVALID_ARGUMENT);
        ck_assert_str_eq(rnnc_session_error(session), cases[i].words);
    }
    ck_assert_int_eq(rnnc_generate(session, NULL), RNNC_INVALID_ARGUMENT);
    ck_assert_int_eq(rnnc_generate(NULL, &cases[0].given), RNNC_INVALID_ARGUMENT);
    ck_assert_ptr_null(rnnc_session_generator(session, NULL));
    rnnc_session_destroy(session);
    rnnc_module_close(module);
}
END_TEST

START_TEST(a_module_tells_whether_it_generates)
{
    const char *reason;
    rnnc_module *module = fixture_module("short.so");
    ck_assert_int_eq(rnnc_module_generates(module, &reason), 0);
    ck_assert_str_eq(reason, "its outputs are not as many as its tokens");
    rnnc_session *session = fixture_session(module, 0, 0);
    ck_assert_int_eq(rnnc_generate(session, &(rnnc_generation){.greedy = 1}),
                     RNNC_INVALID_ARGUMENT);
    ck_assert_str_eq(rnnc_session_error(session), "module 'short' generates no text: its outputs "
                                                  "are not as many as its tokens");
    rnnc_session_destroy(session);
    rnnc_module_close(module);
    module = numbered(1);
    ck_assert_int_eq(rnnc_module_generates(module, &reason), V);
    ck_assert_ptr_null(reason);
    rnnc_module_close(module);
}
END_TEST

/// Fixed batch and steps, and layers that carry their states from call to call.
START_TEST(a_stateful_module_goes_on)
{
    rnnc_module *module = fixture_module("fixed.so");
    rnnc_session *session = fixture_session(module, 0, 0), *other = fixture_session(module, 0, 0);
    int32_t whole[2][N], parts[2][N];
    ck_assert_int_eq(rnnc_generate(session, &(rnnc_generation){.rows = 1, .greedy = 1}),
                     RNNC_INVALID_ARGUMENT);
    ck_assert_str_eq(rnnc_session_error(session),
                     "rows is 1, expected 2, the batch that the model is compiled for");
    rnnc_generation text = {
        .length = N, .temperature = 1, .prompts = prompt, .prompt_length = 7, .tokens = whole[0]};
    generate(session, &text);
    text.length = 1;
    int32_t pair[2];
    text.tokens = pair;
    for (int i = 0; i < N; i++) {
        text.prompt_length = i == 0 ? 7 : 0;
        text.first_draw = i;
        generate(other, &text);
        parts[0][i] = pair[0];
        parts[1][i] = pair[1];
    }
    ck_assert_mem_eq(whole, parts, sizeof whole);
    rnnc_session_destroy(session);
    rnnc_session_destroy(other);
    rnnc_module_close(module);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generate");
    TCase *tests = tcase_create("cpu");
    tcase_add_unchecked_fixture(tests, compile_all, fixture_remove_folder);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_text_is_what_runs_give, 0, 2 * MODELS);
    tcase_add_loop_test(tests, rows_are_texts_of_their_own, 0, MODELS);
    tcase_add_loop_test(tests, states_carry_a_text_on, 0, MODELS);
    tcase_add_test(tests, a_cancelled_text_is_whole_until_then);
    tcase_add_test(tests, bindings_stay_the_callers);
    tcase_add_test(tests, rebound_weights_count);
    tcase_add_test(tests, wrong_input_is_named);
    tcase_add_test(tests, a_module_tells_whether_it_generates);
    tcase_add_test(tests, a_stateful_module_goes_on);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
