// Default numbers for generate.cu compiled alone: two layers of the default cell, 66 tokens.
#include "cuda/default_cell.cuh"

#undef RNN_PHASE_COUNT
#undef RNN_PHASE_ROWS
#define RNN_PHASE_COUNT 2
#define RNN_PHASE_ROWS                                                                             \
    {RNN_MATRIX_R, 8, {0, 1, 2, 3, 0, 1, 2, 3}, 1, 0, 64, 64, 0x1, 0x0, 1, {0}},                   \
        {RNN_MATRIX_R, 4, {0, 1, 2, 3}, 1, 1, 64, 64, 0x2, 0x0, 1, {0}},
#define RNN_RECURRENT_ROWS 4
#define RNN_VOCABULARY 66
#define RNN_MORE_ROWS 32
#define RNN_SETS 2
#define RNN_TABLE_SHARED 1
