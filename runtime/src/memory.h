// Memory: the runtime's one allocator for host memory. Blocks are aligned to 64 bytes, as the CPU
// code's vectors need, and zeroed.
#ifndef RNNC_RUNTIME_MEMORY_H
#define RNNC_RUNTIME_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/// Returns `bytes` zeroed bytes (at least one block), or NULL.
void *rnnc_memory_alloc(size_t bytes);
void rnnc_memory_free(void *memory);

/// Bytes that the calling thread has taken here, less those that it has freed.
int64_t rnnc_memory_held(void);

/// a * b * c * 4, the bytes of float32 values; SIZE_MAX where that does not fit, so that allocation
/// fails.
size_t rnnc_memory_float_bytes(int64_t a, int64_t b, int64_t c);

#endif
