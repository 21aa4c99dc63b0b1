// Default numbers for generate_cluster.cu compiled alone: those of generate.cu.
#include "cuda/default_generate.cuh"

#define RNN_DRAW_WARPS 5
#define RNN_DRAW_TILES 1
