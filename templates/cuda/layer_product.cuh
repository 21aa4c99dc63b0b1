// The product of a layer, in two shapes of tiles that give the same bits: many fills the GPU by
// many rows, few by few. It goes by blocks (tiled_product.cuh) where the GPU has wgmma and the stub
// says that K is worth a launch more (RNN_BLOCKS), else as x and W lie (product.cuh). An image
// never has both; the host sees which by rnn_tile.
#ifndef RNN_LAYER_PRODUCT_CUH
#define RNN_LAYER_PRODUCT_CUH

#include "cuda/product.cuh"

#ifndef RNN_WGMMA
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define RNN_WGMMA 1
#else
#define RNN_WGMMA 0
#endif
#endif

#if RNN_WGMMA && RNN_BLOCKS
#include "cuda/tiled_product.cuh"

typedef RnnTileSizes<2, 128, 3> RnnManyTile;
typedef RnnTileSizes<1, 32, 8> RnnFewTile;
#define RNN_MANY_BOUNDS __launch_bounds__(RnnManyTile::threads, RNN_PLANES == 1 ? 2 : 1)
#define RNN_FEW_BOUNDS __launch_bounds__(RnnFewTile::threads)

template <int K, int Width, int Written, class Finish>
RNN_INLINE void rnn_multiply_many(const RnnProduct &call, Finish finish)
{
    rnn_multiply_tiles<2, 128, 3>(call, K, Width, Written, finish);
}
template <int K, int Width, int Written, class Finish>
RNN_INLINE void rnn_multiply_few(const RnnProduct &call, Finish finish)
{
    rnn_multiply_tiles<1, 32, 8>(call, K, Width, Written, finish);
}
#else
#define RNN_MANY_BOUNDS __launch_bounds__(RNN_PRODUCT_THREADS, 2)
#define RNN_FEW_BOUNDS __launch_bounds__(RNN_PRODUCT_THREADS)

template <int K, int Width, int Written, class Finish>
RNN_INLINE void rnn_multiply_many(const RnnProduct &call, Finish finish)
{
    rnn_multiply_rows<128, 128, K, Width, Written>(call, finish);
}
template <int K, int Width, int Written, class Finish>
RNN_INLINE void rnn_multiply_few(const RnnProduct &call, Finish finish)
{
    rnn_multiply_rows<32, 64, K, Width, Written>(call, finish);
}
#endif

#endif
