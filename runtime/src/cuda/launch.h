/* Launches that begin early: a kernel that prepares what does not depend on the one before it on
 * its stream, and then waits for that one (templates/cuda/prim/early.cuh), may begin while that one
 * still runs ("programmatic dependent launch" in the CUDA programming guide, sm_90). */
#ifndef RNNC_CUDA_LAUNCH_H
#define RNNC_CUDA_LAUNCH_H

#include <stdbool.h>

#include "driver.h"

/* Whether the function's code waits: it was compiled for sm_90 or later. The driver may have
 * translated older PTX, in which the wait is left out. */
bool rnnc_cuda_waits(const rnnc_cuda_driver *cuda, CUfunction function);

/* The attribute that lets a launch begin early. All that the kernel touches before its wait must
 * have been written before the launch in front of it. */
CUlaunchAttribute rnnc_cuda_early(void);

#endif
