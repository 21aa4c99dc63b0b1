// Check: runs a module on a device, with or without a forced variant, over samples of a network,
// and compares every output and final state with the reference. Uses the public runtime alone.
#ifndef RNNC_CONFORM_CHECK_H
#define RNNC_CONFORM_CHECK_H

#include "conform/network.h"
#include "rnnc/rnnc.h"

/// What came of one module on one variant. `worst` is the largest error over its bound.
typedef struct {
    int passed, failed, skipped;
    double worst;
    char note[200]; ///< why cases were skipped, or the last failure
} Tally;

typedef struct {
    const Network *network;
    const char *module_path, *device;
    const char *variant; ///< NULL: as planned
    bool required;       ///< a variant that does not apply is a failure, not a skip
    const Sample *samples;
    int sample_count;
} CheckRequest;

/// Runs all samples; prints a line for each of the first failures.
void check_module(const CheckRequest *request, Tally *out);

/// A session with device buffers for one network's tensors.
typedef struct {
    const Network *network;
    rnnc_module *module;
    rnnc_session *session;
    bool cuda;
    void *x, *y, *states[NETWORK_STATES_MAX];
} Runner;

/// Opens module and session; on failure `error` holds the message, and the status is returned.
rnnc_status runner_open(Runner *runner, const Network *network, const char *module_path,
                        const rnnc_session_options *options, char error[200]);
void runner_close(Runner *runner);

/// One run. `x` and `initial[k]` (NULL entries or a NULL array: not bound) are host memory; `y` and
/// `final[k]` take the results. Everything is poisoned with NaN before. False: `error` says why.
bool runner_run(Runner *runner, int64_t batch, int64_t timesteps, const void *x, size_t x_bytes,
                float *const *initial, float *y, float *const *final, char error[200]);

#endif
