// Help: the texts of --help, made from the verbs' table.
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const CliOption common_options[] = {
    {"diagnostics", 0, false, "json", "print diagnostics as a JSON array on standard error"},
    {"help", 'h', false, NULL, "print this text"},
    {0},
};

static void print_options(Arena *arena, const CliOption *options)
{
    for (const CliOption *option = options; option->name; option++) {
        const char *letter = option->letter ? arena_format(arena, "-%c, ", option->letter) : "    ";
        const char *name = option->argument
                               ? arena_format(arena, "--%s %s", option->name, option->argument)
                               : arena_format(arena, "--%s", option->name);
        printf("  %s%-26s %s%s\n", letter, name, option->help,
               option->repeats ? "; may be repeated" : "");
    }
}

void cli_print_verb_help(Arena *arena, const CliVerb *verb)
{
    bool has_options = verb->options[0].name != NULL;
    printf("usage: rnnc%s%s%s%s%s\n\n%s\n\noptions:\n", verb->name[0] ? " " : "", verb->name,
           verb->operands[0] ? " " : "", verb->operands, has_options ? " [options]" : "",
           verb->summary);
    print_options(arena, verb->options);
    print_options(arena, common_options);
    printf("\nexamples:\n%s", verb->examples);
}

void cli_print_help(void)
{
    printf("rnnc compiles recurrent neural networks ahead of time.\n\nusage:\n");
    for (const CliVerb *verb = cli_verbs; verb->name; verb++) {
        char line[64];
        snprintf(line, sizeof line, "%s%s%s", verb->name, verb->name[0] ? " " : "", verb->operands);
        printf("  rnnc %-28s %s\n", line, verb->summary);
    }
    printf("  rnnc --version\n\n`rnnc VERB --help` has the options of a verb and examples;\n"
           "`rnnc --help` is this text, `rnnc MODEL.yaml --help` is on compiling.\n\n"
           "exit codes: 0 success, 1 diagnostics, 2 malformed command line, 3 environment (no\n"
           "compiler, driver, device or disk), 70 internal error\n");
}
