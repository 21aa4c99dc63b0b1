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
    bool rows;           ///< every row of a batch must have the bits of its own run at B = 1
    bool chunks;         ///< the network takes a sequence in parts: no layer starts at its end
    bool stateful;       ///< all layers carry their states from run to run
    int repeats;         ///< runs that must give the same bits
    bool loaded;         ///< while another session runs the same module on another thread
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
    void *x, *y[NETWORK_OUTPUTS_MAX], *states[NETWORK_STATES_MAX], *mask, *lengths;
    void *host; ///< as large as the largest of them
} Runner;

/// What one run is given: host memory, batch-major as in a Sample. NULL mask, lengths, `initial` or
/// entries of it: not bound.
typedef struct {
    int64_t batch, timesteps;
    const void *x;
    const uint8_t *mask;
    const int32_t *lengths;
    float *const *initial;
    bool strided, carries; ///< carries: stateful layers go on where the last run ended
    uint64_t seed;
} RunnerInput;

/// Opens module and session; on failure `error` holds the message, and the status is returned.
rnnc_status runner_open(Runner *runner, const Network *network, const char *module_path,
                        const rnnc_session_options *options, char error[200]);
void runner_close(Runner *runner);

/// One run. `y` and `final[k]` take the results, batch-major. Everything is poisoned with NaN
/// before. On failure `error` says why.
rnnc_status runner_run(Runner *runner, const RunnerInput *input, float *const *y,
                       float *const *final, char error[200]);

#endif
