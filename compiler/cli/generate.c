// generate: makes texts and prints them while they are made. The first text appears token by token;
// those of further rows follow it, each under a line of its own.
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "build/build.h"
#include "build/interrupt.h"
#include "cli/cli.h"
#include "cli/vocabulary.h"
#include "import/npz.h"
#include "rnnc/rnnc.h"

/// Steps of a prompt in one run; longer ones come in parts.
enum { PROMPT_STEPS = 4096, FLUSH_MS = 10 };

typedef struct {
    CliCall *call;
    rnnc_module *module;
    rnnc_session *session;
    Vocabulary vocabulary;
    const char **prompts; ///< [rows]
    Tokens *prompt_tokens;
    int64_t rows, length, seed;
    rnnc_generation generation;
    double started_ms, flushed_ms;
} Generate;

static bool fail(const Generate *generate, rnnc_status status)
{
    const bool is_environment =
        status == RNNC_UNAVAILABLE || status == RNNC_DEVICE_ERROR || status == RNNC_OUT_OF_MEMORY;
    const DiagCode code = status == RNNC_BAD_MODULE ? DIAG_E0802
                          : is_environment          ? DIAG_E0806
                          : !generate->module       ? DIAG_E0001
                                                    : DIAG_E0805;
    diag_add(generate->call->diags, code, (Span){0}, "%s",
             generate->session ? rnnc_session_error(generate->session) : rnnc_last_error());
    return false;
}

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

/// Numbers of the command line; words for a wrong one come with what to do instead.
static bool read_numbers(Generate *generate)
{
    CliCall *call = generate->call;
    rnnc_generation *generation = &generate->generation;
    const char *temperature = cli_value(call, "temperature");
    double number = 1, top_p = 0;
    int64_t streams = 1, top_k = 0;
    char *end = NULL;
    if (temperature)
        number = strtod(temperature, &end);
    if (temperature && (end == temperature || *end || !(number >= 1e-30 && number <= 1e30))) {
        cli_usage(call,
                  "--temperature wants a number above 0, not '%s'; --greedy takes the likeliest "
                  "token",
                  temperature);
        return false;
    }
    generate->length = 500;
    if (!cli_integer(call, "length", 1, INT32_MAX, &generate->length) ||
        !cli_integer(call, "top-k", 1, INT32_MAX, &top_k) ||
        !cli_number(call, "top-p", 1e-30, 1, &top_p) ||
        !cli_integer(call, "streams", 1, INT32_MAX, &streams) ||
        !cli_integer(call, "first-draw", 0, INT64_MAX, &generation->first_draw) ||
        !cli_integer(call, "seed", 0, INT64_MAX, &generate->seed))
        return false;
    generation->temperature = (float)number;
    generation->greedy = cli_flag(call, "greedy");
    generation->top_k = (int32_t)top_k;
    generation->top_p = (float)top_p;
    generate->rows = streams;
    return true;
}

/// --prompt words and the text of --prompt-file, each for --streams rows; none: one empty prompt.
static bool read_prompts(Generate *generate)
{
    CliCall *call = generate->call;
    int count = 0;
    const char **given = cli_values(call, "prompt", &count);
    const char *path = cli_value(call, "prompt-file");
    if (path) {
        const Source *source = file_read(call->arena, call->diags, path, (Span){0});
        if (!source)
            return false;
        given[count++] = source->text; // cli_values leaves room for one more
    }
    if (count == 0)
        given[count++] = "";
    const int64_t streams = generate->rows;
    generate->rows = streams * count;
    generate->prompts = ARENA_ARRAY(call->arena, const char *, generate->rows);
    for (int64_t row = 0; row < generate->rows; row++)
        generate->prompts[row] = given[row / streams];
    return true;
}

static void show_stage(const char *stage)
{
    fprintf(stderr, "\r\033[Krnnc: %s ...", stage);
    fflush(stderr);
}

static bool is_module(const char *path)
{
    unsigned char magic[4] = {0};
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const bool is_read = file >= 0 && read(file, magic, sizeof magic) == (ssize_t)sizeof magic;
    if (file >= 0)
        close(file);
    return is_read && memcmp(magic, "\177ELF", sizeof magic) == 0;
}

/// Compiles a spec for as many rows to a module that is removed as soon as it is open.
static bool compile_and_open(Generate *generate, const char *spec)
{
    CliCall *call = generate->call;
    const char *folder = getenv("TMPDIR");
    char *path =
        arena_format(call->arena, "%s/rnnc_generate.XXXXXX", folder && *folder ? folder : "/tmp");
    const int file = mkstemp(path);
    if (file < 0) {
        diag_add(call->diags, DIAG_E0002, (Span){0}, "cannot write '%s'", path);
        return false;
    }
    close(file);
    const char *device = cli_value(call, "device");
    const CompileOptions options = {.spec_path = spec,
                                    .output_path = path,
                                    .targets = device && strcmp(device, "cpu") == 0 ? "cpu" : NULL,
                                    .batch = generate->rows,
                                    .progress = call->colour_error ? show_stage : NULL};
    bool good = compile_model(call->arena, call->diags, &options, NULL);
    if (call->colour_error)
        fprintf(stderr, "\r\033[K");
    if (good) {
        const rnnc_status status = rnnc_module_open(path, &generate->module);
        good = status == RNNC_OK || fail(generate, status);
    }
    unlink(path);
    return good;
}

static bool open_module(Generate *generate)
{
    const char *path = generate->call->operands[0];
    rnnc_status status = RNNC_OK;
    if (access(path, R_OK) == 0 && !is_module(path)) {
        if (!compile_and_open(generate, path))
            return false;
    } else {
        status = rnnc_module_open(path, &generate->module);
    }
    if (status != RNNC_OK)
        return fail(generate, status);
    const char *reason;
    if (rnnc_module_generates(generate->module, &reason) > 0)
        return true;
    Diag *diag = diag_add(generate->call->diags, DIAG_E0812, (Span){0},
                          "'%s' generates no text: %s", path, reason);
    diag_help(diag, "what generates has `input: {tokens: V}`, an embedding, cells and `dense: V`");
    return false;
}

static bool read_marks(Generate *generate, const char *option, const int32_t **out, int64_t *count)
{
    CliCall *call = generate->call;
    const char *text = cli_value(call, option);
    Tokens tokens;
    if (!text)
        return true;
    if (!vocabulary_tokens(call->arena, call->diags, &generate->vocabulary,
                           arena_format(call->arena, "--%s", option), text, strlen(text), &tokens))
        return false;
    *out = tokens.items;
    *count = tokens.count;
    return true;
}

/// The vocabulary, and everything of the command line that is told in its characters.
static bool read_texts(Generate *generate)
{
    CliCall *call = generate->call;
    rnnc_generation *generation = &generate->generation;
    const int64_t tokens = rnnc_module_generates(generate->module, NULL);
    if (!vocabulary_read(call->arena, call->diags, cli_value(call, "vocab"), tokens,
                         &generate->vocabulary) ||
        !read_marks(generate, "ban", &generation->banned, &generation->banned_count) ||
        !read_marks(generate, "stop", &generation->stops, &generation->stop_count))
        return false;
    generate->prompt_tokens = ARENA_ARRAY(call->arena, Tokens, generate->rows);
    int64_t longest = 0;
    for (int64_t row = 0; row < generate->rows; row++) {
        const char *prompt = generate->prompts[row];
        if (row > 0 && prompt == generate->prompts[row - 1])
            generate->prompt_tokens[row] = generate->prompt_tokens[row - 1];
        else if (!vocabulary_tokens(call->arena, call->diags, &generate->vocabulary, "the prompt",
                                    prompt, strlen(prompt), &generate->prompt_tokens[row]))
            return false;
        if (generate->prompt_tokens[row].count > longest)
            longest = generate->prompt_tokens[row].count;
    }
    generation->prompt_length = longest;
    return true;
}

/// The prompts side by side, the rows' seeds, and room for what is drawn.
static void lay_out(Generate *generate)
{
    Arena *arena = generate->call->arena;
    rnnc_generation *generation = &generate->generation;
    const int64_t rows = generate->rows, longest = generation->prompt_length;
    int32_t *prompts = ARENA_ARRAY(arena, int32_t, rows * longest + 1);
    int64_t *lengths = ARENA_ARRAY(arena, int64_t, rows);
    uint64_t *seeds = ARENA_ARRAY(arena, uint64_t, rows);
    for (int64_t row = 0; row < rows; row++) {
        lengths[row] = generate->prompt_tokens[row].count;
        seeds[row] = (uint64_t)generate->seed + (uint64_t)row;
        for (int64_t i = 0; i < lengths[row]; i++)
            prompts[row * longest + i] = generate->prompt_tokens[row].items[i];
    }
    generation->rows = rows;
    generation->length = generate->length;
    generation->prompts = prompts;
    generation->prompt_stride = longest;
    generation->prompt_lengths = lengths;
    generation->seeds = seeds;
    generation->tokens = arena_alloc(arena, (size_t)(rows * generate->length) * sizeof(int32_t));
    generation->counts = ARENA_ARRAY(arena, int64_t, rows);
    generation->context = generate;
}

static bool create_session(Generate *generate)
{
    CliCall *call = generate->call;
    int32_t time = -1;
    const rnnc_tensor_info *x = rnnc_module_tensor(generate->module, 0);
    for (size_t i = 0; x && x->role != RNNC_ROLE_INPUT; i++)
        x = rnnc_module_tensor(generate->module, i);
    for (size_t i = 0; rnnc_module_tensor(generate->module, i); i++)
        if (rnnc_module_tensor(generate->module, i) == x)
            rnnc_module_tensor_axes(generate->module, i, NULL, &time);
    const int64_t longest = generate->generation.prompt_length;
    const bool is_fixed = x && time >= 0 && x->dims[time] > 0;
    const rnnc_session_options options = {.device = cli_value(call, "device"),
                                          .variant = cli_value(call, "variant"),
                                          .max_batch = generate->rows,
                                          .max_timesteps = is_fixed                 ? 0
                                                           : longest > PROMPT_STEPS ? PROMPT_STEPS
                                                                                    : longest};
    const rnnc_status status = rnnc_session_create(generate->module, &options, &generate->session);
    return status == RNNC_OK || fail(generate, status);
}

/// --state: each [rows, size], or [1, size] for all rows.
static bool set_states(Generate *generate)
{
    CliCall *call = generate->call;
    const char *path = cli_value(call, "state");
    const Npz *archive = path ? npz_open(call->arena, call->diags, path, (Span){0}) : NULL;
    if (path && !archive)
        return false;
    for (size_t i = 0; path && rnnc_module_tensor(generate->module, i); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(generate->module, i);
        if (info->role != RNNC_ROLE_STATE)
            continue;
        const NpyArray *array = npz_find(archive, info->name);
        const int64_t size = info->dims[1], rows = generate->rows;
        if (!array || array->dim_count != 2 || array->dims[1] != size ||
            (array->dims[0] != 1 && array->dims[0] != rows)) {
            diag_add(call->diags, DIAG_E0804, (Span){0},
                     array ? "'%s': '%s' is %s, expected [%" PRId64 ", %" PRId64
                             "], or [1, %" PRId64 "] for all rows"
                           : "'%s' has no state '%s'",
                     path, info->name,
                     array ? npy_shape_text(call->arena, array->dims, array->dim_count) : "", rows,
                     size, size);
            return false;
        }
        float *values = arena_alloc(call->arena, (size_t)(rows * size) * sizeof *values);
        npy_to_float(array, values);
        for (int64_t row = 1; row < rows && array->dims[0] == 1; row++)
            memcpy(values + row * size, values, (size_t)size * sizeof *values);
        const rnnc_status status =
            rnnc_state_set(generate->session, info->name, values, (size_t)(rows * size));
        if (status != RNNC_OK)
            return fail(generate, status);
    }
    return true;
}

static bool write_states(Generate *generate)
{
    CliCall *call = generate->call;
    const char *path = cli_value(call, "state-out");
    NpzMember *members = NULL;
    int count = 0;
    for (size_t i = 0; path && rnnc_module_tensor(generate->module, i); i++) {
        const rnnc_tensor_info *info = rnnc_module_tensor(generate->module, i);
        if (info->role != RNNC_ROLE_STATE)
            continue;
        const int64_t elems = generate->rows * info->dims[1];
        float *values = arena_alloc(call->arena, (size_t)elems * sizeof *values);
        const rnnc_status status =
            rnnc_state_get(generate->session, info->name, values, (size_t)elems);
        if (status != RNNC_OK)
            return fail(generate, status);
        const NpzMember member = {arena_format(call->arena, "%s", info->name),
                                  {.type = NPY_FLOAT32,
                                   .dim_count = 2,
                                   .dims = {generate->rows, info->dims[1]},
                                   .elems = elems,
                                   .data = (unsigned char *)values}};
        ARENA_PUSH(call->arena, members, count, member);
    }
    return !path || npz_write(call->arena, call->diags, path, members, count);
}

static void print_token(const Generate *generate, int32_t token)
{
    const TokenText *text = &generate->vocabulary.tokens[token];
    fwrite(text->bytes, 1, (size_t)text->count, stdout);
}

/// Prints the first row's token; nonzero where the user wants no more or cannot be told.
static int show(void *context, int64_t step, const int32_t *tokens)
{
    Generate *generate = context;
    (void)step;
    if (tokens[0] >= 0)
        print_token(generate, tokens[0]);
    const double now = now_ms();
    if (now - generate->flushed_ms >= FLUSH_MS) {
        fflush(stdout);
        generate->flushed_ms = now;
    }
    return interrupt_noted() || ferror(stdout);
}

/// The texts of the other rows, each with its prompt.
static void print_others(const Generate *generate)
{
    for (int64_t row = 1; row < generate->rows; row++) {
        printf("\n--- %" PRId64 " (seed %" PRIu64 ") ---\n%s", row + 1,
               generate->generation.seeds[row], generate->prompts[row]);
        for (int64_t i = 0; i < generate->generation.counts[row]; i++)
            print_token(generate, generate->generation.tokens[row * generate->length + i]);
    }
    putchar('\n');
}

static void tell(const Generate *generate, double ms)
{
    const char *reason = NULL;
    const char *how = rnnc_session_generator(generate->session, &reason);
    int64_t count = 0, most = 0;
    for (int64_t row = 0; row < generate->rows; row++) {
        const int64_t of_row = generate->generation.counts[row];
        count += of_row;
        most = of_row > most ? of_row : most;
    }
    diag_add(generate->call->diags, DIAG_N0805, (Span){0},
             "%" PRId64 " tokens in %.1f ms, %.2f us a step with its prompt, %s on %s: %s", count,
             ms, most ? 1e3 * ms / (double)most : 0, how ? how : "-",
             rnnc_session_device(generate->session), reason ? reason : "-");
}

/// A signal ends the work at the next token, and takes its course when all is told.
static bool make(Generate *generate)
{
    rnnc_generation *generation = &generate->generation;
    generation->on_tokens = show;
    fputs(generate->prompts[0], stdout);
    fflush(stdout);
    interrupt_hold();
    const double start = generate->flushed_ms = now_ms();
    const rnnc_status status = rnnc_generate(generate->session, generation);
    const double ms = now_ms() - start;
    const bool is_made = status == RNNC_OK || status == RNNC_CANCELLED;
    if (is_made)
        print_others(generate);
    fflush(stdout);
    bool good = is_made ? write_states(generate) : fail(generate, status);
    if (is_made)
        tell(generate, ms);
    if (interrupt_noted())
        diags_print(generate->call->diags, stderr, generate->call->colour_error);
    interrupt_release();
    return good;
}

int cli_generate(CliCall *call)
{
    Generate generate = {.call = call};
    bool good = read_numbers(&generate) && read_prompts(&generate) && open_module(&generate) &&
                read_texts(&generate);
    if (good) {
        lay_out(&generate);
        good = create_session(&generate) && set_states(&generate) && make(&generate);
    }
    rnnc_session_destroy(generate.session);
    rnnc_module_close(generate.module);
    return cli_result(call);
}
