/* A cell layer in training, as far as it is the same however its steps run: its weights, W*x and
 * what is saved before them, and the products over all steps after them. What is saved and what the
 * deltas are is the module's to say (rnnc_layer_training). By the number of the step in a row's own
 * order, with B and T of the run:
 *
 *     saved  [T, B, stride]  the vectors of a step one after the other      deltas  the same
 *
 * Vectors of a step lie without gaps, so that those of several gates are one operand; a stride is a
 * multiple of 4 floats. Steps that a row does not take are 0 in both. */
#ifndef RNNC_CUDA_TRAIN_CELL_H
#define RNNC_CUDA_TRAIN_CELL_H

#include "variant.h"

enum { RNNC_TRAIN_MEMORIES = 96 };

/* Where the vectors of a step lie. */
typedef struct {
    int64_t stride, at[RNNC_DELTAS_MAX]; /* in floats */
} rnnc_train_vectors;

typedef struct {
    rnnc_cuda_layer_options options;
    const rnnc_layer_training *training;
    const float *weights[RNNC_WEIGHT_COUNT];   /* on the device, canonical; NULL: none */
    CUdeviceptr own[RNNC_WEIGHT_COUNT];        /* those of sessions that do not train; 0: none */
    CUdeviceptr memories[RNNC_TRAIN_MEMORIES]; /* all that is allocated but those */
    int memory_count;
    float *x;    /* [T, B, inputs] by steps; after dW, dx */
    float *rows; /* [T, B, ...]: W*x, then the deltas, which come when W*x has gone */
    float *states[RNNC_STATES_MAX]; /* [T + 1, B, size] where saved, else 2 by turns */
    float *scaled[RNNC_PHASES_MAX]; /* with recurrent dropout, what R multiplies: [T + 1, B, K],
                                     * 2 by turns without a backward pass; NULL: as it is */
    float *saved, *statistics;      /* NULL: no backward pass */
    rnnc_train_vectors saved_at, delta_at;
    int64_t input_stride; /* of W*x */
    CUdeviceptr seed;     /* of zoneout's draws, where kernels of a graph find that of each run;
                           * 0: none */
} rnnc_train_cell;

/* RnnStep of templates/cuda/training.cuh. */
typedef struct {
    const float *bias, *recurrent_bias, *parameter;
    const int32_t *order;
    const rnnc_row *rows;
    const float *scale;
    CUdeviceptr seed;
    long long batch, timesteps, step;
} rnnc_train_step;

/* Allocates, for the session's largest B and T. Close it also after a failure. */
rnnc_status rnnc_train_cell_open(const rnnc_cuda_layer_options *options, rnnc_train_cell *cell);
void rnnc_train_cell_close(rnnc_train_cell *cell);

/* Device memory of `floats`, zeroed, that close frees; 0 floats gives NULL. */
rnnc_status rnnc_train_cell_alloc(rnnc_train_cell *cell, int64_t floats, float **out);

/* RNNC_DEVICE_ERROR with the layer's name and what failed; RNNC_OK for result 0. */
rnnc_status rnnc_train_cell_check(const rnnc_train_cell *cell, CUresult result, const char *doing);

/* Copies the weights from host memory, in sessions that do not train. Synchronises. */
rnnc_status rnnc_train_cell_set_weights(rnnc_train_cell *cell,
                                        const float *const weights[RNNC_WEIGHT_COUNT]);

/* State `index` before step `step`, in runs of `batch` rows. */
float *rnnc_train_state(const rnnc_train_cell *cell, int index, int64_t step, int64_t batch);

/* What phase `index` multiplies at step `step`, scaled; NULL: as it is. */
float *rnnc_train_scaled(const rnnc_train_cell *cell, int index, int64_t step, int64_t batch);

/* How many of a phase's rows from `first` on lie one behind the other in its matrix, and so go
 * through one product; those of heads go alone. */
int32_t rnnc_train_rows_together(const rnnc_phase_desc *phase, int32_t first);

/* What kernels of a run or its backward pass are told of it, at step 0. */
rnnc_train_step rnnc_train_step_of(const rnnc_train_cell *cell, const rnnc_layer_call *call);

/* Before a run: its seed, outside of any graph. */
rnnc_status rnnc_train_cell_write_seed(const rnnc_train_cell *cell, const rnnc_layer_call *call);

/* x by steps, W*x, and the initial states. */
rnnc_status rnnc_train_cell_begin(const rnnc_train_cell *cell, const rnnc_layer_call *call);
/* The final states. */
rnnc_status rnnc_train_cell_end(const rnnc_train_cell *cell, const rnnc_layer_call *call);

/* The gradients of all weights, and dx, from the deltas of all steps (train_sums.c). */
rnnc_status rnnc_train_cell_sums(const rnnc_train_cell *cell, const rnnc_backward_call *call);

#endif
