// Slice, Gather, Split and Concat. Of constants they take and join elements; of a flow one
// direction, the last step, or a layer's rows of a state; and they join both directions, and the
// final states of several layers. Gather of a table by tokens is an embedding.
#include <string.h>

#include "import/onnx_graph.h"

/// The part [begin, begin + count * step) of one axis; begin is counted from the end where it is
/// negative, which happens only where the axis' size is open.
typedef struct {
    int axis;
    int64_t begin, count, step;
    bool whole, drops_axis;
} Part;

static bool is_direction(const OnnxAxis *axis)
{
    return axis->count == 1 && axis->atoms[0].kind == ATOM_DIRECTION;
}

static void drop_axis(OnnxFlow *flow, int axis)
{
    flow->rank--;
    for (int i = axis; i < flow->rank; i++)
        flow->axes[i] = flow->axes[i + 1];
}

/// The step that a layer computes last: its final output, as long as all rows are of one length.
static bool take_last_step(OnnxReader *reader, const OnnxNode *node, OnnxFlow *flow,
                           const Part *part)
{
    const OnnxLayer *layer = flow->layer;
    OnnxSize steps = onnx_number(0);
    onnx_axis_size(&flow->axes[part->axis], &steps);
    const bool is_last =
        part->begin == -1 || (onnx_is_number(steps) && part->begin == steps.factor - 1);
    if (!layer || flow->source != FLOW_SEQUENCE || flow->version != reader->version)
        return onnx_refuse(reader, node, NULL,
                           "takes a step of a sequence that no recurrent layer gives alone");
    if (layer->direction_count > 1)
        return onnx_refuse(reader, node, "take Y_h, the last step of each direction",
                           "takes one step of the bidirectional layer '%s', at which only one "
                           "direction has seen all others",
                           layer->name);
    if (layer->reverse ? part->begin != 0 : !is_last)
        return onnx_refuse(
            reader, node, "a layer gives all steps, or the last one that it computes",
            "takes one step of layer '%s', not the last one that it computes", layer->name);
    if (layer->has_lengths)
        return onnx_refuse(reader, node, "take Y_h, each row's own last step",
                           "takes the last step, which for rows shorter than the longest is "
                           "padding");
    flow->source = FLOW_FINAL;
    flow->state = 'h';
    flow->axes[part->axis].count = 0;
    flow->layer->return_sequences = false;
    flow->version = ++reader->version;
    return true;
}

static bool is_time(const OnnxReader *reader, const OnnxAxis *axis)
{
    return axis->count == 1 && axis->atoms[0].kind == ATOM_AXIS &&
           axis->atoms[0].axis == reader->time_axis;
}

/// Gives a part of a flow as output `index`.
static bool select_flow(OnnxReader *reader, const OnnxNode *node, const OnnxFlow *from,
                        const Part *part, int index)
{
    OnnxValue made = {.kind = VALUE_FLOW, .flow = *from};
    OnnxFlow *flow = &made.flow;
    OnnxAxis *axis = &flow->axes[part->axis];
    if (part->whole)
        ; // nothing is left out
    else if (is_direction(axis) && part->count == 1 && (part->begin == 0 || part->begin == 1)) {
        flow->direction = (int)part->begin;
        axis->count = 0;
    } else if (from->source == FLOW_INPUT && axis->count == 1 && axis->atoms[0].axis == 0 &&
               !from->is_integer && part->step == 1 && part->begin >= 0) {
        flow->row += part->begin;
        flow->rows = part->count;
        axis->atoms[0].size = onnx_number(part->count);
    } else if (part->count == 1 && part->step == 1 && is_time(reader, axis)) {
        if (!take_last_step(reader, node, flow, part))
            return false;
    } else
        return onnx_refuse(reader, node, "of data, the last step or one direction can be taken",
                           "takes a part of axis %d of data of axes %s", part->axis,
                           onnx_axes_text(reader, from));
    if (part->drops_axis)
        drop_axis(flow, part->axis);
    onnx_give(onnx_output(reader, node, index), &made);
    return true;
}

static int64_t rows_of(const OnnxFlow *part)
{
    return part->direction < 0 ? part->layer->direction_count : 1;
}

/// Rows of stacked states: one, or all of one layer.
static bool select_stack(OnnxReader *reader, const OnnxNode *node, const OnnxValue *from,
                         const Part *part, int index)
{
    int64_t at = 0;
    for (int i = 0; i < from->part_count; at += rows_of(&from->parts[i]), i++) {
        const int64_t rows = rows_of(&from->parts[i]);
        if (part->axis != 0 || part->step != 1 || part->begin < at ||
            part->begin + part->count > at + rows)
            continue;
        const Part inner = {.axis = 0,
                            .begin = part->begin - at,
                            .count = part->count,
                            .step = 1,
                            .whole = part->count == rows,
                            .drops_axis = part->drops_axis};
        return select_flow(reader, node, &from->parts[i], &inner, index);
    }
    return onnx_refuse(reader, node, NULL, "takes states of more than one layer");
}

static void select_constant(OnnxReader *reader, const OnnxNode *node, const OnnxValue *from,
                            const Part *parts, int count, int index)
{
    int64_t strides[ONNX_DIMS_MAX], dims[ONNX_DIMS_MAX], base = 0;
    memcpy(dims, from->dims, sizeof dims);
    onnx_strides(from, strides);
    for (int i = 0; i < count; i++) {
        const int axis = parts[i].axis;
        base += parts[i].begin * strides[axis];
        strides[axis] *= parts[i].step;
        dims[axis] = parts[i].count;
    }
    onnx_copy_strided(reader, node, onnx_output(reader, node, index), from, dims, from->dim_count,
                      base, strides);
}

/// The size of an axis of input 0; of a stack, that of its rows.
static bool size_of(OnnxReader *reader, const OnnxNode *node, int axis, OnnxSize *out)
{
    const OnnxValue *from = onnx_input(node, 0);
    *out = onnx_number(from->dims[from->kind == VALUE_STACK ? 0 : axis]);
    return from->kind != VALUE_FLOW || onnx_axis_size(&from->flow.axes[axis], out) ||
           onnx_refuse(reader, node, NULL, "the size of axis %d is too large", axis);
}

static int rank_of(const OnnxValue *value)
{
    enum { STACK_RANK = 3 };
    return value->kind == VALUE_FLOW    ? value->flow.rank
           : value->kind == VALUE_STACK ? STACK_RANK
                                        : value->dim_count;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/// The part of an axis of known size that Slice names by start, end and step.
static void known_part(Part *part, int64_t size, int64_t start, int64_t end, int64_t step)
{
    start = clamp(start < 0 ? start + size : start, 0, step > 0 ? size : size - 1);
    end = end < 0 ? end + size : end;
    end = step > 0 ? clamp(end, 0, size) : clamp(end, -1, size);
    const int64_t span = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
    part->begin = start;
    part->step = step;
    part->count = span > 0 && size > 0 ? (span - 1) / stride + 1 : 0;
    part->whole = part->count == size && step == 1;
    if (part->count == 0)
        part->begin = 0;
}

/// The same of an axis whose size the file leaves open: all of it, its first or its last step.
static bool open_part(Part *part, OnnxSize size, OnnxSize start, OnnxSize end, int64_t step)
{
    const bool to_end =
        onnx_size_equal(end, size) || (onnx_is_number(end) && end.factor >= INT32_MAX);
    part->begin = start.factor;
    part->step = step;
    part->count = 1;
    if (!onnx_is_number(start) || step != 1)
        return false;
    part->whole = start.factor == 0 && to_end;
    return part->whole || (start.factor == -1 && to_end) ||
           (start.factor == 0 && onnx_size_equal(end, onnx_number(1)));
}

/// Element `i` of a list that is an attribute in old opsets and an input in others.
static bool listed(OnnxReader *reader, const OnnxNode *node, const char *name, int input, int64_t i,
                   OnnxSize *out, int64_t *out_count)
{
    const Onnx__AttributeProto *given = onnx_attribute(node, name);
    const OnnxValue *value = onnx_input(node, input);
    if (given) {
        *out_count = (int64_t)given->n_ints;
        if (i < *out_count)
            *out = onnx_number(given->ints[i]);
        return true;
    }
    *out_count = -1;
    if (!value)
        return true;
    if (value->kind != VALUE_CONSTANT || !value->sizes)
        return onnx_refuse(reader, node, NULL, "its %s are not constant integers", name);
    *out_count = value->elems;
    if (i < *out_count)
        *out = value->sizes[i];
    return true;
}

static bool slice_part(OnnxReader *reader, const OnnxNode *node, int64_t i, int rank, Part *part)
{
    const OnnxValue *from = onnx_input(node, 0);
    OnnxSize start = onnx_number(0), end = start, axis = onnx_number(i), step = onnx_number(1);
    OnnxSize size;
    int64_t starts = 0, ends = 0, axes = 0, steps = 0;
    if (!listed(reader, node, "starts", 1, i, &start, &starts) ||
        !listed(reader, node, "ends", 2, i, &end, &ends) ||
        !listed(reader, node, "axes", 3, i, &axis, &axes) ||
        !listed(reader, node, "steps", 4, i, &step, &steps))
        return false;
    if (starts != ends || starts <= i || (axes >= 0 && axes != starts) ||
        (steps >= 0 && steps != starts) || !onnx_is_number(axis) || !onnx_is_number(step) ||
        step.factor == 0 || step.factor == INT64_MIN)
        return onnx_refuse(reader, node, NULL, "its starts, ends, axes and steps do not fit");
    if (!onnx_axis(reader, node, axis.factor, rank, &part->axis))
        return false;
    if (!size_of(reader, node, part->axis, &size))
        return false;
    if (onnx_is_number(size) && onnx_is_number(start) &&
        (onnx_is_number(end) || onnx_size_equal(end, size))) {
        known_part(part, size.factor, start.factor, end.factor, step.factor);
        return true;
    }
    return (from->kind == VALUE_FLOW && open_part(part, size, start, end, step.factor)) ||
           onnx_refuse(reader, node, NULL,
                       "takes a part of axis %d that is known only when the model runs",
                       part->axis);
}

void onnx_slice(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0);
    OnnxValue *out = onnx_output(reader, node, 0);
    Part parts[ONNX_DIMS_MAX] = {{0}};
    OnnxSize ignored;
    int64_t count = 0;
    int narrowed = -1;
    if (!from || !listed(reader, node, "starts", 1, INT64_MAX, &ignored, &count))
        return;
    if (from->kind == VALUE_FILL) {
        onnx_give(out, from);
        return;
    }
    const int rank = rank_of(from);
    if (count < 0 || count > rank) {
        onnx_refuse(reader, node, NULL, "its starts are missing, or more than its axes");
        return;
    }
    for (int i = 0; i < count; i++) {
        if (!slice_part(reader, node, i, rank, &parts[i]))
            return;
        for (int j = 0; j < i; j++)
            if (parts[j].axis == parts[i].axis) {
                onnx_refuse(reader, node, NULL, "axis %d is given twice", parts[i].axis);
                return;
            }
        if (parts[i].whole)
            continue;
        if (narrowed >= 0 && from->kind != VALUE_CONSTANT) {
            onnx_refuse(reader, node, NULL, "takes a part of more than one axis of data");
            return;
        }
        narrowed = i;
    }
    if (from->kind == VALUE_CONSTANT)
        select_constant(reader, node, from, parts, (int)count, 0);
    else if (narrowed < 0)
        onnx_give(out, from);
    else if (from->kind == VALUE_STACK)
        select_stack(reader, node, from, &parts[narrowed], 0);
    else
        select_flow(reader, node, &from->flow, &parts[narrowed], 0);
}

/// Rows of a constant along one axis, by constant indices of any shape.
static void gather_constant(OnnxReader *reader, const OnnxNode *node, int axis)
{
    const OnnxValue *from = onnx_input(node, 0), *at = onnx_input(node, 1);
    OnnxValue *out = onnx_output(reader, node, 0);
    int64_t dims[2 * ONNX_DIMS_MAX], strides[ONNX_DIMS_MAX];
    int rank = 0;
    for (int i = 0; i < axis; i++)
        dims[rank++] = from->dims[i];
    for (int i = 0; i < at->dim_count; i++)
        dims[rank++] = at->dims[i];
    for (int i = axis + 1; i < from->dim_count; i++)
        dims[rank++] = from->dims[i];
    if (rank > ONNX_DIMS_MAX || from->elems == 0) {
        onnx_refuse(reader, node, NULL, "gives more than %d axes, or reads no elements",
                    ONNX_DIMS_MAX);
        return;
    }
    onnx_strides(from, strides);
    const size_t bytes = from->floats ? sizeof(float) : sizeof(OnnxSize);
    const size_t block = (size_t)strides[axis] * bytes;
    const char *source = from->floats ? (const char *)from->floats : (const char *)from->sizes;
    char *to = from->floats ? (char *)onnx_make_floats(reader, node, out, dims, rank)
                            : (char *)onnx_make_sizes(reader, node, out, dims, rank);
    if (!to || out->elems == 0)
        return;
    const int64_t outer = from->elems / (from->dims[axis] * strides[axis]);
    for (int64_t i = 0; i < outer; i++)
        for (int64_t j = 0; j < at->elems; j++, to += block) {
            int64_t row = at->sizes[j].factor;
            row = row < 0 ? row + from->dims[axis] : row;
            if (!onnx_is_number(at->sizes[j]) || row < 0 || row >= from->dims[axis]) {
                out->kind = VALUE_BROKEN;
                onnx_refuse(reader, node, NULL, "index %lld of an axis of size %lld",
                            (long long)at->sizes[j].factor, (long long)from->dims[axis]);
                return;
            }
            memcpy(to, source + (size_t)(i * from->dims[axis] + row) * block, block);
        }
}

static void gather_embedding(OnnxReader *reader, const OnnxNode *node, int axis)
{
    const OnnxValue *table = onnx_input(node, 0);
    const OnnxFlow *tokens = &onnx_input(node, 1)->flow;
    if (!table->floats || table->dim_count != 2 || axis != 0 || table->elems == 0) {
        onnx_refuse(reader, node, NULL, "its table is not [vocabulary, width] of floats");
        return;
    }
    if (!tokens->is_integer || tokens->source != FLOW_INPUT || tokens->rank >= ONNX_DIMS_MAX) {
        onnx_refuse(reader, node, "an embedding is the model's first layer",
                    "its indices are not tokens from an input of the graph");
        return;
    }
    if (!onnx_take_chain(reader, node, tokens))
        return;
    OnnxLayer *layer = onnx_add_layer(reader, node, LAYER_EMBEDDING);
    layer->inputs = table->dims[0];
    layer->units = table->dims[1];
    layer->directions[0].W = table->floats;
    OnnxFlow wider = *tokens;
    wider.rank++;
    onnx_give_chain(reader, onnx_output(reader, node, 0), &wider, tokens->rank, layer->units);
}

/// One index, or a list of one, of a flow or a stack.
static void gather_part(OnnxReader *reader, const OnnxNode *node, int axis)
{
    const OnnxValue *from = onnx_input(node, 0), *at = onnx_input(node, 1);
    Part part = {.axis = axis, .count = 1, .step = 1, .drops_axis = at->dim_count == 0};
    OnnxSize size;
    if (!onnx_integer(reader, node, at, "its indices", &part.begin) ||
        !size_of(reader, node, axis, &size))
        return;
    const bool known = onnx_is_number(size);
    if (known && part.begin < 0)
        part.begin += size.factor;
    part.whole = known && size.factor == 1;
    if (known && (part.begin < 0 || part.begin >= size.factor)) {
        onnx_refuse(reader, node, NULL, "index %lld of an axis of size %lld", (long long)part.begin,
                    (long long)size.factor);
        return;
    }
    if (from->kind == VALUE_STACK)
        select_stack(reader, node, from, &part, 0);
    else
        select_flow(reader, node, &from->flow, &part, 0);
}

void onnx_gather(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0), *at = onnx_input(node, 1);
    int axis = 0;
    if (!from || !at) {
        onnx_refuse(reader, node, NULL, "an input is missing");
        return;
    }
    if (from->kind == VALUE_FILL) {
        onnx_give(onnx_output(reader, node, 0), from);
        return;
    }
    if (!onnx_axis(reader, node, onnx_int(node, "axis", 0), rank_of(from), &axis))
        return;
    if (from->kind == VALUE_CONSTANT && at->kind == VALUE_FLOW)
        gather_embedding(reader, node, axis);
    else if (at->kind != VALUE_CONSTANT || !at->sizes)
        onnx_refuse(reader, node, NULL, "its indices are not constant integers");
    else if (from->kind == VALUE_CONSTANT)
        gather_constant(reader, node, axis);
    else
        gather_part(reader, node, axis);
}

/// Part `i` of a Split, which begins at `at`: as listed, or equal parts.
static bool split_part(OnnxReader *reader, const OnnxNode *node, int i, int64_t at, Part *part)
{
    const int outputs = node->output_count;
    OnnxSize size, count;
    int64_t counts = 0;
    if (!size_of(reader, node, part->axis, &size))
        return false;
    if (!onnx_is_number(size))
        return onnx_refuse(reader, node, NULL,
                           "splits axis %d, whose size is known only when the model runs",
                           part->axis);
    const int64_t each = size.factor / outputs + (size.factor % outputs != 0);
    count = onnx_number(clamp(each, 0, size.factor - at));
    if (!listed(reader, node, "split", 1, i, &count, &counts))
        return false;
    if ((counts >= 0 && counts != outputs) || !onnx_is_number(count) || count.factor < 0 ||
        count.factor > size.factor - at)
        return onnx_refuse(reader, node, NULL, "its parts do not make up axis %d", part->axis);
    part->begin = at;
    part->count = count.factor;
    part->step = 1;
    part->whole = count.factor == size.factor;
    return true;
}

void onnx_split(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0);
    Part part = {.axis = 0};
    int64_t at = 0;
    if (!from || from->kind == VALUE_STACK || node->output_count == 0) {
        onnx_refuse(reader, node, NULL, "does not split one tensor");
        return;
    }
    if (from->kind != VALUE_FILL &&
        !onnx_axis(reader, node, onnx_int(node, "axis", 0), rank_of(from), &part.axis))
        return;
    for (int i = 0; i < node->output_count; i++, at += part.count) {
        if (from->kind == VALUE_FILL)
            onnx_give(onnx_output(reader, node, i), from);
        else if (!split_part(reader, node, i, at, &part))
            return;
        else if (from->kind == VALUE_CONSTANT)
            select_constant(reader, node, from, &part, 1, i);
        else if (!select_flow(reader, node, &from->flow, &part, i))
            return;
    }
}

static bool concat_constants(OnnxReader *reader, const OnnxNode *node, int axis)
{
    const OnnxValue *first = onnx_input(node, 0);
    int64_t dims[ONNX_DIMS_MAX], inner = 1, outer = 1;
    memcpy(dims, first->dims, sizeof dims);
    for (int i = 0; i < first->dim_count; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : dims[i];
    for (int i = 1; i < node->input_count; i++) {
        const OnnxValue *value = onnx_input(node, i);
        bool same = value->dim_count == first->dim_count && !value->floats == !first->floats;
        for (int j = 0; same && j < first->dim_count; j++)
            same = j == axis || value->dims[j] == dims[j];
        if (!same || __builtin_add_overflow(dims[axis], value->dims[axis], &dims[axis]))
            return onnx_refuse(reader, node, NULL, "joins tensors whose other axes differ");
    }
    OnnxValue *out = onnx_output(reader, node, 0);
    const size_t bytes = first->floats ? sizeof(float) : sizeof(OnnxSize);
    char *to = first->floats ? (char *)onnx_make_floats(reader, node, out, dims, first->dim_count)
                             : (char *)onnx_make_sizes(reader, node, out, dims, first->dim_count);
    for (int64_t i = 0; to && out->elems > 0 && i < outer; i++)
        for (int j = 0; j < node->input_count; j++) {
            const OnnxValue *value = onnx_input(node, j);
            const size_t block = (size_t)(value->dims[axis] * inner) * bytes;
            const char *from =
                value->floats ? (const char *)value->floats : (const char *)value->sizes;
            memcpy(to, from + (size_t)i * block, block);
            to += block;
        }
    return to != NULL;
}

/// Forward then backward outputs of one layer along the features.
static bool joins_directions(const OnnxFlow *a, const OnnxFlow *b, int axis)
{
    return a->layer && a->layer == b->layer && a->source == b->source && a->state == b->state &&
           a->version == b->version && a->direction == 0 && b->direction == 1 &&
           a->rank == b->rank &&
           memcmp(a->axes, b->axes, sizeof a->axes[0] * (size_t)a->rank) == 0 &&
           a->axes[axis].count == 1 && a->axes[axis].atoms[0].kind == ATOM_FEATURE;
}

static void give_joined(OnnxReader *reader, const OnnxNode *node, int axis)
{
    OnnxValue *out = onnx_output(reader, node, 0);
    onnx_give(out, onnx_input(node, 0));
    OnnxAxis *features = &out->flow.axes[axis];
    out->flow.direction = -1;
    features->atoms[1] = features->atoms[0];
    features->atoms[0] = (OnnxAtom){.kind = ATOM_DIRECTION, .size = onnx_number(2)};
    features->count = 2;
}

/// States that are stacked: [D, B, H], with D 1 or all directions.
static bool is_state(const OnnxFlow *flow)
{
    return flow->source == FLOW_FINAL && flow->rank == 3 && flow->version == flow->layer->version &&
           (flow->axes[0].count == 0 || is_direction(&flow->axes[0]));
}

static void concat_flows(OnnxReader *reader, const OnnxNode *node, int64_t axis)
{
    const OnnxFlow *first = &onnx_input(node, 0)->flow;
    int at = 0;
    if (!onnx_axis(reader, node, axis, first->rank, &at))
        return;
    if (node->input_count == 2 && joins_directions(first, &onnx_input(node, 1)->flow, at)) {
        give_joined(reader, node, at);
        return;
    }
    OnnxFlow *parts = ARENA_ARRAY(reader->arena, OnnxFlow, node->input_count);
    int64_t rows = 0;
    for (int i = 0; i < node->input_count; i++) {
        parts[i] = onnx_input(node, i)->flow;
        if (at != 0 || !is_state(&parts[i])) {
            onnx_refuse(reader, node,
                        "both directions of a layer can be joined, and final states of layers",
                        "joins data of axes %s with other data", onnx_axes_text(reader, first));
            return;
        }
        rows += rows_of(&parts[i]);
    }
    OnnxValue *out = onnx_output(reader, node, 0);
    out->kind = VALUE_STACK;
    out->parts = parts;
    out->part_count = node->input_count;
    out->dims[0] = rows;
}

void onnx_concat(OnnxReader *reader, const OnnxNode *node)
{
    int constants = 0, flows = 0, zeros = 0, axis = 0;
    for (int i = 0; i < node->input_count; i++) {
        const OnnxValue *value = onnx_input(node, i);
        constants += value && value->kind == VALUE_CONSTANT;
        flows += value && value->kind == VALUE_FLOW;
        zeros += value && value->kind == VALUE_FILL && value->fill == 0;
    }
    const Onnx__AttributeProto *given = onnx_attribute(node, "axis");
    const OnnxValue *first = onnx_input(node, 0);
    if (!given)
        onnx_refuse(reader, node, NULL, "attribute 'axis' is missing");
    else if (node->input_count == 1 && first)
        onnx_give(onnx_output(reader, node, 0), first);
    else if (constants == node->input_count) {
        if (onnx_axis(reader, node, given->i, first->dim_count, &axis))
            concat_constants(reader, node, axis);
    } else if (flows == node->input_count)
        concat_flows(reader, node, given->i);
    else if (zeros == node->input_count)
        onnx_give(onnx_output(reader, node, 0), first);
    else
        onnx_refuse(reader, node, NULL, "joins data with constants");
}
