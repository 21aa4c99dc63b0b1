// Text rows: see text_rows.h.
#include "train/text_rows.h"

#include "prim/philox.h"

/// Where a pass starts.
static int64_t pass_start(const TextRows *rows, int64_t pass)
{
    unsigned counter[4] = {(unsigned)pass, (unsigned)((uint64_t)pass >> 32), 0, 0x70617373};
    if (pass == 0)
        return 0;
    rnn_philox(counter, (unsigned)rows->seed, (unsigned)(rows->seed >> 32));
    return (int64_t)(((uint64_t)counter[0] << 32 | counter[1]) % (uint64_t)rows->count);
}

bool text_rows_take(const TextRows *rows, int64_t step, int32_t *inputs, int32_t *targets)
{
    const int64_t T = rows->timesteps, span = (rows->count - 1) / rows->rows;
    const int64_t steps = span / T, at = step % steps * T;
    const int64_t start = pass_start(rows, step / steps);
    for (int64_t row = 0; row < rows->rows; row++)
        for (int64_t t = 0; t < T; t++) {
            const int64_t place = start + row * span + at + t;
            inputs[row * T + t] = rows->tokens[place % rows->count];
            targets[row * T + t] = rows->tokens[(place + 1) % rows->count];
        }
    return at == 0;
}

int64_t text_rows_score(const TextRows *rows, int64_t used, int64_t chunk, int32_t *inputs,
                        int32_t *targets)
{
    const int64_t T = rows->timesteps, span = rows->count / used;
    int64_t count = 0;
    for (int64_t row = 0; row < rows->rows; row++)
        for (int64_t t = 0; t < T; t++) {
            const int64_t at = chunk * T + t;
            const bool counts = row < used && at + 1 < span;
            inputs[row * T + t] = counts ? rows->tokens[row * span + at] : 0;
            targets[row * T + t] = counts ? rows->tokens[row * span + at + 1] : -1;
            count += counts;
        }
    return count;
}
