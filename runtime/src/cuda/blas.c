/* cuBLAS: see blas.h. */
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

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
static rnnc_cuda_blas_library library;
static int is_open;
static char failure[256];

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define BLAS_SYMBOL(name, exported, parameters) {#exported, offsetof(rnnc_cuda_blas_library, name)},
#include "blas_symbols.def"
#undef BLAS_SYMBOL
};

static void open_library(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    void *handle = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !handle; i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    if (!handle) {
        snprintf(failure, sizeof failure,
                 "cuBLAS is not installed here (neither libcublas.so.13 nor libcublas.so.12)");
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol) {
            snprintf(failure, sizeof failure, "cuBLAS has no %s", symbols[i].name);
            return;
        }
        memcpy((char *)&library + symbols[i].offset, &symbol, sizeof symbol);
    }
    is_open = 1;
}

int rnnc_cuda_blas_open(const rnnc_cuda_driver *cuda, CUstream stream, rnnc_cuda_blas *out,
                        const char **out_reason)
{
    *out = (rnnc_cuda_blas){.library = &library, .cuda = cuda};
    pthread_once(&once, open_library);
    *out_reason = failure;
    if (!is_open)
        return 0;
    *out_reason = "cuBLAS cannot be started on this GPU";
    if (library.cublasCreate(&out->handle))
        return 0;
    if (library.cublasSetStream(out->handle, stream) ||
        cuda->cuMemAlloc(&out->workspace, WORKSPACE_BYTES) ||
        library.cublasSetWorkspace(out->handle, (void *)out->workspace, WORKSPACE_BYTES)) {
        rnnc_cuda_blas_close(out);
        return 0;
    }
    *out_reason = NULL;
    return 1;
}

void rnnc_cuda_blas_close(rnnc_cuda_blas *blas)
{
    if (blas->handle)
        blas->library->cublasDestroy(blas->handle);
    if (blas->workspace)
        blas->cuda->cuMemFree(blas->workspace);
    *blas = (rnnc_cuda_blas){0};
}

size_t rnnc_cuda_operand_bytes(rnnc_precision precision)
{
    return precisions[precision].bytes;
}

/// In cuBLAS's column-major terms: y^T [n, rows] = (w^T)^T [n, k] * x^T [k, rows].
int rnnc_cuda_blas_product(const rnnc_cuda_blas *blas, rnnc_precision precision, const void *x,
                           int64_t rows, int64_t k, const void *w, int64_t n, float *y,
                           int64_t y_stride)
{
    const float one = 1.0f, zero = 0.0f;
    const int type = precisions[precision].type;
    const char *from = x;
    int status = 0;
    for (int64_t done = 0; done < rows && !status; done += ROWS_AT_ONCE) {
        const int part = (int)(rows - done < ROWS_AT_ONCE ? rows - done : ROWS_AT_ONCE);
        status = blas->library->cublasGemmEx(
            blas->handle, OP_T, OP_N, (int)n, part, (int)k, &one, w, type, (int)k,
            from + (size_t)(done * k) * precisions[precision].bytes, type, (int)k, &zero,
            y + done * y_stride, REAL_32F, (int)y_stride, precisions[precision].compute,
            GEMM_DEFAULT);
    }
    return status;
}
