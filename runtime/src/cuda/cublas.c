/* cuBLAS: see cublas.h. */
#include "cublas.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include "../memory.h"
#include "library.h"

typedef struct cublasContext *CublasHandle;

typedef struct {
#define CUBLAS_SYMBOL(name, exported, parameters) int(*name) parameters;
#include "cublas_symbols.def"
#undef CUBLAS_SYMBOL
} CublasLibrary;

struct rnnc_cublas {
    const rnnc_cuda_driver *cuda;
    CublasHandle handle;
    CUdeviceptr workspace;
    rnnc_error *error;
};

enum { OP_N = 0, OP_T = 1, GEMM_DEFAULT = -1, COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77 };
enum { REAL_32F = 0, REAL_16F = 2, REAL_16BF = 14 };
enum { WORKSPACE_BYTES = 32 << 20, ROWS_AT_ONCE = 1 << 24 };

static const struct {
    int type, compute;
    size_t bytes;
} precisions[] = {
    [RNNC_FLOAT32] = {REAL_32F, COMPUTE_32F, 4},
    [RNNC_TF32] = {REAL_32F, COMPUTE_32F_FAST_TF32, 4},
    [RNNC_BFLOAT16] = {REAL_16BF, COMPUTE_32F, 2},
    [RNNC_FLOAT16] = {REAL_16F, COMPUTE_32F, 2},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CublasLibrary library;
static int is_open;
static char failure[RNNC_REASON_BYTES];

static const rnnc_symbol symbols[] = {
#define CUBLAS_SYMBOL(name, exported, parameters) {#exported, offsetof(CublasLibrary, name), 0},
#include "cublas_symbols.def"
#undef CUBLAS_SYMBOL
};

static void open_library(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", NULL};
    is_open = rnnc_library_open("cuBLAS 12 or 13", names, symbols,
                                sizeof symbols / sizeof symbols[0], &library, failure);
}

rnnc_status rnnc_cublas_open(const rnnc_cuda_driver *cuda, CUstream stream, rnnc_error *error,
                             rnnc_cublas **out_cublas)
{
    *out_cublas = NULL;
    pthread_once(&once, open_library);
    if (!is_open)
        return rnnc_error_set(error, RNNC_UNAVAILABLE, "%s", failure);
    rnnc_cublas *cublas = rnnc_memory_alloc(sizeof *cublas);
    if (!cublas)
        return rnnc_error_set(error, RNNC_OUT_OF_MEMORY, "no memory for cuBLAS");
    cublas->cuda = cuda;
    cublas->error = error;
    int status = library.cublasCreate(&cublas->handle);
    if (!status)
        status = library.cublasSetStream(cublas->handle, stream);
    if (!status)
        status = cuda->cuMemAlloc(&cublas->workspace, WORKSPACE_BYTES);
    if (!status)
        status =
            library.cublasSetWorkspace(cublas->handle, (void *)cublas->workspace, WORKSPACE_BYTES);
    if (status) {
        rnnc_cublas_close(cublas);
        return rnnc_error_set(error, RNNC_DEVICE_ERROR, "cuBLAS cannot be started here (%d)",
                              status);
    }
    *out_cublas = cublas;
    return RNNC_OK;
}

void rnnc_cublas_close(rnnc_cublas *cublas)
{
    if (!cublas)
        return;
    if (cublas->handle)
        library.cublasDestroy(cublas->handle);
    if (cublas->workspace)
        cublas->cuda->cuMemFree(cublas->workspace);
    rnnc_memory_free(cublas);
}

/// In cuBLAS's column-major terms: y^T [columns, rows] = (w^T)^T [columns, depth] * x^T.
rnnc_status rnnc_cublas_multiply(rnnc_cublas *cublas, rnnc_precision precision, CUdeviceptr x,
                                 int64_t x_stride, CUdeviceptr w, int64_t w_stride, float beta,
                                 CUdeviceptr y, int64_t y_stride, int64_t rows, int64_t columns,
                                 int64_t depth)
{
    const float one = 1.0f;
    const int type = precisions[precision].type;
    int status = 0;
    for (int64_t done = 0; done < rows && !status; done += ROWS_AT_ONCE) {
        const int part = (int)(rows - done < ROWS_AT_ONCE ? rows - done : ROWS_AT_ONCE);
        const CUdeviceptr from = x + (CUdeviceptr)(done * x_stride) * precisions[precision].bytes;
        const CUdeviceptr to = y + (CUdeviceptr)(done * y_stride) * sizeof(float);
        status = library.cublasGemmEx(
            cublas->handle, OP_T, OP_N, (int)columns, part, (int)depth, &one, (const void *)w, type,
            (int)w_stride, (const void *)from, type, (int)x_stride, &beta, (void *)to, REAL_32F,
            (int)y_stride, precisions[precision].compute, GEMM_DEFAULT);
    }
    return status ? rnnc_error_set(cublas->error, RNNC_DEVICE_ERROR,
                                   "cuBLAS: a product of %lld x %lld x %lld failed (%d)",
                                   (long long)rows, (long long)columns, (long long)depth, status)
                  : RNNC_OK;
}
