/* Module ABI: what a model.so holds and how the runtime sees it. The compiler emits one C file that
 * fills these tables; `rnnc_module_query` is the only exported symbol. The first four fields are
 * frozen; later versions append. Strings and tables live in the module. */
#ifndef RNNC_MODULE_H
#define RNNC_MODULE_H

#include "rnnc/rnnc.h"

#define RNNC_MODULE_MAGIC 0x434e4e52u /* "RNNC" */
enum { RNNC_ABI_MAJOR = 2, RNNC_ABI_MINOR = 4 };

enum { RNNC_STATES_MAX = 8, RNNC_PHASES_MAX = 8, RNNC_GATES_MAX = 16 };
enum { RNNC_SAVED_MAX = 48, RNNC_DELTAS_MAX = 96, RNNC_STAGES_MAX = 12 };

typedef enum rnnc_layer_kind {
    RNNC_LAYER_CELL,
    RNNC_LAYER_EMBEDDING,
    RNNC_LAYER_DENSE,
    RNNC_LAYER_ACTIVATION,
    RNNC_LAYER_DROPOUT, /* drops in training, or at inference too: Monte-Carlo dropout */
    RNNC_LAYER_MASKING, /* masks the steps whose features all equal `mask_value`; y = x, 0 there */
    RNNC_LAYER_MERGE    /* of the two directions of a bidirectional layer: sum, mul, ave */
} rnnc_layer_kind;

typedef enum rnnc_merge { RNNC_MERGE_SUM, RNNC_MERGE_MUL, RNNC_MERGE_AVE } rnnc_merge;

/* Where a layer reads or writes: buffer `slot` of the session, [B, T, width] or [B, width], from
 * feature `offset` of each step on; so that both directions of a bidirectional layer write halves
 * of one buffer. Negative slots are the module's own tensors. */
enum { RNNC_SLOT_X = -1, RNNC_SLOT_Y = -2, RNNC_SLOT_Y_BACKWARD = -3, RNNC_SLOT_NONE = -4 };
typedef struct rnnc_view {
    int32_t slot;
    int64_t offset, width;
} rnnc_view;

typedef enum rnnc_precision { RNNC_FLOAT32, RNNC_TF32, RNNC_BFLOAT16, RNNC_FLOAT16 } rnnc_precision;

/* Weights of a layer; the index into rnnc_layer_desc.weights. */
typedef enum rnnc_weight_kind {
    RNNC_WEIGHT_W,
    RNNC_WEIGHT_R,
    RNNC_WEIGHT_B,
    RNNC_WEIGHT_RB,
    RNNC_WEIGHT_PEEPHOLE, /* p, any per-unit parameter */
    RNNC_WEIGHT_P,
    RNNC_WEIGHT_E,
    RNNC_WEIGHT_COUNT
} rnnc_weight_kind;

/* Public facts plus where the value lies in the module. */
typedef struct rnnc_tensor_desc {
    rnnc_tensor_info info;
    int32_t layer;     /* index of the layer it belongs to; -1: x and y */
    const float *data; /* weights: canonical float32, 64-byte aligned; else NULL */
    double start;      /* states */
} rnnc_tensor_desc;

/* One phase of a cell's step: a product of rows of R (or P) with one operand, then mean and
 * variance of `statistic_count` groups of vectors (layer_norm), then a pointwise function over
 * `size` units (see compiler/cell/cell.h). The matrix of a product has `heads` diagonal blocks:
 * unit u multiplies the operand's values u/(size/heads)*(operand_size/heads) and on,
 * operand_size/heads of them, which are the columns that are stored. */
typedef struct rnnc_phase_desc {
    int32_t matrix;    /* RNNC_WEIGHT_R or RNNC_WEIGHT_P */
    int32_t row_count; /* gates multiplied; 0: none */
    int32_t rows[RNNC_GATES_MAX];
    int32_t operand_is_state, operand; /* else a carry */
    int64_t operand_size, size;
    int32_t heads;           /* 1: a full matrix */
    int32_t statistic_count; /* groups; 0: none */
} rnnc_phase_desc;

/* What is left of a row of the batch under a mask or lengths. Step s of the row, s < steps, takes
 * time order[s] of its T. Its output goes to position `last - time` in a layer that goes backwards,
 * else to that time. The device writes what stands at the other positions. */
typedef struct rnnc_row {
    int32_t steps; /* that the row takes; the others leave its state alone */
    int32_t last;  /* T - 1, or its length - 1 */
} rnnc_row;

/* What the CPU code of a layer is given. All float32. Pointers of weights are in the layer's packed
 * form, made by `pack`. `x` is [B, T, inputs] (int32 tokens [B, T] for an embedding), `y`
 * [B, T, outputs], or [B, outputs] without return_sequences; features are contiguous, rows of the
 * batch and steps lie apart by the strides, in elements. `states[k]` is [B, size_k]: read as
 * initial value and written with the final one. */
typedef struct rnnc_cpu_args {
    const void *x;
    const float *x2; /* a merge's other input, strides as x; else NULL */
    float *y;
    int64_t x_row_stride, x_step_stride, y_row_stride, y_step_stride;
    const int32_t *order;         /* [B, T], see rnnc_row; NULL: every row takes all steps */
    const rnnc_row *rows;         /* [B]; NULL with order */
    const float *recurrent_scale; /* [B, operand of R]: factors of what R multiplies; NULL: none */
    uint8_t *mask;                /* [B, T]: what a masking layer, or an embedding with mask_zero,
                                   * makes 0 in where it masks; it leaves the rest alone */
    uint64_t seed;                /* dropout layers */
    const void *packed;
    float *states[RNNC_STATES_MAX];
    void *scratch; /* scratch_bytes(batch, timesteps), 64-byte aligned */
    int64_t batch, timesteps;
    /* from 2.3 on */
    void *tape;    /* what `backward` needs is saved here; NULL: nothing is, and zoneout mixes */
    int32_t drops; /* dropout layers of a training module: 0 copies x */
} rnnc_cpu_args;

/* The backward pass of one layer on the CPU. `forward` are the arguments that its run had, with the
 * same x, order, rows, recurrent_scale, seed, tape, batch and timesteps; its y and packed are not
 * used, and its scratch is that of the backward pass. */
typedef struct rnnc_cpu_backward_args {
    rnnc_cpu_args forward;
    const float *dy; /* as y: [B, T, outputs] or [B, outputs] by these strides; steps that repeat
                      * an output have been added to the step that they repeat */
    int64_t dy_row_stride, dy_step_stride;
    float *dx, *dx2; /* as x and x2 by these strides, or NULL: not wanted */
    int64_t dx_row_stride, dx_step_stride;
    int32_t adds_dx; /* 0: every step of dx is written, with 0 where it has no part in y */
    float *states[RNNC_STATES_MAX];    /* gradient of the final, then of the initial value */
    float *weights[RNNC_WEIGHT_COUNT]; /* canonical, added to; NULL: not wanted */
    const float *canonical[RNNC_WEIGHT_COUNT]; /* the weights themselves, as given to `pack` */
    int32_t finds_nan;
    int64_t nan_step, nan_row; /* out: the first value that is not finite, in the order of the
                                * backward pass: its time and row; -1: none */
} rnnc_cpu_backward_args;

/* What a layer's CPU code has besides in a training module. All bytes are for one session's largest
 * batch and timesteps. */
typedef struct rnnc_cpu_training {
    size_t (*tape_bytes)(int64_t batch, int64_t timesteps);
    size_t (*scratch_bytes)(int64_t batch, int64_t timesteps);
    void (*backward)(rnnc_cpu_backward_args *args);
} rnnc_cpu_training;

/* One instruction-set level of a layer's CPU code; the first whose `supported` is true runs. */
typedef struct rnnc_cpu_code {
    const char *isa; /* "x86-64-v4", "x86-64-v3", "baseline" */
    int (*supported)(void);
    size_t packed_bytes;
    size_t (*scratch_bytes)(int64_t batch, int64_t timesteps);
    void (*pack)(const float *const weights[RNNC_WEIGHT_COUNT], void *packed);
    void (*run)(const rnnc_cpu_args *args);
    /* from 2.2 on, cells only: */
    size_t table_floats; /* of a token in W*E, see fold; 0: the cell has no W */
    /* table[token] = W * x[token] for `tokens` rows of x, which are [inputs]. */
    void (*fold)(const void *packed, const float *x, int64_t tokens, float *table);
    /* One step of each row, the same bits as run with T = 1. With a table x is int32 tokens. `turn`
     * is 0 and 1 by turns: weights are then taken from where they are still in the cache. */
    void (*step)(const rnnc_cpu_args *args, const float *table, int turn);
    const rnnc_cpu_training *training; /* from 2.3 on; NULL in a module for inference */
} rnnc_cpu_code;

/* GPU variants, each with a row in the runtime's table; later ones are appended. */
typedef enum rnnc_variant_kind {
    RNNC_VARIANT_CUDNN,
    RNNC_VARIANT_STEPWISE,
    RNNC_VARIANT_UNROLLED,
    RNNC_VARIANT_PERSISTENT_CTA,
    RNNC_VARIANT_PERSISTENT_CLUSTER,
    RNNC_VARIANT_PERSISTENT_GRID,
    RNNC_VARIANT_LOOP,
    RNNC_VARIANT_CPU,
    RNNC_VARIANT_TRAIN_STEPWISE,
    RNNC_VARIANT_PERSISTENT_WIDE,
    RNNC_VARIANT_TRAIN_CLUSTER,
    RNNC_VARIANT_COUNT
} rnnc_variant_kind;

typedef struct rnnc_variant_desc {
    rnnc_variant_kind kind;
    const char *name, *reason; /* "persistent_cta"; why it stands at its place in the order */
    int32_t image;             /* index into images; -1: none (cpu) */
    int32_t threads, rows_per_cta, unroll; /* 0 where it has no meaning */
    int64_t shared_bytes;                  /* dynamic shared memory of the run kernel */
    int64_t packed_bytes;                  /* device bytes of the packed recurrent weights */
    int32_t ctas;         /* of a group that shares the weights; 0: each CTA works alone */
    int64_t buffer_bytes; /* device bytes of one group, through which its CTAs exchange */
} rnnc_variant_desc;

/* Device code of one stub: a cubin for each target, PTX of the newest, and the whole source (stub
 * with its includes resolved) for NVRTC on another GPU. Entry names are fixed per variant kind. */
typedef struct rnnc_cubin_desc {
    int32_t arch; /* 90 */
    const void *data;
    size_t size_bytes;
} rnnc_cubin_desc;
typedef struct rnnc_image_desc {
    const char *name; /* "l0.persistent_cta" */
    int32_t cubin_count;
    const rnnc_cubin_desc *cubins;
    const char *ptx;     /* NUL-terminated */
    const char *source;  /* NUL-terminated, self-contained CUDA C++ */
    const char *options; /* NVRTC options but for the arch, separated by newlines */
} rnnc_image_desc;

/* cuDNN's view of a layer, where the criteria hold. */
typedef struct rnnc_cudnn_desc {
    int32_t mode;       /* 0 rnn relu, 1 rnn tanh, 2 lstm, 3 gru (cudnnRNNMode_t) */
    int32_t projection; /* 0: none */
    int32_t bias;       /* 0: no bias; 2: double bias */
} rnnc_cudnn_desc;

typedef struct rnnc_layer_desc {
    const char *name;
    rnnc_layer_kind kind;
    int64_t inputs, outputs, units, projection;
    int32_t sequence_in, sequence_out, stateful;
    rnnc_view in, in2, out; /* in2: a merge's other input; else slot RNNC_SLOT_NONE */
    int32_t beside;         /* may run at the same time as the layer before it */
    int32_t reversed;       /* cells: takes the last step first */
    int32_t go_backwards;   /* with reversed: outputs in the order they are made, not of time */
    int32_t zero_output_for_mask;
    float recurrent_dropout; /* a rate; not 0 only where it drops, see rnnc_training_desc */
    float rate;              /* dropout */
    int32_t per_sequence;    /* dropout: one draw for all steps of a row and feature */
    int32_t dropout_index; /* the `layer` of its Philox counter; of the cell's recurrent one too */
    float mask_value;      /* masking */
    int32_t mask_zero;     /* embedding: token 0 masks its step */
    int32_t merge;         /* rnnc_merge */
    int32_t weights[RNNC_WEIGHT_COUNT];           /* tensor indices; -1: none */
    int32_t state_count, states[RNNC_STATES_MAX]; /* tensor indices */
    int64_t state_sizes[RNNC_STATES_MAX];
    int32_t input_gates, phase_count, carry_count; /* W gates; carries of the step */
    rnnc_phase_desc phases[RNNC_PHASES_MAX];
    int64_t carry_sizes[RNNC_GATES_MAX];
    int32_t cpu_code_count;
    const rnnc_cpu_code *const *cpu_codes;
    int32_t variant_count;
    const rnnc_variant_desc *variants; /* GPU variants, best first */
    const rnnc_cudnn_desc *cudnn;      /* NULL: outside the criteria */
    int32_t layer_image; /* kernels beside the recurrence: W*x of a cell, all of a dense, embedding
                          * or activation layer; -1: none */
} rnnc_layer_desc;

/* Training. Forward saves, for each step of each row, the vectors that the compiler has chosen (the
 * fewest bytes from which the derivative can be computed) and some states before the step. Backward
 * goes through the steps from the last to the first. In a step it goes through stages, each a
 * pointwise function over `size` units, which makes `deltas`: the adjoints of the products' results
 * and of what is added to them. After a stage comes the transposed product of its phase,
 *
 *     returned[phase] = sum over the phase's rows g of M[g]^T * delta[first_delta + g's place]
 *
 * times the recurrent scale under recurrent dropout. Where the phase's operand is a state, this is
 * added to the state's adjoint before the step; else it is a seed of the stages that follow.
 * Seeds of the stages' functions, in this order: the adjoints of the states after the step (h: with
 * dy of the step added), `returned` of every phase, and 2 sums a norm: the sums over units of the
 * adjoints of its mean and rstd, each divided by the number of values that the norm is taken of.
 *
 * After all steps, over all of them and all rows at once: with D[g] the delta of a gate,
 *     dW[g] = D_input[g]^T * x      dx = sum over g of D_input[g] * W[g]
 *     dR[g] = D_recurrent[g]^T * operand of its phase        db, drb, dp = sums of their deltas
 * Deltas that no row's step has made are 0, and so is dx there. */
typedef struct rnnc_stage_desc {
    int32_t phase;       /* whose transposed product follows; -1: none does */
    int32_t operand;     /* what the phase multiplies: the state, or the vector saved */
    int32_t first_delta; /* of the phase's rows, in their order, one after the other */
    int64_t size;
    uint32_t states;   /* whose adjoints before the step it makes, but for what is returned */
    int32_t sum_count; /* norms of `norms` whose sums are taken before its function */
    int32_t norms[4];  /* by number in the cell; members of each times its size divide the sums */
    int32_t members[4];
} rnnc_stage_desc;

typedef struct rnnc_layer_training {
    int64_t step_bytes; /* that forward saves for one step of one row */
    uint32_t states;    /* bit mask: saved as they are before each step and after the last one */
    int32_t norm_count; /* mean and rstd of each are saved */
    int32_t saved_count, delta_count;
    int64_t saved_sizes[RNNC_SAVED_MAX], delta_sizes[RNNC_DELTAS_MAX];
    int32_t delta_stages[RNNC_DELTAS_MAX]; /* the stage that makes each */
    int32_t read_deltas; /* those before are read by products; the others are only summed */
    int32_t input[RNNC_GATES_MAX], recurrent[RNNC_GATES_MAX], projection; /* delta, or -1: 0 */
    int32_t bias[RNNC_GATES_MAX], recurrent_bias[RNNC_GATES_MAX], parameter[RNNC_GATES_MAX];
    int32_t stage_count;
    rnnc_stage_desc stages[RNNC_STAGES_MAX];
    float zoneout[RNNC_STATES_MAX]; /* rates: of each unit and step, whether it keeps its value */
} rnnc_layer_training;

typedef struct rnnc_training_desc {
    int32_t drops_at_inference;        /* 0: dropout is for rnnc_forward alone */
    const rnnc_layer_training *layers; /* one for each layer; all 0 where it is no cell */
} rnnc_training_desc;

/* Text generation in one launch on a GPU: the module is an embedding, `layers` cells and a dense
 * layer, in this order, and its image has rnn_generate, rnn_pack and rnn_fold. */
typedef struct rnnc_generator_desc {
    const char *refusal; /* why the module has no such kernel; NULL: it has */
    int32_t image, layers;
    int32_t threads, ctas, rows; /* of a CTA; of a group that shares the weights, and its rows */
    int64_t shared_bytes, packed_bytes, buffer_bytes; /* as in rnnc_variant_desc */
    int32_t is_cluster; /* the CTAs of a group are a thread-block cluster, and need no buffer */
} rnnc_generator_desc;

typedef struct rnnc_module_desc {
    uint32_t magic;
    uint16_t abi_major, abi_minor;
    uint32_t struct_bytes;
    /* frozen above */
    const char *name;
    const char *provenance;   /* JSON object: spec path and SHA-256, versions, targets */
    const char *plan;         /* the plan as text */
    int64_t batch, timesteps; /* 0: any */
    int32_t tokens;           /* x holds int32 tokens */
    int32_t time_major;       /* x and y are [T, B, ...] */
    int32_t precision;        /* rnnc_precision */
    int32_t tensor_count;
    const rnnc_tensor_desc *tensors;
    int32_t layer_count;
    const rnnc_layer_desc *layers;
    int32_t image_count;
    const rnnc_image_desc *images;
    int32_t sequence_image; /* kernels of masks, merges and dropout; -1: no GPU code */
    int32_t slot_count;
    const int64_t *slot_widths; /* features of each buffer between layers */
    /* from 2.1 on: there only where struct_bytes goes so far */
    const rnnc_self_test *self_test; /* NULL: none */
    /* from 2.3 on */
    const rnnc_training_desc *training; /* NULL: for inference alone */
    /* from 2.4 on */
    const rnnc_generator_desc *generator; /* NULL: x holds no tokens */
} rnnc_module_desc;

/* Returns the tables, or NULL where the module cannot serve an ABI up to `max_abi` (major). `host`
 * is reserved for services of the runtime and may be NULL. */
typedef const rnnc_module_desc *(*rnnc_module_query_fn)(uint32_t max_abi, const void *host);

#endif
