// A module run on arrays from files: what `run` and `verify` have in common. Serves CPU and CUDA
// sessions alike, since all device memory goes through the runtime.
#ifndef RNNC_CLI_MODULE_RUN_H
#define RNNC_CLI_MODULE_RUN_H

#include "cli/cli.h"
#include "import/npz.h"

/// What a run gave: every output in full (all time steps, also when fed in chunks) and every final
/// state, float32, in the arena.
typedef struct {
    NpzMember *outputs, *states;
    int output_count, state_count;
} RunResult;

/// One NAME=FILE of the command line.
typedef struct {
    const char *name, *path;
} NamedFile;

/// Splits the values of a repeating option at their first '='. A value without one is a usage
/// fault, and NULL is returned.
const NamedFile *cli_named_files(CliCall *call, const char *option, int *out_count);

/// Arrays that come from elsewhere than --in, --lengths, --mask and --state: inputs ("x"),
/// "lengths", "mask" and initial states ("enc/h") by their names in the module.
typedef struct {
    const char *path; ///< for messages
    const NpzMember *members;
    int count;
} GivenArrays;

/// Opens the module (first operand), feeds it what --in, --lengths, --mask, --state, --chunk,
/// --device, --variant and --seed say, and `given` (NULL: nothing), and adds N0801 for each cell
/// layer. `wanted` are names that must be outputs or states: they are checked before anything runs.
/// False, with E08xx, on any fault.
bool module_run(CliCall *call, const GivenArrays *given, const NamedFile *wanted, int wanted_count,
                RunResult *out);

/// The output or state of that name, or NULL.
const NpyArray *run_result_find(const RunResult *result, const char *name);

#endif
