// Variant loop: the loop of launches that a framework makes of a recurrent layer, with the six
// optimisations that NVIDIA shows cuDNN 5 by (J. Appleyard, "Optimizing Recurrent Neural Networks
// in cuDNN 5", 2016; arXiv:1604.01946). It is there to be compared with, and never chosen. Which
// of these kernels a step takes is the host's (runtime/src/cuda/loop.c):
//
//     W*x  rnn_input_gate        one gate   weights [K, columns], turned on their way into
//          rnn_input_gates       all gates  shared memory in each launch
//          rnn_input_rows        all gates  weights [columns, K], turned once, when they were set
//     R*h  rnn_recurrent_gate, _gates, _rows: the same
//     and  rnn_operation         once for each operation of the cell's equations, then rnn_store
//          rnn_fused             all of them at once
//
// Data placement: products, W*x of all steps, states and, without fusion, the value of every
// operation are in device memory. The products are those of product.cuh, 32 rows by 64 columns a
// CTA, narrowed to the module's precision on their way; pointwise kernels take a unit a thread.
// One launch follows another: no barrier, no shared memory between them.
//
// Floor: some 2 us a launch. Limits: cells of one phase, without layer_norm, heads or masks.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/loop.cu
#include "cuda/cell.cuh"
#include "cuda/product.cuh"

#ifndef RNN_OPERATIONS
#include "cuda/default_operations.cuh"
#endif

enum {
    RNN_LOOP_ROWS = 32,
    RNN_LOOP_COLUMNS = 64,
    RNN_LOOP_THREADS = 256,
    RNN_LOOP_GATES = rnn_phases[0].row_count, // of R
    RNN_LOOP_DEPTH = rnn_phases[0].operand_size
};

/// What the pointwise kernels are given for one step; all device memory.
struct RnnLoopStep {
    const float *input;                             ///< W*x: [B, T, RNN_INPUT_STRIDE]
    const float *product;                           ///< R*h: [B, gates of R, H]
    const float *bias, *recurrent_bias, *parameter; ///< [gates, H]; NULL: none
    float *states[RNN_STATES_MAX];                  ///< [B, H], updated in place
    float *values;                                  ///< [operation, B, H]
    float *y;
    long long batch, timesteps, step, y_row_stride, y_step_stride;
};

/// Weights as [K, Pitch]: what lies K apart is put side by side, four bytes a thread and turn,
/// through registers.
template <int K, int Width, int Pitch> struct RnnTurnedWeights {
    enum {
        pair = 4 / sizeof(rnn_operand), // values of K in four bytes
        words = RNN_SLICE_BYTES / 4,
        count = RNN_LOOP_COLUMNS * words / RNN_PRODUCT_THREADS
    };
    const rnn_operand *W;
    int first;
    rnn_operand held[count][pair];

    RNN_MEMBER void start(int slice, unsigned char *)
    {
#pragma unroll
        for (int i = 0; i < count; i++) {
            const int at = i * RNN_PRODUCT_THREADS + (int)threadIdx.x;
            const int column = first + at % RNN_LOOP_COLUMNS;
            const int k = slice * RNN_SLICE + at / RNN_LOOP_COLUMNS * pair;
#pragma unroll
            for (int e = 0; e < pair; e++)
                held[i][e] = column < Width && k + e < K
                                 ? __ldg(W + (long long)(k + e) * Pitch + column)
                                 : (rnn_operand)0;
        }
    }
    RNN_MEMBER void finish(unsigned char *to) const
    {
#pragma unroll
        for (int i = 0; i < count; i++) {
            const int at = i * RNN_PRODUCT_THREADS + (int)threadIdx.x;
            const int word = at / RNN_LOOP_COLUMNS;
            void *const there = to + rnn_chunk_at(at % RNN_LOOP_COLUMNS, word / 4) + word % 4 * 4;
            if constexpr (pair == 2)
                *(unsigned *)there = held[i][0] | (unsigned)held[i][1] << 16;
            else
                *(rnn_operand *)there = held[i][0];
        }
    }
};

/// `Columns` columns of a matrix that has `All`, from those that call.W begins with.
template <int K, int Columns, int All> RNN_INLINE void rnn_multiply_turned(const RnnProduct &call)
{
    using Weights = RnnTurnedWeights<K, Columns, rnn_padded(All)>;
    rnn_multiply_rows<RNN_LOOP_ROWS, RNN_LOOP_COLUMNS, K, Columns, Columns, Weights>(
        call, [](int, float sum) { return sum; });
}
template <int K, int Columns> RNN_INLINE void rnn_multiply_whole(const RnnProduct &call)
{
    rnn_multiply_rows<RNN_LOOP_ROWS, RNN_LOOP_COLUMNS, K, Columns, Columns>(
        call, [](int, float sum) { return sum; });
}

#define RNN_LOOP_PRODUCTS(name, K, gates)                                                          \
    extern "C" __global__ void __launch_bounds__(RNN_PRODUCT_THREADS)                              \
        name##_gate(const RnnProduct call)                                                         \
    {                                                                                              \
        rnn_multiply_turned<K, RNN_UNITS, (gates)*RNN_UNITS>(call);                                \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(RNN_PRODUCT_THREADS)                              \
        name##_gates(const RnnProduct call)                                                        \
    {                                                                                              \
        rnn_multiply_turned<K, (gates)*RNN_UNITS, (gates)*RNN_UNITS>(call);                        \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(RNN_PRODUCT_THREADS)                              \
        name##_rows(const RnnProduct call)                                                         \
    {                                                                                              \
        rnn_multiply_whole<K, (gates)*RNN_UNITS>(call);                                            \
    }
RNN_LOOP_PRODUCTS(rnn_input, RNN_INPUTS, RNN_GATES)
RNN_LOOP_PRODUCTS(rnn_recurrent, RNN_LOOP_DEPTH, RNN_LOOP_GATES)

/// Values of one unit, `apart` from one another; none where `first` is NULL.
struct RnnColumn {
    const float *first;
    long long apart;

    RNN_MEMBER float operator[](int index) const
    {
        return first ? first[index * apart] : 0.0f;
    }
};

/// One unit of one row: where it reads, and its number in the batch.
struct RnnLoopUnit {
    long long row, at;
    int unit;
    RnnColumn input, product, bias, recurrent_bias, parameter, value;
    const RnnLoopStep &step;

    RNN_MEMBER RnnLoopUnit(const RnnLoopStep &of)
        : at((long long)blockIdx.x * RNN_LOOP_THREADS + threadIdx.x), step(of)
    {
        row = at / RNN_UNITS;
        unit = (int)(at % RNN_UNITS);
        input = {of.input + (row * of.timesteps + time()) * RNN_INPUT_STRIDE + unit, RNN_UNITS};
        product = {of.product + row * RNN_LOOP_GATES * RNN_UNITS + unit, RNN_UNITS};
        bias = {of.bias ? of.bias + unit : nullptr, RNN_UNITS};
        recurrent_bias = {of.recurrent_bias ? of.recurrent_bias + unit : nullptr, RNN_UNITS};
        parameter = {of.parameter ? of.parameter + unit : nullptr, RNN_UNITS};
        value = {of.values + at, of.batch * RNN_UNITS};
    }
    RNN_MEMBER bool is_there() const
    {
        return at < step.batch * RNN_UNITS;
    }
    RNN_MEMBER long long time() const
    {
        return RNN_REVERSED ? step.timesteps - 1 - step.step : step.step;
    }
    RNN_MEMBER void store(const float *next) const
    {
        const long long position = RNN_GO_BACKWARDS ? step.timesteps - 1 - time() : time();
#pragma unroll
        for (int i = 0; i < RNN_STATES; i++)
            step.states[i][at] = next[i];
        if (RNN_SEQUENCE_OUT || step.step == step.timesteps - 1)
            step.y[row * step.y_row_stride +
                   (RNN_SEQUENCE_OUT ? position * step.y_step_stride : 0) + unit] = next[0];
    }
};

/// Old states of a unit, indexed as the generated function does.
struct RnnLoopStates {
    const RnnLoopUnit &of;

    RNN_MEMBER float operator[](int index) const
    {
        return of.step.states[index][of.at];
    }
};

extern "C" __global__ void __launch_bounds__(RNN_LOOP_THREADS)
    rnn_operation(const RnnLoopStep step, const int number)
{
    const RnnLoopUnit of(step);
    if (of.is_there())
        step.values[number * step.batch * RNN_UNITS + of.at] =
            rnn_operate(number, of.input, of.product, of.bias, of.recurrent_bias, of.parameter,
                        RnnLoopStates{of}, of.value);
}

extern "C" __global__ void __launch_bounds__(RNN_LOOP_THREADS) rnn_store(const RnnLoopStep step)
{
    constexpr int results[] = {RNN_RESULTS};
    const RnnLoopUnit of(step);
    float next[RNN_STATES];
    if (!of.is_there())
        return;
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        next[i] = of.value[results[i]];
    of.store(next);
}

template <int Count> RNN_INLINE void rnn_take(const RnnColumn &from, float (&to)[Count], int count)
{
#pragma unroll
    for (int i = 0; i < Count; i++)
        to[i] = i < count ? from[i] : 0.0f;
}

extern "C" __global__ void __launch_bounds__(RNN_LOOP_THREADS) rnn_fused(const RnnLoopStep step)
{
    const RnnLoopUnit of(step);
    float input[RNN_GATES], product[RNN_LOOP_GATES], bias[RNN_SOME(RNN_BIASES)];
    float recurrent_bias[RNN_SOME(RNN_RECURRENT_BIASES)], parameter[RNN_SOME(RNN_PARAMETERS)];
    float state[RNN_STATES], next[RNN_STATES];
    if (!of.is_there())
        return;
    rnn_take(of.input, input, RNN_GATES);
    rnn_take(of.product, product, RNN_LOOP_GATES);
    rnn_take(of.bias, bias, RNN_BIASES);
    rnn_take(of.recurrent_bias, recurrent_bias, RNN_RECURRENT_BIASES);
    rnn_take(of.parameter, parameter, RNN_PARAMETERS);
#pragma unroll
    for (int i = 0; i < RNN_STATES; i++)
        state[i] = RnnLoopStates{of}[i];
    rnn_pointwise<0>(input, product, bias, recurrent_bias, parameter, state, nullptr, nullptr,
                     nullptr, next);
    of.store(next);
}

/// For the host: launches of rnn_operation in a step.
extern "C" __device__ int rnn_operation_count[1] = {RNN_OPERATIONS};
