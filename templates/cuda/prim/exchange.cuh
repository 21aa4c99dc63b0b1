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

/// Loads two packets (word, epoch, word, epoch) or four words, each as one, where `wanted`; `to`
/// stays as it is else.
static __device__ __forceinline__ void rnn_exchange_load(uint4 &to, const void *from, bool wanted)
{
    unsigned long long a = (unsigned long long)to.y << 32 | to.x;
    unsigned long long b = (unsigned long long)to.w << 32 | to.z;
    asm volatile("{\n\t.reg .pred wanted;\n\t"
                 "setp.ne.u32 wanted, %3, 0;\n\t"
                 "@wanted ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];\n\t}"
                 : "+l"(a), "+l"(b)
                 : "l"(from), "r"((unsigned)wanted)
                 : "memory");
    to = make_uint4((unsigned)a, (unsigned)(a >> 32), (unsigned)b, (unsigned)(b >> 32));
}

/// The bits in which `a` or `b` are not those of `mark`.
static __device__ __forceinline__ unsigned rnn_differ(unsigned a, unsigned b, unsigned mark)
{
    unsigned bits;
    asm("lop3.b32 %0, %1, %2, %3, 0x7e;" : "=r"(bits) : "r"(a), "r"(b), "r"(mark));
    return bits;
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
