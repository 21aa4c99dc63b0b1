// Default numbers for generate_cluster.cu compiled alone: those of generate.cu, in bfloat16.
#include "cuda/default_generate.cuh"

#undef RNN_PRECISION
#define RNN_PRECISION 2
#define RNN_DRAW_WARPS 5
#define RNN_DRAW_TILES 1
