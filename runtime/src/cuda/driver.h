/* The CUDA driver, opened at run time: its functions as a table and the few types and numbers of
 * its API that the runtime needs, so that building takes no CUDA headers. */
#ifndef RNNC_CUDA_DRIVER_H
#define RNNC_CUDA_DRIVER_H

#include <stddef.h>

typedef int CUresult; /* 0: success */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum { CU_STREAM_NON_BLOCKING = 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 };
enum { CU_EVENT_DISABLE_TIMING = 2, CU_MEMHOSTALLOC_DEVICEMAP = 2 };
enum {
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

/* A launch with attributes, as cuda.h lays it out. */
enum { CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4 };
typedef struct {
    int id;
    char pad[4];
    union {
        char size[64];
        struct {
            unsigned x, y, z;
        } clusterDim;
        int cooperative;
        int programmaticStreamSerializationAllowed;
    } value;
} CUlaunchAttribute;
typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

typedef struct {
#define DRIVER_SYMBOL(name, exported, parameters) CUresult(*name) parameters;
#include "driver_symbols.def"
#undef DRIVER_SYMBOL
} rnnc_cuda_driver;

/* The driver, opened and initialised once a process; NULL, with the reason in `*out_reason` (static
 * storage), where there is none or it sees no GPU. Any thread. */
const rnnc_cuda_driver *rnnc_cuda_driver_open(const char **out_reason);

/* Bytes that the calling thread has allocated through cuMemAlloc of this table, less those that it
 * has freed. */
long long rnnc_cuda_memory_held(void);

/* Copies from host memory in the order of `stream`, and waits for that. The driver's copy without
 * a stream comes back while its last part is still on its way, and a stream that does not wait for
 * the default one then reads, or clears, the memory too early. */
CUresult rnnc_cuda_write(const rnnc_cuda_driver *cuda, CUstream stream, CUdeviceptr to,
                         const void *from, size_t bytes);

#endif
