/* Cubin cache: device code that was built on this machine for its own GPU, one file each, written
 * under a temporary name and renamed. A cache that cannot be read or written is as good as empty.
 */
#ifndef RNNC_CUDA_CUBIN_CACHE_H
#define RNNC_CUDA_CUBIN_CACHE_H

#include <stddef.h>
#include <stdint.h>

/* The key of a source compiled with options for an arch by one NVRTC version. */
uint64_t rnnc_cubin_key(const char *source, const char *options, int arch, int nvrtc_version);

/* The cubin as a block from rnnc_memory_alloc, or NULL. A file that does not hold its own checksum
 * is not taken. */
void *rnnc_cubin_cache_read(uint64_t key);

void rnnc_cubin_cache_write(uint64_t key, const void *cubin, size_t bytes);

#endif
