// Device: the interface between the session, which knows names, bindings and the order of layers,
// and the places where a layer can run. The CPU (cpu.c) and CUDA (cuda/device.c) each fill one
// table of functions. A device belongs to one session and is used by one thread at a time.
//
//     session: begin_run(mask, lengths, seed), then for each layer, two that run side by side or a
//              stack, fill(states) -> run_layers(x, y, states, B, T)
//     training: load_weights for each layer before begin_run(saves); then begin_backward, and from
//              the last layers to the first fill(gradients) -> backward_layers(dy, dx, ...)
//
// Every function returns a status and, on failure, leaves its message in the error it was opened
// with. load_weights, begin_run, run_layers, cross_entropy, begin_backward, backward_layers, fill
// and nothing else are called by rnnc_run, rnnc_forward and rnnc_backward: they neither allocate
// nor synchronise.
#ifndef RNNC_RUNTIME_DEVICE_H
#define RNNC_RUNTIME_DEVICE_H

#include <stdbool.h>

#include "error.h"
#include "rnnc/measure.h"
#include "rnnc/module.h"

/// What a device is opened with. All pointers outlive the device.
typedef struct {
    const rnnc_module_desc *module;
    int ordinal;  ///< N of "cuda:N"; 0 on the CPU
    void *stream; ///< CUstream, NULL: the device makes its own; unused on the CPU
    int64_t max_batch, max_timesteps;
    const char *variant; ///< forced for every cell layer, as "cudnn" or "cudnn:standard"; NULL: as
                         ///< planned
    bool training;       ///< runs that save come, and backward; the module is for training
    rnnc_error *error;   ///< where the device leaves its messages
} rnnc_device_options;

/// What masks the steps of a session's runs.
typedef enum { RNNC_MASKING_NONE, RNNC_MASKING_MASK, RNNC_MASKING_LENGTHS } rnnc_masking;

/// What holds for all layers of one run. `mask` [B, T] bytes, 0 or 1, and `lengths` [B] are the
/// device's memory; at most one is there. The device checks their values: the CPU at once, CUDA in
/// a kernel whose finding synchronize reports; rows at fault then give NaN.
typedef struct {
    int64_t batch, timesteps;
    const uint8_t *mask;
    int64_t mask_row_stride, mask_step_stride;
    const int32_t *lengths;
    uint64_t seed; ///< of dropout
    bool saves;    ///< rnnc_forward: dropout and zoneout draw, and layers save for backward
} rnnc_run_inputs;

/// One run of one layer. Pointers are the device's memory. `x` is [B, T, inputs] float32 (int32
/// tokens [B, T] for an embedding); `y` is [B, T, outputs], or [B, outputs] where the layer has
/// sequence_in without sequence_out. Features are contiguous; strides in elements, of any positive
/// value. A layer without sequence_in is called with T = 1. `states[k]` is [B, state_sizes[k]]
/// contiguous: initial values on entry, final values after.
typedef struct {
    int layer;
    const void *x;
    const float *x2; ///< a merge's other input, strides as x; else NULL
    float *y;
    int64_t x_row_stride, x_step_stride, y_row_stride, y_step_stride;
    float *states[RNNC_STATES_MAX];
    int64_t batch, timesteps;
    /// Filled by the device for its variants, see rnnc_row; NULL: every row takes all steps.
    const int32_t *order;
    const rnnc_row *rows;
    const float *recurrent_scale; ///< filled by the device: [B, operand of R]; NULL: none
    int64_t step;                 ///< of a generation, which has T = 1: from 1 on; 0: a run
    bool folded;                  ///< x is int32 tokens [B], see fold
    void *stream;                 ///< filled by a CUDA device: the CUstream that takes the launches
    bool saves;                   ///< filled by a CUDA device: backward_layers may follow
    uint64_t seed;                ///< filled by a CUDA device: of the run
} rnnc_layer_call;

/// The backward pass of one layer: what its forward was called with, and gradients in the device's
/// memory. `dy` has y's shape, `dx` and `dx2` x's and x2's, each with strides of its own.
typedef struct {
    rnnc_layer_call forward; ///< x, x2, strides, batch, timesteps; y and states are not used
    const float *dy;
    int64_t dy_row_stride, dy_step_stride;
    float *dx, *dx2; ///< NULL: not wanted
    int64_t dx_row_stride, dx_step_stride;
    bool adds_dx; ///< added to what dx and dx2 hold; else every step of theirs is written
    float *states[RNNC_STATES_MAX];    ///< [B, size]: of the final values on entry, of the initial
                                       ///< ones after
    float *weights[RNNC_WEIGHT_COUNT]; ///< canonical, always added to; NULL: not wanted
    bool finds_nan;                    ///< filled by a CUDA device
} rnnc_backward_call;

/// Softmax cross-entropy of the logits [B, T, classes] against targets [B, T], see rnnc_bind.
/// Strides in elements; T is 1 where y has no time.
typedef struct {
    int64_t batch, timesteps, classes;
    const float *logits;
    int64_t row_stride, step_stride;
    const int32_t *targets; ///< -1: left out
    int64_t target_row_stride, target_step_stride;
    float *loss;     ///< [1]: the mean; NULL: not wanted
    float *gradient; ///< of the mean; may be the logits' own memory; NULL: not wanted
    int64_t gradient_row_stride, gradient_step_stride;
} rnnc_loss_call;

/// A text of every row, drawn by the device itself: what rnnc_generation says. Host memory but for
/// `states`.
typedef struct {
    int64_t rows, length, first_draw;
    const uint64_t *seeds; ///< [rows]
    bool greedy;
    float inverse_temperature, top_p; ///< top_p 0: off
    int32_t top_k;                    ///< 0: off
    const uint8_t *banned, *stops;    ///< [vocabulary], 1 where the token is
    const rnnc_layer_call *calls;     ///< one for each layer, with its states
    /// Takes what a step has drawn, [rows], in order: -1 of a row that has ended, -2 of one whose
    /// logits are all NaN, which ends with it. False: no more is wanted, but what was drawn by then
    /// still comes.
    bool (*deliver)(void *context, int64_t step, const int32_t *tokens);
    void *context;
} rnnc_device_generation;

typedef struct rnnc_device rnnc_device;

typedef struct rnnc_device_ops {
    /// Makes all that runs need but weights: context, modules, workspaces. Says RNNC_UNAVAILABLE
    /// where the device, its driver or a forced variant is missing. On failure *out_device is NULL.
    rnnc_status (*open)(const rnnc_device_options *options, rnnc_device **out_device);
    /// NULL is allowed.
    void (*close)(rnnc_device *device);
    /// "cpu", or "cuda:0 (NVIDIA H200)"; owned by the device.
    const char *(*name)(const rnnc_device *device);
    /// Copies and packs the weights of a layer: host memory, canonical float32; NULL: none of that
    /// kind. Called for every layer before the first run, and again when a weight is bound.
    rnnc_status (*set_weights)(rnnc_device *device, int layer,
                               const float *const weights[RNNC_WEIGHT_COUNT]);
    /// The same where the weights lie on the device (where `training`): read in the order of the
    /// stream, and again by the next backward_layers.
    rnnc_status (*load_weights)(rnnc_device *device, int layer,
                                const float *const weights[RNNC_WEIGHT_COUNT]);
    /// The variant that runs a layer, and why.
    const char *(*variant)(const rnnc_device *device, int layer, const char **out_reason);
    /// Before runs with another kind of masking: chooses for every cell layer a variant that can do
    /// it. May allocate. RNNC_UNAVAILABLE where a forced variant cannot.
    rnnc_status (*set_masking)(rnnc_device *device, rnnc_masking masking);
    /// Opens a run: the order of each row's steps. Layers that mask add to it as they run.
    rnnc_status (*begin_run)(rnnc_device *device, const rnnc_run_inputs *inputs);
    /// Runs one layer; or two (`count`) that do not depend on one another, the second `beside`; or
    /// a stack of up to RNNC_STACK_MAX (rnnc_layer_stack), which may run as a wavefront.
    rnnc_status (*run_layers)(rnnc_device *device, rnnc_layer_call *calls, int count);
    /// Before the steps of a generation: whether the device has a table of the embedding (layer 0)
    /// times W of the cell behind it, so that layer 0 need not be run and that cell takes tokens.
    /// May allocate. May be NULL: no table.
    rnnc_status (*fold)(rnnc_device *device, bool *out_folded);
    /// Generates a text in one launch, the states being those before and after; waits until it is
    /// done. RNNC_UNAVAILABLE, with the reason in the error: nothing was done, and the steps have
    /// to be run one by one. May be NULL.
    rnnc_status (*generate)(rnnc_device *device, const rnnc_device_generation *generation);
    /// Opens the backward pass of the last run that saved, whose inputs still hold. `find_nan`:
    /// RNNC_NOT_FINITE for the first gradient that is no number: at once on the CPU, by synchronize
    /// on CUDA.
    rnnc_status (*begin_backward)(rnnc_device *device, bool find_nan);
    /// The layers of one call of run_layers, given in the order in which they ran. Two that ran
    /// side by side and read one x add to one dx: the first overwrites unless it adds, then the
    /// second adds.
    rnnc_status (*backward_layers)(rnnc_device *device, rnnc_backward_call *calls, int count);
    /// The loss of a run and the gradient of its logits, in the order of the stream. A target
    /// outside of the classes is RNNC_INVALID_ARGUMENT: at once on the CPU, by synchronize on CUDA.
    rnnc_status (*cross_entropy)(rnnc_device *device, const rnnc_loss_call *call);
    /// Sets `count` floats, in the order of the stream.
    rnnc_status (*fill)(rnnc_device *device, float *to, float value, size_t count);
    rnnc_status (*alloc)(rnnc_device *device, size_t bytes, void **out_memory);
    void (*free)(rnnc_device *device, void *memory);
    /// Synchronous copies from and to host memory, in the order of the stream.
    rnnc_status (*write)(rnnc_device *device, void *to, const void *from, size_t bytes);
    rnnc_status (*read)(rnnc_device *device, void *to, const void *from, size_t bytes);
    rnnc_status (*synchronize)(rnnc_device *device);
    /// Times `run(context)`, which gives the device one run, as rnnc_session_time says.
    rnnc_status (*time)(rnnc_device *device, const rnnc_timing *timing,
                        rnnc_status (*run)(void *context), void *context, double *out_us);
    /// Bytes that the device holds for its session. May be NULL.
    int64_t (*memory)(const rnnc_device *device);
} rnnc_device_ops;

const rnnc_device_ops *rnnc_cpu_ops(void);

/// Always there: where CUDA is missing, open says so.
const rnnc_device_ops *rnnc_cuda_ops(void);

#endif
