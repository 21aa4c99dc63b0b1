// Command line: malformed lines and their exit codes, --help of every verb, diagnostics as JSON,
// and run, verify and inspect on a stand-in runtime and ELF files made by hand. Every case is a
// whole command line given to cli_main, with both output streams caught.
#include <check.h>
#include <elf.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/compare.h"
#include "import/npz.h"
#include "stand_in_runtime.h"

static Arena *arena;
static Diags *diags;
static char folder[64];
static const char *out_text, *error_text;

static const char *in_folder(const char *name)
{
    return arena_format(arena, "%s/%s", folder, name);
}

static const char *read_text(const char *name)
{
    const Source *source = file_read(arena, diags, in_folder(name), (Span){0});
    ck_assert_ptr_nonnull(source);
    return source->text;
}

static int redirect(int stream, const char *name)
{
    int old = dup(stream);
    int file = open(in_folder(name), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, stream);
    close(file);
    return old;
}

static void restore(int stream, int old)
{
    dup2(old, stream);
    close(old);
}

/// Runs `rnnc LINE`, words parted by single spaces, '@' standing for the test's folder.
static int rnnc(const char *line)
{
    char *words[32] = {(char *)(uintptr_t) "rnnc"};
    int count = 1;
    Text text = {.arena = arena};
    text_add(&text, "");
    for (const char *at = line; *at; at++) {
        if (*at == '@')
            text_add(&text, folder);
        else
            text_add_bytes(&text, at, 1);
    }
    for (char *word = strtok(text.data, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    fflush(NULL);
    int old_out = redirect(STDOUT_FILENO, "stdout"), old_error = redirect(STDERR_FILENO, "stderr");
    int code = cli_main(count, words);
    fflush(NULL);
    restore(STDOUT_FILENO, old_out);
    restore(STDERR_FILENO, old_error);
    out_text = read_text("stdout");
    error_text = read_text("stderr");
    return code;
}

static void put(const char *name, int dim_count, const int64_t *dims, const float *values)
{
    NpyArray array = {NPY_FLOAT32, dim_count, {0}, 1, (const unsigned char *)values};
    for (int i = 0; i < dim_count; i++)
        array.elems *= array.dims[i] = dims[i];
    ck_assert(npy_write(arena, diags, in_folder(name), &array));
}

static const float *get(const char *name, int64_t elems)
{
    NpyArray array;
    ck_assert(npy_open(arena, diags, in_folder(name), (Span){0}, &array));
    ck_assert_int_eq(array.elems, elems);
    float *values = ARENA_ARRAY(arena, float, elems);
    npy_to_float(&array, values);
    return values;
}

/// x of two rows and three steps; y is its running sum.
static const int64_t x_dims[] = {2, 3, 2}, h_dims[] = {2, 2};
static const float x_values[] = {1, 10, 2, 20, 3, 30, -1, 0, -1, 0, -1, 0.5f};
static const float y_values[] = {1, 10, 3, 30, 6, 60, -1, 0, -2, 0, -3, 0.5f};
static const float h_values[] = {6, 60, -3, 0.5f};

static void start(void)
{
    arena = arena_create();
    diags = diags_create(arena);
    strcpy(folder, "/tmp/rnnc_cli_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    put("x.npy", 3, x_dims, x_values);
    put("y.npy", 3, x_dims, y_values);
    stand_in.streaming = (rnnc_streaming){.repeats_when_masked = 1};
    stand_in.time_major = 0;
}

static void stop(void)
{
    static const char *const names[] = {"stdout", "stderr", "x.npy", "y.npy", "o.npy",
                                        "h.npy",  "s.npz",  "t.npz", "m.so",  "e.npy",
                                        "l.npy",  "m.npy",  "f.npy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(in_folder(names[i]));
    ck_assert_int_eq(rmdir(folder), 0);
    arena_destroy(arena);
    ck_assert_int_eq(stand_in.sessions, 0);
    ck_assert_int_eq(stand_in.allocations, 0);
    ck_assert_int_eq(stand_in.module.opened, 0);
}

#define X "--in x=@/x.npy "
static const struct {
    const char *line;
    int code;
    const char *words;
} refused[] = {
    {"", 2, "no verb and no model"},
    {"inspct model.so", 2, "unknown verb 'inspct'; did you mean 'inspect'?"},
    {"blorb", 2, "'blorb' is neither a verb nor a file"},
    {"run", 2, "missing: MODEL.so"},
    {"run a.so b.so", 2, "unexpected word 'b.so'"},
    {"run model.so --inn x=x.npy", 2, "unknown option '--inn'; did you mean '--in'?"},
    {"run model.so -z", 2, "unknown option '-z'"},
    {"run model.so --json -zq", 2, "unknown option '-z'"},
    {"--diagnostics", 2, "wants a value"},
    {"run model.so --in", 2, "option '--in' wants a value"},
    {"inspect model.so --json=1", 2, "--json takes no value"},
    {"run model.so --chunk 1 --chunk 2", 2, "--chunk is given twice"},
    {"run model.so --in x --out y=y.npy", 2, "--in wants NAME=FILE.npy, not 'x'"},
    {"run model.so --in =x --out y=y.npy", 2, "--in wants NAME=FILE.npy, not '=x'"},
    {"run model.so " X, 2, "nothing to write"},
    {"run model.so --out y=@/o.npy", 2, "input 'x' is missing"},
    {"run model.so " X X "--out y=@/o.npy", 2, "input 'x' is given twice"},
    {"run model.so " X "--out y=@/o.npy --chunk 0", 2, "--chunk wants a whole number"},
    {"run model.so " X "--out y=@/o.npy --chunk 2x", 2, "--chunk wants a whole number"},
    {"verify model.so " X "--expect y=@/y.npy --rtol -1", 2, "--rtol wants a number"},
    {"verify model.so " X, 2, "nothing to compare with"},
    {"cells more", 2, "unexpected word 'more'"},
    {"run model.so --diagnostics=xml", 2, "--diagnostics is json or text"},
    {"explain E9999", 1, "there is no diagnostic 'E9999'"},
    {"run absent.so " X "--out y=@/o.npy", 1, "absent.so: no such file"},
    {"run model.so --in z=@/x.npy --out y=@/o.npy", 1, "no input 'z'"},
    {"run model.so " X "--out l0/j=@/o.npy", 1, "did you mean 'l0/h'?"},
    {"run model.so " X "--out l0/W=@/o.npy", 1, "no output or state 'l0/W'"},
    {"run model.so --in x=@/absent.npy --out y=@/o.npy", 1, "E0001"},
    {"run model.so " X "--out y=@/o.npy --lengths l.npy --mask m.npy", 2,
     "--lengths and --mask exclude each other"},
    {"run model.so " X "--out y=@/o.npy --lengths @/absent.npy", 1, "E0001"},
    {"run model.so " X "--in mask=@/x.npy --out y=@/o.npy", 1, "no input 'mask'"},
    {"run model.so " X "--out y=@/o.npy --seed -1", 2, "--seed wants a whole number"},
    {"run model.so " X "--out y=@/o.npy --variant fast", 1, "unknown variant 'fast'"},
    {"run model.so " X "--out y=@/o.npy --variant cudnn", 1, "no such variant"},
    {"run model.so " X "--out y=@/o.npy --device cuda:0", 3, "libcuda.so.1 is not here"},
    {"run model.so " X "--out y=@/absent/o.npy", 3, "E0002"},
    {"inspect @/x.npy", 1, "is not a 64-bit ELF file"},
};

START_TEST(what_does_not_fit_is_refused)
{
    int code = rnnc(refused[_i].line);
    ck_assert_msg(code == refused[_i].code && strstr(error_text, refused[_i].words),
                  "rnnc %s: exit %d, got %s", refused[_i].line, code, error_text);
    ck_assert_int_ne(access(in_folder("o.npy"), F_OK), 0);
    ck_assert(code != 2 || strstr(error_text, "--help'"));
}
END_TEST

START_TEST(every_verb_has_help_with_examples)
{
    for (const CliVerb *verb = cli_verbs; verb->name; verb++) {
        const char *word = verb->name[0] ? verb->name : "model.yaml";
        ck_assert_int_eq(rnnc(arena_format(arena, "%s --help", word)), 0);
        ck_assert_ptr_nonnull(strstr(out_text, verb->examples));
        ck_assert_ptr_nonnull(strstr(out_text, "\nexamples:\n"));
        for (const CliOption *option = verb->options; option->name; option++)
            ck_assert_ptr_nonnull(strstr(out_text, arena_format(arena, "--%s", option->name)));
    }
    ck_assert_int_eq(rnnc("--help"), 0);
    for (const CliVerb *verb = cli_verbs; verb->name; verb++)
        ck_assert_ptr_nonnull(strstr(out_text, verb->summary));
    ck_assert_int_eq(rnnc("--version"), 0);
    ck_assert_int_eq(strncmp(out_text, "rnnc 0.", 7), 0);
}
END_TEST

START_TEST(a_code_is_explained)
{
    ck_assert_int_eq(rnnc("explain e0405"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "E0405: "));
    ck_assert_ptr_nonnull(strstr(out_text, "weight_ih_l0"));
}
END_TEST

START_TEST(diagnostics_come_as_json)
{
    static const char *const lines[] = {"run --diagnostics json", "--diagnostics=json run",
                                        "--diagnostics json run"};
    ck_assert_int_eq(rnnc(lines[_i]), 2);
    json_t *array = json_loads(error_text, 0, NULL);
    ck_assert_uint_eq(json_array_size(array), 1);
    const json_t *first = json_array_get(array, 0);
    ck_assert_str_eq(json_string_value(json_object_get(first, "code")), "E0800");
    json_decref(array);
}
END_TEST

START_TEST(bytes_beyond_utf8_stay_out_of_json)
{
    ck_assert_int_eq(rnnc("explain \xff.yaml --diagnostics json"), 1);
    json_t *array = json_loads(error_text, 0, NULL);
    const json_t *message = json_object_get(json_array_get(array, 0), "message");
    ck_assert_str_eq(json_string_value(message), "cannot read '?.yaml': No such file or directory");
    json_decref(array);
}
END_TEST

START_TEST(run_writes_outputs_and_states)
{
    ck_assert_int_eq(
        rnnc("run model.so " X "--out y=@/o.npy --out l0/h=@/h.npy --state-out @/s.npz"), 0);
    ck_assert_mem_eq(get("o.npy", 12), y_values, sizeof y_values);
    ck_assert_mem_eq(get("h.npy", 4), h_values, sizeof h_values);
    const Npz *states = npz_open(arena, diags, in_folder("s.npz"), (Span){0});
    ck_assert_ptr_nonnull(npz_find(states, "l0/h"));
    ck_assert_ptr_nonnull(strstr(error_text, "layer 'l0' ran cpu on cpu: no GPU"));
}
END_TEST

START_TEST(chunks_give_the_same)
{
    stand_in.runs = 0;
    ck_assert_int_eq(rnnc(arena_format(arena,
                                       "run model.so " X "--out y=@/o.npy --out l0/h=@/h.npy "
                                       "--chunk %d",
                                       _i)),
                     0);
    ck_assert_int_eq(stand_in.runs, (3 + _i - 1) / _i);
    ck_assert_mem_eq(get("o.npy", 12), y_values, sizeof y_values);
    ck_assert_mem_eq(get("h.npy", 4), h_values, sizeof h_values);
}
END_TEST

START_TEST(a_state_file_is_where_the_run_starts)
{
    const NpzMember members[] = {
        {"l0/h", {NPY_FLOAT32, 2, {2, 2}, 4, (const unsigned char *)h_values}},
        {"l0/c", {NPY_FLOAT32, 2, {2, 2}, 4, (const unsigned char *)h_values}}};
    ck_assert(npz_write(arena, diags, in_folder("s.npz"), members, 1));
    ck_assert_int_eq(rnnc("run model.so " X "--state @/s.npz --state-out @/t.npz --chunk 2"), 0);
    const Npz *states = npz_open(arena, diags, in_folder("t.npz"), (Span){0});
    ck_assert(npy_element(npz_find(states, "l0/h"), 1) == 120.0);
    ck_assert(npz_write(arena, diags, in_folder("s.npz"), members, 2));
    ck_assert_int_eq(rnnc("run model.so " X "--state @/s.npz --out y=@/o.npy"), 1);
    ck_assert_ptr_nonnull(strstr(error_text, "no state 'l0/c'"));
    ck_assert(npz_write(arena, diags, in_folder("s.npz"), members, 0));
    ck_assert_int_eq(rnnc("run model.so " X "--state @/s.npz --out y=@/o.npy"), 1);
    ck_assert_ptr_nonnull(strstr(error_text, "has no state 'l0/h'"));
}
END_TEST

START_TEST(a_shape_that_does_not_fit_is_named)
{
    const int64_t features[] = {2, 2, 3}, flat[] = {12};
    put("x.npy", 3, features, x_values);
    ck_assert_int_eq(rnnc("run model.so " X "--out y=@/o.npy"), 1);
    ck_assert_ptr_nonnull(strstr(error_text, "is [2, 2, 3], but 'x' of the module is [B, T, 2]"));
    put("x.npy", 1, flat, x_values);
    ck_assert_int_eq(rnnc("run model.so " X "--out y=@/o.npy"), 1);
    ck_assert_ptr_nonnull(strstr(error_text, "is [12], but 'x'"));
}
END_TEST

START_TEST(verify_tells_the_worst_element)
{
    ck_assert_int_eq(rnnc("verify model.so " X "--expect y=@/y.npy"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "y: 12 values, 0 out of tolerance"));
    float wrong[12];
    memcpy(wrong, y_values, sizeof wrong);
    wrong[0] += 0.001f;
    wrong[9] += 0.5f;
    put("e.npy", 3, x_dims, wrong);
    ck_assert_int_eq(rnnc("verify model.so " X "--expect y=@/e.npy --atol 0.25 --rtol 0"), 1);
    ck_assert_ptr_nonnull(strstr(out_text, "12 values, 1 out of tolerance"));
    ck_assert_ptr_nonnull(strstr(out_text, "worst y[1, 1, 1] is 0, expected 0.5"));
    ck_assert_ptr_nonnull(strstr(error_text, "E0807"));
    put("e.npy", 2, h_dims, h_values);
    ck_assert_int_eq(rnnc("verify model.so " X "--expect l0/h=@/e.npy"), 0);
    ck_assert_int_eq(rnnc("verify model.so " X "--expect y=@/e.npy"), 1);
    ck_assert_ptr_nonnull(strstr(error_text, "E0804"));
}
END_TEST

/// found, expected, right at rtol 0.1 and atol 0?
static const struct {
    float found, expected;
    int wrong;
} pairs[] = {
    {NAN, NAN, 0},    {NAN, 1, 1},      {1, NAN, 1}, {INFINITY, INFINITY, 0},
    {INFINITY, 1, 1}, {1, INFINITY, 1}, {0, 0, 0},   {-INFINITY, INFINITY, 1},
    {1.05f, 1, 0},    {1.2f, 1, 1},     {-1, 1, 1},  {0, 1e-30f, 1},
};

START_TEST(elements_are_compared_by_the_rules)
{
    const NpyArray found = {NPY_FLOAT32, 1, {1}, 1, (const unsigned char *)&pairs[_i].found};
    const NpyArray expected = {NPY_FLOAT32, 1, {1}, 1, (const unsigned char *)&pairs[_i].expected};
    ck_assert_int_eq(compare_arrays(&found, &expected, 0.1, 0).wrong, pairs[_i].wrong);
}
END_TEST

// Masks, lengths, layouts and chunks.

static void put_typed(const char *name, NpyType type, int dim_count, const int64_t *dims,
                      const void *values)
{
    NpyArray array = {type, dim_count, {0}, 1, values};
    for (int i = 0; i < dim_count; i++)
        array.elems *= array.dims[i] = dims[i];
    ck_assert(npy_write(arena, diags, in_folder(name), &array));
}

/// Four rows of six steps.
enum { ROWS = 4, STEPS = 6, VALUES = ROWS * STEPS * STAND_IN_UNITS };
static const int64_t long_dims[] = {ROWS, STEPS, STAND_IN_UNITS}, swapped_dims[] = {STEPS, ROWS, 2};

/// x is 1, 2, 3, ... in each row; with the time first where `swapped`.
static void put_long(bool swapped)
{
    float values[VALUES];
    for (int i = 0; i < VALUES; i++) {
        const int place = i / STAND_IN_UNITS;
        values[i] = (float)(1 + (swapped ? place / ROWS : place % STEPS));
    }
    put("x.npy", 3, swapped ? swapped_dims : long_dims, values);
}

/// Holds y and last against sums worked out by hand: one number a row and step, of both units.
static void check_long(const float y[ROWS][STEPS], const float last[ROWS], bool swapped)
{
    const float *found = get("o.npy", VALUES), *ends = get("f.npy", ROWS * STAND_IN_UNITS);
    for (int row = 0; row < ROWS; row++) {
        for (int step = 0; step < STEPS; step++) {
            const int place = swapped ? step * ROWS + row : row * STEPS + step;
            ck_assert_msg(found[place * 2] == y[row][step] && found[place * 2 + 1] == y[row][step],
                          "y of row %d, step %d is %g", row, step, (double)found[place * 2]);
        }
        ck_assert_msg(ends[row * 2] == last[row], "last of row %d is %g", row,
                      (double)ends[row * 2]);
    }
}

#define RUN_LONG "run model.so " X "--out y=@/o.npy --out last=@/f.npy "

/// Whole, and in chunks of 1 to 6 steps.
START_TEST(lengths_hold_in_chunks_too)
{
    const int64_t dims[] = {ROWS}, int64s[] = {6, 0, 3, 5};
    const int32_t int32s[] = {6, 0, 3, 5};
    const float y[ROWS][STEPS] = {{1, 3, 6, 10, 15, 21}, {0}, {1, 3, 6}, {1, 3, 6, 10, 15}};
    const float last[ROWS] = {21, 0, 6, 15};
    put_long(false);
    put_typed("l.npy", _i % 2 ? NPY_INT32 : NPY_INT64, 1, dims,
              _i % 2 ? (const void *)int32s : int64s);
    ck_assert_int_eq(rnnc(arena_format(arena, RUN_LONG "--lengths @/l.npy --chunk %d", _i)), 0);
    check_long(y, last, false);
}
END_TEST

static const unsigned char long_mask[ROWS][STEPS] = {
    {1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}, {0, 0, 1, 0, 0, 0}, {1, 0, 1, 0, 0, 1}};
static const int64_t mask_dims[] = {ROWS, STEPS};

START_TEST(masks_hold_in_chunks_too)
{
    const float y[ROWS][STEPS] = {
        {1, 3, 6, 10, 15, 21}, {0}, {0, 0, 3, 3, 3, 3}, {1, 1, 4, 4, 4, 10}};
    const float last[ROWS] = {21, 0, 3, 10};
    put_long(false);
    put_typed("m.npy", _i % 2 ? NPY_BOOL : NPY_UINT8, 2, mask_dims, long_mask);
    ck_assert_int_eq(rnnc(arena_format(arena, RUN_LONG "--mask @/m.npy --chunk %d", _i)), 0);
    check_long(y, last, false);
}
END_TEST

START_TEST(zeros_for_masked_steps_hold_in_chunks_too)
{
    const float y[ROWS][STEPS] = {
        {1, 3, 6, 10, 15, 21}, {0}, {0, 0, 3, 0, 0, 0}, {1, 0, 4, 0, 0, 10}};
    const float last[ROWS] = {21, 0, 0, 10};
    stand_in.streaming.repeats_when_masked = 0;
    put_long(false);
    put_typed("m.npy", NPY_BOOL, 2, mask_dims, long_mask);
    ck_assert_int_eq(rnnc(arena_format(arena, RUN_LONG "--mask @/m.npy --chunk %d", _i)), 0);
    check_long(y, last, false);
}
END_TEST

START_TEST(time_major_arrays_are_cut_by_time)
{
    const float y[ROWS][STEPS] = {
        {1, 3, 6, 10, 15, 21}, {0}, {0, 0, 3, 3, 3, 3}, {1, 1, 4, 4, 4, 10}};
    const float last[ROWS] = {21, 0, 3, 10};
    stand_in.time_major = 1;
    put_long(true);
    put_typed("m.npy", NPY_BOOL, 2, mask_dims, long_mask);
    ck_assert_int_eq(rnnc(arena_format(arena, RUN_LONG "--mask @/m.npy --chunk %d", _i)), 0);
    check_long(y, last, true);
    ck_assert_int_eq(rnnc("verify model.so " X "--expect y=@/o.npy --mask @/m.npy"), 0);
}
END_TEST

START_TEST(masks_that_do_not_fit_are_named)
{
    static const struct {
        const char *option;
        NpyType type;
        int dim_count;
        int64_t dims[2];
        int64_t integers[4];
        const char *words;
    } cases[] = {
        {"--lengths", NPY_INT64, 1, {3}, {6, 6, 6}, "is [3], but 'lengths' of the module is [B]"},
        {"--lengths", NPY_INT64, 1, {4}, {6, 7, 6, 6}, "row 1 is 7, expected 0 to T, which is 6"},
        {"--lengths", NPY_INT64, 1, {4}, {6, 6, 6, -1}, "row 3 is -1, expected 0 to T"},
        {"--lengths", NPY_INT64, 1, {4}, {INT64_C(1) << 32, 0, 0, 0}, "row 0 is 4294967296"},
        {"--lengths", NPY_FLOAT64, 1, {4}, {0}, "is float64, expected int32 or int64"},
        {"--lengths", NPY_INT32, 2, {4, 1}, {0}, "is [4, 1], but 'lengths'"},
        {"--mask", NPY_FLOAT32, 2, {2, 2}, {0}, "is [2, 2], but 'mask' of the module is [B, T]"},
        {"--mask", NPY_FLOAT32, 2, {4, 6}, {0}, "is float32, expected bool or uint8"},
        {"--mask", NPY_UINT8, 2, {4, 6}, {INT64_C(2) << 48}, "row 1, step 0 is 2, expected 0 or 1"},
    };
    unsigned char values[256] = {0};
    memcpy(values, cases[_i].integers, sizeof cases[_i].integers);
    put_long(false);
    put_typed("l.npy", cases[_i].type, cases[_i].dim_count, cases[_i].dims, values);
    ck_assert_int_eq(
        rnnc(arena_format(arena, "run model.so " X "--out y=@/o.npy %s @/l.npy", cases[_i].option)),
        1);
    ck_assert_msg(strstr(error_text, cases[_i].words) != NULL, "%s", error_text);
    ck_assert_ptr_nonnull(strstr(error_text, "E0804"));
}
END_TEST

START_TEST(a_layer_of_whole_sequences_takes_no_chunks)
{
    stand_in.streaming.whole_layer = "enc/bw";
    stand_in.streaming.reason = "it takes the last step first";
    ck_assert_int_eq(rnnc("run model.so " X "--out y=@/o.npy --chunk 2"), 1);
    ck_assert_ptr_nonnull(strstr(error_text, "--chunk 2: layer 'enc/bw' needs the whole sequence: "
                                             "it takes the last step first"));
    ck_assert_int_eq(rnnc("run model.so " X "--out y=@/o.npy --chunk 3"), 0);
}
END_TEST

START_TEST(the_seed_reaches_the_session)
{
    ck_assert_int_eq(rnnc("run model.so " X "--out last=@/f.npy --seed 100"), 0);
    ck_assert(get("f.npy", 4)[0] == 306);
}
END_TEST

/// An ELF file with one note, reached by a segment or by a section.
static size_t make_elf(unsigned char *file, const char *text, bool by_section)
{
    Elf64_Ehdr header = {.e_ident = ELFMAG, .e_type = ET_DYN, .e_machine = EM_X86_64};
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    const size_t table = sizeof header, note_at = table + sizeof(Elf64_Shdr);
    const Elf64_Nhdr note = {5, (Elf64_Word)strlen(text), 1};
    const size_t note_bytes = sizeof note + 8 + strlen(text);
    const Elf64_Phdr segment = {
        .p_type = PT_NOTE, .p_offset = note_at, .p_filesz = note_bytes, .p_align = 4};
    const Elf64_Shdr section = {
        .sh_type = SHT_NOTE, .sh_offset = note_at, .sh_size = note_bytes, .sh_addralign = 4};
    if (by_section) {
        header.e_shoff = table;
        header.e_shentsize = sizeof section;
        header.e_shnum = 1;
        memcpy(file + table, &section, sizeof section);
    } else {
        header.e_phoff = table;
        header.e_phentsize = sizeof segment;
        header.e_phnum = 1;
        memcpy(file + table, &segment, sizeof segment);
    }
    memcpy(file, &header, sizeof header);
    memcpy(file + note_at, &note, sizeof note);
    memcpy(file + note_at + sizeof note, "rnnc\0\0\0", 8);
    memcpy(file + note_at + sizeof note + 8, text, strlen(text));
    return note_at + note_bytes;
}

static const char descriptor[] =
    "{\"name\": \"tiny\", \"abi\": [1, 0], \"precision\": \"tf32\", \"targets\": [\"cpu\"],"
    "\"tensors\": [{\"name\": \"x\", \"role\": \"input\", \"dtype\": \"float32\","
    "\"shape\": [\"B\", \"T\", 8]}, {\"name\": \"mask\", \"role\": \"mask\","
    "\"dtype\": \"uint8\", \"shape\": [\"B\", \"T\"]}],"
    "\"layers\": [{\"name\": \"l0\", \"kind\": \"cell\", \"cell\": \"gru\", \"inputs\": 8,"
    "\"outputs\": 4, \"variants\": [\"stepwise\", \"cpu\"]}],"
    "\"kernels\": [{\"layer\": \"l0\", \"variant\": \"stepwise\", \"arch\": \"sm_90\","
    "\"registers\": 32, \"shared_bytes\": 0, \"line\": 5}]}";

START_TEST(inspect_reads_the_note)
{
    unsigned char file[2048] = {0};
    size_t size_bytes = make_elf(file, descriptor, _i);
    ck_assert(file_write(arena, diags, in_folder("m.so"), file, size_bytes));
    ck_assert_int_eq(rnnc("inspect @/m.so"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "name       tiny"));
    ck_assert_ptr_nonnull(strstr(out_text, "abi        1.0"));
    ck_assert_ptr_nonnull(strstr(out_text, "[B, T, 8]"));
    ck_assert_ptr_nonnull(strstr(out_text, "uint8    [B, T]  (optional)\n"));
    ck_assert_ptr_nonnull(strstr(out_text, "8 -> 4  stepwise, cpu"));
    ck_assert_ptr_nonnull(strstr(out_text, "32 registers, 0 shared bytes; line 5"));
    ck_assert_int_eq(rnnc("inspect @/m.so --json"), 0);
    json_t *root = json_loads(out_text, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(root, "precision")), "tf32");
    json_decref(root);
}
END_TEST

START_TEST(inspect_takes_damaged_files_for_no_module)
{
    unsigned char file[2048] = {0};
    size_t size_bytes = make_elf(file, descriptor, _i);
    for (size_t cut = 0; cut < size_bytes; cut += 7) {
        ck_assert(file_write(arena, diags, in_folder("m.so"), file, cut));
        ck_assert_int_eq(rnnc("inspect @/m.so"), 1);
        ck_assert_ptr_nonnull(strstr(error_text, "E0802"));
    }
    for (size_t at = 16; at < sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr) + 12; at++) {
        unsigned char kept = file[at];
        file[at] = 0xff;
        ck_assert(file_write(arena, diags, in_folder("m.so"), file, size_bytes));
        int code = rnnc("inspect @/m.so");
        ck_assert(code == 0 || strstr(error_text, "E0802"));
        file[at] = kept;
    }
}
END_TEST

static void add_tests(TCase *tests)
{
    tcase_add_loop_test(tests, what_does_not_fit_is_refused, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(tests, every_verb_has_help_with_examples);
    tcase_add_test(tests, a_code_is_explained);
    tcase_add_loop_test(tests, diagnostics_come_as_json, 0, 3);
    tcase_add_test(tests, bytes_beyond_utf8_stay_out_of_json);
    tcase_add_test(tests, run_writes_outputs_and_states);
    tcase_add_loop_test(tests, chunks_give_the_same, 1, 5);
    tcase_add_loop_test(tests, lengths_hold_in_chunks_too, 1, 7);
    tcase_add_loop_test(tests, masks_hold_in_chunks_too, 1, 7);
    tcase_add_loop_test(tests, zeros_for_masked_steps_hold_in_chunks_too, 1, 7);
    tcase_add_loop_test(tests, time_major_arrays_are_cut_by_time, 1, 7);
    tcase_add_loop_test(tests, masks_that_do_not_fit_are_named, 0, 9);
    tcase_add_test(tests, a_layer_of_whole_sequences_takes_no_chunks);
    tcase_add_test(tests, the_seed_reaches_the_session);
    tcase_add_test(tests, a_state_file_is_where_the_run_starts);
    tcase_add_test(tests, a_shape_that_does_not_fit_is_named);
    tcase_add_test(tests, verify_tells_the_worst_element);
    tcase_add_loop_test(tests, elements_are_compared_by_the_rules, 0,
                        sizeof pairs / sizeof pairs[0]);
    tcase_add_loop_test(tests, inspect_reads_the_note, 0, 2);
    tcase_add_loop_test(tests, inspect_takes_damaged_files_for_no_module, 0, 2);
}

int main(void)
{
    TCase *tests = tcase_create("cli");
    tcase_add_checked_fixture(tests, start, stop);
    add_tests(tests);
    Suite *suite = suite_create("cli");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
