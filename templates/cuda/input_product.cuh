// W*x of all steps, [rows, RNN_INPUT_STRIDE]: one launch before the recurrence, by the tile of
// product.cuh. Two shapes with the same bits: 128 x 128 where that fills the GPU, else 32 x 64.
#ifndef RNN_INPUT_PRODUCT_CUH
#define RNN_INPUT_PRODUCT_CUH

#include "cuda/product.cuh"

template <int Rows, int Columns> RNN_INLINE void rnn_multiply_input(const RnnProduct &call)
{
    rnn_multiply_rows<Rows, Columns, RNN_INPUTS, RNN_GATES * RNN_UNITS, RNN_INPUT_STRIDE>(
        call, [](int, float sum) { return sum; });
}

extern "C" __global__ void __launch_bounds__(256, 2) rnn_input(const RnnProduct call)
{
    rnn_multiply_input<128, 128>(call);
}

extern "C" __global__ void __launch_bounds__(256) rnn_input_few(const RnnProduct call)
{
    rnn_multiply_input<32, 64>(call);
}

#endif
