/* Launches of products: see product.h. */
#include "product.h"

enum { THREADS = 256, BLOCKS_MAX = 4096, VECTOR_BYTES = 16 };
enum { SM_COUNT = 132 }; ///< CTAs that a launch should have, of a large GPU

/// Tiles of the two shapes in templates/cuda.
typedef struct {
    int rows, columns;
} Tile;
static const Tile tile_many = {128, 128}, tile_few = {32, 64};

int64_t rnnc_cuda_padded(rnnc_precision precision, int64_t count)
{
    const bool narrow = precision == RNNC_BFLOAT16 || precision == RNNC_FLOAT16;
    const int64_t vector = VECTOR_BYTES / (narrow ? 2 : 4);
    return (count + vector - 1) / vector * vector;
}

static int64_t tiles(int64_t size, int tile)
{
    return (size + tile - 1) / tile;
}

CUresult rnnc_cuda_multiply(const rnnc_cuda_driver *cuda, CUstream stream, CUfunction many,
                            CUfunction few, const rnnc_cuda_product *product, int64_t columns)
{
    const bool fills =
        tiles(product->rows, tile_many.rows) * tiles(columns, tile_many.columns) >= SM_COUNT;
    const Tile *tile = fills ? &tile_many : &tile_few;
    rnnc_cuda_product call = *product;
    void *arguments[] = {&call};
    if (product->rows == 0 || columns == 0)
        return 0;
    return cuda->cuLaunchKernel(fills ? many : few, (unsigned)tiles(product->rows, tile->rows),
                                (unsigned)tiles(columns, tile->columns), 1, THREADS, 1, 1, 0,
                                stream, arguments, NULL);
}

CUresult rnnc_cuda_convert(const rnnc_cuda_driver *cuda, CUstream stream, CUfunction convert,
                           CUdeviceptr from, CUdeviceptr scale, CUdeviceptr to, int64_t rows,
                           int64_t columns, int64_t block)
{
    const int64_t wanted = (rows * columns + THREADS - 1) / THREADS;
    const unsigned blocks = (unsigned)(wanted < BLOCKS_MAX ? wanted : BLOCKS_MAX);
    long long row_count = rows;
    int column_count = (int)columns, block_size = (int)block;
    void *arguments[] = {&from, &scale, &to, &row_count, &column_count, &block_size};
    if (wanted == 0)
        return 0;
    return cuda->cuLaunchKernel(convert, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL);
}
