// Host part of a module: the one exported symbol, and which instruction-set levels this machine
// has. `rnnc_desc` stands before this file. Compiled for the lowest level, so it runs anywhere.
#include "rnnc/module.h"

#ifdef __x86_64__
extern int rnnc_supports_v4(void), rnnc_supports_v3(void);

int rnnc_supports_v4(void)
{
    __builtin_cpu_init();
    return rnnc_supports_v3() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

int rnnc_supports_v3(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
#endif

extern int rnnc_supports_baseline(void);
int rnnc_supports_baseline(void)
{
    return 1;
}

RNNC_API const rnnc_module_desc *rnnc_module_query(uint32_t max_abi, const void *host);
const rnnc_module_desc *rnnc_module_query(uint32_t max_abi, const void *host)
{
    (void)host;
    return max_abi >= RNNC_ABI_MAJOR ? &rnnc_desc : NULL;
}
