/* Launches that begin early: see launch.h. */
#include "launch.h"

enum { CU_FUNC_ATTRIBUTE_PTX_VERSION = 5, WAITS_FROM = 90 };
enum { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

bool rnnc_cuda_waits(const rnnc_cuda_driver *cuda, CUfunction function)
{
    int version = 0;
    return !cuda->cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, function) &&
           version >= WAITS_FROM;
}

CUlaunchAttribute rnnc_cuda_early(void)
{
    return (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
}
