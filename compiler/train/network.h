// Network: a session for training with everything bound that a step needs, and all weights side by
// side on the host, where the optimiser changes them.
//
//     host                      device
//     weights  [e|e|..|head]    one block a tensor, bound as weight     x, targets [rows, T]
//     gradient [e|e|..|head]    one block a tensor, bound as gradient   states: of training,
//                                                                       of scoring; loss
#ifndef RNNC_TRAIN_NETWORK_H
#define RNNC_TRAIN_NETWORK_H

#include "base/diag.h"
#include "model/model.h"
#include "rnnc/rnnc.h"

/// A weight or a state. Weights lie at `offset` of the host's arrays.
typedef struct {
    const char *name;
    int64_t dims[4];
    int dim_count;
    int64_t offset, elems;
    void *memory;   ///< weights: the device's copy; states: of training
    void *gradient; ///< weights
    void *scoring;  ///< states
} NetworkTensor;

typedef struct {
    Arena *arena;
    Diags *diags;
    rnnc_module *module;
    rnnc_session *session;
    int64_t rows, timesteps, elems; ///< elems: of all weights
    NetworkTensor *weights, *states;
    int weight_count, state_count;
    float *initial; ///< [elems] the model's own weights
    int32_t *inputs, *targets;
    void *device_inputs, *device_targets, *device_loss;
} Network;

/// Opens a session of `rows` x `timesteps` on a device; the module was compiled from `model`. Adds
/// E0805 or E0806 and returns false where that cannot be; close it also then.
bool network_open(Network *network, const Model *model, const char *device);
void network_close(Network *network);

/// Copies weights [elems] to the device.
bool network_set_weights(Network *network, const float *weights);

/// States of training, or of scoring, are used from here on.
bool network_use_states(Network *network, bool scoring);

/// Puts the start values into those that are used.
bool network_start(Network *network);

/// Reads and writes the states of training, one after the other.
int64_t network_state_elems(const Network *network);
bool network_get_states(Network *network, float *out);
bool network_set_states(Network *network, const float *values);

/// Runs on `inputs` and `targets`: the mean loss in nats. With `gradient` [elems] forward and
/// backward; `find_nan` as in rnnc_backward_options. RNNC_NOT_FINITE adds E0817 for step `step`.
bool network_run(Network *network, uint64_t seed, int64_t step, bool find_nan, float *gradient,
                 double *out_loss);

#endif
