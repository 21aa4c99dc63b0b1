// Command line: one file per verb, one table of verbs (cli.c).
#ifndef RNNC_CLI_CLI_H
#define RNNC_CLI_CLI_H

/// Exit codes of every verb.
enum { EXIT_DONE = 0, EXIT_DIAGNOSTICS = 1, EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3, EXIT_INTERNAL = 70 };

/// Runs the command line; returns the exit code.
int cli_main(int argument_count, char **arguments);

#endif
