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
    RNNC_NOT_READY = 6,   /* an input or output is not bound */
    RNNC_DEVICE_ERROR = 7 /* the driver or cuDNN failed; the message has its words */
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

/* One tensor of a module: x, y, states ("enc/h") and weights ("enc/W"). */
typedef struct rnnc_tensor_info {
    const char *name;
    rnnc_role role;
    DLDataType dtype; /* float32, or int32 for tokens */
    int32_t ndim;
    int64_t dims[4]; /* row-major; RNNC_DIM_BATCH and RNNC_DIM_TIME stand for B and T */
} rnnc_tensor_info;

/* Number of tensors, and the facts of tensor `index` (owned by the module). */
RNNC_API size_t rnnc_module_tensor_count(const rnnc_module *module);
RNNC_API const rnnc_tensor_info *rnnc_module_tensor(const rnnc_module *module, size_t index);
RNNC_API const char *rnnc_module_name(const rnnc_module *module);

typedef struct rnnc_session_options {
    const char *device;    /* "cpu", "cuda", "cuda:0"; NULL: cuda:0 where there is one, else cpu */
    void *stream;          /* CUstream for CUDA, NULL: the session makes its own */
    int64_t max_batch;     /* 0: the spec's batch, or 1 where that is `any` */
    int64_t max_timesteps; /* 0: the spec's timesteps, or 1 where that is `any` */
    const char *variant;   /* force a variant for every cell layer, NULL: as planned; on the CPU
                            * "cpu", or "cpu:x86-64-v3" for one level of its code */
} rnnc_session_options;

/* Allocates all that runs need. `options` may be NULL. On failure *out_session is NULL and
 * rnnc_last_error() tells why. */
RNNC_API rnnc_status rnnc_session_create(const rnnc_module *module,
                                         const rnnc_session_options *options,
                                         rnnc_session **out_session);
RNNC_API void rnnc_session_destroy(rnnc_session *session);

/* Binds a tensor by name. The memory is used in place at each run and must outlive it; host memory
 * for a CPU session, device memory for a CUDA one. Row-major contiguous. B and T of "x" set those
 * of the next run; a dimension that does not fit is RNNC_INVALID_ARGUMENT, the message says which.
 * Binding a state gives the initial value to read and the place of the final value to write.
 * Binding a weight copies and packs it: later changes need another bind. NULL unbinds. */
RNNC_API rnnc_status rnnc_bind(rnnc_session *session, const char *name, const DLTensor *tensor);

/* Runs the model once, on the session's stream; asynchronous on CUDA. Never allocates or
 * synchronises, so it can be captured in a CUDA graph after one plain run. */
RNNC_API rnnc_status rnnc_run(rnnc_session *session);

/* Waits until all that the session has started is done. */
RNNC_API rnnc_status rnnc_synchronize(rnnc_session *session);

/* Copies a state out of or into the session's own (host memory, [B, size] float32). Without a
 * bound state tensor a run starts from the start value, or, in a `stateful` layer, from where the
 * last run ended; rnnc_state_set holds for the next run (and on, when stateful). */
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
