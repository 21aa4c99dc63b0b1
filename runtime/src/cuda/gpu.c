/* What GPU there is, asked of the driver: rnnc_gpu_find. */
#include "../error.h"
#include "driver.h"
#include "rnnc/measure.h"

rnnc_status rnnc_gpu_find(int32_t ordinal, rnnc_gpu_facts *out_facts)
{
    if (!out_facts)
        return rnnc_error_set(NULL, RNNC_INVALID_ARGUMENT, "rnnc_gpu_find: out_facts is NULL");
    *out_facts = (rnnc_gpu_facts){0};
    const char *missing;
    const rnnc_cuda_driver *cuda = rnnc_cuda_driver_open(&missing);
    if (!cuda)
        return rnnc_error_set(NULL, RNNC_UNAVAILABLE, "%s", missing);
    int count = 0, major = 0, minor = 0, clock_khz = 0, sms = 0, version = 0;
    CUdevice device;
    cuda->cuDeviceGetCount(&count);
    if (ordinal < 0 || ordinal >= count || cuda->cuDeviceGet(&device, ordinal))
        return rnnc_error_set(NULL, RNNC_UNAVAILABLE, "there is no GPU %d here, %d in all",
                              (int)ordinal, count);
    cuda->cuDeviceGetName(out_facts->name, sizeof out_facts->name, device);
    cuda->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    cuda->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    cuda->cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    cuda->cuDeviceGetAttribute(&clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
    cuda->cuDriverGetVersion(&version);
    out_facts->arch = 10 * major + minor;
    out_facts->multiprocessors = sms;
    out_facts->clock_mhz = clock_khz / 1000;
    out_facts->driver_cuda = version;
    return RNNC_OK;
}
