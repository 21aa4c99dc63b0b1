// Transpose, Reshape, Flatten, Squeeze and Unsqueeze: of constants the elements move, of a flow the
// atoms of its axes.
#include <string.h>

#include "import/onnx_graph.h"

static void refuse_kind(OnnxReader *reader, const OnnxNode *node)
{
    onnx_refuse(reader, node, NULL, "is not taken on states of several layers at once");
}

/// The value with axes of its own, and its rank; false where it is a fill, which was given on, or
/// has none.
static bool take_ranked(OnnxReader *reader, const OnnxNode *node, int *out_rank)
{
    const OnnxValue *from = onnx_input(node, 0);
    if (!from)
        return onnx_refuse(reader, node, NULL, "has no input");
    if (from->kind == VALUE_FILL) {
        onnx_give(onnx_output(reader, node, 0), from);
        return false;
    }
    if (from->kind == VALUE_STACK) {
        refuse_kind(reader, node);
        return false;
    }
    *out_rank = from->kind == VALUE_FLOW ? from->flow.rank : from->dim_count;
    return true;
}

void onnx_transpose(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0);
    OnnxValue *out = onnx_output(reader, node, 0);
    const Onnx__AttributeProto *given = onnx_attribute(node, "perm");
    int64_t strides[ONNX_DIMS_MAX], moved[ONNX_DIMS_MAX], dims[ONNX_DIMS_MAX];
    int rank = 0, from_axis[ONNX_DIMS_MAX], seen = 0;
    if (!take_ranked(reader, node, &rank))
        return;
    for (int i = 0; i < rank; i++) {
        const int64_t axis = !given ? rank - 1 - i : i < (int)given->n_ints ? given->ints[i] : -1;
        if (axis < 0 || axis >= rank || seen & 1 << axis || (given && (int)given->n_ints != rank)) {
            onnx_refuse(reader, node, NULL, "attribute 'perm' is no order of %d axes", rank);
            return;
        }
        seen |= 1 << axis;
        from_axis[i] = (int)axis;
    }
    if (from->kind == VALUE_FLOW) {
        onnx_give(out, from);
        for (int i = 0; i < rank; i++)
            out->flow.axes[i] = from->flow.axes[from_axis[i]];
        return;
    }
    onnx_strides(from, strides);
    for (int i = 0; i < rank; i++) {
        moved[i] = strides[from_axis[i]];
        dims[i] = from->dims[from_axis[i]];
    }
    onnx_copy_strided(reader, node, out, from, dims, rank, 0, moved);
}

/// A constant of other dims with as many elements.
static void give_reshaped(OnnxReader *reader, const OnnxNode *node, const int64_t *dims, int rank)
{
    OnnxValue *out = onnx_output(reader, node, 0);
    onnx_give(out, onnx_input(node, 0));
    out->dim_count = rank;
    for (int i = 0; i < rank; i++)
        out->dims[i] = dims[i];
}

static bool is_one(const OnnxValue *value, int axis, bool *out_known)
{
    OnnxSize size = onnx_number(0);
    if (value->kind == VALUE_FLOW && !onnx_axis_size(&value->flow.axes[axis], &size))
        return false;
    if (value->kind == VALUE_CONSTANT)
        size = onnx_number(value->dims[axis]);
    *out_known = onnx_is_number(size);
    return onnx_size_equal(size, onnx_number(1));
}

/// Which axes a Squeeze takes away, one bit each; -1 after a refusal.
static int squeezed(OnnxReader *reader, const OnnxNode *node, int rank)
{
    const OnnxValue *from = onnx_input(node, 0);
    int64_t axes[ONNX_DIMS_MAX];
    int count = 0, bits = 0;
    if (!onnx_axes(reader, node, 1, rank, axes, &count))
        return -1;
    for (int i = 0; i < (count < 0 ? rank : count); i++) {
        const int axis = count < 0 ? i : (int)axes[i];
        bool known = false;
        if (is_one(from, axis, &known))
            bits |= 1 << axis;
        else if (count >= 0 || !known) {
            onnx_refuse(reader, node, NULL,
                        count < 0 ? "has no axes, and whether axis %d is of size 1 is known only "
                                    "when the model runs"
                                  : "axis %d is not of size 1",
                        axis);
            return -1;
        }
    }
    return bits;
}

void onnx_squeeze(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0);
    int64_t dims[ONNX_DIMS_MAX];
    int rank = 0, kept = 0;
    if (!take_ranked(reader, node, &rank))
        return;
    const int bits = squeezed(reader, node, rank);
    if (bits < 0)
        return;
    OnnxValue *out = onnx_output(reader, node, 0);
    if (from->kind == VALUE_FLOW)
        onnx_give(out, from);
    for (int i = 0; i < rank; i++) {
        if (bits & 1 << i)
            continue;
        dims[kept] = from->dims[i];
        out->flow.axes[kept++] = from->flow.axes[i];
    }
    if (from->kind == VALUE_CONSTANT)
        give_reshaped(reader, node, dims, kept);
    out->flow.rank = kept;
}

void onnx_unsqueeze(OnnxReader *reader, const OnnxNode *node)
{
    const OnnxValue *from = onnx_input(node, 0), *listed = onnx_input(node, 1);
    const Onnx__AttributeProto *given = onnx_attribute(node, "axes");
    int64_t axes[ONNX_DIMS_MAX], dims[ONNX_DIMS_MAX];
    int rank = 0, count = 0, bits = 0, taken = 0;
    if (!take_ranked(reader, node, &rank))
        return;
    const int64_t more = given ? (int64_t)given->n_ints : listed ? listed->elems : 0;
    if (more < 1 || more > ONNX_DIMS_MAX - rank) {
        onnx_refuse(reader, node, NULL, "gives more than %d axes, or none new", ONNX_DIMS_MAX);
        return;
    }
    rank += (int)more;
    if (!onnx_axes(reader, node, 1, rank, axes, &count))
        return;
    for (int i = 0; i < count; i++)
        bits |= 1 << axes[i];
    OnnxValue *out = onnx_output(reader, node, 0);
    if (from->kind == VALUE_FLOW)
        onnx_give(out, from);
    for (int i = 0; i < rank; i++) {
        const bool is_new = bits & 1 << i;
        dims[i] = is_new ? 1 : from->dims[taken];
        out->flow.axes[i] = is_new ? (OnnxAxis){.count = 0} : from->flow.axes[taken];
        taken += !is_new;
    }
    if (from->kind == VALUE_CONSTANT)
        give_reshaped(reader, node, dims, rank);
    out->flow.rank = rank;
}

enum { FLAT_ATOMS_MAX = ONNX_DIMS_MAX * ONNX_ATOMS_MAX };

/// All atoms of a flow in a row, and what of them is not yet placed: [first, last).
typedef struct {
    OnnxAtom atoms[FLAT_ATOMS_MAX];
    int first, last;
} Flat;

/// Takes atoms from the front (from the back where `backward`) whose sizes multiply to `size`.
static bool take_atoms(Flat *flat, OnnxSize size, bool backward, OnnxAxis *out)
{
    const bool is_one = onnx_size_equal(size, onnx_number(1));
    OnnxSize product = onnx_number(1);
    out->count = 0;
    while (flat->first < flat->last && (is_one || !onnx_size_equal(product, size))) {
        const OnnxAtom *atom = &flat->atoms[backward ? flat->last - 1 : flat->first];
        if (is_one && !onnx_size_equal(atom->size, size))
            break;
        if (out->count == ONNX_ATOMS_MAX || !onnx_size_multiply(product, atom->size, &product))
            return false;
        if (backward)
            memmove(out->atoms + 1, out->atoms, sizeof(OnnxAtom) * (size_t)out->count);
        out->atoms[backward ? 0 : out->count] = *atom;
        out->count++;
        flat->first += !backward;
        flat->last -= backward;
        if (is_one)
            break;
    }
    return onnx_size_equal(product, size);
}

/// Places every atom in the axes of `sizes` (factor -1: what is left).
static bool place_atoms(Flat *flat, const OnnxSize *sizes, int rank, OnnxAxis *axes)
{
    const OnnxSize open = onnx_number(-1);
    int at = 0, end = rank;
    for (; at < rank && !onnx_size_equal(sizes[at], open); at++)
        if (!take_atoms(flat, sizes[at], false, &axes[at]))
            return false;
    for (; end > at + 1; end--)
        if (!take_atoms(flat, sizes[end - 1], true, &axes[end - 1]))
            return false;
    const int target = at < rank ? at : rank - 1;
    if (at < rank)
        axes[at].count = 0;
    for (; flat->first < flat->last; flat->first++) {
        const OnnxAtom *atom = &flat->atoms[flat->first];
        const bool weighs = !onnx_size_equal(atom->size, onnx_number(1));
        if (target < 0 || (at == rank && weighs) || axes[target].count == ONNX_ATOMS_MAX)
            return false;
        axes[target].atoms[axes[target].count++] = *atom;
    }
    return true;
}

static void reshape_flow(OnnxReader *reader, const OnnxNode *node, const OnnxSize *sizes, int rank)
{
    const OnnxFlow *from = &onnx_input(node, 0)->flow;
    OnnxValue *out = onnx_output(reader, node, 0);
    Flat flat = {.first = 0};
    OnnxAxis axes[ONNX_DIMS_MAX];
    for (int i = 0; i < from->rank; i++)
        for (int j = 0; j < from->axes[i].count; j++)
            flat.atoms[flat.last++] = from->axes[i].atoms[j];
    if (!place_atoms(&flat, sizes, rank, axes)) {
        onnx_refuse(reader, node,
                    "time, batch, directions and features may be joined and split "
                    "again, not cut otherwise",
                    "gives data of axes %s a shape that cuts through an axis, or one that is known "
                    "only when the model runs",
                    onnx_axes_text(reader, from));
        return;
    }
    onnx_give(out, onnx_input(node, 0));
    memcpy(out->flow.axes, axes, sizeof(OnnxAxis) * (size_t)rank);
    out->flow.rank = rank;
}

static void reshape_constant(OnnxReader *reader, const OnnxNode *node, const OnnxSize *sizes,
                             int rank)
{
    const OnnxValue *from = onnx_input(node, 0);
    int64_t dims[ONNX_DIMS_MAX], elems = 1;
    int open = -1;
    bool good = true;
    for (int i = 0; i < rank; i++) {
        dims[i] = sizes[i].factor;
        good &= onnx_is_number(sizes[i]) && dims[i] >= -1 && (dims[i] != -1 || open < 0);
        if (dims[i] == -1)
            open = i;
        else
            good &= !__builtin_mul_overflow(elems, dims[i], &elems);
    }
    good &= open < 0 || elems > 0;
    if (good && open >= 0) {
        dims[open] = from->elems / elems;
        elems *= dims[open];
    }
    if (!good || elems != from->elems)
        onnx_refuse(reader, node, NULL, "gives %lld elements a shape of another number of elements",
                    (long long)from->elems);
    else
        give_reshaped(reader, node, dims, rank);
}

/// Flatten's two sizes, or Reshape's with each 0 replaced; the rank, or -1 after a refusal.
static int wanted_sizes(OnnxReader *reader, const OnnxNode *node, int from_rank, OnnxSize *sizes)
{
    const OnnxValue *from = onnx_input(node, 0), *shape = onnx_input(node, 1);
    const bool flatten = strcmp(node->proto->op_type, "Flatten") == 0;
    OnnxSize own[ONNX_DIMS_MAX];
    bool good = true;
    for (int i = 0; i < from_rank; i++) {
        own[i] = onnx_number(from->dims[i]);
        good &= from->kind != VALUE_FLOW || onnx_axis_size(&from->flow.axes[i], &own[i]);
    }
    if (flatten) {
        const int64_t axis = onnx_int(node, "axis", 1), at = axis < 0 ? axis + from_rank : axis;
        sizes[0] = onnx_number(1);
        sizes[1] = onnx_number(-1);
        good &= at >= 0 && at <= from_rank;
        for (int i = 0; good && i < at; i++)
            good = onnx_size_multiply(sizes[0], own[i], &sizes[0]);
        if (!good)
            onnx_refuse(reader, node, NULL, "attribute 'axis' is %lld", (long long)axis);
        return good ? 2 : -1;
    }
    if (!shape || shape->kind != VALUE_CONSTANT || !shape->sizes || shape->elems > ONNX_DIMS_MAX) {
        onnx_refuse(reader, node, NULL, "its shape is not %d or fewer known integers",
                    ONNX_DIMS_MAX);
        return -1;
    }
    for (int i = 0; good && i < shape->elems; i++) {
        sizes[i] = shape->sizes[i];
        if (onnx_size_equal(sizes[i], onnx_number(0)) && !onnx_int(node, "allowzero", 0)) {
            good = i < from_rank;
            sizes[i] = good ? own[i] : sizes[i];
        }
    }
    if (!good)
        onnx_refuse(reader, node, NULL, "its shape has a 0 behind the last axis");
    return good ? (int)shape->elems : -1;
}

void onnx_reshape(OnnxReader *reader, const OnnxNode *node)
{
    OnnxSize sizes[ONNX_DIMS_MAX];
    int from_rank = 0;
    if (!take_ranked(reader, node, &from_rank))
        return;
    const int rank = wanted_sizes(reader, node, from_rank, sizes);
    if (rank < 0)
        return;
    if (onnx_input(node, 0)->kind == VALUE_FLOW)
        reshape_flow(reader, node, sizes, rank);
    else
        reshape_constant(reader, node, sizes, rank);
}
