// Library calls: the calls of cuDNN that a model comes to, for comparison: one for each stack of
// layers of one kind and size.
#ifndef RNNC_BENCH_LIBRARY_CALLS_H
#define RNNC_BENCH_LIBRARY_CALLS_H

#include "model/model.h"
#include "rnnc/measure.h"

enum { LIBRARY_CALLS_MAX = 16 };

typedef struct {
    rnnc_cudnn_case calls[LIBRARY_CALLS_MAX];
    int count;
    const char *text; ///< what is called, and where the model is outside cuDNN's criteria, that
} LibraryCalls;

/// Where a cell is not one of cuDNN's, its tanh LSTM, GRU or RNN of the same sizes is called:
/// whichever has as many states and gates, or next to it. No cell layer: no call.
LibraryCalls library_calls(Arena *arena, const Model *model, int32_t ordinal, int64_t batch,
                           int64_t timesteps);

#endif
