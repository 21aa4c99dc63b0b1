/* cuBLAS: see blas.h. The library counts columns first: what it is given is the product of the
 * turned matrices, c^T = b^T * a^T. */
#include "blas.h"

#include <pthread.h>
#include <string.h>

#include "../memory.h"
#include "library.h"

typedef struct cublasContext *BlasHandle;
typedef struct {
#define BLAS_SYMBOL(name, parameters) int(*name) parameters;
#include "blas_symbols.def"
#undef BLAS_SYMBOL
} BlasLibrary;

enum { BLAS_ALLOC_FAILED = 3, BLAS_FLOAT = 0, BLAS_KEEP = 0, BLAS_TURN = 1 };
enum { BLAS_COMPUTE_FLOAT = 68, BLAS_COMPUTE_TF32 = 77, BLAS_ANY_ALGORITHM = -1 };
enum { WORKSPACE_BYTES = 32 << 20, OUT_OF_MEMORY = 2 }; /* what cuBLAS recommends for Hopper */

struct rnnc_cuda_blas {
    rnnc_cuda_blas_options options;
    BlasHandle handle;
    CUdeviceptr workspace, ones;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static BlasLibrary library;
static int is_open;
static char failure[RNNC_REASON_BYTES];

static const rnnc_symbol symbols[] = {
#define BLAS_SYMBOL(name, parameters) {#name, offsetof(BlasLibrary, name), 0},
#include "blas_symbols.def"
#undef BLAS_SYMBOL
};

static void open_library(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", NULL};
    is_open = rnnc_library_open("cuBLAS 13 or 12", names, symbols,
                                sizeof symbols / sizeof symbols[0], &library, failure);
}

static rnnc_status check(const rnnc_cuda_blas *blas, int result, const char *doing)
{
    if (!result)
        return RNNC_OK;
    return rnnc_error_set(blas->options.error,
                          result == BLAS_ALLOC_FAILED ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
                          "cuBLAS, %s: status %d", doing, result);
}

static rnnc_status check_driver(const rnnc_cuda_blas *blas, CUresult result)
{
    const char *words = NULL;
    if (!result)
        return RNNC_OK;
    blas->options.cuda->cuGetErrorString(result, &words);
    return rnnc_error_set(blas->options.error,
                          result == OUT_OF_MEMORY ? RNNC_OUT_OF_MEMORY : RNNC_DEVICE_ERROR,
                          "CUDA, preparing cuBLAS' memory: %s", words ? words : "unknown error");
}

/* The vector of ones that sums are products with, and the workspace: with one of ours, products
 * can be captured into graphs without allocating. */
static rnnc_status allocate(rnnc_cuda_blas *blas)
{
    static const float one = 1.0f;
    const rnnc_cuda_driver *cuda = blas->options.cuda;
    const size_t rows = (size_t)(blas->options.max_rows ? blas->options.max_rows : 1);
    unsigned bits;
    memcpy(&bits, &one, sizeof bits);
    CUresult result = cuda->cuMemAlloc(&blas->workspace, WORKSPACE_BYTES);
    if (!result)
        result = cuda->cuMemAlloc(&blas->ones, rows * sizeof(float));
    if (!result)
        result = cuda->cuMemsetD32Async(blas->ones, bits, rows, blas->options.stream);
    return check_driver(blas, result);
}

rnnc_status rnnc_cuda_blas_open(const rnnc_cuda_blas_options *options, rnnc_cuda_blas **out_blas)
{
    *out_blas = NULL;
    pthread_once(&once, open_library);
    if (!is_open)
        return rnnc_error_set(options->error, RNNC_UNAVAILABLE, "training on CUDA: %s", failure);
    rnnc_cuda_blas *blas = rnnc_memory_alloc(sizeof *blas);
    if (!blas)
        return rnnc_error_set(options->error, RNNC_OUT_OF_MEMORY, "no memory for the device");
    blas->options = *options;
    rnnc_status status = check(blas, library.cublasCreate_v2(&blas->handle), "opening");
    if (status == RNNC_OK)
        status = allocate(blas);
    if (status == RNNC_OK)
        status = check(blas, library.cublasSetStream_v2(blas->handle, options->stream),
                       "taking the session's stream");
    if (status == RNNC_OK)
        status = check(
            blas,
            library.cublasSetWorkspace_v2(blas->handle, (void *)blas->workspace, WORKSPACE_BYTES),
            "taking a workspace");
    if (status == RNNC_OK)
        *out_blas = blas;
    else
        rnnc_cuda_blas_close(blas);
    return status;
}

void rnnc_cuda_blas_close(rnnc_cuda_blas *blas)
{
    if (!blas)
        return;
    if (blas->handle)
        library.cublasDestroy_v2(blas->handle);
    if (blas->workspace)
        blas->options.cuda->cuMemFree(blas->workspace);
    if (blas->ones)
        blas->options.cuda->cuMemFree(blas->ones);
    rnnc_memory_free(blas);
}

rnnc_status rnnc_cuda_blas_multiply(const rnnc_cuda_blas *blas, const rnnc_cuda_gemm *gemm)
{
    const float alpha = 1.0f, beta = gemm->adds ? 1.0f : 0.0f;
    const int compute =
        blas->options.precision == RNNC_FLOAT32 ? BLAS_COMPUTE_FLOAT : BLAS_COMPUTE_TF32;
    return check(blas,
                 library.cublasGemmStridedBatchedEx_64(
                     blas->handle, gemm->turns_b ? BLAS_TURN : BLAS_KEEP,
                     gemm->turns_a ? BLAS_TURN : BLAS_KEEP, gemm->n, gemm->m, gemm->k, &alpha,
                     gemm->b, BLAS_FLOAT, gemm->b_stride, gemm->b_apart, gemm->a, BLAS_FLOAT,
                     gemm->a_stride, gemm->a_apart, &beta, gemm->c, BLAS_FLOAT, gemm->c_stride,
                     gemm->c_apart, gemm->heads ? gemm->heads : 1, compute, BLAS_ANY_ALGORITHM),
                 "multiplying");
}

rnnc_status rnnc_cuda_blas_sum(const rnnc_cuda_blas *blas, const float *a, int64_t rows,
                               int64_t columns, int64_t stride, float *sums)
{
    const float one = 1.0f;
    return check(blas,
                 library.cublasSgemv_v2_64(blas->handle, BLAS_KEEP, columns, rows, &one, a, stride,
                                           (const float *)blas->ones, 1, &one, sums, 1),
                 "summing");
}
