/* Timing on a stream: launches between two events, plain or as a captured graph. */
#ifndef RNNC_CUDA_TIMING_H
#define RNNC_CUDA_TIMING_H

#include "../error.h"
#include "driver.h"
#include "rnnc/measure.h"

/* Puts one run on the stream; leaves its message where its owner looks. */
typedef rnnc_status (*rnnc_cuda_launch)(void *context);

/* out_us[timing->samples] as rnnc_session_time says. The context must be current. */
rnnc_status rnnc_cuda_time(const rnnc_cuda_driver *cuda, CUstream stream, const rnnc_timing *timing,
                           rnnc_cuda_launch launch, void *context, rnnc_error *error,
                           double *out_us);

#endif
