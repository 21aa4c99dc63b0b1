// Command line: one table of verbs with one table of options each (verbs.c), from which parsing
// (cli.c) and --help (help.c) come; one file per verb. A verb reads what was given through a
// CliCall, adds its faults to the call's diagnostics and returns an exit code.
#ifndef RNNC_CLI_CLI_H
#define RNNC_CLI_CLI_H

#include "base/diag.h"
#include "base/text.h"

/// Exit codes of every verb.
enum {
    EXIT_DONE = 0,
    EXIT_DIAGNOSTICS = 1,
    EXIT_USAGE = 2,
    EXIT_ENVIRONMENT = 3,
    EXIT_INTERNAL = 70
};

/// One option of a verb.
typedef struct {
    const char *name;     ///< long name without dashes; NULL ends a table
    char letter;          ///< short name; 0: none
    bool repeats;         ///< may be given more than once
    const char *argument; ///< placeholder ("FILE"); NULL: a flag
    const char *help;     ///< one line
} CliOption;

typedef struct CliCall CliCall;

/// One verb. The verb without a name is `rnnc MODEL.yaml -o MODEL.so`.
typedef struct {
    const char *name;     ///< "run"; "" for compiling
    const char *operands; ///< "MODEL.so"
    const char *summary;  ///< one line
    const char *examples; ///< lines, each ended
    const CliOption *options;
    int operands_min, operands_max;
    int (*run)(CliCall *call);
} CliVerb;

typedef struct {
    int option; ///< index into the verb's table
    const char *value;
} CliGiven;

/// What one command line gives its verb.
struct CliCall {
    Arena *arena;
    Diags *diags; ///< printed by cli_main when the verb returns
    const CliVerb *verb;
    const char **operands;
    int operand_count;
    CliGiven *given; ///< in order of the command line
    int given_count;
    bool json_diagnostics; ///< --diagnostics=json
    bool colour_out;       ///< standard output is a terminal and NO_COLOR is not set
    bool colour_error;     ///< the same for standard error
    bool usage_fault;      ///< set by cli_usage
};

/// All verbs; the last has a NULL name. The first is the one without a name.
extern const CliVerb cli_verbs[];

/// Runs the command line; returns the exit code. Prints the diagnostics to standard error.
int cli_main(int argument_count, char **arguments);

/// The value of an option (last given), or NULL; "" for a flag that was given.
const char *cli_value(const CliCall *call, const char *option);
bool cli_flag(const CliCall *call, const char *option);

/// All values of a repeating option in order (in the arena).
const char **cli_values(const CliCall *call, const char *option, int *out_count);

/// Reads an option as a number within [least, most]; `*out` keeps its value where it was not given.
/// A malformed number is a usage fault and gives false.
bool cli_integer(CliCall *call, const char *option, int64_t least, int64_t most, int64_t *out);
bool cli_number(CliCall *call, const char *option, double least, double most, double *out);

/// Adds a fault of the command line itself (E0800, exit 2) with the hint to the verb's --help.
/// Returns EXIT_USAGE.
int cli_usage(CliCall *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// EXIT_DONE, EXIT_DIAGNOSTICS or EXIT_ENVIRONMENT by what the diagnostics hold so far.
int cli_result(const CliCall *call);

/// Prints the help of one verb, or of the program, to standard output.
void cli_print_verb_help(Arena *arena, const CliVerb *verb);
void cli_print_help(void);

/// Reads the file of --plan; `*out` NULL: none was given. False where it cannot be read, or beside
/// --variants, which is a usage fault.
struct PlanFile;
bool cli_plan(CliCall *call, const struct PlanFile **out);

/// The verbs' functions.
int cli_compile(CliCall *call);
int cli_explain(CliCall *call);
int cli_explain_model(CliCall *call); ///< `rnnc explain model.yaml`; called by cli_explain
int cli_run(CliCall *call);
int cli_verify(CliCall *call);
int cli_generate(CliCall *call);
int cli_inspect(CliCall *call);
int cli_bench(CliCall *call);
int cli_tune(CliCall *call);
int cli_train(CliCall *call);
int cli_import(CliCall *call);
int cli_cells(CliCall *call);
int cli_activations(CliCall *call);

#endif
