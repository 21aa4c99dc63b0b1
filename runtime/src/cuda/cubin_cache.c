/* Cubin cache: see cubin_cache.h. A file is a header with length and checksum, then the cubin. */
#include "cubin_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../memory.h"

enum { PATH_BYTES = 1024, CUBIN_BYTES_MAX = 256 << 20 };

typedef struct {
    char magic[8];
    uint64_t bytes, checksum;
} Header;

static const char magic[8] = "rnncbin1";

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

static const uint64_t hash_start = 0xcbf29ce484222325u;

uint64_t rnnc_cubin_key(const char *source, const char *options, int arch, int nvrtc_version)
{
    int numbers[2] = {arch, nvrtc_version};
    uint64_t hash = hash_bytes(hash_start, source, strlen(source) + 1);
    hash = hash_bytes(hash, options, strlen(options) + 1);
    return hash_bytes(hash, numbers, sizeof numbers);
}

/* The cache's folder, made where it is missing; 0 where there is none. */
static int cache_folder(char *out_path)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (base && base[0] == '/')
        length = snprintf(out_path, PATH_BYTES, "%s", base);
    else if (home && home[0] == '/')
        length = snprintf(out_path, PATH_BYTES, "%s/.cache", home);
    else
        return 0;
    if (length < 0 || length > PATH_BYTES - 64)
        return 0;
    if (mkdir(out_path, 0700) != 0 && errno != EEXIST)
        return 0;
    strcat(out_path, "/rnnc");
    return mkdir(out_path, 0700) == 0 || errno == EEXIST;
}

static int cache_file(uint64_t key, char *out_path)
{
    if (!cache_folder(out_path))
        return 0;
    size_t length = strlen(out_path);
    snprintf(out_path + length, PATH_BYTES - length, "/%016llx.cubin", (unsigned long long)key);
    return 1;
}

void *rnnc_cubin_cache_read(uint64_t key)
{
    char path[PATH_BYTES];
    FILE *file = cache_file(key, path) ? fopen(path, "rb") : NULL;
    Header header;
    void *cubin = NULL;
    if (!file)
        return NULL;
    if (fread(&header, sizeof header, 1, file) == 1 &&
        memcmp(header.magic, magic, sizeof magic) == 0 && header.bytes > 0 &&
        header.bytes <= CUBIN_BYTES_MAX)
        cubin = rnnc_memory_alloc((size_t)header.bytes);
    if (cubin && (fread(cubin, (size_t)header.bytes, 1, file) != 1 ||
                  hash_bytes(hash_start, cubin, (size_t)header.bytes) != header.checksum)) {
        rnnc_memory_free(cubin);
        cubin = NULL;
    }
    fclose(file);
    return cubin;
}

void rnnc_cubin_cache_write(uint64_t key, const void *cubin, size_t bytes)
{
    char path[PATH_BYTES], temporary[PATH_BYTES + 8];
    if (!cache_file(key, path))
        return;
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int descriptor = mkstemp(temporary);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    Header header = {.bytes = bytes, .checksum = hash_bytes(hash_start, cubin, bytes)};
    memcpy(header.magic, magic, sizeof magic);
    int written =
        file && fwrite(&header, sizeof header, 1, file) == 1 && fwrite(cubin, bytes, 1, file) == 1;
    if (file && fclose(file) != 0)
        written = 0;
    else if (!file && descriptor >= 0)
        close(descriptor);
    if (descriptor >= 0 && (!written || rename(temporary, path) != 0))
        unlink(temporary);
}
