// Half floats: float16 (IEEE 754 binary16) and bfloat16 widened to float32, exactly.
#ifndef RNNC_IMPORT_FLOAT16_H
#define RNNC_IMPORT_FLOAT16_H

#include <stdint.h>

float float16_to_float(uint16_t bits);
float bfloat16_to_float(uint16_t bits);

#endif
