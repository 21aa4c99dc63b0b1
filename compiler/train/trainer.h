// Trainer: trains a character model on a text. A step takes the next `timesteps` characters of each
// row with the state that the step before left, and changes the weights by Adam:
//
//     text rows -> forward -> loss -> backward -> norm, clipped -> Adam -> weights (-> average)
//
// Everything that a step depends on is in the checkpoint or follows from the step's number.
#ifndef RNNC_TRAIN_TRAINER_H
#define RNNC_TRAIN_TRAINER_H

#include "model/model.h"
#include "rnnc/rnnc.h"
#include "train/adam.h"

typedef struct {
    int64_t steps, rows, timesteps, warmup;
    double rate, final_rate; ///< the learning rate after the warm-up; its share at the end
    double clip;             ///< largest norm of the gradient; 0: any
    AdamOptions adam;
    double average;  ///< share that the weights' running average keeps; 0: no average
    double held_out; ///< share of the text, its end, that is not trained on
    int64_t evaluate_every, evaluate_rows, checkpoint_every;
    uint64_t seed;
    bool resume, find_nan;
    const char *output, *checkpoint, *log, *device; ///< log NULL: none
} TrainOptions;

/// The learning rate of step `step`, from 0 on: linear up to `rate` over the warm-up, times half a
/// cosine from 1 down to `final_rate` over all steps.
double train_rate(const TrainOptions *options, int64_t step);

/// Why a model cannot be trained on a text; NULL: it can.
const char *train_obstacle(const Model *model);

/// Trains on `count` tokens, scores on the held-out ones, prints progress to standard output, and
/// writes weights, checkpoints and log. Adds diagnostics and returns false on a fault. A signal
/// that would end the process ends training after the step, with a checkpoint.
bool train(Arena *arena, Diags *diags, const TrainOptions *options, const Model *model,
           rnnc_module *module, const int32_t *tokens, int64_t count);

#endif
