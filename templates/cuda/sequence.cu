// What surrounds the recurrences of a module: the order of each row's steps under a mask or
// lengths, what stands at the positions that no step writes, masking, merges of two directions, and
// dropout at inference. One image a module, without numbers of a layer, with the kernels that the
// module's kinds of layers need; all arrays are strided and every kernel takes any B and T by
// striding its grid.
//
//   mask [B, T] = bound mask, made 0 where a layer masks    -> rnn_order: a warp a row, 32 steps at
//   lengths [B]                                                a time by ballot and prefix
//   order [B, T], rows [B]  -> recurrence -> y -> rnn_fill: zeros, or the output before
//
// A bad value of the caller's is written once to `fault`, memory that the host reads after it has
// waited; its row takes no steps and its outputs are NaN. In the module's mask it is RNN_MASK_BAD.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -cubin templates/cuda/sequence.cu
#include "cuda/prim/index.cuh"
#include "prim/philox.h"

#ifndef RNN_CELLS // whether the module has such layers
#define RNN_CELLS 1
#define RNN_EMBEDDINGS 1
#define RNN_MASKINGS 1
#define RNN_MERGES 1
#define RNN_DROPOUTS 1
#define RNN_RECURRENT_DROPOUTS 1 // cells that drop
#define RNN_TRAINING 1           // whether it has backward passes
#endif

#define RNN_INLINE static __device__ __forceinline__
#define RNN_NAN __int_as_float(0x7fffffff)

enum { RNN_MASK_BAD = 2, RNN_ROW_BAD = (int)0x80000000 };
enum { RNN_FAULT_LENGTHS = 1, RNN_FAULT_MASK, RNN_FAULT_TOKEN };
enum { RNN_MERGE_SUM, RNN_MERGE_MUL, RNN_MERGE_AVE };

/// The fields of rnnc_row (rnnc/module.h); `last` is RNN_ROW_BAD in a row at fault.
struct RnnRow {
    int steps, last;
};

/// The first fault of the runs since the host has cleared it; kind 0: none.
struct RnnFault {
    int kind, row, step, value;
};

/// An array [B, T, features]: the features are contiguous.
struct RnnArray {
    float *at;
    long long row_stride, step_stride;
};

RNN_INLINE void rnn_report(RnnFault *fault, int kind, long long row, long long step, int value)
{
    if (*(volatile int *)&fault->kind || atomicCAS(&fault->kind, 0, kind))
        return;
    fault->row = (int)row;
    fault->step = (int)step;
    fault->value = value;
    __threadfence_system();
}

/// This thread's index in the grid, and the grid's threads.
RNN_INLINE long long rnn_thread()
{
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}
RNN_INLINE long long rnn_threads()
{
    return (long long)gridDim.x * blockDim.x;
}

#if RNN_CELLS
/// own[B, T] = the bound mask, checked.
extern "C" __global__ void rnn_take_mask(const unsigned char *mask, long long row_stride,
                                         long long step_stride, unsigned char *own, long long batch,
                                         long long timesteps, RnnFault *fault)
{
#pragma unroll 1
    for (long long i = rnn_thread(); i < batch * timesteps; i += rnn_threads()) {
        const long long row = i / timesteps, step = i - row * timesteps;
        const int value = mask[row * row_stride + step * step_stride];
        if (value > 1)
            rnn_report(fault, RNN_FAULT_MASK, row, step, value);
        own[i] = value > 1 ? RNN_MASK_BAD : value;
    }
}

/// One row's order from the mask, by one warp: the steps that it leaves, as they are processed.
RNN_INLINE RnnRow rnn_order_row(const unsigned char *mask, int reversed, int *order, int timesteps)
{
    const int lane = threadIdx.x % 32;
    int count = 0;
    bool is_bad = false;
#pragma unroll 4
    for (int first = 0; first < timesteps; first += 32) {
        const int at = first + lane, time = reversed ? timesteps - 1 - at : at;
        const int value = at < timesteps ? mask[time] : 0;
        const unsigned valid = __ballot_sync(0xffffffff, value != 0);
        if (value)
            order[count + __popc(valid & ((1u << lane) - 1))] = time;
        count += __popc(valid);
        is_bad |= value == RNN_MASK_BAD;
    }
    is_bad = __any_sync(0xffffffff, is_bad);
    return {is_bad ? 0 : count, is_bad ? RNN_ROW_BAD : timesteps - 1};
}

/// order[B, T] and rows[B] from `mask` [B, T], or from `lengths` [B] where that is NULL.
extern "C" __global__ void rnn_order(const unsigned char *mask, const int *lengths, int reversed,
                                     int *order, RnnRow *rows, long long batch, long long timesteps,
                                     RnnFault *fault)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (long long row = rnn_thread() / 32; row < batch; row += rnn_threads() / 32) {
        int *to = order + row * timesteps;
        RnnRow made;
        if (mask) {
            made = rnn_order_row(mask + row * timesteps, reversed, to, (int)timesteps);
        } else {
            const int length = lengths[row];
            const bool is_bad = length < 0 || length > timesteps;
            if (is_bad && lane == 0)
                rnn_report(fault, RNN_FAULT_LENGTHS, row, timesteps, length);
            made.steps = is_bad ? 0 : length;
            made.last = is_bad ? RNN_ROW_BAD : length - 1;
#pragma unroll 1
            for (int s = lane; s < made.steps; s += 32)
                to[s] = reversed ? made.last - s : s;
        }
        if (lane == 0)
            rows[row] = made;
    }
}

/// What a cell layer's run was, for the outputs that it has not written.
struct RnnFill {
    RnnArray y;
    long long batch, timesteps, width;
    const unsigned char *mask; ///< [B, T]; NULL: lengths
    const int *order;
    const RnnRow *rows;
    int reversed, go_backwards, zero; ///< zero: masked steps give 0, they do not repeat
};

/// Position p of a sequence has no step's output.
RNN_INLINE bool rnn_is_masked(const RnnFill &fill, long long row, long long position)
{
    if (!fill.mask)
        return position >= fill.rows[row].steps;
    const long long time = fill.go_backwards ? fill.timesteps - 1 - position : position;
    return fill.mask[row * fill.timesteps + time] == 0;
}

/// Zeros where no step has written, NaN in rows at fault; a value a thread.
extern "C" __global__ void rnn_fill_zeros(const RnnFill fill)
{
    const long long count = fill.batch * fill.timesteps * fill.width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, fill.timesteps, fill.width);
        const bool is_bad = fill.rows[of.outer].last == RNN_ROW_BAD;
        if (is_bad || rnn_is_masked(fill, of.outer, of.middle))
            fill.y.at[of.outer * fill.y.row_stride + of.middle * fill.y.step_stride + of.inner] =
                is_bad ? RNN_NAN : 0.0f;
    }
}

/// Masked steps repeat the output before them in the order of processing: a warp fills what lies
/// between two steps of a row. It reads only what steps have written.
extern "C" __global__ void rnn_fill_repeat(const RnnFill fill)
{
    const long long T = fill.timesteps, gaps = fill.batch * (T + 1);
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (long long gap = rnn_thread() / 32; gap < gaps; gap += rnn_threads() / 32) {
        const long long row = gap / (T + 1), step = gap - row * (T + 1); // before step `step`
        const RnnRow of = fill.rows[row];
        if (step > of.steps)
            continue;
        const bool is_bad = of.last == RNN_ROW_BAD;
        const int *order = fill.order + row * T;
        // Places count in the order of processing; a position is one of the output.
        long long from = step > 0 ? order[step - 1] : fill.reversed ? T : -1;
        long long to = step < of.steps ? order[step] : fill.reversed ? -1 : T;
        from = fill.reversed ? T - 1 - from : from;
        to = fill.reversed ? T - 1 - to : to;
        const bool flips = fill.reversed && !fill.go_backwards;
        float *y = fill.y.at + row * fill.y.row_stride;
        const float *source = y + (flips ? T - 1 - from : from) * fill.y.step_stride;
#pragma unroll 1
        for (long long place = from + 1; place < to; place++)
#pragma unroll 1
            for (long long i = lane; i < fill.width; i += 32) {
                const float value = is_bad ? RNN_NAN : step > 0 ? source[i] : 0.0f;
                y[(flips ? T - 1 - place : place) * fill.y.step_stride + i] = value;
            }
    }
}

/// Where only the last output is asked for: 0 in rows without steps, and where the last step in the
/// order of processing is masked and masked steps give 0.
extern "C" __global__ void rnn_fill_last(const RnnFill fill)
{
#pragma unroll 1
    for (long long i = rnn_thread(); i < fill.batch * fill.width; i += rnn_threads()) {
        const long long row = i / fill.width;
        const RnnRow of = fill.rows[row];
        const bool is_bad = of.last == RNN_ROW_BAD;
        const long long last = fill.reversed ? 0 : fill.timesteps - 1;
        if (is_bad || of.steps == 0 ||
            (fill.zero && fill.mask && fill.mask[row * fill.timesteps + last] == 0))
            fill.y.at[row * fill.y.row_stride + i - row * fill.width] = is_bad ? RNN_NAN : 0.0f;
    }
}
#endif

#if RNN_MASKINGS
/// y = x, and 0 in steps whose features all equal `value`, which `mask` [B, T] loses. A warp a
/// step.
extern "C" __global__ void rnn_masking(const RnnArray x, const RnnArray y, float value,
                                       unsigned char *mask, long long batch, long long timesteps,
                                       long long width)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (long long i = rnn_thread() / 32; i < batch * timesteps; i += rnn_threads() / 32) {
        const long long row = i / timesteps, step = i - row * timesteps;
        const float *from = x.at + row * x.row_stride + step * x.step_stride;
        float *to = y.at + row * y.row_stride + step * y.step_stride;
        bool differs = false;
#pragma unroll 1
        for (long long k = lane; k < width; k += 32)
            differs |= !(from[k] == value);
        differs = __any_sync(0xffffffff, differs);
#pragma unroll 1
        for (long long k = lane; k < width; k += 32)
            to[k] = differs ? from[k] : 0.0f;
        if (!differs && lane == 0 && mask[i] == 1)
            mask[i] = 0;
    }
}
#endif

#if RNN_EMBEDDINGS
/// Checks the tokens of an embedding; with `mask` [B, T], token 0 masks its step.
extern "C" __global__ void rnn_tokens(const int *tokens, long long row_stride,
                                      long long step_stride, unsigned char *mask, long long batch,
                                      long long timesteps, long long vocabulary, RnnFault *fault)
{
#pragma unroll 1
    for (long long i = rnn_thread(); i < batch * timesteps; i += rnn_threads()) {
        const long long row = i / timesteps, step = i - row * timesteps;
        const int token = tokens[row * row_stride + step * step_stride];
        if (token < 0 || token >= vocabulary)
            rnn_report(fault, RNN_FAULT_TOKEN, row, step, token);
        if (mask && token == 0 && mask[i] == 1)
            mask[i] = 0;
    }
}
#endif

#if RNN_MERGES
/// y = x and x2 put together.
extern "C" __global__ void rnn_merge(const RnnArray x, const float *x2, const RnnArray y, int how,
                                     long long batch, long long timesteps, long long width)
{
    const long long count = batch * timesteps * width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, timesteps, width);
        const long long from = of.outer * x.row_stride + of.middle * x.step_stride + of.inner;
        const float a = x.at[from], b = x2[from];
        y.at[of.outer * y.row_stride + of.middle * y.step_stride + of.inner] =
            how == RNN_MERGE_MUL ? a * b : (how == RNN_MERGE_AVE ? 0.5f : 1.0f) * (a + b);
    }
}
#endif

#if RNN_DROPOUTS
/// y = x times a draw for each unit, row and time; `per_sequence`: the same at all times.
extern "C" __global__ void rnn_drop(const RnnArray x, const RnnArray y, const rnn_dropout draw,
                                    int per_sequence, long long batch, long long timesteps,
                                    long long width)
{
    const long long count = batch * timesteps * width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, timesteps, width);
        y.at[of.outer * y.row_stride + of.middle * y.step_stride + of.inner] =
            x.at[of.outer * x.row_stride + of.middle * x.step_stride + of.inner] *
            rnn_dropout_scale(&draw, (unsigned)of.inner, (unsigned)of.outer,
                              per_sequence ? 0 : (unsigned)of.middle);
    }
}
#endif

#if RNN_RECURRENT_DROPOUTS
/// scale[B, width] = a draw for each unit and row: recurrent dropout.
extern "C" __global__ void rnn_draw(float *scale, const rnn_dropout draw, long long batch,
                                    long long width)
{
#pragma unroll 1
    for (long long i = rnn_thread(); i < batch * width; i += rnn_threads()) {
        const long long row = i / width, unit = i - row * width;
        scale[i] = rnn_dropout_scale(&draw, (unsigned)unit, (unsigned)row, 0);
    }
}
#endif

#if RNN_TRAINING
#include "cuda/cross_entropy.cuh"
#include "cuda/moves.cuh"
#endif
