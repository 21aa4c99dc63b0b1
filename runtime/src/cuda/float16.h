/* Rounding of float32 to the 16-bit types, on the host: for weights packed there. The kernels' own
 * conversions give the same bits (a NaN stays one, its payload may differ). */
#ifndef RNNC_CUDA_FLOAT16_H
#define RNNC_CUDA_FLOAT16_H

#include <stdint.h>
#include <string.h>

/* Nearest float16, ties to even; beyond 65504 infinity, as cvt.rn.f16.f32. */
static inline uint16_t rnnc_to_float16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) // infinity and NaN
        return (uint16_t)(sign | 0x7c00u | (magnitude > 0x7f800000u ? 0x200u : 0u));
    if (magnitude >= 0x477ff000u) // rounds beyond 65504
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { // subnormal: let float addition round it
        float rounded;
        memcpy(&rounded, &magnitude, sizeof rounded);
        rounded += 0.5f; // the last mantissa bit is now 2^-24, the half's step
        uint32_t step;
        memcpy(&step, &rounded, sizeof step);
        return (uint16_t)(sign | (step - 0x3f000000u));
    }
    const uint32_t rebased = magnitude - 0x38000000u;
    return (uint16_t)(sign | ((rebased + 0xfffu + (rebased >> 13 & 1u)) >> 13));
}

/* Nearest bfloat16, ties to even. */
static inline uint16_t rnnc_to_bfloat16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
