/* CUPTI's activity records, as far as a trace of kernels needs them, so that building takes no
 * CUPTI headers: the first fields of its structs, which newer versions only append to. Checked
 * against the headers by tests/unit/test_cupti_numbers.c where these are installed. */
#ifndef RNNC_CUDA_CUPTI_H
#define RNNC_CUDA_CUPTI_H

#include <stddef.h>
#include <stdint.h>

enum { CUPTI_KIND_MEMCPY = 1, CUPTI_KIND_MEMSET = 2, CUPTI_KIND_CONCURRENT_KERNEL = 10 };
enum { CUPTI_FLUSH_FORCED = 1 };

typedef struct __attribute__((packed, aligned(8))) {
    uint32_t kind;
} CuptiRecord;

/* CUpti_ActivityKernel4 (CUDA 9) to Kernel10 (CUDA 13). Times are nanoseconds. */
typedef struct __attribute__((packed, aligned(8))) {
    uint32_t kind;
    uint8_t cache_config, shared_config;
    uint16_t registers;
    uint32_t partitioned_requested, partitioned_executed;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], static_shared_bytes, dynamic_shared_bytes;
    uint32_t local_bytes_per_thread, local_bytes, correlation;
    int64_t grid_id;
    const char *name;
} CuptiKernel;

/* CUpti_ActivityMemcpy to Memcpy6 and CUpti_ActivityMemset to Memset4. */
typedef struct __attribute__((packed, aligned(8))) {
    uint32_t kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
} CuptiTransfer;

#endif
