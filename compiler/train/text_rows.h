// Text rows: which characters a step of training takes. The text is a ring; a pass over it starts
// at a character of its own and cuts it into rows that lie side by side, each going on in the next
// step where this one left it:
//
//     row 0   |step 0|step 1|step 2| ...          targets: one character later
//     row 1   |step 0|step 1|step 2| ...
//
// Everything follows from the step's number, so that training can go on from any.
#ifndef RNNC_TRAIN_TEXT_ROWS_H
#define RNNC_TRAIN_TEXT_ROWS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const int32_t *tokens;
    int64_t count; ///< above rows * timesteps
    int64_t rows, timesteps;
    uint64_t seed; ///< of the passes' starts; the first pass starts at the first character
} TextRows;

/// Fills `inputs` and `targets`, [rows, timesteps] each, for step `step`. True: the rows start
/// anew, and their states with them.
bool text_rows_take(const TextRows *rows, int64_t step, int32_t *inputs, int32_t *targets);

/// The same for scoring: chunk `chunk` of a text that is read once, from its start. Targets beyond
/// the text, and rows beyond `used`, are -1. Returns how many there are besides.
int64_t text_rows_score(const TextRows *rows, int64_t used, int64_t chunk, int32_t *inputs,
                        int32_t *targets);

#endif
