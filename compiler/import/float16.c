// Half floats: see float16.h.
#include "import/float16.h"

#include <math.h>
#include <string.h>

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float float16_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u;
    uint32_t fraction = bits & 0x3ffu;
    if (exponent == 31)
        return from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0)
        return copysignf(ldexpf((float)fraction, -24), from_bits(sign));
    return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

float bfloat16_to_float(uint16_t bits)
{
    return from_bits((uint32_t)bits << 16);
}
