// PTX wrappers: packets that cross the chip through L2. A packet is 8 bytes, a word and its epoch,
// read and written as one: the word says by its epoch that it has arrived, so there is no flag, no
// fence and no barrier between the CTAs of a grid.
#ifndef RNN_PRIM_PACKET_CUH
#define RNN_PRIM_PACKET_CUH

/// Stores one packet; other SMs see both halves or neither.
static __device__ __forceinline__ void rnn_packet_store(void *to, unsigned word, unsigned epoch)
{
    const unsigned long long packet = (unsigned long long)epoch << 32 | word;
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(packet) : "memory");
}

/// Loads two neighbouring packets, each as one; `v` is word, epoch, word, epoch.
static __device__ __forceinline__ uint4 rnn_packet_load2(const void *from)
{
    unsigned long long a, b;
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(a), "=l"(b)
                 : "l"(from)
                 : "memory");
    return make_uint4((unsigned)a, (unsigned)(a >> 32), (unsigned)b, (unsigned)(b >> 32));
}

#endif
