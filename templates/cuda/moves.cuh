// Moves between a caller's arrays [B, T, features] and the order of a layer's steps [T, B,
// features], and the backward passes of layers without weights: what a module for training has
// besides in the image of sequence.cu. One element a thread, the feature innermost, bound by
// memory; each gradient is a sum in one order.
#ifndef RNN_MOVES_CUH
#define RNN_MOVES_CUH

enum { RNN_FAULT_NOT_FINITE = 5 };

/// A layer's steps: how many there are, and which time each takes.
struct RnnSteps {
    const int *order;   ///< [B, T], see rnnc_row; NULL: every row takes all steps
    const RnnRow *rows; ///< [B]
    long long batch, timesteps, width;
    int reversed;
};

/// The time of a step of a row; -1: the row does not take it.
RNN_INLINE long long rnn_time_of(const RnnSteps &steps, long long row, long long step)
{
    if (!steps.order)
        return steps.reversed ? steps.timesteps - 1 - step : step;
    return step < steps.rows[row].steps ? steps.order[row * steps.timesteps + step] : -1;
}

RNN_INLINE long long rnn_at(const RnnArray &array, long long row, long long time, long long feature)
{
    return row * array.row_stride + time * array.step_stride + feature;
}

/// to[step, row] = x[row, time of the step], 0 where the row does not take it.
extern "C" __global__ void rnn_gather(const RnnSteps steps, const RnnArray x, float *to)
{
    const long long count = steps.batch * steps.timesteps * steps.width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, steps.batch, steps.width);
        const long long time = rnn_time_of(steps, of.middle, of.outer);
        to[i] = time < 0 ? 0.0f : x.at[rnn_at(x, of.middle, time, of.inner)];
    }
}

/// x[row, time of the step] = from[step, row], or += it.
extern "C" __global__ void rnn_scatter(const RnnSteps steps, const float *from, const RnnArray x,
                                       int adds)
{
    const long long count = steps.batch * steps.timesteps * steps.width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, steps.batch, steps.width);
        const long long time = rnn_time_of(steps, of.middle, of.outer);
        if (time < 0)
            continue;
        float *to = x.at + rnn_at(x, of.middle, time, of.inner);
        *to = adds ? *to + from[i] : from[i];
    }
}

/// to = from * scale, element by element.
extern "C" __global__ void rnn_scale(const float *from, const float *scale, float *to,
                                     long long count)
{
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads())
        to[i] = from[i] * scale[i];
}

/// x = 0 at all times.
extern "C" __global__ void rnn_clear(const RnnSteps steps, const RnnArray x)
{
    const long long count = steps.batch * steps.timesteps * steps.width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, steps.timesteps, steps.width);
        x.at[rnn_at(x, of.outer, of.middle, of.inner)] = 0.0f;
    }
}

/// Under a mask: folded [B, T, width] (or [B, width] of the last output) = dy, and the dy of masked
/// steps, which repeat an output, added to that of the step that made it. With `zero` masked steps
/// give 0 and no step has a part in them. Only the places of steps are written.
extern "C" __global__ void rnn_fold(const RnnSteps steps, const RnnArray dy, float *folded,
                                    int go_backwards, int zero, int sequence)
{
    const long long T = steps.timesteps, count = steps.batch * (sequence ? T : 1) * steps.width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, sequence ? T : 1, steps.width);
        const RnnRow row = steps.rows[of.outer];
        const int *order = steps.order + of.outer * T;
        if (!sequence) {
            const bool ends = row.steps > 0 && order[row.steps - 1] == (steps.reversed ? 0 : T - 1);
            folded[i] = zero && !ends ? 0.0f : dy.at[rnn_at(dy, of.outer, 0, of.inner)];
            continue;
        }
        if (of.middle >= row.steps)
            continue;
        const bool is_last = of.middle + 1 == row.steps;
        const long long time = order[of.middle], next = is_last ? 0 : order[of.middle + 1];
        long long place = steps.reversed ? T - 1 - time : time; // in the order of processing
        const long long end = zero ? place + 1 : is_last ? T : steps.reversed ? T - 1 - next : next;
        const bool flips = steps.reversed && !go_backwards;
        const long long to = (of.outer * T + (flips ? T - 1 - place : place)) * steps.width;
        float sum = 0.0f;
#pragma unroll 1
        for (; place < end; place++)
            sum += dy.at[rnn_at(dy, of.outer, flips ? T - 1 - place : place, of.inner)];
        folded[to + of.inner] = sum;
    }
}

/// Notes the step and row of a value that is no number or infinite in `found`: of the latest step,
/// which the backward pass comes to first, the first row. 0: none.
extern "C" __global__ void rnn_find(const RnnSteps steps, const RnnArray values,
                                    unsigned long long *found)
{
    const long long count = steps.batch * steps.timesteps * steps.width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, steps.timesteps, steps.width);
        const float value = values.at[rnn_at(values, of.outer, of.middle, of.inner)];
        if (!(value - value == 0.0f))
            atomicMax(found, (unsigned long long)(of.middle + 1) << 32 | (~of.outer & 0xffffffff));
    }
}

/// Reports what rnn_find has noted, and forgets it. One thread.
extern "C" __global__ void rnn_tell(const RnnSteps steps, unsigned long long *found, int layer,
                                    RnnFault *fault)
{
    if (!*found)
        return;
    const long long row = ~*found & 0xffffffff, step = (long long)(*found >> 32) - 1;
    rnn_report(fault, RNN_FAULT_NOT_FINITE, row, rnn_time_of(steps, row, step), layer);
    *found = 0;
}

#if RNN_EMBEDDINGS
/// gradient[token] += dy of all steps that took the token. A CTA a token and 128 columns: each warp
/// goes through a stretch of the steps, and the warps' sums are added in their order.
extern "C" __global__ void __launch_bounds__(256)
    rnn_add_tokens(const RnnSteps steps, const RnnArray dy, const int *tokens,
                   long long token_row_stride, long long token_step_stride, float *gradient)
{
    enum { WARPS = 8, COLUMNS = 4 };
    __shared__ float of_warp[WARPS][32 * COLUMNS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long count = steps.batch * steps.timesteps, first = (long long)blockIdx.y * 128;
    const long long stretch = (count + WARPS - 1) / WARPS, begin = warp * stretch;
    const long long end = begin + stretch < count ? begin + stretch : count;
    float sums[COLUMNS] = {};
#pragma unroll 1
    for (long long at = begin; at < end; at += 32) {
        const long long i = at + lane, row = i / steps.timesteps;
        const bool takes =
            i < end &&
            tokens[row * token_row_stride + (i - row * steps.timesteps) * token_step_stride] ==
                (int)blockIdx.x;
        unsigned left = __ballot_sync(0xffffffff, takes);
#pragma unroll 1
        for (; left; left &= left - 1) {
            const long long taken = at + __ffs((int)left) - 1, of = taken / steps.timesteps;
#pragma unroll
            for (int k = 0; k < COLUMNS; k++)
                if (first + 32 * k + lane < steps.width)
                    sums[k] +=
                        dy.at[rnn_at(dy, of, taken - of * steps.timesteps, first + 32 * k + lane)];
        }
    }
#pragma unroll
    for (int k = 0; k < COLUMNS; k++)
        of_warp[warp][32 * k + lane] = sums[k];
    __syncthreads();
    if (threadIdx.x >= 32 * COLUMNS || first + threadIdx.x >= steps.width)
        return;
    float sum = of_warp[0][threadIdx.x];
#pragma unroll
    for (int w = 1; w < WARPS; w++)
        sum += of_warp[w][threadIdx.x];
    gradient[blockIdx.x * steps.width + first + threadIdx.x] += sum;
}
#endif

#if RNN_MASKINGS
/// What masking has copied gets its gradient; a masked step has no part in y. A warp a step.
extern "C" __global__ void rnn_masking_back(const RnnSteps steps, const RnnArray x,
                                            const RnnArray dy, const RnnArray dx, float value,
                                            int adds)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (long long i = rnn_thread() / 32; i < steps.batch * steps.timesteps;
         i += rnn_threads() / 32) {
        const long long row = i / steps.timesteps, step = i - row * steps.timesteps;
        bool differs = false;
#pragma unroll 1
        for (long long k = lane; k < steps.width; k += 32)
            differs |= !(x.at[rnn_at(x, row, step, k)] == value);
        differs = __any_sync(0xffffffff, differs);
#pragma unroll 1
        for (long long k = lane; k < steps.width; k += 32) {
            float *to = dx.at + rnn_at(dx, row, step, k);
            *to = (adds ? *to : 0.0f) + (differs ? dy.at[rnn_at(dy, row, step, k)] : 0.0f);
        }
    }
}
#endif

#if RNN_MERGES
/// The gradients of both inputs of a merge; x2 lies as x does, and dx2 as dx.
extern "C" __global__ void rnn_merge_back(const RnnSteps steps, const RnnArray x, const float *x2,
                                          const RnnArray dy, const RnnArray dx, float *dx2, int how,
                                          int adds)
{
    const long long count = steps.batch * steps.timesteps * steps.width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, steps.timesteps, steps.width);
        const long long from = rnn_at(x, of.outer, of.middle, of.inner);
        const long long to = rnn_at(dx, of.outer, of.middle, of.inner);
        const float seed = dy.at[rnn_at(dy, of.outer, of.middle, of.inner)];
        const float same = how == RNN_MERGE_AVE ? 0.5f * seed : seed;
        dx.at[to] = (adds ? dx.at[to] : 0.0f) + (how == RNN_MERGE_MUL ? seed * x2[from] : same);
        dx2[to] = (adds ? dx2[to] : 0.0f) + (how == RNN_MERGE_MUL ? seed * x.at[from] : same);
    }
}
#endif

#if RNN_DROPOUTS
/// The draws of the forward pass, drawn again.
extern "C" __global__ void rnn_drop_back(const RnnSteps steps, const RnnArray dy, const RnnArray dx,
                                         const rnn_dropout draw, int per_sequence, int adds)
{
    const long long count = steps.batch * steps.timesteps * steps.width;
#pragma unroll 1
    for (long long i = rnn_thread(); i < count; i += rnn_threads()) {
        const RnnIndex of = rnn_index(i, steps.timesteps, steps.width);
        float *to = dx.at + rnn_at(dx, of.outer, of.middle, of.inner);
        *to = (adds ? *to : 0.0f) + dy.at[rnn_at(dy, of.outer, of.middle, of.inner)] *
                                        rnn_dropout_scale(&draw, (unsigned)of.inner,
                                                          (unsigned)of.outer,
                                                          per_sequence ? 0 : (unsigned)of.middle);
    }
}
#endif

#endif
