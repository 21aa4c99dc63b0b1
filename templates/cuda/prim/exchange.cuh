// PTX wrappers: values that cross the chip through L2. What is written at once, 4 or 8 bytes, is
// seen as a whole, and says itself that it has arrived: a packet by the epoch beside its word, a
// word by a bit of its own. So there is no flag, no fence and no barrier between the CTAs of a
// grid.
#ifndef RNN_PRIM_EXCHANGE_CUH
#define RNN_PRIM_EXCHANGE_CUH

static __device__ __forceinline__ void rnn_word_store(void *to, unsigned word)
{
    asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}

/// Stores one packet; other SMs see both halves or neither.
static __device__ __forceinline__ void rnn_packet_store(void *to, unsigned word, unsigned epoch)
{
    const unsigned long long packet = (unsigned long long)epoch << 32 | word;
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(packet) : "memory");
}

/// Loads two packets (word, epoch, word, epoch) or four words, each as one.
static __device__ __forceinline__ uint4 rnn_exchange_load(const void *from)
{
    unsigned long long a, b;
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(a), "=l"(b)
                 : "l"(from)
                 : "memory");
    return make_uint4((unsigned)a, (unsigned)(a >> 32), (unsigned)b, (unsigned)(b >> 32));
}

// Flags say for the memory of others that it has been written: the fence, then the flag; the flag,
// then what it covers.

static __device__ __forceinline__ void rnn_fence_release()
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
static __device__ __forceinline__ void rnn_flag_store(unsigned *flag, unsigned value)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
/// Four flags.
static __device__ __forceinline__ uint4 rnn_flags_load(const unsigned *flags)
{
    uint4 values;
    asm volatile("ld.acquire.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(values.x), "=r"(values.y), "=r"(values.z), "=r"(values.w)
                 : "l"(flags)
                 : "memory");
    return values;
}

/// Lets some cycles of the SM's clock pass.
static __device__ __forceinline__ void rnn_pass(int cycles)
{
    const unsigned from = clock();
    while ((int)(clock() - from) < cycles) {
    }
}

#endif
