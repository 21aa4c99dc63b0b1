// Order of steps on the host: see order.h.
#include "order.h"

#include <string.h>

#include "memory.h"

rnnc_status rnnc_order_open(rnnc_order *order, int64_t max_batch, int64_t max_timesteps,
                            rnnc_error *error)
{
    const size_t steps = (size_t)max_batch * (size_t)max_timesteps;
    if (order->mask)
        return RNNC_OK;
    order->mask = rnnc_memory_alloc(steps);
    bool complete = order->mask != NULL;
    for (int i = 0; i < 2; i++) {
        order->orders[i].steps = rnnc_memory_alloc(steps * sizeof *order->orders[i].steps);
        order->orders[i].rows =
            rnnc_memory_alloc((size_t)max_batch * sizeof *order->orders[i].rows);
        complete = complete && order->orders[i].steps && order->orders[i].rows;
    }
    if (complete)
        return RNNC_OK;
    rnnc_order_close(order);
    return rnnc_error_set(error, RNNC_OUT_OF_MEMORY, "no memory for the masks of %zu steps", steps);
}

void rnnc_order_close(rnnc_order *order)
{
    rnnc_memory_free(order->mask);
    for (int i = 0; i < 2; i++) {
        rnnc_memory_free(order->orders[i].steps);
        rnnc_memory_free(order->orders[i].rows);
    }
    *order = (rnnc_order){0};
}

static rnnc_status check_lengths(const rnnc_run_inputs *inputs, rnnc_error *error)
{
    for (int64_t row = 0; row < inputs->batch; row++)
        if (inputs->lengths[row] < 0 || inputs->lengths[row] > inputs->timesteps)
            return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                                  "lengths: row %lld is %d, expected 0 to %lld", (long long)row,
                                  (int)inputs->lengths[row], (long long)inputs->timesteps);
    return RNNC_OK;
}

static rnnc_status copy_mask(rnnc_order *order, const rnnc_run_inputs *inputs, rnnc_error *error)
{
    for (int64_t row = 0; row < inputs->batch; row++)
        for (int64_t step = 0; step < inputs->timesteps; step++) {
            const uint8_t value =
                inputs->mask
                    ? inputs->mask[row * inputs->mask_row_stride + step * inputs->mask_step_stride]
                    : 1;
            if (value > 1)
                return rnnc_error_set(error, RNNC_INVALID_ARGUMENT,
                                      "mask: row %lld, step %lld is %d, expected 0 or 1",
                                      (long long)row, (long long)step, (int)value);
            order->mask[row * inputs->timesteps + step] = value;
        }
    return RNNC_OK;
}

rnnc_status rnnc_order_begin(rnnc_order *order, const rnnc_run_inputs *inputs, bool self_masking,
                             rnnc_error *error)
{
    order->batch = inputs->batch;
    order->timesteps = inputs->timesteps;
    order->lengths = inputs->lengths;
    order->kind = inputs->lengths                ? RNNC_MASKING_LENGTHS
                  : inputs->mask || self_masking ? RNNC_MASKING_MASK
                                                 : RNNC_MASKING_NONE;
    rnnc_order_change(order);
    if (order->kind == RNNC_MASKING_LENGTHS)
        return check_lengths(inputs, error);
    return order->kind == RNNC_MASKING_MASK ? copy_mask(order, inputs, error) : RNNC_OK;
}

void rnnc_order_change(rnnc_order *order)
{
    for (int i = 0; i < 2; i++)
        order->orders[i].is_made = false;
}

/// The time that comes at place `step` of all `timesteps`.
static int64_t time_of(int64_t step, int64_t timesteps, bool reversed)
{
    return reversed ? timesteps - 1 - step : step;
}

static void make_row(rnnc_order *order, int64_t row, bool reversed)
{
    const int64_t timesteps = order->lengths ? order->lengths[row] : order->timesteps;
    int32_t *steps = order->orders[reversed].steps + row * order->timesteps;
    int32_t count = 0;
    for (int64_t step = 0; step < timesteps; step++) {
        const int64_t time = time_of(step, timesteps, reversed);
        if (order->lengths || order->mask[row * order->timesteps + time])
            steps[count++] = (int32_t)time;
    }
    order->orders[reversed].rows[row] = (rnnc_row){count, (int32_t)timesteps - 1};
}

void rnnc_order_apply(rnnc_order *order, const rnnc_layer_desc *layer, rnnc_layer_call *call)
{
    const bool reversed = layer->reversed != 0;
    call->order = NULL;
    call->rows = NULL;
    if (order->kind == RNNC_MASKING_NONE)
        return;
    for (int64_t row = 0; row < order->batch && !order->orders[reversed].is_made; row++)
        make_row(order, row, reversed);
    order->orders[reversed].is_made = true;
    call->order = order->orders[reversed].steps;
    call->rows = order->orders[reversed].rows;
}

/// The steps of a sequence that a row did not take.
static void fill_row(const rnnc_order *order, const rnnc_layer_desc *layer, float *y,
                     const rnnc_layer_call *call, int64_t row)
{
    const size_t bytes = (size_t)layer->outputs * sizeof(float);
    const int64_t timesteps = order->timesteps;
    const float *before = NULL;
    if (order->lengths) {
        for (int64_t at = order->lengths[row]; at < timesteps; at++)
            memset(y + at * call->y_step_stride, 0, bytes);
        return;
    }
    for (int64_t step = 0; step < timesteps; step++) {
        const int64_t time = time_of(step, timesteps, layer->reversed != 0);
        float *to = y + (layer->go_backwards ? step : time) * call->y_step_stride;
        if (order->mask[row * timesteps + time])
            before = layer->zero_output_for_mask ? NULL : to;
        else if (before)
            memcpy(to, before, bytes);
        else
            memset(to, 0, bytes);
    }
}

void rnnc_order_fill(const rnnc_order *order, const rnnc_layer_desc *layer,
                     const rnnc_layer_call *call)
{
    if (order->kind == RNNC_MASKING_NONE)
        return;
    for (int64_t row = 0; row < order->batch; row++) {
        float *y = call->y + row * call->y_row_stride;
        const int64_t end = time_of(order->timesteps - 1, order->timesteps, layer->reversed != 0);
        if (layer->sequence_out)
            fill_row(order, layer, y, call, row);
        else if (call->rows[row].steps == 0 ||
                 (layer->zero_output_for_mask && order->kind == RNNC_MASKING_MASK &&
                  !order->mask[row * order->timesteps + end]))
            memset(y, 0, (size_t)layer->outputs * sizeof(float));
    }
}

void rnnc_order_copy(rnnc_order *to, const rnnc_order *from)
{
    to->kind = from->kind;
    to->batch = from->batch;
    to->timesteps = from->timesteps;
    to->lengths = from->lengths;
    rnnc_order_change(to);
    if (from->kind == RNNC_MASKING_MASK)
        memcpy(to->mask, from->mask, (size_t)(from->batch * from->timesteps));
}

/// One row of a sequence. Steps that are not taken are not read from `out`.
static void fold_row(const rnnc_order *order, const rnnc_layer_desc *layer, int64_t row,
                     const float *dy, int64_t step_stride, float *out)
{
    const int64_t timesteps = order->timesteps, width = layer->outputs;
    int64_t before = -1;
    for (int64_t step = 0; step < timesteps; step++) {
        const int64_t time = time_of(step, timesteps, layer->reversed != 0);
        const int64_t place = layer->go_backwards ? step : time;
        const float *from = dy + place * step_stride;
        memcpy(out + place * width, from, (size_t)width * sizeof *out);
        if (order->mask[row * timesteps + time])
            before = layer->zero_output_for_mask ? -1 : place;
        else
            for (int64_t i = 0; i < width && before >= 0; i++)
                out[before * width + i] += from[i];
    }
}

void rnnc_order_fold(const rnnc_order *order, const rnnc_layer_desc *layer, const float *dy,
                     int64_t row_stride, int64_t step_stride, float *out)
{
    const int64_t timesteps = order->timesteps;
    const int64_t end = time_of(timesteps - 1, timesteps, layer->reversed != 0);
    for (int64_t row = 0; row < order->batch; row++) {
        const float *from = dy + row * row_stride;
        if (layer->sequence_out) {
            fold_row(order, layer, row, from, step_stride, out + row * timesteps * layer->outputs);
            continue;
        }
        const bool is_zero = layer->zero_output_for_mask && !order->mask[row * timesteps + end];
        for (int64_t i = 0; i < layer->outputs; i++)
            out[row * layer->outputs + i] = is_zero ? 0 : from[i];
    }
}
