// Dropout of the reference: Philox-4x32-10 as its paper gives it (Salmon, Moraes, Dror, Shaw 2011,
// section 3.3), and which of its bits drop what (design section 5).
#include "conform/reference.h"

static void philox_round(uint32_t counter[4], const uint32_t key[2])
{
    const uint64_t first = (uint64_t)counter[0] * 0xD2511F53u;
    const uint64_t second = (uint64_t)counter[2] * 0xCD9E8D57u;
    const uint32_t next[] = {(uint32_t)(second >> 32) ^ counter[1] ^ key[0], (uint32_t)second,
                             (uint32_t)(first >> 32) ^ counter[3] ^ key[1], (uint32_t)first};
    for (int k = 0; k < 4; k++)
        counter[k] = next[k];
}

void reference_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t round_key[] = {key[0], key[1]};
    for (int k = 0; k < 4; k++)
        out[k] = counter[k];
    for (int round = 0; round < 10; round++) {
        philox_round(out, round_key);
        round_key[0] += 0x9E3779B9u;
        round_key[1] += 0xBB67AE85u;
    }
}

double reference_dropout(uint64_t seed, const ReferenceDraw *draw, double rate)
{
    const uint32_t key[] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[] = {draw->unit, draw->row,
                                (draw->layer * 2 + draw->recurrent) + (draw->zoneout << 24),
                                draw->time};
    uint32_t bits[4];
    reference_philox(counter, key, bits);
    return (double)bits[0] * 0x1p-32 >= rate ? 1.0 / (1.0 - rate) : 0.0;
}
