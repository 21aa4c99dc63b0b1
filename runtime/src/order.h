// Order of steps on the host: what masks and lengths leave of each row, for layers that go forward
// and for those that go backward, and what stands in y where no step is taken.
#ifndef RNNC_RUNTIME_ORDER_H
#define RNNC_RUNTIME_ORDER_H

#include "device.h"

/// Of one session on the CPU; zeroed: no masking.
typedef struct {
    rnnc_masking kind; ///< of this run; RNNC_MASKING_NONE: every row takes all steps
    int64_t batch, timesteps;
    uint8_t *mask; ///< [B, T], the caller's and what layers mask
    const int32_t *lengths;
    struct {
        int32_t *steps; ///< [B, T], as rnnc_cpu_args.order
        rnnc_row *rows; ///< [B]
        bool is_made;   ///< for this run's mask
    } orders[2];        ///< forward, reversed
} rnnc_order;

/// Allocates for the largest B and T, once; close it also after a failure.
rnnc_status rnnc_order_open(rnnc_order *order, int64_t max_batch, int64_t max_timesteps,
                            rnnc_error *error);
void rnnc_order_close(rnnc_order *order);

/// Takes a run's mask or lengths; RNNC_INVALID_ARGUMENT names the row and what was expected of it.
/// `self_masking`: layers of the module mask too.
rnnc_status rnnc_order_begin(rnnc_order *order, const rnnc_run_inputs *inputs, bool self_masking,
                             rnnc_error *error);

/// A layer has masked more.
void rnnc_order_change(rnnc_order *order);

/// Gives a cell's call its order and rows, where there is a mask or there are lengths.
void rnnc_order_apply(rnnc_order *order, const rnnc_layer_desc *layer, rnnc_layer_call *call);

/// Writes what stands in y at the steps that the layer did not take: 0, or the output before.
void rnnc_order_fill(const rnnc_order *order, const rnnc_layer_desc *layer,
                     const rnnc_layer_call *call);

/// Keeps a run's order in `to`, opened as `from` is.
void rnnc_order_copy(rnnc_order *to, const rnnc_order *from);

/// The gradient of y for the steps that a layer took: what masked steps repeat is added to the step
/// that they repeat. `dy` as y of the call; `out` as y, contiguous: [B, T, outputs], or
/// [B, outputs].
void rnnc_order_fold(const rnnc_order *order, const rnnc_layer_desc *layer, const float *dy,
                     int64_t row_stride, int64_t step_stride, float *out);

#endif
