// Sampler: draws a row's next token from its logits on the host, as rnnc_generate says. Every
// operation that decides is one IEEE operation, so that a device which draws by itself with
// prim/gumbel.h and prim/choices.h comes to the same token.
#ifndef RNNC_RUNTIME_SAMPLER_H
#define RNNC_RUNTIME_SAMPLER_H

#include <stdbool.h>

#include "error.h"

/// What holds for all rows and steps of a generation.
typedef struct {
    int64_t vocabulary;
    bool greedy;
    float inverse_temperature, top_p; ///< top_p 0: off
    int32_t top_k;                    ///< 0: off
    uint8_t *banned, *stops;          ///< [vocabulary], 1 where the token is
    float *scores;                    ///< scratch, [vocabulary] padded to whole blocks
    void *chances;                    ///< scratch, [vocabulary]
} rnnc_sampler;

/// Takes the choices of a generation; RNNC_INVALID_ARGUMENT names one that means nothing.
rnnc_status rnnc_sampler_open(rnnc_sampler *sampler, const rnnc_generation *generation,
                              int64_t vocabulary, rnnc_error *error);
void rnnc_sampler_close(rnnc_sampler *sampler);

/// The token for `logits` [vocabulary]; -1 where every logit is NaN or banned.
int32_t rnnc_sampler_draw(const rnnc_sampler *sampler, const float *logits, uint64_t seed,
                          uint64_t draw);

#endif
