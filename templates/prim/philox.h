/* Philox-4x32-10: a counter-based random number generator (Salmon, Moraes, Dror, Shaw: Parallel
 * random numbers: as easy as 1, 2, 3; SC 2011). Ten rounds turn a 128-bit counter and a 64-bit key
 * into 128 random bits, so that any element's bits can be had without those before it, and CPU and
 * GPU draw the same. Plain C that NVRTC accepts too; the compiler, CPU code and kernels share it.
 */
#ifndef RNN_PRIM_PHILOX_H
#define RNN_PRIM_PHILOX_H

#ifdef __CUDACC__
#define RNN_PHILOX_INLINE static __device__ __forceinline__
#else
#define RNN_PHILOX_INLINE static inline
#endif

/* Replaces the counter's four words by random ones under the key of two words. */
RNN_PHILOX_INLINE void rnn_philox(unsigned int counter[4], unsigned int key0, unsigned int key1)
{
    for (int round = 0; round < 10; round++) {
        const unsigned long long a = 0xd2511f53ull * counter[0];
        const unsigned long long b = 0xcd9e8d57ull * counter[2];
        counter[0] = (unsigned int)(b >> 32) ^ counter[1] ^ key0;
        counter[1] = (unsigned int)b;
        counter[2] = (unsigned int)(a >> 32) ^ counter[3] ^ key1;
        counter[3] = (unsigned int)a;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
}

/* One dropout of a run. `stream` tells the layer, twice its number and 1 more for the recurrent
 * operand; host code makes it, CPU code and kernels draw from it. */
typedef struct rnn_dropout {
    unsigned int key0, key1, stream;
    float kept;                   /* 1 / (1 - rate) */
    unsigned long long threshold; /* the rate in units of 2^-32, rounded up */
} rnn_dropout;

/* The stream of zoneout's draws: of a layer that draws, and one of its cell's states. */
RNN_PHILOX_INLINE unsigned int rnn_zoneout_stream(unsigned int layer, unsigned int state)
{
    return (2 * layer + 1) | (state + 1) << 24;
}

RNN_PHILOX_INLINE rnn_dropout rnn_dropout_make(unsigned long long seed, unsigned int stream,
                                               float rate)
{
    const double words = (double)rate * 4294967296.0;
    const unsigned long long below = (unsigned long long)words;
    rnn_dropout made;
    made.key0 = (unsigned int)seed;
    made.key1 = (unsigned int)(seed >> 32);
    made.stream = stream;
    made.kept = 1.0f / (1.0f - rate);
    made.threshold = below + ((double)below < words);
    return made;
}

/* 0 or `kept`: what dropout multiplies element `unit` of `row` by; `time` is 0 where one draw holds
 * for all steps. Kept where the first word is at least rate * 2^32. */
RNN_PHILOX_INLINE float rnn_dropout_scale(const rnn_dropout *draw, unsigned int unit,
                                          unsigned int row, unsigned int time)
{
    unsigned int counter[4] = {unit, row, draw->stream, time};
    rnn_philox(counter, draw->key0, draw->key1);
    return counter[0] >= draw->threshold ? draw->kept : 0.0f;
}

#endif
