// Command line: finds the verb, parses its options with getopt_long from the verb's table, runs it
// and prints the diagnostics. Knows no verb by name.
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTIONS_MAX = 32, OPTION_BASE = 256, OPTION_HELP = 512, OPTION_DIAGNOSTICS, OPTION_VERSION };

static void add_usage(CliCall *call, const char *message)
{
    call->usage_fault = true;
    Diag *diag = diag_add(call->diags, DIAG_E0800, (Span){0}, "%s", message);
    const char *name = call->verb ? call->verb->name : "";
    if (!call->verb)
        diag_help(diag, "see 'rnnc --help'");
    else if (name[0] == '\0')
        diag_help(diag, "see 'rnnc MODEL.yaml --help'");
    else
        diag_help(diag, "see 'rnnc %s --help'", name);
}

int cli_usage(CliCall *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_usage(call, arena_vformat(call->arena, format, arguments));
    va_end(arguments);
    return EXIT_USAGE;
}

int cli_result(const CliCall *call)
{
    return call->usage_fault ? EXIT_USAGE : diags_exit_code(call->diags);
}

static int find_option(const CliVerb *verb, const char *name)
{
    for (int i = 0; verb->options[i].name; i++)
        if (strcmp(verb->options[i].name, name) == 0)
            return i;
    return -1;
}

const char *cli_value(const CliCall *call, const char *option)
{
    int index = find_option(call->verb, option);
    const char *value = NULL;
    for (int i = 0; i < call->given_count; i++)
        if (call->given[i].option == index)
            value = call->given[i].value ? call->given[i].value : "";
    return value;
}

bool cli_flag(const CliCall *call, const char *option)
{
    return cli_value(call, option) != NULL;
}

const char **cli_values(const CliCall *call, const char *option, int *out_count)
{
    int index = find_option(call->verb, option);
    const char **values = ARENA_ARRAY(call->arena, const char *, call->given_count + 1);
    *out_count = 0;
    for (int i = 0; i < call->given_count; i++)
        if (call->given[i].option == index)
            values[(*out_count)++] = call->given[i].value;
    return values;
}

bool cli_integer(CliCall *call, const char *option, int64_t least, int64_t most, int64_t *out)
{
    const char *text = cli_value(call, option);
    if (!text)
        return true;
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < least || value > most) {
        cli_usage(call, "--%s wants a whole number of %" PRId64 " to %" PRId64 ", not '%s'", option,
                  least, most, text);
        return false;
    }
    *out = value;
    return true;
}

bool cli_number(CliCall *call, const char *option, double least, double most, double *out)
{
    const char *text = cli_value(call, option);
    if (!text)
        return true;
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most)) {
        cli_usage(call, "--%s wants a number of %g to %g, not '%s'", option, least, most, text);
        return false;
    }
    *out = value;
    return true;
}

/// getopt's two tables, filled from the verb's.
typedef struct {
    struct option longs[OPTIONS_MAX + 4];
    char shorts[2 * OPTIONS_MAX + 4];
} GetoptTables;

static void fill_tables(const CliVerb *verb, GetoptTables *tables)
{
    char *letter = tables->shorts;
    *letter++ = ':';
    *letter++ = 'h';
    int count = 0;
    for (; verb->options[count].name; count++) {
        assert(count < OPTIONS_MAX);
        const CliOption *option = &verb->options[count];
        int argument = option->argument ? required_argument : no_argument;
        tables->longs[count] = (struct option){option->name, argument, NULL, OPTION_BASE + count};
        if (option->letter)
            *letter++ = option->letter;
        if (option->letter && option->argument)
            *letter++ = ':';
    }
    *letter = '\0';
    tables->longs[count++] = (struct option){"help", no_argument, NULL, OPTION_HELP};
    tables->longs[count++] =
        (struct option){"diagnostics", required_argument, NULL, OPTION_DIAGNOSTICS};
    tables->longs[count++] = (struct option){"version", no_argument, NULL, OPTION_VERSION};
    tables->longs[count] = (struct option){0};
}

static void report_unknown(CliCall *call, const GetoptTables *tables, const char *word, int letter)
{
    if (letter != 0 && letter < OPTION_BASE) { // negative: a byte of a letter beyond ASCII
        bool ascii = letter > ' ' && letter < 127;
        cli_usage(call, ascii ? "unknown option '-%c'" : "unknown option: '-' and the byte 0x%02x",
                  ascii ? letter : letter & 0xff);
        return;
    }
    const char *names[OPTIONS_MAX + 4];
    size_t count = 0;
    for (; tables->longs[count].name; count++)
        names[count] = tables->longs[count].name;
    const char *name = arena_copy(call->arena, word + 2, strcspn(word + 2, "="));
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) {
            cli_usage(call, "--%s takes no value", name);
            return;
        }
    const char *near = text_nearest(name, names, count);
    if (near)
        cli_usage(call, "unknown option '--%s'; did you mean '--%s'?", name, near);
    else
        cli_usage(call, "unknown option '--%s'", name);
}

static void set_diagnostics(CliCall *call, const char *value)
{
    if (strcmp(value, "json") == 0)
        call->json_diagnostics = true;
    else if (strcmp(value, "text") == 0)
        call->json_diagnostics = false;
    else
        cli_usage(call, "--diagnostics is json or text, not '%s'", value);
}

static int option_of_letter(const CliVerb *verb, int letter)
{
    for (int i = 0; verb->options[i].name; i++)
        if (verb->options[i].letter == letter)
            return i;
    return -1;
}

static void take_option(CliCall *call, int index, const char *value)
{
    const CliOption *option = &call->verb->options[index];
    if (!option->repeats && cli_value(call, option->name)) {
        cli_usage(call, "--%s is given twice", option->name);
        return;
    }
    CliGiven given = {index, value};
    ARENA_PUSH(call->arena, call->given, call->given_count, given);
}

typedef enum { ASKED_NOTHING, ASKED_HELP, ASKED_VERSION } Asked;

/// Parses the words after the verb into the call. `words[0]` is skipped.
static Asked parse(CliCall *call, int count, char **words)
{
    GetoptTables tables = {0};
    fill_tables(call->verb, &tables);
    Asked asked = ASKED_NOTHING;
    opterr = 0;
    optind = 0;
    for (int found; (found = getopt_long(count, words, tables.shorts, tables.longs, NULL)) != -1;) {
        const char *word = words[optind - 1];
        if (found == OPTION_HELP || found == 'h')
            asked = ASKED_HELP;
        else if (found == OPTION_VERSION)
            asked = ASKED_VERSION;
        else if (found == OPTION_DIAGNOSTICS)
            set_diagnostics(call, optarg);
        else if (found == ':')
            cli_usage(call, "option '%s' wants a value", word);
        else if (found == '?')
            report_unknown(call, &tables, word, optopt);
        else if (found >= OPTION_BASE)
            take_option(call, found - OPTION_BASE, optarg);
        else
            take_option(call, option_of_letter(call->verb, found), optarg);
    }
    for (int i = optind; i < count; i++)
        ARENA_PUSH(call->arena, call->operands, call->operand_count, words[i]);
    return asked;
}

static bool operands_fit(CliCall *call)
{
    const CliVerb *verb = call->verb;
    if (call->operand_count > verb->operands_max)
        cli_usage(call, "unexpected word '%s'", call->operands[verb->operands_max]);
    else if (call->operand_count < verb->operands_min)
        cli_usage(call, "missing: %s", verb->operands);
    return !call->usage_fault;
}

/// The verb that `word` names. A word that looks like a file is a model to compile; any other is a
/// slip of the pen, and NULL is returned.
static const CliVerb *find_verb(CliCall *call, const char *word)
{
    const char *names[OPTIONS_MAX];
    size_t count = 0;
    for (const CliVerb *verb = cli_verbs; verb->name; verb++) {
        if (verb->name[0] && strcmp(verb->name, word) == 0)
            return verb;
        if (verb->name[0])
            names[count++] = verb->name;
    }
    if (word[0] == '-' || strpbrk(word, "./") || access(word, F_OK) == 0)
        return &cli_verbs[0];
    const char *near = text_nearest(word, names, count);
    if (near)
        cli_usage(call, "unknown verb '%s'; did you mean '%s'?", word, near);
    else
        cli_usage(call, "'%s' is neither a verb nor a file", word);
    return NULL;
}

static int run_verb(CliCall *call, int count, char **words)
{
    Asked asked = parse(call, count, words);
    if (asked == ASKED_VERSION) {
        printf("rnnc %s\n", RNNC_VERSION);
        return EXIT_DONE;
    }
    if (asked == ASKED_HELP && call->operand_count == 0 && call->verb == &cli_verbs[0])
        cli_print_help();
    else if (asked == ASKED_HELP)
        cli_print_verb_help(call->arena, call->verb);
    if (asked == ASKED_HELP)
        return EXIT_DONE;
    if (call->usage_fault || !operands_fit(call))
        return EXIT_USAGE;
    return call->verb->run(call);
}

/// Global options may stand before the verb; they move behind it. `words[0]` is the program.
static int dispatch(CliCall *call, int count, char **words)
{
    int at = 1;
    for (; at < count && strncmp(words[at], "--diagnostics", 13) == 0; at++) {
        bool apart = words[at][13] == '\0';
        if (words[at][13] == '=')
            set_diagnostics(call, words[at] + 14);
        else if (apart && at + 1 < count)
            set_diagnostics(call, words[++at]);
        else
            break;
    }
    if (at == count) {
        cli_usage(call, "no verb and no model is given");
        return EXIT_USAGE;
    }
    call->verb = find_verb(call, words[at]);
    if (!call->verb)
        return EXIT_USAGE;
    int skipped = call->verb == &cli_verbs[0] ? at - 1 : at;
    return run_verb(call, count - skipped, words + skipped);
}

static bool wants_colour(int file)
{
    const char *no_colour = getenv("NO_COLOR");
    return isatty(file) && !(no_colour && no_colour[0]);
}

int cli_main(int argument_count, char **arguments)
{
    signal(SIGXFSZ, SIG_IGN); // a write over a limit of size fails and is told like a full disk
    Arena *arena = arena_create();
    CliCall call = {.arena = arena,
                    .diags = diags_create(arena),
                    .colour_out = wants_colour(STDOUT_FILENO),
                    .colour_error = wants_colour(STDERR_FILENO)};
    int code = dispatch(&call, argument_count, arguments);
    if (fflush(stdout) != 0 || ferror(stdout))
        diag_add(call.diags, DIAG_E0002, (Span){0}, "cannot write to standard output: %s",
                 strerror(errno));
    if (call.json_diagnostics)
        diags_print_json(call.diags, stderr);
    else
        diags_print(call.diags, stderr, call.colour_error);
    int result = cli_result(&call);
    arena_destroy(arena);
    return result ? result : code;
}
