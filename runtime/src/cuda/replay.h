/* Replay: runs as CUDA graphs. A run whose key (all that a graph would bake in) is that of the run
 * before is captured, and replayed from then on; so runs whose pointers change each time are not
 * captured for nothing. A few graphs are kept, the one that was used last longest. */
#ifndef RNNC_CUDA_REPLAY_H
#define RNNC_CUDA_REPLAY_H

#include <stdbool.h>

#include "../device.h"
#include "driver.h"

enum { RNNC_REPLAY_KEY_BYTES = 320, RNNC_REPLAY_GRAPHS = 4, RNNC_REPLAY_LAUNCHES_MAX = 1 << 14 };

/* All 0 to begin with. */
typedef struct {
    struct {
        unsigned char key[RNNC_REPLAY_KEY_BYTES];
        CUgraphExec executable; /* NULL: free */
        uint64_t used;          /* of the run that used it last */
    } graphs[RNNC_REPLAY_GRAPHS];
    unsigned char last[RNNC_REPLAY_KEY_BYTES];
    uint64_t runs;
    bool is_off; /* this stream cannot be captured */
} rnnc_cuda_replay;

/* The graph of this run, or NULL: `issue(context)` is to be called plainly. `key` has zeros where
 * it has padding, and at most RNNC_REPLAY_KEY_BYTES. Never inside another capture; nor where there
 * are more than RNNC_REPLAY_LAUNCHES_MAX `launches`. */
CUgraphExec rnnc_cuda_replay_find(rnnc_cuda_replay *replay, const rnnc_cuda_driver *cuda,
                                  CUstream stream, const void *key, size_t key_bytes,
                                  int64_t launches, rnnc_status (*issue)(void *context),
                                  void *context);

void rnnc_cuda_replay_close(rnnc_cuda_replay *replay, const rnnc_cuda_driver *cuda);

#endif
