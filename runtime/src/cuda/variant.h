/* Variants, host side: one row a variant, with which the CUDA device prepares and runs a cell
 * layer. A row's file knows its own kernels and libraries and no other row. */
#ifndef RNNC_CUDA_VARIANT_H
#define RNNC_CUDA_VARIANT_H

#include <stdbool.h>

#include "../device.h"
#include "blas.h"
#include "driver.h"
#include "moves.h"

/* What a layer is prepared with; all of it outlives the layer's state. The device's context is
 * current in every call of a row. */
typedef struct {
    const rnnc_cuda_driver *cuda;
    CUstream stream;
    const rnnc_module_desc *module;
    const rnnc_layer_desc *layer;
    const rnnc_variant_desc *variant; /* NULL: a layer without a recurrence */
    const char *detail;               /* behind the colon of a forced variant's name; NULL: none */
    CUmodule image;                   /* the variant's device code, loaded; NULL: it has none */
    CUmodule
        layer_image;   /* what the layer's variants share, or all of a layer without any; or NULL */
    CUdeviceptr fault; /* the record of rnnc_cuda_sequence_record */
    int64_t max_batch, max_timesteps;
    bool training;                /* forward saves, and backward comes; weights are loaded */
    const rnnc_cuda_moves *moves; /* both NULL but for modules that train */
    const rnnc_cuda_blas *blas;
    rnnc_error *error;
} rnnc_cuda_layer_options;

typedef struct {
    rnnc_variant_kind kind;
    bool masks;        /* whether it runs calls with an order (masks and lengths) */
    bool takes_detail; /* whether prepare looks at `detail` */
    /* Makes all that runs need but weights. RNNC_UNAVAILABLE, with the reason in the error: this
     * variant cannot run here, the next one is tried. On failure *out_state is NULL. */
    rnnc_status (*prepare)(const rnnc_cuda_layer_options *options, void **out_state);
    /* Copies and packs canonical float32 weights from host memory; may synchronise. */
    rnnc_status (*set_weights)(void *state, const float *const weights[RNNC_WEIGHT_COUNT]);
    /* Neither allocates nor synchronises. Launches on `call->stream`. Where `share` is NULL that is
     * `options.stream` as prepared: the session's, or the device's second one for a layer that runs
     * beside another. */
    rnnc_status (*run)(void *state, const rnnc_layer_call *call);
    /* In sessions for training instead of set_weights: takes float32 weights on the device, which
     * hold until the next call. Both of training may be NULL: no backward pass. */
    rnnc_status (*load_weights)(void *state, const float *const weights[RNNC_WEIGHT_COUNT]);
    /* Goes back over the last run that saved. Neither allocates nor synchronises. */
    rnnc_status (*backward)(void *state, const rnnc_backward_call *call);
    /* Of what the GPU can hold of this kernel at once, the part that a run of `batch` rows takes;
     * where those of all layers fit, it may run as part of a wavefront, in chunks of steps. NULL,
     * or more than 1: it may not. */
    double (*share)(const void *state, int64_t batch);
    /* What was chosen at preparation, for rnnc_session_variant; NULL: the plan's reason holds. */
    const char *(*reason)(const void *state);
    void (*destroy)(void *state); /* NULL state is allowed */
} rnnc_cuda_variant;

extern const rnnc_cuda_variant rnnc_cuda_cudnn;
extern const rnnc_cuda_variant rnnc_cuda_stepwise;
extern const rnnc_cuda_variant rnnc_cuda_unrolled;
extern const rnnc_cuda_variant rnnc_cuda_persistent_cta;
extern const rnnc_cuda_variant rnnc_cuda_persistent_cluster;
extern const rnnc_cuda_variant rnnc_cuda_persistent_grid;
extern const rnnc_cuda_variant rnnc_cuda_persistent_wide;
extern const rnnc_cuda_variant rnnc_cuda_loop;
extern const rnnc_cuda_variant rnnc_cuda_train_stepwise;
extern const rnnc_cuda_variant rnnc_cuda_train_cluster;
/* Dense, embedding and activation layers; their options have no `variant`. The second is for
 * sessions for training. */
extern const rnnc_cuda_variant rnnc_cuda_pointwise, rnnc_cuda_train_pointwise;

/* The row of a kind, or NULL. The table is in variants.c. */
const rnnc_cuda_variant *rnnc_cuda_variant_find(rnnc_variant_kind kind);

#endif
