/* rnnc runtime: load a compiled model (model.so) and run it, from C or C++.
 *
 *     rnnc_module *module;
 *     rnnc_module_open("model.so", &module);
 *     rnnc_session *session;
 *     rnnc_session_create(module, &(rnnc_session_options){.device = "cpu"}, &session);
 *     rnnc_bind(session, "x", &x);
 *     rnnc_bind(session, "y", &y);
 *     rnnc_run(session);
 *
 * Every function returns a status; nothing here exits, aborts or prints. A session belongs to one
 * thread at a time; different sessions of one module may run on different threads. CUDA is opened
 * only when a session asks for a CUDA device. */
#ifndef RNNC_H
#define RNNC_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RNNC_API __attribute__((visibility("default")))

typedef enum rnnc_status {
    RNNC_OK = 0,
    RNNC_INVALID_ARGUMENT = 1, /* a null pointer, an unknown name, a tensor that does not fit */
    RNNC_NOT_FOUND = 2,        /* the file, symbol or tensor does not exist */
    RNNC_BAD_MODULE = 3,       /* not an rnnc module, or of another ABI */
    RNNC_UNAVAILABLE = 4,      /* no such device, driver or library here; the message says which */
    RNNC_OUT_OF_MEMORY = 5,
    RNNC_NOT_READY = 6,    /* an input or output is not bound */
    RNNC_DEVICE_ERROR = 7, /* the driver or cuDNN failed; the message has its words */
    RNNC_CANCELLED = 8,    /* the caller's function ended a generation */
    RNNC_NOT_FINITE = 9    /* a gradient is infinite or no number; the message says where */
} rnnc_status;

typedef struct rnnc_module rnnc_module;
typedef struct rnnc_session rnnc_session;

/* Opens a module. On failure *out_module is NULL and rnnc_last_error() tells why. */
RNNC_API rnnc_status rnnc_module_open(const char *path, rnnc_module **out_module);

/* Closes it. Its sessions must be destroyed before. NULL is allowed. */
RNNC_API void rnnc_module_close(rnnc_module *module);

typedef enum rnnc_role {
    RNNC_ROLE_INPUT,
    RNNC_ROLE_OUTPUT,
    RNNC_ROLE_STATE,
    RNNC_ROLE_WEIGHT,
    RNNC_ROLE_MASK /* `lengths` [B] int32 and `mask` [B, T] uint8 or bool; need not be bound */
} rnnc_role;

/* Dimensions that a session decides. */
enum { RNNC_DIM_BATCH = -1, RNNC_DIM_TIME = -2 };

/* One tensor of a module: x, y (y/fw and y/bw of two directions that are not merged), lengths and
 * mask, states ("enc/h", "enc/fw/h") and weights ("enc/W"). */
typedef struct rnnc_tensor_info {
    const char *name;
    rnnc_role role;
    DLDataType dtype; /* float32; int32 for tokens and lengths; uint8 for mask, or bool */
    int32_t ndim;
    int64_t dims[4]; /* row-major; RNNC_DIM_BATCH and RNNC_DIM_TIME stand for B and T; x and y of a
                      * time-major module are [T, B, ...] */
} rnnc_tensor_info;

/* Number of tensors, and the facts of tensor `index` (owned by the module). */
RNNC_API size_t rnnc_module_tensor_count(const rnnc_module *module);
RNNC_API const rnnc_tensor_info *rnnc_module_tensor(const rnnc_module *module, size_t index);
RNNC_API const char *rnnc_module_name(const rnnc_module *module);

/* Which axis of tensor `index` is the batch, and which is time; -1: none, as in a weight. Tells it
 * also where B and T are fixed numbers. Either pointer may be NULL. */
RNNC_API void rnnc_module_tensor_axes(const rnnc_module *module, size_t index, int32_t *out_batch,
                                      int32_t *out_time);

/* What feeding a sequence in parts, with the states carried from run to run, has to know. Lengths
 * of a part are those of the whole less the steps before it, within 0 and the part's steps; a mask
 * is cut as x is. A row that has no step in a part gives 0 there. */
typedef struct rnnc_streaming {
    const char *whole_layer; /* the first layer that needs the whole sequence in one run, and */
    const char *reason;      /* why; NULL: parts give what the whole gives */
    int repeats_when_masked; /* a masked step's y is that of the step before, also of the step
                              * before the part, which a run does not see and writes 0 for */
} rnnc_streaming;
RNNC_API rnnc_status rnnc_module_streaming(const rnnc_module *module,
                                           rnnc_streaming *out_streaming);

/* What a module carries to be tested without files: a small input, and what the model's equations
 * give for it in float64. Rows of a larger batch repeat those of x; a module of more time steps is
 * given zeros behind them, on which the first `steps` steps do not depend. */
typedef struct rnnc_self_test {
    int64_t rows, timesteps;
    const void *x; /* batch-major: float32 [rows, timesteps, features], int32 [rows, timesteps] */
    double tolerance; /* ||y - values|| / ||values|| that the module's precision holds */
    struct {
        const double *values; /* [rows, steps, width] in that order; NULL: no such output */
        int64_t steps, width; /* steps is 1 where the output has no time */
    } outputs[2];             /* of y; of y/fw and y/bw */
} rnnc_self_test;

/* NULL where the module has none: it drops at inference, was made without weights, or is large. */
RNNC_API const rnnc_self_test *rnnc_module_self_test(const rnnc_module *module);

typedef struct rnnc_session_options {
    const char *device;    /* "cpu", "cuda", "cuda:0"; NULL: cuda:0 where there is one, else cpu */
    void *stream;          /* CUstream for CUDA, NULL: the session makes its own */
    int64_t max_batch;     /* 0: the spec's batch, or 1 where that is `any`; at most 2^31 - 1 */
    int64_t max_timesteps; /* 0: the spec's timesteps, or 1 where that is `any`; as max_batch */
    const char *variant;   /* force a variant for every cell layer, NULL: as planned; on the CPU
                            * "cpu", or "cpu:x86-64-v3" for one level of its code; "cudnn", or
                            * "cudnn:standard", "cudnn:persist_static", "cudnn:persist_dynamic",
                            * "cudnn:persist_static_small_h" for one algorithm, refused with
                            * cuDNN's reason where it cannot run */
    int32_t training;      /* 1: for rnnc_forward and rnnc_backward too, of a module compiled with
                            * `mode: training`; weights are then used where they are bound */
} rnnc_session_options;

/* Allocates all that runs need. `options` may be NULL. On failure *out_session is NULL and
 * rnnc_last_error() tells why. */
RNNC_API rnnc_status rnnc_session_create(const rnnc_module *module,
                                         const rnnc_session_options *options,
                                         rnnc_session **out_session);
RNNC_API void rnnc_session_destroy(rnnc_session *session);

/* Binds a tensor by name. The memory is used in place at each run and must outlive it; host memory
 * for a CPU session, device memory for a CUDA one. B and T of "x" set those of the next run, any up
 * to the session's maxima; a dimension that does not fit is RNNC_INVALID_ARGUMENT, the message says
 * which. NULL unbinds. A call that fails leaves everything as it was.
 *
 * x, y and mask may have any positive strides between rows and between steps (x and mask also 0
 * between rows: one row for all), so that slices and transposed views are taken as they are;
 * features must be contiguous, and no two elements of an output may share memory. All other tensors
 * are row-major contiguous. A module with two outputs needs both.
 *
 * "lengths" [B] int32 gives each row's number of steps, 0 to T: outputs beyond it are 0, the final
 * state is that of its last step, and a reversed direction starts there. "mask" [B, T] uint8 or
 * bool is 1 for a step to take and 0 for one to skip: a skipped step keeps the state and repeats
 * the output before it (0 where there is none, or with zero_output_for_mask). Both need not be
 * bound, and only one of them can be. A module that masks steps itself takes a further mask, never
 * lengths. A wrong value is found by the run on the CPU and told by rnnc_synchronize on CUDA.
 * Binding the first or unbinding the last of them may choose other variants, so that a CUDA graph
 * captured before holds no longer.
 *
 * Binding a state gives the initial value to read and the place of the final value to write.
 * Binding a weight copies and packs it: later changes need another bind. In a session for training
 * it must lie on the session's device, and every rnnc_forward and rnnc_run reads it there.
 *
 * A session for training has a gradient for x (unless that is tokens), y, every state and every
 * weight, under the name of the tensor with "grad/" before it and with its shape, see
 * rnnc_backward.
 *
 * A session for training of a module with one output y, the logits of V classes, has a loss:
 * softmax cross-entropy. "targets" int32 [B, T] ([T, B] of a time-major module, [B] where y has no
 * time) are the classes to give, 0 to V - 1; -1 leaves a step out, as padding must be. While they
 * are bound each rnnc_forward and rnnc_run writes to "loss" float32 [1], where that is bound, the
 * mean of -log softmax(y)[target], in nats, over all that is not left out (0 where everything is),
 * and rnnc_backward starts from the loss: "grad/y" must not be bound. y need not be bound then, and
 * is not written anywhere. Strides of targets as for x; a target outside of the classes is
 * RNNC_INVALID_ARGUMENT, told as wrong lengths are. */
RNNC_API rnnc_status rnnc_bind(rnnc_session *session, const char *name, const DLTensor *tensor);

/* Runs the model once, on the session's stream; asynchronous on CUDA. Never allocates or
 * synchronises, so it can be captured in a CUDA graph after one plain run. */
RNNC_API rnnc_status rnnc_run(rnnc_session *session);

/* Whether a module generates text: input of tokens, an embedding, cells that go forward in time
 * and, last, a dense layer (with or without an activation) whose outputs are a number for each
 * token, its logit. Returns the number of tokens V, or 0; then *out_reason (which may be NULL) says
 * what is in the way. */
RNNC_API int64_t rnnc_module_generates(const rnnc_module *module, const char **out_reason);

/* Texts to make, one a row. All pointers are host memory of the caller. Zeroed fields have the
 * meaning that stands beside them, but one: a `temperature` has to be given, or `greedy`. */
typedef struct rnnc_generation {
    int64_t rows;   /* 1 to max_batch; 0: B of x where it is bound, else max_batch */
    int64_t length; /* tokens to draw for each row; 0: the prompts alone are run */
    /* Row r's prompt: prompt_lengths[r] tokens (NULL: prompt_length of them) at
     * prompts + r * prompt_stride; stride 0: one prompt for all rows. The first token is drawn
     * after the prompt; after an empty one from what the states give that the row starts with. */
    const int32_t *prompts;
    int64_t prompt_stride, prompt_length;
    const int64_t *prompt_lengths;
    const uint64_t *seeds; /* [rows]; NULL: that of rnnc_set_seed, and 1 more for each row */
    int64_t first_draw;    /* number of the first token drawn: a text that is continued with the
                            * states it ended with, and with as many draws as it had, goes on as
                            * it would have in one call */
    int32_t greedy;        /* take the likeliest token, draw nothing */
    float temperature;     /* logits are divided by it; above 0 */
    int32_t top_k;         /* draw from the k likeliest tokens; 0: from all */
    float top_p;           /* draw from the fewest likeliest tokens (of the top_k) that are together
                            * at least this probable, at most 1; 0: from all */
    const int32_t *banned; /* tokens that are never drawn */
    int64_t banned_count;
    const int32_t *stops; /* tokens that end their row, themselves being the last */
    int64_t stop_count;
    int32_t *tokens; /* out: [rows, length], -1 behind a row's end; may be NULL with on_tokens */
    int64_t *counts; /* out: [rows], tokens drawn; may be NULL */
    /* Called in order for each step while the work goes on, with what it has drawn, [rows]; -1 for
     * a row that has ended. Anything but 0 ends the generation: RNNC_CANCELLED is returned, with
     * tokens, counts and states of what was drawn until then. May be NULL. */
    int (*on_tokens)(void *context, int64_t step, const int32_t *tokens);
    void *context;
} rnnc_generation;

/* Makes texts; returns when all is drawn. x and y need not be bound, nor are they used; prompts may
 * be longer than max_timesteps. States are those of a run: bound, set, carried by `stateful` layers
 * or the start values; at the end they are those after each row's last token, and
 * rnnc_state_get reads them.
 *
 * A row's text depends on its prompt, states, seed and the choices above, and neither on the other
 * rows nor on the device: token i of draw n gets the bits of Philox-4x32-10 with counter
 * (i / 4, n mod 2^32, 0x67656e00, n / 2^32), word i mod 4, under the row's seed as key; of them
 * comes Gumbel noise by operations that every device rounds alike, and the token with the largest
 * sum of logit / temperature and noise is drawn; of equal sums that of the lowest number. The same
 * holds for `greedy`, without noise. Logits are float32 sums whose rounding differs from device to
 * device and from variant to variant: where the two best sums are nearer than that (about 1e-6 of
 * the logits), texts may part. A NaN logit is never drawn. */
RNNC_API rnnc_status rnnc_generate(rnnc_session *session, const rnnc_generation *generation);

/* How the session's last rnnc_generate worked, and why so; NULL before. */
RNNC_API const char *rnnc_session_generator(const rnnc_session *session, const char **out_reason);

/* Runs the model as rnnc_run does, in a session for training: dropout and zoneout draw, and what
 * rnnc_backward needs is saved. Never allocates or synchronises. */
RNNC_API rnnc_status rnnc_forward(rnnc_session *session);

typedef struct rnnc_backward_options {
    int32_t accumulate; /* 1: added to what weights' gradients hold; 0: they are overwritten */
    int32_t find_nan;   /* 1: RNNC_NOT_FINITE, with layer, step and row, where a gradient within the
                         * model is infinite or NaN; told by this call on the CPU and by
                         * rnnc_synchronize on CUDA */
} rnnc_backward_options;

/* The gradients of the last rnnc_forward, which it uses up: x, y, mask, lengths and all weights
 * that forward read must still hold what they did, and no rnnc_run may come between. Reads "grad/y"
 * ("grad/y/fw" and "grad/y/bw"), which must be bound, or starts from the loss, if forward had
 * targets, see rnnc_bind. Writes those of the others that are bound:
 * "grad/x" and the weights'. The gradient of a state is read as that of its final value, 0 where
 * it is not bound, and written with that of its initial value. Strides as for x and y. `options`
 * may be NULL. Never allocates or synchronises. */
RNNC_API rnnc_status rnnc_backward(rnnc_session *session, const rnnc_backward_options *options);

/* The seed of dropout and of generated text, 0 until it is set; it holds for all runs
 * that follow. One seed gives the same bits in every run, on the CPU and on the GPU; rows and
 * layers draw their own. A captured CUDA graph keeps the seed that it was captured with. */
RNNC_API rnnc_status rnnc_set_seed(rnnc_session *session, uint64_t seed);

/* Waits until all that the session has started is done; tells what the device has found since, as
 * a length beyond T. */
RNNC_API rnnc_status rnnc_synchronize(rnnc_session *session);

/* Copies a state out of or into the session's own (host memory, [B, size] float32; B is that of x,
 * or, while x is not bound, any up to max_batch, which rnnc_generate then takes). Without a
 * bound state tensor a run starts from the start value, or, in a `stateful` layer, from where the
 * last run ended; rnnc_state_set holds for the next run (and on, when stateful). A run with another
 * batch than the one that is carried or set is refused; rnnc_state_reset puts the start values
 * back, for any batch. */
RNNC_API rnnc_status rnnc_state_get(rnnc_session *session, const char *name, float *out,
                                    size_t count);
RNNC_API rnnc_status rnnc_state_set(rnnc_session *session, const char *name, const float *values,
                                    size_t count);
RNNC_API rnnc_status rnnc_state_reset(rnnc_session *session);

/* Which variant runs layer `layer_name`, and why (NULL where there is no such layer). */
RNNC_API const char *rnnc_session_variant(const rnnc_session *session, const char *layer_name,
                                          const char **out_reason);
/* Names of the cell layers in order: index 0 .. count-1; NULL beyond. */
RNNC_API const char *rnnc_session_layer(const rnnc_session *session, size_t index);
/* "cpu" or "cuda:N (name)". */
RNNC_API const char *rnnc_session_device(const rnnc_session *session);

/* Device memory of a CUDA session for callers that have no CUDA of their own (tools, tests).
 * Copies are synchronous with the session's stream. On a CPU session this is plain memory. */
RNNC_API rnnc_status rnnc_device_alloc(rnnc_session *session, size_t bytes, void **out_memory);
RNNC_API void rnnc_device_free(rnnc_session *session, void *memory);
RNNC_API rnnc_status rnnc_device_write(rnnc_session *session, void *to, const void *from,
                                       size_t bytes);
RNNC_API rnnc_status rnnc_device_read(rnnc_session *session, void *to, const void *from,
                                      size_t bytes);

/* The message of the session's last failed call; of this thread's last failed call without one. */
RNNC_API const char *rnnc_session_error(const rnnc_session *session);
RNNC_API const char *rnnc_last_error(void);
RNNC_API const char *rnnc_status_name(rnnc_status status);
RNNC_API const char *rnnc_version(void);

#ifdef __cplusplus
}
#endif
#endif
