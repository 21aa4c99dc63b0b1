// Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019): what
// torch.optim.AdamW computes. On the host, element by element in one order, so that a step gives
// the same bits wherever the gradients come from.
#ifndef RNNC_TRAIN_ADAM_H
#define RNNC_TRAIN_ADAM_H

#include <stdint.h>

typedef struct {
    double beta1, beta2, epsilon;
    double weight_decay; ///< each step multiplies weights by 1 - rate * weight_decay
} AdamOptions;

/// Step number `step`, from 1 on, of `count` weights. `gradient` is multiplied by `scale`; `mean`
/// and `square` are the moments, zeros before step 1.
void adam_step(const AdamOptions *options, int64_t step, double rate, double scale,
               const float *gradient, float *weights, float *mean, float *square, int64_t count);

#endif
