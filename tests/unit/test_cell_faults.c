// Faulty cells: every diagnostic with its line and column, several in one file, and seeded
// mutations of the built-in cells, which may be refused but never crash.
#include "base/embedded.h"
#include "unit/cell_fixture.h"

static Arena *arena;
static Diags *diags;
static const CellBinding plain = {.use_bias = true};

static void set_up(void)
{
    arena = arena_create();
    diags = diags_create(arena);
}

static void tear_down(void)
{
    arena_destroy(arena);
}

/// What is printed for a cell of this text, which must be refused.
static const char *faults_of(const char *text)
{
    diags = diags_create(arena);
    if (cell_from(arena, diags, text, strlen(text), &plain))
        ck_abort_msg("accepted:\n%s", text);
    return printed_diagnostics(arena, diags);
}

/// A cell of these equations, which begin in line 3, and what must be printed.
static const struct {
    const char *equations, *expected;
} faulty[] = {
    {"h' = tanh(W.a*x +)\n", ":3:18: error: expected a value before ')' [E0304]"},
    {"h' tanh(W.a*x)\n", ":3:4: error: expected '=' before 'tanh' [E0304]"},
    {"h' = W.a*x W.b*x\n", ":3:12: error: expected an operator or the end of the line before"},
    {"h' = W.a*x ? 1\n", ":3:15: error: expected ':' before the end of the line [E0304]"},
    {"h' = W.*x\n", ":3:8: error: expected the name of a gate before '*' [E0304]"},
    {"h' = W.a*x + 0x10\n", ":3:14: error: '0x10' is no number [E0304]"},
    {"h' = W.a*x + $\n", ":3:14: error: unexpected character '$' [E0304]"},
    {"= W.a*x\n", ":3:1: error: expected an equation before '=' [E0304]"},
    {"h' = tanh(W.a*x\nk = 1\n", ":3:16: error: expected ')' before the end of the line [E0304]"},
    {"gate = W.a*x\nh' = gat\n", ":4:6: error: unknown name 'gat' [E0305]\n"},
    {"gate = W.a*x\nh' = gat\n", "help: did you mean 'gate'?"},
    {"h' = W.a*x + c'\n", ":3:14: error: 'c' is no state, so there is no c' [E0305]"},
    {"h' = W.a*x + b\n", ":3:14: error: 'b' needs the name of a gate: b.i [E0305]"},
    {"h' = W.a*x + q.a\n", ":3:14: error: 'q' has no gates [E0305]"},
    {"h' = tanhh(W.a*x)\n", ":3:6: error: unknown function 'tanhh' [E0306]"},
    {"h' = activate(W.a*x)\n", "did you mean 'activation'?"},
    {"h' = layer_norm(W.a*x, 1)\n", ":3:6: error: 'layer_norm' takes one argument, not 2 [E0308]"},
    {"h' = layer_norm()\n", ":3:6: error: 'layer_norm' takes one argument, not 0 [E0308]"},
    {"h' = W.a*x + layer_norm(1 + 2)\n", ":3:25: error: 'layer_norm' takes a vector, not a num"},
    {"h' = layer_norm(x)\n", ":3:17: error: the input x is not of the units' size [E0314]"},
    {"h' = layer_norm(P*tanh(W.a*x) + W.b*x)\n", ": error: a vector over units meets one over"},
    {"k = layer_norm(W.a*x)\nh' = W.b*x\n", ":3:1: error: 'k' is not used [E0309]"},
    {"h' = layr_norm(W.a*x)\n", "did you mean 'layer_norm'?"},
    {"h' = batch_norm(W.a*x)\n", ":3:6: error: 'batch_norm' is not elementwise: it needs stat"},
    {"h' = exp(W.a*x, 1)\n", ":3:6: error: 'exp' takes one argument, not 2 [E0308]"},
    {"h' = activation(W.a*x, 1)\n", ":3:6: error: 'activation' takes one argument, not 2 [E0308]"},
    {"h' = leaky_relu(W.a*x, h)\n", ":3:24: error: a parameter of 'leaky_relu' must be a number"},
    {"g = W.g*x\nh' = W.a*x\n", ":3:1: error: 'g' is not used [E0309]"},
    {"g = W.g*x\nk = g*2\nh' = W.a*x\n", ":3:1: error: 'g' is not used [E0309]"},
    {"h' = 1 > 2 ? W.a*x : W.b*x\n", ":3:16: error: this gate is not used [E0309]"},
    {"g = W.g*x\n", ":2:7: error: state 'h' is never assigned [E0310]"},
    {"h' = W.a*x\nh' = W.b*x\n", ":4:1: error: 'h'' is assigned twice [E0311]"},
    {"g = W.a*x\ng = W.b*x\nh' = g\n", ":4:1: error: 'g' is already defined [E0311]"},
    {"g = W.a*x\ng = W.b*x\nh' = g\n", ":3:1: note: it is defined here"},
    {"state h\nh' = W.a*x\n", ":3:7: error: 'h' is already defined [E0311]"},
    {"g = k\nk = g + W.a*x\nh' = k\n", ":3:5: error: 'k' is used before its definition [E0312]"},
    {"g = k\nk = g + W.a*x\nh' = k\n", ":4:1: note: it is defined here"},
    {"g = g + W.a*x\nh' = g\n", ":3:5: error: 'g' depends on itself [E0312]"},
    {"h' = h' + W.a*x\n", ":3:6: error: 'h'' depends on itself [E0312]"},
    {"h' = P*tanh(W.a*x) + W.b*x\n", ":3:22: error: a vector over units meets one over the"},
    {"h' = W.a*x + P*(R.a*h)\n", ":3:14: error: a vector over the projection meets one over"},
    {"state k\nk' = P*k\nh' = W.a*x + R.a*h\n", ":4:8: error: P multiplies a vector of the units'"},
    {"h' = W.a*h\n", ":3:10: error: W.a multiplies the input x only [E0314]"},
    {"h' = W.a*x + R.a*x\n", ":3:18: error: R does not multiply the input x [E0314]"},
    {"h' = W.a*x + x\n", ":3:14: error: the input x is not of the units' size [E0314]"},
    {"h' = x\n", ":3:6: error: the input x is not of the units' size [E0314]"},
    {"h' = W.a*x + R*h\n", ":3:14: error: the product needs the name of a gate [E0314]"},
    {"h' = W.a*x + P.a*h\n", ":3:14: error: P has no gates [E0314]"},
    {"h' = W.a*x + R.a\n", ":3:14: error: a matrix must multiply a vector [E0314]"},
    {"h' = W.a*x + R.a*2\n", ":3:18: error: R multiplies a vector, not a number [E0314]"},
    {"h' = R.a*h + R.a*(h*h)\n", ": error: one matrix multiplies two different vectors [E0314]"},
    {"h = W.a*x\n", ":3:1: error: 'h' is a state, whose value before the step is given [E0316]"},
    {"k' = W.a*x\nh' = k'\n", ":3:1: error: 'k' is no state [E0316]"},
    {"x = 1\nh' = W.a*x\n", ":3:1: error: 'x' has a fixed meaning [E0316]"},
};

START_TEST(each_fault_has_its_place)
{
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        const char *text = arena_format(arena, "cell c \"t\"\nstate h\n%s", faulty[i].equations);
        assert_has(faults_of(text), faulty[i].expected);
    }
}
END_TEST

START_TEST(faults_of_the_frame)
{
    assert_has(faults_of(""), ":1:1: error: expected 'cell NAME \"title\"' before the end [E0304]");
    assert_has(faults_of("state h\nh' = W.a*x\n"), ":1:1: error: expected 'cell NAME");
    assert_has(faults_of("cell c \"open\nstate h\nh' = W.a*x\n"), ":1:8: error: the string has no");
    assert_has(faults_of("cell c\nk = 1\n"), "the cell has no state");
    assert_has(faults_of("cell c\nstate h = q\nh' = W.a*x\n"), ":2:11: error: unknown name 'q'");
    assert_has(faults_of("cell c\nstate a, b2, c, d, e, f, g, h, i\n"),
               ":2:32: error: more than 8 states [E0315]");
    ck_assert_ptr_null(cell_load(arena, diags, (Span){0}, "lstn", NULL, &plain));
    ck_assert_ptr_null(cell_load(arena, diags, (Span){0}, "nowhere.cell", "model.yaml", &plain));
    const char *text = printed_diagnostics(arena, diags);
    assert_has(text, "unknown cell 'lstn' [E0301]\nhelp: did you mean 'lstm'?");
    assert_has(text, "nowhere.cell");
}
END_TEST

START_TEST(limits_are_kept)
{
    Text gates = {.arena = arena}, chain = {.arena = arena};
    text_add(&gates, "cell c\nstate h\nh' = h");
    for (int i = 0; i < 17; i++)
        text_addf(&gates, " + W.g%d*x", i);
    assert_has(faults_of(text_string(&gates)), "more than 16 gates of one kind [E0315]");
    text_add(&chain, "cell c\nstate h\nv0 = W.a*x + h\n");
    for (int i = 0; i < 9; i++)
        text_addf(&chain, "v%d = tanh(R.g%d*v%d)\n", i + 1, i, i);
    text_add(&chain, "h' = v9\n");
    assert_has(faults_of(text_string(&chain)), "needs more than 8 products one after the other");
    Text norms = {.arena = arena};
    text_add(&norms, "cell c\nstate h\nv0 = W.a*x + h\n");
    for (int i = 0; i < 9; i++)
        text_addf(&norms, "v%d = tanh(layer_norm(v%d))\n", i + 1, i);
    text_add(&norms, "h' = v9\n");
    assert_has(faults_of(text_string(&norms)),
               "more than 8 products and norms one after the other");
}
END_TEST

START_TEST(many_faults_are_reported_at_once)
{
    const char *text = faults_of("cell c \"t\"\nstate h, k\ni = tanh(W.i*x + q)\n"
                                 "f = sigmod(W.f*x)\ng = i*f*\nh' = i + f + g\n");
    assert_has(text, ":3:18: error: unknown name 'q' [E0305]");
    assert_has(text, ":4:5: error: unknown function 'sigmod' [E0306]");
    assert_has(text, ":5:9: error: expected a value before the end of the line [E0304]");
    assert_has(text, ":2:10: error: state 'k' is never assigned [E0310]");
    ck_assert_uint_eq(diags_error_count(diags), 4); // none for i, f and g, which follow from these
}
END_TEST

static unsigned next_number(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

/// Replaces, removes or repeats a few stretches of `text`.
static const char *mutated(const EmbeddedFile *file, unsigned *seed, size_t *out_length)
{
    static const char *const pieces[] = {
        "(",  ")",    "*",   "R.q*", "W.n*x", "h'", "P*",   "=",     "\n", "x",     "?",
        ":",  "'",    "inf", "1e9",  "\"",    "#",  ",",    ".",     "-",  "state", "\xff",
        "\t", "max(", "",    "c'",   "b",     "<",  "\r\n", "tanh(", "p.", "\x01",  "layer_norm("};
    char *text = arena_alloc(arena, file->length + 4096);
    size_t length = file->length;
    memcpy(text, file->text, length);
    for (unsigned edits = 1 + next_number(seed) % 4; edits > 0; edits--) {
        const char *piece = pieces[next_number(seed) % (sizeof pieces / sizeof *pieces)];
        size_t at = next_number(seed) % (length + 1), gone = next_number(seed) % 6;
        gone = gone > length - at ? length - at : gone;
        size_t added = strlen(piece);
        memmove(text + at + added, text + at + gone, length - at - gone);
        memcpy(text + at, piece, added);
        length = length - gone + added;
    }
    *out_length = length;
    return text;
}

START_TEST(mutated_cells_never_crash)
{
    unsigned seed = 20240607;
    int accepted = 0, refused = 0;
    for (const EmbeddedFile *file = embedded_files(); file->path; file++) {
        if (strncmp(file->path, "cells/", 6) != 0)
            continue;
        for (int i = 0; i < 150; i++) {
            Arena *kept = arena;
            arena = arena_create();
            size_t length;
            const char *text = mutated(file, &seed, &length);
            Diags *own = diags_create(arena);
            const Cell *cell = cell_from(arena, own, text, length, &plain);
            // a cell, or the reason why not; and what is accepted can be printed
            ck_assert((cell != NULL) == (diags_error_count(own) == 0));
            printed_diagnostics(arena, own);
            Text out = {.arena = arena};
            if (cell) {
                cell_print(cell, &out);
                cell_print_pointwise(cell, &out);
            }
            accepted += cell != NULL;
            refused += cell == NULL;
            arena_destroy(arena);
            arena = kept;
        }
    }
    ck_assert_int_gt(accepted, 50);
    ck_assert_int_gt(refused, 500);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cell_faults");
    TCase *tests = tcase_create("cell_faults");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, each_fault_has_its_place);
    tcase_add_test(tests, faults_of_the_frame);
    tcase_add_test(tests, limits_are_kept);
    tcase_add_test(tests, many_faults_are_reported_at_once);
    tcase_add_test(tests, mutated_cells_never_crash);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
