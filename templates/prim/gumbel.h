/* Gumbel noise for drawing tokens: argmax(logit / temperature + noise) is distributed as
 * softmax(logit / temperature), and needs no pass for its sum (the Gumbel-max trick; Maddison,
 * Tarlow, Minka: A* sampling; NIPS 2014). The noise of a word of Philox has the same bits
 * everywhere: every step is one IEEE operation, never contracted to a multiply-add, and nothing
 * calls libm. Plain C that NVRTC accepts too; C code is compiled with -ffp-contract=off. */
#ifndef RNN_PRIM_GUMBEL_H
#define RNN_PRIM_GUMBEL_H

#include "prim/philox.h"

#ifdef __CUDACC__
#define RNN_STRICT_MUL(a, b) __fmul_rn(a, b)
#define RNN_STRICT_ADD(a, b) __fadd_rn(a, b)
#define RNN_FLOAT_BITS(x) __float_as_int(x)
#define RNN_BITS_FLOAT(x) __int_as_float(x)
#else
#define RNN_STRICT_MUL(a, b) ((a) * (b))
#define RNN_STRICT_ADD(a, b) ((a) + (b))
RNN_PHILOX_INLINE int RNN_FLOAT_BITS(float x)
{
    const union {
        float number;
        int bits;
    } both = {x};
    return both.bits;
}
RNN_PHILOX_INLINE float RNN_BITS_FLOAT(int x)
{
    const union {
        int bits;
        float number;
    } both = {x};
    return both.number;
}
#endif

/* The third word of Philox' counter, which keeps these draws apart from dropout's. */
#define RNN_GUMBEL_STREAM 0x67656e00u

/* The four words for tokens 4 * group and on of one draw, under a row's seed. */
RNN_PHILOX_INLINE void rnn_gumbel_words(unsigned int words[4], unsigned int group,
                                        unsigned long long draw, unsigned long long seed)
{
    words[0] = group;
    words[1] = (unsigned int)draw;
    words[2] = RNN_GUMBEL_STREAM;
    words[3] = (unsigned int)(draw >> 32);
    rnn_philox(words, (unsigned int)seed, (unsigned int)(seed >> 32));
}

/* ln((1 + f) * 2^n), 1 + f in [sqrt(1/2), sqrt(2)): the polynomial of Cephes' logf. */
RNN_PHILOX_INLINE float rnn_gumbel_log(float f, float n)
{
    const float square = RNN_STRICT_MUL(f, f);
    float q = 7.0376836292e-2f;
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, f), -1.1514610310e-1f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, f), 1.1676998740e-1f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, f), -1.2420140846e-1f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, f), 1.4249322787e-1f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, f), -1.6668057665e-1f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, f), 2.0000714765e-1f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, f), -2.4999993993e-1f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, f), 3.3333331174e-1f);
    q = RNN_STRICT_MUL(RNN_STRICT_MUL(q, f), square);
    q = RNN_STRICT_ADD(q, RNN_STRICT_MUL(n, -2.12194440e-4f));
    q = RNN_STRICT_ADD(q, RNN_STRICT_MUL(square, -0.5f));
    return RNN_STRICT_ADD(RNN_STRICT_ADD(f, q), RNN_STRICT_MUL(n, 0.693359375f));
}

/* x > 0, no subnormal, as (1 + f) * 2^n. */
RNN_PHILOX_INLINE void rnn_gumbel_split(float x, float *f, float *n)
{
    const int shifted = RNN_FLOAT_BITS(x) - 0x3f3504f3;
    *f = RNN_STRICT_ADD(RNN_BITS_FLOAT((shifted & 0x7fffff) + 0x3f3504f3), -1.0f);
    *n = (float)(shifted >> 23);
}

/* -ln(-ln(1 - v)), v = (word + 1/2) / 2^32: -3.13 to 22.87. Small v are taken as they are, so that
 * large noise is as fine as float32 allows. */
RNN_PHILOX_INLINE float rnn_gumbel(unsigned int word)
{
    const float v =
        RNN_STRICT_ADD(RNN_STRICT_MUL((float)word, 2.3283064365e-10f), 1.1641532183e-10f);
    const float rest =
        RNN_STRICT_ADD(RNN_STRICT_MUL((float)~word, 2.3283064365e-10f), 1.1641532183e-10f);
    float f, n;
    rnn_gumbel_split(rest, &f, &n);
    f = word < 0x40000000u ? -v : f;
    n = word < 0x40000000u ? 0.0f : n;
    const float exponential = -rnn_gumbel_log(f, n);
    rnn_gumbel_split(exponential, &f, &n);
    return -rnn_gumbel_log(f, n);
}

/* exp(x) for x <= 0, by Cephes' expf; 0 below -87. */
RNN_PHILOX_INLINE float rnn_gumbel_exp(float x)
{
    const float bounded = x < -87.0f ? -87.0f : x;
    const float shifted =
        RNN_STRICT_ADD(RNN_STRICT_MUL(bounded, 1.44269504088896341f), 12582912.0f);
    const float n = RNN_STRICT_ADD(shifted, -12582912.0f);
    float r = RNN_STRICT_ADD(bounded, RNN_STRICT_MUL(n, -0.693359375f));
    r = RNN_STRICT_ADD(r, RNN_STRICT_MUL(n, 2.12194440e-4f));
    float q = 1.9875691500e-4f;
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, r), 1.3981999507e-3f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, r), 8.3334519073e-3f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, r), 4.1665795894e-2f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, r), 1.6666665459e-1f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, r), 5.0000001201e-1f);
    q = RNN_STRICT_ADD(RNN_STRICT_MUL(q, RNN_STRICT_MUL(r, r)), RNN_STRICT_ADD(r, 1.0f));
    const float scaled =
        RNN_STRICT_MUL(q, RNN_BITS_FLOAT((RNN_FLOAT_BITS(shifted) - 0x4b400000 + 127) << 23));
    return x < -87.0f ? 0.0f : scaled;
}

#endif
