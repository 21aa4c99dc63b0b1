// Self-test on the command line: a module's own small input through every variant that this machine
// can run, each against the float64 values that the module carries.
#ifndef RNNC_CLI_VERIFY_SELF_H
#define RNNC_CLI_VERIFY_SELF_H

#include "cli/cli.h"

/// `rnnc verify MODEL.so` without files; --device and --variant narrow what is run. Adds E0807 for
/// every variant whose error is beyond the module's tolerance.
int verify_self(CliCall *call);

#endif
