// Masks: values and chunks. A chunk is a run of its own, so a row without a step in it gives 0 and
// its leading masked steps repeat nothing; both are what the chunks before it gave.
#include "cli/module_masks.h"

#include <inttypes.h>
#include <string.h>

static bool refuse_type(CliCall *call, const char *path, const Port *port, const NpyArray *array)
{
    diag_add(call->diags, DIAG_E0804, (Span){0}, "'%s' is %s, expected %s for '%s'", path,
             npy_type_name(array->type), port->info->ndim == 1 ? "int32 or int64" : "bool or uint8",
             port->info->name);
    return false;
}

static bool convert_lengths(CliCall *call, const char *path, Port *port, const NpyArray *array,
                            int64_t timesteps)
{
    if (array->type != NPY_INT32 && array->type != NPY_INT64)
        return refuse_type(call, path, port, array);
    int32_t *lengths = (int32_t *)port->host;
    for (int64_t row = 0; row < array->elems; row++) {
        const int64_t length = npy_integer(array, row);
        if (length < 0 || length > timesteps) {
            diag_add(call->diags, DIAG_E0804, (Span){0},
                     "'%s': row %" PRId64 " is %" PRId64 ", expected 0 to T, which is %" PRId64,
                     path, row, length, timesteps);
            return false;
        }
        lengths[row] = (int32_t)length;
    }
    return true;
}

static bool convert_mask(CliCall *call, const char *path, Port *port, const NpyArray *array,
                         int64_t timesteps)
{
    if (array->type != NPY_BOOL && array->type != NPY_UINT8)
        return refuse_type(call, path, port, array);
    memcpy(port->host, array->data, (size_t)array->elems);
    for (int64_t i = 0; i < array->elems; i++)
        if (port->host[i] > 1) {
            diag_add(call->diags, DIAG_E0804, (Span){0},
                     "'%s': row %" PRId64 ", step %" PRId64 " is %d, expected 0 or 1", path,
                     i / timesteps, i % timesteps, port->host[i]);
            return false;
        }
    return true;
}

bool masks_convert(CliCall *call, const char *path, Port *port, const NpyArray *array,
                   int64_t timesteps)
{
    port->host = arena_alloc(call->arena, (size_t)array->elems * sizeof(int32_t));
    return port->info->ndim == 1 ? convert_lengths(call, path, port, array, timesteps)
                                 : convert_mask(call, path, port, array, timesteps);
}

static int64_t cut_length(const Port *lengths, int64_t row, int64_t first, int64_t timesteps)
{
    const int64_t left = ((const int32_t *)(const void *)lengths->host)[row] - first;
    return left < 0 ? 0 : left > timesteps ? timesteps : left;
}

void masks_cut_lengths(const Port *lengths, int64_t first, int64_t timesteps, int32_t *chunk)
{
    for (int64_t row = 0; row < lengths->dims[0]; row++)
        chunk[row] = (int32_t)cut_length(lengths, row, first, timesteps);
}

/// Masked steps of a row from step `first` on, at most `timesteps`.
static int64_t leading_masked(const Port *mask, int64_t row, int64_t first, int64_t timesteps)
{
    int64_t count = 0;
    while (count < timesteps && !*port_at(mask, row, first + count))
        count++;
    return count;
}

void masks_keep_rows(const Masks *masks, const Port *output, int64_t first, int64_t timesteps,
                     unsigned char *chunk)
{
    if (output->time_axis >= 0 || first == 0)
        return;
    for (int64_t row = 0; row < output->dims[output->batch_axis]; row++) {
        const bool has_none =
            masks->lengths ? cut_length(masks->lengths, row, first, timesteps) == 0
                           : masks->mask && masks->repeats &&
                                 leading_masked(masks->mask, row, first, timesteps) == timesteps;
        if (has_none)
            memcpy(chunk + (size_t)row * output->inner_bytes, port_at(output, row, 0),
                   output->inner_bytes);
    }
}

void masks_repeat_steps(const Masks *masks, const Port *output, int64_t first, int64_t timesteps)
{
    if (output->time_axis < 0 || first == 0 || !masks->mask || !masks->repeats)
        return;
    for (int64_t row = 0; row < output->dims[output->batch_axis]; row++) {
        const int64_t count = leading_masked(masks->mask, row, first, timesteps);
        for (int64_t step = first; step < first + count; step++)
            memcpy(port_at(output, row, step), port_at(output, row, first - 1),
                   output->inner_bytes);
    }
}
