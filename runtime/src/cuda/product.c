/* Products: see product.h. */
#include "product.h"

#include "launch.h"

enum { THREADS = 256, BLOCKS_MAX = 4096, VECTOR_BYTES = 16 };
enum { SM_COUNT = 132 }; ///< of a large GPU

/// Blocks of templates/cuda/tiled_product.cuh: rows, values of K, rows that rnn_tile makes a CTA.
enum { BLOCK_ROWS = 64, BLOCK_DEPTH = 64, TILE_ROWS = 8 };

/// A shape of the kernels: the tile of a CTA; of blocks also its slices in shared memory.
typedef struct {
    int rows, columns, slots;
} Tile;
static const Tile tile_many = {128, 128, 3}, tile_few = {32, 64, 8};

static int64_t tiles(int64_t size, int64_t tile)
{
    return (size + tile - 1) / tile;
}

static int64_t operand_bytes(rnnc_precision precision)
{
    return precision == RNNC_BFLOAT16 || precision == RNNC_FLOAT16 ? 2 : 4;
}

int64_t rnnc_cuda_padded(rnnc_precision precision, int64_t count)
{
    const int64_t vector = VECTOR_BYTES / operand_bytes(precision);
    return tiles(count, vector) * vector;
}

/// Planes of 16 bits: float32 is split in two.
static int64_t planes(const rnnc_cuda_product *product)
{
    return product->precision == RNNC_FLOAT32 ? 2 : 1;
}

/// Blocks of `rows`, an even number of them, and a factor for each row.
static int64_t block_bytes(const rnnc_cuda_product *product, int64_t rows)
{
    const int64_t blocks =
        tiles(rows, (int64_t)2 * BLOCK_ROWS) * 2 * tiles(product->depth, BLOCK_DEPTH);
    return blocks * planes(product) * BLOCK_ROWS * BLOCK_DEPTH * 2 + rows * (int64_t)sizeof(float);
}

/// Warps that multiply: four for 64 columns; and one that copies, or four where it gives them its
/// registers.
static unsigned threads_of(const rnnc_cuda_product *product, const Tile *tile)
{
    const unsigned multiply = (unsigned)tile->columns / 64 * 128;
    return multiply + (planes(product) == 2 && tile->rows == 128 ? 128 : 32);
}

static unsigned shared_bytes(const rnnc_cuda_product *product, const Tile *tile)
{
    const int64_t slot = planes(product) * (tile->rows + tile->columns) * BLOCK_DEPTH * 2;
    return (unsigned)(tile->slots * slot + 1024);
}

static CUresult allow_shared_memory(const rnnc_cuda_product *product)
{
    const rnnc_cuda_driver *cuda = product->cuda;
    const int attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    const CUresult result =
        cuda->cuFuncSetAttribute(product->many, attribute, (int)shared_bytes(product, &tile_many));
    return result ? result
                  : cuda->cuFuncSetAttribute(product->few, attribute,
                                             (int)shared_bytes(product, &tile_few));
}

/// Allocates and zeroes: padding is read.
static CUresult allocate(const rnnc_cuda_product *product, int64_t bytes, CUdeviceptr *to)
{
    if (bytes == 0)
        return 0;
    const CUresult result = product->cuda->cuMemAlloc(to, (size_t)bytes);
    return result ? result : product->cuda->cuMemsetD8Async(*to, 0, (size_t)bytes, product->stream);
}

CUresult rnnc_cuda_product_open(rnnc_cuda_product *product, CUmodule image, const char *many,
                                const char *few, int64_t max_rows)
{
    const rnnc_cuda_driver *cuda = product->cuda;
    CUresult result = cuda->cuModuleGetFunction(&product->convert, image, "rnn_convert");
    if (!result)
        result = cuda->cuModuleGetFunction(&product->many, image, many);
    if (!result)
        result = cuda->cuModuleGetFunction(&product->few, image, few);
    if (result || product->columns == 0)
        return result;
    if (cuda->cuModuleGetFunction(&product->tile, image, "rnn_tile")) {
        product->tile = NULL;
        return allocate(product,
                        product->columns * rnnc_cuda_padded(product->precision, product->depth) *
                            operand_bytes(product->precision),
                        &product->W);
    }
    result = allow_shared_memory(product);
    if (!result)
        result = allocate(product, block_bytes(product, product->columns), &product->W);
    if (!result)
        result = allocate(product, block_bytes(product, max_rows), &product->blocks);
    return result;
}

void rnnc_cuda_product_close(rnnc_cuda_product *product)
{
    if (product->W)
        product->cuda->cuMemFree(product->W);
    if (product->blocks)
        product->cuda->cuMemFree(product->blocks);
    product->W = product->blocks = 0;
}

/// RnnTiling of templates/cuda/tiled_product.cuh: rows as of rnnc_cuda_rows become blocks.
typedef struct {
    const void *from;
    CUdeviceptr blocks;
    long long rows, timesteps, row_stride, step_stride;
    int depth;
} Tiling;

static CUresult launch_tiling(const rnnc_cuda_product *product, CUstream stream, Tiling *tiling)
{
    void *arguments[] = {tiling};
    return product->cuda->cuLaunchKernel(product->tile, (unsigned)tiles(tiling->rows, TILE_ROWS), 1,
                                         1, 32 * TILE_ROWS, 1, 1, 0, stream, arguments, NULL);
}

static CUresult narrow(const rnnc_cuda_product *product, CUdeviceptr wide)
{
    if (!product->tile)
        return rnnc_cuda_convert(product->cuda, product->stream, product->convert, wide, 0,
                                 product->W, product->columns, product->depth, product->depth);
    Tiling tiling = {.from = (const void *)(uintptr_t)wide,
                     .blocks = product->W,
                     .rows = product->columns,
                     .timesteps = product->columns,
                     .row_stride = product->columns * product->depth,
                     .step_stride = product->depth,
                     .depth = (int)product->depth};
    return launch_tiling(product, product->stream, &tiling);
}

CUresult rnnc_cuda_product_set(const rnnc_cuda_product *product, const float *W)
{
    const rnnc_cuda_driver *cuda = product->cuda;
    const size_t bytes = (size_t)(product->columns * product->depth) * sizeof(float);
    CUdeviceptr wide = 0;
    if (bytes == 0)
        return 0;
    CUresult result = cuda->cuMemAlloc(&wide, bytes);
    if (!result)
        result = rnnc_cuda_write(cuda, product->stream, wide, W, bytes);
    if (!result)
        result = narrow(product, wide);
    if (!result)
        result = cuda->cuStreamSynchronize(product->stream);
    if (wide)
        cuda->cuMemFree(wide);
    return result;
}

CUresult rnnc_cuda_product_run(const rnnc_cuda_product *product, CUstream stream,
                               const rnnc_cuda_rows *rows, int64_t written)
{
    const int64_t row_tiles = tiles(rows->rows, tile_many.rows);
    const bool fills = row_tiles * tiles(written, tile_many.columns) * 4 >= SM_COUNT * 3;
    const Tile *tile = fills ? &tile_many : &tile_few;
    const CUfunction function = fills ? product->many : product->few;
    const unsigned down = (unsigned)tiles(rows->rows, tile->rows);
    const unsigned across = (unsigned)tiles(written, tile->columns);
    rnnc_cuda_rows call = *rows;
    void *arguments[] = {&call};
    call.W = product->W;
    if (rows->rows == 0 || written == 0)
        return 0;
    if (!product->tile)
        return product->cuda->cuLaunchKernel(function, down, across, 1, THREADS, 1, 1, 0, stream,
                                             arguments, NULL);
    Tiling tiling = {rows->x,
                     product->blocks,
                     rows->rows,
                     rows->timesteps,
                     rows->x_row_stride,
                     rows->x_step_stride,
                     (int)product->depth};
    const CUresult result = launch_tiling(product, stream, &tiling);
    call.x = (const void *)(uintptr_t)product->blocks;
    CUlaunchAttribute early = rnnc_cuda_early(); // what has rnn_tile is of sm_90a, and waits
    const CUlaunchConfig launch = {.gridDimX = down * across,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = threads_of(product, tile),
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = shared_bytes(product, tile),
                                   .hStream = stream,
                                   .attrs = &early,
                                   .numAttrs = 1};
    return result ? result : product->cuda->cuLaunchKernelEx(&launch, function, arguments, NULL);
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
