// The image of a cell layer that all its variants share: W*x of all steps, [rows,
// RNN_INPUT_STRIDE], before the recurrence, by layer_product.cuh, and the narrowing of weights.
// It knows sizes and precision but not the cell, so that layers of one shape share it.
//
//     nvcc -std=c++17 -arch=sm_90a -Itemplates -Xptxas -v -cubin templates/cuda/input_product.cu
#include "cuda/prelude.cuh"
#include "cuda/prim/early.cuh"

#ifndef RNN_COLUMNS
#define RNN_INPUTS 512
#define RNN_BLOCKS 1
#define RNN_COLUMNS 2048 // gates * units
#define RNN_INPUT_STRIDE 2048
#endif
#include "cuda/layer_product.cuh"

extern "C" __global__ void RNN_MANY_BOUNDS rnn_input(const RnnProduct call)
{
    rnn_grid_launch_next();
    rnn_multiply_many<RNN_INPUTS, RNN_COLUMNS, RNN_INPUT_STRIDE>(
        call, [](int, float sum) { return sum; });
}

extern "C" __global__ void RNN_FEW_BOUNDS rnn_input_few(const RnnProduct call)
{
    rnn_grid_launch_next();
    rnn_multiply_few<RNN_INPUTS, RNN_COLUMNS, RNN_INPUT_STRIDE>(call,
                                                                [](int, float sum) { return sum; });
}
