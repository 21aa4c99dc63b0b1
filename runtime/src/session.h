// Session: the module's tables and the session's own state, shared by the files that make up the
// public API. Host side only: what lies on the device is reached through `ops`.
#ifndef RNNC_RUNTIME_SESSION_H
#define RNNC_RUNTIME_SESSION_H

#include <stdbool.h>

#include "device.h"

struct rnnc_module {
    void *library;
    const rnnc_module_desc *desc;
};

/// What is bound to one tensor of the module; `data` NULL: nothing.
typedef struct {
    void *data;
    int64_t dims[4];
    int64_t row_stride, step_stride; ///< of x, y and mask, in elements
} rnnc_binding;

/// The session's own memory for a state tensor: [max_batch, size] on the device.
typedef struct {
    float *memory;
    int64_t size;
    int64_t rows; ///< that the next run starts from: set, or carried by a stateful layer; 0: none
    bool is_set;  ///< by rnnc_state_set, so that a layer that is not stateful starts from it too
} rnnc_own_state;

/// The loss of a session for training, see loss.h.
typedef struct {
    rnnc_binding targets, loss; ///< as bound
    float *gradient;            ///< of y, where targets have been bound; of y itself too
} rnnc_loss;

/// What a session for training has besides; all is zero in others.
typedef struct {
    bool trains;
    bool is_saved;            ///< a forward pass whose backward pass has not come
    int64_t batch, timesteps; ///< of it
    rnnc_binding x;           ///< of it
    rnnc_binding *gradients;  ///< one for each tensor: what is bound to "grad/<name>"
    float **weights;          ///< one for each tensor: the module's own weights on the device
    float **states;           ///< one for each tensor: room for the gradient of a state
    float **buffers;          ///< one for each slot: its gradient
    bool *is_written;         ///< one for each slot, and x: in this backward pass
    rnnc_loss loss;
    bool has_loss; ///< the forward pass has left the gradient of y
} rnnc_training;

struct rnnc_session {
    const rnnc_module_desc *desc;
    const rnnc_device_ops *ops;
    rnnc_device *device;
    rnnc_error error;
    int64_t max_batch, max_timesteps;
    int device_type, ordinal; ///< DLDeviceType
    int32_t x, y, y_backward; ///< indices of these tensors; -1: the module has one output
    int32_t mask, lengths;    ///< the same; -1: the module takes none
    rnnc_masking masking;     ///< that the device is set to
    uint64_t seed;            ///< of dropout at inference and of generated text
    int64_t rows;             ///< that states were set or a text made for, with x not bound; or 0
    bool has_generated;       ///< see rnnc_session_generator
    bool is_folded, is_one_launch; ///< of the last text
    char generator_reason[512];    ///< why it was not one launch
    int64_t memory_bytes;          ///< see rnnc_session_memory
    rnnc_binding *bindings;        ///< one for each tensor
    rnnc_own_state *states;        ///< one for each tensor; only states have memory
    float **weights; ///< one for each tensor: rebound weights (host copies), else NULL
    float **buffers; ///< one for each slot of the module
    rnnc_training training;
};

/// Steps of a buffer between layers: one where no layer writes a sequence there.
int64_t rnnc_slot_timesteps(const rnnc_session *session, int32_t slot);

/// Layer `index`, with it the next where that runs beside it, or all of its stack: their calls.
/// Returns how many there are.
int32_t rnnc_session_group(rnnc_session *session, int32_t index, rnnc_layer_call *out_calls);

/// Whether a tensor that is bound has the B and T of a run; `name` is what it was bound to.
rnnc_status rnnc_check_steps(rnnc_session *session, const rnnc_tensor_info *info,
                             const rnnc_binding *binding, int64_t batch, int64_t timesteps);

/// Makes all that a session for training has besides, and frees it; free it also after a failure.
rnnc_status rnnc_training_create(rnnc_session *session);
void rnnc_training_destroy(rnnc_session *session);

/// In a session for training: hands all weights, where they are bound, to the device.
rnnc_status rnnc_training_load_weights(rnnc_session *session);

/// The tensor of which `name`, "grad/l0/W", is the gradient, with the gradient's own facts; -1 with
/// a message where there is none.
int32_t rnnc_gradient_find(rnnc_session *session, const char *name, rnnc_tensor_info *out_info);

/// The index of a tensor by name, or -1 with a message that lists the names there are.
int32_t rnnc_tensor_find(rnnc_session *session, const char *name);

/// Packs a layer's weights onto the device, from rebound copies where there are any.
rnnc_status rnnc_layer_set_weights(rnnc_session *session, int32_t layer);

/// Rows and steps of the next run: those of x, or the most there can be while x is not bound.
int64_t rnnc_session_batch(const rnnc_session *session);
int64_t rnnc_session_timesteps(const rnnc_session *session);

/// Runs the layers below `end` on what is bound.
rnnc_status rnnc_session_run(rnnc_session *session, int32_t end, bool saves);

/// What comes before the steps of a run or of a generation, of a session for training: its weights
/// are read anew, and a forward pass before it is lost.
rnnc_status rnnc_session_begin(rnnc_session *session);

/// A whole run, all that it needs being checked.
rnnc_status rnnc_session_run_all(rnnc_session *session, bool saves);

/// Fills a layer's call: where it reads and writes what is bound, and its states made ready.
rnnc_status rnnc_session_prepare(rnnc_session *session, rnnc_layer_call *call);

/// Sets the device to the kind of masking that runs with these two bound or not need.
rnnc_status rnnc_session_set_masking(rnnc_session *session, bool mask, bool lengths);

/// Gives every state of the session its memory, and the start values.
rnnc_status rnnc_states_create(rnnc_session *session);

/// Before a run of x's rows: whether states that were set or carried are for as many.
rnnc_status rnnc_states_check(rnnc_session *session);

/// Within a run: the memory of state tensor `index`, filled with the start value where neither the
/// caller nor the last run has given one.
rnnc_status rnnc_state_begin(rnnc_session *session, int32_t index, bool stateful,
                             float **out_memory);

#endif
