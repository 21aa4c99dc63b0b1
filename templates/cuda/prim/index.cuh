// The indices of an element of an array of two or three dimensions: one division for each
// dimension but the first. Long divisions are what element-wise kernels mostly consist of, in
// instructions and in the time to compile them.
#ifndef RNN_PRIM_INDEX_CUH
#define RNN_PRIM_INDEX_CUH

/// Element `i` of [.., middles, inners] is [outer, middle, inner].
struct RnnIndex {
    long long outer, middle, inner;
};

static __device__ __forceinline__ RnnIndex rnn_index(long long i, long long middles,
                                                     long long inners)
{
    const unsigned long long row = (unsigned long long)i / (unsigned long long)inners;
    const unsigned long long outer = row / (unsigned long long)middles;
    return {(long long)outer, (long long)row - (long long)outer * middles,
            i - (long long)row * inners};
}

#endif
