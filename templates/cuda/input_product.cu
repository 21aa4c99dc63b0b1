// The image of a cell layer that all its variants share: W*x of all steps, [rows,
// RNN_INPUT_STRIDE], one launch before the recurrence by the tile of product.cuh, and the narrowing
// of weights. Two shapes with the same bits: 128 x 128 where that fills the GPU, else 32 x 64.
// It knows sizes and precision but not the cell, so that layers of one shape share it.
//
//     nvcc -std=c++17 -arch=sm_90 -Itemplates -Xptxas -v -cubin templates/cuda/input_product.cu
#include "cuda/prelude.cuh"
#include "cuda/product.cuh"

#ifndef RNN_COLUMNS
#define RNN_INPUTS 64
#define RNN_COLUMNS 256 // gates * units
#define RNN_INPUT_STRIDE 256
#endif

template <int Rows, int Columns> RNN_INLINE void rnn_multiply_input(const RnnProduct &call)
{
    rnn_multiply_rows<Rows, Columns, RNN_INPUTS, RNN_COLUMNS, RNN_INPUT_STRIDE>(
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
