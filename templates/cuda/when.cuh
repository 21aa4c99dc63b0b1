// Where a row of the batch is in time: for kernels that are launched once a step.
#ifndef RNN_WHEN_CUH
#define RNN_WHEN_CUH

#include "cuda/cell.cuh"

/// A row's place in time at this step.
struct RnnWhen {
    bool takes; ///< the step: else its states stay
    bool last;  ///< it is the row's last
    long long time, position;
};

/// `step` has order, rows, timesteps and step, as RnnStep has.
template <class Step> RNN_INLINE RnnWhen rnn_when(const Step &step, long long row)
{
    RnnWhen when;
    long long last = step.timesteps - 1;
    if (step.order) {
        const RnnRow of = step.rows[row];
        when.takes = step.step < of.steps;
        when.last = step.step == of.steps - 1;
        when.time = when.takes ? __ldg(step.order + row * step.timesteps + step.step) : 0;
        last = of.last;
    } else {
        when.takes = true;
        when.last = step.step == last;
        when.time = RNN_REVERSED ? last - step.step : step.step;
    }
    when.position = RNN_GO_BACKWARDS ? last - when.time : when.time;
    return when;
}

#endif
