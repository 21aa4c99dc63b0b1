/* Replay: see replay.h. */
#include "replay.h"

#include <string.h>

/* Records a run into an executable graph; NULL where that is impossible here. */
static CUgraphExec capture(const rnnc_cuda_driver *cuda, CUstream stream,
                           rnnc_status (*issue)(void *context), void *context)
{
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    if (cuda->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        return NULL;
    const rnnc_status status = issue(context);
    const CUresult ended = cuda->cuStreamEndCapture(stream, &graph);
    if (status != RNNC_OK || ended || cuda->cuGraphInstantiateWithFlags(&executable, graph, 0))
        executable = NULL;
    if (graph)
        cuda->cuGraphDestroy(graph);
    return executable;
}

CUgraphExec rnnc_cuda_replay_find(rnnc_cuda_replay *replay, const rnnc_cuda_driver *cuda,
                                  CUstream stream, const void *key, size_t key_bytes,
                                  int64_t launches, rnnc_status (*issue)(void *context),
                                  void *context)
{
    int capturing = 0, oldest = 0;
    unsigned char wanted[RNNC_REPLAY_KEY_BYTES] = {0};
    if (!cuda->cuStreamIsCapturing(stream, &capturing) && capturing)
        return NULL;
    memcpy(wanted, key, key_bytes);
    const bool again = replay->runs > 0 && memcmp(wanted, replay->last, sizeof wanted) == 0;
    memcpy(replay->last, wanted, sizeof wanted);
    replay->runs++;
    for (int i = 0; i < RNNC_REPLAY_GRAPHS; i++) {
        if (replay->graphs[i].executable &&
            memcmp(wanted, replay->graphs[i].key, sizeof wanted) == 0) {
            replay->graphs[i].used = replay->runs;
            return replay->graphs[i].executable;
        }
        if (replay->graphs[i].used < replay->graphs[oldest].used)
            oldest = i;
    }
    if (!again || replay->is_off || launches > RNNC_REPLAY_LAUNCHES_MAX)
        return NULL;
    CUgraphExec made = capture(cuda, stream, issue, context);
    replay->is_off = !made;
    if (!made)
        return NULL;
    if (replay->graphs[oldest].executable)
        cuda->cuGraphExecDestroy(replay->graphs[oldest].executable);
    memcpy(replay->graphs[oldest].key, wanted, sizeof wanted);
    replay->graphs[oldest].executable = made;
    replay->graphs[oldest].used = replay->runs;
    return made;
}

void rnnc_cuda_replay_close(rnnc_cuda_replay *replay, const rnnc_cuda_driver *cuda)
{
    for (int i = 0; i < RNNC_REPLAY_GRAPHS; i++)
        if (replay->graphs[i].executable)
            cuda->cuGraphExecDestroy(replay->graphs[i].executable);
    memset(replay, 0, sizeof *replay);
}
